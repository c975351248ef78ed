"""States, condition types and reasons: closed lists, because people write alerts on them.

docs/states.md has the table of which state goes with which conditions; tests hold the two together.
"""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """The original's five words, on both kinds."""

    PENDING = "Pending"  # seen, nothing tried yet
    RUNNING = "Running"  # writes are under way
    SUCCEEDED = "Succeeded"  # the cluster says what the source says
    FAILED = "Failed"  # the newest wish could not be fulfilled
    STALE = "Stale"  # the last good state stands; source or cluster can't be reached, or has refused since


class ConditionType(StrEnum):
    READY = "Ready"
    RECONCILING = "Reconciling"
    STALLED = "Stalled"


class Reason(StrEnum):
    """Why. Those of the source (InfrahubError.reason) are a closed list of their own, in docs/infrahub-errors.md."""

    PROGRESSING = "Progressing"
    SUCCEEDED = "Succeeded"
    SUSPENDED = "Suspended"
    RETRYING = "Retrying"
    DELETING = "Deleting"
    # the sync's own
    CREDENTIALS_NOT_FOUND = "CredentialsNotFound"
    CREDENTIALS_INVALID = "CredentialsInvalid"
    EMPTY_ANSWER = "EmptyAnswer"
    ARTIFACT_FAILED = "ArtifactFailed"
    # the resource's own
    MANIFEST_INVALID = "ManifestInvalid"
    MANIFEST_EMPTY = "ManifestEmpty"
    CONFLICT = "Conflict"
    APPLY_FAILED = "ApplyFailed"
    PRUNE_FAILED = "PruneFailed"
    STATUS_TOO_LARGE = "StatusTooLarge"
    DESTINATION_UNKNOWN = "DestinationUnknown"
    CLUSTER_UNREACHABLE = "ClusterUnreachable"
    # both
    UNSUPPORTED = "Unsupported"
    INVALID_SPEC = "InvalidSpec"
    API_ERROR = "ApiError"
    INTERNAL_ERROR = "InternalError"

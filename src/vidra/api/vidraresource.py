"""VidraResource: a manifest, and where it is kept true. Stands on its own; a sync may have written it."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from vidra.api.common import Destination, Options, Status, Wire
from vidra.api.states import State

#: Entries of status.history.
HISTORY_MAX = 10


class VidraResourceSpec(Options):
    """What is wanted."""

    destination: Destination = Field(Destination(), description="Where the objects go.")
    manifest: str = Field("", description="The objects: YAML or JSON, several documents allowed.")
    compressed_manifest: str = Field(
        "", description="Instead of manifest, for large ones: the same text, gzipped, then base64."
    )
    reconciled_at: str | None = Field(
        None,
        description="Not read. The original operator wrote it to cause a reconcile; use the reconcile-request "
        "annotation.",
        json_schema_extra={"format": "date-time"},
    )


class ManagedResource(Wire):
    """One object of the inventory."""

    api_version: str = Field(..., description="Version it was applied in, such as apps/v1.")
    kind: str = Field(..., description="Kind, such as Deployment.")
    name: str = Field(..., description="Name.")
    namespace: str = Field("", description="Namespace; empty for cluster-scoped objects.")
    uid: str = Field("", description="The object's uid when it was applied last.")
    adopted: bool = Field(False, description="It was there before Vidra took it over: it is let go, never deleted.")
    seal: str = Field("", description="Digest of what was wanted and what the server made of it at the last apply.")
    health: str = Field("", description="Current, InProgress, Failed, Terminating or Unknown.")
    message: str = Field("", description="What keeps this object from being as it should be.")


class HistoryEntry(Wire):
    """One manifest that was applied with success."""

    manifest_digest: str = Field(..., description="Digest of the manifest.")
    time: str = Field(..., description="When it had first succeeded.", json_schema_extra={"format": "date-time"})
    objects: int = Field(0, description="How many objects it had.")


class FormerDestination(Wire):
    """A cluster that still has objects of before the resource went elsewhere."""

    server: str = Field("", description="API server of the cluster; empty is the one Vidra runs in.")
    managed_resources: tuple[ManagedResource, ...] = Field((), description="The objects that are still there.")


class VidraResourceStatus(Status):
    """What is the case."""

    deploy_state: State | None = Field(
        None, alias="DeployState", description="Pending, Running, Succeeded, Failed or Stale."
    )
    manifest_digest: str = Field("", description="Digest of the manifest that was applied last with success.")
    destination: Destination | None = Field(None, description="Where the inventory's objects are.")
    managed_resources: tuple[ManagedResource, ...] = Field(
        (), description="The inventory: every object this resource is responsible for."
    )
    former_destinations: tuple[FormerDestination, ...] = Field(
        (), description="Clusters the resource has left, until they are cleaned up."
    )
    history: tuple[HistoryEntry, ...] = Field((), description=f"The last {HISTORY_MAX} manifests that succeeded.")


class VidraResource(Wire):
    """Keeps the objects of one manifest true at one destination."""

    metadata: dict[str, Any] = Field(default_factory=dict)
    spec: VidraResourceSpec = VidraResourceSpec()
    status: VidraResourceStatus = VidraResourceStatus()

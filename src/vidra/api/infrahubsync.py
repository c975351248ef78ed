"""InfrahubSync: which artifacts to take from where, and where they go."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from vidra.api.common import URL_PATTERN, Destination, Options, SecretRef, Status, Wire
from vidra.api.states import State

#: Entries of status.artifacts; a sync of thousands would outgrow etcd otherwise.
ARTIFACTS_MAX = 500


class Source(Wire):
    """Where artifacts come from."""

    infrahub_api_url: str = Field(
        ...,
        alias="infrahubAPIURL",
        pattern=URL_PATTERN,
        max_length=2048,
        description="URL of the Infrahub server, such as https://infrahub.example.com.",
    )
    target_branch: str = Field(
        "main",
        min_length=1,
        max_length=250,
        description="Infrahub branch to read.",
        json_schema_extra={"server_default": "main"},
    )
    target_date: str = Field(
        "",
        max_length=64,
        description="Read the branch as it was: RFC 3339, or relative to now, such as -2h or now-2d. Empty is now.",
        json_schema_extra={
            "rule": "!self.contains('+') || self.matches('^[0-9]{4}-')",
            "rule_message": "a relative targetDate goes back in time: write -2h or now-2d, without a plus sign",
        },
    )
    artefact_name: str = Field(
        ..., min_length=1, max_length=1024, description="Name of the artifacts to take (the artifact definition's)."
    )
    query_name: str = Field(
        "",
        max_length=253,
        description="Stored GraphQL query that lists the artifacts. Empty: the ConfigMap's queryName, else a query "
        "of Vidra's own.",
    )
    credentials_secret_ref: SecretRef | None = Field(
        None,
        description="Secret with username and password, or with token. Without it, the Secret labelled "
        "infrahub-api-url=<host> is taken.",
    )


class InfrahubSyncSpec(Options):
    """What is wanted."""

    source: Source = Field(..., description="Where the artifacts come from.")
    destination: Destination = Field(Destination(), description="Where their objects go.")


class ArtifactStatus(Wire):
    """One artifact as the last successful query had it."""

    id: str = Field(..., description="Infrahub's id of the artifact.")
    target: str = Field("", description="What the artifact was rendered for.")
    status: str = Field("", description="Infrahub's word: Ready, Pending, Processing or Error.")
    checksum: str = Field("", description="Checksum of the content that is served.")
    resource: str = Field("", description="Name of the VidraResource.")
    message: str = Field("", description="What keeps this artifact from being up to date.")


class InfrahubSyncStatus(Status):
    """What is the case."""

    sync_state: State | None = Field(None, description="Pending, Running, Succeeded, Failed or Stale.")
    checksums: tuple[str, ...] = Field((), description="Checksums of the artifacts served, as the original lists them.")
    artifact_count: int = Field(0, description="How many artifacts the last successful query had.")
    artifacts: tuple[ArtifactStatus, ...] = Field(
        (), description=f"The artifacts, those with a message first; at most {ARTIFACTS_MAX}."
    )


class InfrahubSync(Wire):
    """Takes the artifacts of one name from an Infrahub branch and keeps a VidraResource for each of them."""

    metadata: dict[str, Any] = Field(default_factory=dict)
    spec: InfrahubSyncSpec
    status: InfrahubSyncStatus = InfrahubSyncStatus()

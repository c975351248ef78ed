"""What both kinds share: the destination, and the options that a sync hands down to its resources.

Field descriptions are what ``kubectl explain`` shows. Defaults that the original wrote into objects are marked with
``server_default``; all others stay out of the stored object, so that its text is what its author wrote.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from vidra.api import durations

#: The original's pattern, widened by IPv6 hosts, by dots, underscores and tildes in the path, and a last slash.
URL_PATTERN = r"^(http|https)://([a-zA-Z0-9.-]+|\[[0-9a-fA-F:.]+\])(:[0-9]+)?(/[a-zA-Z0-9._~-]+)*/?$"


class Wire(BaseModel):
    """A part of an API object: camelCase on the wire; fields we don't know are kept by the server and ignored here."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True)

    def wire(self) -> dict[str, Any]:
        """As the API server has it: only what was set to something other than its default."""
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=True)


def _is_duration(text: str) -> str:
    durations.parse_duration(text)
    return text


GoDuration = Annotated[str, Field(pattern=durations.PATTERN, max_length=32), AfterValidator(_is_duration)]


class DeletionPolicy(StrEnum):
    DELETE = "Delete"
    ORPHAN = "Orphan"


class DriftPolicy(StrEnum):
    CORRECT = "Correct"
    DETECT = "Detect"


class Destination(Wire):
    """Where objects go."""

    server: str = Field(
        "",
        pattern=f"^$|{URL_PATTERN}",
        description="API server of the destination cluster. Empty or https://kubernetes.default.svc is the cluster "
        "Vidra runs in; any other needs a Secret labelled cluster-kubeconfig.",
    )
    namespace: str = Field(
        "", max_length=63, description="Namespace for objects that name none. Without it they go to default."
    )
    reconcile_on_events: bool = Field(
        False,
        description="Reconcile as soon as a managed object changes, instead of at the next interval.",
        json_schema_extra={"server_default": False},
    )


class TargetSelector(Wire):
    """Which objects an ignore rule is for; what is left out matches all."""

    group: str = Field("", description="API group of the objects; empty matches all.")
    kind: str = Field("", description="Kind of the objects; empty matches all.")
    name: str = Field("", description="Name of the object; empty matches all.")
    namespace: str = Field("", description="Namespace of the objects; empty matches all.")


class IgnoreRule(Wire):
    """Fields whose live value is left to others."""

    target: TargetSelector = Field(TargetSelector(), description="The objects the rule is for.")
    paths: tuple[str, ...] = Field((), description="JSON pointers (RFC 6901) of the fields, such as /spec/replicas.")


class Options(Wire):
    """How a sync or a resource is handled. A sync's options go down to each of its resources."""

    suspend: bool = Field(False, description="Stop reconciling until false again. What is deployed stays.")
    interval: GoDuration | None = Field(
        None, description="Time between two checks when nothing changes, such as 10m. 0 checks on changes only."
    )
    retry_interval: GoDuration | None = Field(
        None, description="Time until the next try after a failure. Without it tries are spaced exponentially."
    )
    prune: bool = Field(True, description="Delete objects that left the manifest. Default true.")
    adopt: bool = Field(
        False, description="Take over objects that exist and are managed by nobody of Vidra. Default false: a Conflict."
    )
    allow_empty: bool = Field(
        False,
        description="Accept an empty manifest, or an empty answer of the source, as the wish to prune all. "
        "Default false.",
    )
    deletion_policy: DeletionPolicy = Field(
        DeletionPolicy.DELETE, description="What deleting this means for its objects: Delete (default) or Orphan."
    )
    wait: bool = Field(False, description="Hold Ready until the applied objects are healthy. Default false.")
    timeout: GoDuration | None = Field(None, description="Longest wait for healthy objects, such as 5m.")
    force: bool = Field(
        False,
        description="Delete and recreate an object whose change the server refuses because a field is immutable. "
        "Never Namespace, PersistentVolume, PersistentVolumeClaim or CustomResourceDefinition. Default false.",
    )
    service_account_name: str = Field(
        "",
        max_length=317,
        pattern=r"^$|^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?/[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?$",
        description="namespace/name of the ServiceAccount to act as at the destination.",
    )
    drift_policy: DriftPolicy = Field(
        DriftPolicy.CORRECT, description="What to do about drift: Correct (default) or Detect."
    )
    ignore: tuple[IgnoreRule, ...] = Field((), description="Fields whose live value is left to others.")
    depends_on: tuple[str, ...] = Field((), description="Resources, by name, that must be Ready before this one.")

    def unsupported(self) -> tuple[str, ...]:
        """Fields that are set and that this version does not act on. An option must never be ignored in silence."""
        asked = {
            "spec.wait": self.wait,
            "spec.timeout": self.timeout is not None,
            "spec.dependsOn": bool(self.depends_on),
        }
        return tuple(name for name, is_set in asked.items() if is_set)


class LeavingSpec(Wire):
    """All that a deletion reads of either kind's spec, so that nothing else in it can stand in the way."""

    destination: Destination = Destination()
    deletion_policy: DeletionPolicy = DeletionPolicy.DELETE
    service_account_name: str = ""


class SecretRef(Wire):
    """A Secret by name, and by namespace where that is not the operator's own."""

    name: str = Field(..., min_length=1, max_length=253, description="Name of the Secret.")
    namespace: str = Field("", max_length=63, description="Namespace of the Secret; empty is the operator's own.")


class Condition(Wire):
    """One aspect of the state, as metav1.Condition."""

    type: str = Field(..., max_length=316, description="Ready, Reconciling or Stalled.")
    status: str = Field(..., description="True, False or Unknown.", json_schema_extra={"values": "True False Unknown"})
    reason: str = Field(..., min_length=1, max_length=1024, description="One word of a closed list that says why.")
    message: str = Field("", max_length=32768, description="What happened, for people.")
    observed_generation: int = Field(0, ge=0, description="Generation of the object this speaks of.")
    last_transition_time: str = Field(
        ..., description="When status changed last.", json_schema_extra={"format": "date-time"}
    )


class Status(Wire):
    """What both kinds tell of themselves."""

    last_error: str = Field("", description="The last error. Stays while tries go on, goes with the next success.")
    last_sync_time: str | None = Field(
        None, description="When the last successful reconcile ended.", json_schema_extra={"format": "date-time"}
    )
    last_attempt_time: str | None = Field(
        None, description="When the last reconcile ended, successful or not.", json_schema_extra={"format": "date-time"}
    )
    observed_generation: int = Field(0, ge=0, description="Generation the last reconcile acted on.")
    last_handled_reconcile_at: str = Field(
        "", description="Value of the reconcile-request annotation that was answered last."
    )
    conditions: tuple[Condition, ...] = Field((), description="Ready, Reconciling and Stalled.")

"""What is to be applied, on whose behalf, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from vidra.api import names
from vidra.deploy.ignore import Pointer
from vidra.deploy.inventory import Entry
from vidra.kube.client import Obj
from vidra.kube.resource import ObjectKey, Resource
from vidra.runtime.digest import json_digest
from vidra.runtime.observed import Observed


@dataclass(frozen=True, slots=True)
class Wanted:
    """One object as its resource wants it: ``body`` with Vidra's label and without the ``ignored`` fields, whose live
    values are left to others; ``initial`` has them too, for an object that isn't there yet. ``where`` is for
    messages."""

    key: ObjectKey
    resource: Resource
    body: Obj
    digest: str
    where: str
    initial: Obj = field(default_factory=dict)
    ignored: tuple[Pointer, ...] = ()

    def annotation(self, name: str) -> str | None:
        value = (self.body["metadata"].get("annotations") or {}).get(name)
        return None if value is None else str(value)

    @property
    def is_once(self) -> bool:
        """Its manifest asks for it to be created, and not to be changed after that."""
        return self.annotation(names.APPLY_ANNOTATION) == names.ONCE

    def left_alone(self, live: Observed | None) -> str | None:
        """Why the object is not to be touched, by its manifest or by an annotation that somebody put on it."""
        annotated = {} if live is None else live.annotations
        disabled = (self.annotation(names.RECONCILE_ANNOTATION), annotated.get(names.RECONCILE_ANNOTATION))
        if names.DISABLED in disabled:
            return f"left alone: annotated {names.RECONCILE_ANNOTATION}={names.DISABLED}"
        if live is not None and (self.is_once or annotated.get(names.APPLY_ANNOTATION) == names.ONCE):
            return f"left as it is: annotated {names.APPLY_ANNOTATION}={names.ONCE}"
        return None


@dataclass(frozen=True, slots=True)
class Applicant:
    """On whose behalf: the resource's name, its sync's field manager, and what it allows. ``detect``: nothing is
    written, what would be is told."""

    resource: str
    manager: str
    adopt: bool = False
    force: bool = False
    detect: bool = False


class Action(StrEnum):
    CREATED = "created"
    CONFIGURED = "configured"
    UNCHANGED = "unchanged"
    ADOPTED = "adopted"
    RECREATED = "recreated"
    DRIFTED = "drifted"  # and left so

    @property
    def is_write(self) -> bool:
        return self not in (Action.UNCHANGED, Action.DRIFTED)


@dataclass(frozen=True, slots=True)
class Applied:
    """``entry`` is what the inventory is to say of the object."""

    entry: Entry
    action: Action
    warnings: tuple[str, ...] = ()


#: The last seal of each object, by field manager; shared by all who apply to one cluster.
Seals: TypeAlias = dict[tuple[str, ObjectKey], str]


def seal(wanted: str, live: str) -> str:
    """Says: this wish was applied, and the server made that of it. Both digests, in 16 hex digits."""
    return json_digest([wanted, live])[:16]

"""Events of events.k8s.io/v1 as they are written: what they are about, and what their texts may be.

When and how often they are written is :mod:`vidra.runtime.events`'.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from vidra.kube.client import Obj
from vidra.kube.resource import Resource

EVENTS: Final = Resource("events.k8s.io", "v1", "Event", "events", namespaced=True)
EventType: TypeAlias = Literal["Normal", "Warning"]

#: The API's own limits: bytes of a note, characters of the short texts.
MAX_NOTE: Final = 1024
MAX_WORD: Final = 128

_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


class Ref(NamedTuple):
    """An object that events are about. ``namespace`` is "" for a cluster-scoped one."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    @classmethod
    def of(cls, obj: Mapping[str, Any]) -> Ref:
        """The reference to a raw object."""
        metadata = obj.get("metadata") or {}
        return cls(
            obj.get("apiVersion") or "",
            obj.get("kind") or "",
            metadata.get("namespace") or "",
            metadata.get("name") or "",
            metadata.get("uid") or "",
        )

    def wire(self) -> Obj:
        # No resourceVersion: with one, the same thing on a later version of the object would be another thing.
        names = ("apiVersion", "kind", "namespace", "name", "uid")
        return {name: value for name, value in zip(names, self, strict=True) if value}


class Happening(NamedTuple):
    """What makes two events the same one."""

    type: EventType
    action: str
    reason: str
    regarding: Ref
    related: Ref | None

    @property
    def namespace(self) -> str:
        """Where its Event is written. The API wants those about cluster-scoped objects in ``default``."""
        return self.regarding.namespace or "default"

    def body(self, *, name: str, note: str, first: str, reporter: Mapping[str, str]) -> Obj:
        """A new Event. ``first`` is a MicroTime."""
        return {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": name, "namespace": self.namespace},
            "eventTime": first,
            "type": self.type,
            "reason": self.reason,
            "action": self.action,
            "note": note,
            "regarding": self.regarding.wire(),
            **({"related": self.related.wire()} if self.related is not None else {}),
            **reporter,
        }


def happening(
    regarding: Mapping[str, Any] | Ref,
    *,
    type: EventType,  # noqa: A002 - the API's word
    reason: str,
    action: str,
    related: Mapping[str, Any] | Ref | None,
) -> Happening:
    return Happening(
        type, action[:MAX_WORD], reason[:MAX_WORD], _ref(regarding), None if related is None else _ref(related)
    )


def new_name(about: Ref) -> str:
    """A name nobody has, by which people see what the Event is about."""
    start = about.name[:220].rstrip("-.")
    return f"{start if _SUBDOMAIN.fullmatch(start) else 'event'}.{uuid.uuid4().hex[:16]}"


def shorten(note: str) -> str:
    """``note``, or as much of it as an Event takes."""
    data = note.encode("utf-8", "replace")
    if len(data) <= MAX_NOTE:
        return data.decode()
    end = "…"
    return data[: MAX_NOTE - len(end.encode())].decode("utf-8", "ignore") + end


def _ref(obj: Mapping[str, Any] | Ref) -> Ref:
    return obj if isinstance(obj, Ref) else Ref.of(obj)

"""Which events are worth a look: small values over :class:`Event`, composed with ``&``, ``|`` and ``~``.

    watched = generation_changed | annotation_changed("example.org/requested-at")
    if watched(event): queue.add(key)

Creates and deletes always pass; predicates choose among updates. An update that changes the uid is a delete and a
create in one and always passes. Only ``label_selected`` says otherwise: objects outside its selector don't exist for
it, so leaving the selector is a delete and entering it a create (and passes, whatever it is composed with). ``~`` turns
the choice among updates around and leaves creates, deletes and selections alone: to select the opposite, negate the
selector.

What passes, for updates that change nothing but what the row says (managedFields and resourceVersion change with them):

| update                     | generation | content | labels | annotation | finalizers | deletion | version | selected |
|----------------------------|------------|---------|--------|------------|------------|----------|---------|----------|
| spec                       | yes        | yes     | -      | -          | -          | -        | yes     | yes      |
| status                     | -          | -       | -      | -          | -          | -        | yes     | yes      |
| a label                    | -          | yes     | yes    | -          | -          | -        | yes     | yes      |
| the named annotation       | -          | yes     | -      | yes        | -          | -        | yes     | yes      |
| another annotation         | -          | yes     | -      | -          | -          | -        | yes     | yes      |
| finalizers                 | -          | yes     | -      | -          | yes        | -        | yes     | yes      |
| owner references           | -          | yes     | -      | -          | -          | -        | yes     | yes      |
| deletionTimestamp set      | yes        | yes     | -      | -          | -          | yes      | yes     | yes      |
| nothing else               | -          | -       | -      | -          | -          | -        | yes     | yes      |
| nothing at all (a resync)  | -          | -       | -      | -          | -          | -        | -       | yes      |
| no generation: data        | yes        | yes     | -      | -          | -          | -        | yes     | yes      |
| no generation: a label     | -          | yes     | yes    | -          | -          | -        | yes     | yes      |
| no generation: deletion    | yes        | yes     | -      | -          | -          | yes      | yes     | yes      |
| into the selector          | -          | yes     | yes    | -          | -          | -        | yes     | yes      |
| out of the selector        | -          | yes     | yes    | -          | -          | -        | yes     | yes      |
| outside the selector: spec | yes        | yes     | -      | -          | -          | -        | yes     | -        |
| another uid                | yes        | yes     | yes    | yes        | yes        | yes      | yes     | yes      |

Predicates save work, not memory: what isn't to be held must not be watched, or be stripped when it comes in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from vidra.runtime.digest import content_digest, json_digest
from vidra.runtime.selector import Selector

Object = Mapping[str, Any]


class EventType(Enum):
    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Event:
    """What happened to one object: ``old`` is None for a create, ``new`` for a delete, neither for an update.

    The objects are raw and may be shared: read only. Raises ValueError when type and objects disagree.
    """

    type: EventType
    old: Object | None
    new: Object | None

    def __post_init__(self) -> None:
        if (self.old is None, self.new is None) != _ABSENT[self.type]:
            raise ValueError(f"a {self.type.value} with old={self.old is not None} and new={self.new is not None}")

    @classmethod
    def of(cls, old: Object | None, new: Object | None) -> Event:
        """The event between two states. Raises ValueError when there is neither."""
        if old is None:
            return cls(EventType.CREATE, None, new)
        return cls(EventType.DELETE if new is None else EventType.UPDATE, old, new)


_ABSENT: Final = {
    EventType.CREATE: (True, False),
    EventType.UPDATE: (False, False),
    EventType.DELETE: (False, True),
}

#: Whether an update passes, of the old and the new object.
_Test = Callable[[Object, Object], bool]
#: Whether an object is seen at all.
_Selects = Callable[[Object], bool]


@dataclass(frozen=True, slots=True)
class Predicate:
    """Answers whether an event passes. Made by this module's values and functions and by composing them.

    It has two halves: the objects it sees at all (``selects``, None: all) and its choice among updates of those.
    Composing joins the halves separately, so that a selection holds for a whole ``&``: an object that leaves the
    selector by a mere label is gone for ``generation_changed & label_selected(...)`` too.
    """

    text: str
    passes: _Test
    selects: _Selects | None = None

    def view(self, event: Event) -> Event | None:
        """The event as it looks for somebody who sees only the selected objects; None: it isn't seen at all."""
        if self.selects is None:
            return event
        old = event.old if event.old is not None and self.selects(event.old) else None
        new = event.new if event.new is not None and self.selects(event.new) else None
        if old is event.old and new is event.new:
            return event
        return None if old is None and new is None else Event.of(old, new)

    def __call__(self, event: Event) -> bool:
        seen = self.view(event)
        if seen is None:
            return False
        if seen.old is None or seen.new is None:
            return True
        return _replaced(seen.old, seen.new) or self.passes(seen.old, seen.new)

    def __and__(self, other: Predicate) -> Predicate:
        return Predicate(
            f"({self.text} & {other.text})",
            lambda old, new: self.passes(old, new) and other.passes(old, new),
            _both(self.selects, other.selects),
        )

    def __or__(self, other: Predicate) -> Predicate:
        return Predicate(
            f"({self.text} | {other.text})",
            # Each side looks with its own eyes: the object may have come into view for one of them only.
            lambda old, new: self(Event.of(old, new)) or other(Event.of(old, new)),
            _either(self.selects, other.selects),
        )

    def __invert__(self) -> Predicate:
        return Predicate(f"~{self.text}", lambda old, new: not self.passes(old, new), self.selects)

    def __repr__(self) -> str:
        return self.text


def _both(one: _Selects | None, two: _Selects | None) -> _Selects | None:
    if one is None or two is None:
        return one or two
    return lambda obj: one(obj) and two(obj)


def _either(one: _Selects | None, two: _Selects | None) -> _Selects | None:
    if one is None or two is None:
        return None
    return lambda obj: one(obj) or two(obj)


def _metadata(obj: Object) -> Mapping[str, Any]:
    return obj.get("metadata") or {}


def _replaced(old: Object, new: Object) -> bool:
    return bool(_metadata(old).get("uid") != _metadata(new).get("uid"))


def _differs(field: str) -> _Test:
    """Whether a list or map of the metadata differs; absent, null and empty are the same."""
    return lambda old, new: (_metadata(old).get(field) or None) != (_metadata(new).get(field) or None)


def _deletion_starts(old: Object, new: Object) -> bool:
    return not _metadata(old).get("deletionTimestamp") and bool(_metadata(new).get("deletionTimestamp"))


def _body_digest(obj: Object) -> str:
    return json_digest({name: value for name, value in obj.items() if name not in ("metadata", "status")})


def _generation_differs(old: Object, new: Object) -> bool:
    before, after = _metadata(old).get("generation"), _metadata(new).get("generation")
    if before or after:
        return bool(before != after)
    return _deletion_starts(old, new) or _body_digest(old) != _body_digest(new)


#: The server raises metadata.generation when what somebody wants changes (the spec, or that it shall go), never for a
#: status or metadata. Kinds that have none are compared here by the same rule: body or start of deletion.
generation_changed: Final = Predicate("generation_changed", _generation_differs)

#: Anything but status, managedFields, resourceVersion and generation. Costs two digests of the whole object.
content_changed: Final = Predicate("content_changed", lambda old, new: content_digest(old) != content_digest(new))

labels_changed: Final = Predicate("labels_changed", _differs("labels"))

finalizers_changed: Final = Predicate("finalizers_changed", _differs("finalizers"))

#: Somebody asked for the object's deletion and a finalizer still holds it.
deletion_started: Final = Predicate("deletion_started", _deletion_starts)

#: Any write at all: drops only resyncs, which tell again what is known already.
resource_version_changed: Final = Predicate(
    "resource_version_changed",
    lambda old, new: _metadata(old).get("resourceVersion") != _metadata(new).get("resourceVersion"),
)


def annotation_changed(key: str) -> Predicate:
    """The annotation ``key`` was set, changed or removed."""

    def value(obj: Object) -> object:
        return (_metadata(obj).get("annotations") or {}).get(key)

    return Predicate(f"annotation_changed({key!r})", lambda old, new: value(old) != value(new))


def label_selected(selector: str) -> Predicate:
    """Only objects the label selector selects; see the module's text. Raises ValueError for what is no selector."""
    return Predicate(f"label_selected({selector!r})", lambda _old, _new: True, Selector.parse(selector).matches)

"""YAML text -> plain values, by Kubernetes' rules and within bounds.

libyaml does the parsing and hands over events, one at a time; the values are built here, without recursion. So a
duplicate key, an alias bomb or a million brackets is an error with a line, in time and memory that the text's own
length bounds. What comes out is JSON-like throughout, shares no parts (an alias is a copy), and has text keys only.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

from yaml import CSafeLoader, MarkedYAMLError
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)
from yaml.reader import ReaderError

from vidra.deploy import scalars
from vidra.deploy.yaml_faults import ReadError, syntax_error, unprintable
from vidra.deploy.yaml_limits import DEFAULT_LIMITS, Expansion, Limits, copy, measure


class Node(NamedTuple):
    """A document's value and the line it starts on."""

    line: int
    value: Any


#: Where children were written: (id of the list or map, index or key) -> line. Valid while the value lives.
Places = dict[tuple[int, Any], int]

_NO_KEY: Any = object()  # the next scalar of a map is a key
_MERGE: Any = object()  # the key <<
_SPECIAL_KEYS = frozenset({"<<", "", "~", "null", "Null", "NULL"})
_OPEN: Any = object()  # an anchor whose list or map hasn't ended


def read_yaml(
    text: str,
    *,
    first_line: int = 1,
    limits: Limits = DEFAULT_LIMITS,
    expansion: Expansion | None = None,
    places: Places | None = None,
) -> list[Node]:
    """The documents of ``text``, whose first line has the number ``first_line``. Raises :class:`ReadError`.

    ``expansion`` is shared between the parts of one text; ``places`` is filled with the lines of all values.
    """
    reader = _Reader(text, first_line, limits, expansion or Expansion(), places)
    try:
        return reader.documents()
    except MarkedYAMLError as error:
        fault = syntax_error(error, text, first_line)
    except (ReaderError, UnicodeEncodeError):
        fault = unprintable(text, None, first_line)
    except ReadError as error:
        fault = error
    if fault.position:  # libyaml looks at characters long before it parses them
        with suppress(MarkedYAMLError, ReaderError, ReadError):
            reader = _Reader(text[: fault.position], first_line, limits, Expansion(), None)
            reader.documents()
    fault.partial = reader.root[0] if reader.root else None
    raise fault


class _Frame:
    """A list or map under construction: the key whose value comes next, and what is to be merged in at its end."""

    __slots__ = ("anchor", "key", "merges", "target")

    def __init__(self, target: Any, anchor: str | None) -> None:
        self.target = target
        self.anchor = anchor
        self.key: Any = _NO_KEY
        self.merges: list[tuple[Any, int]] = []


@dataclass(slots=True)
class _Reader:
    text: str
    first_line: int
    limits: Limits
    expansion: Expansion
    places: Places | None
    anchors: dict[str, Any] = field(default_factory=dict)
    measures: dict[str, tuple[int, int]] = field(default_factory=dict)
    #: The current document as a list of one, so that its value needs no case of its own.
    root: list[Any] = field(default_factory=list)

    def documents(self) -> list[Node]:
        next_event = CSafeLoader(self.text).get_event
        found: list[Node] = []
        while (event := next_event()) is not None:
            if type(event) is DocumentStartEvent:
                if len(found) >= self.limits.documents:
                    self._fail(event, f"the manifest holds more than {self.limits.documents} documents")
                self.anchors, self.measures = {}, {}
                found.append(self._document(next_event))
        return found

    def _document(self, next_event: Any) -> Node:
        """One document's value. The loop is the hot path: about 150 events in a kilobyte."""
        places, max_depth = self.places, self.limits.depth
        root: list[Any] = []
        self.root = root
        root_line = 0
        stack: list[_Frame] = []
        frame = _Frame(root, None)
        target: Any = root
        in_map = False
        while True:
            event = next_event()
            kind = type(event)
            if kind is ScalarEvent:
                bare = event.tag is None and event.anchor is None
                if in_map and frame.key is _NO_KEY:
                    key = event.value
                    known = bare and key not in _SPECIAL_KEYS and key not in target
                    frame.key = key if known else self._key(event, target, frame)
                    continue
                value = event.value if bare and not event.implicit[0] else self._scalar(event)
            elif kind is MappingStartEvent or kind is SequenceStartEvent:
                if in_map and frame.key is _NO_KEY:
                    self._fail(event, "a key must be a word, not a list or a map")
                if len(stack) >= max_depth:
                    self._fail(event, f"nested more than {max_depth} deep")
                value = self._collection(event, {} if kind is MappingStartEvent else [])
            elif kind is MappingEndEvent or kind is SequenceEndEvent:
                if frame.merges:
                    self._merge(frame)
                # An anchor of the same name further inside is the later one, and stands.
                if frame.anchor is not None and self.anchors[frame.anchor] is _OPEN:
                    self.anchors[frame.anchor] = target
                frame = stack.pop()
                target = frame.target
                in_map = type(target) is dict
                continue
            elif kind is AliasEvent:
                value = self._alias(event, len(stack))
                if in_map and frame.key is _NO_KEY:
                    frame.key = self._alias_key(event, value, target)
                    continue
            else:  # the end of the document
                return Node(self.first_line + root_line, root[0])

            if in_map:
                key = frame.key
                frame.key = _NO_KEY
                if key is _MERGE:
                    frame.merges.append((value, event.start_mark.line))
                else:
                    target[key] = value
            else:
                key = len(target)
                target.append(value)
                if target is root:
                    root_line = event.start_mark.line
            if places is not None:
                places[id(target), key] = self.first_line + event.start_mark.line
            if kind is not ScalarEvent and kind is not AliasEvent:
                stack.append(frame)
                frame = _Frame(value, event.anchor)
                target = value
                in_map = kind is MappingStartEvent

    def _scalar(self, event: ScalarEvent) -> Any:
        text: str = event.value
        try:
            if event.tag is not None:
                value = scalars.tagged(event.tag, text)
            elif event.implicit[0]:
                value = scalars.plain(text)
            else:
                value = text
        except scalars.ScalarError as error:
            self._fail(event, str(error))
        if event.anchor is not None:
            self.anchors[event.anchor] = value
            self.measures.pop(event.anchor, None)
        return value

    def _collection(self, event: Any, empty: Any) -> Any:
        if event.tag is not None and event.tag not in ("!", scalars.COLLECTION_TAGS[type(empty)]):
            self._fail(event, scalars.UNKNOWN_TAG)
        if event.anchor is not None:
            self.anchors[event.anchor] = _OPEN
            self.measures.pop(event.anchor, None)
        return empty

    def _key(self, event: ScalarEvent, target: dict[str, Any], frame: _Frame) -> Any:
        """The key as it is written: ``on``, ``1.10`` and ``y`` stay what they are."""
        key: str = event.value
        if event.implicit[0] or event.tag is not None:
            if key == "<<" and event.tag in (None, scalars.MERGE_TAG):
                if frame.merges:
                    self._fail(event, "the key << is there twice: merge several maps by <<: [*a, *b]")
                return _MERGE
            if event.tag is None and key in _SPECIAL_KEYS and key != "<<":
                self._fail(event, "a key is empty (null)")
            if event.tag is not None:
                key = self._tagged_key(event)
        if event.anchor is not None:
            self.anchors[event.anchor] = key
            self.measures.pop(event.anchor, None)
        return self._new_key(event, key, target)

    def _tagged_key(self, event: ScalarEvent) -> str:
        """!!str and !!binary say what the text is; a tag of another type must fit, and changes nothing."""
        value = self._scalar(event)
        if value is None:
            self._fail(event, "a key is empty (null)")
        return value if isinstance(value, str) else str(event.value)

    def _alias_key(self, event: AliasEvent, value: Any, target: dict[str, Any]) -> str:
        if not isinstance(value, str):
            self._fail(event, "a key must be text, and the alias stands for something else")
        return self._new_key(event, value, target)

    def _new_key(self, event: Event, key: str, target: dict[str, Any]) -> str:
        if key in target:
            self._fail(event, f"the key {key[:80]!r} is there twice in one map")
        return key

    def _alias(self, event: AliasEvent, depth: int) -> Any:
        name = event.anchor or ""
        value = self.anchors.get(name, _NO_KEY)
        if value is _NO_KEY:
            # No name: a password that begins with * is read as one.
            self._fail(event, "an alias (*) has no anchor (&) before it in its document; quote it if it is text")
        if value is _OPEN:
            self._fail(event, f"the alias *{name[:80]} stands inside of what it is an alias of")
        found = self.measures.get(name)
        if found is None:
            found = self.measures[name] = measure(value)
        size, height = found
        self.expansion.spent += size
        if self.expansion.spent > self.limits.expansion:
            self._fail(event, f"aliases expand to more than {self.limits.expansion} characters")
        if depth + height > self.limits.depth:
            self._fail(event, f"nested more than {self.limits.depth} deep by aliases")
        return copy(value)

    def _merge(self, frame: _Frame) -> None:
        """Fill in what ``<<`` brings; a key of the map's own wins, and then the first of several."""
        value, line = frame.merges[0]
        for source in value if isinstance(value, list) else [value]:
            if not isinstance(source, dict):
                raise ReadError(self.first_line + line, "<< must be followed by a map or a list of maps")
            for key, item in source.items():
                frame.target.setdefault(key, item)

    def _fail(self, event: Event, message: str) -> NoReturn:
        line = event.start_mark.line if event.start_mark else 0
        raise ReadError(self.first_line + line, message)

"""YAML text -> plain values, by Kubernetes' rules and within bounds.

libyaml does the parsing and hands over events, one at a time; the values are built here, without recursion. So a
duplicate key, an alias bomb or a million brackets is an error with a line, in time and memory that the text's own
length bounds. What comes out is JSON-like throughout, shares no parts (an alias is a copy), and has text keys only.
"""

from __future__ import annotations

import re
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


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one manifest.

    ``size``: characters of its text. ``expansion``: characters, and 4 for each value, that its aliases may add.
    ``depth``: lists and maps inside each other; real CustomResourceDefinitions stay below 60.
    """

    size: int = 16 * 1024 * 1024
    expansion: int = 4 * 1024 * 1024
    depth: int = 200


DEFAULT_LIMITS = Limits()


@dataclass(slots=True)
class Expansion:
    """What the aliases of one text have added so far: all its documents draw on one budget."""

    spent: int = 0


class ReadError(Exception):
    """Text that can't be read. ``line`` counts from 1; ``message`` holds no value of the text."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line
        self.message = message


class Node(NamedTuple):
    """A document's value and the line it starts on."""

    line: int
    value: Any


#: Where children were written: (id of the list or map, index or key) -> line. Valid while the value lives.
Places = dict[tuple[int, Any], int]

# What libyaml's reader lets through; the rest may stand in no YAML text.
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
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
    try:
        return _Reader(text, first_line, limits, expansion or Expansion(), places).documents()
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line if mark else 0
        raise ReadError(first_line + line, _syntax_message(error, text, first_line)) from None
    except ReaderError:
        bad = _UNPRINTABLE.search(text)
        raise unprintable(text, bad.start() if bad else 0, first_line) from None
    except UnicodeEncodeError as error:
        raise unprintable(text, error.start, first_line) from None


def unprintable(text: str, position: int, first_line: int) -> ReadError:
    line = first_line + text.count("\n", 0, position)
    return ReadError(line, f"the character U+{ord(text[position]):04X} may not stand in a manifest")


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

    def documents(self) -> list[Node]:
        next_event = CSafeLoader(self.text).get_event
        found: list[Node] = []
        while (event := next_event()) is not None:
            if type(event) is DocumentStartEvent:
                self.anchors, self.measures = {}, {}
                found.append(self._document(next_event))
        return found

    def _document(self, next_event: Any) -> Node:
        """One document's value. The loop is the hot path: about 150 events in a kilobyte."""
        places, max_depth = self.places, self.limits.depth
        root: list[Any] = []  # the document as a list of one, so that its value needs no case of its own
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
                if frame.anchor is not None:
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
            self._fail(event, f"the tag {event.tag[:80]!r} means nothing in Kubernetes")
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
                key = str(self._scalar(event))
        if event.anchor is not None:
            self.anchors[event.anchor] = key
            self.measures.pop(event.anchor, None)
        return self._new_key(event, key, target)

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
            self._fail(event, f"the alias *{name[:80]} has no anchor &{name[:80]} before it in its document")
        if value is _OPEN:
            self._fail(event, f"the alias *{name[:80]} stands inside of what it is an alias of")
        measure = self.measures.get(name)
        if measure is None:
            measure = self.measures[name] = _measure(value)
        size, height = measure
        self.expansion.spent += size
        if self.expansion.spent > self.limits.expansion:
            self._fail(event, f"aliases expand to more than {self.limits.expansion} characters")
        if depth + height > self.limits.depth:
            self._fail(event, f"nested more than {self.limits.depth} deep by aliases")
        return _copy(value)

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


def _measure(value: Any) -> tuple[int, int]:
    """What a copy of ``value`` costs, in the unit of Limits.expansion, and how deep it is."""
    if isinstance(value, dict):
        size, height = 4, 0
        for key, item in value.items():
            item_size, item_height = _measure(item)
            size += len(key) + item_size
            height = max(height, item_height)
        return size, height + 1
    if isinstance(value, list):
        size, height = 4, 0
        for item in value:
            item_size, item_height = _measure(item)
            size += item_size
            height = max(height, item_height)
        return size, height + 1
    return (4 + len(value) if isinstance(value, str) else 4), 0


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copy(item) for item in value]
    return value


def _syntax_message(error: MarkedYAMLError, text: str, first_line: int) -> str:
    """What libyaml found, in one line and without the text around it."""
    message = f"isn't YAML: {error.problem or error.context or 'syntax error'}"
    if error.context and error.context_mark and error.problem:
        message += f" ({error.context} of line {first_line + error.context_mark.line})"
    lines = text.splitlines()
    at = error.problem_mark.line if error.problem_mark else len(lines)
    if at < len(lines) and "\t" in lines[at][: len(lines[at]) - len(lines[at].lstrip())]:
        message += "; the line is indented by a tab, and YAML wants spaces"
    return message

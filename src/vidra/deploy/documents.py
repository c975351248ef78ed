"""A manifest's text -> its documents, with their numbers and lines. None is ever lost in silence.

The text is cut at its document markers first (``---`` and ``...`` at the start of a line are nothing else in YAML), so
that a broken document hides no other one's faults. A part that begins with ``{`` is JSON, and may be several objects
one after another; JSON that isn't quite JSON is read as YAML, of which ``{a: b}`` is a part.

A ``---`` begins a new document, an empty one included; text before the first ``---`` or after a ``...`` is one if
there is anything in it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from vidra.deploy import scalars
from vidra.deploy.yaml_faults import ReadError, unprintable
from vidra.deploy.yaml_limits import Expansion, Limits
from vidra.deploy.yaml_reader import Places, read_yaml

# With all the line breaks that YAML 1.1 knows, and no other white space than it knows.
_MARKER = re.compile(r"\n(---|\.\.\.)(?=[ \t\n\r\x85\u2028\u2029]|\Z)")
_NOTHING = re.compile(r"(?:[ \t\n\r\x85\u2028\u2029]|#[^\n\r\x85\u2028\u2029]*)*+")


@dataclass(frozen=True, slots=True)
class Document:
    """One document: its number and first line (from 1), and its value, never None."""

    number: int
    line: int
    value: Any
    source: Source


@dataclass(frozen=True, slots=True)
class Failure:
    """A document that can't be read; ``partial`` is what could be, before the fault."""

    number: int
    line: int
    message: str
    partial: Any = None


class Source:
    """Where a document was written, for messages: reads it again when first asked, since good manifests never ask."""

    __slots__ = ("_index", "_line", "_places", "_root", "_text")

    def __init__(self, text: str, line: int, index: int) -> None:
        self._text, self._line, self._index = text, line, index
        self._places: Places | None = None
        self._root: Any = None

    def line_of(self, path: tuple[str | int, ...], default: int) -> int:
        """The line of the value at ``path``, or of the nearest one around it that was written out there."""
        if self._places is None:
            self._places = {}
            try:
                self._root = read_yaml(self._text, first_line=self._line, places=self._places)[self._index].value
            except ReadError:  # JSON may hold what YAML can't
                self._root = None
        node, line = self._root, default
        for step in path:
            line = self._places.get((id(node), step), line)
            try:
                node = node[step]
            except (KeyError, IndexError, TypeError):
                break
        return line


@dataclass(frozen=True, slots=True)
class _Chunk:
    """What lies between two markers; ``explicit`` when it begins with ``---``."""

    text: str
    line: int
    explicit: bool


def read_documents(text: str, limits: Limits) -> Iterator[Document | Failure]:
    """The documents of ``text`` that hold something, and those that can't be read, in order."""
    number, expansion = 0, Expansion()
    for count, chunk in enumerate(_chunks(text)):
        if count > limits.documents:
            yield Failure(number + 1, chunk.line, f"the manifest holds more than {limits.documents} documents")
            return
        begin = _end_of_nothing(chunk.text, 3 if chunk.explicit and chunk.text.startswith("---") else 0)
        if begin == len(chunk.text):
            number += chunk.explicit
            continue
        number += 1
        try:
            nodes = _read_json(chunk, begin, limits) if chunk.text[begin] == "{" else None
            if nodes is None:
                found = read_yaml(chunk.text, first_line=chunk.line, limits=limits, expansion=expansion)
                nodes = [(line, value, Source(chunk.text, chunk.line, at)) for at, (line, value) in enumerate(found)]
        except ReadError as error:
            yield Failure(number + error.ahead, error.line, error.message, error.partial)
            continue
        for at, (line, value, source) in enumerate(nodes):
            if value is not None:
                yield Document(number + at, line, value, source)
        number += max(len(nodes) - 1, 0)


def _chunks(text: str) -> Iterator[_Chunk]:
    if "\ufeff" in text:  # files put together keep each other's byte order marks
        text = text.removeprefix("\ufeff").replace("\n\ufeff", "\n")
    text = "\n" + text  # so that every marker follows a line break
    start, line, explicit = 1, 1, False
    for match in _MARKER.finditer(text):
        at = match.start() + 1
        if not explicit and match[1] == "---" and _only_directives(text, start, at):
            explicit = True
            continue
        yield _Chunk(text[start:at], line, explicit)
        line += text.count("\n", start, at)
        explicit = match[1] == "---"
        start = at if explicit else match.end()
    yield _Chunk(text[start:], line, explicit)


def _only_directives(text: str, start: int, end: int) -> bool:
    """Lines such as %YAML belong to the document that the next marker begins."""
    return text.startswith("%", _end_of_nothing(text, start), end)


def _end_of_nothing(text: str, start: int) -> int:
    """Where the first thing after ``start`` is, or the length of the text."""
    match = _NOTHING.match(text, start)
    return match.end() if match else start


class _JsonFault(Exception):
    """Proper JSON that Kubernetes couldn't keep."""


def _read_json(chunk: _Chunk, begin: int, limits: Limits) -> list[tuple[int, Any, Source]] | None:
    """The JSON objects of the chunk, the first of which would begin at ``begin``; None when it isn't JSON."""
    found: list[tuple[int, Any, Source]] = []
    text, at = chunk.text, begin
    line = chunk.line + text.count("\n", 0, at)
    try:
        while at < len(text):
            if len(found) >= limits.documents:
                raise ReadError(line, f"the manifest holds more than {limits.documents} documents")
            value, end = _next_json(text, at, line, limits)
            found.append((line, value, Source(text[at:end], line, 0)))
            next_at = _end_of_nothing(text, end)
            line += text.count("\n", at, next_at)
            at = next_at
    except json.JSONDecodeError as error:
        if not found:
            return None
        fault = ReadError(chunk.line + error.lineno - 1, f"isn't JSON: {error.msg}")
        fault.ahead = len(found)
        raise fault from None
    except ReadError as error:
        error.ahead = len(found)
        raise
    return found


def _next_json(text: str, at: int, line: int, limits: Limits) -> tuple[Any, int]:
    """The value that begins at ``at``, on ``line``, and where it ends. Raises JSONDecodeError and ReadError."""
    try:
        value, end = _DECODER.raw_decode(text, at)
    except _JsonFault as fault:
        read_yaml(text[at:], first_line=line, limits=limits)  # knows the line, if it sees the same fault
        raise ReadError(line, str(fault)) from None
    except RecursionError:
        raise ReadError(line, f"nested more than {limits.depth} deep") from None
    if text.count("{", at, end) + text.count("[", at, end) > limits.depth and _depth(value) > limits.depth:
        raise ReadError(line, f"nested more than {limits.depth} deep")
    _check_characters(text[at:end], value, line)
    return value, end


def _check_characters(text: str, value: Any, line: int) -> None:
    """Half of a surrogate pair, as a character or as an escape, is no text: it can't be sent."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise unprintable(text, error.start, line) from None
    if "\\u" in text:
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ReadError(line, "a \\u escape is half of a surrogate pair") from None


def _depth(value: Any) -> int:
    """How deep a value is, without recursion."""
    depth, level = 0, [value]
    while level := [node for node in level if isinstance(node, dict | list)]:
        depth += 1
        level = [item for node in level for item in (node.values() if isinstance(node, dict) else node)]
    return depth


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise _JsonFault(f"the key {twice[:80]!r} is there twice in one map")
    return value


def _integer(digits: str) -> int:
    try:
        return scalars.whole(int(digits) if len(digits) < 40 else scalars.MAX_INT + 1)
    except scalars.ScalarError as error:
        raise _JsonFault(str(error)) from None


def _float(digits: str) -> int | float:
    number = float(digits)
    if not math.isfinite(number):
        raise _JsonFault("a number is too large")
    return scalars.shortest(number)


def _constant(word: str) -> Any:
    raise _JsonFault(f"{word} is no JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_pairs, parse_int=_integer, parse_float=_float, parse_constant=_constant)

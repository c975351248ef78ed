"""docs/logging.md against the calls in the source: what is logged is documented, and what is documented is logged."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[2]
LEVELS = {"info", "warning", "error", "critical", "exception"}


def events(tree: ast.AST) -> Iterator[str]:
    """What is logged at info or above: log.info("..."), getattr(log, level)("..."), _failed(change, "..."), and
    (..., "info", "...", ...) of functions that return what to log."""
    for node in ast.walk(tree):
        texts = []
        match node:
            case ast.Call(func=ast.Attribute(value=owner, attr=level), args=[ast.Constant(value=text), *_]):
                if level in LEVELS and "log" in ast.unparse(owner):
                    texts = [text]
            case ast.Call(func=ast.Call(func=ast.Name(id="getattr")), args=[ast.Constant(value=text), *_]):
                texts = [text]
            case ast.Tuple(elts=elements):
                words = [each.value if isinstance(each, ast.Constant) else None for each in elements]
                texts = [after for before, after in pairwise(words) if before in LEVELS]
            case ast.Call(func=ast.Attribute(attr="_failed"), args=[_, ast.Constant(value=text)]):
                texts = [text]
            case _:
                pass
        yield from (text for text in texts if isinstance(text, str) and text not in LEVELS)


def logged() -> set[str]:
    sources = (ROOT / "src" / "vidra").rglob("*.py")
    return {event for path in sources for event in events(ast.parse(path.read_text()))}


def documented(table_rows: Iterator[str]) -> set[str]:
    return {event for row in table_rows for event in re.findall(r"`([^`]+)`", row.split("|")[1])}


def rows() -> Iterator[str]:
    """The rows of the tables whose first column is an event."""
    within = False
    for line in (ROOT / "docs" / "logging.md").read_text().splitlines():
        if not line.startswith("|"):
            within = False
        elif line.startswith("| msg |"):
            within = True
        elif within and not line.startswith("|---") and "| debug |" not in line:
            yield line


def test_every_event_at_info_or_above_is_documented() -> None:
    assert sorted(logged() - documented(rows())) == []


def test_every_documented_event_is_logged() -> None:
    assert sorted(documented(rows()) - logged()) == []

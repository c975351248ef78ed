"""May this stored query run? Reads a GraphQL text just far enough to say.

Promises: only a text with exactly one operation, a ``query`` that declares the variable, is let through. The server
would run a mutation as readily, and ignores a variable the query doesn't declare, which then selects every artifact.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

#: Comments, strings and block strings first, so that nothing inside them is taken for GraphQL.
_TOKEN = re.compile(
    r"""
      \#[^\n\r]*
    | \"""(?: \\\""" | [^"] | "(?!"") )*\"""
    | "(?: \\. | [^"\\\n] )*"
    | (?P<word> (?:\$\s*)?[A-Za-z_]\w* )
    | (?P<mark> [{}():] )
    """,
    re.VERBOSE,
)
_OPEN, _CLOSE = "{(", "})"


def objection(text: str, variable: str) -> str | None:
    """Why ``text`` must not run with ``variable`` (without its ``$``), None when it may."""
    operations = list(_operations(text))
    kinds = [kind for kind, _ in operations if kind != "fragment"]
    for kind in kinds:
        if kind != "query":
            return f"it is a {kind}, not a query"
    if len(kinds) != 1:
        return f"it holds {len(kinds)} operations, not one"
    declared = next(names for kind, names in operations if kind == "query")
    if variable not in declared:
        known = ", ".join(f"${name}" for name in sorted(declared)) or "none"
        return f"it doesn't declare the variable ${variable} (it has {known}), so it would select every artifact"
    return None


def _operations(text: str) -> Iterator[tuple[str, frozenset[str]]]:
    """Each definition of the document: its keyword (``query`` for the short form) and the variables it declares."""
    depth = 0
    kind: str | None = None
    declared: set[str] = set()
    previous = ""
    for token in _TOKEN.finditer(text):
        piece = token["word"] or token["mark"]
        if piece is None:
            continue
        if piece == "{" and depth == 0:
            yield kind or "query", frozenset(declared)
            kind, declared = None, set()
        if piece in _OPEN:
            depth += 1
        elif piece in _CLOSE:
            depth -= 1
        elif depth == 0 and kind is None and token["word"]:
            kind = piece
        elif depth == 1 and piece == ":" and previous.startswith("$"):
            # Only the head's parentheses matter: what a body or another definition holds was cleared above.
            declared.add(previous[1:].strip())
        previous = piece

"""Label selectors as the API server reads them in ``?labelSelector=``, asked of objects we hold.

``app=web, tier in (a, b), env notin (dev), zone!=c, owner, !legacy``: all terms must hold. ``!=`` and ``notin`` hold
for objects without the label too, as on the server.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_KEY = r"[A-Za-z0-9](?:[-A-Za-z0-9_./]*[A-Za-z0-9])?"
_VALUE = r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)?"
_TERM = re.compile(
    rf"""\s*(?:
        (?P<absent>!)\s*(?P<no_key>{_KEY})
      | (?P<key>{_KEY})(?:
            \s*(?P<op>==|=|!=)\s*(?P<value>{_VALUE})
          | \s+(?P<set_op>in|notin)\s*\(\s*(?P<values>{_VALUE}(?:\s*,\s*{_VALUE})*)\s*\)
        )?
    )\s*(?P<end>,|$)""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class _Term:
    """``key`` has one of ``values`` (None: any value at all); the opposite when ``negated``."""

    key: str
    values: frozenset[str] | None
    negated: bool


@dataclass(frozen=True, slots=True)
class Selector:
    """A parsed selector; without terms it selects everything. Made by :meth:`parse`."""

    text: str
    terms: tuple[_Term, ...]

    @classmethod
    def parse(cls, text: str) -> Selector:
        """Raises ValueError, with the place, for what is no selector."""
        terms: list[_Term] = []
        position = 0
        expected = bool(text.strip())
        while expected:
            found = _TERM.match(text, position)
            if found is None:
                raise ValueError(f"not a label selector: {text!r}, from character {position + 1} on")
            terms.append(_term(found))
            position = found.end()
            expected = found["end"] == ","
        return cls(text, tuple(terms))

    def matches(self, obj: Mapping[str, Any]) -> bool:
        """Whether the raw object's labels satisfy every term."""
        labels = (obj.get("metadata") or {}).get("labels") or {}
        return all(
            (term.key in labels and (term.values is None or labels[term.key] in term.values)) != term.negated
            for term in self.terms
        )


def _term(found: re.Match[str]) -> _Term:
    if found["absent"]:
        return _Term(found["no_key"], None, True)
    if found["op"]:
        return _Term(found["key"], frozenset({found["value"]}), found["op"] == "!=")
    if found["set_op"]:
        values = frozenset(value.strip() for value in found["values"].split(","))
        return _Term(found["key"], values, found["set_op"] == "notin")
    return _Term(found["key"], None, False)

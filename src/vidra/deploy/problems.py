"""What is wrong with a manifest, said so that a person finds the place: document, line, kind, name.

No message holds a value of the manifest (it may be a secret); keys and names are cut to a bounded length.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

#: Reading stops after as many: nobody mends more at once, and a text of 16 MB may hold a million.
MAX_PROBLEMS = 100
_MAX_SHOWN = 10
_MAX_MESSAGE = 400
_MAX_NAME = 80


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault: document number and line from 1, ``identity`` like ``Deployment app/web`` as far as it is known."""

    document: int
    line: int
    identity: str | None
    message: str

    def __str__(self) -> str:
        who = f", {self.identity}" if self.identity else ""
        message = self.message if len(self.message) <= _MAX_MESSAGE else self.message[: _MAX_MESSAGE - 3] + "..."
        return f"document {self.document} (line {self.line}){who}: {message}"


class ManifestError(Exception):
    """A manifest that can't be used as it is; nothing of it may be applied or pruned. ``str()`` is bounded."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__(problems)
        self.problems = problems

    def __str__(self) -> str:
        shown = [str(problem) for problem in self.problems[:_MAX_SHOWN]]
        if len(self.problems) > _MAX_SHOWN:
            more = len(self.problems) - _MAX_SHOWN
            shown.append(f"and {'at least ' if len(self.problems) >= MAX_PROBLEMS else ''}{more} more problems")
        return "; ".join(shown)


def identity_of(value: Any) -> str | None:
    """``Deployment app/web``, or as much of it as a value has."""
    if not isinstance(value, dict):
        return None
    kind, metadata = value.get("kind"), value.get("metadata")
    parts = [metadata.get("namespace"), metadata.get("name")] if isinstance(metadata, dict) else []
    name = "/".join(short(part) for part in parts if isinstance(part, str) and part)
    words = [short(kind)] if isinstance(kind, str) and kind else []
    return " ".join([*words, name] if name else words) or None


def short(text: str) -> str:
    """Text of the manifest's, such as a key, of a length that suits a message."""
    shown = text if text.isprintable() else repr(text)[1:-1]
    return shown if len(shown) <= _MAX_NAME else shown[: _MAX_NAME - 3] + "..."


def type_of(value: Any) -> str:
    """What a value is, in words."""
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "text"
    return "a list" if isinstance(value, list) else "a map"

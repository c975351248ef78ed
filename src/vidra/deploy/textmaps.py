"""Values that must be text where YAML makes something else of them (``build: 42``, ``value: off``).

They are refused, never turned into text: 1.10 would become 1.1, and yes would become true.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vidra.deploy.problems import short, type_of

#: Where in a document: keys and indexes from its root.
Path = tuple[str | int, ...]
#: Takes a place and what is wrong there.
Report = Callable[[Path, str], None]


def must_be_text(value: Any) -> str:
    """The end of a message: what the value is, and what to do about it."""
    advice = ": quote it" if isinstance(value, bool | int | float) else ""
    return f"is {type_of(value)}, and must be text{advice}"


def text_map(owner: dict[str, Any], key: str, path: Path, report: Report) -> dict[str, str] | None:
    """Hold ``owner[key]`` to a map of text to text, in place, and give it; None if there is none.

    As on the API server, null instead of a map is no map at all, and null instead of a value is "". ``path`` is the
    owner's.
    """
    value = owner.get(key)
    if value is None:
        owner.pop(key, None)
        return None
    path = (*path, key)
    if not isinstance(value, dict):
        report(path, f"{dotted(path)} is {type_of(value)}, and must be a map")
        return None
    for name, item in value.items():
        if item is None:
            value[name] = ""
        elif not isinstance(item, str):
            report((*path, name), f"{dotted(path)}: {short(name)} {must_be_text(item)}")
    return value


def text_list(owner: dict[str, Any], key: str, path: Path, subject: str, report: Report) -> None:
    """Hold ``owner[key]``, if it is a list, to text items."""
    items = owner.get(key)
    for at, item in enumerate(items if isinstance(items, list) else ()):
        if not isinstance(item, str):
            report((*path, key, at), f"{subject}: item {at + 1} of {key} {must_be_text(item)}")


def dotted(path: Path) -> str:
    """``spec.containers[0].env``."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{short(step)}"
    return text.removeprefix(".")

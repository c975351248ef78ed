"""What an apply would change, said in field paths: never in values, which may be a Secret's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

#: Paths that are named before the rest is only counted.
NAMED_MAX = 5
#: What the server writes by itself, or nobody applies.
_BOOKKEEPING = frozenset({"managedFields", "resourceVersion", "generation", "creationTimestamp", "uid", "selfLink"})


def differences(live: Mapping[str, Any], applied: Mapping[str, Any]) -> str:
    """The fields in which the live object differs from what an apply makes of it; "" for none."""
    paths = list(_paths(_content(live), _content(applied), ""))
    text = ", ".join(paths[:NAMED_MAX])
    return f"{text} and {len(paths) - NAMED_MAX} more" if len(paths) > NAMED_MAX else text


def _content(obj: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {name: value for name, value in (obj.get("metadata") or {}).items() if name not in _BOOKKEEPING}
    return {**{name: value for name, value in obj.items() if name != "status"}, "metadata": metadata}


def _paths(one: Any, other: Any, at: str) -> Iterator[str]:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for name in sorted({*one, *other}):
            step = f".{name}" if _is_word(name) else f"[{name}]"
            yield from _paths(one.get(name), other.get(name), f"{at}{step}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for place, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from _paths(left, right, f"{at}[{place}]")
    elif one != other:
        yield at.removeprefix(".")


def _is_word(name: str) -> bool:
    return name.replace("_", "a").replace("-", "a").isalnum()

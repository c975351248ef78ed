"""Bounds of a manifest, so that what is read stays in proportion to what was written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one manifest.

    ``size``: characters of its text. ``expansion``: characters, and 4 for each value, that its aliases may add.
    ``depth``: lists and maps inside each other; real CustomResourceDefinitions stay below 60.
    ``documents``: empty ones count; the inventory of a tenth of them would fit into no status.
    """

    size: int = 16 * 1024 * 1024
    expansion: int = 4 * 1024 * 1024
    depth: int = 200
    documents: int = 20_000


DEFAULT_LIMITS = Limits()


@dataclass(slots=True)
class Expansion:
    """What the aliases of one text have added so far: all its documents draw on one budget."""

    spent: int = 0


def measure(value: Any) -> tuple[int, int]:
    """What a copy of ``value`` costs, in the unit of Limits.expansion, and how deep it is."""
    if isinstance(value, dict):
        size, height = 4, 0
        for key, item in value.items():
            item_size, item_height = measure(item)
            size += len(key) + item_size
            height = max(height, item_height)
        return size, height + 1
    if isinstance(value, list):
        size, height = 4, 0
        for item in value:
            item_size, item_height = measure(item)
            size += item_size
            height = max(height, item_height)
        return size, height + 1
    return (4 + len(value) if isinstance(value, str) else 4), 0


def copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: copy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [copy(item) for item in value]
    return value

"""Lets a few in at a time and remembers who was turned away, so that a server that hangs can't hold all workers.

Who is turned away holds no worker: its key goes back and is woken when somebody leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Full(Exception):
    """There is no place at the moment; the name that was given is woken when there is."""


class Bulkhead:
    """``places`` are let in at once; None: as many as come."""

    def __init__(self, places: int | None, wake: Callable[[str], None]) -> None:
        self._places = places
        self._wake = wake
        self._inside = 0
        # Insertion-ordered, so that the one who waits longest is woken first.
        self._waiting: dict[str, None] = {}

    @contextmanager
    def enter(self, name: str) -> Iterator[None]:
        """Raises Full. A caller that is woken and doesn't come takes nothing from the others but the moment: so come
        back after a while, woken or not."""
        self._waiting.pop(name, None)
        if self._places is not None and self._inside >= self._places:
            self._waiting[name] = None
            raise Full(name)
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1
            if self._waiting:
                first = next(iter(self._waiting))
                del self._waiting[first]
                self._wake(first)

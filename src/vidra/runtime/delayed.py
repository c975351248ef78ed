"""Keys whose time has not come, one entry per key, and the timer that tells when it has.

Promises: one timer for all keys; equal times come in the order they were put; keys are never compared; what is taken
out early leaves nothing behind for long. Time is the clock's, in seconds. Not thread-safe, never blocks.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Hashable
from typing import Generic, NamedTuple, Protocol, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Clock(Protocol):
    """What is needed of time. An asyncio event loop is one."""

    def time(self) -> float: ...
    def call_at(self, when: float, callback: Callable[[], object], /) -> asyncio.TimerHandle: ...


class Delayed(NamedTuple, Generic[V]):
    when: float
    value: V
    entry: int


class DelayedKeys(Generic[K, V]):
    """Each key with a time and a value; ``on_due`` is called with both when the time has come, and they are out."""

    def __init__(self, clock: Clock, on_due: Callable[[K, V], None]) -> None:
        self._clock = clock
        self._on_due = on_due
        self._held: dict[K, Delayed[V]] = {}
        self._heap: list[tuple[float, int, K]] = []  # of _held; may hold entries that are there no more
        self._entries = 0  # numbers the entries: equal times keep their order
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._held)

    @property
    def earliest(self) -> float | None:
        """The first time of all that are held; None: there is none."""
        return min((held.when for held in self._held.values()), default=None)

    def get(self, key: K) -> Delayed[V] | None:
        return self._held.get(key)

    def put(self, key: K, when: float, value: V) -> None:
        """Holds ``key`` until ``when``, whatever was known of it."""
        self._entries += 1
        self._held[key] = Delayed(when, value, self._entries)
        heapq.heappush(self._heap, (when, self._entries, key))
        self._drop_stale_entries()
        self._set_timer()

    def change(self, key: K, value: V) -> None:
        """Gives a held key another value; its time stays. KeyError when it isn't held."""
        self._held[key] = self._held[key]._replace(value=value)

    def pop(self, key: K) -> Delayed[V] | None:
        """Takes a key out before its time."""
        return self._held.pop(key, None) if self._held else None

    def clear(self) -> None:
        self._held.clear()
        self._heap.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timer(self) -> None:
        self._timer = None
        now = self._clock.time()
        while self._heap:
            when, entry, key = self._heap[0]
            held = self._held.get(key)
            current = held is not None and held.entry == entry
            if current and when > now:
                break
            heapq.heappop(self._heap)
            if current and held is not None:
                del self._held[key]
                self._on_due(key, held.value)
        self._set_timer()

    def _set_timer(self) -> None:
        if not self._heap:
            return
        when = self._heap[0][0]
        if self._timer is not None:
            if self._timer.when() <= when:
                return
            self._timer.cancel()
        self._timer = self._clock.call_at(when, self._on_timer)

    def _drop_stale_entries(self) -> None:
        """Keys that were taken out early leave their heap entries behind; a day of that must not fill the memory."""
        if len(self._heap) > 64 and len(self._heap) > 2 * len(self._held):
            self._heap = [(held.when, held.entry, key) for key, held in self._held.items()]
            heapq.heapify(self._heap)

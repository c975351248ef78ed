"""Keeps a reconcile from deciding by a cache that is older than its own last write.

A write is answered before the watch brings it back. Whoever reconciles in between sees the object as it was and would
write, or create, a second time. So: note what was written, and ask before deciding.

    answer = await client.patch(...)
    own_writes.wrote(key, answer["metadata"]["resourceVersion"])
    ...
    own_writes.check(key, cached_resource_version)     # first thing in the next reconcile of the key

``check`` holds no worker: it raises CacheBehind, with which the controller puts the key back for a moment. The moments
grow from 50 ms to a second, because nothing else wakes the key: a status write coming back is an event no predicate
lets pass.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Final, Generic, NamedTuple, TypeVar

from vidra.runtime.versions import at_least_as_new

__all__ = ["CacheBehind", "OwnWrites", "at_least_as_new"]

K = TypeVar("K", bound=Hashable)

_FIRST_PAUSE: Final = 0.05
_LAST_PAUSE: Final = 1.0


class CacheBehind(Exception):
    """Nothing was decided, for the cache is older than our last write: look again in ``seconds``. No failure."""

    def __init__(self, key: object, seconds: float) -> None:
        super().__init__(f"the cache has not seen our last write to {key}")
        self.seconds = seconds


class _Write(NamedTuple):
    resource_version: str
    when: float


class OwnWrites(Generic[K]):
    """The last own write of each key until the cache has seen it. Holds only what the cache has not seen yet.

    ``patience`` seconds after the write the cache counts as good enough whatever it says: the object may have been
    deleted meanwhile, or the watch be broken, and neither may hold a key for ever. ``clock`` is monotonic, by default
    the event loop's.
    """

    def __init__(self, *, patience: float = 30.0, clock: Callable[[], float] | None = None) -> None:
        self._patience = patience
        self._clock = clock if clock is not None else asyncio.get_running_loop().time
        self._writes: dict[K, _Write] = {}

    def wrote(self, key: K, resource_version: str) -> None:
        """The server answered our write to ``key`` with this resourceVersion."""
        last = self._writes.get(key)
        if last is None or not at_least_as_new(last.resource_version, resource_version):
            self._writes[key] = _Write(resource_version, self._clock())

    def forget(self, key: K, *, deleted_at: str | None = None) -> None:
        """The object was seen to be deleted, at this resourceVersion: no later state of it is to be waited for.

        A write newer than that made its successor and stays. None, where the delete was concluded from a list that
        lacks the object, forgets whatever was written.
        """
        write = self._writes.get(key)
        if write is not None and (deleted_at is None or at_least_as_new(deleted_at, write.resource_version)):
            del self._writes[key]

    def caught_up(self, key: K, current: str | None) -> bool:
        """Whether the cache, which holds ``current`` (None: no such object), knows our last write to ``key``."""
        write = self._writes.get(key)
        if write is None:
            return True
        seen = current is not None and at_least_as_new(current, write.resource_version)
        if not seen and self._clock() - write.when < self._patience:
            return False
        del self._writes[key]
        return True

    def check(self, key: K, current: str | None) -> None:
        """Raises CacheBehind unless the cache has caught up."""
        if not self.caught_up(key, current):
            waited = self._clock() - self._writes[key].when
            raise CacheBehind(key, min(_LAST_PAUSE, max(_FIRST_PAUSE, waited)))

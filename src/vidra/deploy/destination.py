"""What deploying needs of a cluster: requests, kinds, and what is live there.

The clusters room makes these; tests make them of a real API server too.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

from vidra.api import names
from vidra.kube.client import Client, Obj
from vidra.kube.discovery import Discovery
from vidra.kube.resource import GroupKind, ObjectKey, Resource
from vidra.runtime.observed import Observed, observe


def see(obj: Obj) -> Observed:
    """The record of a live object, as everything that compares two of them has to make it."""
    return observe(obj, manager_prefix=names.MANAGER_PREFIX, annotation_prefix=names.ANNOTATION_PREFIX)


class Live(Protocol):
    """Objects that carry Vidra's label, as the last watch event or our own last write had them."""

    async def watch(self, resources: Collection[Resource]) -> None:
        """Makes sure that these kinds are watched and listed. One that can't be is left out: see :meth:`knows`."""

    def knows(self, key: ObjectKey) -> bool:
        """Whether the object's kind is watched, so that an absent object is really absent."""

    def get(self, key: ObjectKey) -> Observed | None:
        """None: there is no such object with Vidra's label, or its kind isn't watched."""

    def wrote(self, key: ObjectKey, obj: Obj) -> Observed:
        """Takes in the server's answer to a write of ours, before its watch event comes."""

    def deleted(self, key: ObjectKey, uid: str) -> None:
        """The server answered that the object is gone."""

    def writing(self, key: ObjectKey) -> AbstractContextManager[None]:
        """To be held, by one at a time, while an object is written: its echoes are told from others' doing then."""

    def kinds(self) -> Collection[GroupKind]:
        """The kinds that are watched."""

    async def forget(self, kinds: Collection[GroupKind]) -> None:
        """Stops watching kinds that nobody uses any more."""


@dataclass(frozen=True, slots=True)
class Destination:
    """One cluster to deploy to. ``server`` is its normalised URL, "" for the local one."""

    server: str
    client: Client
    discovery: Discovery
    live: Live
    locks: KeyedLocks = field(default_factory=lambda: KeyedLocks())

    @asynccontextmanager
    async def hold(self, key: ObjectKey) -> AsyncIterator[None]:
        """The object is one's own to work on: nobody else writes to it meanwhile, and its echoes are known for that."""
        async with self.locks.hold(key):
            with self.live.writing(key):
                yield


class KeyedLocks:
    """One lock per object, made when wanted and gone with its last user.

    Concurrent applies to one object slow each other down (16 at once: 6 per second), and two resources of one sync
    that create the same Namespace would race for who made it.
    """

    def __init__(self) -> None:
        self._locks: dict[ObjectKey, tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def hold(self, key: ObjectKey) -> AsyncIterator[None]:
        lock, users = self._locks.get(key, (None, 0))
        lock = lock or asyncio.Lock()
        self._locks[key] = (lock, users + 1)
        try:
            async with lock:
                yield
        finally:
            lock, users = self._locks[key]
            if users == 1:
                del self._locks[key]
            else:
                self._locks[key] = (lock, users - 1)

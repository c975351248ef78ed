"""What is live in one cluster: an informer per kind in use, by Vidra's label, holding records instead of objects.

Promises:

* A kind is watched from its first use on. One that can't be listed (forbidden, gone) is retried in the background and
  meanwhile not :meth:`known <LiveCache.knows>`: callers then ask the server object by object.
* Our own writes are seen at once, and their echoes on the watch wake nobody.
* An informer that fails by a bug of ours ends :meth:`run`, and with it the process.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import structlog

from vidra.kube.client import Client, Obj
from vidra.kube.resource import GroupKind, ObjectKey, Resource
from vidra.kube.watch import Collection as WatchedCollection
from vidra.runtime.informer import Informer
from vidra.runtime.observed import Observed
from vidra.runtime.ownwrites import at_least_as_new
from vidra.runtime.store import Change, Key, Store

log = structlog.get_logger(__name__)

#: Seconds that the first use of a kind waits for its first list.
SYNCED_WITHIN = 10.0

#: Told that a live object changed, or went, by somebody else's doing.
OnChange = Callable[[ObjectKey], None]


@dataclass(frozen=True, slots=True)
class _Watched:
    informer: Informer[Observed]
    task: asyncio.Task[None]


class LiveCache:
    """``label_selector`` says which objects, ``observe`` what is kept of one."""

    def __init__(
        self, client: Client, *, label_selector: str, observe: Callable[[Obj], Observed], on_change: OnChange
    ) -> None:
        self._client = client
        self._label_selector = label_selector
        self._observe = observe
        self._on_change = on_change
        self._watched: dict[GroupKind, _Watched] = {}
        #: Our writes that the watch hasn't brought back. None: we deleted the object of that uid.
        self._written: dict[ObjectKey, Observed] = {}
        self._deleted: dict[ObjectKey, str] = {}
        #: What a write under way was answered, None for a deletion; and what the watch showed meanwhile.
        self._writing: dict[ObjectKey, list[Observed | None]] = {}
        self._held: dict[ObjectKey, Observed | None] = {}
        self._group: asyncio.TaskGroup | None = None
        self._open = asyncio.Event()

    async def run(self) -> None:
        """Keeps the informers running until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            self._open.set()
            await asyncio.get_running_loop().create_future()

    async def ready(self) -> None:
        """Returns when kinds can be watched."""
        await self._open.wait()

    async def watch(self, resources: Collection[Resource]) -> None:
        """Starts to watch what isn't yet, and waits for the first lists, though not for ever."""
        await self._open.wait()
        for resource in resources:
            if resource.group_kind not in self._watched:
                self._start(resource)
        waiting = [
            watched.informer
            for watched in (self._watched[resource.group_kind] for resource in resources)
            if not watched.informer.has_synced and watched.informer.last_error is None
        ]
        if waiting:
            await asyncio.gather(*(_first_list(informer) for informer in waiting))

    def knows(self, key: ObjectKey) -> bool:
        watched = self._watched.get(key.group_kind)
        return watched is not None and watched.informer.has_synced and watched.informer.last_error is None

    def get(self, key: ObjectKey) -> Observed | None:
        if not self.knows(key):
            return None
        store = self._watched[key.group_kind].informer.store
        at = Key(key.namespace, key.name)
        cached = store.get(at)
        if cached is not None and self._deleted.get(key) == cached.uid:
            cached = None
        written = self._written.get(key)
        if written is None or store.has_seen(at, written.version):
            return cached
        return written

    @contextmanager
    def writing(self, key: ObjectKey) -> Iterator[None]:
        """To be held, by one at a time, while an object is written: the watch is often faster than the answer, and what
        it shows meanwhile can be told from somebody else's doing only when the answer is there."""
        self._writing[key] = []
        try:
            yield
        finally:
            answers = self._writing.pop(key)
            if key in self._held:
                seen = self._held.pop(key)
                last = answers[-1] if answers else None
                ours = bool(answers) and (
                    last is None if seen is None else last is not None and not is_news(last, seen)
                )
                if not ours:
                    self._on_change(key)

    def wrote(self, key: ObjectKey, obj: Obj) -> Observed:
        observed = self._observe(obj)
        if key in self._writing:
            self._writing[key].append(observed)
        self._deleted.pop(key, None)
        watched = self._watched.get(key.group_kind)
        # The watch is often faster than the answer.
        if watched is not None and not watched.informer.store.has_seen(Key(key.namespace, key.name), observed.version):
            self._written[key] = observed
        return observed

    def deleted(self, key: ObjectKey, uid: str) -> None:
        if key in self._writing:
            self._writing[key].append(None)
        self._written.pop(key, None)
        watched = self._watched.get(key.group_kind)
        cached = watched.informer.store.get(Key(key.namespace, key.name)) if watched is not None else None
        if cached is not None and cached.uid == uid:
            self._deleted[key] = uid

    async def forget(self, kinds: Collection[GroupKind]) -> None:
        """Stops watching kinds that nobody uses any more."""
        tasks = [self._watched.pop(kind).task for kind in kinds if kind in self._watched]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def kinds(self) -> list[GroupKind]:
        return list(self._watched)

    def _start(self, resource: Resource) -> None:
        assert self._group is not None, "the cache is not running"
        source = WatchedCollection(self._client, resource, label_selector=self._label_selector)
        informer = Informer(source, Store(transform=self._observe))
        informer.add_handler(partial(self._changed, resource.group_kind))
        # A context of its own: it outlives the reconcile that needs it first, whose name its log lines would carry.
        task = self._group.create_task(
            informer.run(), name=f"informer {resource.group_kind}", context=contextvars.Context()
        )
        self._watched[resource.group_kind] = _Watched(informer, task)

    def _changed(self, kind: GroupKind, change: Change[Observed]) -> None:
        key = ObjectKey(kind.group, kind.kind, change.key.namespace, change.key.name)
        written = self._written.get(key)
        seen = change.new if change.new is not None else change.old
        if written is not None and seen is not None and at_least_as_new(seen.version, written.version):
            del self._written[key]
        if change.initial:
            return
        if key in self._writing:
            self._held[key] = change.new
            return
        if change.new is None:
            news = self._deleted.pop(key, None) is None
        else:
            news = is_news(change.old if written is None else written, change.new)
        if news:
            self._on_change(key)


def is_news(known: Observed | None, seen: Observed) -> bool:
    """Whether ``seen`` says what ``known`` doesn't: it is neither a state on the way to it nor, for all that counts,
    the same."""
    return known is None or not (at_least_as_new(known.version, seen.version) or known.digest == seen.digest)


async def _first_list(informer: Informer[Observed]) -> None:
    """Waits for the first list, or for the first error that says it will take longer."""
    deadline = asyncio.get_running_loop().time() + SYNCED_WITHIN
    while asyncio.get_running_loop().time() < deadline and informer.last_error is None:
        if await informer.wait_synced(0.1):
            return

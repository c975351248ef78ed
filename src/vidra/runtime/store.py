"""The last known state of one collection, in memory, by key and by named indexes.

Promises:

* A change is in the store before anybody is told of it (R11).
* :meth:`Store.replace` says what a new full list changed, the deletes that nobody saw included (R10).
* An object that was deleted and made again is a delete and a create, even where the server shows one update (R11).
* An object whose resourceVersion did not move is no change (R12).
* :meth:`Store.wait_for` lets a writer wait until its own write has arrived, without asking again and again.

Values handed out are the store's own and **must not be changed** by anybody: copying 5000 objects for every reader
would cost more than it saves. ``detect_mutations`` finds who breaks this; tests switch it on.

Nothing here awaits between a read and a write, so one event loop needs no locks.
"""

from __future__ import annotations

import asyncio
import hashlib
import pickle
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, NamedTuple, TypeVar

import structlog

from vidra.kube.client import Obj
from vidra.runtime.versions import at_least_as_new, older

log = structlog.get_logger(__name__)

T = TypeVar("T")


class Key(NamedTuple):
    """An object's place in its collection; ``namespace`` is "" for a cluster-scoped one."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class ChangeType(StrEnum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """What happened to one key. ``old`` is None for ADDED, ``new`` for DELETED.

    ``final_state_unknown`` marks a delete that was concluded, not seen: ``old`` may not be the object's last state.
    ``initial`` marks an ADDED that only says what exists: nothing happened just now.
    """

    type: ChangeType
    key: Key
    old: T | None
    new: T | None
    final_state_unknown: bool = False
    initial: bool = False


@dataclass(frozen=True, slots=True)
class Entry(Generic[T]):
    """One stored value with what the store must know of the object it was made from."""

    key: Key
    value: T
    uid: str
    resource_version: str
    #: The index values, one tuple per index in the order of the indexes.
    indexed: tuple[tuple[Hashable, ...], ...] = ()
    digest: bytes = b""


class MutationError(AssertionError):
    """Somebody changed a value that the store had handed out."""


def default_key(obj: Mapping[str, Any]) -> Key:
    metadata = obj["metadata"]
    return Key(metadata.get("namespace") or "", metadata["name"])


def drop_managed_fields(obj: Obj) -> Obj:
    """A transform for those who read the whole object: managedFields are a third of it, and few look at them."""
    obj["metadata"].pop("managedFields", None)
    return obj


class Store(Generic[T]):
    """``transform`` makes the stored value of a raw object on its way in; it may change the object, or reduce it to a
    record of its own (P5: only this and selectors save memory). ``indexes`` are functions from a value to its index
    values. Both are given objects of others and may fail: the failure is logged and counted in
    :attr:`transform_errors`, and the key keeps the value it had.
    """

    def __init__(
        self,
        *,
        key: Callable[[Obj], Key] = default_key,
        transform: Callable[[Obj], T] | None = None,
        indexes: Mapping[str, Callable[[T], Iterable[Hashable]]] | None = None,
        detect_mutations: bool = False,
    ) -> None:
        self._key = key
        self._transform: Callable[[Obj], Any] = transform or (lambda obj: obj)
        self._index_functions = tuple((indexes or {}).values())
        self._index_places = {name: place for place, name in enumerate(indexes or {})}
        self._indexes: tuple[dict[Hashable, set[Key]], ...] = tuple({} for _ in self._index_functions)
        self._entries: dict[Key, Entry[T]] = {}
        self._progress = ""
        self._waiters: list[tuple[str, asyncio.Future[None]]] = []
        self._detect_mutations = detect_mutations
        self.transform_errors = 0

    # --- reading

    def get(self, key: Key) -> T | None:
        entry = self._entries.get(key)
        return None if entry is None else entry.value

    def resource_version(self, key: Key) -> str | None:
        """The resourceVersion of the object the stored value was made from."""
        entry = self._entries.get(key)
        return None if entry is None else entry.resource_version

    def uid(self, key: Key) -> str | None:
        entry = self._entries.get(key)
        return None if entry is None else entry.uid

    def __iter__(self) -> Iterator[Key]:
        """Over a snapshot, as :meth:`items` too: the store may change while a caller iterates and awaits."""
        return iter(list(self._entries))

    def items(self) -> Iterator[tuple[Key, T]]:
        return iter([(key, entry.value) for key, entry in self._entries.items()])

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: Key) -> bool:
        return key in self._entries

    def index_keys(self, index: str, value: Hashable) -> list[Key]:
        """The keys whose values have this index value, in no order. KeyError for an index that was never declared."""
        return list(self._indexes[self._index_places[index]].get(value, ()))

    def by_index(self, index: str, value: Hashable) -> list[T]:
        return [self._entries[key].value for key in self.index_keys(index, value)]

    # --- writing (the reflector's side)

    def ingest(self, obj: Obj) -> Entry[T] | None:
        """Makes the entry of a raw object without storing it. The object is the store's from here on.

        None when it can't be made and nothing is known of its key.
        """
        key: Key | None = None
        try:
            key = self._key(obj)
            metadata = obj["metadata"]
            uid, version = metadata.get("uid") or "", metadata.get("resourceVersion") or ""
            value = self._transform(obj)
            indexed = tuple(tuple(function(value)) for function in self._index_functions)
        except Exception:  # caller's functions on foreign objects: none may end the stream
            self.transform_errors += 1
            log.exception("an object can't be taken into the store", key=str(key) if key else None)
            return self._entries.get(key) if key else None
        digest = _digest(value) if self._detect_mutations else b""
        return Entry(key, value, uid, version, indexed, digest)

    def replace(self, entries: Iterable[Entry[T]], resource_version: str) -> list[Change[T]]:
        """Takes a full list in at once and returns what it changed: deletes first, then the rest in list order."""
        new = {entry.key: entry for entry in entries}
        changes: list[Change[T]] = [
            self._remove(key, final_state_unknown=True) for key in [k for k in self._entries if k not in new]
        ]
        for entry in new.values():
            changes += self._put(entry)
        # A list's version holds even where it is an older one: etcd came back from a backup.
        self._progress = ""
        self.advance(resource_version)
        return changes

    def apply(self, event: ChangeType, obj: Obj) -> list[Change[T]]:
        """Takes in one event. At most two changes come of it: delete and create for a new uid."""
        version = (obj.get("metadata") or {}).get("resourceVersion") or ""
        entry = self.ingest(obj)
        if entry is None:
            changes: list[Change[T]] = []
        elif event is ChangeType.DELETED:
            changes = self._delete(entry)
        else:
            changes = self._put(entry)
        self.advance(version)
        return changes

    def advance(self, resource_version: str) -> None:
        """The stream has shown everything up to here (a list, an event, a bookmark)."""
        if not resource_version or older(resource_version, self._progress):
            return
        self._progress = resource_version
        for version, future in self._waiters:
            if not future.done() and at_least_as_new(resource_version, version):
                future.set_result(None)

    # --- own writes

    @property
    def progress(self) -> str:
        """The resourceVersion up to which the stream has shown everything; "" before the first list."""
        return self._progress

    def has_seen(self, key: Key, resource_version: str) -> bool:
        """Whether the state of ``key`` is not older than a version that a write to it was answered with.

        The stream shows versions in order, so having passed a version anywhere means having seen it here too; that
        covers an object that is gone by now. Versions that are no numbers compare by equality only.
        """
        return at_least_as_new(self._progress, resource_version) or at_least_as_new(
            self.resource_version(key) or "", resource_version
        )

    async def wait_for(self, key: Key, resource_version: str, *, timeout: float) -> bool:
        """Waits until :meth:`has_seen`; False when ``timeout`` seconds passed first."""
        if self.has_seen(key, resource_version):
            return True
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiter = (resource_version, future)
        self._waiters.append(waiter)
        try:
            async with asyncio.timeout(timeout):
                await future
        except TimeoutError:
            return False
        finally:
            self._waiters.remove(waiter)
        return True

    # --- inside

    def _put(self, entry: Entry[T]) -> list[Change[T]]:
        old = self._entries.get(entry.key)
        if old is None:
            self._insert(entry)
            return [Change(ChangeType.ADDED, entry.key, None, entry.value)]
        if old.uid != entry.uid:
            gone = self._remove(entry.key, final_state_unknown=True)
            return [gone, *self._put(entry)]
        if old is entry or (old.resource_version == entry.resource_version and entry.resource_version):
            return []
        self._unindex(old)
        self._insert(entry)
        return [Change(ChangeType.MODIFIED, entry.key, old.value, entry.value)]

    def _delete(self, last: Entry[T]) -> list[Change[T]]:
        """The object of a DELETED event is its last state, so that is what is handed on as ``old``."""
        known = self._entries.get(last.key)
        if known is None:
            return []
        change = self._remove(last.key, final_state_unknown=known.uid != last.uid)
        return [change if change.final_state_unknown else Change(ChangeType.DELETED, last.key, last.value, None)]

    def _remove(self, key: Key, *, final_state_unknown: bool) -> Change[T]:
        old = self._entries.pop(key)
        self._unindex(old)
        return Change(ChangeType.DELETED, key, old.value, None, final_state_unknown)

    def _insert(self, entry: Entry[T]) -> None:
        self._entries[entry.key] = entry
        for index, values in zip(self._indexes, entry.indexed, strict=True):
            for value in values:
                index.setdefault(value, set()).add(entry.key)

    def _unindex(self, entry: Entry[T]) -> None:
        self._check(entry)
        for index, values in zip(self._indexes, entry.indexed, strict=True):
            for value in values:
                keys = index.get(value)
                if keys is not None:
                    keys.discard(entry.key)
                    if not keys:
                        del index[value]

    def check_mutations(self) -> None:
        """Raises :class:`MutationError` when a value is not what went in. Only with ``detect_mutations``."""
        for entry in self._entries.values():
            self._check(entry)

    def _check(self, entry: Entry[T]) -> None:
        if entry.digest and entry.digest != _digest(entry.value):
            raise MutationError(f"somebody changed the cached value of {entry.key}")


def _digest(value: object) -> bytes:
    return hashlib.sha256(pickle.dumps(value)).digest()

"""Keeps a store true to a collection and tells handlers what changes: a reflector, a store and its listeners.

Promises:

* A handler hears of a change after the store has it; one change at a time, in order per key (R11).
* Handlers only compute keys: they are plain calls that don't wait. One that fails is logged and counted, and neither
  the stream nor the other handlers notice (R15).
* What the first list brings, and what a handler that comes later finds, is marked ``initial``, so that it may be
  handled with less haste than what just happened.
* ``has_synced`` is true once every handler has been told of the whole first list (R13).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar, cast

import structlog

from vidra.kube.client import Obj
from vidra.kube.errors import KubeError
from vidra.runtime.backoff import Backoff
from vidra.runtime.predicates import Event, Predicate
from vidra.runtime.reflector import PAGE_SIZE, SLICE, Reflector, Source
from vidra.runtime.store import Change, ChangeType, Entry, Store

log = structlog.get_logger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Handler(Generic[T]):
    on_change: Callable[[Change[T]], None]
    predicate: Predicate | None


class Informer(Generic[T]):
    """``store`` is the informer's to write; without one it holds whole objects. For the rest see
    :class:`vidra.runtime.reflector.Reflector`, whose sink this is."""

    def __init__(
        self,
        source: Source,
        store: Store[T],
        *,
        backoff: Backoff | None = None,
        stream_lists: bool = True,
        page_size: int = PAGE_SIZE,
    ) -> None:
        self.store = store
        self.name = source.name
        #: Failures of handlers and predicates so far.
        self.handler_errors = 0
        self._handlers: list[_Handler[T]] = []
        self._synced = asyncio.Event()
        self._reflector: Reflector[T] = Reflector(
            source, self, backoff=backoff, stream_lists=stream_lists, page_size=page_size
        )

    def add_handler(self, on_change: Callable[[Change[T]], None], predicate: Predicate | None = None) -> None:
        """``on_change`` is told of every change that ``predicate`` lets pass, as the predicate sees it: leaving a
        selector is a DELETED. A predicate needs a store of raw objects. What the store has already is told before
        this returns, as ``initial``; that takes about 3 microseconds an object."""
        handler = _Handler(on_change, predicate)
        self._handlers.append(handler)
        for key, value in self.store.items():
            self._tell(handler, Change(ChangeType.ADDED, key, None, value, initial=True))

    async def run(self) -> None:
        """Runs until cancelled; see :meth:`Reflector.run`. Then lets go of the handlers, and what is in the store can
        still be read."""
        try:
            await self._reflector.run()
        finally:
            self._handlers.clear()

    # --- how it is doing

    @property
    def has_synced(self) -> bool:
        return self._synced.is_set()

    async def wait_synced(self, timeout: float) -> bool:
        """Waits until :attr:`has_synced`; False when ``timeout`` seconds passed first."""
        try:
            async with asyncio.timeout(timeout):
                await self._synced.wait()
        except TimeoutError:
            return False
        return True

    @property
    def state(self) -> str:
        """What it is doing: empty, streaming, listing, listed, watching."""
        return self._reflector.state

    @property
    def last_activity(self) -> float | None:
        """The event loop's time (``time.monotonic()`` as a rule) of the server's last sign of life."""
        return self._reflector.last_activity

    @property
    def last_error(self) -> KubeError | None:
        """What stands in the way at the moment: the kind isn't served, forbidden, unreachable, ..."""
        return self._reflector.last_error

    # --- the reflector's sink

    def ingest(self, obj: Obj) -> Entry[T] | None:
        return self.store.ingest(obj)

    async def replace(self, entries: list[Entry[T]], resource_version: str) -> None:
        """The store changes at once, the telling takes turns with the rest of the loop. No watch is read meanwhile, so
        the order holds."""
        initial = not self.has_synced
        # One that joins during a turn of somebody else's finds the new state in the store, and is told all of it then.
        handlers = tuple(self._handlers)
        now = asyncio.get_running_loop().time
        turn = now()
        for change in self.store.replace(entries, resource_version):
            marked = initial and change.type is ChangeType.ADDED
            self._tell_all(replace(change, initial=True) if marked else change, handlers)
            if now() - turn >= SLICE:
                await asyncio.sleep(0)
                turn = now()
        self._synced.set()

    def apply(self, event: ChangeType, obj: Obj) -> None:
        for change in self.store.apply(event, obj):
            self._tell_all(change, self._handlers)

    def advance(self, resource_version: str) -> None:
        self.store.advance(resource_version)

    # --- telling

    def _tell_all(self, change: Change[T], handlers: Iterable[_Handler[T]]) -> None:
        for handler in handlers:
            self._tell(handler, change)

    def _tell(self, handler: _Handler[T], change: Change[T]) -> None:
        try:
            seen = change if handler.predicate is None else _seen(handler.predicate, change)
        except Exception:  # noqa: BLE001  # of a foreign object; one reconcile too many is harmless, one too few is not
            self._failed(change, "a predicate failed, the change is told")
            seen = change
        if seen is None:
            return
        try:
            handler.on_change(seen)
        except Exception:  # noqa: BLE001  # a handler's fault must not end the stream for the others
            self._failed(change, "a handler failed")

    def _failed(self, change: Change[T], what: str) -> None:
        self.handler_errors += 1
        log.exception(what, collection=self.name, key=str(change.key), type=change.type.value)


def _seen(predicate: Predicate, change: Change[T]) -> Change[T] | None:
    event = Event.of(cast(Any, change.old), cast(Any, change.new))
    view = predicate.view(event) if predicate(event) else None
    if view is None or view is event:
        return change if view is event else None
    if view.old is None:
        return replace(change, type=ChangeType.ADDED, old=None)
    return replace(change, type=ChangeType.DELETED, new=None)

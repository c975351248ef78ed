"""Keeps a sink true to one collection of an API server: list it, watch it, and list again when that is needed.

Promises (the ids are the project's list of what controller runtimes guarantee):

* It runs until it is cancelled. Whatever the server does, it comes back by itself, with growing pauses of its own
  that no other collection shares (R8); a ``Retry-After`` is honoured.
* A list reaches the sink as a whole or not at all (R2); after a gap the sink gets a new full list, whose difference
  says what was missed (R10).
* A watch goes on at the last version seen (R4, R5) and is never older than what was seen before (R1).
* Both forms of 410, a stream that closes at once, one that is cut in a line, and one that falls silent are all
  survived (R6, R7, R9).
* The event loop is not held for longer than :data:`SLICE` plus one page or one object (R15).

The states, and the one way through them::

    Empty --> Streaming --+--> Watching --> Listed --> Watching ...
      |                   |        |           |
      +-----> Listing --> Listed   +-----------+--> Empty      (the version is gone, or the server refuses)

Streaming is WatchList (R3): the objects come one by one on the watch itself, which costs the server less than a list
and never puts 500 objects into one piece of JSON. Where it fails, Listing takes its place.

Lists ask for pages of the most recent state rather than for ``resourceVersion=0``: the latter would be served from
memory, but it may be older than what a former process has acted on, and the server ignores the page size for it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from typing import Generic, Protocol, TypeAlias, TypeVar

import structlog

from vidra.kube.client import Obj
from vidra.kube.errors import ApiError, InvalidAnswer, KubeError, Silent, Unreachable
from vidra.kube.watch import Page, WatchEvent
from vidra.runtime.backoff import Backoff, ExponentialBackoff
from vidra.runtime.collector import no_full_collection
from vidra.runtime.store import ChangeType, Entry

log = structlog.get_logger(__name__)

#: Objects per page. Others ask for 500; a page is parsed in one piece, and 250 pods hold the event loop for 40 ms.
PAGE_SIZE = 250
#: 0.8..1.6 s after a first failure, 30..60 s in the end, from the beginning again after two minutes without one (R8).
PAUSES = ExponentialBackoff(0.8, 30.0, jitter=1.0)
HEALTHY_AFTER = 120.0
#: Seconds the server is asked to keep a watch for; random, so that many watches don't end together.
WATCH_SECONDS = (290, 600)
#: A watch that ends sooner than this many seconds after it was opened has failed, whatever it said.
SHORT_WATCH = 1.0
#: Seconds without an event after which the start of a stream is given up for a list.
STREAM_PAUSE = 10.0
#: Seconds of work after which the event loop gets its turn.
SLICE = 0.01
#: The longest Retry-After that is believed, seconds.
LONGEST_RETRY_AFTER = 300.0

_CHANGES = {change.value: change for change in ChangeType}
_INITIAL_EVENTS_END = "k8s.io/initial-events-end"

T = TypeVar("T")


class Source(Protocol):
    """What is listed and watched (:class:`vidra.kube.watch.Collection`). Every error it raises is a KubeError."""

    @property
    def name(self) -> str: ...

    def accepts(self, obj: Obj) -> bool: ...

    async def list_page(
        self, *, resource_version: str | None, continue_token: str | None, limit: int | None
    ) -> Page: ...

    def watch(
        self, *, resource_version: str | None, timeout_seconds: int, send_initial_events: bool = False
    ) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent]]: ...


class Sink(Protocol[T]):
    """Who is kept true (:class:`vidra.runtime.informer.Informer`). What it raises ends the reflector: it is a bug."""

    def ingest(self, obj: Obj) -> Entry[T] | None: ...

    async def replace(self, entries: list[Entry[T]], resource_version: str) -> None: ...

    def apply(self, event: ChangeType, obj: Obj) -> None: ...

    def advance(self, resource_version: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Empty:
    """A full list is due. ``at_least`` is the version it must not be older than; None asks for the most recent."""

    at_least: str | None


@dataclass(frozen=True, slots=True)
class Streaming:
    at_least: str | None


@dataclass(frozen=True, slots=True)
class Listing:
    at_least: str | None


@dataclass(frozen=True, slots=True)
class Listed:
    """The sink is true as of the last version; a watch from there is due."""


@dataclass(frozen=True, slots=True)
class Watching:
    """An open watch. ``opened`` is the loop's time of its start."""

    connection: AsyncExitStack
    events: AsyncIterator[WatchEvent]
    opened: float


State: TypeAlias = Empty | Streaming | Listing | Listed | Watching


class Reflector(Generic[T]):
    """``stream_lists`` allows WatchList; ``page_size`` is the number of objects in one piece of a plain list."""

    def __init__(
        self,
        source: Source,
        sink: Sink[T],
        *,
        backoff: Backoff | None = None,
        stream_lists: bool = True,
        page_size: int = PAGE_SIZE,
    ) -> None:
        self._source = source
        self._sink = sink
        self._backoff = backoff or Backoff(PAUSES, healthy_after=HEALTHY_AFTER)
        self._stream_lists = stream_lists
        self._page_size = page_size
        self._log = log.bind(collection=source.name)
        #: The last version seen in a list, an event or a bookmark; None before the first list.
        self._version: str | None = None
        self._listed_at = float("-inf")
        self._short_watches = 0
        self._silences = 0
        self._breath = float("-inf")
        #: Which state it is in: empty, streaming, listing, listed, watching.
        self.state = "empty"
        #: Whether the sink has ever had a full list.
        self.synced = False
        #: The event loop's time (``time.monotonic()`` as a rule) of the last sign of life from the server.
        self.last_activity: float | None = None
        #: What stands in the way at the moment; None while all is well.
        self.last_error: KubeError | None = None

    async def run(self) -> None:
        """Runs until cancelled."""
        state: State = Empty(None)
        while True:
            self.state = type(state).__name__.lower()
            state = await self._step(state)

    async def _step(self, state: State) -> State:
        match state:
            case Empty(at_least):
                return Streaming(at_least) if self._stream_lists else Listing(at_least)
            case Streaming(at_least):
                return await self._stream(at_least)
            case Listing(at_least):
                return await self._list(at_least)
            case Listed():
                return await self._open()
            case Watching():
                return await self._watch(state)

    # --- Streaming

    async def _stream(self, at_least: str | None) -> State:
        try:
            with no_full_collection():
                watching = await self._streamed(at_least)
            # None: the stream ended before its initial objects were complete.
            return watching or Listing(at_least)
        except TimeoutError:
            # A server older than this protocol shows the objects and never says that this was all of them.
            self._stream_lists = False
            return Listing(at_least)
        except ApiError as error:
            if at_least is not None and (error.gone or error.too_large_version):
                return Streaming(None)
            if error.status in {400, 422}:
                # The server doesn't know the protocol, and won't learn it while we run.
                self._stream_lists = False
                return Listing(at_least)
            if error.status == 429 or error.status >= 500:
                # A list would only be more work for a server that has too much of it.
                return await self._failed(error, Empty(at_least))
            return Listing(at_least)
        except Unreachable as error:
            return await self._failed(error, Empty(at_least))
        except InvalidAnswer:
            return Listing(at_least)

    async def _streamed(self, at_least: str | None) -> Watching | None:
        entries: dict[object, Entry[T]] = {}
        async with AsyncExitStack() as connection:
            events = await connection.enter_async_context(
                self._source.watch(
                    resource_version=at_least, timeout_seconds=_watch_seconds(), send_initial_events=True
                )
            )
            opened = self._now()
            version = await self._initial_events(events, entries)
            if version is None:
                return None
            await self._full(list(entries.values()), version)
            self._recovered()
            # The same stream goes on where the initial objects ended: nothing can be missed in between.
            return Watching(connection.pop_all(), events, opened)

    async def _initial_events(self, events: AsyncIterator[WatchEvent], entries: dict[object, Entry[T]]) -> str | None:
        """Fills ``entries`` and returns their common version; None when the stream ended before it was told.

        The objects' own versions are not kept: they come in no order, so the last one says nothing (R3).
        """
        async with asyncio.timeout(STREAM_PAUSE) as deadline:
            async for event in events:
                await self._alive()
                deadline.reschedule(self._now() + STREAM_PAUSE)
                metadata = event.object.get("metadata") or {}
                if event.type == "BOOKMARK":
                    if (metadata.get("annotations") or {}).get(_INITIAL_EVENTS_END) == "true":
                        return str(metadata["resourceVersion"])
                elif not self._source.accepts(event.object):
                    self._skip(event)
                elif (entry := self._sink.ingest(event.object)) is not None:
                    if event.type == "DELETED":
                        entries.pop(entry.key, None)
                    else:
                        entries[entry.key] = entry
        return None

    # --- Listing

    async def _list(self, at_least: str | None) -> State:
        entries: list[Entry[T]] = []
        token: str | None = None
        try:
            with no_full_collection():
                while True:
                    page = await self._source.list_page(
                        resource_version=at_least, continue_token=token, limit=self._page_size
                    )
                    await self._alive()
                    for obj in page.items:
                        if (entry := self._sink.ingest(obj)) is not None:
                            entries.append(entry)
                        await self._breathe()
                    token = page.continue_token
                    if token is None:
                        await self._full(entries, page.resource_version)
                        return Listed()
        except ApiError as error:
            if token is None and at_least is not None and (error.gone or error.too_large_version):
                # What we saw is older than the server remembers, or newer than it knows: take what it has, at once.
                return Listing(None)
            # An expired token on a later page lands here too: half a list is no list, so it starts again (R2).
            return await self._failed(error, Empty(at_least))
        except KubeError as error:
            return await self._failed(error, Empty(at_least))

    async def _full(self, entries: list[Entry[T]], version: str) -> None:
        self._version = version
        await self._sink.replace(entries, version)
        self.synced = True
        self._listed_at = self._now()

    # --- Listed

    async def _open(self) -> State:
        connection = AsyncExitStack()
        try:
            events = await connection.enter_async_context(
                self._source.watch(resource_version=self._version, timeout_seconds=_watch_seconds())
            )
        except KubeError as error:
            return await self._watch_failed(error)
        self._recovered()
        return Watching(connection, events, self._now())

    # --- Watching

    async def _watch(self, state: Watching) -> State:
        error: KubeError | None = None
        async with state.connection:
            try:
                async for event in state.events:
                    await self._alive()
                    self._silences = 0
                    self._take(event)
            except KubeError as raised:
                error = raised
        lived = self._now() - state.opened
        if lived >= SHORT_WATCH:
            self._short_watches = 0
        if isinstance(error, Silent):
            return await self._silent(error)
        if error is not None and not isinstance(error, Unreachable):
            return await self._watch_failed(error)
        if lived < SHORT_WATCH:
            return await self._short(error or InvalidAnswer(f"WATCH {self._source.name}: closed after {lived:.3f} s"))
        # The server's time-out, or a connection that broke after a while: both are everyday life, and the next watch
        # goes on where this one ended. If it can't be opened, that is a failure.
        self._log.debug("a watch ended and goes on", seconds=round(lived, 1), error=str(error) if error else None)
        return Listed()

    def _take(self, event: WatchEvent) -> None:
        version = (event.object.get("metadata") or {}).get("resourceVersion")
        if event.type == "BOOKMARK":
            if version:
                self._sink.advance(version)
        elif event.type in _CHANGES and self._source.accepts(event.object):
            self._sink.apply(_CHANGES[event.type], event.object)
        else:
            self._skip(event)
            return
        # Only now: had the sink raised, the event would come again.
        self._version = version or self._version

    async def _short(self, error: KubeError) -> State:
        """A stream that closes at once, for ever, would be a hot loop (R7). Every second time the list is renewed
        as well, because a server that can't watch from a version may be able to from another."""
        self._short_watches += 1
        return await self._failed(error, Listed() if self._short_watches % 2 else Empty(self._version))

    async def _silent(self, error: Silent) -> State:
        """A dead connection, as a rule, and the next one goes on. The second silence in a row renews the list: a
        version from the future, as after etcd came back from a backup, is watched without a word and without an
        end."""
        self._silences += 1
        self._log.warning("a watch fell silent, opening another", error=str(error))
        if self._silences % 2:
            return Listed()
        return Empty(self._version)

    async def _watch_failed(self, error: KubeError) -> State:
        """Where a watch is taken up again that could not be opened, or was ended by an error."""
        if isinstance(error, ApiError):
            if error.gone:
                if self._now() - self._listed_at >= SHORT_WATCH:
                    # Being too old once is no failure, and each second until the next list is one of old news (R1).
                    self._log.debug("the version is gone, listing again", error=str(error))
                    return Empty(self._version)
                # Gone right after a list: that list was no good, so take whatever is newest, and don't spin.
                return await self._failed(error, Empty(None))
            if error.too_large_version:
                return await self._failed(error, Empty(None))
            if error.status not in {429, 502, 503, 504}:
                # Forbidden, unknown kind, internal error: only a list tells what is true (R6).
                return await self._failed(error, Empty(self._version))
        # Not there, overloaded, or a proxy's page: nothing says that our version is bad, and a list costs more.
        return await self._failed(error, Listed())

    # --- failing and recovering

    async def _failed(self, error: KubeError, state: State) -> State:
        """Reports, waits, and goes to ``state``. One line per pause: never a flood."""
        asked = error.retry_after if isinstance(error, ApiError) else None
        wait = self._backoff.next(at_least=min(asked or 0.0, LONGEST_RETRY_AFTER))
        self.last_error = error
        self._log.warning("can't list or watch, trying again", error=str(error), seconds=round(wait, 2))
        await asyncio.sleep(wait)
        return state

    def _recovered(self) -> None:
        """A watch is open. The back-off is not reset: it does so itself, after a healthy stretch."""
        self.last_activity = self._now()
        if self.last_error is not None and not self._short_watches:
            self._log.info("listing and watching again", after=str(self.last_error))
        self.last_error = None

    async def _alive(self) -> None:
        self.last_activity = self._now()
        await self._breathe()

    def _skip(self, event: WatchEvent) -> None:
        self._log.warning("skipping an event of another kind", type=event.type, kind=event.object.get("kind"))

    async def _breathe(self) -> None:
        """Gives the loop its turn after a slice of work: buffered data alone never would (R15)."""
        if self._now() - self._breath >= SLICE:
            await asyncio.sleep(0)
            self._breath = self._now()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _watch_seconds() -> int:
    return random.randint(*WATCH_SECONDS)  # noqa: S311  # spreads load, guards nothing

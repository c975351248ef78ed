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

:mod:`vidra.runtime.reflector_states` has the way through its states.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack
from typing import Generic, TypeVar

import structlog

from vidra.kube.errors import ApiError, InvalidAnswer, KubeError, Silent, Unreachable
from vidra.kube.watch import WatchEvent
from vidra.runtime.backoff import Backoff, ExponentialBackoff
from vidra.runtime.listing import PAGE_SIZE, SLICE, FullList, Lister, Pace, Sink, Source, now, skip, version_of
from vidra.runtime.reflector_states import Empty, Listed, Listing, State, Streaming, Watching
from vidra.runtime.store import ChangeType
from vidra.runtime.versions import older

__all__ = ["HEALTHY_AFTER", "PAGE_SIZE", "PAUSES", "SLICE", "Reflector", "Sink", "Source"]

log = structlog.get_logger(__name__)

#: 0.8..1.6 s after a first failure, 30..60 s in the end, from the beginning again after two minutes without one (R8).
PAUSES = ExponentialBackoff(0.8, 30.0, jitter=1.0)
HEALTHY_AFTER = 120.0
#: Seconds the server is asked to keep a watch for; random, so that many watches don't end together.
WATCH_SECONDS = (290, 600)
#: A watch that ends sooner than this many seconds after it was opened has failed, whatever it said.
SHORT_WATCH = 1.0
#: The longest Retry-After that is believed, seconds.
LONGEST_RETRY_AFTER = 300.0

_CHANGES = {change.value: change for change in ChangeType}

T = TypeVar("T")


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
        self._pace = Pace()
        self._lister: Lister[T] = Lister(source, sink, self._pace, page_size=page_size)
        self._log = log.bind(collection=source.name)
        #: The last version seen in a list, an event or a bookmark; None before the first list.
        self._version: str | None = None
        self._listed_at = float("-inf")
        self._short_watches = 0
        self._silences = 0
        self._bookmarked = False
        #: Which state it is in: empty, streaming, listing, listed, watching.
        self.state = "empty"
        #: Whether the sink has ever had a full list.
        self.synced = False
        #: What stands in the way at the moment; None while all is well.
        self.last_error: KubeError | None = None

    @property
    def last_activity(self) -> float | None:
        """The event loop's time (``time.monotonic()`` as a rule) of the last sign of life from the server."""
        return self._pace.last_activity

    async def run(self) -> None:
        """Runs until cancelled; can be called once."""
        state: State = Empty(None)
        try:
            while True:
                self.state = type(state).__name__.lower()
                state = await self._step(state)
        finally:
            # The sink holds us as a rule. The cycle collector never looks at caches, so this cycle has to end here.
            del self._sink, self._lister

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
        except InvalidAnswer:
            return Listing(at_least)
        except KubeError as error:
            # Not there, or no credentials to ask with.
            return await self._failed(error, Empty(at_least))

    async def _streamed(self, at_least: str | None) -> Watching | None:
        async with AsyncExitStack() as connection:
            events = await connection.enter_async_context(
                self._source.watch(
                    resource_version=at_least, timeout_seconds=_watch_seconds(), send_initial_events=True
                )
            )
            opened = now()
            full = await self._lister.streamed(events)
            if full is None:
                return None
            await self._take_all(full)
            self._recovered()
            # The same stream goes on where the initial objects ended: nothing can be missed in between.
            return Watching(connection.pop_all(), events, opened)

    # --- Listing

    async def _list(self, at_least: str | None) -> State:
        try:
            full = await self._lister.paged(at_least)
        except ApiError as error:
            if not self._lister.broke_off and at_least is not None and (error.gone or error.too_large_version):
                # What we saw is older than the server remembers, or newer than it knows: take what it has, at once.
                return Listing(None)
            # An expired token on a later page lands here too: half a list is no list, so it starts again (R2).
            return await self._failed(error, Empty(at_least))
        except KubeError as error:
            return await self._failed(error, Empty(at_least))
        await self._take_all(full)
        return Listed()

    async def _take_all(self, full: FullList[T]) -> None:
        self._version = full.resource_version
        await self._sink.replace(full.entries, full.resource_version)
        self.synced = True
        self._listed_at = now()

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
        return Watching(connection, events, now())

    # --- Watching

    async def _watch(self, state: Watching) -> State:
        error: KubeError | None = None
        async with state.connection:
            try:
                async for event in state.events:
                    await self._pace.alive()
                    self._silences = 0
                    self._take(event)
            except KubeError as raised:
                error = raised
        lived = now() - state.opened
        if lived >= SHORT_WATCH:
            self._short_watches = 0
        if isinstance(error, Silent):
            return await self._silent(error)
        if isinstance(error, InvalidAnswer):
            # What can't be read at this version can't be read the next time either: then only a list helps.
            return await self._short(error)
        if error is not None and not isinstance(error, Unreachable):
            return await self._watch_failed(error)
        if lived < SHORT_WATCH:
            return await self._short(error or InvalidAnswer(f"WATCH {self._source.name}: closed after {lived:.3f} s"))
        # The server's time-out, or a connection that broke after a while: both are everyday life, and the next watch
        # goes on where this one ended. If it can't be opened, that is a failure.
        self._log.debug("a watch ended and goes on", seconds=round(lived, 1), error=str(error) if error else None)
        return Listed()

    def _take(self, event: WatchEvent) -> None:
        version = version_of(event)
        if event.type == "BOOKMARK":
            self._bookmarked = True
            if version:
                self._sink.advance(version)
        elif event.type in _CHANGES and self._source.accepts(event.object):
            self._sink.apply(_CHANGES[event.type], event.object)
        else:
            skip(self._source, event)
            return
        # Only now: had the sink raised, the event would come again. And never back: the next watch would show the
        # past once more, as if it were news.
        if version and not older(version, self._version or ""):
            self._version = version

    async def _short(self, error: KubeError) -> State:
        """A stream that closes at once, for ever, would be a hot loop (R7). Every second time the list is renewed
        as well, because a server that can't watch from a version may be able to from another."""
        self._short_watches += 1
        return await self._failed(error, Listed() if self._short_watches % 2 else Empty(self._version))

    async def _silent(self, error: Silent) -> State:
        """A dead connection, or a server that sends no bookmarks (none are promised, and for a kind that was defined
        just now none come for minutes): in both cases the next watch goes on here.

        The second silence in a row may also be that of a version from the future, which is watched without a word and
        without an end after etcd came back from a backup. Asking for one object tells."""
        self._silences += 1
        level = "warning" if self._bookmarked else "debug"
        getattr(self._log, level)("a watch fell silent, opening another", error=str(error))
        if self._silences % 2:
            return Listed()
        try:
            await self._source.list_page(resource_version=self._version, continue_token=None, limit=1)
        except KubeError as answer:
            if isinstance(answer, ApiError) and (answer.gone or answer.too_large_version):
                return Empty(None)
            return await self._failed(answer, Listed())
        return Listed()

    async def _watch_failed(self, error: KubeError) -> State:
        """Where a watch is taken up again that could not be opened, or was ended by an error."""
        if isinstance(error, ApiError):
            if error.gone:
                if now() - self._listed_at >= SHORT_WATCH:
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
        # Its traceback holds frames, and they hold us: see run.
        self.last_error = error.with_traceback(None)
        error.__cause__ = error.__context__ = None
        self._log.warning("can't list or watch, trying again", error=str(error), seconds=round(wait, 2))
        await asyncio.sleep(wait)
        return state

    def _recovered(self) -> None:
        """A watch is open. The back-off is not reset: it does so itself, after a healthy stretch."""
        self._pace.touch()
        if self.last_error is not None and not self._short_watches:
            self._log.info("listing and watching again", after=str(self.last_error))
        self.last_error = None


def _watch_seconds() -> int:
    return random.randint(*WATCH_SECONDS)  # noqa: S311  # spreads load, guards nothing

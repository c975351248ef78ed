"""Reads one full list of a collection, in pages or as the beginning of a stream (WatchList).

Promises: all of the list or nothing, whatever comes in between (R2); nothing but KubeErrors, whatever the server
sends; and the event loop gets its turn after each :data:`SLICE` (R15).

Lists ask for pages of the most recent state rather than for ``resourceVersion=0``: the latter would be served from
memory, but it may be older than what a former process has acted on, and the server ignores the page size for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import structlog

from vidra.kube.client import Obj
from vidra.kube.errors import InvalidAnswer
from vidra.kube.watch import Page, WatchEvent
from vidra.runtime.collector import no_full_collection
from vidra.runtime.store import ChangeType, Entry

log = structlog.get_logger(__name__)

#: Objects per page. Others ask for 500; a page is parsed in one piece, and 250 pods hold the event loop for 40 ms.
PAGE_SIZE = 250
#: Seconds without an event after which the beginning of a stream is given up.
STREAM_PAUSE = 10.0
#: Seconds of work after which the event loop gets its turn.
SLICE = 0.01

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


class FullList(NamedTuple, Generic[T]):
    """All objects of a collection, and the version of the whole."""

    entries: list[Entry[T]]
    resource_version: str


class Pace:
    """Notes signs of life, and gives the event loop its turn: data that is buffered already never would."""

    def __init__(self) -> None:
        #: The event loop's time of the last sign of life from the server.
        self.last_activity: float | None = None
        self._breath = float("-inf")

    async def alive(self) -> None:
        self.touch()
        await self.breathe()

    def touch(self) -> None:
        self.last_activity = now()

    async def breathe(self) -> None:
        if now() - self._breath >= SLICE:
            await asyncio.sleep(0)
            self._breath = now()


class Lister(Generic[T]):
    """Reads full lists of ``source`` for ``sink``; ``page_size`` is the number of objects in a page."""

    def __init__(self, source: Source, sink: Sink[T], pace: Pace, *, page_size: int) -> None:
        self._source = source
        self._sink = sink
        self._pace = pace
        self._page_size = page_size
        #: Whether the error of the last list came on a page after the first one.
        self.broke_off = False

    async def paged(self, at_least: str | None) -> FullList[T]:
        """Not older than ``at_least``; None asks for the most recent. Raises KubeErrors."""
        entries: list[Entry[T]] = []
        token: str | None = None
        self.broke_off = False
        with no_full_collection():
            while True:
                page = await self._source.list_page(
                    resource_version=at_least, continue_token=token, limit=self._page_size
                )
                await self._pace.alive()
                for obj in page.items:
                    if (entry := self._sink.ingest(obj)) is not None:
                        entries.append(entry)
                    await self._pace.breathe()
                token = page.continue_token
                if token is None:
                    return FullList(entries, page.resource_version)
                self.broke_off = True

    async def streamed(self, events: AsyncIterator[WatchEvent]) -> FullList[T] | None:
        """The list at the beginning of a watch that was asked for it; the watch may go on afterwards.

        None when the stream ended before the list was complete. Raises TimeoutError after :data:`STREAM_PAUSE` seconds
        in which nothing came, and KubeErrors.
        """
        # The objects' own versions are not kept: they come in no order, so the last one says nothing (R3).
        entries: dict[object, Entry[T]] = {}
        with no_full_collection():
            async with asyncio.timeout(STREAM_PAUSE) as deadline:
                async for event in events:
                    await self._pace.alive()
                    deadline.reschedule(now() + STREAM_PAUSE)
                    if event.type == "BOOKMARK":
                        if (version := _end_of_list(event)) is not None:
                            return FullList(list(entries.values()), version)
                    elif not self._source.accepts(event.object):
                        skip(self._source, event)
                    elif (entry := self._sink.ingest(event.object)) is not None:
                        if event.type == "DELETED":
                            entries.pop(entry.key, None)
                        else:
                            entries[entry.key] = entry
        return None


def metadata_of(event: WatchEvent) -> dict[str, Any]:
    """The metadata of whatever came: an empty one where there is none."""
    metadata = event.object.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def version_of(event: WatchEvent) -> str:
    """The resourceVersion of whatever came, "" where there is none."""
    version = metadata_of(event).get("resourceVersion")
    return version if isinstance(version, str) else ""


def skip(source: Source, event: WatchEvent) -> None:
    log.warning(
        "skipping an event of another kind",
        collection=source.name,
        type=event.type,
        kind=str(event.object.get("kind")),
    )


def now() -> float:
    return asyncio.get_running_loop().time()


def _end_of_list(event: WatchEvent) -> str | None:
    """The list's version, where the bookmark says that the list ends here."""
    annotations = metadata_of(event).get("annotations")
    if not isinstance(annotations, dict) or annotations.get(_INITIAL_EVENTS_END) != "true":
        return None
    if not (version := version_of(event)):
        raise InvalidAnswer("the bookmark that ends the list has no resourceVersion")
    return version

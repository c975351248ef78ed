"""Tells people what happened to an object, as Kubernetes Events (events.k8s.io/v1), and never gets in the way.

What it promises:

- :meth:`Recorder.event` is a plain call of a few microseconds. It asks nobody, waits for nothing and raises nothing.
- The same thing again is no new Event but a count on the first one. The same is: type, action, reason, regarding and
  related; not the note, whose first text stays. A count is written after :data:`FIRST_PAUSE`, then after twice that,
  and so on up to :data:`LAST_PAUSE`, so that a thing that happens all the time costs next to nothing. What did not
  happen for :data:`FINISHED` is a new Event the next time.
- Bounded everywhere: new Events that wait to be written, those remembered, those per object in a time. What is beyond
  is dropped and counted; one log line says so.
- A write that fails is tried again up to :data:`TRIES` times, a refused one is dropped. An Event that the server
  forgot meanwhile is made anew, with its count.
- When :meth:`Recorder.run` is cancelled, what waits is written, for :data:`FLUSH` at the most.

The note is the caller's: no values of Secrets in it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import structlog

from vidra.kube.client import Client, Obj, PatchType
from vidra.kube.errors import ApiError, KubeError
from vidra.runtime.event_objects import EVENTS, MAX_WORD, EventType, Happening, Ref, happening, new_name, shorten
from vidra.runtime.timestamps import micro_time
from vidra.runtime.workqueue import Clock, WorkQueue

log = structlog.get_logger(__name__)

#: Seconds between the first writes of a growing count, and between the later ones.
FIRST_PAUSE: Final = 5.0
LAST_PAUSE: Final = 300.0
#: Seconds after which what has not happened again is over (client-go's).
FINISHED: Final = 360.0
#: Tries of one write, and seconds between them (client-go's).
TRIES: Final = 12
RETRY: Final = 10.0
#: New Events that wait to be written, and all that are remembered for their counts: about a kilobyte each.
MAX_NEW: Final = 1000
MAX_KNOWN: Final = 4096
#: New Events that one object may have at once, and seconds until it may have one more (client-go's).
BURST: Final = 25
REFILL: Final = 300.0
#: Writes at a time, and seconds for the last of them.
WRITERS: Final = 4
FLUSH: Final = 1.0
#: Seconds between two log lines that say that events were dropped.
TOLD_EVERY: Final = 60.0


@dataclass(slots=True)
class _Series:
    """One thing that happened ``count`` times, ``written`` of which the server knows. Times of the queue's clock."""

    name: str
    note: str
    first: str
    last: str
    last_at: float
    pause: float
    count: int = 1
    written: int = 0
    failures: int = 0


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


class Recorder:
    """Make it inside a running event loop; its calls aren't thread-safe. ``controller`` (``example.com/operator``) and
    ``instance`` (the pod's name) are who reports."""

    def __init__(self, client: Client, *, controller: str, instance: str, clock: Clock | None = None) -> None:
        self._client = client
        self._reporter = {"reportingController": controller, "reportingInstance": instance[:MAX_WORD]}
        self._clock: Clock = clock if clock is not None else asyncio.get_running_loop()
        self._queue: WorkQueue[Happening] = WorkQueue(clock=self._clock)
        # The one that happened longest ago comes first.
        self._known: OrderedDict[Happening, _Series] = OrderedDict()
        # Those of them that the server doesn't know yet, and those whose count it doesn't.
        self._new: set[Happening] = set()
        self._waiting: set[Happening] = set()
        self._buckets: OrderedDict[Ref, _Bucket] = OrderedDict()
        self._all_written = asyncio.Event()
        self._closing = False
        self._told_at = float("-inf")
        #: Events that nobody will see.
        self.dropped = 0

    def event(
        self,
        regarding: Mapping[str, Any] | Ref,
        *,
        type: EventType = "Normal",  # noqa: A002 - the API's word
        reason: str,
        action: str,
        note: str,
        related: Mapping[str, Any] | Ref | None = None,
    ) -> None:
        """Says that ``action`` was done, or tried, because of ``reason`` (CamelCase words both), with ``note`` for
        people. ``regarding`` and ``related`` are raw objects or references."""
        key = happening(regarding, type=type, reason=reason, action=action, related=related)
        series = self._known.get(key)
        if series is not None:
            series.count += 1
            series.last = micro_time()
            series.last_at = self._clock.time()
            self._known.move_to_end(key)
            self._waiting.add(key)
            if series.written and not series.failures:
                self._queue.add_after(key, series.pause)
        elif len(self._new) < MAX_NEW and self._make_room() and self._may(key.regarding):
            now = micro_time()
            name = new_name(key.regarding)
            self._known[key] = _Series(name, shorten(note), now, now, self._clock.time(), FIRST_PAUSE)
            self._new.add(key)
            self._waiting.add(key)
            self._queue.add(key)
        else:
            self._drop(key, 1, "too many at once")

    async def run(self) -> None:
        """Writes until it is cancelled; what is recorded before waits for it."""
        writers = [asyncio.create_task(self._write_on()) for _ in range(WRITERS)]
        try:
            await asyncio.wait(writers, return_when=asyncio.FIRST_EXCEPTION)
        except asyncio.CancelledError:
            await self._flush()
            raise
        finally:
            for writer in writers:
                writer.cancel()
            await asyncio.wait(writers)
        for writer in writers:
            if not writer.cancelled():
                writer.result()  # a fault of ours: it ends the process

    # --- deciding

    def _make_room(self) -> bool:
        if len(self._known) < MAX_KNOWN:
            return True
        for key in islice(self._known, MAX_NEW + 1):
            if key not in self._waiting:
                del self._known[key]  # should it happen again, it is a new Event
                return True
        return False

    def _may(self, about: Ref) -> bool:
        """Whether the object may have one more new Event."""
        now = self._clock.time()
        bucket = self._buckets.pop(about, None)
        if bucket is None:
            bucket = _Bucket(float(BURST), now)
            if len(self._buckets) >= MAX_KNOWN:
                self._buckets.popitem(last=False)
        self._buckets[about] = bucket
        bucket.tokens = min(float(BURST), bucket.tokens + (now - bucket.at) / REFILL)
        bucket.at = now
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True

    def _drop(self, key: Happening, count: int, why: str) -> None:
        self.dropped += count
        now = self._clock.time()
        if now - self._told_at >= TOLD_EVERY:
            self._told_at = now
            about = key.regarding
            log.warning("events are dropped", why=why, reason=key.reason, kind=about.kind, name=about.name)

    def _forget(self, key: Happening) -> None:
        self._known.pop(key, None)
        self._new.discard(key)
        self._settle(key)

    def _settle(self, key: Happening) -> None:
        self._waiting.discard(key)
        if self._closing and not self._waiting:
            self._all_written.set()

    # --- writing

    async def _write_on(self) -> None:
        while True:
            key = await self._queue.get()
            try:
                await self._look_after(key)
            finally:
                self._queue.done(key)

    async def _look_after(self, key: Happening) -> None:
        series = self._known.get(key)
        if series is None:
            return
        idle = self._clock.time() - series.last_at
        if idle >= FINISHED:
            # Also what could never be written, as on a process that doesn't lead: it is news no more.
            self._forget(key)
            return
        if series.count == series.written:
            self._queue.add_after(key, FINISHED - idle)
            return
        try:
            await self._write(key, series)
        except KubeError as error:
            self._failed(key, series, error)

    async def _write(self, key: Happening, series: _Series) -> None:
        count = series.count
        change = {"series": {"count": count, "lastObservedTime": series.last}} if count > 1 else {}
        if series.written == 0:
            await self._create(key, series, change)
        else:
            await self._patch(key, series, change)
            series.pause = min(LAST_PAUSE, series.pause * 2)
        series.written, series.failures = count, 0
        self._new.discard(key)
        if series.count == count:
            self._settle(key)
        self._queue.add_after(key, FINISHED if series.count == count else series.pause)

    async def _create(self, key: Happening, series: _Series, change: Obj) -> None:
        body = key.body(name=series.name, note=series.note, first=series.first, reporter=self._reporter)
        try:
            await self._client.create(EVENTS, {**body, **change}, namespace=key.namespace)
        except ApiError as error:
            if not error.already_exists:
                raise
            # The name is ours alone: it is what an earlier try made, whose answer was lost.
            await self._client.patch(EVENTS, series.name, change, PatchType.MERGE, namespace=key.namespace)

    async def _patch(self, key: Happening, series: _Series, change: Obj) -> None:
        try:
            await self._client.patch(EVENTS, series.name, change, PatchType.MERGE, namespace=key.namespace)
        except ApiError as error:
            if not error.not_found:
                raise
            series.name = new_name(key.regarding)  # it was forgotten, as the server does after an hour
            await self._create(key, series, change)

    def _failed(self, key: Happening, series: _Series, error: KubeError) -> None:
        series.failures += 1
        if not error.retryable or series.failures >= TRIES or self._closing:
            self._drop(key, series.count - series.written, str(error))
            self._forget(key)
            return
        asked = error.retry_after if isinstance(error, ApiError) else None
        self._queue.add_after(key, max(RETRY, asked or 0.0))

    async def _flush(self) -> None:
        if not self._waiting:
            return
        self._closing = True
        for key in self._waiting:
            self._queue.add(key)
        with suppress(TimeoutError):
            async with asyncio.timeout(FLUSH):
                await self._all_written.wait()

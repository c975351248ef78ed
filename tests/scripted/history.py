"""A collection with a history: what an API server would list and watch, and a fault now and then, without a wire.

Versions grow by one per write, as in etcd. A watch from a version that was compacted away is refused with 410, before
the stream or within it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

from tests.scripted.source import bookmark, thing

from vidra.kube.client import Obj
from vidra.kube.errors import ApiError, ConfigError, InvalidAnswer, KubeError, Silent, Unreachable
from vidra.kube.watch import Page, WatchEvent

#: What a fault does to the request or stream it meets. "end" is the server's own end of a stream.
FAULTS: dict[str, Callable[[], KubeError | None]] = {
    "end": lambda: None,
    "cut": lambda: Unreachable("reset"),
    "silent": lambda: Silent("nothing came"),
    "gone": lambda: ApiError(410, "Expired", "too old"),
    "busy": lambda: ApiError(429, "TooManyRequests", "slow down", retry_after=3),
    "down": lambda: ApiError(503, "ServiceUnavailable", "no"),
    "internal": lambda: ApiError(500, "InternalError", "no"),
    "forbidden": lambda: ApiError(403, "Forbidden", "no"),
    "config": lambda: ConfigError("the token file is empty"),
    "page": lambda: InvalidAnswer("<html>"),
}


class History:
    name = "things.example/v1"

    def __init__(self, page_size: int = 3) -> None:
        self.version = 10
        self.objects: dict[str, Obj] = {}
        self.requests = 0
        self.open_watches = 0
        self._log: list[tuple[int, WatchEvent]] = []
        self._compacted = 0
        self._page_size = page_size
        self._pages: dict[str, tuple[list[Obj], int]] = {}
        #: Faults of the next requests, in order; None lets one pass.
        self._faults: list[str | None] = []
        self._wake = asyncio.Event()
        self._break: str | None = None
        self._made = 0

    # --- the world's side

    def put(self, name: str) -> None:
        """Creates the object, or changes it."""
        self.version += 1
        known = self.objects.get(name)
        if known is None:
            self._made += 1
        uid = known["metadata"]["uid"] if known else f"uid-{self._made}"
        self.objects[name] = thing(name, str(self.version), uid=uid, n=self.version)
        self._note("MODIFIED" if known else "ADDED", self.objects[name])

    def remove(self, name: str) -> None:
        known = self.objects.pop(name, None)
        if known is not None:
            self.version += 1
            last = {**known, "metadata": {**known["metadata"], "resourceVersion": str(self.version)}}
            self._note("DELETED", last)

    def compact(self) -> None:
        """Forgets how things came to be as they are; a stream that is open already has it all."""
        self._compacted = self.version

    def break_streams(self, fault: str) -> None:
        """Meets every open stream; without one nothing happens."""
        self._break = fault
        self._tell()
        self._break = None

    def refuse_next(self, faults: list[str | None]) -> None:
        self._faults += faults

    # --- the reflector's side

    def accepts(self, obj: Obj) -> bool:
        return bool(obj.get("kind") == "Thing")

    async def list_page(self, *, resource_version: str | None, continue_token: str | None, limit: int | None) -> Page:
        self._request()
        await asyncio.sleep(0.01)
        if continue_token is None:
            if resource_version is not None and int(resource_version) > self.version:
                raise ApiError(504, "Timeout", "Too large resource version")
            rest, version = list(self.objects.values()), self.version
        else:
            rest, version = self._pages.pop(continue_token)
            if version < self._compacted:
                raise ApiError(410, "Expired", "the continue token is too old")
        page, rest = rest[: self._page_size], rest[self._page_size :]
        token = f"token-{self.requests}" if rest else None
        if token:
            self._pages[token] = (rest, version)
        return Page(page, str(version), token)

    @asynccontextmanager
    async def watch(
        self, *, resource_version: str | None, timeout_seconds: int, send_initial_events: bool = False
    ) -> AsyncIterator[AsyncIterator[WatchEvent]]:
        self._request()
        await asyncio.sleep(0.01)
        start = self.version if resource_version is None or send_initial_events else int(resource_version)
        if start < self._compacted:
            raise ApiError(410, "Expired", "too old resource version")
        self.open_watches += 1
        try:
            yield self._stream(start, timeout_seconds, self._initial() if send_initial_events else iter(()))
        finally:
            self.open_watches -= 1

    # --- inside

    def _initial(self) -> Iterator[WatchEvent]:
        for obj in list(self.objects.values()):
            yield WatchEvent("ADDED", obj)
        yield bookmark(str(self.version), initial_events_end=True)

    async def _stream(self, start: int, seconds: float, initial: Iterator[WatchEvent]) -> AsyncIterator[WatchEvent]:
        for event in initial:
            yield event
        clock = asyncio.get_running_loop().time
        end = clock() + seconds
        while True:
            for version, event in list(self._log):
                if version > start:
                    start = version
                    yield event
            wake = self._wake
            try:
                async with asyncio.timeout_at(min(end, clock() + 60)):
                    await wake.wait()
            except TimeoutError:
                if clock() >= end:
                    return
                start = max(start, self.version)
                yield bookmark(str(start))
                continue
            fault = getattr(wake, "fault", None)
            if fault is not None:
                error = FAULTS[fault]()
                if error is None:
                    return
                raise error

    def _request(self) -> None:
        self.requests += 1
        fault = self._faults.pop(0) if self._faults else None
        error = FAULTS[fault]() if fault else None
        if error is not None:
            raise error

    def _note(self, kind: str, obj: Obj) -> None:
        self._log.append((self.version, WatchEvent(kind, obj)))
        self._tell()

    def _tell(self) -> None:
        wake: Any = self._wake
        wake.fault = self._break
        self._wake = asyncio.Event()
        wake.set()

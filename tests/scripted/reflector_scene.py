"""An informer over a scripted source, played in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from tests.scripted.source import Pause, ScriptedSource, Step, thing
from tests.scripted.virtual_time import run

from vidra.kube.client import Obj
from vidra.kube.errors import ApiError, KubeError, status_error
from vidra.kube.watch import Page, WatchEvent
from vidra.runtime.backoff import Backoff
from vidra.runtime.informer import Informer
from vidra.runtime.reflector import HEALTHY_AFTER, PAUSES
from vidra.runtime.store import Change, Store

FOREVER = Pause(1e9)
GONE = ApiError(410, "Expired", "too old resource version")
TOO_LARGE = status_error(
    {
        "code": 504,
        "reason": "Timeout",
        "message": "Timeout: Too large resource version: 9, current: 5",
        "details": {"causes": [{"reason": "ResourceVersionTooLarge"}], "retryAfterSeconds": 1},
    }
)


def page(version: str, *objects: Obj, token: str | None = None) -> Page:
    return Page(list(objects), version, token)


def modified(name: str, version: str, **spec: Any) -> WatchEvent:
    return WatchEvent("MODIFIED", thing(name, version, **spec))


def added(name: str, version: str, **spec: Any) -> WatchEvent:
    return WatchEvent("ADDED", thing(name, version, **spec))


def deleted(name: str, version: str) -> WatchEvent:
    return WatchEvent("DELETED", thing(name, version))


class Scene:
    """An informer over a script, played for some seconds of virtual time."""

    def __init__(
        self,
        lists: Sequence[Page | KubeError] = (),
        watches: Sequence[Sequence[Step] | KubeError] = ([FOREVER],),
        *,
        stream_lists: bool = False,
    ) -> None:
        self.source = ScriptedSource(lists, watches)
        self.changes: list[Change[Obj]] = []
        self.error: KubeError | None = None
        self.state = ""
        self.last_activity: float | None = None
        self._stream_lists = stream_lists

    def play(self, seconds: float) -> Scene:
        run(self._play(seconds))
        return self

    async def _play(self, seconds: float) -> None:
        clock = asyncio.get_running_loop().time
        backoff = Backoff(PAUSES, healthy_after=HEALTHY_AFTER, clock=clock, rand=lambda: 0.0)
        informer = Informer(
            self.source, Store[Obj](detect_mutations=True), backoff=backoff, stream_lists=self._stream_lists
        )
        informer.add_handler(self.changes.append)
        task = asyncio.create_task(informer.run())
        await asyncio.sleep(seconds)
        assert not task.done(), "a reflector never ends by itself"
        self.error, self.state, self.last_activity = informer.last_error, informer.state, informer.last_activity
        self.store = informer.store
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        assert self.source.open_watches == 0, "a watch was left open"

    @property
    def told(self) -> list[tuple[str, str]]:
        return [(change.type.value, change.key.name) for change in self.changes]

    def times(self, verb: str) -> list[float]:
        return [round(at, 3) for word, at, _ in self.source.requests if word == verb]

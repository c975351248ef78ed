"""A collection that answers what a test has written down, without a wire."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from vidra.kube.client import Obj
from vidra.kube.errors import KubeError
from vidra.kube.watch import Page, WatchEvent


def thing(name: str, version: str, *, uid: str = "", kind: str = "Thing", **spec: Any) -> Obj:
    """An object; its uid is made of its name unless one is given."""
    return {
        "apiVersion": "example/v1",
        "kind": kind,
        "metadata": {"namespace": "n", "name": name, "uid": uid or f"uid-{name}", "resourceVersion": version},
        "spec": spec,
    }


def bookmark(version: str, *, initial_events_end: bool = False) -> WatchEvent:
    annotations = {"annotations": {"k8s.io/initial-events-end": "true"}} if initial_events_end else {}
    return WatchEvent("BOOKMARK", {"kind": "Thing", "metadata": {"resourceVersion": version, **annotations}})


class Pause:
    """In the script of a watch: nothing comes for so many seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds


#: A watch's script: events, pauses, and an error to end with; without one the server ends the stream.
Step = WatchEvent | Pause | KubeError


class ScriptedSource:
    """``lists`` and ``watches`` are answered in order; the last one again and again. ``requests`` holds what was asked
    and when: ("list" | "watch", the loop's time, the arguments)."""

    name = "things.example/v1"

    def __init__(
        self, lists: Sequence[Page | KubeError] = (), watches: Sequence[Sequence[Step] | KubeError] = ()
    ) -> None:
        self._lists = list(lists)
        self._watches = list(watches)
        self.requests: list[tuple[str, float, dict[str, Any]]] = []
        self.open_watches = 0

    def accepts(self, obj: Obj) -> bool:
        return obj.get("kind") == "Thing" and isinstance(obj.get("metadata"), dict)

    def asked(self, verb: str) -> list[dict[str, Any]]:
        return [arguments for word, _, arguments in self.requests if word == verb]

    async def list_page(self, *, resource_version: str | None, continue_token: str | None, limit: int | None) -> Page:
        self._note("list", resource_version=resource_version, continue_token=continue_token, limit=limit)
        answer = self._lists.pop(0) if len(self._lists) > 1 else self._lists[0]
        if isinstance(answer, KubeError):
            raise answer
        return answer

    @asynccontextmanager
    async def watch(
        self, *, resource_version: str | None, timeout_seconds: int, send_initial_events: bool = False
    ) -> AsyncIterator[AsyncIterator[WatchEvent]]:
        self._note(
            "watch", resource_version=resource_version, timeout=timeout_seconds, initial_events=send_initial_events
        )
        script = self._watches.pop(0) if len(self._watches) > 1 else self._watches[0]
        if isinstance(script, KubeError):
            raise script
        self.open_watches += 1
        try:
            yield _play(script)
        finally:
            self.open_watches -= 1

    def _note(self, verb: str, **arguments: Any) -> None:
        self.requests.append((verb, asyncio.get_running_loop().time(), arguments))


async def _play(script: Sequence[Step]) -> AsyncIterator[WatchEvent]:
    for step in script:
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
        elif isinstance(step, KubeError):
            raise step
        else:
            yield step

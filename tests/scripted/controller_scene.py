"""A controller over a queue without jitter, and what it did."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from vidra.runtime.backoff import ExponentialBackoff, KeyedBackoff
from vidra.runtime.controller import Controller, Outcome, Result
from vidra.runtime.workqueue import WorkQueue

Reconcile = Callable[[str], Awaitable[Result]]


def now() -> float:
    return asyncio.get_running_loop().time()


class Observer:
    def __init__(self) -> None:
        self.active = 0
        self.outcomes: list[Outcome] = []
        self.seconds: list[float] = []

    def started(self) -> None:
        self.active += 1

    def finished(self, outcome: Outcome, seconds: float) -> None:
        self.active -= 1
        self.outcomes.append(outcome)
        self.seconds.append(seconds)


class Scene:
    """A controller over a queue without jitter: retries after 1, 2, 4 ... 8 s."""

    def __init__(self, reconcile: Reconcile, *, workers: int = 1, timeout: float | None = None) -> None:
        self.queue: WorkQueue[str] = WorkQueue(backoff=KeyedBackoff(ExponentialBackoff(1, 8, jitter=0)))
        self.observer = Observer()
        self.controller: Controller[str] = Controller(
            "things", reconcile, self.queue, workers=workers, timeout=timeout, observer=self.observer
        )
        self.task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Scene:
        self.task = asyncio.create_task(self.controller.run())
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        assert self.task is not None
        self.controller.stop()
        await self.task
        assert self.observer.active == 0


DONE = Result()

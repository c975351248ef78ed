"""An event loop whose time only passes when everybody waits: an hour of back-off is tested exactly, and at once."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Selector(selectors.DefaultSelector):
    """Instead of sleeping until the next timer, moves the clock there."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready: list[tuple[selectors.SelectorKey, int]] = super().select(0)
        if not ready and timeout is None:
            raise RuntimeError("nothing will ever happen any more: the test waits for what nobody does")
        if not ready and timeout:
            self.now += timeout
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now


def run(test: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine in virtual time, which begins at 0 seconds."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(test)


async def settle() -> None:
    """Lets everybody run who can without time passing."""
    for _ in range(20):
        await asyncio.sleep(0)

"""An event loop whose clock jumps: hours of waiting pass in no time, in the right order, to the last digit.

When nothing is ready to run the loop sleeps until its next timer; here it sets its clock forward by that time instead.
A loop that has neither would sleep for ever, and says so.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _JumpingSelector(selectors.SelectSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise RuntimeError("everybody waits and no timer runs")
            self.now += max(timeout, 0)
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


def run(main: Coroutine[Any, Any, T]) -> T:
    """Like :func:`asyncio.run`, in virtual time that starts at 0."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)


async def settle() -> None:
    """Lets everybody run who can without time passing."""
    for _ in range(20):
        await asyncio.sleep(0)

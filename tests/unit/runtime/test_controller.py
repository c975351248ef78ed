"""What becomes of each outcome of a reconcile: when the key comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
import structlog
from tests.scripted.controller_scene import DONE, Scene, now
from tests.scripted.virtual_time import run, settle

from vidra.kube.errors import ApiError, InvalidAnswer, Unreachable
from vidra.runtime.controller import Result, RetryableError, RetryAfter, TerminalError
from vidra.runtime.ownwrites import CacheBehind

Reconcile = Callable[[str], Awaitable[Result]]


def times_of(*outcomes: Result | BaseException, until: float = 100, timeout: float | None = None) -> list[float]:
    """When a key is reconciled, if its first reconcile ends by the first outcome and so on; the last one for ever."""
    left = list(outcomes)

    async def story() -> list[float]:
        times: list[float] = []

        async def reconcile(key: str) -> Result:
            times.append(now())
            outcome = left.pop(0) if len(left) > 1 else left[0]
            if isinstance(outcome, BaseException):
                raise outcome
            return outcome

        async with Scene(reconcile, timeout=timeout) as scene:
            scene.queue.add("a")
            await asyncio.sleep(until)
        return times

    return run(story())


@pytest.mark.parametrize(
    ("outcomes", "times"),
    [
        ((DONE,), [0]),
        ((Result(requeue_after=40),), [0, 40, 80]),
        ((RetryableError("x"),), [0, 1, 3, 7, 15, 23, 31]),
        ((RuntimeError("x"),), [0, 1, 3, 7, 15, 23, 31]),
        ((Unreachable("x"),), [0, 1, 3, 7, 15, 23, 31]),
        ((InvalidAnswer("x"), DONE), [0, 1]),
        ((TerminalError("x"),), [0]),
        ((RetryAfter(10), RetryAfter(5), DONE), [0, 10, 15]),
        ((CacheBehind("a", 0.25), DONE), [0, 0.25]),
        ((ApiError(429, "TooManyRequests", "", retry_after=20), DONE), [0, 20]),
        ((ApiError(429, "TooManyRequests", "", retry_after=0.1), DONE), [0, 1]),
    ],
    ids=lambda value: "" if isinstance(value, list) else ",".join(type(outcome).__name__ for outcome in value),
)
def test_when_a_key_comes_back(outcomes: tuple[Result | BaseException, ...], times: list[float]) -> None:
    assert times_of(*outcomes, until=max(31.5, times[-1] + 0.5)) == pytest.approx(times)


@pytest.mark.parametrize(
    ("between", "again"),
    [
        (DONE, 1),
        (Result(requeue_after=5), 1),
        (TerminalError("x"), 1),
        (RetryAfter(5), 4),
        (CacheBehind("a", 5), 4),
        (RetryableError("x"), 8),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_makes_a_back_off_begin_anew(between: Result | BaseException, again: float) -> None:
    """After two failures the next wait would be 4 s."""

    async def story() -> float:
        left: list[Result | BaseException] = [RetryableError("1"), RetryableError("2"), between, RetryableError("3")]

        async def reconcile(key: str) -> Result:
            outcome = left.pop(0)
            if isinstance(outcome, BaseException):
                raise outcome
            return outcome

        async with Scene(reconcile) as scene:
            scene.queue.add("a")
            await asyncio.sleep(3.5)
            scene.queue.add("a")  # an event
            await settle()
            return scene.queue._backoff.rule.delay(scene.queue.retries("a") - 1)

    assert run(story()) == again


@pytest.mark.case("R08")
def test_r08_a_key_that_is_told_to_wait_comes_back_then_and_holds_up_no_other() -> None:
    async def story() -> list[tuple[str, float]]:
        runs: list[tuple[str, float]] = []

        async def reconcile(key: str) -> Result:
            runs.append((key, now()))
            if key == "busy":
                raise ApiError(429, "TooManyRequests", "slow down", retry_after=30, request="PATCH /api/v1/x")
            return Result(requeue_after=10)

        async with Scene(reconcile) as scene:
            for key in ("busy", "b", "c"):
                scene.queue.add(key)
            await asyncio.sleep(35)
        return runs

    with structlog.testing.capture_logs() as lines:
        runs = run(story())
    assert [at for key, at in runs if key == "busy"] == [0, 30]
    assert [at for key, at in runs if key == "b"] == [0, 10, 20, 30]
    assert lines[0]["error"] == "PATCH /api/v1/x: 429 TooManyRequests: slow down"

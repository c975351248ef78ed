"""Workers and their keys: one at a time, in order, in time, each with its log line."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import structlog
from tests.scripted.controller_scene import DONE, Scene, now
from tests.scripted.virtual_time import run

from vidra.runtime.controller import Outcome, Result, RetryableError, RetryAfter, TerminalError
from vidra.runtime.workqueue import Priority

Reconcile = Callable[[str], Awaitable[Result]]


def test_an_event_does_not_wait_for_the_back_off() -> None:
    async def story() -> list[float]:
        times: list[float] = []

        async def reconcile(key: str) -> Result:
            times.append(now())
            raise RetryableError("x")

        async with Scene(reconcile) as scene:
            scene.queue.add("a")
            await asyncio.sleep(14)
            scene.queue.add("a")
            await asyncio.sleep(10)
        return times

    assert run(story()) == [0, 1, 3, 7, 14, 22]


@pytest.mark.case("U10")
def test_u10_edits_while_it_is_reconciled_cause_exactly_one_more_run_with_the_newest_state() -> None:
    async def story() -> None:
        state, seen, running = 0, [], 0

        async def reconcile(key: str) -> Result:
            nonlocal running
            running += 1
            assert running == 1, "two reconciles of one key at once"
            seen.append(state)
            await asyncio.sleep(5)
            running -= 1
            return DONE

        async with Scene(reconcile, workers=4) as scene:
            for edit in (1, 2, 3):
                state = edit
                scene.queue.add("a")
                await asyncio.sleep(1)
            await asyncio.sleep(60)
        assert seen == [1, 3]

    run(story())


def test_a_frozen_key_holds_one_worker_and_no_other_key() -> None:
    async def story() -> None:
        done: list[str] = []

        async def reconcile(key: str) -> Result:
            if key == "frozen":
                await asyncio.sleep(1e6)
            done.append(key)
            return DONE

        scene = Scene(reconcile, workers=2)
        scene.task = asyncio.create_task(scene.controller.run())
        for key in ("frozen", "b", "c", "d"):
            scene.queue.add(key)
        await asyncio.sleep(100)
        assert done == ["b", "c", "d"]
        longest = scene.queue.longest_running()
        assert longest is not None
        assert (longest.key, longest.seconds) == ("frozen", 100)
        scene.task.cancel()
        scene.task.cancel()
        await asyncio.wait([scene.task])

    run(story())


def test_a_reconcile_that_takes_too_long_is_cancelled_and_tried_again() -> None:
    async def story() -> None:
        times: list[float] = []

        async def reconcile(key: str) -> Result:
            times.append(now())
            await asyncio.sleep(1e6)
            return DONE

        async with Scene(reconcile, timeout=10) as scene:
            scene.queue.add("a")
            await asyncio.sleep(23.5)
            assert times == [0, 11, 23]
            assert scene.observer.outcomes == [Outcome.TIMEOUT, Outcome.TIMEOUT]
            assert scene.observer.seconds == [10, 10]
            await asyncio.sleep(10)

    run(story())


def test_a_time_out_within_a_reconcile_is_a_failure_of_its_own() -> None:
    async def story() -> list[Outcome]:
        async def reconcile(key: str) -> Result:
            async with asyncio.timeout(0.1):
                await asyncio.sleep(1)
            return DONE

        async with Scene(reconcile, timeout=10) as scene:
            scene.queue.add("a")
            await asyncio.sleep(0.5)
            return list(scene.observer.outcomes)

    assert run(story()) == [Outcome.ERROR]


def test_a_stray_cancellation_out_of_a_reconcile_ends_no_worker() -> None:
    async def story() -> None:
        done: list[str] = []

        async def reconcile(key: str) -> Result:
            if key == "stray":
                somebody = asyncio.create_task(asyncio.sleep(100))
                asyncio.get_running_loop().call_soon(somebody.cancel)
                await somebody
            done.append(key)
            return DONE

        async with Scene(reconcile) as scene:
            scene.queue.add("stray")
            scene.queue.add("b")
            await asyncio.sleep(0.5)
            assert done == ["b"]
            assert scene.observer.outcomes == [Outcome.ERROR, Outcome.SUCCESS]
            assert scene.queue.retries("stray") == 1

    run(story())


def test_a_key_that_comes_back_keeps_its_priority() -> None:
    async def story() -> list[str]:
        order: list[str] = []

        async def reconcile(key: str) -> Result:
            order.append(key)
            if order.count(key) == 1:
                raise RetryableError("x")
            return DONE

        async with Scene(reconcile) as scene:
            scene.queue.add("low", priority=Priority.LOW)
            scene.queue.add("normal")
            await asyncio.sleep(0.5)
            # Both come back at 1 s, when the only worker is kept busy until later.
            await asyncio.sleep(2)
        return order

    assert run(story()) == ["normal", "low", "normal", "low"]


def test_a_worker_that_never_waits_leaves_the_loop_its_turn() -> None:
    async def story() -> None:
        async def reconcile(key: str) -> Result:
            scene.queue.add(key)
            return DONE

        scene = Scene(reconcile)
        async with scene:
            scene.queue.add("a")
            for _ in range(10):
                await asyncio.sleep(0)
            assert 1 < len(scene.observer.outcomes) <= 20

    run(story())


def test_each_reconcile_is_one_line_with_its_key_and_an_id_of_its_own() -> None:
    async def story() -> None:
        outcomes: list[Any] = [RetryableError("first"), ZeroDivisionError("second"), TerminalError("third"), DONE]

        async def reconcile(key: str) -> Result:
            outcome = outcomes.pop(0)
            if isinstance(outcome, Result):
                return outcome
            raise outcome

        async with Scene(reconcile) as scene:
            scene.queue.add("a")
            await asyncio.sleep(4)
            scene.queue.add("a")
            await asyncio.sleep(1)

    with structlog.testing.capture_logs(processors=[structlog.contextvars.merge_contextvars]) as lines:
        run(story())
    assert [(line["log_level"], line["event"], line.get("error")) for line in lines] == [
        ("warning", "reconcile failed", "first"),
        ("error", "reconcile failed unexpectedly", "second"),
        ("error", "reconcile failed for good", "third"),
        ("info", "reconciled", None),
    ]
    assert {(line["controller"], line["key"]) for line in lines} == {("things", "a")}
    assert len({line["reconcile_id"] for line in lines}) == 4
    assert ["exc_info" in line for line in lines] == [False, True, False, False]
    assert all("duration" in line for line in lines)


@pytest.mark.parametrize("seconds", [0, -1])
def test_a_result_or_a_retry_that_would_spin_cannot_be_made(seconds: float) -> None:
    with pytest.raises(ValueError, match="more than 0"):
        Result(requeue_after=seconds)
    with pytest.raises(ValueError, match="more than 0"):
        RetryAfter(seconds)


def test_a_controller_needs_a_worker() -> None:
    async def reconcile(key: str) -> Result:
        return DONE

    async def story() -> None:
        with pytest.raises(ValueError, match="worker"):
            Scene(reconcile, workers=0)

    run(story())

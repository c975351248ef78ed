"""How a controller ends: in order, in time, and never unseen."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from tests.scripted.virtual_time import run, settle

from vidra.runtime.controller import Controller, Outcome, Result
from vidra.runtime.workqueue import WorkQueue

DONE = Result()


def now() -> float:
    return asyncio.get_running_loop().time()


class Work:
    """Reconciles that take ``seconds``, and notes how each ended."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.began: list[str] = []
        self.ended: list[tuple[str, float]] = []
        self.cancelled: list[tuple[str, float]] = []

    async def __call__(self, key: str) -> Result:
        self.began.append(key)
        try:
            await asyncio.sleep(self.seconds)
        except asyncio.CancelledError:
            self.cancelled.append((key, now()))
            raise
        self.ended.append((key, now()))
        return DONE


def controller(work: Work, *, grace: float = 30, workers: int = 1) -> tuple[WorkQueue[str], Controller[str]]:
    queue: WorkQueue[str] = WorkQueue()
    return queue, Controller("things", work, queue, workers=workers, timeout=None, grace=grace)


@pytest.mark.case("U16")
@pytest.mark.parametrize("by", ["stop", "cancel"])
def test_u16_a_reconcile_under_way_ends_and_nothing_new_begins(by: str) -> None:
    async def story() -> None:
        work = Work(10)
        queue, things = controller(work)
        task = asyncio.create_task(things.run())
        for key in ("a", "b"):
            queue.add(key)
        queue.add_after("c", 3)
        await asyncio.sleep(5)
        things.stop() if by == "stop" else task.cancel()
        await settle()
        queue.add("d")  # an informer's handler doesn't know yet
        queue.add_after("e", 1)
        queue.add_rate_limited("f")
        await asyncio.wait([task])
        assert (work.began, work.ended, work.cancelled) == (["a"], [("a", 10)], [])
        assert task.cancelled() is (by == "cancel")
        await asyncio.sleep(1000)
        assert work.began == ["a"]

    run(story())


@pytest.mark.parametrize("by", ["stop", "cancel"])
def test_what_takes_longer_than_the_grace_is_cancelled(by: str) -> None:
    async def story() -> None:
        work = Work(1000)
        queue, things = controller(work, grace=30, workers=2)
        task = asyncio.create_task(things.run())
        for key in ("a", "b", "c"):
            queue.add(key)
        await asyncio.sleep(5)
        things.stop() if by == "stop" else task.cancel()
        await asyncio.wait([task])
        assert sorted(work.cancelled) == [("a", 35), ("b", 35)]
        assert queue.in_progress == 0
        assert task.cancelled() is (by == "cancel")

    run(story())


def test_cancelling_twice_leaves_out_the_grace() -> None:
    async def story() -> None:
        work = Work(1000)
        queue, things = controller(work)
        task = asyncio.create_task(things.run())
        queue.add("a")
        await asyncio.sleep(5)
        task.cancel()
        await asyncio.sleep(2)
        task.cancel()
        await asyncio.wait([task])
        assert work.cancelled == [("a", 7)]

    run(story())


def test_a_controller_that_is_stopped_before_it_runs_ends_at_once() -> None:
    async def story() -> None:
        work = Work(1)
        queue, things = controller(work)
        queue.add("a")
        things.stop()
        await things.run()
        assert (work.began, now()) == ([], 0)

    run(story())


def test_stopping_twice_is_stopping_once() -> None:
    async def story() -> None:
        work = Work(1000)
        queue, things = controller(work, grace=30)
        task = asyncio.create_task(things.run())
        queue.add("a")
        await asyncio.sleep(5)
        things.stop()
        await asyncio.sleep(20)
        things.stop()
        await task
        assert work.cancelled == [("a", 35)]

    run(story())


def test_a_controller_runs_once() -> None:
    async def story() -> None:
        _, things = controller(Work(1))
        things.stop()
        await things.run()
        with pytest.raises(RuntimeError, match="twice"):
            await things.run()

    run(story())


def test_a_reconcile_that_will_not_be_cancelled_is_waited_for() -> None:
    """It may be in the middle of a write in a thread: cutting that off would not stop it, only hide it."""

    async def story() -> None:
        async def stubborn(key: str) -> Result:
            for _ in range(3):
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(100)
            return DONE

        queue: WorkQueue[str] = WorkQueue()
        things = Controller("things", stubborn, queue, workers=1, timeout=None, grace=10)
        task = asyncio.create_task(things.run())
        queue.add("a")
        await asyncio.sleep(1)
        things.stop()
        await asyncio.wait([task])
        assert now() == pytest.approx(11 + 200)
        assert queue.in_progress == 0

    run(story())


class Breaks:
    """An observer with a fault: what happens around a reconcile is the machinery's own."""

    def started(self) -> None:
        raise LookupError("no such series")

    def finished(self, outcome: Outcome, seconds: float) -> None: ...


def test_a_fault_of_the_machinery_ends_the_controller_with_that_error() -> None:
    async def story() -> None:
        work = Work(1)
        queue: WorkQueue[str] = WorkQueue()
        things = Controller("things", work, queue, workers=3, timeout=None, observer=Breaks())
        queue.add("a")
        with pytest.raises(ExceptionGroup) as ended:
            await things.run()
        assert ended.group_contains(LookupError)
        assert (work.began, queue.in_progress) == ([], 0)

    run(story())


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_what_ends_a_process_ends_this_one(error: BaseException) -> None:
    async def reconcile(key: str) -> Result:
        raise error

    async def story() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("a")
        await Controller("things", reconcile, queue, workers=1, timeout=None).run()

    with pytest.raises(type(error)):
        run(story())

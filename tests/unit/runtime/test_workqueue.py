"""Keys that are ready: who gets which, in what order, and how the queue ends."""

from __future__ import annotations

import asyncio

import pytest
from tests.scripted.virtual_time import run, settle

from vidra.runtime.backoff import ExponentialBackoff, KeyedBackoff
from vidra.runtime.predicates import Event, generation_changed
from vidra.runtime.workqueue import Priority, QueueShutDown, WorkQueue


class Recorder:
    def __init__(self) -> None:
        self.calls: list[tuple[str, float]] = []

    def added(self) -> None:
        self.calls.append(("added", 1))

    def depth_changed(self, depth: int) -> None:
        self.calls.append(("depth", depth))

    def taken(self, waited: float) -> None:
        self.calls.append(("taken", waited))

    def finished(self, worked: float) -> None:
        self.calls.append(("finished", worked))

    def retried(self) -> None:
        self.calls.append(("retried", 1))


def queue_without_jitter(base: float = 1, cap: float = 300) -> WorkQueue[str]:
    return WorkQueue(backoff=KeyedBackoff(ExponentialBackoff(base, cap, jitter=0)))


async def take(queue: WorkQueue[str], count: int) -> list[str]:
    return [await queue.get() for _ in range(count)]


def now() -> float:
    return asyncio.get_running_loop().time()


def test_a_key_added_many_times_is_handed_out_once() -> None:
    async def story() -> None:
        queue: WorkQueue[str] = WorkQueue()
        for _ in range(10):
            queue.add("a")
        assert len(queue) == 1
        assert await queue.get() == "a"
        assert len(queue) == 0

    run(story())


def test_a_key_added_while_it_is_worked_on_comes_back_once_and_from_the_tail() -> None:
    async def story() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("a")
        assert await queue.get() == "a"
        queue.add("a")
        queue.add("a")
        queue.add("b")
        assert len(queue) == 1  # b: nobody else may have a

        queue.done("a")
        assert await take(queue, 2) == ["b", "a"]
        queue.done("a")
        queue.done("b")
        assert len(queue) == 0

    run(story())


def test_a_waiting_worker_gets_the_key_that_came_back_as_soon_as_it_is_done() -> None:
    async def story() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("a")
        await queue.get()
        other = asyncio.create_task(queue.get())
        await settle()
        queue.add("a")
        await settle()
        assert not other.done()
        queue.done("a")
        assert await other == "a"

    run(story())


@pytest.mark.case("U10")
def test_two_edits_and_a_foreign_metadata_patch_during_a_run_cause_exactly_one_more_run() -> None:
    """U10, the queue's part: the newest spec is read by that one run."""

    async def story() -> None:
        queue: WorkQueue[str] = WorkQueue()
        state = {"metadata": {"uid": "u", "generation": 1}, "spec": {"n": 1}}

        def watch(new: dict[str, object]) -> None:
            nonlocal state
            if generation_changed(Event.of(state, new)):
                queue.add("a")
            state = new

        queue.add("a")
        await queue.get()
        watch({"metadata": {"uid": "u", "generation": 2}, "spec": {"n": 2}})
        watch({"metadata": {"uid": "u", "generation": 3}, "spec": {"n": 3}})
        watch({"metadata": {"uid": "u", "generation": 3, "labels": {"x": "y"}}, "spec": {"n": 3}})
        queue.done("a")

        assert await queue.get() == "a"
        assert state["spec"] == {"n": 3}
        watch({"metadata": {"uid": "u", "generation": 3, "labels": {"x": "z"}}, "spec": {"n": 3}})
        queue.done("a")
        assert len(queue) + queue.delayed == 0

    run(story())


def test_an_edit_does_not_wait_behind_the_keys_of_the_first_list() -> None:
    async def story() -> None:
        queue: WorkQueue[str] = WorkQueue()
        for number in range(5000):
            queue.add(f"listed-{number}", priority=Priority.LOW)
        queue.add("edited")
        queue.add("listed-4999")  # edited while it waits
        assert await take(queue, 4) == ["edited", "listed-4999", "listed-0", "listed-1"]

    run(story())


def test_one_more_look_keeps_the_priority_of_the_work() -> None:
    async def story() -> None:
        queue = queue_without_jitter()
        queue.add("listed", priority=Priority.LOW)
        await queue.get()
        queue.add_rate_limited("listed")
        queue.done("listed")
        await asyncio.sleep(5)
        queue.add("edited")
        assert await take(queue, 2) == ["edited", "listed"]

    run(story())


def test_keys_of_one_priority_are_first_come_first_served() -> None:
    async def story() -> None:
        queue: WorkQueue[str] = WorkQueue()
        for key in "cabd":
            queue.add(key)
        queue.add("c")
        assert await take(queue, 4) == list("cabd")

    run(story())


@pytest.mark.case("U22")
def test_a_frozen_worker_is_visible_with_its_key_and_time() -> None:
    """U22: what liveness reads."""

    async def story() -> None:
        queue: WorkQueue[str] = WorkQueue()
        assert queue.longest_running() is None
        queue.add("frozen")
        await queue.get()
        await asyncio.sleep(500)
        queue.add("quick")
        await queue.get()
        await asyncio.sleep(100)

        assert queue.longest_running() == ("frozen", 600)
        assert queue.unfinished_work() == 700
        queue.done("frozen")
        assert queue.longest_running() == ("quick", 100)

    run(story())


def test_shutdown_drops_what_waits_and_wakes_who_waits() -> None:
    async def story() -> None:
        queue: WorkQueue[str] = WorkQueue()
        getters = [asyncio.create_task(queue.get()) for _ in range(3)]
        await settle()
        queue.add_after("later", 10)
        queue.shut_down()
        answers = await asyncio.gather(*getters, return_exceptions=True)
        assert all(isinstance(answer, QueueShutDown) for answer in answers)

        queue.add("a")
        queue.add_after("a", 1)
        queue.add_rate_limited("a")
        await asyncio.sleep(100)
        assert (len(queue), queue.delayed) == (0, 0)
        with pytest.raises(QueueShutDown):
            await queue.get()

    run(story())


def test_draining_waits_for_the_work_in_hand_and_for_nothing_else() -> None:
    async def story() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("a")
        queue.add("b")
        await queue.get()

        async def work() -> None:
            await asyncio.sleep(5)
            queue.add("a")  # dropped: the queue is shut down
            queue.done("a")

        working = asyncio.create_task(work())
        assert await queue.drain(30)
        assert now() == 5
        await working
        assert len(queue) == 0

    run(story())


def test_draining_gives_up_after_its_time() -> None:
    async def story() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("a")
        await queue.get()
        assert not await queue.drain(30)
        assert now() == 30
        queue.done("a")
        assert await queue.drain(0.1)

    run(story())


def test_a_getter_cancelled_after_a_wake_up_was_sent_elsewhere_leaves_no_trace() -> None:
    async def story() -> None:
        queue: WorkQueue[str] = WorkQueue()
        first, second = (asyncio.create_task(queue.get()) for _ in range(2))
        await settle()
        first.cancel()
        queue.add("a")  # passes over the first one, which hasn't run since it was cancelled
        assert await second == "a"
        with pytest.raises(asyncio.CancelledError):
            await first

    run(story())


def test_done_for_a_key_nobody_has_is_an_error() -> None:
    async def story() -> None:
        queue: WorkQueue[str] = WorkQueue()
        with pytest.raises(KeyError):
            queue.done("a")

    run(story())


def test_the_observer_sees_adds_depth_times_and_retries() -> None:
    async def story() -> None:
        seen = Recorder()
        backoff: KeyedBackoff[str] = KeyedBackoff(ExponentialBackoff(1, 10, jitter=0))
        queue: WorkQueue[str] = WorkQueue(observer=seen, backoff=backoff)
        queue.add("a")
        queue.add("a")
        await asyncio.sleep(3)
        await queue.get()
        await asyncio.sleep(4)
        queue.add_rate_limited("a")
        queue.add("a")
        queue.done("a")
        queue.shut_down()
        assert seen.calls == [
            ("added", 1),
            ("depth", 1),
            ("taken", 3),
            ("depth", 0),
            ("retried", 1),
            ("added", 1),
            ("finished", 4),
            ("depth", 1),
            ("depth", 0),
        ]

    run(story())

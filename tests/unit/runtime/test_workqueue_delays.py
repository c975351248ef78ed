"""Keys that wait for their time: delays, retries and their back-off."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from tests.scripted.virtual_time import run

from vidra.runtime.backoff import ExponentialBackoff, KeyedBackoff
from vidra.runtime.workqueue import Priority, WorkQueue


def queue_without_jitter(base: float = 1, cap: float = 300) -> WorkQueue[str]:
    return WorkQueue(backoff=KeyedBackoff(ExponentialBackoff(base, cap, jitter=0)))


async def take(queue: WorkQueue[str], count: int) -> list[str]:
    return [await queue.get() for _ in range(count)]


def now() -> float:
    return asyncio.get_running_loop().time()


def test_what_is_left_of_an_earlier_delay_wakes_nobody() -> None:
    async def story() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add_after("a", 5)
        queue.add("a")
        await queue.get()
        queue.add_after("a", 10)
        queue.done("a")
        assert (await queue.get(), now()) == ("a", 10)

    run(story())


def test_a_delayed_key_comes_at_its_time() -> None:
    async def story() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add_after("later", 3600)
        queue.add_after("sooner", 60)
        assert (len(queue), queue.delayed) == (0, 2)
        assert (await queue.get(), now()) == ("sooner", 60)
        assert (await queue.get(), now()) == ("later", 3600)

    run(story())


def test_the_time_until_the_first_delayed_key_is_told() -> None:
    async def story() -> None:
        queue: WorkQueue[str] = WorkQueue()
        assert queue.next_due() is None
        queue.add_after("later", 3600)
        queue.add_after("sooner", 60)
        assert queue.next_due() == 60
        await asyncio.sleep(20)
        assert queue.next_due() == 40
        queue.add("sooner")
        assert queue.next_due() == 3580

    run(story())


def test_an_add_makes_a_delayed_key_ready_at_once_and_only_once() -> None:
    async def story() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add_after("a", 60)
        queue.add("a")
        assert (await queue.get(), now()) == ("a", 0)
        queue.done("a")
        await asyncio.sleep(120)
        assert (len(queue), queue.delayed) == (0, 0)

    run(story())


def test_of_two_delays_the_earlier_counts() -> None:
    async def story() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add_after("a", 60)
        queue.add_after("a", 90)
        queue.add_after("a", 10)
        assert (await queue.get(), now()) == ("a", 10)
        queue.done("a")
        await asyncio.sleep(200)
        assert len(queue) == 0

    run(story())


@pytest.mark.parametrize("first", [Priority.LOW, Priority.NORMAL])
def test_of_two_delays_the_higher_priority_counts(first: Priority) -> None:
    second = Priority.NORMAL if first is Priority.LOW else Priority.LOW

    async def story() -> None:
        for delays in ((10, 5), (5, 10)):
            queue = queue_without_jitter()
            queue.add_after("other", 5, priority=Priority.LOW)
            for delay, priority in zip(delays, (first, second), strict=True):
                queue.add_after("a", delay, priority=priority)
            await asyncio.sleep(5)
            assert await take(queue, 2) == ["a", "other"]

    run(story())


def test_a_delay_that_ends_during_the_work_waits_for_its_end() -> None:
    async def story() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("a")
        await queue.get()
        queue.add_after("a", 10)
        await asyncio.sleep(30)
        assert len(queue) == 0
        queue.done("a")
        assert (await queue.get(), now()) == ("a", 30)

    run(story())


@pytest.mark.case("U23")
def test_retries_grow_to_the_cap_and_slow_no_other_key() -> None:
    """U23: a remote that is down for an hour."""

    async def story() -> None:
        queue = queue_without_jitter()
        tries: list[float] = []
        queue.add("down")
        while now() < 3600:
            key = await queue.get()
            tries.append(now())
            queue.add_rate_limited(key)
            queue.done(key)
            queue.add("fine")  # ready at once, however long the other one waits
            assert (await queue.get(), now()) == ("fine", tries[-1])
            queue.forget("fine")
            queue.done("fine")
        waits = [later - earlier for earlier, later in pairwise(tries)]
        assert waits[:9] == [1, 2, 4, 8, 16, 32, 64, 128, 256]
        assert set(waits[9:]) == {300}  # after recovery the next try is at most that far away
        assert queue.retries("fine") == 0

    run(story())


@pytest.mark.case("U23")
def test_an_edit_runs_at_once_and_success_resets_the_back_off() -> None:
    """U23: the user's edit doesn't wait for the back-off."""

    async def story() -> None:
        queue = queue_without_jitter()
        for _ in range(8):
            queue.add_rate_limited("a")
            await queue.get()
            queue.done("a")
        queue.add_rate_limited("a")
        edited = now()
        queue.add("a")
        assert (await queue.get(), now()) == ("a", edited)
        assert queue.retries("a") == 9
        queue.forget("a")
        assert queue.add_rate_limited("a") == 1

    run(story())


def test_a_wait_the_server_asked_for_is_kept() -> None:
    async def story() -> None:
        queue = queue_without_jitter()
        assert queue.add_rate_limited("a", at_least=30) == 30
        assert queue.add_rate_limited("b", at_least=0.1) == 1

    run(story())


def test_keys_that_are_made_ready_early_leave_nothing_behind() -> None:
    async def story() -> None:
        queue: WorkQueue[str] = WorkQueue()
        for _ in range(10_000):
            queue.add_after("a", 86_400)
            queue.add("a")
            await queue.get()
            queue.done("a")
        assert len(queue._delayed._heap) <= 65

    run(story())

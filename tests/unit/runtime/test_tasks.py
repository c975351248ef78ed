"""Parts of a process: started in order, stopped in the reverse order, and none of them ends unseen."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import structlog
from tests.scripted.virtual_time import run

from vidra.runtime.tasks import Part, PartEnded, run_parts


class Scene:
    def __init__(self) -> None:
        self.log: list[str] = []
        self.ended_at = 0.0

    def part(
        self,
        name: str,
        *,
        ready_after: float | BaseException | None = None,
        ends_after: float = 1e9,
        error: BaseException | None = None,
        stop_takes: float = 0,
        stop_error: BaseException | None = None,
    ) -> Part:
        async def work() -> None:
            self.log.append(f"+{name}")
            try:
                await asyncio.sleep(ends_after)
                if error is not None:
                    raise error
            except asyncio.CancelledError:
                await asyncio.sleep(stop_takes)
                if stop_error is not None:
                    raise stop_error from None
                raise
            finally:
                self.log.append(f"-{name}")

        async def ready() -> None:
            if isinstance(ready_after, BaseException):
                raise ready_after
            await asyncio.sleep(ready_after or 0)
            self.log.append(f"!{name}")

        return Part(name, work, ready if ready_after is not None else None)

    def run(self, *parts: Part, cancel: tuple[float, ...] = ()) -> BaseException | None:
        async def story() -> BaseException | None:
            task = asyncio.create_task(run_parts(parts))
            for at in cancel:
                asyncio.get_running_loop().call_at(at, task.cancel)
            await asyncio.wait([task])
            self.ended_at = asyncio.get_running_loop().time()
            assert len(asyncio.all_tasks()) == 1, "a part was left running"
            if task.cancelled():
                return asyncio.CancelledError()
            return task.exception()

        return run(story())


def test_each_starts_when_the_one_before_is_ready_and_stops_when_the_one_after_has_ended() -> None:
    scene = Scene()
    parts = (scene.part("http"), scene.part("caches", ready_after=5), scene.part("workers", stop_takes=9))
    ended = scene.run(*parts, cancel=(20,))
    assert isinstance(ended, asyncio.CancelledError)
    assert scene.log == ["+http", "+caches", "!caches", "+workers", "-workers", "-caches", "-http"]


@pytest.mark.parametrize("error", [None, ValueError("boom")], ids=["returns", "raises"])
@pytest.mark.parametrize("name", ["a", "b", "c"])
def test_a_part_that_ends_stops_all_others_and_is_named(name: str, error: Exception | None) -> None:
    scene = Scene()
    parts = [scene.part(each, ends_after=3 if each == name else 1e9, error=error) for each in "abc"]
    ended = scene.run(*parts)
    assert isinstance(ended, PartEnded)
    assert ended.part == name
    assert ended.__cause__ is error
    assert scene.log[:4] == ["+a", "+b", "+c", f"-{name}"]
    assert scene.log[4:] == [f"-{each}" for each in "cba" if each != name]


def test_a_part_that_cancels_itself_has_ended_too() -> None:
    scene = Scene()
    ended = scene.run(scene.part("a"), scene.part("b", ends_after=1, error=asyncio.CancelledError()))
    assert isinstance(ended, PartEnded)
    assert ended.part == "b"


def test_a_part_that_ends_while_a_later_one_becomes_ready_is_not_waited_past() -> None:
    scene = Scene()
    parts = (scene.part("http", ends_after=2, error=OSError("port in use")), scene.part("caches", ready_after=1e6))
    ended = scene.run(*parts, scene.part("workers"))
    assert isinstance(ended, PartEnded)
    assert ended.part == "http"
    assert "+workers" not in scene.log


def test_a_part_that_cannot_become_ready_ends_all() -> None:
    """Caches that don't sync in time, say."""
    scene = Scene()
    ended = scene.run(scene.part("http"), scene.part("caches", ready_after=TimeoutError("no sync")), scene.part("w"))
    assert isinstance(ended, PartEnded)
    assert (ended.part, str(ended.__cause__)) == ("caches", "no sync")
    assert scene.log == ["+http", "+caches", "-caches", "-http"]


def test_cancelled_while_one_becomes_ready_it_stops_what_there_is() -> None:
    scene = Scene()
    ended = scene.run(scene.part("http"), scene.part("caches", ready_after=100), scene.part("workers"), cancel=(5,))
    assert isinstance(ended, asyncio.CancelledError)
    assert scene.log == ["+http", "+caches", "-caches", "-http"]


def test_cancelled_again_it_stops_waiting_for_order() -> None:
    scene = Scene()
    ended = scene.run(scene.part("a", stop_takes=1), scene.part("b", stop_takes=100), cancel=(5, 7))
    assert isinstance(ended, asyncio.CancelledError)
    assert scene.log[:2] == ["+a", "+b"]
    assert sorted(scene.log[2:]) == ["-a", "-b"]
    assert scene.ended_at < 105, "b alone would have taken until then"


def test_a_part_that_fails_while_it_is_stopped_is_an_error_and_the_others_still_stop() -> None:
    scene = Scene()
    ended = scene.run(scene.part("a"), scene.part("b", stop_error=OSError("disk full")), scene.part("c"), cancel=(5,))
    assert isinstance(ended, PartEnded)
    assert ended.part == "b"
    assert scene.log[3:] == ["-c", "-b", "-a"]


def test_errors_of_further_parts_are_logged() -> None:
    scene = Scene()
    first = scene.part("a", ends_after=1, error=ValueError("first"))
    with structlog.testing.capture_logs() as lines:
        ended = scene.run(first, scene.part("b", stop_error=OSError("second")))
    assert isinstance(ended, PartEnded)
    assert ended.part == "a"
    assert [(line["event"], line["part"]) for line in lines] == [("another part failed", "b")]


def test_a_part_may_be_any_awaitable() -> None:
    def future() -> Awaitable[Any]:
        made: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        made.set_exception(ValueError("x"))
        return made

    part: Callable[[], Awaitable[None]] = future
    assert isinstance(Scene().run(Part("future", part)), PartEnded)

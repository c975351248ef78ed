"""Whatever comes when, and however reconciles end: nothing that happened to a key goes unseen by a later reconcile."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import structlog
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.scripted.controller_scene import Scene, now
from tests.scripted.virtual_time import run

from vidra.kube.errors import ApiError, Unreachable
from vidra.runtime.controller import Result, RetryableError, RetryAfter, TerminalError
from vidra.runtime.ownwrites import CacheBehind
from vidra.runtime.workqueue import Priority

OUTCOMES: dict[str, Callable[[], BaseException | None]] = {
    "done": lambda: None,
    "later": lambda: None,
    "retryable": lambda: RetryableError("x"),
    "bug": lambda: ZeroDivisionError("x"),
    "terminal": lambda: TerminalError("x"),
    "after": lambda: RetryAfter(3),
    "behind": lambda: CacheBehind("a", 0.5),
    "down": lambda: Unreachable("x"),
    "busy": lambda: ApiError(429, "TooManyRequests", "x", retry_after=7),
    "stray": asyncio.CancelledError,
}
#: A key whose reconciles end like this comes back without anybody adding it.
COMES_BACK = set(OUTCOMES) - {"done", "terminal"}
TIMEOUT = 20.0


@dataclass
class Event:
    """``key`` is added ``wait`` seconds after the event before."""

    key: str
    wait: float
    priority: Priority


@dataclass
class Run:
    """How a reconcile goes: it takes ``seconds``, more than :data:`TIMEOUT` ends it by that, and ends so."""

    seconds: float
    outcome: str


EVENTS = st.builds(Event, st.sampled_from("abc"), st.sampled_from([0, 0, 0.1, 1, 5]), st.sampled_from(Priority))
RUNS = st.builds(Run, st.sampled_from([0, 0, 0.1, 2, 30]), st.sampled_from(sorted(OUTCOMES)))


@settings(max_examples=150, deadline=None)
@given(events=st.lists(EVENTS, min_size=1, max_size=25), runs=st.lists(RUNS, max_size=30), workers=st.integers(1, 3))
def test_each_change_is_seen_by_a_reconcile_that_begins_after_it(
    events: list[Event], runs: list[Run], workers: int
) -> None:
    with structlog.testing.capture_logs():  # printing tracebacks takes longer than all else
        run(play(events, list(runs), workers))


async def play(events: list[Event], runs: list[Run], workers: int) -> None:
    changed: dict[str, int] = Counter()
    seen: dict[str, int] = {}
    ended: dict[str, str] = {}
    working: set[str] = set()
    begun: dict[str, list[float]] = {}

    async def reconcile(key: str) -> Result:
        assert key not in working, "two reconciles of one key at once"
        working.add(key)
        assert len(working) <= workers
        try:
            begun.setdefault(key, []).append(now())
            seen[key] = changed[key]
            how = runs.pop(0) if runs else Run(0, "done")
            ended[key] = "timeout" if how.seconds > TIMEOUT else how.outcome
            await asyncio.sleep(how.seconds)
        finally:
            working.remove(key)
        error = OUTCOMES[how.outcome]()
        if error is not None:
            raise error
        return Result(requeue_after=4 if how.outcome == "later" else None)

    async with Scene(reconcile, workers=workers, timeout=TIMEOUT) as scene:
        for event in events:
            await asyncio.sleep(event.wait)
            changed[event.key] += 1
            scene.queue.add(event.key, priority=event.priority)
        await asyncio.sleep(2000)
        assert (len(scene.queue), scene.queue.delayed, scene.queue.in_progress) == (0, 0, 0)
        assert scene.observer.active == 0
    assert seen == dict(changed)
    # All that fails is tried again, so in the end each key is well, or has failed for good.
    assert set(ended.values()) <= {"done", "terminal"}
    assert COMES_BACK.isdisjoint(ended.values())
    assert len(scene.observer.outcomes) == sum(len(times) for times in begun.values())

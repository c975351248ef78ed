from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
import timeit

import pytest

from vidra.kube.errors import Fenced
from vidra.runtime import fence as fences
from vidra.runtime.fence import Fence, Watchdog


class Clock:
    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        return self.time


def test_it_is_closed_until_it_is_opened() -> None:
    fence = Fence(Clock())
    assert not fence.is_open
    assert fence.left == 0.0
    with pytest.raises(Fenced, match="doesn't hold the lease"):
        fence.check()


def test_it_closes_by_itself_at_the_very_moment() -> None:
    clock = Clock()
    fence = Fence(clock, slack=2.0)
    fence.open(110.0)
    assert fence.check() == 12.0
    clock.time = 109.999
    assert fence.check() == pytest.approx(2.001), "what is sent now has until 112 to arrive"
    assert fence.left == pytest.approx(0.001)
    clock.time = 110.0
    assert not fence.is_open
    with pytest.raises(Fenced, match="may be over"):
        fence.check()
    fence.open(120.0)
    fence.check()


def test_closed_on_purpose_it_stays_closed() -> None:
    fence = Fence(Clock())
    fence.open(110.0)
    fence.close()
    with pytest.raises(Fenced):
        fence.check()
    fence.expire()
    assert fence.until is None


def test_expired_it_is_closed_and_the_watchdog_still_waits() -> None:
    fence = Fence(Clock())
    fence.open(110.0)
    fence.expire()
    assert not fence.is_open
    assert fence.until == 100.0


def test_a_look_costs_a_few_microseconds() -> None:
    fence = Fence()
    fence.open(fences.now() + 1000)
    assert min(timeit.repeat(fence.check, number=1000, repeat=5)) / 1000 < 5e-6


def test_the_clock_of_fences_never_goes_back_and_runs_as_fast_as_time_does() -> None:
    before, began = fences.now(), time.monotonic()
    threading.Event().wait(0.02)
    passed = fences.now() - before
    assert passed == pytest.approx(time.monotonic() - began, abs=0.01)
    assert passed >= 0.02


class Watched(Fence):
    """Counts how often the watchdog looked."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.looks = 0

    @property
    def until(self) -> float | None:
        self.looks += 1
        return super().until

    def wait_for_looks(self, ended: threading.Event) -> None:
        self.looks = 0
        while self.looks < 5:
            assert not ended.wait(0.001)


def test_the_watchdog_ends_a_process_that_did_not_stop_in_time(capfd: pytest.CaptureFixture[str]) -> None:
    clock, ended = Clock(), threading.Event()
    fence = Watched(clock)
    fence.open(110.0)
    with Watchdog(fence, patience=0.04, end=ended.set, clock=clock):
        for moment in (100.0, 110.0, 110.03):
            clock.time = moment
            fence.wait_for_looks(ended)
        clock.time = 110.05
        assert ended.wait(10)
    said = capfd.readouterr().err
    assert "the guarded work did not stop" in said
    assert "test_the_watchdog_ends_a_process_that_did_not_stop" in said, "where it hangs"


def test_the_watchdog_leaves_alone_who_renews_and_who_has_closed() -> None:
    clock, ended = Clock(), threading.Event()
    fence = Watched(clock)
    with Watchdog(fence, patience=0.02, end=ended.set, clock=clock):
        fence.wait_for_looks(ended)
        for _ in range(3):
            clock.time += 10
            fence.open(clock.time + 10)
            fence.wait_for_looks(ended)
        fence.close()
        clock.time += 1000
        fence.wait_for_looks(ended)


def test_a_full_pipe_keeps_no_process_alive() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writing, b"x" * 65536)
    os.set_blocking(writing, True)
    error = os.dup(2)
    os.dup2(writing, 2)
    try:
        ended = threading.Event()
        fence = Fence()
        fence.open(fences.now() - 1)
        with Watchdog(fence, patience=0.02, end=ended.set):
            assert ended.wait(5)
    finally:
        os.dup2(error, 2)
        for each in (error, reading, writing):
            os.close(each)


def test_a_process_that_goes_on_after_its_lease_ends_before_it_does_anything_else() -> None:
    ended: list[str] = []
    fence = Fence()
    with Watchdog(fence, patience=60, end=lambda: ended.append("ended")):
        os.kill(os.getpid(), signal.SIGCONT)
        fence.open(fences.now() + 60)
        os.kill(os.getpid(), signal.SIGCONT)
        assert ended == []
        fence.expire()
        os.kill(os.getpid(), signal.SIGCONT)
        assert ended == ["ended"]
    assert signal.getsignal(signal.SIGCONT) is signal.SIG_DFL

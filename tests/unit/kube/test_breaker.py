from __future__ import annotations

import pytest

from vidra.kube.breaker import FAILURES, FIRST_PAUSE, LAST_PAUSE, Breaker
from vidra.kube.errors import Unreachable


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def changes() -> list[bool]:
    return []


@pytest.fixture
def breaker(clock: Clock, changes: list[bool]) -> Breaker:
    return Breaker(on_change=changes.append, clock=clock)


def opened(breaker: Breaker) -> Breaker:
    for _ in range(FAILURES):
        breaker.check("GET /x")
        breaker.failed()
    return breaker


def test_it_opens_after_some_requests_in_a_row_without_an_answer(breaker: Breaker, changes: list[bool]) -> None:
    for _ in range(FAILURES - 1):
        breaker.failed()
    breaker.answered()
    assert not breaker.is_open
    opened(breaker)
    with pytest.raises(Unreachable, match="GET /x: not tried"):
        breaker.check("GET /x")
    assert changes == [True]


def test_when_the_time_is_over_one_request_probes_and_any_answer_closes_it(
    breaker: Breaker, clock: Clock, changes: list[bool]
) -> None:
    opened(breaker)
    clock.now = FIRST_PAUSE * 1.2
    breaker.check("probe")
    with pytest.raises(Unreachable):
        breaker.check("another")
    breaker.answered()
    breaker.check("another")
    assert changes == [True, False]


def test_probes_without_an_answer_come_more_and_more_rarely(
    breaker: Breaker, clock: Clock, changes: list[bool]
) -> None:
    opened(breaker)
    waits = []
    for _ in range(7):
        since = clock.now
        while True:
            try:
                breaker.check("probe")
                break
            except Unreachable:
                clock.now += 0.5
        waits.append(clock.now - since)
        breaker.failed()
    assert waits[:4] == sorted(waits[:4])
    assert FIRST_PAUSE <= waits[0] <= FIRST_PAUSE * 1.5
    assert LAST_PAUSE <= waits[-1] <= LAST_PAUSE * 1.2
    assert changes == [True]


def test_a_probe_that_its_caller_gave_up_lets_the_next_one_through(breaker: Breaker, clock: Clock) -> None:
    """A reconcile was cancelled: that says nothing of the server, and must not leave it alone for two minutes."""
    opened(breaker)
    clock.now = 10
    breaker.check("probe")
    breaker.gave_up()
    breaker.check("next probe")
    breaker.answered()
    assert not breaker.is_open


def test_failures_of_what_was_under_way_when_it_opened_count_for_nothing(breaker: Breaker, clock: Clock) -> None:
    opened(breaker)
    for _ in range(20):
        breaker.failed()
    clock.now = FIRST_PAUSE * 1.2
    breaker.check("probe")

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vidra.runtime.backoff import Backoff, ExponentialBackoff, KeyedBackoff

WATCH = ExponentialBackoff(base=0.8, cap=30.0, jitter=1.0)


def never() -> float:
    return 0.0


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_waits_double_up_to_the_cap() -> None:
    backoff = Backoff(WATCH, rand=never)
    assert [backoff.next() for _ in range(8)] == pytest.approx([0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30])


def test_jitter_adds_up_to_its_share_and_never_takes_away() -> None:
    assert WATCH.delay(100, rand=never) == 30
    assert WATCH.delay(100, rand=lambda: 0.999) == pytest.approx(59.97)
    assert WATCH.longest == 60


def test_a_wait_the_other_side_asked_for_is_never_cut_short() -> None:
    assert ExponentialBackoff(1, 60).delay(0, at_least=300, rand=never) == 300


@given(failures=st.integers(0, 10**6), factor=st.floats(1, 10), jitter=st.floats(0, 2), rand=st.floats(0, 0.999))
def test_every_wait_lies_between_base_and_longest(failures: int, factor: float, jitter: float, rand: float) -> None:
    rule = ExponentialBackoff(0.5, 90, factor=factor, jitter=jitter)
    assert 0.5 <= rule.delay(failures, rand=lambda: rand) <= rule.longest


@pytest.mark.parametrize(
    "numbers", [{"base": 0}, {"cap": 0.5}, {"factor": 0.9}, {"jitter": -0.1}], ids=lambda numbers: next(iter(numbers))
)
def test_a_rule_that_makes_no_sense_is_refused(numbers: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="need"):
        ExponentialBackoff(**{"base": 1, "cap": 10, **numbers})


def test_a_healthy_stretch_after_the_wait_starts_from_the_beginning() -> None:
    clock = Clock()
    backoff = Backoff(WATCH, healthy_after=120, clock=clock, rand=never)
    waits = [backoff.next() for _ in range(7)]
    assert waits[-1] == 30

    clock.now += 30 + 119  # the wait does not count as health
    assert backoff.next() == 30

    clock.now += 30 + 120
    assert backoff.next() == pytest.approx(0.8)
    assert backoff.failures == 1


def test_a_reset_starts_from_the_beginning() -> None:
    backoff = Backoff(WATCH, rand=never)
    backoff.next()
    backoff.next()
    backoff.reset()
    assert backoff.failures == 0
    assert backoff.next() == pytest.approx(0.8)


def test_keys_fail_each_for_itself_until_they_are_forgotten() -> None:
    keyed: KeyedBackoff[str] = KeyedBackoff(ExponentialBackoff(1, 60), rand=never)
    assert [keyed.next("a") for _ in range(3)] == [1, 2, 4]
    assert keyed.next("b") == 1
    assert (keyed.failures("a"), keyed.failures("b"), keyed.failures("c")) == (3, 1, 0)
    keyed.forget("a")
    keyed.forget("never seen")
    assert keyed.next("a") == 1
    assert keyed.next("b") == 2

"""Own writes: no reconcile decides by a cache that is older than the last write of its key."""

from __future__ import annotations

import pytest

from vidra.runtime.ownwrites import CacheBehind, OwnWrites
from vidra.runtime.versions import at_least_as_new, older


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def writes(clock: Clock) -> OwnWrites[str]:
    return OwnWrites(patience=30, clock=clock)


def test_without_a_write_any_cache_will_do(writes: OwnWrites[str]) -> None:
    assert writes.caught_up("a", None)
    assert writes.caught_up("a", "1")


@pytest.mark.case("U12")
@pytest.mark.parametrize(
    ("current", "good"), [(None, False), ("9", False), ("10", True), ("11", True), ("100", True), ("099", True)]
)
def test_u12_a_cache_is_good_from_the_written_version_on(
    writes: OwnWrites[str], current: str | None, good: bool
) -> None:
    writes.wrote("a", "10")
    assert writes.caught_up("a", current) is good
    assert writes.caught_up("b", current), "another key's write is another key's"
    assert writes.caught_up("a", "9") is good, "what was seen once isn't waited for again"


@pytest.mark.case("U12")
def test_u12_a_watch_that_is_behind_puts_the_key_off_by_growing_moments(writes: OwnWrites[str], clock: Clock) -> None:
    writes.wrote("a", "10")
    pauses = []
    while clock.now < 3:
        with pytest.raises(CacheBehind) as behind:
            writes.check("a", "9")
        pauses.append(behind.value.seconds)
        clock.now += behind.value.seconds
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (0.05, 1.0)
    writes.check("a", "10")


def test_after_a_while_the_cache_is_good_enough_whatever_it_says(writes: OwnWrites[str], clock: Clock) -> None:
    writes.wrote("a", "10")
    clock.now = 29.9
    assert not writes.caught_up("a", "9")
    clock.now = 30
    assert writes.caught_up("a", "9")
    assert writes._writes == {}


def test_an_older_answer_that_comes_late_counts_for_nothing(writes: OwnWrites[str]) -> None:
    writes.wrote("a", "10")
    writes.wrote("a", "8")
    assert not writes.caught_up("a", "9")
    writes.wrote("a", "12")
    assert not writes.caught_up("a", "11")


@pytest.mark.parametrize(("deleted_at", "forgotten"), [(None, True), ("12", True), ("10", True), ("9", False)])
def test_a_delete_is_waited_for_no_longer_unless_the_write_made_the_successor(
    writes: OwnWrites[str], deleted_at: str | None, forgotten: bool
) -> None:
    writes.wrote("a", "10")
    writes.forget("a", deleted_at=deleted_at)
    assert writes.caught_up("a", None) is forgotten
    writes.forget("never written")


@pytest.mark.parametrize(
    ("one", "two", "newer", "before"),
    [
        ("10", "9", True, False),
        ("9", "10", False, True),
        ("9", "9", True, False),
        ("x", "x", True, False),
        ("x", "9", False, False),
        ("", "9", False, False),
        ("9", "", False, False),
    ],
)
def test_how_versions_compare(one: str, two: str, newer: bool, before: bool) -> None:
    assert at_least_as_new(one, two) is newer
    assert older(one, two) is before

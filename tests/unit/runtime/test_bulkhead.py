"""A few are let in at a time; who is turned away is woken, in turn."""

import pytest

from vidra.runtime.bulkhead import Bulkhead, Full


def test_as_many_as_there_are_places_are_let_in_and_the_next_is_turned_away() -> None:
    bulkhead = Bulkhead(2, lambda name: None)
    with bulkhead.enter("a"), bulkhead.enter("b"), pytest.raises(Full), bulkhead.enter("c"):
        pass
    with bulkhead.enter("c"):
        pass


def test_who_leaves_wakes_the_one_that_has_waited_longest() -> None:
    woken: list[str] = []
    bulkhead = Bulkhead(1, woken.append)
    with bulkhead.enter("a"):
        for name in ("b", "c"):
            with pytest.raises(Full), bulkhead.enter(name):
                pass
    assert woken == ["b"]
    with bulkhead.enter("b"):
        pass
    assert woken == ["b", "c"]


def test_one_that_fails_inside_leaves_its_place() -> None:
    woken: list[str] = []
    bulkhead = Bulkhead(1, woken.append)

    def fail() -> None:
        with bulkhead.enter("a"):
            with pytest.raises(Full), bulkhead.enter("b"):
                pass
            raise KeyError("inside")

    with pytest.raises(KeyError):
        fail()
    assert woken == ["b"]


def test_one_that_is_turned_away_twice_waits_once() -> None:
    woken: list[str] = []
    bulkhead = Bulkhead(1, woken.append)
    with bulkhead.enter("a"):
        for _ in range(2):
            with pytest.raises(Full), bulkhead.enter("b"):
                pass
    with bulkhead.enter("a"):
        pass
    assert woken == ["b"]


def test_without_a_bound_all_are_let_in() -> None:
    bulkhead = Bulkhead(None, lambda name: None)
    with bulkhead.enter("a"), bulkhead.enter("b"), bulkhead.enter("c"):
        pass

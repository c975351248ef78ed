from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from vidra.runtime.collector import no_full_collection


@pytest.fixture(autouse=True)
def _collector_as_it_was() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


def test_no_full_collection_starts_meanwhile_and_younger_ones_do() -> None:
    before = gc.get_threshold()
    with no_full_collection():
        first, second, full = gc.get_threshold()
        assert (first, second) == before[:2]
        assert full > 1_000_000
    assert gc.get_threshold() == before


def test_several_at_once_end_with_the_last() -> None:
    before = gc.get_threshold()
    one, two = no_full_collection(), no_full_collection()
    one.__enter__()
    two.__enter__()
    one.__exit__(None, None, None)
    assert gc.get_threshold() != before
    two.__exit__(None, None, None)
    assert gc.get_threshold() == before


def test_it_ends_by_an_error_too_and_somebodys_own_thresholds_are_kept() -> None:
    gc.set_threshold(123, 7, 5)
    with pytest.raises(ValueError, match="x"), no_full_collection():
        raise ValueError("x")
    assert gc.get_threshold() == (123, 7, 5)


def test_what_came_in_is_not_looked_at_again() -> None:
    with no_full_collection():
        kept = [{"n": number} for number in range(1000)]
    assert gc.get_freeze_count() >= len(kept)

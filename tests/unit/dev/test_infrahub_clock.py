"""Time as the stand-in has it: the reading of `at`, ids that sort by time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from infrahub.clock import BadTimeError, Clock, instant, new_id, parse_at, time_of, written

NOW = datetime(2026, 12, 1, 4, 11, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00.000000Z"),
        ("2026-01-31T12:00:00.123456789Z", "2026-01-31T12:00:00.123456Z"),
        ("2026-01-31T13:00:00+01:00", "2026-01-31T12:00:00.000000Z"),
        ("2026-01-31T12:00:00", "2026-01-31T12:00:00.000000Z"),
        ("2026-01-31 12:00:00Z", "2026-01-31T12:00:00.000000Z"),
        ("2026-01-31t12:00:00z", "2026-01-31T12:00:00.000000Z"),
        ("2026-01-31", "2026-01-31T12:00:00.000000Z"),
        ("now-2h", "2026-12-01T02:11:12.000000Z"),
        ("now+2h", "2026-12-01T02:11:12.000000Z"),
        ("foo30seconds", "2026-12-01T04:10:42.000000Z"),
        ("1h1m1s", "2026-12-01T03:10:11.000000Z"),
    ],
)
def test_a_time_the_server_knows_is_read_as_the_server_reads_it(text: str, expected: str) -> None:
    assert written(parse_at(text, NOW, strict=False)) == expected


@pytest.mark.parametrize("text", ["", "yesterday", "1d", "1796098272", "2024-13-45", "2026-12-01T05:10:52 01:00"])
def test_a_time_the_server_refuses_is_refused(text: str) -> None:
    with pytest.raises(BadTimeError):
        parse_at(text, NOW, strict=False)


@pytest.mark.parametrize("text", ["2026-01-31 12:00:00Z", "2026-01-31t12:00:00z", "2026-01-31T12:00:00z"])
def test_an_older_server_refuses_spaces_and_small_letters(text: str) -> None:
    with pytest.raises(BadTimeError):
        parse_at(text, NOW, strict=True)


def test_ids_made_later_sort_later_and_know_their_time() -> None:
    earlier, later = new_id(NOW), new_id(NOW + timedelta(milliseconds=1))
    assert earlier < later
    assert time_of(earlier) == NOW
    assert [len(part) for part in earlier.split("-")] == [8, 4, 4, 4, 12]


def test_a_frozen_clock_moves_only_when_told() -> None:
    clock = Clock()
    clock.set(instant("2026-12-01T04:00:00Z"), frozen=True)
    assert clock.now() == clock.now()
    clock.advance(90)
    assert written(clock.now()) == "2026-12-01T04:01:30.000000Z"


def test_a_clock_that_was_set_goes_on_from_there() -> None:
    clock = Clock()
    clock.set(instant("2020-01-01T00:00:00Z"))
    first = clock.now()
    assert timedelta() <= first - instant("2020-01-01T00:00:00Z") < timedelta(minutes=1)
    assert clock.now() >= first

"""Target dates: what a person writes becomes one instant, or a clear refusal."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from vidra.infrahub import pin
from vidra.infrahub.errors import BadDate

NOW = datetime(2026, 1, 31, 12, 0, 0, 987654, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00Z"),
        ("2026-01-31t12:00:00z", "2026-01-31T12:00:00Z"),
        ("2026-01-31 12:00:00Z", "2026-01-31T12:00:00Z"),
        ("2026-01-31T12:00:00.123456789Z", "2026-01-31T12:00:00Z"),
        ("2026-01-31T12:00:00+02:00", "2026-01-31T10:00:00Z"),
        ("2026-01-01T00:30:00+01:00", "2025-12-31T23:30:00Z"),
        ("2026-01-31T12:00:00-00:30", "2026-01-31T12:30:00Z"),
        ("0999-01-31T12:00:00Z", "0999-01-31T12:00:00Z"),
        ("now-30s", "2026-01-31T11:59:30Z"),
        ("now-5m", "2026-01-31T11:55:00Z"),
        ("-2h", "2026-01-31T10:00:00Z"),
        ("now-2d", "2026-01-29T12:00:00Z"),
        ("now-1d12h", "2026-01-30T00:00:00Z"),
        ("  now-0s\n", "2026-01-31T12:00:00Z"),
    ],
)
def test_a_date_becomes_its_instant(text: str, instant: str) -> None:
    assert pin(text, NOW) == instant


@pytest.mark.parametrize("text", [None, "", "  "])
def test_no_date_is_none(text: str | None) -> None:
    assert pin(text, NOW) is None


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("now+1h", "'-', not '+'"),
        ("+1h", "'-', not '+'"),
        ("2026-01-31", "offset"),
        ("2026-01-31T12:00:00", "offset"),
        ("2026-01-31T12:00:00 01:00", "RFC 3339"),
        ("2026-02-30T12:00:00Z", "no such moment"),
        ("2026-01-31T24:00:00Z", "RFC 3339"),
        ("0001-01-01T00:00:00+12:00", "no such moment"),
        ("now-99999999d", "no such moment"),
        ("now-" + "9" * 5000 + "d", "no such moment"),
        ("2h", "relative"),
        ("now-2w", "relative"),
        ("now-2H", "relative"),
        ("now-1.5h", "relative"),
        ("foo30seconds", "relative"),
        ("1796098272", "relative"),
        ("yesterday", "relative"),
        ("now-٣h", "relative"),
    ],
)
def test_what_is_no_past_moment_is_refused_with_a_hint(text: str, hint: str) -> None:
    with pytest.raises(BadDate, match="target date") as caught:
        pin(text, NOW)
    assert hint in caught.value.text
    assert len(caught.value.message) < 250
    assert not caught.value.retryable


def test_the_zone_of_now_plays_no_role() -> None:
    elsewhere = NOW.astimezone(timezone(timedelta(hours=-5)))
    assert pin("now-1h", elsewhere) == pin("now-1h", NOW) == "2026-01-31T11:00:00Z"

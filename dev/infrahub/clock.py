"""The stand-in's clock, its ids, and the reading of the `at` parameter.

A test may set, freeze or advance the clock: tokens expire and relative times move by it, without waiting. Times are
aware datetimes in UTC. Ids look like Infrahub's: the first 16 hex digits are nanoseconds since the epoch, so ids of
nodes made later sort later.
"""

from __future__ import annotations

import re
import secrets
from datetime import UTC, datetime, timedelta

# What whenever's parser accepts on a 1.11 server, as far as the recordings show it.
_ISO = re.compile(
    r"(?P<date>\d{4}-\d{2}-\d{2})"
    r"(?P<time>[Tt ]\d{2}:\d{2}(:\d{2}([.,]\d{1,9})?)?(?P<zone>[Zz]|[+-]\d{2}(:?\d{2})?)?)?"
)
_RELATIVE = (("seconds", r"(\d+)s"), ("minutes", r"(\d+)m"), ("hours", r"(\d+)h"))


class BadTimeError(ValueError):
    """The text is no time the server knows."""


class Clock:
    """Wall-clock time that can be set, moved and frozen."""

    def __init__(self) -> None:
        self._shift = timedelta()
        self._frozen: datetime | None = None

    def now(self) -> datetime:
        """The present instant, in UTC."""
        return self._frozen or datetime.now(UTC) + self._shift

    def set(self, instant: datetime, *, frozen: bool = False) -> None:
        """Make `instant` the present; time goes on from there unless `frozen`."""
        self._shift = instant - datetime.now(UTC)
        self._frozen = instant if frozen else None

    def advance(self, seconds: float) -> None:
        """Move the present by `seconds`, frozen or not."""
        self._shift += timedelta(seconds=seconds)
        if self._frozen:
            self._frozen += timedelta(seconds=seconds)


def new_id(now: datetime) -> str:
    """An id of Infrahub's form, made at `now`."""
    nanoseconds = int(now.timestamp() * 1_000_000) * 1000 + secrets.randbelow(1000)
    digits = f"{nanoseconds:016x}{secrets.token_hex(8)}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def time_of(node_id: str) -> datetime:
    """When the node of this id was made."""
    return datetime.fromtimestamp(int(node_id.replace("-", "")[:16], 16) // 1000 / 1_000_000, UTC)


def instant(text: str) -> datetime:
    """An instant written in full, `2026-12-01T04:07:43.833038Z`."""
    return datetime.fromisoformat(text).astimezone(UTC)


def written(moment: datetime) -> str:
    """How the server writes an instant: microseconds and Z."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def parse_at(text: str, now: datetime, *, strict: bool) -> datetime:
    """The instant `text` names at `now`.

    Relative forms are searched anywhere in the text and always subtracted, whatever sign or word is around them.
    `strict` is the older servers' reading: a capital T, and no space. Raises BadTimeError.
    """
    if match := _ISO.fullmatch(text):
        if match["time"] is None:
            text += "T12:00:00"
        elif strict and (match["time"][0] != "T" or match["zone"] == "z"):
            raise BadTimeError(text)
        try:
            # 3.11 reads at most microseconds, and only upper-case letters.
            moment = datetime.fromisoformat(re.sub(r"([.,]\d{6})\d+", r"\1", text.upper()))
        except ValueError:
            raise BadTimeError(text) from None
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    amounts = {unit: float(found[1]) for unit, form in _RELATIVE if (found := re.search(form, text))}
    if not amounts:
        raise BadTimeError(text)
    try:
        return now - timedelta(**amounts)
    except OverflowError:
        raise BadTimeError(text) from None

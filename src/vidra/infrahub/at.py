"""Target dates: what a person writes becomes one instant.

Promises: an RFC 3339 date or a relative one (``now-2d``, ``-1h30m``) becomes ``2026-01-31T12:00:00Z``, the only form
every Infrahub understands alike, or :class:`~vidra.infrahub.errors.BadDate`. A relative date is counted from the
caller's ``now``, so that a whole reconcile, its query and all its downloads, sees one moment.

Relative dates never reach the server: it knows no days, searches for a number with a unit anywhere in the text and
always subtracts, so that ``now+1h`` would mean an hour ago.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from vidra.infrahub.errors import BadDate

_ABSOLUTE = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ]((?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d)(?:\.\d+)?([Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)",
    re.ASCII,
)
_RELATIVE = re.compile(r"(?:now)?-((?:\d+[smhd])+)", re.ASCII)
_PART = re.compile(r"(\d+)([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def pin(text: str | None, now: datetime) -> str | None:
    """The instant ``text`` means, in UTC and whole seconds (fractions are cut), None for an empty text.

    ``now`` must know its time zone. Raises BadDate.
    """
    text = (text or "").strip()
    if not text:
        return None
    try:
        if absolute := _ABSOLUTE.fullmatch(text):
            day, time, offset = absolute.groups()
            instant = datetime.fromisoformat(f"{day}T{time}{'+00:00' if offset in 'Zz' else offset}")
        elif relative := _RELATIVE.fullmatch(text):
            parts = _PART.findall(relative[1])
            instant = now - sum((timedelta(**{_UNITS[unit]: int(count)}) for count, unit in parts), timedelta())
        else:
            raise _bad(text, _hint(text))
        # Not strftime: its %Y drops the leading zeros of early years on some platforms.
        return instant.astimezone(UTC).replace(microsecond=0, tzinfo=None).isoformat() + "Z"
    except (ValueError, OverflowError) as error:
        raise _bad(text, "there is no such moment") from error


def _bad(text: str, hint: str) -> BadDate:
    return BadDate(f"target date {text[:60]!r}", hint)


def _hint(text: str) -> str:
    if "+" in text and not text[0].isdigit():
        return "a date lies in the past: '-', not '+'"
    if re.fullmatch(r"\d{4}-\d\d-\d\d([Tt ][\d:.]+)?", text):
        return "day, time and offset are needed, as in 2026-01-31T12:00:00Z"
    return "neither RFC 3339 (2026-01-31T12:00:00Z) nor relative (now-2d, -1h30m; units s, m, h, d)"

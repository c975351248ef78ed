"""Go durations (``1h30m``, ``45s``, ``500ms``, ``0``): the original's ConfigMap and our specs use them."""

from __future__ import annotations

import re

#: For CRD schemas and CLI help. A sign is left out on purpose: no interval is negative.
PATTERN = r"^(0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$"

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)")


def parse_duration(text: str) -> float:
    """Seconds. Raises ValueError, whose text says what a duration looks like."""
    stripped = text.strip()
    if stripped == "0":
        return 0.0
    total, end = 0.0, 0
    for part in _PART.finditer(stripped):
        if part.start() != end:
            break
        total += float(part[1]) * _UNITS[part[2]]
        end = part.end()
    if not stripped or end != len(stripped):
        raise ValueError(f"{text!r} is not a duration such as 30s, 1m or 1h30m (0 disables)")
    return total


def seconds(text: str | None, default: float) -> float:
    """Seconds of an optional field's text, ``default`` where it isn't set."""
    return default if text is None else parse_duration(text)


def format_duration(length: float) -> str:
    """The shortest Go spelling: 90.0 -> ``1m30s``."""
    if length == 0:
        return "0"
    if length < 1:
        return f"{length * 1000:g}ms"
    hours, rest = divmod(length, 3600)
    minutes, left = divmod(rest, 60)
    parts = [f"{int(hours)}h" if hours else "", f"{int(minutes)}m" if minutes else "", f"{left:g}s" if left else ""]
    return "".join(parts)

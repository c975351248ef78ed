"""JSON as the wire has it: one place, so that another encoder is one change away."""

from __future__ import annotations

import json
from typing import Any


def dumps(value: Any) -> bytes:
    """Compact UTF-8 JSON. Raises ValueError for NaN and infinities, which JSON doesn't know."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def loads(data: bytes | str) -> Any:
    """Raises ValueError for anything but one JSON value, and for one that nests too deeply to be read."""
    try:
        return json.loads(data)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error

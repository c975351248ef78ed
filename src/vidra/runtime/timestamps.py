"""Wall-clock times as the API writes them. For people to read; nobody decides by them."""

from __future__ import annotations

import datetime


def micro_time() -> str:
    """Now as a MicroTime: in UTC, whatever the machine's zone is."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

from __future__ import annotations

import datetime
import re
import time

import pytest

from vidra.runtime.timestamps import micro_time


def test_times_are_written_in_utc_whatever_the_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        written = micro_time()
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", written)
        assert (
            abs((datetime.datetime.fromisoformat(written) - datetime.datetime.now(datetime.UTC)).total_seconds()) < 60
        )
    finally:
        monkeypatch.undo()
        time.tzset()

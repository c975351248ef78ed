"""Stops asking a server that does not answer, so that a dead cluster costs its callers nothing but a short error.

After :data:`FAILURES` requests in a row without any answer the breaker is open: requests fail at once, in words that
say why and until when. When the time is over, one request is let through as a probe; the others still fail. Any answer
of the server, a refusal too, closes it; a probe without one opens it again, for twice as long up to a cap.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from vidra.kube.errors import Unreachable

#: Requests in a row without an answer.
FAILURES = 3
#: Seconds for which it is open at first, and at the most.
FIRST_PAUSE = 2.0
LAST_PAUSE = 30.0
#: Seconds after which a probe that never came back counts for nothing.
PROBE_LOST = 120.0


class Breaker:
    """``on_change`` is told True when the server stops answering and False when it answers again. Monotonic clock."""

    def __init__(
        self, *, on_change: Callable[[bool], None] = lambda is_open: None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._on_change = on_change
        self._clock = clock
        self._failed = 0
        self._pause = FIRST_PAUSE
        self._open_until: float | None = None
        self._probing_since: float | None = None

    @property
    def is_open(self) -> bool:
        return self._open_until is not None

    def check(self, request: str) -> None:
        """Call before each request. Raises Unreachable without any waiting while the server is taken for dead."""
        if self._open_until is None:
            return
        now = self._clock()
        probing = self._probing_since is not None and now - self._probing_since < PROBE_LOST
        if now >= self._open_until and not probing:
            self._probing_since = now
            return
        wait = max(0.0, self._open_until - now)
        raise Unreachable(f"{request}: not tried, the server did not answer lately; next try in {wait:.0f} s")

    def answered(self) -> None:
        """The server answered something."""
        was_open, self._open_until = self._open_until is not None, None
        self._failed, self._pause, self._probing_since = 0, FIRST_PAUSE, None
        if was_open:
            self._on_change(False)

    def gave_up(self) -> None:
        """A request that was let through was given up by its own caller: another may be the probe."""
        self._probing_since = None

    def failed(self) -> None:
        """A request that was let through got no answer."""
        self._failed += 1
        if self._failed < FAILURES:
            return
        was_open, probed = self._open_until is not None, self._probing_since is not None
        if was_open and not probed:
            return  # one that was under way already when it opened
        self._probing_since = None
        self._open_until = self._clock() + self._pause * (1 + 0.1 * random.random())  # noqa: S311
        self._pause = min(LAST_PAUSE, self._pause * 2)
        if not was_open:
            self._on_change(True)

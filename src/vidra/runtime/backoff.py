"""How long to wait before trying again.

:class:`ExponentialBackoff` is the rule, a plain value. :class:`Backoff` follows it for one thing that is tried again
and again (a watch), :class:`KeyedBackoff` for many that fail each for itself (the keys of a work queue). Every wait is
at least what the rule says and at most ``1 + jitter`` times that: jitter only ever adds, so that a wait the other side
asked for is never cut short, and those that failed together don't come back together.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

#: Gives numbers in [0, 1), as :func:`random.random` does.
Random = Callable[[], float]


@dataclass(frozen=True, slots=True)
class ExponentialBackoff:
    """``base`` seconds, times ``factor`` per failure, never more than ``cap``; then up to ``jitter`` times that on top.

    ``ExponentialBackoff(0.8, 30, jitter=1.0)`` waits 0.8..1.6 s first and 30..60 s in the end. Raises ValueError for
    numbers that make no sense.
    """

    base: float
    cap: float
    factor: float = 2.0
    jitter: float = 0.2

    def __post_init__(self) -> None:
        if not 0 < self.base <= self.cap:
            raise ValueError(f"need 0 < base <= cap, got base {self.base} and cap {self.cap}")
        if self.factor < 1 or self.jitter < 0:
            raise ValueError(f"need factor >= 1 and jitter >= 0, got {self.factor} and {self.jitter}")

    @property
    def longest(self) -> float:
        """No wait is longer than this, in seconds, unless the other side asks for a longer one."""
        return self.cap * (1 + self.jitter)

    def delay(self, failures: int, *, at_least: float = 0.0, rand: Random = random.random) -> float:
        """Seconds to wait after ``failures`` earlier failures (0 for the first one).

        ``at_least`` is a wait the other side asked for; it wins over the rule's, the cap too, where it is longer.
        """
        try:
            step = min(self.cap, self.base * self.factor**failures)
        except OverflowError:  # some thousand failures on
            step = self.cap
        return max(step, at_least) * (1 + self.jitter * rand())


class Backoff:
    """The waits of one thing: :meth:`next` after each failure, :meth:`reset` when it is known to be well.

    With ``healthy_after`` it resets by itself when the next failure comes that many seconds or more after the last wait
    was over: what worked for so long starts from the beginning, what fails soon after each attempt doesn't.
    """

    def __init__(
        self,
        rule: ExponentialBackoff,
        *,
        healthy_after: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        rand: Random = random.random,
    ) -> None:
        self.rule = rule
        self._healthy_after = healthy_after
        self._clock = clock
        self._rand = rand
        self._failures = 0
        self._waited_until = clock()

    @property
    def failures(self) -> int:
        """Failures since the last reset."""
        return self._failures

    def next(self, *, at_least: float = 0.0) -> float:
        """Counts a failure and says how many seconds to wait, ``at_least`` those the other side asked for."""
        now = self._clock()
        if self._healthy_after is not None and now - self._waited_until >= self._healthy_after:
            self._failures = 0
        delay = self.rule.delay(self._failures, at_least=at_least, rand=self._rand)
        self._failures += 1
        self._waited_until = now + delay
        return delay

    def reset(self) -> None:
        self._failures = 0


class KeyedBackoff(Generic[K]):
    """The waits of many keys, each for itself. Holds a number per key that failed and wasn't forgotten since."""

    def __init__(self, rule: ExponentialBackoff, *, rand: Random = random.random) -> None:
        self.rule = rule
        self._rand = rand
        self._failures: dict[K, int] = {}

    def next(self, key: K, *, at_least: float = 0.0) -> float:
        """Counts a failure of ``key`` and says how many seconds to wait."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        return self.rule.delay(failures, at_least=at_least, rand=self._rand)

    def failures(self, key: K) -> int:
        """Failures of ``key`` since it was last forgotten."""
        return self._failures.get(key, 0)

    def forget(self, key: K) -> None:
        """``key`` is well, or gone: its next failure is a first one."""
        self._failures.pop(key, None)

"""Stops what this process writes before somebody else may write: the end of a lease, told to those who must obey it.

What it promises:

- :meth:`Fence.check` raises Fenced unless the fence was opened and the time it was opened for is not over. It costs a
  microsecond and asks nobody, so it can stand before every single write (:mod:`vidra.kube.guard`). It is closed at
  first.
- Time is that of a clock which never stands still: it counts while the process is stopped by a signal, while a thread
  holds the interpreter, and while the machine sleeps. What comes back late finds the fence closed.
- :class:`Watchdog` ends the process when, some time after the fence closed by itself, nobody has said that the guarded
  work is over: a blocked event loop can neither renew nor stop anything. It is a thread, so it runs when the loop
  doesn't. Code that keeps the interpreter to itself stops the thread too, but meanwhile nobody else can write either.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, Final, Self

from vidra.kube.errors import Fenced

#: Exit status of a process that ended itself because it could not stop in time: EX_SOFTWARE.
OVERRUN: Final = 70
#: Bytes that a pipe takes as a whole when it takes any.
_ATOMIC: Final = 4000


def _counting() -> Callable[[], float]:
    # CLOCK_MONOTONIC, which time.monotonic reads, stands still on Linux while the machine sleeps.
    clock: int | None = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic if clock is None else lambda: time.clock_gettime(clock)


#: Seconds that never stand still, from some point in the past.
now: Final = _counting()


class Fence:
    """See the module's text. ``clock`` gives seconds. ``slack`` is how many seconds after the fence closed a write may
    still be on its way that was sent before."""

    def __init__(self, clock: Callable[[], float] = now, *, slack: float = 0.0) -> None:
        self._clock = clock
        self._slack = slack
        self._until: float | None = None

    @property
    def until(self) -> float | None:
        """The time of the clock at which the fence closes by itself; None while it is closed on purpose."""
        return self._until

    @property
    def is_open(self) -> bool:
        return self._until is not None and self._clock() < self._until

    @property
    def left(self) -> float:
        """Seconds until it closes; 0 when it is closed."""
        return 0.0 if self._until is None else max(0.0, self._until - self._clock())

    def check(self) -> float:
        """Raises Fenced while nothing may be written, else returns the seconds in which a write must have arrived."""
        until = self._until
        if until is None:
            raise Fenced("not sent: this process doesn't hold the lease")
        left = until - self._clock()
        if left <= 0:
            raise Fenced("not sent: the lease of this process may be over")
        return left + self._slack

    def open(self, until: float) -> None:
        """Opens it, or keeps it open, until the clock shows ``until``."""
        self._until = until

    def expire(self) -> None:
        """Closes it now, with guarded work still left that has to stop."""
        if self._until is not None:
            self._until = min(self._until, self._clock())

    def close(self) -> None:
        """Nothing is written from here on, and no guarded work is left that could."""
        self._until = None


def end_process() -> None:
    """Ends this process at once, without any of its cleaning up."""
    os._exit(OVERRUN)


class Watchdog:
    """Use as a context manager around the guarded work.

    ``patience`` is how many seconds after the fence closed by itself the process is ended, ``end`` how. Inside the main
    thread it also looks when the process goes on after a kill -STOP, before anything else runs.
    """

    def __init__(
        self,
        fence: Fence,
        *,
        patience: float,
        end: Callable[[], None] = end_process,
        clock: Callable[[], float] = now,
    ) -> None:
        self._fence = fence
        self._patience = patience
        self._end = end
        self._clock = clock
        self._over = threading.Event()
        self._earlier: Any = None

    def __enter__(self) -> Self:
        self._over.clear()
        threading.Thread(target=self._watch, name="lease-watchdog", daemon=True).start()
        if threading.current_thread() is threading.main_thread():
            self._earlier = signal.signal(signal.SIGCONT, self._continued)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._earlier is not None:
            signal.signal(signal.SIGCONT, self._earlier)
        self._over.set()

    def _watch(self) -> None:
        wait = self._patience / 2
        while not self._over.wait(wait):
            until = self._fence.until
            late = None if until is None else self._clock() - until
            if late is not None and late >= self._patience:
                self._end_with_words(f"the guarded work did not stop: its lease may have ended {late:.1f} s ago")
                return
            wait = self._patience / 2 if late is None or late < -self._patience else self._patience / 10

    def _continued(self, signum: int, frame: FrameType | None) -> None:
        # A signal's handler runs before the code that the process was stopped in, so also before an event loop that
        # would now write the rest of a request to its socket.
        until = self._fence.until
        if until is not None and self._clock() >= until:
            self._end_with_words("the process was stopped for longer than its lease")

    def _end_with_words(self, why: str) -> None:
        _last_words(f"FATAL: {why}; this process ends now. It was at: {_whereabouts()}")
        self._end()


def _last_words(text: str) -> None:
    """To standard error, if that can be done without waiting for anybody or taking a lock: a full pipe, or a logger
    that the main thread is in, must not keep the process alive."""
    with suppress(OSError, ValueError):
        error = 2
        if select.select([], [error], [], 0)[1]:
            os.write(error, text.encode("utf-8", "replace")[:_ATOMIC] + b"\n")


def _whereabouts() -> str:
    """Where the main thread is, innermost first."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    places = []
    while frame is not None:
        places.append(f"{frame.f_code.co_name} ({frame.f_code.co_filename}:{frame.f_lineno})")
        frame = frame.f_back
    return " < ".join(places)

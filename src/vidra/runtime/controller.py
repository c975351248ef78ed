"""Workers that take keys from a queue and reconcile them.

What it promises:

- A reconcile is an async function from a key to a :class:`Result`. Two of one key never run at once; ``workers`` of
  different keys do.
- Every outcome leads somewhere, and to exactly one log line and one count:

  | the reconcile                    | outcome       | the key comes back              | its back-off    |
  |----------------------------------|---------------|---------------------------------|-----------------|
  | returns Result()                 | success       | with the next event             | forgotten       |
  | returns Result(requeue_after=s)  | requeue_after | in s seconds                    | forgotten       |
  | raises CacheBehind               | requeue_after | in a moment                     | as it was       |
  | raises RetryAfter(s)             | error         | in s seconds                    | as it was       |
  | raises TerminalError             | terminal      | with the next event             | forgotten       |
  | takes longer than ``timeout``    | timeout       | after its back-off              | grows           |
  | raises anything else             | error         | after its back-off, and not     | grows           |
  |                                  |               | before a refusing server's time |                 |
  | is cut short by the shutdown     | cancelled     | not in this process             | as it was       |

  A key comes back earlier when an event adds it. One that comes back keeps the priority it was taken at.
- What goes wrong outside of a reconcile is a fault of this machinery: it ends ``run`` with that error (in an exception
  group), and thereby the process. No worker ends unseen, also not by a stray CancelledError out of a reconcile.
- Shutdown, by ``stop`` or by cancelling ``run``: no key is handed out any more, running reconciles get ``grace``
  seconds, then they are cancelled. Cancelling twice leaves out the grace.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, Protocol, TypeVar

import structlog

from vidra.kube.errors import ApiError, KubeError
from vidra.runtime.ownwrites import CacheBehind
from vidra.runtime.workqueue import QueueShutDown, WorkQueue

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Result:
    """A reconcile that went well. ``requeue_after`` is the number of seconds after which to look again, event or not;
    None: with the next event. Raises ValueError for 0 and less, which would spin."""

    requeue_after: float | None = None

    def __post_init__(self) -> None:
        if self.requeue_after is not None and self.requeue_after <= 0:
            raise ValueError(f"requeue_after must be more than 0, got {self.requeue_after}")


class RetryableError(Exception):
    """An expected failure that may pass by itself: logged without a traceback, tried again after the back-off."""


class RetryAfter(Exception):
    """An expected failure that is to be tried again in ``seconds``, neither earlier nor later.

    Raises ValueError for 0 and less, which would spin."""

    def __init__(self, seconds: float, message: str = "") -> None:
        if seconds <= 0:
            raise ValueError(f"seconds must be more than 0, got {seconds}")
        super().__init__(message or f"try again in {seconds:g} s")
        self.seconds = seconds


class TerminalError(Exception):
    """A failure that stays until somebody changes something: counted, and not tried again before that."""


class Outcome(Enum):
    SUCCESS = "success"
    REQUEUE_AFTER = "requeue_after"
    ERROR = "error"
    TERMINAL = "terminal"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"


class ControllerObserver(Protocol):
    """Is told of each reconcile. Its methods must be quick."""

    def started(self) -> None:
        """One more worker is active."""

    def finished(self, outcome: Outcome, seconds: float) -> None:
        """One worker less is active; its reconcile took so long."""


class Controller(Generic[K]):
    """See the module's text. ``timeout`` and ``grace`` are seconds; without a timeout a reconcile may take for ever."""

    def __init__(
        self,
        name: str,
        reconcile: Callable[[K], Awaitable[Result]],
        queue: WorkQueue[K],
        *,
        workers: int,
        timeout: float | None,
        grace: float = 30.0,
        observer: ControllerObserver | None = None,
        logger: Any = None,
    ) -> None:
        if workers < 1:
            raise ValueError(f"a controller needs a worker, got {workers}")
        self.name = name
        self.workers = workers
        self._reconcile = reconcile
        self._queue = queue
        self._timeout = timeout
        self._grace = grace
        self._observer = observer
        self._log = logger if logger is not None else structlog.get_logger(__name__)
        self._running: asyncio.Task[None] | None = None
        self._end_of_grace: asyncio.TimerHandle | None = None

    async def run(self) -> None:
        """Works until it is stopped or cancelled. Raises what went wrong in the machinery. Can be called once."""
        if self._running is not None:
            raise RuntimeError(f"controller {self.name} was started twice")
        running = self._running = asyncio.create_task(self._work(), name=f"{self.name} workers")
        cancelled: asyncio.CancelledError | None = None
        while not running.done():
            try:
                await asyncio.wait({running})
            except asyncio.CancelledError as error:  # raised again below, when the workers are through
                if cancelled is None:
                    self.stop()
                else:
                    running.cancel()
                cancelled = error
        if self._end_of_grace is not None:
            self._end_of_grace.cancel()
        if not running.cancelled():
            running.result()
        if cancelled is not None:
            raise cancelled

    def stop(self) -> None:
        """Hands out nothing more; :meth:`run` returns when what is running has ended or the grace is over."""
        self._queue.shut_down()
        if self._running is not None and self._end_of_grace is None:
            self._end_of_grace = asyncio.get_running_loop().call_later(self._grace, self._running.cancel)

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(self.workers):
                group.create_task(self._worker(), name=f"{self.name} worker {number}")

    async def _worker(self) -> None:
        while True:
            try:
                key = await self._queue.get()
            except QueueShutDown:
                return
            try:
                with structlog.contextvars.bound_contextvars(
                    controller=self.name, key=str(key), reconcile_id=secrets.token_hex(4)
                ):
                    await self._process(key)
            finally:
                self._queue.done(key)
            # A reconcile with nothing to do may never wait for anything: the loop must get its turn all the same.
            await asyncio.sleep(0)

    async def _process(self, key: K) -> None:
        clock = asyncio.get_running_loop().time
        started = clock()
        outcome = Outcome.CANCELLED
        if self._observer is not None:
            self._observer.started()
        try:
            outcome, level, message, fields = await self._outcome(key)
            getattr(self._log, level)(message, duration=round(clock() - started, 3), **fields)
        except asyncio.CancelledError:
            self._log.warning("reconcile cut short", duration=round(clock() - started, 3))
            raise
        finally:
            if self._observer is not None:
                self._observer.finished(outcome, clock() - started)

    async def _outcome(self, key: K) -> tuple[Outcome, str, str, dict[str, Any]]:
        """Reconciles, puts the key where it belongs, and says what to log: level, message, fields."""
        deadline = asyncio.timeout(self._timeout)
        try:
            async with deadline:
                result = await self._reconcile(key)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Nobody cancelled this worker: the reconcile awaited something that was cancelled. Let through, it would
            # end the worker, and a task group takes that for an orderly end.
            return self._failed(key, error, expected=False)
        except CacheBehind as error:
            self._queue.add_after(key, error.seconds)
            return Outcome.REQUEUE_AFTER, "debug", "cache is behind", {"requeue_after": round(error.seconds, 3)}
        except TerminalError as error:
            self._queue.forget(key)
            return Outcome.TERMINAL, "error", "reconcile failed for good", {"error": _text(error)}
        except RetryAfter as error:
            self._queue.add_after(key, error.seconds)
            return Outcome.ERROR, "warning", "reconcile failed", {"error": _text(error), "retry_in": error.seconds}
        except TimeoutError as error:
            if not deadline.expired():
                return self._failed(key, error, expected=True)
            retry_in = round(self._queue.add_rate_limited(key), 3)
            return Outcome.TIMEOUT, "error", "reconcile timed out", {"timeout": self._timeout, "retry_in": retry_in}
        except (RetryableError, KubeError) as error:
            return self._failed(key, error, expected=True)
        except Exception as error:  # noqa: BLE001 - one key's fault must not take the others down; it is logged in full
            return self._failed(key, error, expected=False)
        self._queue.forget(key)
        if result.requeue_after is None:
            return Outcome.SUCCESS, "info", "reconciled", {}
        self._queue.add_after(key, result.requeue_after)
        return Outcome.REQUEUE_AFTER, "info", "reconciled", {"requeue_after": round(result.requeue_after, 3)}

    def _failed(self, key: K, error: BaseException, *, expected: bool) -> tuple[Outcome, str, str, dict[str, Any]]:
        asked = (error.retry_after or 0.0) if isinstance(error, ApiError) else 0.0
        fields: dict[str, Any] = {
            "error": _text(error),
            "retry_in": round(self._queue.add_rate_limited(key, at_least=asked), 3),
            "failures": self._queue.retries(key),
        }
        if expected:
            return Outcome.ERROR, "warning", "reconcile failed", fields
        return Outcome.ERROR, "error", "reconcile failed unexpectedly", {**fields, "exc_info": error}


def _text(error: BaseException) -> str:
    return str(error) or type(error).__name__

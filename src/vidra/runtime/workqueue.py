"""A queue of keys to work on, for any number of producers and workers on one event loop.

What it promises:

- *One entry per key.* A key that is added ten times before a worker takes it is worked on once. An entry has a time
  and a priority; adding a key that has one keeps the earlier time and the higher priority. So ``add`` makes a delayed
  key ready at once and its later time is gone, and ``add_after`` never puts off what is due sooner.
- *One worker per key.* From ``get`` to ``done`` nobody else gets the key. A key that is added meanwhile is worked on
  exactly once more, after ``done``, from the tail; a delayed one when its time has come and ``done`` was called.
- *Order.* NORMAL before LOW, always: what a person changed doesn't wait behind thousands of keys of a first list.
  Among equals first come, first served, where coming means becoming ready at that priority.
- *Retries* wait longer and longer per key (``add_rate_limited``) until ``forget``. That only resets the count: what is
  queued stays queued. One key's failures slow no other key, and an ``add`` doesn't wait for the back-off.
- *Shutdown.* After ``shut_down`` nothing is handed out or taken in any more: what is queued or delayed is dropped,
  every ``get`` raises QueueShutDown, adds are ignored. What workers hold they finish; ``drain`` waits for it.

All methods but ``get`` and ``drain`` are plain calls that never block; none of them is thread-safe. Time is the event
loop's, which is monotonic. Whoever measures gives an observer; the queue itself knows no metrics library.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict, deque
from collections.abc import Hashable
from enum import IntEnum
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from vidra.runtime.backoff import ExponentialBackoff, KeyedBackoff
from vidra.runtime.delayed import Clock, DelayedKeys

__all__ = ["DEFAULT_BACKOFF", "Clock", "Priority", "QueueObserver", "QueueShutDown", "Running", "WorkQueue"]

K = TypeVar("K", bound=Hashable)

#: For work on remote systems: the first retry after a second, none later than five minutes (250 s and a fifth of it).
DEFAULT_BACKOFF: Final = ExponentialBackoff(base=1.0, cap=250.0, jitter=0.2)


class Priority(IntEnum):
    """LOW is for keys of a first list and for periodic checks, NORMAL for whatever just happened."""

    LOW = 0
    NORMAL = 1


class QueueShutDown(Exception):
    """The queue hands out no more keys."""


class QueueObserver(Protocol):
    """Is told what happens, in seconds and keys. Its methods must be quick and must not call the queue."""

    def added(self) -> None:
        """A key came in that wasn't waiting already (workqueue_adds_total)."""

    def depth_changed(self, depth: int) -> None:
        """So many keys are ready for a worker now (workqueue_depth)."""

    def taken(self, waited: float) -> None:
        """A worker took a key that was ready for so long (workqueue_queue_duration_seconds)."""

    def finished(self, worked: float) -> None:
        """A worker was done with a key after so long (workqueue_work_duration_seconds)."""

    def retried(self) -> None:
        """A key was added by its back-off (workqueue_retries_total)."""


class Running(NamedTuple, Generic[K]):
    """A key somebody works on, and since how many seconds."""

    key: K
    seconds: float


class _Work(NamedTuple):
    since: float
    priority: Priority


class WorkQueue(Generic[K]):
    """See the module's text. Make it inside a running event loop, or give a ``clock``."""

    def __init__(
        self,
        *,
        backoff: KeyedBackoff[K] | None = None,
        clock: Clock | None = None,
        observer: QueueObserver | None = None,
    ) -> None:
        self._clock: Clock = clock if clock is not None else asyncio.get_running_loop()
        self._backoff: KeyedBackoff[K] = backoff if backoff is not None else KeyedBackoff(DEFAULT_BACKOFF)
        self._observer = observer
        # A waiting key is in exactly one of these three. Ready keys come with the time since when they are ready,
        # one ordered mapping per priority.
        self._ready: tuple[OrderedDict[K, float], ...] = tuple(OrderedDict() for _ in Priority)
        self._delayed: DelayedKeys[K, Priority] = DelayedKeys(self._clock, self._is_due)
        self._again: dict[K, _Work] = {}  # ready, but somebody works on the key
        self._processing: dict[K, _Work] = {}  # in the order they were taken
        self._getters: deque[asyncio.Future[None]] = deque()
        self._shut_down = False
        self._idle = asyncio.Event()
        self._idle.set()

    # -- adding -------------------------------------------------------------------------------------------------

    def add(self, key: K, *, priority: Priority = Priority.NORMAL) -> None:
        """``key`` is to be worked on as soon as a worker is free."""
        if not self._shut_down:
            self._make_ready(key, priority, came=True)

    def add_after(self, key: K, delay: float, *, priority: Priority | None = None) -> None:
        """``key`` is to be worked on in ``delay`` seconds, or earlier if it is due earlier; at once for 0 and less.

        ``priority`` None is the one the key is being worked on at, NORMAL if it isn't: who asks for one more look
        doesn't overtake anybody by it.
        """
        if self._shut_down:
            return
        if priority is None:
            work = self._processing.get(key)
            priority = Priority.NORMAL if work is None else work.priority
        held = self._delayed.get(key)
        if delay <= 0 or (held is None and self._is_ready(key)):
            self._make_ready(key, priority, came=held is None)
            return
        when = self._clock.time() + delay
        if held is None:
            self._told_added()
        elif held.when <= when:
            if priority > held.value:
                self._delayed.change(key, priority)
            return
        else:
            priority = max(priority, held.value)
        self._delayed.put(key, when, priority)

    def add_rate_limited(self, key: K, *, at_least: float = 0.0, priority: Priority | None = None) -> float:
        """``key`` failed: it is to be worked on again after its back-off, which grows with each call until ``forget``.

        ``at_least`` is a wait the other side asked for. Returns the wait in seconds. For ``priority`` see
        :meth:`add_after`.
        """
        delay = self._backoff.next(key, at_least=at_least)
        if not self._shut_down:
            if self._observer is not None:
                self._observer.retried()
            self.add_after(key, delay, priority=priority)
        return delay

    def forget(self, key: K) -> None:
        """``key`` is well, or gone: its back-off starts from the beginning. Whatever is queued stays queued."""
        self._backoff.forget(key)

    def retries(self, key: K) -> int:
        """How often ``key`` was added by its back-off since it was last forgotten."""
        return self._backoff.failures(key)

    # -- working ------------------------------------------------------------------------------------------------

    async def get(self) -> K:
        """Waits for a key and takes it: the caller must call :meth:`done` for it. Raises QueueShutDown."""
        while True:
            if self._shut_down:
                raise QueueShutDown
            for priority in (Priority.NORMAL, Priority.LOW):
                if self._ready[priority]:
                    return self._take(priority)
            getter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                if getter.cancelled():
                    with contextlib.suppress(ValueError):  # a wake-up may have thrown it out already
                        self._getters.remove(getter)
                else:
                    self._wake_one()  # we were woken for a key and can't take it any more: somebody else must
                raise

    def done(self, key: K) -> None:
        """The caller of :meth:`get` is through with ``key``. Raises KeyError when nobody works on it."""
        work = self._processing.pop(key)
        if self._observer is not None:
            self._observer.finished(self._clock.time() - work.since)
        again = self._again.pop(key, None)
        if again is not None:
            self._ready[again.priority][key] = again.since
            self._told_depth()
            self._wake_one()
        if not self._processing:
            self._idle.set()

    def shut_down(self) -> None:
        """Hands out nothing more and drops what waits. May be called again."""
        self._shut_down = True
        for level in self._ready:
            level.clear()
        self._delayed.clear()
        self._again.clear()
        while self._getters:
            self._wake_one()
        self._told_depth()

    async def drain(self, timeout: float | None) -> bool:
        """Shuts down and waits until every key handed out is done, ``timeout`` seconds at most. False: some aren't."""
        self.shut_down()
        try:
            async with asyncio.timeout(timeout):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True

    # -- looking ------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Keys that are ready and wait for a worker."""
        return sum(len(level) for level in self._ready)

    @property
    def delayed(self) -> int:
        """Keys whose time has not come."""
        return len(self._delayed)

    def next_due(self) -> float | None:
        """Seconds until the first delayed key becomes ready; None: no key is delayed."""
        earliest = self._delayed.earliest
        return None if earliest is None else max(0.0, earliest - self._clock.time())

    @property
    def in_progress(self) -> int:
        """Keys that workers hold."""
        return len(self._processing)

    def longest_running(self) -> Running[K] | None:
        """The key that is being worked on for longest: a frozen worker shows here. None when nobody works."""
        for key, work in self._processing.items():  # the first is the oldest
            return Running(key, self._clock.time() - work.since)
        return None

    def unfinished_work(self) -> float:
        """Seconds all current work has taken so far, added up (workqueue_unfinished_work_seconds)."""
        now = self._clock.time()
        return sum(now - work.since for work in self._processing.values())

    # -- inside -------------------------------------------------------------------------------------------------

    def _is_ready(self, key: K) -> bool:
        return key in self._again or any(key in level for level in self._ready)

    def _make_ready(self, key: K, priority: Priority, *, came: bool) -> None:
        """Makes or raises the ready entry of ``key``; ``came`` says that it may be new to the queue."""
        held = self._delayed.pop(key)
        if held is not None:
            priority = max(priority, held.value)
            came = False
        if key in self._processing:
            again = self._again.get(key)
            if again is None:
                self._again[key] = _Work(self._clock.time(), priority)
            elif priority > again.priority:
                self._again[key] = again._replace(priority=priority)
            if again is None and came:
                self._told_added()
            return
        low, normal = self._ready
        if key in normal or (key in low and priority is Priority.LOW):
            return
        since = low.pop(key, None)
        if since is not None:  # raised: its place is free, and the depth is what it was
            normal[key] = since
            return
        self._ready[priority][key] = self._clock.time()
        if came:
            self._told_added()
        self._told_depth()
        self._wake_one()

    def _take(self, priority: Priority) -> K:
        key, since = self._ready[priority].popitem(last=False)
        now = self._clock.time()
        self._processing[key] = _Work(now, priority)
        self._idle.clear()
        if self._observer is not None:
            self._observer.taken(now - since)
            self._told_depth()
        return key

    def _wake_one(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    def _is_due(self, key: K, priority: Priority) -> None:
        self._make_ready(key, priority, came=False)

    def _told_added(self) -> None:
        if self._observer is not None:
            self._observer.added()

    def _told_depth(self) -> None:
        if self._observer is not None:
            self._observer.depth_changed(len(self))

"""Sees to it that of many processes one at a time does the guarded work: leader election on a Lease.

What it promises (the rules are those of client-go's leaderelection.go):

- Whether another's lease is over is judged by our own clock, from when we last saw its record change; its timestamps
  are never read. So wrong clocks harm nobody.
- The fence is open only while nobody else can hold the lease: for ``renew_deadline`` from *before* the last renewal
  that was answered. When it closes, the guarded work is cancelled without grace and :meth:`Elector.run` raises
  LeaseLost, which is to end the process. What doesn't stop is ended by the watchdog before the lease is over.
- Every write of the record is conditional on the version that was read. A conflict is looked into, never overwritten.
- Asked to end, it keeps the lease while the guarded work ends in order, and then gives it up. A standby watches for
  that, so it leads a moment later; what the watch misses is found by asking every ``retry`` seconds or so.
- It is no lock on what is written: a request that has left this process may arrive late. See docs/adr/0007.
"""

from __future__ import annotations

import asyncio
import random
import socket
import uuid
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Final

import structlog

from vidra.kube.client import Obj
from vidra.kube.errors import ApiError, KubeError
from vidra.runtime import lease as records
from vidra.runtime.fence import Fence, now
from vidra.runtime.lease import JITTER, LeaseStore, LeaseTimes, Sighting

log = structlog.get_logger(__name__)

#: Seconds between two calls on work that has to stop at once: each cuts short what the last one left it to wait for.
CANCEL_AGAIN: Final = 0.2
#: Seconds for giving up the lease at the end. Beyond it others wait until it is over.
RELEASE_TIMEOUT: Final = 5.0


class LeaseLost(Exception):
    """This process led and can't be sure any more that it still does. Its guarded work was stopped."""


def new_identity() -> str:
    """Who this process is: of all processes, also of those that had this host's name before, it is the only one."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


class Elector:
    """See the module's text. ``fence`` is what the writers obey; ``watchdog`` guards the work (None: nobody does);
    ``observer`` is told True when this process leads and False when it doesn't."""

    def __init__(
        self,
        leases: LeaseStore,
        fence: Fence,
        *,
        identity: str,
        times: LeaseTimes,
        watchdog: AbstractContextManager[object] | None = None,
        observer: Callable[[bool], None] = lambda leads: None,
        clock: Callable[[], float] = now,
        rand: Callable[[], float] = random.random,
    ) -> None:
        self.identity = identity
        self.times = times
        self._leases = leases
        self._fence = fence
        self._watchdog = watchdog
        self._observer = observer
        self._clock = clock
        self._rand = rand
        self._leads = False
        self._record = Sighting(clock)
        #: Whether the server may have us as the holder.
        self._claimed = False
        self._free = asyncio.Event()
        observer(False)

    @property
    def leads(self) -> bool:
        return self._leads

    def standing(self) -> str:
        """For people: whether this process leads, and who does if it doesn't."""
        if self._leads:
            return "leading"
        other = self._record.holder
        return f"standby, {other} leads" if other else "standby, nobody leads"

    def overdue(self) -> str | None:
        """For a liveness check: what is wrong when this process leads and its lease must be over; else None."""
        until = self._fence.until
        late = 0.0 if until is None else self._clock() - until
        if self._leads and late > self.times.patience:
            return f"the lease was not renewed, and the work not stopped, {late:.0f} s after it should have been"
        return None

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Waits for the lease and does ``work`` as long as it holds.

        Ends when ``work`` does, with what it raised; raises LeaseLost. Cancelled, it cancels the work, waits for it,
        and gives up the lease; cancelled again, it cancels the work again.
        """
        try:
            await self._acquire()
            with self._watchdog or nullcontext():
                await self._lead(work)
        finally:
            self._fence.close()
            if self._claimed:
                await self._release()

    # --- standing by

    async def _acquire(self) -> None:
        watching = asyncio.create_task(self._watch_for_release())
        try:
            await self._try_until_taken()
        finally:
            await _end(watching)

    async def _try_until_taken(self) -> None:
        told, failed = "", False
        while True:
            self._free.clear()
            try:
                async with asyncio.timeout(self.times.attempt):
                    if await self._try_to_take():
                        return
                failed = False
            except (KubeError, TimeoutError) as error:
                if not failed:  # once, not every two seconds of an outage
                    log.warning("the lease can't be had", error=_words(error))
                failed = True
            if not failed and told != self.standing():
                told = self.standing()
                log.info("not leading", standing=told, identity=self.identity)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pause()):
                    await self._free.wait()

    async def _try_to_take(self) -> bool:
        """One look, and one try where the lease is free or over. Raises KubeError."""
        lease = await self._leases.get()
        if lease is not None:
            self._record.see(lease)
        # One that was deleted is still its holder's, who doesn't know yet and writes on.
        if self._record.belongs_to_other(self.identity, self.times):
            return False
        try:
            if lease is None:
                await self._write(self._leases.create(records.first(self.identity, self.times)))
            elif records.holder(lease) == self.identity:  # the answer to an earlier try was lost
                await self._write(self._leases.update(records.renewed(lease, self.times)))
            else:
                await self._write(self._leases.update(records.taken(lease, self.identity, self.times)))
        except ApiError as error:
            if not _overtaken(error):
                raise
            self._claimed = False
            return False
        return True

    def _pause(self) -> float:
        """Until another try makes sense. Jitter, so that standbys don't come all at once."""
        return self.times.retry * (1 + JITTER * self._rand())

    async def _watch_for_release(self) -> None:
        """Sets the event whenever the record turns out to be nobody's."""
        while True:
            with suppress(KubeError):
                async with self._leases.changes() as changes:
                    async for lease in changes:
                        if lease is not None:
                            self._record.see(lease)
                        if lease is None or not records.holder(lease):
                            self._free.set()
            await asyncio.sleep(self._pause())

    # --- leading

    async def _lead(self, work: Callable[[], Awaitable[None]]) -> None:
        self._leads = True
        log.info("leading", identity=self.identity)
        self._observer(True)
        working = asyncio.ensure_future(work())
        renewing = asyncio.create_task(self._renew())
        cancelled: asyncio.CancelledError | None = None
        try:
            while not working.done() and not renewing.done():
                try:
                    await asyncio.wait([working, renewing], return_when=asyncio.FIRST_COMPLETED)
                except asyncio.CancelledError as error:
                    cancelled = error
                    working.cancel()  # in order: it may take its time, and the lease is renewed meanwhile
            if not working.done():
                log.warning("the guarded work is stopped: the lease may be lost", error=_words(renewing.exception()))
                await _stop(working)
        finally:
            self._leads = False
            self._fence.close()
            self._observer(False)
            renewing.cancel()
            await asyncio.wait([renewing])
        lost = None if renewing.cancelled() else renewing.exception()
        if lost is not None:
            if not working.cancelled() and (failed := working.exception()) is not None:
                log.warning("the guarded work failed while it was stopped", error=_words(failed))
            raise lost
        if cancelled is not None and (working.cancelled() or working.exception() is None):
            raise cancelled
        await working  # with its own error, if it has one

    async def _renew(self) -> None:
        """Renews for ever. Raises LeaseLost when somebody else has the lease, or when it could not be renewed."""
        last: Exception | None = None
        tried = self._clock()
        while True:
            await asyncio.sleep(max(0.0, min(tried + self.times.retry - self._clock(), self._fence.left)))
            if not self._fence.is_open:
                raise LeaseLost(f"not renewed in {self.times.renew_deadline:g} s, last: {_words(last)}")
            tried = self._clock()
            try:
                async with asyncio.timeout(min(self.times.attempt, self._fence.left)):
                    await self._try_to_renew()
                last = None
            except (KubeError, TimeoutError) as error:
                log.warning("the lease was not renewed", error=_words(error), seconds_left=round(self._fence.left, 1))
                last = error

    async def _try_to_renew(self) -> None:
        assert self._record.lease is not None
        try:
            await self._write(self._leases.update(records.renewed(self._record.lease, self.times)))
            return
        except ApiError as error:
            if not _overtaken(error):
                raise
        # Not as we know it: somebody else wrote, or deleted it, or a try of ours was done though its answer was lost.
        lease = await self._leases.get()
        if lease is None:
            await self._write(self._leases.create(records.first(self.identity, self.times)))
            return
        self._record.see(lease)
        holder = records.holder(lease)
        if holder and holder != self.identity:
            self._claimed = False
            self._fence.expire()
            raise LeaseLost(f"{holder} has the lease")
        again = records.renewed(lease, self.times) if holder else records.taken(lease, self.identity, self.times)
        await self._write(self._leases.update(again))

    async def _release(self) -> None:
        """Gives up the lease. The guarded work is over, and nobody else's record is touched."""
        known = self._record.lease
        try:
            async with asyncio.timeout(RELEASE_TIMEOUT):
                while known is None or not await self._released(known):
                    known = await self._leases.get()
                    if known is None or records.holder(known) != self.identity:
                        break
        except (KubeError, TimeoutError) as error:
            log.warning("the lease was not released: others wait until it is over", error=_words(error))
        self._claimed = False

    async def _released(self, lease: Obj) -> bool:
        if records.holder(lease) != self.identity:
            return False
        try:
            self._record.see(await self._leases.update(records.released(lease)))
        except ApiError as error:
            if not _overtaken(error):
                raise
            return False
        log.info("the lease is released", identity=self.identity)
        return True

    # --- the record

    async def _write(self, request: Awaitable[Obj]) -> None:
        """Sends what makes the record ours. Raises KubeError when it isn't, or when that is unknown."""
        sent = self._clock()  # nothing of a coroutine has run before it is awaited
        self._claimed = True
        self._record.see(await request)
        # Others count from when they saw it, which is later.
        self._fence.open(sent + self.times.renew_deadline)


def _overtaken(error: ApiError) -> bool:
    """Somebody else wrote, made or deleted the record since we read it."""
    return error.status in {404, 409}


async def _stop(working: asyncio.Future[None]) -> None:
    """Cancels until it is over. Who waits for it raises an error of its own then, also when it is cancelled."""
    while not working.done():
        working.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.wait([working], timeout=CANCEL_AGAIN)


async def _end(task: asyncio.Task[None]) -> None:
    """Cancels a helper, and is loud when it had failed."""
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        task.result()


def _words(error: BaseException | None) -> str:
    return "no answer in time" if error is None or isinstance(error, TimeoutError) else str(error)

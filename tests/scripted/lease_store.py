"""A lease on a server of the test's own making, with electors around it, in virtual time."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from vidra.kube.client import Obj
from vidra.kube.errors import ApiError, Unreachable
from vidra.runtime.fence import Fence
from vidra.runtime.leader import Elector
from vidra.runtime.lease import LeaseTimes

TIMES = LeaseTimes()
T = TypeVar("T")


class Record:
    """The lease as the server has it: versions, conflicts, watches."""

    def __init__(self) -> None:
        self.lease: Obj | None = None
        self.specs: list[Obj] = []
        self._version = 0
        self._changed = asyncio.Condition()

    async def create(self, spec: Obj) -> Obj:
        if self.lease is not None:
            raise ApiError(409, "AlreadyExists", "it exists")
        return await self._store({"metadata": {"name": "l"}, "spec": spec})

    async def update(self, lease: Obj) -> Obj:
        if self.lease is None or lease["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            raise ApiError(409, "Conflict", "it has changed")
        return await self._store(lease)

    async def edit(self, **spec: Any) -> None:
        """Somebody writes it by hand."""
        assert self.lease is not None
        await self._store({**self.lease, "spec": {**self.lease["spec"], **spec}})

    async def delete(self) -> None:
        self.lease = None
        await self._tell()

    async def changes(self) -> AsyncIterator[Obj | None]:
        seen: object = None
        while True:
            if self.lease is not seen:
                seen = self.lease
                yield copy.deepcopy(self.lease)
            async with self._changed:
                await self._changed.wait()

    @property
    def spec(self) -> Obj:
        assert self.lease is not None
        return dict(self.lease["spec"])

    async def _store(self, lease: Obj) -> Obj:
        self._version += 1
        self.lease = copy.deepcopy(lease)
        self.lease["metadata"]["resourceVersion"] = str(self._version)
        self.specs.append(self.spec)
        await self._tell()
        return copy.deepcopy(self.lease)

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()


class Line:
    """One process' way to the record, which may be slow, lose requests or lose answers. A LeaseStore."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.watches = True
        self.requests: list[str] = []
        #: Called before a request reaches the record and after; they may wait or raise.
        self.there: Callable[[], Awaitable[None]] = _at_once
        self.back: Callable[[], Awaitable[None]] = _at_once

    async def get(self) -> Obj | None:
        async def read() -> Obj | None:
            return copy.deepcopy(self.record.lease)

        return await self._send("get", read)

    async def create(self, spec: Obj) -> Obj:
        return await self._send("create", lambda: self.record.create(spec))

    async def update(self, lease: Obj) -> Obj:
        return await self._send("update", lambda: self.record.update(lease))

    @asynccontextmanager
    async def changes(self) -> AsyncIterator[AsyncIterator[Obj | None]]:
        if not self.watches:
            raise Unreachable("no watches here")
        yield self.record.changes()

    async def _send(self, word: str, request: Callable[[], Awaitable[T]]) -> T:
        self.requests.append(word)
        await self.there()
        answer = await request()
        await self.back()
        return answer


class Process:
    """An elector with its fence and work that notes when it runs."""

    def __init__(self, record: Record, name: str, times: LeaseTimes = TIMES, **options: Any) -> None:
        loop = asyncio.get_running_loop()
        self.name = name
        self.line = Line(record)
        self.fence = Fence(loop.time)
        self.working = False
        self.started = asyncio.Event()
        self.told: list[bool] = []
        self.elector = Elector(
            self.line,
            self.fence,
            identity=name,
            times=times,
            observer=self.told.append,
            clock=loop.time,
            **{"rand": lambda: 0.5, **options},
        )
        self.task: asyncio.Task[None] | None = None

    def start(self, work: Callable[[], Awaitable[None]] | None = None) -> asyncio.Task[None]:
        self.task = asyncio.create_task(self.elector.run(work or self.work), name=self.name)
        return self.task

    async def work(self) -> None:
        self.working = True
        self.started.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.working = False

    async def stop(self) -> BaseException | None:
        """Asks it to end, and waits. The value is what it ended with."""
        assert self.task is not None
        self.task.cancel()
        return await self.ended()

    async def ended(self) -> BaseException | None:
        assert self.task is not None
        await asyncio.wait([self.task])
        return asyncio.CancelledError() if self.task.cancelled() else self.task.exception()


async def _at_once() -> None:
    pass


async def hang() -> None:
    await asyncio.Event().wait()


async def cut() -> None:
    raise Unreachable("the line is cut")

"""Runs the parts of a process so that none of them ends unseen.

Parts start in the order given, each when the one before is ready, and are stopped in the reverse order, each when the
one after it has ended: servers and caches outlive the workers that need them. A part that raises, or that just returns
although nobody asked it to, stops all others and makes :func:`run_parts` raise. Cancelling ``run_parts`` is the orderly
way to end; cancelling it again stops waiting for order and cancels all that is left at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import structlog

log = structlog.get_logger(__name__)


class PartEnded(Exception):
    """A part of the process is gone; ``part`` is its name. The cause is what it raised, None where it just returned."""

    def __init__(self, part: str, error: BaseException | None) -> None:
        super().__init__(f"{part} ended: {error!r}" if error is not None else f"{part} ended without being asked to")
        self.part = part


@dataclass(frozen=True, slots=True)
class Part:
    """``run`` works until it is cancelled. ``ready`` returns when the next part may start; None: at once."""

    name: str
    run: Callable[[], Awaitable[None]]
    ready: Callable[[], Awaitable[object]] | None = None


async def run_parts(parts: Sequence[Part]) -> None:
    """Runs until it is cancelled. Raises PartEnded when a part ends, or fails to become ready, before that, and also
    when one fails while it is stopped; errors of further parts are logged."""
    tasks: list[asyncio.Task[None]] = []
    try:
        for part in parts:
            tasks.append(asyncio.create_task(_run(part.run), name=part.name))
            if part.ready is not None:
                await _until_ready(part, part.ready, tasks)
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        _raise_for_ended(tasks)
    except asyncio.CancelledError:
        await _stop(tasks)
        _raise_for_failed(tasks)
        raise
    except PartEnded as ended:
        await _stop(tasks)
        for task in tasks:
            if task.get_name() != ended.part and not task.cancelled() and (error := task.exception()) is not None:
                log.error("another part failed", part=task.get_name(), exc_info=error)
        raise


async def _run(run: Callable[[], Awaitable[None]]) -> None:
    await run()


async def _until_ready(part: Part, ready: Callable[[], Awaitable[object]], tasks: list[asyncio.Task[None]]) -> None:
    becoming = asyncio.ensure_future(ready())
    try:
        await asyncio.wait([becoming, *tasks], return_when=asyncio.FIRST_COMPLETED)
        _raise_for_ended(tasks)
        try:
            becoming.result()
        except Exception as error:
            raise PartEnded(part.name, error) from error
    finally:
        becoming.cancel()


def _raise_for_ended(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        if task.done():
            error = asyncio.CancelledError() if task.cancelled() else task.exception()
            raise PartEnded(task.get_name(), error) from error


def _raise_for_failed(tasks: list[asyncio.Task[None]]) -> None:
    """Of parts that were cancelled: to have ended by it, or to have returned, is as it should be."""
    failed = [(task.get_name(), error) for task in tasks if not task.cancelled() and (error := task.exception())]
    for name, error in failed[1:]:
        log.error("another part failed", part=name, exc_info=error)
    for name, error in failed:
        raise PartEnded(name, error) from error


async def _stop(tasks: list[asyncio.Task[None]]) -> None:
    """Cancels the last first, waits for it, and so on. Once cancelled itself, it cancels all and waits for all; the
    callers, who are on their way out with an error, keep that one."""
    for position in range(len(tasks), 0, -1):
        task = tasks[position - 1]
        task.cancel()
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError:
                for rest in tasks[:position]:
                    rest.cancel()

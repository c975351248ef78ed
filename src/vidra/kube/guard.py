"""Lets writes go out only as long as a guard has nothing against it.

A guard is called right before bytes leave this process: before the request is made, again when its connection stands
(which may take seconds, or the time the process was stopped for), and before each further piece of a long body. A
server works on no request whose body it hasn't got whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import aiohttp
from aiohttp.abc import AbstractStreamWriter

#: Returns, or raises Fenced. It must be quick and ask nobody.
Guard: TypeAlias = Callable[[], None]

#: What changes nothing on a server, whoever sends it.
READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
#: Bytes that are written without looking at the guard again. aiohttp waits for the socket beyond so many, too.
PIECE: Final = 64 * 1024


class GuardedBody(aiohttp.BytesPayload):
    """A request's body that is sent piece by piece, each after the guard was asked. Raises what the guard raises."""

    def __init__(self, body: bytes, guard: Guard) -> None:
        # Through a view, since aiohttp warns of long bytes that are written in one go; these aren't.
        super().__init__(memoryview(b""))
        self._value = body
        self._size = len(body)
        self._guard = guard

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        whole = memoryview(self._value)[:content_length]
        for start in range(0, max(1, len(whole)), PIECE):
            self._guard()
            await writer.write(whole[start : start + PIECE])

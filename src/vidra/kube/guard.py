"""Lets writes go out only as long as a guard has nothing against it.

A guard is called right before bytes leave this process: before the request is made, again when its connection stands
(which may take seconds, or the time the process was stopped for), and before each further piece of a long body. A
server works on no request whose body it hasn't got whole.

What has left the process is the kernel's, which sends it again and again for a quarter of an hour while a network is
down, also when the process is stopped or dead by then. So the guard says how long it may be on its way, and the kernel
is told to drop the connection with all that the other end hasn't acknowledged by then.
"""

from __future__ import annotations

import math
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeAlias

import aiohttp
from aiohttp.abc import AbstractStreamWriter

#: Raises Fenced, or returns the seconds in which what is sent now must have arrived (None: however many). Must be quick
#: and ask nobody.
Guard: TypeAlias = Callable[[], float | None]

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
            within = self._guard()
            if within is not None:
                _drop_after(within, writer)
            await writer.write(whole[start : start + PIECE])


def _drop_after(seconds: float, writer: AbstractStreamWriter) -> None:
    """Has the kernel give the connection up when something sent on it is not acknowledged for so long."""
    option: int | None = getattr(socket, "TCP_USER_TIMEOUT", None)  # Linux only
    transport = getattr(writer, "transport", None)
    end = None if transport is None else transport.get_extra_info("socket")
    if option is not None and end is not None:
        with suppress(OSError):  # closed by the other side: the write says so
            end.setsockopt(socket.IPPROTO_TCP, option, max(1, math.floor(seconds * 1000)))

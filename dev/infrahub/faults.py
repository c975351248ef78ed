"""Faults on the wire, switched on and off while the server runs.

Each fault holds for the paths that start with its prefix, for `times` requests or until cleared. They are applied in
front of the endpoints, so a faulted request is still recorded, and every fault is a thing real servers and the proxies
before them do.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal
from weakref import WeakSet

from aiohttp import web

from infrahub.answers import Broken

Kind = Literal["delay", "cut_short", "answer", "reset_connection"]


class Dropped(web.Response):
    """What stands for no answer at all: the connection is gone."""


@dataclass
class Fault:
    """One fault; `left` requests are still to meet it, None for no end."""

    kind: Kind
    prefix: str
    left: int | None
    seconds: float = 0.0
    size: int = 0
    response: tuple[int, bytes, dict[str, str]] = (200, b"", {})


class Faults:
    """The faults of one stand-in."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []
        self._down = False
        self._to_reset: WeakSet[asyncio.BaseTransport] = WeakSet()

    def delay(self, prefix: str, seconds: float, *, times: int | None = None) -> None:
        """Answer late."""
        self._faults.append(Fault("delay", prefix, times, seconds=seconds))

    def cut_short(self, prefix: str, size: int, *, times: int | None = None) -> None:
        """Announce the whole body, send its first `size` bytes, close the connection."""
        self._faults.append(Fault("cut_short", prefix, times, size=size))

    def answer(
        self,
        prefix: str,
        status: int,
        body: Any = b"",
        headers: Mapping[str, str] | None = None,
        *,
        times: int | None = None,
    ) -> None:
        """Answer this instead. A body that is neither text nor bytes is sent as JSON."""
        given = dict(headers or {})
        if isinstance(body, str):
            body = body.encode()
        elif not isinstance(body, bytes):
            body = json.dumps(body).encode()
            given.setdefault("Content-Type", "application/json")
        self._faults.append(Fault("answer", prefix, times, response=(status, body, given)))

    def reset_connection(self, prefix: str, *, times: int | None = None) -> None:
        """Read the request, then reset the connection without an answer."""
        self._faults.append(Fault("reset_connection", prefix, times))

    def down(self, is_down: bool = True) -> None:
        """While down, every connection is reset as soon as it asks for something."""
        self._down = is_down

    def clear(self) -> None:
        """No more faults."""
        self._faults.clear()
        self._down = False

    def _due(self, path: str) -> list[Fault]:
        due = [fault for fault in self._faults if path.startswith(fault.prefix)]
        for fault in due:
            if fault.left is not None:
                fault.left -= 1
        self._faults = [fault for fault in self._faults if fault.left is None or fault.left > 0]
        return due

    async def apply(self, request: web.Request, handle: Callable[[], Awaitable[web.Response]]) -> web.StreamResponse:
        """Handle the request, with the faults that are due for its path."""
        if self._down or request.transport in self._to_reset:
            return self._reset(request)
        cut: int | None = None
        for fault in self._due(request.path):
            match fault.kind:
                case "delay":
                    await asyncio.sleep(fault.seconds)
                case "reset_connection":
                    return self._reset(request)
                case "answer":
                    status, body, headers = fault.response
                    return web.Response(status=status, body=body, headers=headers)
                case "cut_short":
                    cut = fault.size
        response = await handle()
        if isinstance(response, Broken) and request.transport:
            self._to_reset.add(request.transport)
        if cut is not None:
            return await self._cut(request, response, cut)
        return response

    @staticmethod
    def _reset(request: web.Request) -> web.StreamResponse:
        if transport := request.transport:
            peer = transport.get_extra_info("socket")
            # Without lingering, closing sends RST instead of FIN: the client sees a reset, not an orderly end.
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            transport.abort()
        return Dropped()

    @staticmethod
    async def _cut(request: web.Request, whole: web.Response, size: int) -> web.StreamResponse:
        body = whole.body if isinstance(whole.body, bytes) else b""
        response = web.StreamResponse(status=whole.status, headers=whole.headers)
        response.content_length = len(body)
        await response.prepare(request)
        await response.write(body[:size])
        if request.transport:
            request.transport.close()
        return response

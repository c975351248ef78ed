"""An HTTP server for faults that no real API server shows on demand: cut lines, silence, proxies' pages.

Only for the wire. How an API server behaves is asked of the real one.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from kubernetes_asyncio.client.configuration import Configuration

from vidra.kube.config import Loader


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def watches(self) -> bool:
        return self.query.get("watch") == "true"


class Connection:
    """The answering end of one request."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def answer(
        self, status: int, body: bytes | dict[str, Any], *, content_type: str = "application/json", **headers: str
    ) -> None:
        """A whole answer. Header names are written with _ for -."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self._head(status, {"Content-Type": content_type, "Content-Length": str(len(data)), **headers})
        self._writer.write(data)
        await self._writer.drain()

    async def start(self, *, content_type: str = "application/json") -> None:
        """The head of a stream; its parts follow by :meth:`send`, and :meth:`end` ends it as it should."""
        self._head(200, {"Content-Type": content_type, "Transfer-Encoding": "chunked"})
        await self._writer.drain()

    async def send(self, data: bytes) -> None:
        self._writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        await self._writer.drain()

    async def event(self, kind: str, obj: dict[str, Any]) -> None:
        await self.send(json.dumps({"type": kind, "object": obj}).encode() + b"\n")

    async def end(self) -> None:
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()

    def cut(self) -> None:
        """Ends the connection as if somebody had pulled the cable out of the server."""
        self._writer.transport.abort()

    async def hang(self) -> None:
        """Says nothing more, for ever."""
        await asyncio.Event().wait()

    def _head(self, status: int, headers: dict[str, str]) -> None:
        lines = [f"HTTP/1.1 {status} X", *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items())]
        self._writer.write("\r\n".join([*lines, "", ""]).encode())


Script = Callable[[Request, Connection], Awaitable[None]]


@asynccontextmanager
async def scripted_server(script: Script) -> AsyncIterator[str]:
    """Serves on loopback; the value is the base URL. The script is called once for each request."""
    open_connections: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        open_connections.add(task)
        # The client leaving, and the server ending, are both how it goes.
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                await script(await _read(reader), Connection(writer))
        writer.close()
        open_connections.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in list(open_connections):
            task.cancel()
        await asyncio.gather(*open_connections, return_exceptions=True)


async def _read(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    first, *lines = head.strip().split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    url = urlsplit(target)
    return Request(method, url.path, dict(parse_qsl(url.query)), headers, body)


def loader_for(url: str, token: Callable[[], str] | None = None) -> Loader:
    """A session's loader for a scripted server; ``token`` is read anew each time."""

    async def load() -> Configuration:
        configuration = Configuration()
        configuration.host = url
        if token is not None:
            configuration.api_key = {"BearerToken": f"Bearer {token()}"}
        return configuration

    return load

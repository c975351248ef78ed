"""A wire between a client and a real server that can be cut, frozen and closed: TCP on loopback, TLS passes through."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit, urlunsplit

from kubernetes_asyncio.client.configuration import Configuration

from vidra.kube.config import Loader


@dataclass
class Wire:
    """``closed`` refuses new connections; :meth:`cut` ends those there are; :meth:`freeze` keeps them and moves no
    more bytes on them, as a firewall that drops packets does."""

    url: str = ""
    closed: bool = False
    opened: int = 0
    _connections: set[asyncio.StreamWriter] = field(default_factory=set)
    _frozen: set[asyncio.StreamWriter] = field(default_factory=set)

    def cut(self) -> None:
        for writer in list(self._connections):
            writer.transport.abort()

    def freeze(self) -> None:
        self._frozen |= self._connections

    async def serve(self, host: str, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.closed:
            writer.transport.abort()
            return
        self.opened += 1
        with suppress(OSError):
            inner_reader, inner_writer = await asyncio.open_connection(host, port)
            ends = {writer, inner_writer}
            self._connections |= ends
            try:
                pumps = {
                    asyncio.create_task(self._pump(reader, inner_writer)),
                    asyncio.create_task(self._pump(inner_reader, writer)),
                }
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
            finally:
                self._connections -= ends
                self._frozen -= ends
                for end in ends:
                    end.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                if writer in self._frozen:
                    continue
                writer.write(data)
                await writer.drain()


@asynccontextmanager
async def wire_to(url: str) -> AsyncIterator[Wire]:
    """Serves on a port of its own; :attr:`Wire.url` is ``url`` by way of it."""
    target = urlsplit(url)
    assert target.hostname is not None
    assert target.port is not None
    host, port = target.hostname, target.port
    wire = Wire()
    running: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        with suppress(asyncio.CancelledError):
            await wire.serve(host, port, reader, writer)
        running.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    wire.url = urlunsplit(target._replace(netloc=f"127.0.0.1:{server.sockets[0].getsockname()[1]}"))
    try:
        yield wire
    finally:
        server.close()
        wire.cut()
        for task in list(running):
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def by_way_of(wire: Wire, loader: Loader) -> Loader:
    """The same credentials, over the wire."""

    async def load() -> Configuration:
        configuration = await loader()
        configuration.host = wire.url
        return configuration

    return load

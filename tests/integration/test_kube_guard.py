"""Sessions with a guard, over a real wire: what leaves the process once the guard has something against it."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
from tests.integration.kube_support import until
from tests.scripted.server import Connection, Request, loader_for, scripted_server

from vidra.kube.breaker import Breaker
from vidra.kube.client import Client, PatchType
from vidra.kube.errors import Fenced, Unreachable
from vidra.kube.guard import PIECE
from vidra.kube.resource import Resource
from vidra.kube.session import Session

THINGS = Resource("example", "v1", "Thing", "things", namespaced=True)


class Guard:
    """Lets ``left`` calls through and refuses all after them. What is sent has ``within`` seconds to arrive."""

    def __init__(self, left: int, within: float | None = None) -> None:
        self.left = left
        self.within = within

    def __call__(self) -> float | None:
        self.left -= 1
        if self.left < 0:
            raise Fenced("this process may not write")
        return self.within


class Wire:
    """A server that notes what reached it whole."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.bodies: list[bytes] = []

    async def script(self, request: Request, connection: Connection) -> None:
        self.seen.append(request.method)
        self.bodies.append(request.body)
        await connection.answer(200, {})


@pytest.fixture
async def wire() -> AsyncIterator[tuple[Wire, str]]:
    wire = Wire()
    async with scripted_server(wire.script) as url:
        yield wire, url


async def test_every_kind_of_write_is_refused_before_it_is_sent_and_reads_are_not(wire: tuple[Wire, str]) -> None:
    server, url = wire
    async with Session(loader_for(url), guard=Guard(0)) as session:
        client = Client(session)
        for call in (
            client.create(THINGS, {}, namespace="n"),
            client.apply(THINGS, {}, "a", namespace="n", field_manager="m"),
            client.patch(THINGS, "a", {}, PatchType.MERGE, namespace="n"),
            client.delete(THINGS, "a", namespace="n"),
            client.raw("PUT", "/x", body={}),
            client.raw("DELETE", "/x"),
        ):
            with pytest.raises(Fenced, match="may not write"):
                await call
        assert server.seen == []
        await client.get(THINGS, "a", "n")
        await client.list_page(THINGS)
    assert server.seen == ["GET", "GET"]


async def test_a_guard_without_objections_changes_nothing_in_what_is_sent(wire: tuple[Wire, str]) -> None:
    server, url = wire
    sent: list[list[bytes]] = []
    for guard in (None, Guard(100)):
        async with Session(loader_for(url), guard=guard) as session:
            await Client(session).create(THINGS, {"a": 1}, namespace="n")
            await Client(session).raw("DELETE", "/x")
        sent.append(server.bodies[-2:])
    assert sent[0] == sent[1] == [b'{"a":1}', b""]


async def test_a_body_beyond_a_megabyte_arrives_as_it_was(wire: tuple[Wire, str]) -> None:
    server, url = wire
    body = {"text": os.urandom(PIECE * 10).hex()}
    async with Session(loader_for(url), guard=Guard(1000)) as session:
        await Client(session).raw("PUT", "/x", body=body)
    assert json.loads(server.bodies[0]) == body


async def test_a_write_is_not_sent_when_the_guard_objects_while_the_connection_was_being_made() -> None:
    """Between the first look at the guard and the first byte there may be seconds, or the time of a kill -STOP."""
    arrived = asyncio.Event()

    async def never(request: Request, connection: Connection) -> None:
        arrived.set()
        await connection.answer(200, {})

    breaker, guard = Breaker(), Guard(0)
    async with scripted_server(never) as url, Session(loader_for(url), guard=guard, breaker=breaker) as session:
        for _ in range(5):
            guard.left = 1
            with pytest.raises(Fenced, match="may not write"):
                await Client(session).create(THINGS, {}, namespace="n")
            assert guard.left == -1, "it was not asked a second time"
        assert not arrived.is_set()
        assert not breaker.is_open, "a write that wasn't sent says nothing of the server"
        await Client(session).get(THINGS, "a", "n")
    assert arrived.is_set()


async def test_a_long_body_ends_where_the_guard_objects_and_never_arrives_whole() -> None:
    got, ended = bytearray(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(PIECE):
            got.extend(data)
        writer.close()
        ended.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, Session(loader_for(url), guard=Guard(4)) as session:
        with pytest.raises(Fenced):
            await Client(session).create(THINGS, {"text": "x" * PIECE * 8}, namespace="n")
        await until(ended.is_set)
    head, _, body = bytes(got).partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
    assert len(body) == 3 * PIECE < length


async def test_what_has_not_arrived_in_time_never_does_though_the_process_does_nothing_about_it() -> None:
    """A network that is down, and a process that is stopped: its kernel has the rest of a request, and goes on."""
    got, reading, ended = bytearray(), asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await reading.wait()
        writer.transport.resume_reading()  # type: ignore[attr-defined]
        with suppress(OSError):
            while data := await reader.read(PIECE):
                got.extend(data)
        writer.close()
        ended.set()

    size = 64 * 1024 * 1024  # beyond what both kernels take in
    guard = Guard(100_000, within=0.5)
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, Session(loader_for(url), guard=guard) as session:
        writing = asyncio.create_task(session.request("POST", "/x", body=bytes(size)))
        calls = 0
        while calls != guard.left:  # until nothing more goes out
            calls = guard.left
            await asyncio.sleep(0.2)
        time.sleep(2.0)  # the event loop stands still, as that of a stopped process does
        reading.set()
        with pytest.raises(Unreachable):
            await writing
        await until(ended.is_set)
    assert 0 < len(got) < size

"""Informers over a wire that breaks in every way we know of."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.integration.kube_support import running, until
from tests.scripted.server import Connection, Request, Script, loader_for, scripted_server
from tests.scripted.source import thing

from vidra.kube.client import Client, Obj
from vidra.kube.errors import ApiError, InvalidAnswer, Silent
from vidra.kube.resource import Resource
from vidra.kube.session import Session
from vidra.kube.watch import Collection
from vidra.runtime.backoff import Backoff, ExponentialBackoff
from vidra.runtime.informer import Informer
from vidra.runtime.store import Change, Key, Store

THINGS = Resource("example", "v1", "Thing", "things", namespaced=True)


def list_of(version: str, *objects: Obj) -> dict[str, Any]:
    return {"kind": "ThingList", "metadata": {"resourceVersion": version}, "items": list(objects)}


class Scene:
    """A server that lists ``a`` at version 5, and answers its nth watch by the nth script, the last one for ever."""

    def __init__(self, *watches: Script) -> None:
        self._watches = list(watches)
        self.lists: list[Request] = []
        self.watches: list[Request] = []
        self.watched_at: list[float] = []
        self.told: list[tuple[str, str]] = []

    async def __call__(self, request: Request, connection: Connection) -> None:
        if not request.watches:
            self.lists.append(request)
            await connection.answer(200, list_of("5", thing("a", "3")))
            return
        self.watches.append(request)
        self.watched_at.append(time.monotonic())
        await (self._watches.pop(0) if len(self._watches) > 1 else self._watches[0])(request, connection)

    @asynccontextmanager
    async def informed(self, *, idle_timeout: float = 30.0) -> AsyncIterator[Informer[Obj]]:
        async with scripted_server(self) as url, Session(loader_for(url)) as session:
            source = Collection(Client(session), THINGS, idle_timeout=idle_timeout)
            rule = ExponentialBackoff(0.05, 0.2, jitter=0.0)
            informer = Informer(source, Store[Obj](), backoff=Backoff(rule), stream_lists=False)
            informer.add_handler(self._note)
            async with running(informer.run()) as task:
                assert await informer.wait_synced(10)
                yield informer
                assert not task.done()

    def _note(self, change: Change[Obj]) -> None:
        self.told.append((change.type.value, change.new["metadata"]["resourceVersion"] if change.new else ""))


async def then_changes(request: Request, connection: Connection) -> None:
    """A sound watch: one change, then nothing."""
    await connection.start()
    await connection.event("MODIFIED", thing("a", "9"))
    await connection.hang()


SEEN = ("MODIFIED", "9")


@pytest.mark.case("U1")
async def test_u1_a_connection_that_falls_silent_is_replaced_within_the_idle_deadline() -> None:
    async def silent(request: Request, connection: Connection) -> None:
        await connection.start()
        await connection.hang()

    scene = Scene(silent, then_changes)
    async with scene.informed(idle_timeout=0.3) as informer:
        await until(lambda: SEEN in scene.told)
        assert informer.last_activity is not None
        assert asyncio.get_running_loop().time() - informer.last_activity < 5
    assert len(scene.lists) == 1
    assert scene.watches[1].query["resourceVersion"] == "5"


@pytest.mark.case("U1")
async def test_u1_a_server_that_accepts_and_never_answers_is_left_as_well() -> None:
    async def mute(request: Request, connection: Connection) -> None:
        await connection.hang()

    scene = Scene(mute, then_changes)
    async with scene.informed(idle_timeout=0.3):
        await until(lambda: SEEN in scene.told)


@pytest.mark.case("U4")
async def test_u4_a_watch_that_is_answered_and_closed_at_once_is_not_opened_in_a_hot_loop() -> None:
    async def closes(request: Request, connection: Connection) -> None:
        await connection.start()
        await connection.end()

    scene = Scene(closes)
    async with scene.informed() as informer:
        await until(lambda: len(scene.watches) == 5)
        pauses = [later - earlier for earlier, later in zip(scene.watched_at, scene.watched_at[1:], strict=False)]
        assert min(pauses) >= 0.045, "the back-off of this test begins at 50 ms"
        assert informer.last_error is not None


@pytest.mark.case("U6")
async def test_u6_a_line_that_the_end_cut_is_no_event_and_the_next_watch_goes_on_before_it() -> None:
    async def cut(request: Request, connection: Connection) -> None:
        await connection.start()
        await connection.event("MODIFIED", thing("a", "7"))
        await connection.send(b'{"type":"MODIFIED","object":{"kind":"Thing","metadata":{"name":"a","resourceVer')
        # A real stream has lived for long by then: one that ends within a second is met with a pause, and a new list
        # every second time.
        await asyncio.sleep(1)
        connection.cut()

    async def ends(request: Request, connection: Connection) -> None:
        await connection.start()
        await connection.send(b'{"type":"MODIFIED","object":{"kind":"Thing","metadata":{"name":"a","resourceVer')
        await asyncio.sleep(1)
        await connection.end()

    scene = Scene(cut, ends, then_changes)
    async with scene.informed():
        await until(lambda: SEEN in scene.told)
    assert scene.told == [("ADDED", "3"), ("MODIFIED", "7"), SEEN]
    assert [request.query["resourceVersion"] for request in scene.watches] == ["5", "7", "7"]
    assert len(scene.lists) == 1


@pytest.mark.case("U7")
async def test_u7_a_proxys_page_is_no_event() -> None:
    page = b"<html>\n<body>\n502 Bad Gateway\n</body>\n</html>\n"

    async def bad_gateway(request: Request, connection: Connection) -> None:
        await connection.answer(502, page, content_type="text/html")

    async def even_with_200(request: Request, connection: Connection) -> None:
        await connection.answer(200, page, content_type="text/html")

    async def redirect(request: Request, connection: Connection) -> None:
        await connection.answer(302, page, content_type="text/html", Location="http://127.0.0.1:1/login")

    errors = []
    scene = Scene(bad_gateway, even_with_200, redirect, then_changes)
    async with scene.informed() as informer:

        def done() -> bool:
            if informer.last_error is not None and informer.last_error not in errors:
                errors.append(informer.last_error)
            return SEEN in scene.told

        await until(done)
        assert informer.last_error is None
    assert [type(error) for error in errors] == [ApiError, InvalidAnswer, ApiError]
    assert scene.told == [("ADDED", "3"), SEEN]


@pytest.mark.case("U7")
async def test_u7_retry_after_is_waited_for() -> None:
    async def busy(request: Request, connection: Connection) -> None:
        await connection.answer(429, {"kind": "Status", "code": 429, "reason": "TooManyRequests"}, Retry_After="1")

    scene = Scene(busy, then_changes)
    async with scene.informed():
        await until(lambda: SEEN in scene.told)
    assert scene.watched_at[1] - scene.watched_at[0] >= 1
    assert len(scene.lists) == 1


async def test_a_line_of_many_megabytes_that_comes_in_pieces_is_one_event() -> None:
    large = {"type": "MODIFIED", "object": thing("a", "9", text="x\u2028é\U0001f600" * 1_000_000)}
    line = json.dumps(large, ensure_ascii=False).encode() + b"\n"

    async def pieces(request: Request, connection: Connection) -> None:
        await connection.start()
        for start in range(0, len(line), 100_001):
            await connection.send(line[start : start + 100_001])
        await connection.hang()

    scene = Scene(pieces)
    async with scene.informed() as informer:
        await until(lambda: SEEN in scene.told)
        assert informer.store.get(Key("n", "a")) == large["object"]


async def test_silence_before_the_first_byte_of_an_answer_has_a_name() -> None:
    async def silent(request: Request, connection: Connection) -> None:
        await connection.start()
        await connection.hang()

    async with scripted_server(silent) as url, Session(loader_for(url)) as session:
        source = Collection(Client(session), THINGS, idle_timeout=0.1)
        with pytest.raises(Silent, match="not one byte"):
            async with source.watch(resource_version=None, timeout_seconds=300) as events:
                await anext(events)

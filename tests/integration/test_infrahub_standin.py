"""The stand-in on the wire: faults, request records, control over HTTP, the command line."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from infrahub import Standin
from infrahub.seeds import webservers

ROOT = Path(__file__).parent.parent.parent
INFO = "/api/info"


@pytest.fixture
async def standin() -> AsyncIterator[Standin]:
    async with Standin(seed=webservers(2)) as standin:
        yield standin


@pytest.fixture
async def session(standin: Standin) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(standin.url) as session:
        yield session


async def status(session: aiohttp.ClientSession, path: str) -> int:
    async with session.get(path) as response:
        await response.read()
        return response.status


async def test_requests_are_recorded_with_their_account_and_status(
    standin: Standin, session: aiohttp.ClientSession
) -> None:
    async with session.post("/api/auth/login", json={"username": "admin", "password": "infrahub"}) as response:
        assert response.status == 200
    async with session.get(INFO, headers={"X-INFRAHUB-KEY": standin.api_key}, params={"branch": "main"}) as response:
        assert response.status == 200
    assert standin.count(method="POST", path_prefix="/api/auth/login") == 1
    assert standin.count(path_prefix="/api/") == 2
    last = standin.requests[-1]
    assert (last.method, last.path, last.query, last.account, last.status) == (
        "GET",
        INFO,
        {"branch": "main"},
        "admin",
        200,
    )
    assert standin.requests[0].at <= last.at


async def test_a_body_cut_short_announces_more_than_it_sends(standin: Standin, session: aiohttp.ClientSession) -> None:
    artifact_id = next(iter(standin.state.artifacts))
    standin.faults.cut_short("/api/artifact/", 10, times=1)
    async with session.get(f"/api/artifact/{artifact_id}") as response:
        assert int(response.headers["Content-Length"]) > 800
        with pytest.raises(aiohttp.ClientPayloadError):
            await response.read()
    assert await status(session, f"/api/artifact/{artifact_id}") == 200


async def test_a_reset_connection_gives_no_answer(standin: Standin, session: aiohttp.ClientSession) -> None:
    standin.faults.reset_connection(INFO, times=1)
    with pytest.raises(aiohttp.ClientConnectionError):
        await session.post(INFO)
    assert [record.status for record in standin.requests] == [0]
    assert await status(session, INFO) == 200


async def test_while_down_nothing_is_answered(standin: Standin, session: aiohttp.ClientSession) -> None:
    standin.faults.down(True)
    with pytest.raises(aiohttp.ClientConnectionError):
        await status(session, INFO)
    standin.faults.down(False)
    assert await status(session, INFO) == 200


async def test_an_answer_can_be_replaced_for_a_number_of_times(
    standin: Standin, session: aiohttp.ClientSession
) -> None:
    standin.faults.answer(INFO, 429, {"errors": ["shed"]}, {"Retry-After": "1"}, times=2)
    async with session.get(INFO) as response:
        assert (response.status, response.headers["Retry-After"]) == (429, "1")
        assert await response.json() == {"errors": ["shed"]}
    assert [await status(session, INFO), await status(session, INFO)] == [429, 200]


async def test_a_delay_holds_only_for_its_paths(standin: Standin, session: aiohttp.ClientSession) -> None:
    standin.faults.delay("/api/artifact/", 60)
    assert await status(session, INFO) == 200
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await status(session, "/api/artifact/abc")
    standin.faults.clear()
    assert await status(session, "/api/artifact/abc") == 404


async def test_after_an_internal_error_the_kept_alive_connection_is_reset(standin: Standin) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", standin.port)
    request = b"POST /graphql HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Type: application/json\r\n\r\n{}"
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 500")
    assert b"connection: close" not in head.lower()
    await reader.readexactly(len(b"Internal Server Error"))
    writer.write(request)
    with pytest.raises(ConnectionResetError):
        await reader.readexactly(1)
    writer.close()


async def test_another_process_adds_changes_fails_and_removes_artifacts(
    standin: Standin, session: aiohttp.ClientSession
) -> None:
    added = {"name": "Page", "content": "one", "target": "shop"}
    async with session.post("/_standin/artifacts", json=added) as response:
        assert response.status == 201
        artifact_id = (await response.json())["id"]
    async with session.put(f"/_standin/artifacts/{artifact_id}", json={"content": "two"}) as response:
        assert response.status == 200
    async with session.get(f"/api/artifact/{artifact_id}") as response:
        assert (await response.read(), response.headers["Content-Type"]) == (b"two", "application/yaml")
    async with session.post(f"/_standin/artifacts/{artifact_id}/error") as response:
        assert response.status == 200
    async with session.get("/_standin/artifacts") as response:
        listed = {entry["id"]: (entry["target"], entry["status"]) for entry in await response.json()}
    assert listed[artifact_id] == ("shop", "Error")
    async with session.delete(f"/_standin/artifacts/{artifact_id}") as response:
        assert response.status == 200
    assert await status(session, f"/api/artifact/{artifact_id}") == 404
    assert standin.count(path_prefix="/_standin") == 0


async def test_control_says_what_is_wrong_with_its_input(session: aiohttp.ClientSession) -> None:
    async with session.put("/_standin/artifacts/nope", json={"content": "x"}) as response:
        assert response.status == 404
    async with session.post("/_standin/artifacts", json={"nonsense": 1}) as response:
        assert response.status == 400
        assert "nonsense" in (await response.json())["error"]
    async with session.post("/_standin/seed", json={"seed": "nope"}) as response:
        assert response.status == 404


async def test_a_seed_begins_anew(session: aiohttp.ClientSession) -> None:
    async with session.post("/_standin/seed", json={"seed": "bench", "count": 4}) as response:
        assert response.status == 200
    async with session.get("/_standin/artifacts") as response:
        assert [entry["name"] for entry in await response.json()] == ["Bench_Manifest"] * 4


async def test_the_command_line_prints_its_url_and_ends_on_a_signal() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "infrahub", "--seed", "webservers", "--count", "2"),
        env={**os.environ, "PYTHONPATH": str(ROOT / "dev")},
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(30):
            url = (await process.stdout.readline()).decode().strip()
            async with aiohttp.request("GET", f"{url}/_standin/artifacts") as response:
                assert len(await response.json()) == 2
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()

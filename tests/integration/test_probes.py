"""The probe server over real sockets on loopback."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, Counter

from vidra.runtime import probes
from vidra.runtime.probes import Check, ProbeServer
from vidra.runtime.tasks import Part, PartEnded, run_parts


@asynccontextmanager
async def serving(server: ProbeServer) -> AsyncIterator[aiohttp.ClientSession]:
    running = asyncio.create_task(server.run())
    try:
        async with asyncio.timeout(10):
            await server.started.wait()
        async with aiohttp.ClientSession(
            f"http://127.0.0.1:{server.port}", timeout=aiohttp.ClientTimeout(total=10)
        ) as http:
            yield http
    finally:
        running.cancel()
        await asyncio.wait([running])


def server(**arguments: object) -> ProbeServer:
    return ProbeServer(host="127.0.0.1", port=0, **arguments)  # type: ignore[arg-type]


async def get(http: aiohttp.ClientSession, path: str, **headers: str) -> tuple[int, str]:
    async with http.get(path, headers=headers) as answer:
        return answer.status, await answer.text()


async def test_probes_say_ok_while_every_check_is_fine() -> None:
    fine = Check("fine", lambda: None)
    async with serving(server(live=[fine], ready=[fine])) as http:
        assert await get(http, "/healthz") == (200, "ok\n")
        assert await get(http, "/readyz") == (200, "ok\n")


async def test_a_failing_check_turns_its_probe_red_and_only_that_and_back() -> None:
    wrong: list[str | None] = ["2 caches are not synced"]
    checks = [Check("leader", lambda: None), Check("caches", lambda: wrong[0])]
    async with serving(server(live=[], ready=checks)) as http:
        assert await get(http, "/readyz") == (503, "[+] leader: ok\n[-] caches: 2 caches are not synced\nfailed\n")
        assert (await get(http, "/healthz"))[0] == 200
        wrong[0] = None
        assert await get(http, "/readyz") == (200, "ok\n")


@pytest.mark.case("U24")
async def test_u24_a_check_may_say_something_though_all_is_fine() -> None:
    leader = Check("leader", lambda: None, note=lambda: "standby, vidra-0 leads")
    async with serving(server(live=[], ready=[leader])) as http:
        assert await get(http, "/readyz") == (200, "ok\n")
        assert await get(http, "/readyz?verbose") == (200, "[+] leader: ok (standby, vidra-0 leads)\nok\n")


async def test_verbose_lists_every_check_also_when_all_are_fine() -> None:
    async with serving(server(live=[Check("watches", lambda: None)], ready=[])) as http:
        assert await get(http, "/healthz?verbose") == (200, "[+] event-loop: ok\n[+] watches: ok\nok\n")


async def test_a_check_that_raises_is_not_fine_and_leaves_the_others_alone() -> None:
    def broken() -> str | None:
        raise KeyError("gone")

    async with serving(server(live=[Check("broken", broken), Check("fine", lambda: None)], ready=[])) as http:
        status, text = await get(http, "/healthz")
        assert status == 503
        assert "[-] broken: the check itself failed: KeyError('gone')" in text
        assert "[+] fine: ok" in text


async def test_liveness_turns_red_when_the_heartbeat_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "BEAT", 3600.0)
    monkeypatch.setattr(probes, "BEAT_LIMIT", 0.0)
    async with serving(server(live=[], ready=[])) as http:
        status, text = await get(http, "/healthz")
        assert status == 503
        assert "[-] event-loop: the event loop's last heartbeat was" in text
        assert (await get(http, "/readyz"))[0] == 200


async def test_the_heartbeat_goes_on_while_the_server_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "BEAT", 0.01)
    probe = server(live=[])
    async with serving(probe) as http:
        first = probe._last_beat
        async with asyncio.timeout(10):
            while probe._last_beat == first:
                await get(http, "/healthz")


async def test_metrics_are_in_the_format_asked_for() -> None:
    registry = CollectorRegistry()
    Counter("things", "Things", registry=registry).inc(3)
    async with serving(server(registry=registry)) as http:
        async with http.get("/metrics") as answer:
            assert answer.headers["Content-Type"].startswith("text/plain")
            assert "things_total 3.0" in await answer.text()
        assert (await get(http, "/metrics", Accept="application/openmetrics-text"))[1].endswith("# EOF\n")


async def test_what_is_not_served_is_404_and_nothing_can_be_posted() -> None:
    async with serving(server(registry=CollectorRegistry())) as http:
        assert [(await get(http, path))[0] for path in ("/healthz", "/readyz", "/", "/debug")] == [404] * 4
        async with http.post("/metrics") as answer:
            assert answer.status == 405


async def test_one_server_can_serve_both() -> None:
    async with serving(server(live=[], ready=[], registry=CollectorRegistry())) as http:
        assert [(await get(http, path))[0] for path in ("/healthz", "/readyz", "/metrics")] == [200] * 3


async def test_requests_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("DEBUG"):
        async with serving(server(live=[])) as http:
            await get(http, "/healthz")
    assert not [record for record in caplog.records if record.name.startswith("aiohttp.access")]


async def test_it_is_a_part_that_is_ready_when_it_answers_and_frees_its_port_at_the_end() -> None:
    probe = server(live=[])
    answered = asyncio.Event()

    async def ask() -> None:
        async with aiohttp.ClientSession() as http:
            assert (await get(http, f"http://127.0.0.1:{probe.port}/healthz"))[0] == 200
        answered.set()
        await asyncio.Event().wait()

    running = asyncio.create_task(run_parts([Part("probes", probe.run, probe.started.wait), Part("asks", ask)]))
    async with asyncio.timeout(10):
        await answered.wait()
        running.cancel()
        await asyncio.wait([running])
    assert running.cancelled()
    assert not probe.started.is_set()
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", probe.port))


async def test_a_port_that_is_taken_ends_the_part_with_an_error_that_names_it() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        port = sock.getsockname()[1]
        probe = ProbeServer(host="127.0.0.1", port=port, live=[])
        with pytest.raises(PartEnded, match=str(port)):
            async with asyncio.timeout(10):
                await run_parts([Part("probes", probe.run, probe.started.wait)])


async def test_without_a_host_it_answers_on_loopback_too() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    async with serving(ProbeServer(host=None, port=port, live=[])) as http:
        assert (await get(http, "/healthz"))[0] == 200

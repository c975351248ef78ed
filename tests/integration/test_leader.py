"""Leader election on the real API server, between processes that are ended, killed, stopped and blocked."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.integration.kube_support import CONFIGMAPS, config_map, connected, own_namespace, until
from tests.scripted.leader_process import LOST, TIMES

from controlplane import ControlPlane, Found
from controlplane.audit import Entry
from vidra.kube import config
from vidra.kube.client import Client
from vidra.runtime.fence import OVERRUN, Fence
from vidra.runtime.leader import Elector
from vidra.runtime.lease import LEASES, KubeLease, LeaseTimes, lease_session

ROOT = Path(__file__).parents[2]


@dataclass
class Process:
    """A candidate as a process of its own; the audit log knows it by ``user``."""

    user: str
    process: asyncio.subprocess.Process
    said: list[str] = field(default_factory=list)

    @property
    def leads(self) -> bool:
        return bool(self.said) and self.said[-1] == "leading"

    def signal(self, number: int) -> float:
        """The value is the time at which it was sent."""
        self.process.send_signal(number)
        return time.monotonic()

    async def ended(self, within: float) -> int:
        return await asyncio.wait_for(self.process.wait(), within)


@dataclass
class World:
    plane: ControlPlane
    client: Client
    namespace: str
    stack: AsyncExitStack

    async def start(self, name: str, *, watchdog: bool = True) -> Process:
        user = f"{self.namespace}-{name}"
        kubeconfig = self.plane.user_kubeconfig(user, ["system:masters"])
        words = [str(kubeconfig), self.namespace, name, "yes" if watchdog else "no"]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.scripted.leader_process", *words),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'dev'}:{ROOT}"},
        )
        candidate = Process(user, process)

        async def listen() -> None:
            assert process.stdout is not None
            async for line in process.stdout:
                candidate.said.append(line.decode().strip())

        listening = asyncio.create_task(listen())

        async def end() -> None:
            if process.returncode is None:
                process.kill()
                await process.wait()
            await listening

        self.stack.push_async_callback(end)
        await until(lambda: candidate.said, timeout=30)
        return candidate

    async def writes(self, *candidates: Process) -> list[tuple[str, str]]:
        """(user, resource) of all that changed something, in the order of the audit log."""

        def changed(entry: Entry) -> bool:
            return entry.verb in {"create", "update", "patch"} and 200 <= entry.code < 300

        entries = await asyncio.to_thread(self.plane.audit.entries)
        users = [candidate.user for candidate in candidates]
        return [(entry.user, entry.resource) for entry in entries if entry.user in users and changed(entry)]

    async def written_by(self, candidate: Process) -> int:
        return (await self.writes(candidate)).count((candidate.user, "configmaps"))

    async def holder(self) -> str:
        return str((await self.client.get(LEASES, "lease", self.namespace))["spec"]["holderIdentity"])


@asynccontextmanager
async def world_on(plane: ControlPlane) -> AsyncIterator[World]:
    async with (
        connected(plane.kubeconfig_path) as client,
        own_namespace(client) as namespace,
        AsyncExitStack() as stack,
    ):
        await client.create(CONFIGMAPS, config_map("journal"), namespace=namespace)
        yield World(plane, client, namespace, stack)


@pytest.fixture
async def world(control_plane: ControlPlane) -> AsyncIterator[World]:
    async with world_on(control_plane) as world:
        yield world


async def lead(world: World) -> tuple[Process, Process]:
    """A leader that has written, and a standby."""
    a = await world.start("a")
    await until(lambda: a.leads)
    b = await world.start("b")
    await until(lambda: _is_positive(world.written_by(a)))
    assert not b.leads
    return a, b


async def _is_positive(number: Awaitable[int]) -> bool:
    return await number > 0


def assert_never_both(writes: list[tuple[str, str]], old: Process, new: Process) -> None:
    """Nothing of the old leader comes after the new one has the lease, and both have written."""
    taken = writes.index((new.user, "leases"))
    assert (old.user, "configmaps") in writes[:taken]
    assert [write for write in writes[taken:] if write[0] == old.user] == []
    assert (new.user, "configmaps") in writes[taken:]
    assert (new.user, "configmaps") not in writes[:taken]


async def test_one_of_two_leads_and_a_released_lease_is_taken_in_well_under_two_seconds(world: World) -> None:
    times = LeaseTimes()
    loader = config.loader(world.plane.kubeconfig_path)
    leads: dict[str, bool] = {}

    async def work() -> None:
        await asyncio.Event().wait()

    async with lease_session(loader, times) as session:

        def candidate(name: str) -> asyncio.Task[None]:
            def tell(value: bool) -> None:
                leads[name] = value

            lease = KubeLease(Client(session), world.namespace, "lease")
            return asyncio.create_task(
                Elector(lease, Fence(), identity=name, times=times, observer=tell).run(work), name=name
            )

        tasks = {name: candidate(name) for name in "ab"}
        await until(lambda: any(leads.values()))
        for transitions in range(1, 6):
            first, second = ("a", "b") if leads["a"] else ("b", "a")
            assert await world.holder() == first
            # As soon as the standby knows whom to wait for, as it does a moment after its start.
            await asyncio.sleep(0.2)
            assert not leads[second]
            tasks[first].cancel()
            asked = time.monotonic()
            await until(lambda second=second: leads[second])  # type: ignore[misc]
            assert time.monotonic() - asked < 2.0
            spec = (await world.client.get(LEASES, "lease", world.namespace))["spec"]
            assert spec["holderIdentity"] == second
            assert spec["leaseTransitions"] == transitions
            tasks[first] = candidate(first)
        for task in tasks.values():
            task.cancel()
        await asyncio.wait(tasks.values())
    assert await world.holder() == ""


@pytest.mark.case("U16")
async def test_u16_sigterm_ends_the_work_then_releases_and_the_other_leads_soon(world: World) -> None:
    a, b = await lead(world)
    asked = a.signal(signal.SIGTERM)
    await until(lambda: b.leads)
    assert time.monotonic() - asked < 2.0
    assert await a.ended(5) == 0
    await until(lambda: _is_positive(world.written_by(b)))
    writes = await world.writes(a, b)
    assert_never_both(writes, a, b)
    own = [resource for user, resource in writes if user == a.user]
    assert own[-2:] == ["configmaps", "leases"], "its last write, and then the release"
    journal = await world.client.get(CONFIGMAPS, "journal", world.namespace)
    assert journal["data"]["last"] == "a"


async def test_a_killed_leader_is_followed_when_its_lease_is_over(world: World) -> None:
    a, b = await lead(world)
    killed = a.signal(signal.SIGKILL)
    await until(lambda: b.leads)
    took = time.monotonic() - killed
    # Its last renewal was at most as long ago as it may write without one.
    assert TIMES.duration - TIMES.renew_deadline < took < TIMES.duration + 3 * TIMES.retry + 3
    await until(lambda: _is_positive(world.written_by(b)))
    assert_never_both(await world.writes(a, b), a, b)


@pytest.mark.parametrize("watchdog", [True, False], ids=["as it is", "by the fence alone"])
async def test_a_leader_that_is_stopped_and_goes_on_writes_nothing_after_the_takeover(
    world: World, watchdog: bool
) -> None:
    a = await world.start("a", watchdog=watchdog)
    await until(lambda: a.leads)
    b = await world.start("b")
    await until(lambda: _is_positive(world.written_by(a)))
    a.signal(signal.SIGSTOP)
    await until(lambda: b.leads)
    await until(lambda: _is_positive(world.written_by(b)))
    before = await world.written_by(a)
    a.signal(signal.SIGCONT)
    assert await a.ended(10) == (OVERRUN if watchdog else LOST)
    written = await world.written_by(b)
    await until(lambda: _is_positive(_minus(world.written_by(b), written + 5)))
    assert await world.written_by(a) == before
    assert_never_both(await world.writes(a, b), a, b)


async def _minus(number: Awaitable[int], other: int) -> int:
    return await number - other


async def test_a_leader_that_was_stopped_for_a_moment_leads_on(world: World) -> None:
    a, b = await lead(world)
    a.signal(signal.SIGSTOP)
    await asyncio.sleep(TIMES.retry)
    a.signal(signal.SIGCONT)
    written = await world.written_by(a)
    await until(lambda: _is_positive(_minus(world.written_by(a), written + 40)))
    assert a.leads
    assert not b.leads


@pytest.mark.case("U17")
async def test_u17_a_leader_whose_event_loop_is_blocked_ends_before_its_lease_does(world: World) -> None:
    a, b = await lead(world)
    blocked = a.signal(signal.SIGUSR1)
    assert await a.ended(TIMES.duration) == OVERRUN
    assert time.monotonic() - blocked < TIMES.duration
    assert not b.leads
    await until(lambda: b.leads)
    await until(lambda: _is_positive(world.written_by(b)))
    assert_never_both(await world.writes(a, b), a, b)


@pytest.mark.case("R05")
async def test_r05_without_an_api_server_the_leader_has_stopped_before_its_lease_ends(
    control_plane_binaries: Mapping[str, Found],
) -> None:
    with ControlPlane(binaries=control_plane_binaries, controller_manager=False) as plane:
        async with world_on(plane) as world:
            a, b = await lead(world)
            plane.api_server.kill()
            away = time.monotonic()
            assert await a.ended(TIMES.duration) == LOST
            assert time.monotonic() - away < TIMES.duration
            assert a.said[-3:-1] == ["leading", "not leading"]
            assert a.said[-1].startswith("lost: not renewed in 2.8 s")
            await asyncio.to_thread(plane.restart_api_server)
            await until(lambda: b.leads, timeout=30)
            again = await world.start("a2")
            await until(lambda: _is_positive(world.written_by(b)), timeout=30)
            assert not again.leads, "it came back as a standby"
            assert_never_both(await world.writes(a, b), a, b)

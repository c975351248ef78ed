"""Two operators on one cluster: one works, the other stands by and takes over."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.integration.kube_support import CONFIGMAPS, until
from tests.integration.world import World, config_map, documents, world

from controlplane import ControlPlane, Mark
from vidra.kube.client import Obj
from vidra.kube.resource import Resource

LEASES = Resource("coordination.k8s.io", "v1", "Lease", "leases", namespaced=True)


@asynccontextmanager
async def operator(w: World, name: str, folder: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """An operator as a process of its own, under a user of this name."""
    kubeconfig = w.plane.user_kubeconfig(name, ["system:masters"])
    command = f"-m vidra run --kubeconfig {kubeconfig} --namespace {w.namespace} --leader-elect --health-port 0"
    command += " --metrics-port 0 --grace 5s --log-format json"
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("VIDRA_", "POD_"))}
    with (folder / f"{name}.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, *command.split(), stdout=log, stderr=log, env=environment
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
                await process.wait()


async def holder(w: World) -> str:
    lease: Obj = await w.get(LEASES, "vidra", w.namespace) or {}
    return str((lease.get("spec") or {}).get("holderIdentity") or "")


async def deploys(w: World, name: str) -> None:
    await w.create_resource(name, documents(config_map(name, w.namespace)))
    await w.until_state(World.RESOURCES, name, "Succeeded", timeout=40)
    assert await w.get(CONFIGMAPS, name, w.namespace) is not None


def writes(w: World, since: Mark, user: str) -> list[str]:
    reads = ("get", "list", "watch")
    entries = w.plane.audit.entries(since=since, user=user)
    return [f"{e.verb} {e.uri}" for e in entries if e.verb not in reads and e.resource != "leases" and e.code < 400]


async def test_the_one_that_stands_by_takes_over_when_the_other_ends_in_order(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    async with (
        world(control_plane, start=False) as w,
        operator(w, f"first-{w.namespace}", tmp_path) as first,
    ):
        await until(lambda: _holds(w), timeout=60)
        leading = await holder(w)
        async with operator(w, f"second-{w.namespace}", tmp_path):
            mark = w.plane.audit.mark()
            await deploys(w, "one")
            assert writes(w, mark, f"second-{w.namespace}") == []
            first.terminate()
            assert await asyncio.wait_for(first.wait(), 60) == 0

            async def taken_over() -> bool:
                return await holder(w) not in ("", leading)

            await until(taken_over, timeout=60)
            mark = w.plane.audit.mark()
            await deploys(w, "two")
            assert writes(w, mark, f"second-{w.namespace}")


async def test_one_that_was_stopped_and_goes_on_writes_nothing_after_the_takeover(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    async with (
        world(control_plane, start=False) as w,
        operator(w, f"first-{w.namespace}", tmp_path) as first,
    ):
        await until(lambda: _holds(w), timeout=60)
        leading = await holder(w)
        async with operator(w, f"second-{w.namespace}", tmp_path):
            first.send_signal(signal.SIGSTOP)

            async def taken_over() -> bool:
                return await holder(w) not in ("", leading)

            await until(taken_over, timeout=60)
            mark = w.plane.audit.mark()
            await w.create_resource("one", documents(config_map("one", w.namespace)))
            first.send_signal(signal.SIGCONT)
            assert await asyncio.wait_for(first.wait(), 60) != 0
            await w.until_state(World.RESOURCES, "one", "Succeeded", timeout=40)
            assert writes(w, mark, f"first-{w.namespace}") == []


async def _holds(w: World) -> bool:
    return bool(await holder(w))

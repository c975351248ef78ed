"""The operator as a process that is killed in the middle of a rollout, and manifests as large as they may be."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import zlib
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.integration.deploy_support import asked, assert_at_rest, deploy, remove, writes
from tests.integration.kube_support import CONFIGMAPS, until
from tests.integration.world import World, config_map, documents, world

from controlplane import ControlPlane
from vidra.deploy.compress import MAX_COMPRESSED, MAX_UNPACKED, compress_manifest
from vidra.kube.client import Obj
from vidra.kube.errors import ApiError

COUNT = 400


@pytest.fixture
async def w(control_plane: ControlPlane) -> AsyncIterator[World]:
    async with world(control_plane) as w:
        yield w


def pages(w: World, count: int, **data: str) -> list[Obj]:
    return [config_map(f"page-{number:03}", w.namespace, **data) for number in range(count)]


async def found(w: World) -> set[str]:
    return {obj["metadata"]["name"] for obj in await w.all(CONFIGMAPS, w.namespace)} - {"kube-root-ca.crt"}


@asynccontextmanager
async def process(w: World, kubeconfig: Path, log: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """`python -m vidra run`; killed, if it isn't dead yet."""
    command = f"run --kubeconfig {kubeconfig} --namespace {w.namespace} --health-port 0 --metrics-port 0"
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("VIDRA_", "POD_NAMESPACE"))
    }
    with log.open("ab") as out:
        running = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "vidra", *command.split(), stdout=out, stderr=out, env=environment
        )
        try:
            yield running
        finally:
            if running.returncode is None:
                running.send_signal(signal.SIGKILL)
            await running.wait()


async def test_a_process_killed_in_the_middle_of_a_rollout_is_succeeded_by_one_that_finishes_it(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    kubeconfig = control_plane.user_kubeconfig("process", ["system:masters"])
    async with world(control_plane, start=False) as w:

        async def begun() -> bool:
            return len(await found(w)) >= COUNT // 20

        async with process(w, kubeconfig, tmp_path / "log"):
            await w.create_resource("a", documents(*pages(w, COUNT)))
            await until(begun, timeout=60)
        there = await found(w)
        status = await w.status(World.RESOURCES, "a")
        assert status["DeployState"] == "Running"
        assert there <= {item["name"] for item in status["managedResources"]}
        await w.change(World.RESOURCES, "a", manifest=documents(*pages(w, COUNT // 20)))
        async with process(w, kubeconfig, tmp_path / "log"):
            await w.until_state(World.RESOURCES, "a", "Succeeded", timeout=60)
            assert len(await found(w)) == COUNT // 20
            await w.client.delete(World.RESOURCES, "a")
            await w.until_gone(World.RESOURCES, "a")
            assert await found(w) == set()


async def test_a_manifest_of_2_mb_is_stored_compressed_applied_and_deleted(w: World) -> None:
    text = documents(*pages(w, 10, text="0123456789" * 20_000))
    assert len(text) > 2_000_000
    await w.create_resource("a", None, compressedManifest=compress_manifest(text))
    await w.until_state(World.RESOURCES, "a", "Succeeded")
    assert len(await found(w)) == 10
    await assert_at_rest(w, "a")
    await remove(w, "a")
    assert await found(w) == set()


async def test_a_manifest_that_is_too_large_when_unpacked_is_an_error_before_any_write(w: World) -> None:
    await deploy(w, "a", config_map("page", w.namespace))
    mark = w.plane.audit.mark()
    too_much = f"# {'x' * 1000}\n" * (MAX_UNPACKED // 1000 + 1)
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    blob = b64encode(packer.compress(too_much.encode()) + packer.flush()).decode()
    assert len(blob) < MAX_COMPRESSED
    await w.change(World.RESOURCES, "a", manifest=None, compressedManifest=blob)
    failed = await w.until_state(World.RESOURCES, "a", "Failed")
    assert f"compressedManifest unpacks to more than {MAX_UNPACKED} bytes" in failed["status"]["lastError"]
    assert asked(w, mark) == []
    assert await found(w) == {"page"}
    assert [item["name"] for item in failed["status"]["managedResources"]] == ["page"]


@pytest.mark.filterwarnings("ignore:Sending a large body")
async def test_what_does_not_fit_even_compressed_is_refused_by_the_one_who_writes_it(w: World) -> None:
    dice = random.Random(1)
    noise = "".join(dice.choices("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", k=2_000_000))
    with pytest.raises(ValueError, match=r"still .* when compressed; at most"):
        compress_manifest(noise)
    with pytest.raises(ApiError, match=r"too large|limit"):
        await w.create_resource("a", noise)


async def test_more_objects_than_a_status_can_list_are_an_error_before_any_write(w: World) -> None:
    names = [f"{number:05}-{'x' * 240}" for number in range(5500)]
    text = "".join(
        f"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: {w.namespace}}}\n"
        for name in names
    )
    mark = w.plane.audit.mark()
    await w.create_resource("a", None, compressedManifest=compress_manifest(text))
    failed = await w.until_state(World.RESOURCES, "a", "Failed", timeout=60)
    assert "5500 objects are too many for one resource" in failed["status"]["lastError"]
    assert writes(w, mark, CONFIGMAPS) == []
    await remove(w, "a")

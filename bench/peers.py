"""The same work by others, in the same run: bare API calls, which are the floor, and kubectl."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

import yaml

from bench.report import Row
from bench.rows import RESOURCES, control_plane
from infrahub.seeds import bench_manifest
from vidra.kube.client import Client, Obj, PatchType
from vidra.kube.resource import Resource

T = TypeVar("T")
KUBECTL = Path(sys.executable).parent / "kubectl"
_PLURALS = {
    "ConfigMap": Resource("", "v1", "ConfigMap", "configmaps", namespaced=True),
    "Service": Resource("", "v1", "Service", "services", namespaced=True),
    "Deployment": Resource("apps", "v1", "Deployment", "deployments", namespaced=True),
}


def manifests(artifacts: int, objects: int) -> list[list[Obj]]:
    """The objects of each artifact."""
    texts = [bench_manifest(number, objects=objects) for number in range(1, artifacts + 1)]
    return [[obj for obj in yaml.load_all(text, Loader=yaml.CSafeLoader) if obj] for text in texts]


async def bare_applies(artifacts: int, objects: int, at_once: int = 32) -> Row:
    """One server-side apply per object and nothing else."""
    async with control_plane() as (_, client):

        async def apply(obj: Obj) -> None:
            name, namespace = obj["metadata"]["name"], obj["metadata"]["namespace"]
            await client.apply(_PLURALS[obj["kind"]], obj, name, namespace=namespace, field_manager="bare", force=True)

        every = [obj for group in manifests(artifacts, objects) for obj in group]
        seconds = await _timed(apply, every, at_once)
        return Row(f"bare: {len(every)} server-side applies, {at_once} at once", seconds, {"patch": len(every)})


async def bare_all(artifacts: int, objects: int, at_once: int = 16) -> Row:
    """The requests Vidra can't do without: the resource, its objects, and two writes of its status."""
    async with control_plane() as (_, client):

        async def one(pair: tuple[int, list[Obj]]) -> None:
            number, group = pair
            resource = await client.create(RESOURCES, _resource(number, group))
            name = resource["metadata"]["name"]
            await _status(client, name, group, "Running")
            for obj in group:
                await client.create(_PLURALS[obj["kind"]], obj, namespace=obj["metadata"]["namespace"])
            await _status(client, name, group, "Succeeded")

        groups = list(enumerate(manifests(artifacts, objects)))
        seconds = await _timed(one, groups, at_once)
        total = artifacts * (objects + 3)
        requests = {"create": artifacts * (objects + 1), "patch": 2 * artifacts}
        return Row(f"bare: all {total} requests of Vidra's, {at_once} at once", seconds, requests)


async def kubectl(artifacts: int, objects: int) -> list[Row]:
    """`kubectl apply --server-side` of one file with all objects, twice."""
    async with control_plane() as (plane, _):
        rows = []
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write("".join(bench_manifest(number, objects=objects) for number in range(1, artifacts + 1)))
            file.flush()
            for name in ("from nothing", "the same again"):
                mark, began = plane.audit.mark(), time.monotonic()
                command = [
                    str(KUBECTL),
                    f"--kubeconfig={plane.kubeconfig_path}",
                    "apply",
                    "--server-side",
                    "-f",
                    file.name,
                ]
                process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.DEVNULL)
                if await process.wait():
                    raise RuntimeError("kubectl failed")
                seconds = time.monotonic() - began
                count = plane.audit.count(since=mark, user_agent_prefix="kubectl")
                rows.append(Row(f"kubectl apply --server-side: {name}", seconds, {"all": count}))
        return rows


def _resource(number: int, group: list[Obj]) -> Obj:
    metadata = {"name": f"bare-{number}", "finalizers": ["example.com/bare"]}
    spec = {"manifest": yaml.safe_dump_all(group)}
    return {
        "apiVersion": "infrahub.operators.com/v1alpha1",
        "kind": "VidraResource",
        "metadata": metadata,
        "spec": spec,
    }


async def _status(client: Client, name: str, group: list[Obj], state: str) -> None:
    items = [{"apiVersion": o["apiVersion"], "kind": o["kind"], "name": o["metadata"]["name"]} for o in group]
    patch = {"status": {"DeployState": state, "managedResources": items}}
    await client.patch(RESOURCES, name, patch, PatchType.MERGE, subresource="status")


async def _timed(work: Callable[[T], Awaitable[None]], items: Sequence[T], at_once: int) -> float:
    slots = asyncio.Semaphore(at_once)

    async def one(item: T) -> None:
        async with slots:
            await work(item)

    began = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for item in items:
            group.create_task(one(item))
    return time.monotonic() - began

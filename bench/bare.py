"""The floor: the same writes as bare HTTP requests, their bodies made before the clock starts, the answers unread.

No client that has to know what it gets back can be faster on the same machine with the same HTTP library.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp
import yaml

from bench.arena import GROUP, Stopwatch, control_plane
from bench.report import Measured
from controlplane import ControlPlane
from infrahub.seeds import bench_manifest

Obj = dict[str, Any]
AGENT = "bare/1"
_PATHS = {
    "ConfigMap": "/api/v1/namespaces/{}/configmaps",
    "Service": "/api/v1/namespaces/{}/services",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
}
_RESOURCES = f"/apis/{GROUP}/v1alpha1/vidraresources"


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    body: bytes
    content_type: str = "application/json"


def objects_of(artifacts: int, objects: int) -> list[list[Obj]]:
    """The objects of each artifact."""
    texts = [bench_manifest(number, objects=objects) for number in range(1, artifacts + 1)]
    return [[obj for obj in yaml.load_all(text, Loader=yaml.CSafeLoader) if obj] for text in texts]


async def applies(artifacts: int, objects: int, works: Sequence[str], at_once: int = 32) -> list[Measured]:
    """One server-side apply per object, once for each of ``works``: the second time nothing is new."""
    chains = [[_apply(obj)] for group in objects_of(artifacts, objects) for obj in group]
    who = f"bare applies, {at_once} at once"
    async with control_plane() as (plane, _):
        return [await _measured(plane, chains, at_once, work, who) for work in works]


async def everything(artifacts: int, objects: int, work: str, at_once: int = 16) -> Measured:
    """Every write that Vidra can't do without: the resource, its objects, and two of its status."""
    chains = [_all_of(number, group) for number, group in enumerate(objects_of(artifacts, objects))]
    async with control_plane() as (plane, _):
        who = f"bare, all {sum(map(len, chains))} of Vidra's, {at_once} at once"
        return await _measured(plane, chains, at_once, work, who, floor=True)


def _apply(obj: Obj) -> Request:
    path = f"{_path(obj)}/{obj['metadata']['name']}?fieldManager=bare&force=true"
    return Request("PATCH", path, json.dumps(obj).encode(), "application/apply-patch+yaml")


def _path(obj: Obj) -> str:
    return _PATHS[obj["kind"]].format(obj["metadata"]["namespace"])


def _all_of(number: int, group: list[Obj]) -> list[Request]:
    name = f"bare-{number}"
    resource = {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "VidraResource",
        "metadata": {"name": name, "finalizers": ["example.com/bare"], "labels": {"a": "bench"}},
        "spec": {"manifest": yaml.safe_dump_all(group)},
    }
    return [
        Request("POST", _RESOURCES, json.dumps(resource).encode()),
        _status(name, group, "Running"),
        *(Request("POST", f"{_path(obj)}?fieldManager=bare", json.dumps(obj).encode()) for obj in group),
        _status(name, group, "Succeeded"),
    ]


def _status(name: str, group: list[Obj], state: str) -> Request:
    items = [
        {"apiVersion": o["apiVersion"], "kind": o["kind"], "name": o["metadata"]["name"], "namespace": "default"}
        for o in group
    ]
    patch = {"status": {"DeployState": state, "managedResources": items}}
    return Request("PATCH", f"{_RESOURCES}/{name}/status", json.dumps(patch).encode(), "application/merge-patch+json")


async def _measured(
    plane: ControlPlane, chains: Sequence[Sequence[Request]], at_once: int, work: str, who: str, *, floor: bool = False
) -> Measured:
    """Each chain in its order, ``at_once`` chains side by side."""
    tls = ssl.create_default_context(cafile=plane.ca_path)
    tls.load_cert_chain(plane.directory / "admin.crt", plane.directory / "admin.key")
    slots = asyncio.Semaphore(at_once)
    async with aiohttp.ClientSession(
        plane.url, connector=aiohttp.TCPConnector(limit=0, ssl=tls), headers={"User-Agent": AGENT}
    ) as http:
        mark, watch = plane.audit.mark(), Stopwatch(plane, time.process_time)
        async with asyncio.TaskGroup() as group:
            for chain in chains:
                group.create_task(_send(http, slots, chain))
        seconds, cpu, server = watch.read()
    counts: dict[str, int] = {}
    for entry in plane.audit.entries(since=mark, user_agent_prefix=AGENT):
        counts[entry.verb] = counts.get(entry.verb, 0) + 1
    return Measured(work=work, contender=who, seconds=seconds, cpu=cpu, server_cpu=server, requests=counts, floor=floor)


async def _send(http: aiohttp.ClientSession, slots: asyncio.Semaphore, chain: Sequence[Request]) -> None:
    async with slots:
        for request in chain:
            headers = {"Content-Type": request.content_type}
            async with http.request(request.method, request.path, data=request.body, headers=headers) as answer:
                await answer.read()
                answer.raise_for_status()

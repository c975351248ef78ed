"""Where the benchmarks take place: a fresh control plane for each contender, an Infrahub stand-in, the operator.

Fresh, so that nobody finds what another left, and so that nothing has to be tidied away that could hold up the next.
Without controllers: what they would make of the new objects (ReplicaSets, EndpointSlices, Events) is more work for the
same processors than what is to be measured, and comes when it likes.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import yaml

from controlplane import ControlPlane, Entry
from infrahub import Standin
from infrahub.seeds import BENCH
from infrahub.server import Seed
from vidra.kube import config
from vidra.kube.client import Client, Obj
from vidra.kube.errors import ApiError
from vidra.kube.resource import Resource
from vidra.kube.session import Session
from vidra.kube.watch import watch

GROUP = "infrahub.operators.com"
SYNCS = Resource(GROUP, "v1alpha1", "InfrahubSync", "infrahubsyncs", namespaced=False)
RESOURCES = Resource(GROUP, "v1alpha1", "VidraResource", "vidraresources", namespaced=False)
CRDS = Resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False)
NAMESPACES = Resource("", "v1", "Namespace", "namespaces", namespaced=False)
SECRETS = Resource("", "v1", "Secret", "secrets", namespaced=True)
CRD_FILES = sorted((Path(__file__).parents[1] / "manifests/crds").glob(f"{GROUP}_*.yaml"))
NAMESPACE = "vidra-system"
#: The operator's name in the audit log.
USER = "vidra-bench"
#: Seconds that anything may take.
WITHIN = 300.0
#: A server is quiet that takes less than this share of a processor for a second.
QUIET = 0.1
_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_of(pid: int) -> float:
    """Seconds of processor time a process has had so far, its ended children not counted."""
    # The name, in brackets, may hold anything; user and system time are the 14th and 15th fields of the line.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def cpu_of_server(plane: ControlPlane) -> float:
    """The same of API server and etcd together."""
    return cpu_of(plane.api_server.pid) + cpu_of(plane.etcd.pid)


async def until(condition: Callable[[], Awaitable[bool]], *, every: float = 0.05) -> None:
    async with asyncio.timeout(WITHIN):
        while not await condition():
            await asyncio.sleep(every)


@dataclass
class Stopwatch:
    """Wall-clock time, and the processor time that contender and servers took meanwhile."""

    plane: ControlPlane
    own: Callable[[], float]
    began: float = field(init=False)

    def __post_init__(self) -> None:
        self._own, self._server = self.own(), cpu_of_server(self.plane)
        self.began = time.monotonic()

    def read(self) -> tuple[float, float, float]:
        """Seconds on the clock, of the contender's processor time, of the servers' processor time."""
        return time.monotonic() - self.began, self.own() - self._own, cpu_of_server(self.plane) - self._server


@dataclass
class Arena:
    """A running operator and all it needs. ``resources`` are the VidraResources as a watch shows them."""

    plane: ControlPlane
    standin: Standin
    client: Client
    process: asyncio.subprocess.Process
    resources: dict[str, Obj]

    def cpu(self) -> float:
        return cpu_of(self.process.pid)

    def memory(self) -> int:
        """Resident bytes of the operator."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        return 0

    async def create_sync(self, name: str = "bench") -> None:
        source = {"infrahubAPIURL": self.standin.url, "targetBranch": "main", "artefactName": BENCH}
        sync = {"apiVersion": f"{GROUP}/v1alpha1", "kind": "InfrahubSync", "metadata": {"name": name}}
        await self.client.create(SYNCS, {**sync, "spec": {"source": source}})

    async def until_succeeded(self, count: int) -> None:
        """Until there are ``count`` resources, all of them Succeeded."""

        async def all_there() -> bool:
            states = [(obj.get("status") or {}).get("DeployState") for obj in list(self.resources.values())]
            return states == ["Succeeded"] * count

        await until(all_there, every=0.01)


@asynccontextmanager
async def control_plane() -> AsyncIterator[tuple[ControlPlane, Client]]:
    """A fresh one that serves Vidra's kinds."""
    with ControlPlane(controller_manager=False) as plane:
        async with Session(config.loader(plane.kubeconfig_path)) as session:
            client = Client(session)
            for path in CRD_FILES:
                await client.create(CRDS, yaml.safe_load(path.read_text()))
            await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
            for resource in (SYNCS, RESOURCES):
                await until(partial(_is_served, client, resource))
            await _until_quiet(plane)
            yield plane, client


async def _until_quiet(plane: ControlPlane) -> None:
    """A server that has just started, and has new kinds, is busy with itself for some seconds."""
    async with asyncio.timeout(WITHIN):
        while True:
            before = cpu_of_server(plane)
            await asyncio.sleep(1)
            if cpu_of_server(plane) - before < QUIET:
                return


async def _is_served(client: Client, resource: Resource) -> bool:
    try:
        await client.list_page(resource)
    except ApiError as error:
        if error.status in (404, 429):  # not known yet; known, and its storage not ready yet
            return False
        raise
    return True


@asynccontextmanager
async def running(seed: Seed, *flags: str, profile: Path | None = None) -> AsyncIterator[Arena]:
    """The operator as a process, with ``flags``; ``profile`` is where cProfile writes what it saw of it."""
    async with control_plane() as (plane, client), Standin(seed=seed) as standin:
        metadata = {"name": "infrahub", "labels": {"infrahub-api-url": "127.0.0.1"}}
        login = {"username": standin.username, "password": standin.password}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": login}
        await client.create(SECRETS, secret, namespace=NAMESPACE)
        kubeconfig = plane.user_kubeconfig(USER, ["system:masters"])
        profiler = [] if profile is None else ["-m", "cProfile", "-o", str(profile)]
        command = [*profiler, "-m", "vidra", "run", "--kubeconfig", str(kubeconfig)]
        command += ["--health-port", "0", "--metrics-port", "0", *flags]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("VIDRA_")}
        with tempfile.TemporaryFile() as log:
            mark = plane.audit.mark()
            process = await asyncio.create_subprocess_exec(
                sys.executable, *command, stdout=log, stderr=log, env=environment
            )
            try:
                await until(lambda: _watches(plane.audit.entries(since=mark, user=USER, verb="watch"), process))
                async with _followed(client) as resources:
                    yield Arena(plane, standin, client, process, resources)
            finally:
                if process.returncode is None:
                    process.terminate()
                    await process.wait()


async def _watches(entries: Iterable[Entry], process: asyncio.subprocess.Process) -> bool:
    """Whether the operator has its caches: it watches both kinds, Secrets and ConfigMaps."""
    if process.returncode is not None:
        raise RuntimeError(f"the operator ended with exit code {process.returncode}")
    return {"infrahubsyncs", "vidraresources", "secrets", "configmaps"} <= {entry.resource for entry in entries}


@asynccontextmanager
async def _followed(client: Client) -> AsyncIterator[dict[str, Obj]]:
    """The resources by name, kept up to date by a watch: polling lists would take time from those measured."""
    seen: dict[str, Obj] = {}

    async def follow() -> None:
        async with watch(client, RESOURCES, send_initial_events=True, idle_timeout=2 * WITHIN) as events:
            async for event in events:
                if event.type in ("ADDED", "MODIFIED"):
                    seen[event.object["metadata"]["name"]] = event.object
                elif event.type == "DELETED":
                    seen.pop(event.object["metadata"]["name"], None)

    task = asyncio.create_task(follow())
    try:
        yield seen
    finally:
        task.cancel()
        await asyncio.wait([task])

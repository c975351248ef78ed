"""What is measured of Vidra: the operator as a process, the API server and the Infrahub stand-in on this machine."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from bench.report import Row
from controlplane import ControlPlane, Entry
from infrahub import Standin
from infrahub.seeds import BENCH, bench
from infrahub.server import Seed
from vidra.kube import config
from vidra.kube.client import Client, Obj, PatchType
from vidra.kube.resource import Resource
from vidra.kube.session import Session

SYNCS = Resource("infrahub.operators.com", "v1alpha1", "InfrahubSync", "infrahubsyncs", namespaced=False)
RESOURCES = Resource("infrahub.operators.com", "v1alpha1", "VidraResource", "vidraresources", namespaced=False)
CRDS = Resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False)
NAMESPACES = Resource("", "v1", "Namespace", "namespaces", namespaced=False)
SECRETS = Resource("", "v1", "Secret", "secrets", namespaced=True)
MANIFESTS = Path(__file__).parents[1] / "manifests"
REQUEST = "vidra.infrahub.operators.com/reconcile-request"
#: The operator's name in the audit log.
USER = "vidra-bench"
#: Seconds that a row may take.
WITHIN = 300.0
#: The operator's own kinds; everything else it asks for are objects.
OWN = frozenset({"infrahubsyncs", "vidraresources", "secrets", "configmaps"})


@dataclass
class Bench:
    """A control plane of its own with the kinds installed, an Infrahub, and the running operator."""

    plane: ControlPlane
    standin: Standin
    client: Client
    process: asyncio.subprocess.Process

    async def start(self) -> None:
        source = {"infrahubAPIURL": self.standin.url, "targetBranch": "main", "artefactName": BENCH}
        sync = {"apiVersion": "infrahub.operators.com/v1alpha1", "kind": "InfrahubSync", "metadata": {"name": "bench"}}
        await self.client.create(SYNCS, {**sync, "spec": {"source": source}})

    async def resources(self) -> list[Obj]:
        return [obj async for obj in self.client.list_all(RESOURCES)]

    async def until_succeeded(self, count: int) -> None:
        async def all_there() -> bool:
            states = [(obj.get("status") or {}).get("DeployState") for obj in await self.resources()]
            return states == ["Succeeded"] * count

        await until(all_there)

    def memory(self) -> int:
        """Resident bytes of the operator."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        return 0


async def until(condition: Callable[[], Awaitable[bool]], *, every: float = 0.05) -> None:
    async with asyncio.timeout(WITHIN):
        while not await condition():
            await asyncio.sleep(every)


@asynccontextmanager
async def control_plane() -> AsyncIterator[tuple[ControlPlane, Client]]:
    """A fresh one with Vidra's kinds, so that no contender finds what another left."""
    with ControlPlane() as plane:
        async with Session(config.loader(plane.kubeconfig_path)) as session:
            client = Client(session)
            for path in sorted((MANIFESTS / "crds").glob("infrahub*.yaml")):
                await client.create(CRDS, yaml.safe_load(path.read_text()))
            await client.create(
                NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "vidra-system"}}
            )
            await asyncio.sleep(2)  # the new kinds are served, and the controllers have started
            yield plane, client


@asynccontextmanager
async def running(seed: Seed, *flags: str) -> AsyncIterator[Bench]:
    async with control_plane() as (plane, client), Standin(seed=seed) as standin:
        metadata = {"name": "infrahub", "labels": {"infrahub-api-url": "127.0.0.1"}}
        login = {"username": standin.username, "password": standin.password}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": login}
        await client.create(SECRETS, secret, namespace="vidra-system")
        kubeconfig = plane.user_kubeconfig(USER, ["system:masters"])
        command = ["-m", "vidra", "run", "--kubeconfig", str(kubeconfig), "--health-port", "0", "--metrics-port", "0"]
        with tempfile.TemporaryFile() as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable, *command, *flags, stdout=log, stderr=log, env=dict(os.environ)
            )
            try:
                mark = plane.audit.mark()

                async def watches() -> bool:
                    return plane.audit.count(since=mark, user=USER) >= 5

                await until(watches)
                yield Bench(plane, standin, client, process)
            finally:
                if process.returncode is None:
                    process.terminate()
                    await process.wait()


async def from_nothing_and_again(artifacts: int, objects: int) -> list[Row]:
    """Rows 1 and 2: everything for the first time, then a pass over all of it with nothing changed."""
    async with running(bench(artifacts, objects=objects), "--requeue-sync-after", "0") as b:
        mark, began = b.plane.audit.mark(), time.monotonic()
        await b.start()
        await b.until_succeeded(artifacts)
        seconds = time.monotonic() - began
        entries = b.plane.audit.entries(since=mark, user=USER)
        first = Row(f"Vidra: {artifacts} artifacts x {objects}, from nothing", seconds, _verbs(entries), b.memory())

        await asyncio.sleep(1)
        before, mark, began = len(b.standin.requests), b.plane.audit.mark(), time.monotonic()
        patch = {"metadata": {"annotations": {REQUEST: "again"}}}
        names = [obj["metadata"]["name"] for obj in await b.resources()]
        await asyncio.gather(
            b.client.patch(SYNCS, "bench", patch, PatchType.MERGE),
            *(b.client.patch(RESOURCES, name, patch, PatchType.MERGE) for name in names),
        )

        async def answered() -> bool:
            return all((obj["status"].get("lastHandledReconcileAt") == "again") for obj in await b.resources())

        await until(answered)
        seconds = time.monotonic() - began
        entries = b.plane.audit.entries(since=mark, user=USER)
        about_objects = [entry for entry in entries if entry.resource not in OWN]
        asked = len(b.standin.requests) - before
        note = f"{len(about_objects)} object requests, {asked} requests to Infrahub"
        return [first, Row("Vidra: the same again, nothing changed", seconds, _verbs(entries), b.memory(), note)]


async def idle(artifacts: int, objects: int, seconds: float) -> Row:
    """Row 3: a minute in which nothing happens, at the default intervals."""
    async with running(bench(artifacts, objects=objects)) as b:
        await b.start()
        await b.until_succeeded(artifacts)
        await asyncio.sleep(2)
        before, mark = len(b.standin.requests), b.plane.audit.mark()
        await asyncio.sleep(seconds)
        entries = b.plane.audit.entries(since=mark, user=USER)
        about_objects = [entry for entry in entries if entry.resource not in OWN and entry.verb != "watch"]
        asked = len(b.standin.requests) - before
        note = f"{len(about_objects)} object requests, {asked} requests to Infrahub"
        return Row(f"Vidra: idle, {artifacts * objects} objects", seconds, _verbs(entries), b.memory(), note)


async def shared_namespace(artifacts: int) -> Row:
    """A Namespace that each artifact of one sync declares: applied once."""
    namespace = "bench-shared"

    def seed(standin: Standin) -> None:
        for number in range(artifacts):
            text = (
                f"apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {namespace}\n---\napiVersion: v1\n"
                f"kind: ConfigMap\nmetadata:\n  name: c-{number}\n  namespace: {namespace}\ndata:\n  n: '{number}'\n"
            )
            standin.add_artifact(name=BENCH, content=text, target=f"t-{number}")

    async with running(seed, "--requeue-sync-after", "0") as b:
        mark, began = b.plane.audit.mark(), time.monotonic()
        await b.start()
        await b.until_succeeded(artifacts)
        seconds = time.monotonic() - began
        entries = b.plane.audit.entries(since=mark, user=USER)
        writes = [e for e in entries if e.resource == "namespaces" and e.verb not in ("get", "list", "watch")]
        note = f"{len(writes)} writes to the Namespace"
        return Row(f"Vidra: {artifacts} artifacts share a Namespace", seconds, _verbs(entries), b.memory(), note)


def _verbs(entries: Iterable[Entry]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for entry in entries:
        counts[entry.verb] = counts.get(entry.verb, 0) + 1
    return counts

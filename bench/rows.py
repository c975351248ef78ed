"""What is measured of Vidra: the operator as a process, the API server and the Infrahub stand-in on this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bench.arena import RESOURCES, SYNCS, USER, Arena, Stopwatch, running, until
from bench.report import Measured
from controlplane import Entry
from infrahub import Standin
from infrahub.seeds import BENCH, bench
from vidra.kube.client import PatchType

REQUEST = "vidra.infrahub.operators.com/reconcile-request"
#: The operator's own kinds; everything else it asks for are objects.
OWN = frozenset({"infrahubsyncs", "vidraresources", "secrets", "configmaps"})
#: Seconds after which what a burst of work left to do is done, and memory stays as it is.
SETTLED = 3.0


class Meter:
    """From here on: times, and requests of the operator to API server and Infrahub."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._mark = arena.plane.audit.mark()
        self._asked = len(arena.standin.requests)
        self._watch = Stopwatch(arena.plane, arena.cpu)

    def read(self, work: str) -> tuple[Measured, list[Entry]]:
        seconds, cpu, server = self._watch.read()
        asked = len(self._arena.standin.requests) - self._asked
        entries = self._arena.plane.audit.entries(since=self._mark, user=USER)
        counts: dict[str, int] = {}
        for entry in entries:
            counts[entry.verb] = counts.get(entry.verb, 0) + 1
        about_objects = sum(entry.resource not in OWN and entry.verb != "watch" for entry in entries)
        row = Measured(
            work=work,
            contender="Vidra",
            seconds=seconds,
            cpu=cpu,
            server_cpu=server,
            requests=counts,
            memory=self._arena.memory(),
            note=f"{about_objects} about objects; {asked} to Infrahub",
        )
        return row, entries


async def from_nothing_and_again(
    artifacts: int, objects: int, works: Sequence[str], profile: Path | None = None
) -> list[Measured]:
    """Everything for the first time, then (if there are two ``works``) a pass over all of it with nothing changed."""
    async with running(bench(artifacts, objects=objects), "--requeue-sync-after", "0", profile=profile) as arena:
        meter = Meter(arena)
        await arena.create_sync()
        await arena.until_succeeded(artifacts)
        rows = [meter.read(works[0])[0]]
        if works[1:]:
            await asyncio.sleep(SETTLED)
            rows.append(await _again(arena, works[1]))
        return rows


async def _again(arena: Arena, work: str) -> Measured:
    """Asks the sync and each resource to look again, and waits until all have said that they did."""
    meter = Meter(arena)
    patch = {"metadata": {"annotations": {REQUEST: "again"}}}
    names = list(arena.resources)
    await asyncio.gather(
        arena.client.patch(SYNCS, "bench", patch, PatchType.MERGE),
        *(arena.client.patch(RESOURCES, name, patch, PatchType.MERGE) for name in names),
    )

    async def answered() -> bool:
        seen = [(obj.get("status") or {}).get("lastHandledReconcileAt") for obj in list(arena.resources.values())]
        return seen == ["again"] * len(names)

    await until(answered, every=0.01)
    return meter.read(work)[0]


async def idle(artifacts: int, objects: int, seconds: float, work: str) -> Measured:
    """A time in which nothing happens, at the default intervals."""
    async with running(bench(artifacts, objects=objects)) as arena:
        await arena.create_sync()
        await arena.until_succeeded(artifacts)
        await asyncio.sleep(SETTLED)
        meter = Meter(arena)
        await asyncio.sleep(seconds)
        return meter.read(work)[0]


async def shared_namespace(artifacts: int, work: str) -> Measured:
    """A Namespace that each artifact of one sync declares, with one ConfigMap in it each."""
    namespace = "bench-shared"

    def seed(standin: Standin) -> None:
        for number in range(artifacts):
            text = (
                f"apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {namespace}\n---\napiVersion: v1\n"
                f"kind: ConfigMap\nmetadata:\n  name: c-{number}\n  namespace: {namespace}\ndata:\n  n: '{number}'\n"
            )
            standin.add_artifact(name=BENCH, content=text, target=f"t-{number}")

    async with running(seed, "--requeue-sync-after", "0") as arena:
        meter = Meter(arena)
        await arena.create_sync()
        await arena.until_succeeded(artifacts)
        row, entries = meter.read(work)
        writes = [e for e in entries if e.resource == "namespaces" and e.verb not in ("get", "list", "watch")]
        return replace(row, note=f"{len(writes)} writes to the Namespace")


async def growth(artifacts: int, objects: int, work: str) -> Measured:
    """From nothing once more, for the memory: what the operator has before the first sync, and what objects add."""
    async with running(bench(artifacts, objects=objects), "--requeue-sync-after", "0") as arena:
        await asyncio.sleep(SETTLED)
        before, meter = arena.memory(), Meter(arena)
        await arena.create_sync()
        await arena.until_succeeded(artifacts)
        row = meter.read(work)[0]
        await asyncio.sleep(SETTLED)
        after = arena.memory()
        each = (after - before) / (artifacts * objects)
        return replace(row, memory=after, note=f"{before / 1e6:.0f} MB before; {each / 1e3:.1f} kB more per object")

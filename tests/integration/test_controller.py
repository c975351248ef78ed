"""Informer, predicate, queue, controller, finalizers and status client together, on the real API server.

The reconciler here is the smallest that does what each controller does: hold a finalizer, write a status, clean up.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.integration.kube_support import (
    CONFIGMAPS,
    config_map,
    connected,
    own_kind,
    own_namespace,
    running,
    serve,
    until,
)

from controlplane import ControlPlane
from vidra.kube.client import Client, Obj, PatchType
from vidra.kube.errors import ApiError
from vidra.kube.resource import Resource
from vidra.kube.watch import Collection, WatchEvent
from vidra.runtime.controller import Controller, Result
from vidra.runtime.finalizers import add_finalizer_patch, has_finalizer, remove_finalizer_patch
from vidra.runtime.informer import Informer
from vidra.runtime.ownwrites import OwnWrites
from vidra.runtime.predicates import content_changed, deletion_started, generation_changed
from vidra.runtime.status import Outcome, StatusClient
from vidra.runtime.store import Change, Key, Store
from vidra.runtime.workqueue import WorkQueue

FINALIZER = "example.org/ours"


@pytest.fixture(scope="module")
def kind(control_plane: ControlPlane) -> Resource:
    resource, crd = own_kind()

    async def make() -> None:
        async with connected(control_plane.kubeconfig_path) as client:
            await serve(client, resource, crd)

    asyncio.run(make())
    return resource


@pytest.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[Client]:
    async with connected(control_plane.kubeconfig_path) as client:
        yield client


@pytest.fixture
async def namespace(client: Client) -> AsyncIterator[str]:
    async with own_namespace(client) as name:
        yield name


class Delayed(Collection):
    """A watch whose events arrive ``seconds`` late."""

    seconds = 0.0

    @asynccontextmanager
    async def watch(self, **options: Any) -> AsyncIterator[AsyncIterator[WatchEvent]]:
        async with super().watch(**options) as events:

            async def late() -> AsyncIterator[WatchEvent]:
                async for event in events:
                    if event.type in {"MODIFIED", "DELETED"}:
                        await asyncio.sleep(self.seconds)
                    yield event

            yield late()


class Operator:
    """Reconciles one kind in one namespace. ``runs`` has what each pass saw: name and generation."""

    def __init__(self, client: Client, kind: Resource, namespace: str, *, late: float = 0.0) -> None:
        self.client = client
        self.kind = kind
        self.namespace = namespace
        source = Delayed(client, kind, namespace=namespace)
        source.seconds = late
        self.informer: Informer[Obj] = Informer(source, Store[Obj](detect_mutations=True))
        self.queue: WorkQueue[Key] = WorkQueue()
        self.own_writes: OwnWrites[Key] = OwnWrites()
        self.status = StatusClient(client, field_manager="test")
        self.controller: Controller[Key] = Controller("things", self.reconcile, self.queue, workers=2, timeout=60)
        self.runs: list[tuple[str, int]] = []
        self.cleaned: list[str] = []
        self.conflicts = 0
        self.gate = asyncio.Event()
        self.gate.set()

    def _changed(self, change: Change[Obj]) -> None:
        if change.new is None:
            self.own_writes.forget(change.key)
        self.queue.add(change.key)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Operator]:
        self.informer.add_handler(self._changed, generation_changed | deletion_started)
        async with running(self.informer.run()):
            assert await self.informer.wait_synced(10)
            async with running(self.controller.run()):
                yield self

    async def reconcile(self, key: Key) -> Result:
        obj = self.informer.store.get(key)
        self.own_writes.check(key, self.informer.store.resource_version(key))
        if obj is None:
            return Result()
        if obj["metadata"].get("deletionTimestamp"):
            if has_finalizer(obj, FINALIZER):
                self.cleaned.append(key.name)
                await self._patched(key, remove_finalizer_patch(obj, FINALIZER))
            return Result()
        if patch := add_finalizer_patch(obj, FINALIZER):
            await self._patched(key, patch)
            return Result(requeue_after=0.01)  # the finalizer is stored first, what follows is the next pass'
        generation = obj["metadata"]["generation"]
        self.runs.append((key.name, generation))
        await self.gate.wait()
        answer = await self.status.patch(
            self.kind,
            key.name,
            self.namespace,
            {"observedGeneration": generation, "state": "Done"},
            obj.get("status"),
            uid=obj["metadata"]["uid"],
            resource_version=obj["metadata"]["resourceVersion"],
        )
        if answer.outcome is Outcome.WRITTEN and answer.object is not None:
            self.own_writes.wrote(key, answer.object["metadata"]["resourceVersion"])
        return Result()

    async def _patched(self, key: Key, patch: Any) -> None:
        try:
            written = await self.client.patch(self.kind, key.name, patch, PatchType.JSON, namespace=key.namespace)
        except ApiError as error:
            self.conflicts += 1
            if error.not_found:
                return
            raise
        self.own_writes.wrote(key, written["metadata"]["resourceVersion"])

    # --- what people do

    async def make(self, name: str, **metadata: Any) -> Obj:
        body = {"apiVersion": self.kind.api_version, "kind": self.kind.kind, "metadata": {"name": name, **metadata}}
        return await self.client.create(self.kind, {**body, "spec": {"n": 0}}, namespace=self.namespace)

    async def edit(self, name: str, patch: Obj) -> None:
        await self.client.patch(self.kind, name, patch, PatchType.MERGE, namespace=self.namespace)

    async def read(self, name: str) -> Obj:
        return await self.client.get(self.kind, name, self.namespace)

    async def done(self, name: str, generation: int) -> bool:
        return bool(((await self.read(name)).get("status") or {}).get("observedGeneration") == generation)

    def caught_up(self, name: str, obj: Obj) -> bool:
        """Whether the informer has seen this state, and nothing waits or is worked on."""
        seen = self.informer.store.has_seen(Key(self.namespace, name), obj["metadata"]["resourceVersion"])
        return seen and not len(self.queue) and not self.queue.in_progress and not self.queue.delayed


@pytest.fixture
async def operator(client: Client, kind: Resource, namespace: str) -> Operator:
    return Operator(client, kind, namespace)


@pytest.mark.case("U10")
async def test_u10_edits_during_a_run_cause_exactly_one_more_with_the_newest_spec(operator: Operator) -> None:
    operator.gate.clear()
    async with operator.running():
        await operator.make("a")
        await until(lambda: operator.runs == [("a", 1)])
        await operator.edit("a", {"spec": {"n": 1}})
        await operator.edit("a", {"spec": {"n": 2}})
        await operator.edit("a", {"metadata": {"labels": {"third": "party"}}})
        held = await operator.read("a")
        key = Key(operator.namespace, "a")
        await until(lambda: operator.informer.store.has_seen(key, held["metadata"]["resourceVersion"]))
        operator.gate.set()

        async def newest() -> bool:
            return await operator.done("a", 3)

        await until(newest)
        live = await operator.read("a")
        await until(lambda: operator.caught_up("a", live))
    assert operator.runs == [("a", 1), ("a", 3)]


@pytest.mark.case("U11")
async def test_u11_own_writes_and_foreign_metadata_wake_nobody_and_peace_is_no_request(
    control_plane: ControlPlane, kind: Resource, namespace: str
) -> None:
    agent = f"controller-test/{uuid.uuid4().hex}"
    async with connected(control_plane.kubeconfig_path, user_agent=agent) as counted:
        operator = Operator(counted, kind, namespace)
        async with operator.running(), connected(control_plane.kubeconfig_path) as others:
            for number in range(5):
                await operator.make(f"t{number}")

            async def all_done() -> bool:
                return all([await operator.done(f"t{number}", 1) for number in range(5)])

            await until(all_done)
            live = await operator.read("t4")
            await until(lambda: operator.caught_up("t4", live))
            ran = len(operator.runs)
            mark = await asyncio.to_thread(control_plane.audit.mark)
            for number in range(20):
                patch = {"metadata": {"annotations": {"n": str(number)}}}
                live = await others.patch(kind, "t0", patch, PatchType.MERGE, namespace=namespace)
            live = await others.patch(
                kind, "t0", {"status": {"note": "x"}}, PatchType.MERGE, namespace=namespace, subresource="status"
            )
            await until(lambda: operator.caught_up("t0", live))
            entries = await asyncio.to_thread(control_plane.audit.entries, since=mark, user_agent_prefix=agent)
            assert entries == []
    assert len(operator.runs) == ran == 5


@pytest.mark.case("U12")
async def test_u12_a_watch_that_is_late_causes_no_second_write_from_the_old_copy(
    client: Client, kind: Resource, namespace: str
) -> None:
    operator = Operator(client, kind, namespace, late=0.7)
    async with operator.running():
        made = await operator.make("a")

        async def done() -> bool:
            return await operator.done("a", 1)

        await until(done)
        for _ in range(10):
            operator.queue.add(Key(namespace, "a"))
            await asyncio.sleep(0)
        live = await operator.read("a")
        await until(lambda: operator.caught_up("a", live))
    assert (operator.runs[0], operator.conflicts) == (("a", 1), 0)
    written = [entry["manager"] for entry in live["metadata"]["managedFields"]]
    assert written.count("test") == 1
    # One write for the finalizer, one for the status: the object's version moved by those alone.
    assert live["metadata"]["generation"] == made["metadata"]["generation"]
    assert (await operator.read("a"))["metadata"]["resourceVersion"] == live["metadata"]["resourceVersion"]


@pytest.mark.case("U13")
async def test_u13_a_deletion_passes_the_predicates_and_is_cleaned_up_once(operator: Operator) -> None:
    async with operator.running():
        await operator.make("a")

        async def done() -> bool:
            return await operator.done("a", 1)

        await until(done)
        await operator.client.delete(operator.kind, "a", namespace=operator.namespace)

        async def gone() -> bool:
            try:
                await operator.read("a")
            except ApiError as error:
                return error.not_found
            return False

        await until(gone)
        await until(lambda: Key(operator.namespace, "a") not in operator.informer.store)
    assert operator.cleaned == ["a"]


@pytest.mark.case("U13")
async def test_u13_kinds_without_a_generation_tell_of_edits_and_deletes_too(client: Client, namespace: str) -> None:
    informer: Informer[Obj] = Informer(Collection(client, CONFIGMAPS, namespace=namespace), Store[Obj]())
    woken: dict[str, list[str]] = {"generation": [], "content": []}
    for word, predicate in (("generation", generation_changed), ("content", content_changed)):

        def note(change: Change[Obj], into: list[str] = woken[word]) -> None:
            if change.key.name == "a":
                into.append(change.type.value)

        informer.add_handler(note, predicate)
    async with running(informer.run()):
        assert await informer.wait_synced(10)
        made = await client.create(CONFIGMAPS, config_map("a", {"k": "1"}), namespace=namespace)
        assert "generation" not in made["metadata"]
        await client.patch(CONFIGMAPS, "a", {"data": {"k": "2"}}, PatchType.MERGE, namespace=namespace)
        await client.delete(CONFIGMAPS, "a", namespace=namespace)
        await until(lambda: woken["content"][-1:] == ["DELETED"])
    assert woken == {"generation": ["ADDED", "MODIFIED", "DELETED"], "content": ["ADDED", "MODIFIED", "DELETED"]}


async def test_an_object_deleted_and_made_again_at_once_is_reconciled_as_another(operator: Operator) -> None:
    async with operator.running():
        for round_ in range(1, 4):
            await operator.make("a")

            async def done() -> bool:
                return await operator.done("a", 1)

            await until(done)
            await operator.client.delete(operator.kind, "a", namespace=operator.namespace)

            async def gone() -> bool:
                try:
                    await operator.read("a")
                except ApiError as error:
                    return error.not_found
                return False

            await until(gone)
            assert operator.cleaned == ["a"] * round_
    assert operator.runs == [("a", 1)] * 3

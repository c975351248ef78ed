"""What wakes a reconcile and what doesn't: edits by hand, edits in between, and a long time without any."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
from tests.integration.deploy_support import WRITES, asked, deploy, present, remove, until_at_rest, writes
from tests.integration.kube_support import CONFIGMAPS, until
from tests.integration.world import World, config_map, documents, world

from controlplane import ControlPlane
from controlplane.audit import Entry, Mark
from vidra.api import names
from vidra.kube.client import Obj, PatchType
from vidra.kube.watch import Collection, WatchEvent

EVENTS = {"reconcileOnEvents": True}


@pytest.fixture
async def w(control_plane: ControlPlane) -> AsyncIterator[World]:
    async with world(control_plane) as w:
        yield w


async def data(w: World, name: str) -> dict[str, str] | None:
    obj = await w.get(CONFIGMAPS, name, w.namespace)
    return None if obj is None else obj.get("data")


async def until_data(w: World, name: str, **wanted: str) -> None:
    async def there() -> bool:
        found = await data(w, name)
        return found == wanted

    await until(there)


def passes(w: World) -> int:
    """Reconciles that went all the way. Those that only found the cache behind our own write are none."""
    wanted = {"controller": "vidraresource", "result": "success"}
    return int(w.metrics.registry.get_sample_value("controller_runtime_reconcile_total", wanted) or 0)


async def edit(w: World, name: str, **values: str | None) -> Obj:
    patch = {"data": values}
    return await w.client.patch(
        CONFIGMAPS, name, patch, PatchType.MERGE, namespace=w.namespace, field_manager="somebody"
    )


@pytest.mark.case("U13")
async def test_an_edit_and_a_deletion_by_hand_are_undone_at_once(w: World) -> None:
    await deploy(w, "a", config_map("x", w.namespace, a="1"), destination=EVENTS)
    await w.until_quiet()
    await edit(w, "x", a="2")
    await until_data(w, "x", a="1")
    await edit(w, "x", a=None)
    await until_data(w, "x", a="1")
    await w.client.delete(CONFIGMAPS, "x", namespace=w.namespace)
    await until_data(w, "x", a="1")
    await w.until_quiet()
    uid = (await present(w, CONFIGMAPS, "x", w.namespace))["metadata"]["uid"]
    (entry,) = (await w.status(World.RESOURCES, "a"))["managedResources"]
    assert entry["uid"] == uid
    await until_at_rest(w, "a")


@pytest.mark.case("U13")
@pytest.mark.parametrize(
    "patch",
    [
        {"metadata": {"labels": {names.MANAGED_BY_LABEL: None}}},
        {"metadata": {"labels": {"tier": "other"}}},
        {"metadata": {"annotations": {"note": None}}},
    ],
    ids=["our label", "a label of the manifest", "an annotation of the manifest"],
)
async def test_metadata_that_the_manifest_declares_is_restored_too(w: World, patch: dict[str, Any]) -> None:
    body = config_map("x", w.namespace)
    body["metadata"] |= {"labels": {"tier": "web"}, "annotations": {"note": "1"}}
    await deploy(w, "a", body, destination=EVENTS)
    await w.until_quiet()
    await w.client.patch(CONFIGMAPS, "x", patch, PatchType.MERGE, namespace=w.namespace, field_manager="somebody")

    async def restored() -> bool:
        metadata = (await present(w, CONFIGMAPS, "x", w.namespace))["metadata"]
        labels = {"tier": "web", names.MANAGED_BY_LABEL: names.MANAGED_BY_VALUE}
        return (metadata.get("labels"), metadata.get("annotations")) == (labels, {"note": "1"})

    await until(restored)


@pytest.mark.case("U13")
async def test_without_the_option_an_edit_waits_for_the_next_pass(w: World) -> None:
    await deploy(w, "a", config_map("x", w.namespace, a="1"))
    await deploy(w, "b", config_map("y", w.namespace, a="1"), destination=EVENTS)
    await w.until_quiet()
    before, mark = await present(w, World.RESOURCES, "a"), w.plane.audit.mark()
    await edit(w, "x", a="2")
    await edit(w, "y", a="2")
    await until_data(w, "y", a="1")
    await w.until_quiet()
    assert await data(w, "x") == {"a": "2"}
    assert writes(w, mark, CONFIGMAPS, "x") == []
    assert await present(w, World.RESOURCES, "a") == before
    request = {names.RECONCILE_REQUEST_ANNOTATION: "now"}
    await w.annotate(World.RESOURCES, "a", **request)
    await until_data(w, "x", a="1")


@pytest.mark.case("U13")
async def test_a_deleted_resource_is_cleaned_up_though_status_and_generation_wake_nobody(w: World) -> None:
    await deploy(w, "a", config_map("x", w.namespace))
    assert (await present(w, World.RESOURCES, "a"))["metadata"]["finalizers"]
    await remove(w, "a")
    assert await data(w, "x") is None


async def test_an_edit_of_what_nobody_declares_is_no_drift_and_settles(w: World) -> None:
    await deploy(w, "a", config_map("x", w.namespace, a="1"), destination=EVENTS)
    await edit(w, "x", theirs="1")
    await w.until_quiet()
    assert await data(w, "x") == {"a": "1", "theirs": "1"}
    before = passes(w)
    await until_at_rest(w, "a")
    assert passes(w) <= before + 3


class Gate:
    """Holds the operator's next request of one method until it is opened."""

    def __init__(self, call: Callable[..., Awaitable[Obj]]) -> None:
        self._call = call
        self.reached, self.open = asyncio.Event(), asyncio.Event()
        self.calls = 0

    async def __call__(self, *args: Any, **options: Any) -> Obj:
        self.calls += 1
        self.reached.set()
        await self.open.wait()
        return await self._call(*args, **options)


@pytest.mark.case("U10")
async def test_edits_while_a_reconcile_runs_cause_exactly_one_more_with_the_newest(
    w: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = (await w.operator.places.open("")).to.client
    gate = Gate(client.create)
    monkeypatch.setattr(client, "create", gate)
    await w.create_resource("a", documents(config_map("x", w.namespace, a="1")))
    await gate.reached.wait()
    for value in ("2", "3"):
        await w.change(World.RESOURCES, "a", manifest=documents(config_map("x", w.namespace, a=value)))
    await w.annotate(World.RESOURCES, "a", note="of somebody else's")
    gate.open.set()
    found = await w.until_state(World.RESOURCES, "a", "Succeeded")
    await w.until_quiet()
    assert await data(w, "x") == {"a": "3"}
    assert found["status"]["observedGeneration"] == found["metadata"]["generation"] == 3
    assert passes(w) == 2


@pytest.mark.case("U11")
async def test_status_and_metadata_that_others_write_cause_no_reconcile_and_nothing_is_written(
    w: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await deploy(w, "a", config_map("x", w.namespace), destination=EVENTS)
    await w.until_quiet()
    before, mark = await present(w, World.RESOURCES, "a"), w.plane.audit.mark()
    woken: list[str] = []
    add = w.operator.resource_queue.add

    def noted(name: str, **options: Any) -> None:
        woken.append(name)
        add(name, **options)

    monkeypatch.setattr(w.operator.resource_queue, "add", noted)
    await w.annotate(World.RESOURCES, "a", note="1")
    patch = {"metadata": {"labels": {"note": "1"}}}
    await w.client.patch(World.RESOURCES, "a", patch, PatchType.MERGE)
    status = {"status": {"lastError": "somebody's"}}
    await w.client.patch(World.RESOURCES, "a", status, PatchType.MERGE, subresource="status")
    # A resource made after all that has been reconciled: so has everything that came before it.
    await deploy(w, "b", config_map("y", w.namespace))
    await w.until_quiet()
    assert set(woken) == {"b"}
    touched = [e for e in w.plane.audit.entries(since=mark, user=w.user) if e.name in ("a", "x")]
    assert touched == []
    after = await present(w, World.RESOURCES, "a")
    assert after["status"]["conditions"] == before["status"]["conditions"]


@pytest.mark.case("U11")
async def test_intervals_without_news_write_no_more_than_one_status_each(control_plane: ControlPlane) -> None:
    async with world(control_plane) as w:
        await deploy(w, "a", config_map("x", w.namespace), interval="1s")
        await w.until_quiet()
        before = (await present(w, World.RESOURCES, "a"))["status"]
        mark, count = w.plane.audit.mark(), w.reconciles(World.RESOURCES)

        def four_more() -> bool:
            return w.reconciles(World.RESOURCES) >= count + 4

        await until(four_more)
        looks = w.reconciles(World.RESOURCES) - count
        assert asked(w, mark) == []
        written = w.plane.audit.entries(since=mark, user=w.user, resource=World.RESOURCES.plural, verb="patch")
        assert len(written) <= looks + 1
        after = (await present(w, World.RESOURCES, "a"))["status"]
        assert after["conditions"] == before["conditions"]
        assert after["managedResources"] == before["managedResources"]


@pytest.mark.case("U12")
async def test_a_cache_that_is_behind_our_own_writes_creates_nothing_twice(
    control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    flows = asyncio.Event()
    flows.set()
    watch = Collection.watch

    def slow(self: Collection, *args: Any, **options: Any) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent]]:
        stream = watch(self, *args, **options)
        return held_back(stream, flows) if self.resource == World.RESOURCES else stream

    monkeypatch.setattr(Collection, "watch", slow)
    async with world(control_plane) as w:
        mark = w.plane.audit.mark()
        await w.create_resource("a", documents(config_map("x", w.namespace)))
        # From the first event of the resource on, nothing more of it arrives: not even what the operator writes.
        await until(lambda: World.RESOURCES.plural in {entry.resource for entry in writes_to(w, mark)})
        flows.clear()
        await until_data(w, "x", a="1")
        for _ in range(3):
            w.operator.resource_queue.add("a")
            await until(lambda: not w.operator.resource_queue.in_progress)
        flows.set()
        await w.until_state(World.RESOURCES, "a", "Succeeded")
        await w.until_quiet()
        assert [entry.verb for entry in writes(w, mark, CONFIGMAPS, "x")] == ["create"]
        assert [entry.uri for entry in writes_to(w, mark) if entry.code == 409] == []


@asynccontextmanager
async def held_back(
    stream: AbstractAsyncContextManager[AsyncIterator[WatchEvent]], flows: asyncio.Event
) -> AsyncIterator[AsyncIterator[WatchEvent]]:
    """The events of a watch, each only while it flows."""

    async def events(inner: AsyncIterator[WatchEvent]) -> AsyncIterator[WatchEvent]:
        async for event in inner:
            await flows.wait()
            yield event

    async with stream as inner:
        yield events(inner)


def writes_to(w: World, since: Mark) -> list[Entry]:
    """All writes of the operator's."""
    return [e for e in w.plane.audit.entries(since=since, user=w.user) if e.verb in WRITES]


@pytest.mark.case("U9")
async def test_a_spec_of_900_kb_is_reconciled_and_can_be_deleted(w: World) -> None:
    pages = [config_map(f"page-{number}", w.namespace, text="x" * 300_000) for number in range(3)]
    found = await deploy(w, "a", *pages)
    assert len(found["spec"]["manifest"]) > 900_000
    assert sum(len(value) for value in (found["metadata"].get("annotations") or {}).values()) < 200
    await w.annotate(World.RESOURCES, "a", note="1")
    await until_at_rest(w, "a")
    await remove(w, "a")
    assert await data(w, "page-2") is None

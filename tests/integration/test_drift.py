"""What counts as drift, what is done about it, and what is left to others."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.integration.kube_support import CONFIGMAPS, until
from tests.integration.world import World, config_map, documents, world

from controlplane import ControlPlane
from vidra.api import names
from vidra.kube.client import Obj, PatchType
from vidra.kube.resource import Resource

DEPLOYMENTS = Resource("apps", "v1", "Deployment", "deployments", namespaced=True)


@pytest.fixture
async def w(control_plane: ControlPlane) -> AsyncIterator[World]:
    async with world(control_plane) as w:
        yield w


def deployment(w: World, *, replicas: int | None = 1, image: str = "example/app:1") -> Obj:
    spec: Obj = {
        "selector": {"matchLabels": {"app": "one"}},
        "template": {
            "metadata": {"labels": {"app": "one"}},
            "spec": {"containers": [{"name": "main", "image": image}]},
        },
    }
    if replicas is not None:
        spec["replicas"] = replicas
    metadata = {"name": "one", "namespace": w.namespace}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


async def deployed(w: World, *objects: Obj, **spec: Any) -> Obj:
    await w.create_resource("one", documents(*objects), **spec)
    resource = await w.until_state(World.RESOURCES, "one", "Succeeded")
    await w.until_quiet()
    return resource


async def look(w: World) -> Obj:
    """Asks for a pass; the resource as that left it."""
    request = uuid.uuid4().hex
    await w.annotate(World.RESOURCES, "one", **{names.RECONCILE_REQUEST_ANNOTATION: request})

    async def answered() -> bool:
        return (await w.status(World.RESOURCES, "one")).get("lastHandledReconcileAt") == request

    await until(answered)
    await w.until_quiet()
    return await w.get(World.RESOURCES, "one") or {}


async def scale(w: World, replicas: int) -> None:
    """As an autoscaler does."""
    patch = {"spec": {"replicas": replicas}}
    await w.client.patch(
        DEPLOYMENTS, "one", patch, PatchType.MERGE, namespace=w.namespace, subresource="scale", field_manager="hpa"
    )


async def edit(w: World, patch: Obj) -> None:
    await w.client.patch(CONFIGMAPS, "one", patch, PatchType.MERGE, namespace=w.namespace, field_manager="somebody")


async def replicas(w: World) -> int:
    obj = await w.get(DEPLOYMENTS, "one", w.namespace)
    assert obj is not None
    count: int = obj["spec"]["replicas"]
    return count


async def data(w: World) -> dict[str, str] | None:
    obj = await w.get(CONFIGMAPS, "one", w.namespace)
    return None if obj is None else obj["data"]


# --- correcting


@pytest.mark.case("U13")
async def test_an_object_edited_or_deleted_by_hand_is_restored_when_it_happens(w: World) -> None:
    await deployed(w, config_map("one", w.namespace, a="1"), destination={"reconcileOnEvents": True})
    await edit(w, {"data": {"a": "by hand"}})

    async def restored() -> bool:
        return await data(w) == {"a": "1"}

    await until(restored)
    await w.client.delete(CONFIGMAPS, "one", namespace=w.namespace)
    await until(restored)


async def test_without_events_it_is_restored_at_the_next_look(w: World) -> None:
    await deployed(w, config_map("one", w.namespace, a="1"))
    await edit(w, {"data": {"a": "by hand"}})
    await w.until_quiet()
    assert await data(w) == {"a": "by hand"}
    await look(w)
    assert await data(w) == {"a": "1"}


async def test_our_own_label_comes_back(w: World) -> None:
    await deployed(w, config_map("one", w.namespace), destination={"reconcileOnEvents": True})
    await edit(w, {"metadata": {"labels": {names.MANAGED_BY_LABEL: None}}})

    async def labelled() -> bool:
        obj = await w.get(CONFIGMAPS, "one", w.namespace) or {}
        return (obj["metadata"].get("labels") or {}).get(names.MANAGED_BY_LABEL) == names.MANAGED_BY_VALUE

    await until(labelled)


async def test_what_nobody_declares_is_nobodys_drift(w: World) -> None:
    await deployed(w, deployment(w, replicas=None), config_map("two", w.namespace))
    await scale(w, 5)
    await w.annotate(DEPLOYMENTS, "one", w.namespace, note="theirs")
    await look(w)
    obj = await w.get(DEPLOYMENTS, "one", w.namespace) or {}
    assert obj["spec"]["replicas"] == 5
    assert obj["metadata"]["annotations"]["note"] == "theirs"


async def test_a_status_write_of_an_object_wakes_nobody(w: World) -> None:
    await deployed(w, deployment(w), destination={"reconcileOnEvents": True})
    before, mark = w.reconciles(World.RESOURCES), w.plane.audit.mark()
    patch = {"status": {"observedGeneration": 99}}
    await w.client.patch(DEPLOYMENTS, "one", patch, PatchType.MERGE, namespace=w.namespace, subresource="status")
    await w.until_quiet()
    assert w.reconciles(World.RESOURCES) == before
    assert w.plane.audit.count(since=mark, user=w.user) == 0


@pytest.mark.case("U11")
async def test_when_nothing_changes_nothing_is_written_but_the_answer(w: World) -> None:
    await deployed(w, deployment(w), config_map("two", w.namespace))
    await look(w)
    mark = w.plane.audit.mark()
    before = await look(w)
    assert {entry.resource for entry in w.plane.audit.entries(since=mark, user=w.user)} == {"vidraresources"}
    assert w.plane.audit.count(since=mark, user=w.user) == 1
    assert before["status"]["DeployState"] == "Succeeded"


# --- left to others


async def test_a_declared_field_is_enforced_unless_a_rule_leaves_it_to_others(w: World) -> None:
    await deployed(w, deployment(w, replicas=2))
    await scale(w, 5)
    await look(w)
    assert await replicas(w) == 2
    await w.change(World.RESOURCES, "one", ignore=[{"target": {"kind": "Deployment"}, "paths": ["/spec/replicas"]}])
    await w.until_state(World.RESOURCES, "one", "Succeeded")
    await scale(w, 5)
    await look(w)
    await w.change(World.RESOURCES, "one", manifest=documents(deployment(w, replicas=3, image="example/app:2")))
    await w.until_state(World.RESOURCES, "one", "Succeeded")
    obj = await w.get(DEPLOYMENTS, "one", w.namespace) or {}
    assert obj["spec"]["replicas"] == 5
    assert obj["spec"]["template"]["spec"]["containers"][0]["image"] == "example/app:2"


async def test_a_new_object_has_an_ignored_field_from_its_manifest(w: World) -> None:
    await deployed(w, deployment(w, replicas=3), ignore=[{"paths": ["/spec/replicas"]}])
    assert await replicas(w) == 3


async def test_a_rule_for_others_leaves_this_object_alone(w: World) -> None:
    rule = {"target": {"kind": "Deployment", "name": "another"}, "paths": ["/spec/replicas"]}
    await deployed(w, deployment(w, replicas=2), ignore=[rule])
    await scale(w, 5)
    await look(w)
    assert await replicas(w) == 2


@pytest.mark.parametrize("live", [True, False], ids=["on-the-object", "in-the-manifest"])
async def test_an_object_can_be_taken_out_of_reconciling(w: World, live: bool) -> None:
    await deployed(w, config_map("one", w.namespace, a="1"))
    changed = config_map("one", w.namespace, a="2")
    if live:
        await w.annotate(CONFIGMAPS, "one", w.namespace, **{names.RECONCILE_ANNOTATION: names.DISABLED})
    else:
        changed["metadata"]["annotations"] = {names.RECONCILE_ANNOTATION: names.DISABLED}
    await edit(w, {"data": {"a": "theirs"}})
    await w.change(World.RESOURCES, "one", manifest=documents(changed))
    resource = await w.until_state(World.RESOURCES, "one", "Succeeded")
    assert await data(w) == {"a": "theirs"}
    assert "left alone" in resource["status"]["managedResources"][0]["message"]


async def test_an_object_applied_once_is_made_and_then_left_as_it_is(w: World) -> None:
    once = config_map("one", w.namespace, a="1")
    once["metadata"]["annotations"] = {names.APPLY_ANNOTATION: names.ONCE}
    await deployed(w, once)
    assert await data(w) == {"a": "1"}
    await edit(w, {"data": {"a": "theirs"}})
    await look(w)
    assert await data(w) == {"a": "theirs"}
    await w.client.delete(World.RESOURCES, "one")
    await w.until_gone(World.RESOURCES, "one")
    assert await data(w) is None


async def test_an_object_applied_once_that_was_there_before_is_neither_touched_nor_deleted(w: World) -> None:
    await w.client.create(CONFIGMAPS, config_map("one", w.namespace, a="theirs"), namespace=w.namespace)
    once = config_map("one", w.namespace, a="1")
    once["metadata"]["annotations"] = {names.APPLY_ANNOTATION: names.ONCE}
    await deployed(w, once)
    await w.client.delete(World.RESOURCES, "one")
    await w.until_gone(World.RESOURCES, "one")
    assert await data(w) == {"a": "theirs"}


# --- only detecting


async def test_drift_that_is_only_to_be_detected_is_told_and_left(w: World) -> None:
    manifest = config_map("one", w.namespace, a="1", b="1"), config_map("two", w.namespace)
    await deployed(w, *manifest, driftPolicy="Detect")
    await edit(w, {"data": {"a": "by hand"}})
    await w.client.delete(CONFIGMAPS, "two", namespace=w.namespace)
    mark = w.plane.audit.mark()
    resource = await look(w)
    told = {item["name"]: item.get("message", "") for item in resource["status"]["managedResources"]}
    assert "data.a" in told["one"]
    assert "data.b" not in told["one"]
    assert "by hand" not in str(resource["status"])
    assert "gone" in told["two"]
    assert await data(w) == {"a": "by hand", "b": "1"}
    written = [e for e in w.plane.audit.entries(since=mark, user=w.user) if e.verb not in ("get", "list", "watch")]
    assert {(e.resource, "dryRun" in e.uri) for e in written} <= {("configmaps", True), ("vidraresources", False)}

    await w.change(World.RESOURCES, "one", driftPolicy="Correct")
    resource = await w.until_state(World.RESOURCES, "one", "Succeeded")
    assert await data(w) == {"a": "1", "b": "1"}
    assert await w.get(CONFIGMAPS, "two", w.namespace) is not None
    assert not any(item.get("message") for item in resource["status"]["managedResources"])


async def test_a_new_manifest_is_applied_although_drift_is_only_detected(w: World) -> None:
    await deployed(w, config_map("one", w.namespace, a="1"), driftPolicy="Detect")
    await w.change(World.RESOURCES, "one", manifest=documents(config_map("one", w.namespace, a="2")))
    await w.until_state(World.RESOURCES, "one", "Succeeded")
    assert await data(w) == {"a": "2"}

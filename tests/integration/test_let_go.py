"""Objects that are not deleted though nobody declares them any more: by annotation, by option, for what is in them."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator

import pytest
from tests.integration.deploy_support import (
    again,
    delete_quietly,
    deploy,
    make_namespace,
    make_sync,
    managers,
    namespace_of,
    owned,
    present,
    redeploy,
    remove,
)
from tests.integration.kube_support import CONFIGMAPS, CRDS, NAMESPACES, own_kind, serve
from tests.integration.world import SECRETS, World, config_map, documents, world

from controlplane import ControlPlane
from vidra.api import names
from vidra.kube.client import Obj


@pytest.fixture
async def w(control_plane: ControlPlane) -> AsyncIterator[World]:
    async with world(control_plane) as w:
        yield w


@pytest.fixture
async def team(w: World) -> AsyncIterator[str]:
    """The name of a Namespace that nobody else has; it goes with the test."""
    name = f"team-{uuid.uuid4().hex[:8]}"
    yield name
    await delete_quietly(w, NAMESPACES, name)


async def assert_released(w: World, name: str, **data: str) -> None:
    """The ConfigMap has all its fields and nothing of Vidra's."""
    obj = await present(w, CONFIGMAPS, name, w.namespace)
    assert obj["data"] == data, obj
    assert names.MANAGED_BY_LABEL not in (obj["metadata"].get("labels") or {})
    assert not [manager for manager in managers(obj) if manager.startswith(names.MANAGER_PREFIX)]


@pytest.mark.case("D09")
@pytest.mark.parametrize("annotation", [names.PRUNE_ANNOTATION, names.RECONCILE_ANNOTATION])
async def test_what_somebody_annotated_by_hand_is_let_go(w: World, annotation: str) -> None:
    await deploy(w, "a", config_map("x", w.namespace), config_map("y", w.namespace))
    await w.annotate(CONFIGMAPS, "x", w.namespace, **{annotation: names.DISABLED})
    found = await redeploy(w, "a", config_map("y", w.namespace))
    assert [item["name"] for item in found["status"]["managedResources"]] == ["y"]
    await assert_released(w, "x", a="1")
    mark = w.plane.audit.mark()
    await again(w, "a")
    assert not [entry for entry in w.plane.audit.entries(since=mark, user=w.user) if entry.name == "x"]
    await remove(w, "a")
    await assert_released(w, "x", a="1")


@pytest.mark.case("D09")
async def test_what_its_manifest_annotated_is_let_go_with_the_resource(w: World) -> None:
    kept = config_map("x", w.namespace)
    kept["metadata"]["annotations"] = {names.PRUNE_ANNOTATION: names.DISABLED}
    await deploy(w, "a", kept, config_map("y", w.namespace))
    await remove(w, "a")
    await assert_released(w, "x", a="1")
    assert await w.get(CONFIGMAPS, "y", w.namespace) is None


async def test_orphans_keep_every_field(w: World) -> None:
    await deploy(w, "a", config_map("x", w.namespace, a="1", b="2"), deletionPolicy="Orphan")
    await remove(w, "a")
    await assert_released(w, "x", a="1", b="2")


async def test_orphan_is_about_the_resource_and_not_about_what_leaves_its_manifest(w: World) -> None:
    await deploy(w, "a", config_map("x", w.namespace), config_map("y", w.namespace), deletionPolicy="Orphan")
    await redeploy(w, "a", config_map("y", w.namespace))
    assert await w.get(CONFIGMAPS, "x", w.namespace) is None


async def test_without_pruning_an_object_stays_and_is_known_until_the_resource_goes(w: World) -> None:
    await deploy(w, "a", config_map("x", w.namespace), config_map("y", w.namespace), prune=False)
    found = await redeploy(w, "a", config_map("y", w.namespace))
    assert {item["name"] for item in found["status"]["managedResources"]} == {"x", "y"}
    await again(w, "a")
    await present(w, CONFIGMAPS, "x", w.namespace)
    await w.change(World.RESOURCES, "a", prune=True)
    found = await w.until_state(World.RESOURCES, "a", "Succeeded")
    assert {item["name"] for item in found["status"]["managedResources"]} == {"y"}
    assert await w.get(CONFIGMAPS, "x", w.namespace) is None


async def test_a_deleted_resource_leaves_nothing_behind_and_nothing_of_others(w: World, team: str) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": w.namespace}}
    await w.client.create(CONFIGMAPS, config_map("theirs"), namespace=w.namespace)
    await deploy(w, "a", namespace_of(team), config_map("x", team), config_map("x", w.namespace), secret)
    await deploy(w, "b", config_map("b", w.namespace))
    await remove(w, "a")
    assert await w.get(NAMESPACES, team) is None
    assert {obj["metadata"]["name"] for obj in await w.all(CONFIGMAPS, w.namespace)} - {"kube-root-ca.crt"} == {
        "theirs",
        "b",
    }
    assert await w.get(SECRETS, "s", w.namespace) is None


# --- Namespaces


async def test_a_namespace_with_contents_of_others_is_let_go(w: World, team: str) -> None:
    await deploy(w, "a", namespace_of(team, tier="web"), config_map("x", team))
    await w.client.create(CONFIGMAPS, config_map("theirs"), namespace=team)
    await remove(w, "a")
    left = await present(w, NAMESPACES, team)
    assert left["metadata"]["labels"]["tier"] == "web"
    assert names.MANAGED_BY_LABEL not in left["metadata"]["labels"]
    assert await w.get(CONFIGMAPS, "x", team) is None
    await present(w, CONFIGMAPS, "theirs", team)


async def test_a_namespace_that_was_there_before_is_let_go(w: World, team: str) -> None:
    await make_namespace(w, team)
    await deploy(w, "a", namespace_of(team), config_map("x", team), adopt=True)
    await remove(w, "a")
    await present(w, NAMESPACES, team)
    assert await w.get(CONFIGMAPS, "x", team) is None


async def test_a_namespace_with_contents_of_another_sync_is_let_go(w: World, team: str) -> None:
    one, two = await make_sync(w, "one"), await make_sync(w, "two")
    await deploy(w, "a", namespace_of(team), metadata=owned(one))
    await deploy(w, "b", config_map("x", team), metadata=owned(two))
    await remove(w, "a")
    assert "deletionTimestamp" not in (await present(w, NAMESPACES, team))["metadata"]
    await present(w, CONFIGMAPS, "x", team)
    await remove(w, "b")


async def test_a_namespace_with_contents_of_another_resource_of_the_sync_is_let_go(w: World, team: str) -> None:
    one = await make_sync(w, "one")
    await deploy(w, "a", namespace_of(team), config_map("a", team), metadata=owned(one))
    await deploy(w, "b", config_map("b", team), metadata=owned(one))
    await remove(w, "a")
    assert "deletionTimestamp" not in (await present(w, NAMESPACES, team))["metadata"]
    assert await w.get(CONFIGMAPS, "a", team) is None
    await present(w, CONFIGMAPS, "b", team)


async def test_a_namespace_and_what_another_resource_of_the_sync_has_in_it_go_together(w: World, team: str) -> None:
    one = await make_sync(w, "one")
    await deploy(w, "a", namespace_of(team), metadata=owned(one))
    for number in range(8):
        await deploy(w, f"b{number}", config_map(f"b{number}", team), metadata=owned(one))
    await w.client.delete(World.SYNCS, "one")
    await w.until_gone(World.SYNCS, "one", timeout=40.0)
    assert await w.get(NAMESPACES, team) is None
    assert await w.all(World.RESOURCES) == []


# --- kinds


async def test_an_object_whose_kind_is_gone_is_gone_too(w: World) -> None:
    kind, definition = own_kind()
    await serve(w.client, kind, definition)
    thing = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "x", "namespace": w.namespace}}
    await deploy(w, "a", thing, config_map("y", w.namespace))
    await deploy(w, "b", thing | {"metadata": {"name": "z", "namespace": w.namespace}})
    await w.client.delete(CRDS, definition["metadata"]["name"])
    await w.until_gone(CRDS, definition["metadata"]["name"])
    await w.change(World.RESOURCES, "a", manifest=documents(config_map("y", w.namespace)))
    found = await w.until_state(World.RESOURCES, "a", "Succeeded")
    assert [item["name"] for item in found["status"]["managedResources"]] == ["y"]
    await remove(w, "b")


async def test_a_definition_and_its_objects_go_together(w: World) -> None:
    kind, definition = own_kind()
    thing = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "x", "namespace": w.namespace}}
    await deploy(w, "a", thing, definition)
    await remove(w, "a")
    assert await w.get(CRDS, definition["metadata"]["name"]) is None


async def test_a_definition_whose_objects_others_made_is_let_go(w: World) -> None:
    kind, definition = own_kind()
    thing = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "x", "namespace": w.namespace}}
    theirs: Obj = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "theirs"}}
    await deploy(w, "a", thing, definition)
    await w.client.create(kind, theirs, namespace=w.namespace)
    await remove(w, "a")
    await present(w, kind, "theirs", w.namespace)
    assert await w.get(kind, "x", w.namespace) is None
    await w.client.delete(CRDS, definition["metadata"]["name"])

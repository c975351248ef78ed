"""Which object a manifest means: its scope and namespace, objects declared twice, kinds that aren't served."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator

import pytest
from tests.integration.deploy_support import (
    JOBS,
    again,
    assert_at_rest,
    delete_quietly,
    deploy,
    job,
    make_sync,
    owned,
    present,
    redeploy,
    remove,
    until_at_rest,
    writes,
)
from tests.integration.kube_support import CONFIGMAPS, CRDS, NAMESPACES, own_kind
from tests.integration.world import World, config_map, documents, world

from controlplane import ControlPlane
from vidra.kube.client import Obj
from vidra.kube.resource import Resource

CLUSTER_ROLES = Resource("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", namespaced=False)
POD_SECURITY_POLICY = {"apiVersion": "policy/v1beta1", "kind": "PodSecurityPolicy", "metadata": {"name": "gone"}}


@pytest.fixture
async def w(control_plane: ControlPlane) -> AsyncIterator[World]:
    async with world(control_plane) as w:
        yield w


def inventory(resource: Obj) -> set[tuple[str, str, str]]:
    """(kind, namespace, name) of each entry."""
    items = resource["status"].get("managedResources") or ()
    return {(item["kind"], item.get("namespace", ""), item["name"]) for item in items}


@pytest.mark.case("I01")
async def test_a_generated_name_is_refused_before_anything_is_applied_on_every_pass(w: World) -> None:
    run = job("", w.namespace)
    run["metadata"] = {"generateName": "run-", "namespace": w.namespace}
    refused = await deploy(w, "a", config_map("page", w.namespace), run, state="Failed")
    after = await again(w, "a")
    assert "document 2" in after["status"]["lastError"]
    assert "generateName cannot be reconciled" in after["status"]["lastError"]
    assert after["status"]["lastError"] == refused["status"]["lastError"]
    assert after["status"].get("lastSyncTime") is None
    assert await w.all(JOBS, w.namespace) == []
    assert await w.get(CONFIGMAPS, "page", w.namespace) is None


@pytest.mark.case("I01")
async def test_a_manifest_that_can_not_be_read_leaves_all_of_the_former_one(w: World) -> None:
    before = await deploy(w, "a", config_map("page", w.namespace))
    run = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"generateName": "run-"}}
    after = await redeploy(w, "a", run, state="Failed")
    assert (await present(w, CONFIGMAPS, "page", w.namespace))["data"] == {"a": "1"}
    assert after["status"]["managedResources"] == before["status"]["managedResources"]
    assert after["status"]["lastSyncTime"] == before["status"]["lastSyncTime"]


@pytest.mark.case("I02")
async def test_an_object_without_namespace_goes_to_that_of_the_destination_and_others_stay(w: World) -> None:
    name = f"role-{uuid.uuid4().hex[:8]}"
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}}
    found = await deploy(
        w, "a", config_map("here"), config_map("there", "default"), role, destination={"namespace": w.namespace}
    )
    assert inventory(found) == {
        ("ConfigMap", w.namespace, "here"),
        ("ConfigMap", "default", "there"),
        ("ClusterRole", "", name),
    }
    await present(w, CONFIGMAPS, "here", w.namespace)
    await present(w, CONFIGMAPS, "there", "default")
    await assert_at_rest(w, "a")
    await remove(w, "a")
    assert await w.get(CONFIGMAPS, "there", "default") is None
    assert await w.get(CLUSTER_ROLES, name) is None


@pytest.mark.case("I02")
async def test_without_any_namespace_it_is_default_as_for_kubectl(w: World) -> None:
    name = f"page-{uuid.uuid4().hex[:8]}"
    found = await deploy(w, "a", config_map(name))
    assert inventory(found) == {("ConfigMap", "default", name)}
    await remove(w, "a")
    assert await w.get(CONFIGMAPS, name, "default") is None


async def test_a_cluster_scoped_object_with_a_namespace_in_it_has_none(w: World) -> None:
    name = f"role-{uuid.uuid4().hex[:8]}"
    metadata = {"name": name, "namespace": w.namespace}
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata}
    found = await deploy(w, "a", role, destination={"namespace": w.namespace})
    assert inventory(found) == {("ClusterRole", "", name)}
    await assert_at_rest(w, "a")
    await remove(w, "a")


async def test_another_namespace_of_the_destination_moves_what_names_none(w: World) -> None:
    other = f"{w.namespace}-2"
    await w.client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}})
    await deploy(w, "a", config_map("page"), config_map("fixed", w.namespace), destination={"namespace": w.namespace})
    await w.change(World.RESOURCES, "a", destination={"namespace": other})
    found = await w.until_state(World.RESOURCES, "a", "Succeeded")
    assert inventory(found) == {("ConfigMap", other, "page"), ("ConfigMap", w.namespace, "fixed")}
    await present(w, CONFIGMAPS, "page", other)
    assert await w.get(CONFIGMAPS, "page", w.namespace) is None
    await w.client.delete(NAMESPACES, other)


async def test_an_object_for_a_namespace_that_is_missing_arrives_when_it_is_there(w: World) -> None:
    other = f"{w.namespace}-later"
    failed = await deploy(w, "a", config_map("page", other), config_map("page", w.namespace), state="Failed")
    assert f'namespaces "{other}" not found' in failed["status"]["lastError"]
    await present(w, CONFIGMAPS, "page", w.namespace)
    await w.client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}})
    await w.until_state(World.RESOURCES, "a", "Succeeded", timeout=60.0)
    await present(w, CONFIGMAPS, "page", other)
    await w.client.delete(NAMESPACES, other)


@pytest.mark.case("I05")
@pytest.mark.parametrize("written", [("default", "default"), (None, None), (None, "default"), ("default", None)])
async def test_an_object_declared_twice_is_refused_naming_both(w: World, written: tuple[str | None, ...]) -> None:
    first, second = written
    name = f"twice-{uuid.uuid4().hex[:8]}"
    found = await deploy(w, "a", config_map(name, first, a="1"), config_map(name, second, a="2"), state="Failed")
    assert "document 2" in found["status"]["lastError"]
    assert "also by document 1" in found["status"]["lastError"]
    assert not found["status"].get("managedResources")
    assert await w.get(CONFIGMAPS, name, "default") is None


async def test_a_kind_in_two_versions_is_one_object(w: World) -> None:
    hpa = {"kind": "HorizontalPodAutoscaler", "metadata": {"name": "web", "namespace": w.namespace}}
    spec = {"maxReplicas": 2, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}
    first = {"apiVersion": "autoscaling/v1", **hpa, "spec": spec}
    second = {"apiVersion": "autoscaling/v2", **hpa, "spec": spec}
    found = await deploy(w, "a", first, second, state="Failed")
    assert "declared twice" in found["status"]["lastError"]
    found = await redeploy(w, "a", first)
    uid = found["status"]["managedResources"][0]["uid"]
    found = await redeploy(w, "a", second)
    (entry,) = found["status"]["managedResources"]
    assert (entry["apiVersion"], entry["uid"]) == ("autoscaling/v2", uid)


@pytest.mark.case("I07")
async def test_two_syncs_with_one_namespace_share_it_and_disagree_on_what_is_in_it_alone(w: World) -> None:
    team = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"{w.namespace}-team"}}
    place = f"{w.namespace}-team"
    one = await make_sync(w, "one")
    await deploy(w, "a", team, config_map("shared", place, a="1"), metadata=owned(one))
    for adopt in (False, True):
        await w.create_resource(f"b-{adopt}".lower(), documents(team, config_map("shared", place, a="2")), adopt=adopt)
        await w.change(World.RESOURCES, f"b-{adopt}".lower(), force=adopt)
        found = await w.until_state(World.RESOURCES, f"b-{adopt}".lower(), "Failed")
        assert "InfrahubSync one" in found["status"]["lastError"]
        assert (await present(w, CONFIGMAPS, "shared", place))["data"] == {"a": "1"}
        await remove(w, f"b-{adopt}".lower())

    assert (await present(w, CONFIGMAPS, "shared", place))["data"] == {"a": "1"}
    await remove(w, "a")
    await w.until_gone(NAMESPACES, place)


@pytest.mark.case("I13")
async def test_a_kind_that_is_not_served_is_reported_and_keeps_nothing_else(w: World) -> None:
    found = await deploy(w, "a", POD_SECURITY_POLICY, config_map("page", w.namespace), state="Failed")
    assert "PodSecurityPolicy in policy/v1beta1 is not served" in found["status"]["lastError"]
    assert "document 1" in found["status"]["lastError"]
    assert inventory(found) == {("ConfigMap", w.namespace, "page")}
    await present(w, CONFIGMAPS, "page", w.namespace)


@pytest.mark.case("I13")
async def test_a_version_that_is_gone_is_told_with_those_that_are_served(w: World) -> None:
    found = await deploy(
        w, "a", {"apiVersion": "apps/v1beta1", "kind": "Deployment", "metadata": {"name": "x"}}, state="Failed"
    )
    assert "Deployment in apps/v1beta1 is not served by this cluster (served: apps/v1)" in found["status"]["lastError"]


@pytest.mark.case("I13")
async def test_a_kind_that_comes_to_be_served_needs_no_restart(w: World) -> None:
    kind, definition = own_kind()
    thing = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "x", "namespace": w.namespace}}
    await deploy(w, "a", thing, config_map("page", w.namespace), state="Failed")
    mark = w.plane.audit.mark()
    await w.client.create(CRDS, definition)
    await w.until_state(World.RESOURCES, "a", "Succeeded", timeout=60.0)
    assert (await present(w, kind, "x", w.namespace))["metadata"]["name"] == "x"
    assert writes(w, mark, CONFIGMAPS) == []
    await until_at_rest(w, "a")
    await remove(w, "a")
    await delete_quietly(w, CRDS, definition["metadata"]["name"])

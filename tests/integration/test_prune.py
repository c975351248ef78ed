"""What leaves a manifest leaves the cluster: what is deleted, what is let go instead, and what stands in the way."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.integration.deploy_support import (
    JOBS,
    again,
    asked,
    delete_quietly,
    deploy,
    job,
    present,
    redeploy,
    remove,
    writes,
)
from tests.integration.kube_support import CONFIGMAPS, CRDS, own_kind, serve, until
from tests.integration.world import World, config_map, documents, world

from controlplane import ControlPlane
from vidra.api import names
from vidra.kube.client import Obj, PatchType
from vidra.kube.errors import ApiError
from vidra.kube.resource import Resource

PODS = Resource("", "v1", "Pod", "pods", namespaced=True)
_GROUP = "admissionregistration.k8s.io"
POLICIES = Resource(_GROUP, "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", namespaced=False)
BINDINGS = Resource(
    _GROUP, "v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", namespaced=False
)


@pytest.fixture
async def w(control_plane: ControlPlane) -> AsyncIterator[World]:
    async with world(control_plane) as w:
        yield w


async def names_in(w: World) -> set[str]:
    """The ConfigMaps that a test's resources made."""
    return {obj["metadata"]["name"] for obj in await w.all(CONFIGMAPS, w.namespace)} - {"kube-root-ca.crt"}


def inventory(resource: Obj) -> dict[str, Obj]:
    """The entries by name."""
    return {item["name"]: item for item in resource["status"].get("managedResources") or ()}


def reason(resource: Obj) -> str:
    found: str = next(c["reason"] for c in resource["status"]["conditions"] if c["type"] == "Ready")
    return found


async def deny_deletion(w: World, namespace: str) -> None:
    """An admission policy that lets nobody delete a ConfigMap of the namespace."""
    name = f"keep-{namespace}"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["configmaps"]}
    policy = {
        "apiVersion": POLICIES.api_version,
        "kind": POLICIES.kind,
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": f"oldObject.metadata.namespace != '{namespace}'", "message": "kept by law"}],
        },
    }
    binding = {
        "apiVersion": BINDINGS.api_version,
        "kind": BINDINGS.kind,
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }
    await w.client.create(POLICIES, policy)
    await w.client.create(BINDINGS, binding)
    await w.client.create(CONFIGMAPS, config_map("probe"), namespace=namespace)

    async def denied() -> bool:
        try:
            await w.client.delete(CONFIGMAPS, "probe", namespace=namespace, dry_run=True)
        except ApiError as error:
            return "kept by law" in error.message
        return False

    await until(denied)


async def allow_deletion(w: World, namespace: str) -> None:
    await delete_quietly(w, BINDINGS, f"keep-{namespace}")
    await delete_quietly(w, POLICIES, f"keep-{namespace}")

    async def allowed() -> bool:
        try:
            await w.client.delete(CONFIGMAPS, "probe", namespace=namespace)
        except ApiError as error:
            return error.not_found
        return True

    await until(allowed)


async def test_what_leaves_the_manifest_is_deleted_and_the_rest_is_not_touched(w: World) -> None:
    await deploy(w, "a", *(config_map(name, w.namespace) for name in "xyz"))
    mark = w.plane.audit.mark()
    found = await redeploy(w, "a", config_map("y", w.namespace))
    assert await names_in(w) == {"y"}
    assert inventory(found).keys() == {"y"}
    assert [entry.name for entry in asked(w, mark) if entry.name == "y"] == []


@pytest.mark.case("D03")
async def test_a_refused_deletion_stays_in_the_inventory_with_the_reason_until_it_is_allowed(w: World) -> None:
    await deploy(w, "a", config_map("x", w.namespace), config_map("y", w.namespace), retryInterval="1s")
    await deny_deletion(w, w.namespace)
    try:
        mark = w.plane.audit.mark()
        found = await redeploy(w, "a", config_map("y", w.namespace), state="Failed")
        assert reason(found) == "PruneFailed"
        assert "kept by law" in found["status"]["lastError"]
        assert "ConfigMap" in found["status"]["lastError"]
        assert inventory(found).keys() == {"x", "y"}
        assert "kept by law" in inventory(found)["x"]["message"]
        assert len(writes(w, mark, CONFIGMAPS, "x")) <= 2  # one in each pass, of which there may be two by now
        await again(w, "a")
        assert await names_in(w) >= {"x", "y"}
    finally:
        await allow_deletion(w, w.namespace)
    found = await w.until_state(World.RESOURCES, "a", "Succeeded")
    assert inventory(found).keys() == {"y"}
    assert await names_in(w) == {"y"}


@pytest.mark.case("D03")
async def test_a_refused_deletion_keeps_a_deleted_resource_until_it_is_allowed(w: World) -> None:
    await deploy(w, "a", config_map("x", w.namespace), retryInterval="1s")
    await deny_deletion(w, w.namespace)
    try:
        await w.client.delete(World.RESOURCES, "a")
        found = await w.until_state(World.RESOURCES, "a", "Failed")
        assert reason(found) == "PruneFailed"
        assert "kept by law" in found["status"]["lastError"]
    finally:
        await allow_deletion(w, w.namespace)
    await again_or_gone(w, "a")
    await w.until_gone(World.RESOURCES, "a")
    assert await names_in(w) == set()


async def again_or_gone(w: World, name: str) -> None:
    """Asks for a pass of a resource that may be gone before it answers."""
    try:
        await w.annotate(World.RESOURCES, name, **{names.RECONCILE_REQUEST_ANNOTATION: "now"})
    except ApiError as error:
        if not error.not_found:
            raise


@pytest.mark.case("D04")
async def test_an_object_held_by_a_finalizer_is_told_and_holds_nothing_else(w: World) -> None:
    kind, definition = own_kind()
    await serve(w.client, kind, definition)
    held = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": "held", "namespace": w.namespace, "finalizers": ["example.test/nobody"]},
    }
    await deploy(w, "a", held, config_map("x", w.namespace))
    mark = w.plane.audit.mark()
    found = await redeploy(w, "a", config_map("y", w.namespace))
    assert await names_in(w) == {"y"}
    assert inventory(found).keys() == {"held", "y"}
    told = "terminating, waiting for finalizer example.test/nobody"
    assert told in inventory(found)["held"]["message"]
    assert told in next(c["message"] for c in found["status"]["conditions"] if c["type"] == "Ready")
    for _ in range(3):
        await again(w, "a")
    assert [entry.verb for entry in writes(w, mark, kind)] == ["delete"]
    await w.client.patch(kind, "held", {"metadata": {"finalizers": None}}, PatchType.MERGE, namespace=w.namespace)

    async def forgotten() -> bool:
        return inventory(await present(w, World.RESOURCES, "a")).keys() == {"y"}

    await until(forgotten)
    await remove(w, "a")
    await delete_quietly(w, CRDS, definition["metadata"]["name"])


@pytest.mark.case("D04")
async def test_an_object_that_is_going_is_made_anew_when_it_is_gone(w: World) -> None:
    page = config_map("x", w.namespace)
    page["metadata"]["finalizers"] = ["example.test/nobody"]
    await deploy(w, "a", page)
    await w.client.delete(CONFIGMAPS, "x", namespace=w.namespace)
    found = await again(w, "a")
    assert "it is being deleted, waiting for example.test/nobody" in found["status"]["lastError"]
    await w.client.patch(CONFIGMAPS, "x", {"metadata": {"finalizers": None}}, PatchType.MERGE, namespace=w.namespace)
    await w.until_state(World.RESOURCES, "a", "Succeeded")
    uid = (await present(w, CONFIGMAPS, "x", w.namespace))["metadata"]["uid"]
    assert inventory(await present(w, World.RESOURCES, "a"))["x"]["uid"] == uid
    await w.client.patch(CONFIGMAPS, "x", {"metadata": {"finalizers": None}}, PatchType.MERGE, namespace=w.namespace)


@pytest.mark.case("D07")
async def test_a_jobs_pods_go_with_it(w: World) -> None:
    await deploy(w, "a", job("run", w.namespace))

    async def has_pods() -> bool:
        return bool(await w.all(PODS, w.namespace))

    await until(has_pods)
    await w.change(World.RESOURCES, "a", manifest=documents(config_map("x", w.namespace)))
    await w.until_gone(JOBS, "run", w.namespace)

    async def no_pods() -> bool:
        return not [pod for pod in await w.all(PODS, w.namespace) if "deletionTimestamp" not in pod["metadata"]]

    await until(no_pods, timeout=60.0)


@pytest.mark.case("D10")
@pytest.mark.parametrize("text", ["", "# nothing left\n", "---\n# a\n---\n\n", "\ufeff\n"])
async def test_a_manifest_without_objects_prunes_nothing_until_that_is_allowed(w: World, text: str) -> None:
    before = await deploy(w, "a", config_map("x", w.namespace))
    await w.change(World.RESOURCES, "a", manifest=text)
    found = await w.until_state(World.RESOURCES, "a", "Failed")
    assert reason(found) == "ManifestEmpty"
    assert "the 1 objects of the last one stay. Set spec.allowEmpty" in found["status"]["lastError"]
    assert inventory(found) == inventory(before)
    assert found["status"]["lastSyncTime"] == before["status"]["lastSyncTime"]
    assert await names_in(w) == {"x"}
    await w.change(World.RESOURCES, "a", allowEmpty=True)
    found = await w.until_state(World.RESOURCES, "a", "Succeeded")
    assert inventory(found) == {}
    assert await names_in(w) == set()


@pytest.mark.case("D10")
@pytest.mark.parametrize("text", ["<html><body>sign in</body></html>", "just words", '{"error": "none"}', "a: [1,"])
async def test_what_is_no_manifest_prunes_nothing_whatever_is_allowed(w: World, text: str) -> None:
    await deploy(w, "a", config_map("x", w.namespace), allowEmpty=True)
    await w.change(World.RESOURCES, "a", manifest=text)
    found = await w.until_state(World.RESOURCES, "a", "Failed")
    assert reason(found) == "ManifestInvalid"
    assert inventory(found).keys() == {"x"}
    assert await names_in(w) == {"x"}

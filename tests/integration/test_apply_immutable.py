"""Fields that can't change: refused by default, the object made anew where that is asked for, some kinds never."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.integration.deploy_support import (
    DEPLOYMENTS,
    JOBS,
    SERVICES,
    again,
    assert_at_rest,
    deploy,
    deployment,
    job,
    make_sync,
    owned,
    present,
    redeploy,
    remove,
    until_at_rest,
    writes,
)
from tests.integration.kube_support import CONFIGMAPS
from tests.integration.world import SECRETS, World, config_map, world

from controlplane import ControlPlane
from vidra.api import names
from vidra.kube.client import Obj
from vidra.kube.resource import Resource

CLAIMS = Resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", namespaced=True)
STATEFUL_SETS = Resource("apps", "v1", "StatefulSet", "statefulsets", namespaced=True)
BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings", namespaced=True)
CLASSES = Resource("storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False)
PRIORITIES = Resource("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", namespaced=False)
INGRESS_CLASSES = Resource("networking.k8s.io", "v1", "IngressClass", "ingressclasses", namespaced=False)
DAEMON_SETS = Resource("apps", "v1", "DaemonSet", "daemonsets", namespaced=True)
FORCED = {"annotations": {names.FORCE_ANNOTATION: names.ENABLED}}


@pytest.fixture
async def w(control_plane: ControlPlane) -> AsyncIterator[World]:
    async with world(control_plane) as w:
        yield w


def forced(obj: Obj) -> Obj:
    return obj | {"metadata": obj["metadata"] | FORCED}


def stateful_set(w: World, size: str) -> Obj:
    body = deployment("db", w.namespace) | {"kind": "StatefulSet"}
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    claim = {"metadata": {"name": "data"}, "spec": wanted}
    body["spec"] |= {"serviceName": "db", "volumeClaimTemplates": [claim]}
    return body


def pairs(w: World) -> dict[str, tuple[Resource, Obj, Obj]]:
    """By name: an object as it is first, and with another value in a field that can't change."""
    unique = f"x-{w.namespace}"
    inside = {"name": "x", "namespace": w.namespace}

    def of(resource: Resource, first: Any, then: Any) -> tuple[Resource, Obj, Obj]:
        head: Obj = {"apiVersion": resource.api_version, "kind": resource.kind}
        head["metadata"] = inside if resource.namespaced else {"name": unique}
        return resource, head | first, head | then

    def role(name: str) -> Obj:
        return {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}}

    def data(value: str) -> Obj:
        return {"immutable": True, "data": {"a": value}}

    web = deployment("x", w.namespace)
    other = deployment("x", w.namespace, labels={"app": "other"})
    return {
        "job": (JOBS, job("x", w.namespace), job("x", w.namespace, image="example.test/run:2")),
        "deployment": (DEPLOYMENTS, web, other),
        "daemon set": of(DAEMON_SETS, {"spec": web["spec"]}, {"spec": other["spec"]}),
        "stateful set": (STATEFUL_SETS, stateful_set(w, "1Gi"), stateful_set(w, "2Gi")),
        "config map": of(CONFIGMAPS, data("1"), data("2")),
        "secret": of(SECRETS, {"type": "Opaque"}, {"type": "example.test/other"}),
        "service": of(
            SERVICES,
            {"spec": {"ports": [{"port": 80}]}},
            {"spec": {"clusterIP": "None", "ports": [{"port": 80}]}},
        ),
        "role binding": of(BINDINGS, role("one"), role("two")),
        "storage class": of(CLASSES, {"provisioner": "example.test/a"}, {"provisioner": "example.test/b"}),
        "class parameters": of(
            CLASSES,
            {"provisioner": "example.test/a", "parameters": {"a": "1"}},
            {"provisioner": "example.test/a", "parameters": {"a": "2"}},
        ),
        "priority class": of(PRIORITIES, {"value": 1}, {"value": 2}),
        "ingress class": of(
            INGRESS_CLASSES,
            {"spec": {"controller": "example.test/a"}},
            {"spec": {"controller": "example.test/b"}},
        ),
    }


KINDS = (
    "job",
    "deployment",
    "daemon set",
    "stateful set",
    "config map",
    "secret",
    "service",
    "role binding",
    "storage class",
    "class parameters",
    "priority class",
    "ingress class",
)


def place(w: World, resource: Resource, obj: Obj) -> tuple[Resource, str, str | None]:
    return resource, obj["metadata"]["name"], w.namespace if resource.namespaced else None


@pytest.mark.case("A14")
@pytest.mark.parametrize("kind", KINDS)
async def test_a_field_that_can_not_change_fails_its_object_alone_and_recreates_it_when_forced(
    w: World, kind: str
) -> None:
    resource, first, then = pairs(w)[kind]
    await deploy(w, "a", first, config_map("page", w.namespace, a="1"))
    before = await present(w, *place(w, resource, first))
    mark = w.plane.audit.mark()
    refused = await redeploy(w, "a", then, config_map("page", w.namespace, a="2"), state="Failed")
    text = refused["status"]["lastError"]
    assert f"to delete and create it anew, annotate the object {names.FORCE_ANNOTATION}=enabled" in text
    assert "document 1" in text
    assert len(text) < 1000
    assert (await present(w, CONFIGMAPS, "page", w.namespace))["data"] == {"a": "2"}
    assert (await present(w, *place(w, resource, first)))["metadata"]["uid"] == before["metadata"]["uid"]
    assert [entry for entry in writes(w, mark, resource) if entry.verb == "delete"] == []
    forcing = await redeploy(w, "a", forced(then), config_map("page", w.namespace, a="2"))
    after = await present(w, *place(w, resource, first))
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    entries = {item["name"]: item for item in forcing["status"]["managedResources"]}
    assert entries[first["metadata"]["name"]]["uid"] == after["metadata"]["uid"]
    await until_at_rest(w, "a")
    await remove(w, "a")
    assert await w.get(*place(w, resource, first)) is None


@pytest.mark.case("A14")
async def test_force_of_the_whole_resource_recreates_what_must_be_and_nothing_else(w: World) -> None:
    run, page = job("run", w.namespace), config_map("page", w.namespace)
    await deploy(w, "a", run, page, force=True)
    uid = (await present(w, CONFIGMAPS, "page", w.namespace))["metadata"]["uid"]
    before = (await present(w, JOBS, "run", w.namespace))["metadata"]["uid"]
    await redeploy(w, "a", job("run", w.namespace, image="example.test/run:2"), page)
    found = await present(w, JOBS, "run", w.namespace)
    assert found["metadata"]["uid"] != before
    assert found["spec"]["template"]["spec"]["containers"][0]["image"] == "example.test/run:2"
    assert (await present(w, CONFIGMAPS, "page", w.namespace))["metadata"]["uid"] == uid


@pytest.mark.case("A14")
async def test_an_error_that_is_no_immutable_field_recreates_nothing(w: World) -> None:
    await deploy(w, "a", deployment("web", w.namespace), force=True)
    before = (await present(w, DEPLOYMENTS, "web", w.namespace))["metadata"]["uid"]
    await redeploy(w, "a", deployment("web", w.namespace, replicas=-1), state="Failed")
    assert (await present(w, DEPLOYMENTS, "web", w.namespace))["metadata"]["uid"] == before


@pytest.mark.case("A14")
async def test_a_claim_is_never_recreated(w: World) -> None:
    def claim(mode: str) -> Obj:
        spec = {"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}}
        metadata = {"name": "data", "namespace": w.namespace}
        return forced({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec})

    await deploy(w, "a", claim("ReadWriteOnce"), force=True)
    before = (await present(w, CLAIMS, "data", w.namespace))["metadata"]["uid"]
    refused = await redeploy(w, "a", claim("ReadWriteMany"), state="Failed")
    assert "PersistentVolumeClaims are never recreated" in refused["status"]["lastError"]
    assert (await present(w, CLAIMS, "data", w.namespace))["metadata"]["uid"] == before


@pytest.mark.case("A17")
async def test_claim_templates_are_at_rest_and_a_change_of_them_is_reported(w: World) -> None:
    await deploy(w, "a", stateful_set(w, "1Gi"))
    await until_at_rest(w, "a")
    mark = w.plane.audit.mark()
    await again(w, "a")
    assert writes(w, mark, STATEFUL_SETS) == []
    refused = await redeploy(w, "a", stateful_set(w, "2Gi"), state="Failed")
    assert "updates to statefulset spec for fields other than" in refused["status"]["lastError"]
    await redeploy(w, "a", stateful_set(w, "1Gi"))
    await assert_at_rest(w, "a")


async def test_an_object_that_another_sync_declares_too_is_not_recreated(w: World) -> None:
    one, two = await make_sync(w, "one"), await make_sync(w, "two")
    name = f"x-{uuid.uuid4().hex[:8]}"
    head = {"apiVersion": CLASSES.api_version, "kind": CLASSES.kind, "metadata": {"name": name}}
    await deploy(w, "a", head | {"provisioner": "example.test/a"}, metadata=owned(one))
    await deploy(w, "b", head | {"provisioner": "example.test/a"}, metadata=owned(two), force=True)
    before = (await present(w, CLASSES, name))["metadata"]["uid"]
    more = head | {"provisioner": "example.test/a", "parameters": {"a": "1"}}
    refused = await redeploy(w, "b", more, state="Failed")
    assert "InfrahubSync one" in refused["status"]["lastError"]
    assert (await present(w, CLASSES, name))["metadata"]["uid"] == before
    await remove(w, "b")
    await remove(w, "a")

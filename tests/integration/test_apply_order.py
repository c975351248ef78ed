"""In which order a manifest arrives, and what a failure on the way leaves behind."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator

import pytest
from tests.integration.deploy_support import (
    again,
    delete_quietly,
    deploy,
    deployment,
    namespace_of,
    present,
    redeploy,
    remove,
    until_at_rest,
    writes,
)
from tests.integration.kube_support import CONFIGMAPS, CRDS, NAMESPACES, own_kind, serve, until
from tests.integration.world import World, config_map, documents, world

from controlplane import ControlPlane
from vidra.kube.client import Obj
from vidra.kube.resource import Resource

_PLURAL = "validatingwebhookconfigurations"
WEBHOOKS = Resource("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration", _PLURAL, namespaced=False)


@pytest.fixture
async def w(control_plane: ControlPlane) -> AsyncIterator[World]:
    async with world(control_plane) as w:
        yield w


def thing(kind: Resource, name: str, namespace: str, **spec: object) -> Obj:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}


def webhook(kind: Resource) -> Obj:
    """One that lets no object of the kind be created while nobody answers it."""
    name = f"check.{kind.group}"
    rule = {"apiGroups": [kind.group], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["*"]}
    hook: Obj = {"name": f"{name}.test", "clientConfig": {"url": "https://127.0.0.1:1/check"}, "rules": [rule]}
    hook |= {"failurePolicy": "Fail", "sideEffects": "None", "admissionReviewVersions": ["v1"], "timeoutSeconds": 1}
    return {"apiVersion": WEBHOOKS.api_version, "kind": WEBHOOKS.kind, "metadata": {"name": name}, "webhooks": [hook]}


@pytest.mark.case("A18")
async def test_an_object_before_its_definition_and_its_namespace_arrives_in_one_pass(w: World) -> None:
    kind, definition = own_kind()
    team = f"team-{uuid.uuid4().hex[:8]}"
    await deploy(w, "a", thing(kind, "x", team), definition, namespace_of(team))
    await present(w, kind, "x", team)
    assert w.reconciles(World.RESOURCES) == 1
    await until_at_rest(w, "a")
    await remove(w, "a")
    assert await w.get(CRDS, definition["metadata"]["name"]) is None
    assert await w.get(NAMESPACES, team) is None


@pytest.mark.case("A18")
async def test_objects_of_a_new_kind_come_and_go_with_it_several_times(w: World) -> None:
    kind, definition = own_kind()
    await deploy(w, "a", config_map("page", w.namespace))
    for _ in range(2):
        await redeploy(w, "a", thing(kind, "x", w.namespace), definition)
        await present(w, kind, "x", w.namespace)
        await w.change(World.RESOURCES, "a", manifest=documents(config_map("page", w.namespace)))
        await w.until_gone(CRDS, definition["metadata"]["name"])
        await w.until_state(World.RESOURCES, "a", "Succeeded")


@pytest.mark.case("A22")
async def test_webhooks_are_last_and_what_they_would_stop_is_there_before(w: World) -> None:
    kind, definition = own_kind()
    await serve(w.client, kind, definition)
    mark = w.plane.audit.mark()
    hook = webhook(kind)
    await deploy(w, "a", hook, thing(kind, "x", w.namespace), deployment("hook", w.namespace))
    order = [entry.resource for entry in w.plane.audit.entries(since=mark, user=w.user, verb="create")]
    assert order[-1] == WEBHOOKS.plural
    await present(w, kind, "x", w.namespace)
    refused = await redeploy(
        w,
        "a",
        hook,
        thing(kind, "x", w.namespace),
        thing(kind, "late", w.namespace),
        deployment("hook", w.namespace),
        config_map("page", w.namespace),
        state="Failed",
        retryInterval="1s",
    )
    assert "document 3" in refused["status"]["lastError"]
    assert "connection refused" in refused["status"]["lastError"]
    await present(w, CONFIGMAPS, "page", w.namespace)
    recorded = {item["name"] for item in refused["status"]["managedResources"] if item.get("uid")}
    assert {"x", "hook", "page"} <= recorded
    await w.client.delete(WEBHOOKS, hook["metadata"]["name"])
    await present_soon(w, kind, "late")
    await delete_quietly(w, WEBHOOKS, hook["metadata"]["name"])
    await remove(w, "a")
    await delete_quietly(w, WEBHOOKS, hook["metadata"]["name"])
    await delete_quietly(w, CRDS, definition["metadata"]["name"])


async def present_soon(w: World, kind: Resource, name: str) -> None:
    async def there() -> bool:
        return await w.get(kind, name, w.namespace) is not None

    await until(there, timeout=30.0)


@pytest.mark.case("A22")
async def test_a_webhook_is_held_back_while_what_it_needs_has_failed(w: World) -> None:
    kind, definition = own_kind()
    await serve(w.client, kind, definition)
    hook = webhook(kind)
    broken = deployment("hook", w.namespace, replicas=-1)
    refused = await deploy(w, "a", hook, broken, thing(kind, "x", w.namespace), state="Failed")
    assert await w.get(WEBHOOKS, hook["metadata"]["name"]) is None
    assert "not applied before Deployment" in refused["status"]["lastError"]
    await present(w, kind, "x", w.namespace)
    await redeploy(w, "a", hook, deployment("hook", w.namespace), thing(kind, "x", w.namespace))
    await present(w, WEBHOOKS, hook["metadata"]["name"])
    await remove(w, "a")
    await delete_quietly(w, CRDS, definition["metadata"]["name"])


@pytest.mark.case("D01")
async def test_what_arrived_of_a_set_that_failed_is_known_at_once_and_pruned_later(w: World) -> None:
    bad = deployment("bad", w.namespace, replicas=-1)
    failed = await deploy(w, "a", config_map("good", w.namespace), bad, state="Failed")
    await present(w, CONFIGMAPS, "good", w.namespace)
    known = {item["name"]: item for item in failed["status"]["managedResources"]}
    assert known.keys() == {"good", "bad"}
    assert known["good"]["uid"]
    assert "uid" not in known["bad"]
    assert "replicas" in known["bad"]["message"]
    assert "document 2" in failed["status"]["lastError"]
    found = await redeploy(w, "a", config_map("other", w.namespace))
    assert [item["name"] for item in found["status"]["managedResources"]] == ["other"]
    assert await w.get(CONFIGMAPS, "good", w.namespace) is None


@pytest.mark.case("D01")
async def test_nothing_is_pruned_while_something_fails(w: World) -> None:
    await deploy(w, "a", config_map("old", w.namespace))
    bad = deployment("bad", w.namespace, replicas=-1)
    failed = await redeploy(w, "a", config_map("new", w.namespace), bad, state="Failed")
    await present(w, CONFIGMAPS, "old", w.namespace)
    assert {item["name"] for item in failed["status"]["managedResources"]} == {"old", "new", "bad"}
    mark = w.plane.audit.mark()
    await again(w, "a")
    assert writes(w, mark, CONFIGMAPS) == []
    await redeploy(w, "a", config_map("new", w.namespace))
    assert await w.get(CONFIGMAPS, "old", w.namespace) is None


async def test_a_failing_resource_can_be_deleted(w: World) -> None:
    bad = deployment("bad", w.namespace, replicas=-1)
    await deploy(w, "a", config_map("good", w.namespace), bad, state="Failed")
    await remove(w, "a")
    assert await w.get(CONFIGMAPS, "good", w.namespace) is None

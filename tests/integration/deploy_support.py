"""What tests of deploying share: a resource and its end, one more pass, what the operator asked of the objects."""

from __future__ import annotations

import uuid
from typing import Any

from tests.integration.kube_support import until
from tests.integration.world import World, documents

from controlplane.audit import Entry, Mark
from vidra.api import names
from vidra.controllers.kinds import RESOURCES, SYNCS, owner_reference
from vidra.kube.client import Obj, PatchType
from vidra.kube.errors import ApiError
from vidra.kube.resource import Resource

DEPLOYMENTS = Resource("apps", "v1", "Deployment", "deployments", namespaced=True)
SERVICES = Resource("", "v1", "Service", "services", namespaced=True)
JOBS = Resource("batch", "v1", "Job", "jobs", namespaced=True)
WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


async def deploy(w: World, name: str, *objects: Obj, state: str = "Succeeded", **spec: Any) -> Obj:
    """Makes a resource of these objects and waits for its end. ``spec`` as in World.create_resource."""
    await w.create_resource(name, documents(*objects), **spec)
    return await w.until_state(RESOURCES, name, state)


async def redeploy(w: World, name: str, *objects: Obj, state: str = "Succeeded", **spec: Any) -> Obj:
    """Gives a resource other objects and waits for the end of that."""
    await w.change(RESOURCES, name, manifest=documents(*objects), **spec)
    return await w.until_state(RESOURCES, name, state)


async def again(w: World, name: str) -> Obj:
    """One more pass, as somebody asks for it; the resource as it is then."""
    request = uuid.uuid4().hex
    await w.annotate(RESOURCES, name, **{names.RECONCILE_REQUEST_ANNOTATION: request})

    async def answered() -> bool:
        return (await w.status(RESOURCES, name)).get("lastHandledReconcileAt") == request

    await until(answered, timeout=30.0)
    return await present(w, RESOURCES, name)


async def present(w: World, resource: Resource, name: str, namespace: str | None = None) -> Obj:
    """The object, which must be there."""
    obj = await w.get(resource, name, namespace)
    assert obj is not None, f"no {resource.kind} {name}"
    return obj


async def remove(w: World, name: str) -> None:
    """Deletes a resource and waits until it is gone."""
    await w.client.delete(RESOURCES, name)
    await w.until_gone(RESOURCES, name)


def asked(w: World, since: Mark) -> list[Entry]:
    """The operator's requests about objects: all but those about its own kinds, watches, and discovery."""
    ours = {RESOURCES.plural, SYNCS.plural}
    return [
        entry
        for entry in w.plane.audit.entries(since=since, user=w.user)
        if entry.resource and entry.resource not in ours and entry.verb not in ("watch", "list")
    ]


def writes(w: World, since: Mark, resource: Resource, name: str | None = None) -> list[Entry]:
    """The operator's writes to objects of a kind."""
    return [
        entry
        for entry in asked(w, since)
        if (entry.group, entry.resource) == (resource.group, resource.plural)
        and entry.verb in WRITES
        and name in (None, entry.name)
    ]


async def assert_at_rest(w: World, name: str) -> None:
    """One more pass asks nothing about any object, and finds nothing to say."""
    await w.until_quiet()
    before = await present(w, RESOURCES, name)
    mark = w.plane.audit.mark()
    after = await again(w, name)
    shown = [f"{entry.verb} {entry.uri} {entry.code}" for entry in asked(w, mark)]
    assert not shown, shown
    entries = [obj["status"]["managedResources"] for obj in (before, after)]
    assert entries[0] == entries[1], entries
    assert after["status"]["DeployState"] == "Succeeded", after["status"]


async def until_at_rest(w: World, name: str) -> None:
    """As :func:`assert_at_rest`, some passes later: a kind that is new, or that others write to, has to settle."""

    async def at_rest() -> bool:
        await w.until_quiet()
        mark = w.plane.audit.mark()
        await again(w, name)
        return not asked(w, mark)

    await until(at_rest, timeout=30.0)
    await assert_at_rest(w, name)


async def make_sync(w: World, name: str) -> Obj:
    """A sync that does nothing until it is deleted; resources made with :func:`owned` are its own."""
    await w.create_sync(name, suspend=True)
    patch = {"metadata": {"finalizers": [names.SYNC_FINALIZER]}}
    return await w.client.patch(SYNCS, name, patch, PatchType.MERGE)


def owned(sync: Obj) -> dict[str, Any]:
    """``metadata`` for World.create_resource: as if the sync had written the resource."""
    return {"ownerReferences": [owner_reference(sync)]}


async def make(w: World, resource: Resource, obj: Obj, *, by: str = "somebody") -> Obj:
    """An object that is not Vidra's, in the test's namespace."""
    namespace = obj["metadata"].get("namespace") or w.namespace
    return await w.client.create(resource, obj, namespace=namespace, field_manager=by)


async def make_namespace(w: World, name: str) -> Obj:
    return await w.client.create(
        Resource("", "v1", "Namespace", "namespaces", namespaced=False), namespace_of(name), field_manager="somebody"
    )


def namespace_of(name: str, **labels: str) -> Obj:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def managers(obj: Obj) -> dict[str, str]:
    """Operation by field manager, subresources left out."""
    entries = obj["metadata"].get("managedFields") or ()
    return {entry["manager"]: entry["operation"] for entry in entries if not entry.get("subresource")}


def deployment(name: str, namespace: str, *, labels: dict[str, str] | None = None, **spec: Any) -> Obj:
    """One container ``web`` that no node ever runs; ``spec`` replaces parts of the Deployment's."""
    labels = labels or {"app": name}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "example.test/web:1"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"matchLabels": labels}, "template": pod} | spec,
    }


def job(name: str, namespace: str, *, image: str = "example.test/run:1", **metadata: Any) -> Obj:
    pod = {"spec": {"restartPolicy": "Never", "containers": [{"name": "run", "image": image}]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace, **metadata},
        "spec": {"template": pod},
    }


async def delete_quietly(w: World, resource: Resource, name: str, namespace: str | None = None) -> None:
    """For what a test made outside its namespace."""
    try:
        await w.client.delete(resource, name, namespace=namespace)
    except ApiError as error:
        if not error.not_found:
            raise

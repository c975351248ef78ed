"""Events on the real API server: what it accepts, counts, and shows to people by kubectl."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.integration.kube_support import CONFIGMAPS, config_map, connected, own_kind, own_namespace, running, until

from controlplane import ControlPlane
from vidra.kube.client import Client, Obj
from vidra.kube.errors import ApiError
from vidra.kube.resource import Resource
from vidra.runtime import events as recording
from vidra.runtime.event_objects import EVENTS
from vidra.runtime.events import Recorder

CRDS = Resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False)
RBAC = "rbac.authorization.k8s.io"
ROLES = Resource(RBAC, "v1", "ClusterRole", "clusterroles", namespaced=False)
BINDINGS = Resource(RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False)
SHIPPED = Path(__file__).parents[2] / "manifests/rbac/operator.yaml"


@pytest.fixture
async def admin(control_plane: ControlPlane) -> AsyncIterator[Client]:
    async with connected(control_plane.kubeconfig_path) as client:
        yield client


@asynccontextmanager
async def recorder_of(plane: ControlPlane, admin: Client) -> AsyncIterator[Recorder]:
    """A recorder that has no rights but those that are shipped for events."""
    user = f"u-{uuid.uuid4().hex[:8]}"
    (role,) = (d for d in yaml.safe_load_all(SHIPPED.read_text()) if d["kind"] == "ClusterRole")
    rules = [rule for rule in role["rules"] if rule["resources"] == ["events"]]
    assert rules
    await admin.create(
        ROLES, {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": user}, "rules": rules}
    )
    subject = {"kind": "User", "name": user, "apiGroup": RBAC}
    binding = {"roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": user}, "subjects": [subject]}
    await admin.create(
        BINDINGS, {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": user}, **binding}
    )
    async with connected(plane.user_kubeconfig(user)) as client:

        async def allowed() -> bool:
            try:
                probe = {"apiVersion": EVENTS.api_version, "kind": "Event", "metadata": {"name": "probe"}}
                await client.create(EVENTS, probe, namespace="default", dry_run=True)
            except ApiError as error:
                return error.status != 403
            return True

        await until(allowed)
        recorder = Recorder(client, controller="example.com/thing", instance="pod-1")
        async with running(recorder.run()):
            await asyncio.sleep(0)  # a task that is cancelled before its first step never has one
            yield recorder


@pytest.fixture
async def recorder(control_plane: ControlPlane, admin: Client) -> AsyncIterator[Recorder]:
    async with recorder_of(control_plane, admin) as recorder:
        yield recorder


@pytest.fixture
async def cluster_thing(admin: Client) -> Obj:
    """An object of a cluster-scoped kind that nobody else has."""
    resource, crd = own_kind()
    resource = replace(resource, namespaced=False)
    crd["spec"]["scope"] = "Cluster"
    await admin.create(CRDS, crd)
    body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "thing"}}
    made: list[Obj] = []

    async def writable() -> bool:
        try:
            made.append(await admin.create(resource, body))
        except ApiError as error:
            if not error.not_found:
                raise
        return bool(made)

    await until(writable)
    return made[0]


async def events_of(admin: Client, obj: Obj) -> list[Obj]:
    uid = obj["metadata"]["uid"]
    return [event async for event in admin.list_all(EVENTS) if event.get("regarding", {}).get("uid") == uid]


def describe(plane: ControlPlane, kind: str, name: str) -> str:
    kubectl = Path(sys.executable).parent / "kubectl"
    command = [str(kubectl), "--kubeconfig", str(plane.kubeconfig_path), "describe", kind, name]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


@pytest.mark.case("U21")
async def test_u21_a_thousand_same_failures_of_a_cluster_scoped_object_are_one_event_that_kubectl_shows(
    control_plane: ControlPlane,
    admin: Client,
    recorder: Recorder,
    cluster_thing: Obj,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recording, "FIRST_PAUSE", 0.05)
    mark = await asyncio.to_thread(control_plane.audit.mark)
    for number in range(1000):
        note = f"try {number}: not found"
        recorder.event(cluster_thing, type="Warning", reason="ApplyFailed", action="Apply", note=note)
        if number % 100 == 0:
            await asyncio.sleep(0.01)

    async def counted() -> bool:
        found = await events_of(admin, cluster_thing)
        return bool(found) and found[0].get("series", {}).get("count") == 1000

    await until(counted)
    (event,) = await events_of(admin, cluster_thing)
    assert event["metadata"]["namespace"] == "default"
    writes = await asyncio.to_thread(control_plane.audit.entries, since=mark, resource="events")
    verbs = [entry.verb for entry in writes if entry.verb in {"create", "patch"} and entry.user.startswith("u-")]
    assert verbs.count("create") == 1
    assert len(verbs) < 20
    kind = f"{cluster_thing['kind'].lower()}s.{cluster_thing['apiVersion'].split('/')[0]}"
    text = await asyncio.to_thread(describe, control_plane, kind, "thing")
    (line,) = (line for line in text.splitlines() if "ApplyFailed" in line)
    assert line.split()[0] == "Warning"
    assert "(x1000 over" in line
    assert line.endswith("try 0: not found")


async def test_an_event_is_beside_the_namespaced_object_it_is_about(
    control_plane: ControlPlane, admin: Client, recorder: Recorder
) -> None:
    async with own_namespace(admin) as namespace:
        obj = await admin.create(CONFIGMAPS, config_map("page"), namespace=namespace)
        recorder.event(obj, reason="Applied", action="Apply", note="€" * 5000, related=obj)

        async def there() -> list[Obj]:
            return await events_of(admin, obj)

        await until(there)
        (event,) = await there()
        assert event["metadata"]["namespace"] == namespace
        assert event["related"]["name"] == "page"
        assert event["reportingController"] == "example.com/thing"


async def test_an_event_that_was_deleted_is_made_anew(
    admin: Client, recorder: Recorder, cluster_thing: Obj, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "FIRST_PAUSE", 0.05)

    def say(**options: Any) -> None:
        recorder.event(cluster_thing, **{"reason": "Applied", "action": "Apply", "note": "3 objects", **options})

    async def count() -> list[object]:
        return [event.get("series", {}).get("count") for event in await events_of(admin, cluster_thing)]

    async def is_there() -> bool:
        return await count() == [None]

    say()
    await until(is_there)
    (event,) = await events_of(admin, cluster_thing)
    await admin.delete(EVENTS, event["metadata"]["name"], namespace="default")
    say()

    async def is_back() -> bool:
        return await count() == [2]

    await until(is_back)


async def test_an_event_in_a_namespace_that_is_no_more_is_dropped_and_holds_up_nothing(
    admin: Client, recorder: Recorder, cluster_thing: Obj
) -> None:
    gone = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "no-such", "uid": "u"}}
    recorder.event(gone, reason="Applied", action="Apply", note="to nobody")
    recorder.event(cluster_thing, reason="Applied", action="Apply", note="to somebody")

    async def there() -> list[Obj]:
        return await events_of(admin, cluster_thing)

    await until(there)
    await until(lambda: recorder.dropped == 1)


async def test_what_was_recorded_last_is_written_before_the_recorder_ends(
    control_plane: ControlPlane, admin: Client, cluster_thing: Obj
) -> None:
    async with recorder_of(control_plane, admin) as recorder:
        for number in range(20):
            recorder.event(cluster_thing, reason=f"Stopping{number}", action="Stop", note="bye")
    assert len(await events_of(admin, cluster_thing)) == 20

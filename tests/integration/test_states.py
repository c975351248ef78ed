"""The states of docs/states.md, one after the other, on both kinds. What each end writes is
tests/unit/controllers/test_reporting.py; here it is the operator that writes it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.integration.kube_support import CONFIGMAPS, until
from tests.integration.test_sync_main import add, pass_once
from tests.integration.world import World, config_map, documents, world

from controlplane import ControlPlane
from vidra.controllers.infrahubsync import SyncReconciler
from vidra.kube.client import Obj, PatchType


@pytest.fixture
async def w(control_plane: ControlPlane) -> AsyncIterator[World]:
    async with world(control_plane) as w:
        yield w


def conditions(obj: Obj) -> dict[str, str]:
    return {c["type"]: c["status"] for c in obj["status"]["conditions"]}


def reason(obj: Obj) -> str:
    return next(str(c["reason"]) for c in obj["status"]["conditions"] if c["type"] == "Ready")


async def test_a_resource_goes_from_pending_by_failures_to_success(w: World) -> None:
    await w.create_resource("one", "kind: [", suspend=True)
    pending = await w.until_state(World.RESOURCES, "one", "Pending")
    assert conditions(pending) == {"Ready": "Unknown", "Reconciling": "True"}

    await w.change(World.RESOURCES, "one", suspend=False)
    stalled = await w.until_state(World.RESOURCES, "one", "Failed")
    assert (reason(stalled), conditions(stalled)) == ("ManifestInvalid", {"Ready": "False", "Stalled": "True"})
    assert "lastSyncTime" not in stalled["status"]
    await w.until_quiet()
    assert w.operator.resource_queue.delayed == 0, "only a change helps"

    await w.change(World.RESOURCES, "one", manifest="")
    empty = await w.until_state(World.RESOURCES, "one", "Failed")
    assert reason(empty) == "ManifestEmpty"

    await w.change(World.RESOURCES, "one", manifest=documents(config_map("one", w.namespace)))
    good = await w.until_state(World.RESOURCES, "one", "Succeeded")
    assert conditions(good) == {"Ready": "True"}
    assert "lastError" not in good["status"]
    assert good["status"]["observedGeneration"] == good["metadata"]["generation"] == 4


async def test_a_resource_that_fails_again_keeps_its_last_success_and_tries_on(w: World) -> None:
    await w.create_resource("one", documents(config_map("one", w.namespace)))
    good = await w.until_state(World.RESOURCES, "one", "Succeeded")
    theirs = config_map("theirs", w.namespace)
    await w.client.create(CONFIGMAPS, theirs, namespace=w.namespace)
    await w.change(World.RESOURCES, "one", manifest=documents(config_map("one", w.namespace), theirs))
    failed = await w.until_state(World.RESOURCES, "one", "Failed")
    assert (reason(failed), conditions(failed)) == ("Conflict", {"Ready": "False", "Reconciling": "True"})
    assert failed["status"]["lastSyncTime"] == good["status"]["lastSyncTime"]
    assert "theirs" in failed["status"]["lastError"]
    # It tries again by itself.
    await w.client.delete(CONFIGMAPS, "theirs", namespace=w.namespace)
    await w.until_state(World.RESOURCES, "one", "Succeeded", timeout=60)


async def test_an_invalid_option_is_named_and_stalls(w: World) -> None:
    await w.create_resource("one", documents(config_map("one", w.namespace)), ignore=[{"paths": ["spec.replicas"]}])
    failed = await w.until_state(World.RESOURCES, "one", "Failed")
    assert (reason(failed), conditions(failed)["Stalled"]) == ("InvalidSpec", "True")
    assert "spec.replicas" in failed["status"]["lastError"]


async def test_an_option_that_is_not_acted_on_is_never_ignored_in_silence(w: World) -> None:
    await w.create_resource("one", documents(config_map("one", w.namespace)), wait=True)
    failed = await w.until_state(World.RESOURCES, "one", "Failed")
    assert reason(failed) == "Unsupported"
    assert "spec.wait" in failed["status"]["lastError"]
    assert await w.get(CONFIGMAPS, "one", w.namespace) is None


async def test_a_resource_that_is_going_says_what_it_waits_for(w: World) -> None:
    held = config_map("one", w.namespace)
    await w.create_resource("one", documents(held))
    await w.until_state(World.RESOURCES, "one", "Succeeded")
    finalizer = {"metadata": {"finalizers": ["example.com/held"]}}
    await w.client.patch(CONFIGMAPS, "one", finalizer, PatchType.MERGE, namespace=w.namespace)
    await w.client.delete(World.RESOURCES, "one")

    async def going() -> bool:
        obj = await w.get(World.RESOURCES, "one") or {}
        return reason(obj) == "Deleting" and "example.com/held" in str(obj["status"]["conditions"])

    await until(going)
    release = {"metadata": {"finalizers": None}}
    await w.client.patch(CONFIGMAPS, "one", release, PatchType.MERGE, namespace=w.namespace)
    await w.until_gone(World.RESOURCES, "one")


async def test_a_sync_goes_from_success_to_stale_and_back(w: World) -> None:
    add(w, "a")
    await w.create_sync("one")
    good = await w.until_state(World.SYNCS, "one", "Succeeded")
    assert conditions(good) == {"Ready": "True"}
    w.standin.faults.down()
    stale = await pass_once(w)
    assert (stale["status"]["syncState"], conditions(stale)["Reconciling"]) == ("Stale", "True")
    assert stale["status"]["lastSyncTime"] == good["status"]["lastSyncTime"]
    w.standin.faults.clear()
    await w.until_state(World.SYNCS, "one", "Succeeded", timeout=30)


async def test_a_fault_of_vidras_own_stands_in_the_status_too(w: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*arguments: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(SyncReconciler, "_sync", broken)
    await w.create_sync("one")
    failed = await w.until_state(World.SYNCS, "one", "Failed")
    assert reason(failed) == "InternalError"
    assert "ZeroDivisionError" in failed["status"]["lastError"]
    monkeypatch.undo()
    await w.until_state(World.SYNCS, "one", "Succeeded", timeout=30)

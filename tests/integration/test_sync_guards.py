"""What a sync must never do: touch what isn't its own, or take a source's silence for a wish."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator

import pytest
from tests.integration.kube_support import CONFIGMAPS, until
from tests.integration.test_sync_main import add, data_of, page, pass_once
from tests.integration.world import ARTIFACT, World, world

from controlplane import ControlPlane
from vidra.api import names
from vidra.kube.client import Obj, PatchType


@pytest.fixture
async def w(control_plane: ControlPlane) -> AsyncIterator[World]:
    async with world(control_plane) as w:
        yield w


async def succeeded(w: World, name: str) -> Obj:
    sync = await w.until_state(World.SYNCS, name, "Succeeded")
    await w.until_quiet()
    return sync


async def test_two_syncs_with_one_destination_leave_each_others_alone(w: World) -> None:
    mine = add(w, "a")
    w.standin.add_artifact(name="Other", content=page(w, "b"), target="b")
    await w.create_resource("by-hand", page(w, "c"))
    await w.create_sync("one")
    await w.create_sync("two", source={"artefactName": "Other"})
    await succeeded(w, "one")
    await succeeded(w, "two")
    w.standin.remove_artifact(mine)
    await w.change(World.SYNCS, "one", allowEmpty=True)
    await succeeded(w, "one")
    await w.until_gone(World.RESOURCES, mine)
    assert await data_of(w, "a") is None
    assert await data_of(w, "b") == await data_of(w, "c") == {"a": "1"}
    await w.client.delete(World.SYNCS, "two")
    await w.until_gone(World.SYNCS, "two")
    assert await data_of(w, "b") is None
    assert await data_of(w, "c") == {"a": "1"}


async def test_the_same_artifact_on_two_branches_has_a_resource_for_each(w: World) -> None:
    artifact = add(w, "a")
    w.standin.create_branch("next")
    w.standin.change_artifact(artifact, page(w, "b"), branch="next")
    await w.create_sync("one")
    await succeeded(w, "one")
    await w.create_sync("two", source={"targetBranch": "next"})
    await succeeded(w, "two")
    found = {resource["metadata"]["name"] for resource in await w.all(World.RESOURCES)}
    assert found == {artifact, names.resource_name_of_sync(artifact, "two")}
    assert await data_of(w, "a") == await data_of(w, "b") == {"a": "1"}
    await w.client.delete(World.SYNCS, "one")
    await w.until_gone(World.SYNCS, "one")
    await w.until_quiet()
    assert await data_of(w, "a") is None
    assert await data_of(w, "b") == {"a": "1"}


async def test_a_name_that_is_somebody_elses_is_left_to_them(w: World) -> None:
    artifact = add(w, "a")
    await w.create_resource(artifact, page(w, "c"))
    await w.create_sync("one")
    await succeeded(w, "one")
    assert await data_of(w, "a") == await data_of(w, "c") == {"a": "1"}
    assert await w.get(World.RESOURCES, names.resource_name_of_sync(artifact, "one")) is not None


async def test_an_empty_answer_prunes_nothing_until_that_is_allowed(w: World) -> None:
    artifact = add(w, "a")
    await w.create_sync("one")
    before = await succeeded(w, "one")
    w.standin.remove_artifact(artifact)
    sync = await pass_once(w)
    assert sync["status"]["syncState"] == "Stale"
    assert sync["status"]["lastSyncTime"] == before["status"]["lastSyncTime"]
    assert "spec.allowEmpty" in sync["status"]["lastError"]
    assert await data_of(w, "a") == {"a": "1"}
    await w.change(World.SYNCS, "one", allowEmpty=True)
    sync = await succeeded(w, "one")
    await w.until_gone(World.RESOURCES, artifact)
    assert "lastError" not in sync["status"]
    assert await data_of(w, "a") is None


async def test_a_sync_that_never_had_anything_succeeds_with_nothing(w: World) -> None:
    await w.create_sync("one")
    sync = await succeeded(w, "one")
    assert sync["status"]["artifactCount"] == 0


async def test_an_artifact_in_error_is_served_by_its_last_good_content(w: World) -> None:
    artifact = add(w, "a")
    w.standin.set_error(artifact)
    await w.create_sync("one")
    sync = await succeeded(w, "one")
    assert await data_of(w, "a") == {"a": "1"}
    (entry,) = sync["status"]["artifacts"]
    assert entry["status"] == "Error"
    assert "last good content" in entry["message"]


async def test_an_artifact_that_is_being_rendered_keeps_what_it_had(w: World) -> None:
    artifact = add(w, "a")
    await w.create_sync("one")
    await succeeded(w, "one")
    w.standin.set_pending(artifact)
    sync = await pass_once(w)
    assert sync["status"]["syncState"] == "Succeeded"
    assert await data_of(w, "a") == {"a": "1"}
    (entry,) = sync["status"]["artifacts"]
    assert (entry["status"], entry["resource"]) == ("Pending", artifact)
    w.standin.change_artifact(artifact, page(w, "a", a="2"))
    await pass_once(w)
    assert await data_of(w, "a") == {"a": "2"}


async def test_an_artifact_without_content_yet_is_named_and_holds_up_no_other(w: World) -> None:
    waiting = w.standin.add_artifact(name=ARTIFACT, content=None, target="b")
    add(w, "a")
    await w.create_sync("one")
    sync = await succeeded(w, "one")
    assert await data_of(w, "a") == {"a": "1"}
    entry = next(entry for entry in sync["status"]["artifacts"] if entry["id"] == waiting)
    assert "resource" not in entry
    assert "no content yet" in entry["message"]


async def test_without_prune_a_resource_stays_when_its_artifact_goes(w: World) -> None:
    going = add(w, "a")
    add(w, "b")
    await w.create_sync("one", prune=False)
    await succeeded(w, "one")
    w.standin.remove_artifact(going)
    await pass_once(w)
    assert await w.get(World.RESOURCES, going) is not None
    assert await data_of(w, "a") == {"a": "1"}
    await w.change(World.SYNCS, "one", prune=True)
    await w.until_gone(World.RESOURCES, going)


async def test_a_deleted_sync_takes_its_resources_and_their_objects_along(w: World) -> None:
    add(w, "a")
    add(w, "b")
    await w.create_sync("one")
    await succeeded(w, "one")
    await w.client.delete(World.SYNCS, "one")
    await w.until_gone(World.SYNCS, "one")
    assert await w.all(World.RESOURCES) == []
    assert await data_of(w, "a") is await data_of(w, "b") is None


async def test_a_sync_may_leave_its_objects_behind(w: World) -> None:
    add(w, "a")
    await w.create_sync("one", deletionPolicy="Orphan")
    await succeeded(w, "one")
    await w.client.delete(World.SYNCS, "one")
    await w.until_gone(World.SYNCS, "one")
    assert await w.all(World.RESOURCES) == []
    left = await w.get(CONFIGMAPS, "a", w.namespace) or {}
    assert left["data"] == {"a": "1"}
    assert names.MANAGED_BY_LABEL not in (left["metadata"].get("labels") or {})


async def until_garbage_is_collected(w: World) -> None:
    """The garbage collector learns of new kinds every 30 seconds, and orphans and collects nothing of them before."""
    gone = {"apiVersion": names.API_VERSION, "kind": names.SYNC_KIND, "name": "gone", "uid": str(uuid.uuid4())}
    await w.create_resource("probe", page(w, "probe"), metadata={"ownerReferences": [gone]})
    await w.until_gone(World.RESOURCES, "probe", timeout=90)


async def test_deleting_with_cascade_orphan_leaves_the_resources(w: World) -> None:
    await until_garbage_is_collected(w)
    artifact = add(w, "a")
    await w.create_sync("one")
    await succeeded(w, "one")
    await w.client.delete(World.SYNCS, "one", propagation="Orphan")
    await w.until_gone(World.SYNCS, "one", timeout=60)

    async def released() -> bool:
        resource = await w.get(World.RESOURCES, artifact)
        return resource is not None and not resource["metadata"].get("ownerReferences")

    await until(released)
    assert await data_of(w, "a") == {"a": "1"}


async def test_a_sync_deleted_while_the_operator_is_away_is_cleaned_up_when_it_is_back(
    control_plane: ControlPlane,
) -> None:
    async with world(control_plane, start=False) as w:
        add(w, "a")
        async with w.operating():
            await w.create_sync("one")
            await succeeded(w, "one")
        await w.client.delete(World.SYNCS, "one")
        async with w.operating():
            await w.until_gone(World.SYNCS, "one")
        assert await w.all(World.RESOURCES) == []
        assert await data_of(w, "a") is None


async def test_a_finalizer_of_somebody_else_keeps_the_sync_and_nothing_of_ours(w: World) -> None:
    add(w, "a")
    sync = await w.create_sync("one")
    await succeeded(w, "one")
    patch = {"metadata": {"finalizers": [names.SYNC_FINALIZER, "example.com/theirs"]}}
    await w.client.patch(World.SYNCS, sync["metadata"]["name"], patch, PatchType.MERGE)
    await w.client.delete(World.SYNCS, "one")

    async def ours_is_gone() -> bool:
        left = await w.get(World.SYNCS, "one") or {}
        return bool(left["metadata"]["finalizers"] == ["example.com/theirs"])

    await until(ours_is_gone)
    assert await w.all(World.RESOURCES) == []

"""From artifacts to resources: what a sync asks Infrahub for, what it writes, and what it leaves alone."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from tests.integration.kube_support import CONFIGMAPS, until
from tests.integration.world import ARTIFACT, World, config_map, documents, world

from controlplane import ControlPlane
from infrahub.seeds import webserver_manifest, webservers
from vidra.api import names
from vidra.deploy.compress import decompress_manifest
from vidra.kube.client import Obj, PatchType

DOWNLOADS = "/api/storage/object/"


@pytest.fixture
async def w(control_plane: ControlPlane) -> AsyncIterator[World]:
    """Nothing in Infrahub, no sync yet."""
    async with world(control_plane) as w:
        yield w


def add(w: World, name: str, **data: str) -> str:
    """An artifact with one ConfigMap in the test's namespace; its id."""
    return w.standin.add_artifact(name=ARTIFACT, content=page(w, name, **data), target=name)


def page(w: World, name: str, **data: str) -> str:
    return documents(config_map(name, w.namespace, **data))


async def pass_once(w: World, name: str = "one") -> Obj:
    """Asks for one reconcile and waits for its answer; the sync as it is then."""
    request = uuid.uuid4().hex
    await w.annotate(World.SYNCS, name, **{names.RECONCILE_REQUEST_ANNOTATION: request})

    async def answered() -> bool:
        return (await w.status(World.SYNCS, name)).get("lastHandledReconcileAt") == request

    await until(answered)
    await w.until_quiet()
    sync = await w.get(World.SYNCS, name)
    assert sync is not None
    return sync


async def data_of(w: World, name: str) -> dict[str, str] | None:
    obj = await w.get(CONFIGMAPS, name, w.namespace)
    return None if obj is None else obj["data"]


async def test_each_artifact_becomes_a_resource_of_its_id_and_its_objects(w: World) -> None:
    ids = {add(w, "a"), add(w, "b")}
    await w.create_sync("one")
    sync = await w.until_state(World.SYNCS, "one", "Succeeded")
    resources = await w.all(World.RESOURCES)
    assert {resource["metadata"]["name"] for resource in resources} == ids
    assert {owner["uid"] for r in resources for owner in r["metadata"]["ownerReferences"]} == {sync["metadata"]["uid"]}
    for artifact in ids:
        await w.until_state(World.RESOURCES, artifact, "Succeeded")
    assert await data_of(w, "a") == await data_of(w, "b") == {"a": "1"}
    assert sync["status"]["artifactCount"] == 2
    assert {entry["resource"] for entry in sync["status"]["artifacts"]} == ids


async def test_a_pass_without_news_is_one_query_and_not_a_single_request_for_an_object(w: World) -> None:
    add(w, "a")
    add(w, "b")
    await w.create_sync("one")
    await w.until_state(World.SYNCS, "one", "Succeeded")
    await w.until_quiet()
    mark, before = w.plane.audit.mark(), len(w.standin.requests)
    await pass_once(w)
    asked = [request.path for request in w.standin.requests[before:]]
    assert len(asked) == 1
    assert "graphql" in asked[0]
    # What is left is the status of the sync itself.
    assert {entry.resource for entry in w.plane.audit.entries(since=mark, user=w.user)} == {"infrahubsyncs"}


async def test_only_what_changed_is_downloaded_and_arrives(w: World) -> None:
    changing = add(w, "a")
    add(w, "b")
    await w.create_sync("one")
    await w.until_state(World.SYNCS, "one", "Succeeded")
    assert w.standin.count(path_prefix=DOWNLOADS) == 2
    w.standin.change_artifact(changing, page(w, "a", a="2"))
    await pass_once(w)
    assert w.standin.count(path_prefix=DOWNLOADS) == 3
    assert await data_of(w, "a") == {"a": "2"}


async def test_an_artifact_that_is_removed_takes_its_objects_along(w: World) -> None:
    going = add(w, "a")
    staying = add(w, "b")
    await w.create_sync("one")
    await w.until_state(World.SYNCS, "one", "Succeeded")
    await w.until_quiet()
    w.standin.remove_artifact(going)
    await pass_once(w)
    await w.until_gone(World.RESOURCES, going)
    assert await data_of(w, "a") is None
    assert await data_of(w, "b") == {"a": "1"}
    assert [r["metadata"]["name"] for r in await w.all(World.RESOURCES)] == [staying]


async def test_more_artifacts_than_a_page_has_all_arrive(control_plane: ControlPlane) -> None:
    count = 230
    async with world(control_plane) as w:
        for number in range(count):
            add(w, f"page-{number:03}")
        await w.create_sync("one")
        sync = await w.until_state(World.SYNCS, "one", "Succeeded", timeout=60)
        assert sync["status"]["artifactCount"] == count
        assert len(await w.all(World.RESOURCES)) == count
        assert w.standin.count(path_prefix="/graphql") > 1


async def test_a_stored_query_is_asked_by_its_name(w: World) -> None:
    add(w, "a")
    await w.create_sync("one", source={"queryName": "ArtifactIDs"})
    await w.until_state(World.SYNCS, "one", "Succeeded")
    assert w.standin.count(path_prefix="/api/query/ArtifactIDs") == 1
    assert len(await w.all(World.RESOURCES)) == 1


async def test_a_token_saves_the_login(control_plane: ControlPlane) -> None:
    async with world(control_plane, credentials=False) as w:
        await w.put_credentials(token=w.standin.api_key)
        add(w, "a")
        await w.create_sync("one")
        await w.until_state(World.SYNCS, "one", "Succeeded")
        assert w.standin.count(path_prefix="/api/auth/login") == 0


async def test_the_secret_that_a_sync_names_is_the_one_it_logs_in_with(control_plane: ControlPlane) -> None:
    async with world(control_plane, credentials=False) as w:
        await w.put_credentials("right", host="elsewhere", token=w.standin.api_key)
        await w.put_credentials("wrong", username="nobody", password="nothing")
        add(w, "a")
        await w.create_sync("one", source={"credentialsSecretRef": {"name": "right"}})
        await w.until_state(World.SYNCS, "one", "Succeeded")
        assert w.standin.count(path_prefix="/api/auth/login") == 0


async def test_a_branch_shows_what_is_on_it(w: World) -> None:
    artifact = add(w, "a")
    w.standin.create_branch("next")
    w.standin.change_artifact(artifact, page(w, "a", a="next"), branch="next")
    await w.create_sync("one", source={"targetBranch": "next"})
    await w.until_state(World.SYNCS, "one", "Succeeded")
    await w.until_quiet()
    assert await data_of(w, "a") == {"a": "next"}


@pytest.mark.parametrize(
    "date", [(datetime.now(UTC) - timedelta(hours=1)).isoformat(), "-1h", "now-1h"], ids=["absolute", "relative", "now"]
)
async def test_a_date_shows_what_was(w: World, date: str) -> None:
    w.standin.clock.advance(-7200)
    w.standin.plant(None)  # with a main branch that began two hours ago
    artifact = add(w, "a", a="old")
    w.standin.clock.advance(7200)
    w.standin.change_artifact(artifact, page(w, "a", a="new"))
    await w.create_sync("one", source={"targetDate": date})
    await w.until_state(World.SYNCS, "one", "Succeeded")
    await w.until_quiet()
    assert await data_of(w, "a") == {"a": "old"}
    asked = {request.query["at"] for request in w.standin.requests if "at" in request.query}
    assert len(asked) == 1, "one pass means one instant"


async def test_a_large_manifest_is_stored_compressed_and_deployed(w: World) -> None:
    text = uuid.uuid4().hex * 20_000
    artifact = add(w, "a", text=text)
    await w.create_sync("one")
    await w.until_state(World.SYNCS, "one", "Succeeded")
    resource = await w.until_state(World.RESOURCES, artifact, "Succeeded")
    assert "manifest" not in resource["spec"]
    assert decompress_manifest(resource["spec"]["compressedManifest"]) == page(w, "a", text=text)
    assert await data_of(w, "a") == {"text": text}


async def test_a_resource_edited_by_hand_says_again_what_infrahub_says(w: World) -> None:
    artifact = add(w, "a")
    await w.create_sync("one")
    await w.until_state(World.RESOURCES, artifact, "Succeeded")
    await w.until_quiet()
    await w.change(World.RESOURCES, artifact, manifest=page(w, "a", a="by hand"))

    async def restored() -> bool:
        resource = await w.get(World.RESOURCES, artifact)
        return resource is not None and resource["spec"]["manifest"] == page(w, "a")

    await until(restored)

    async def deployed() -> bool:
        return await data_of(w, "a") == {"a": "1"}

    await until(deployed)


async def test_a_resource_deleted_by_hand_comes_back(w: World) -> None:
    artifact = add(w, "a")
    await w.create_sync("one")
    before = await w.until_state(World.RESOURCES, artifact, "Succeeded")
    await w.until_quiet()
    await w.client.delete(World.RESOURCES, artifact)

    async def back() -> bool:
        resource = await w.get(World.RESOURCES, artifact)
        return resource is not None and resource["metadata"]["uid"] != before["metadata"]["uid"]

    await until(back)
    await w.until_state(World.RESOURCES, artifact, "Succeeded")
    assert await data_of(w, "a") == {"a": "1"}


async def test_a_sync_hands_its_options_down_and_keeps_its_rhythm_to_itself(w: World) -> None:
    artifact = add(w, "a")
    await w.create_sync("one", adopt=True, deletionPolicy="Orphan", interval="1h", retryInterval="5m")
    await w.until_state(World.SYNCS, "one", "Succeeded")
    resource = await w.until_state(World.RESOURCES, artifact, "Succeeded")
    assert resource["spec"]["adopt"] is True
    assert resource["spec"]["deletionPolicy"] == "Orphan"
    assert not {"interval", "retryInterval", "suspend"} & set(resource["spec"])
    await w.client.patch(World.SYNCS, "one", [{"op": "remove", "path": "/spec/adopt"}], PatchType.JSON)
    await w.until_state(World.SYNCS, "one", "Succeeded")
    await w.until_quiet()
    resource = await w.get(World.RESOURCES, artifact) or {}
    assert "adopt" not in resource["spec"]


async def test_a_suspended_sync_asks_nothing_until_it_is_resumed(w: World) -> None:
    add(w, "a")
    await w.create_sync("one", suspend=True)
    await w.until_state(World.SYNCS, "one", "Pending")
    assert not w.standin.requests
    await w.change(World.SYNCS, "one", suspend=False)
    await w.until_state(World.SYNCS, "one", "Succeeded")


async def test_another_namespace_moves_the_objects(control_plane: ControlPlane) -> None:
    async with world(control_plane) as w:
        artifact = w.standin.add_artifact(name=ARTIFACT, content=documents(config_map("a")), target="a")
        await w.create_sync("one", destination={"namespace": w.namespace})
        await w.until_state(World.RESOURCES, artifact, "Succeeded")
        await w.until_quiet()
        assert await data_of(w, "a") is not None
        await w.change(World.SYNCS, "one", destination={"namespace": "default"})

        async def moved() -> bool:
            return await data_of(w, "a") is None and await w.get(CONFIGMAPS, "a", "default") is not None

        await until(moved)
        await w.client.delete(World.SYNCS, "one")
        await w.until_gone(World.SYNCS, "one")
        assert await w.get(CONFIGMAPS, "a", "default") is None


async def test_the_web_servers_of_the_demo_arrive_whole(control_plane: ControlPlane) -> None:
    async with world(control_plane, seed=webservers(2, shared_namespace="web")) as w:
        assert "kind: Ingress" in webserver_manifest("web-001")
        await w.create_sync("one")
        await w.until_state(World.SYNCS, "one", "Succeeded")
        await w.until_quiet()
        states = {resource["status"]["DeployState"] for resource in await w.all(World.RESOURCES)}
        assert states == {"Succeeded"}
        await w.client.delete(World.SYNCS, "one")
        await w.until_gone(World.SYNCS, "one")

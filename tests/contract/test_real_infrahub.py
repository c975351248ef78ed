"""The client, and the main job, against a real Infrahub: what the stand-in promises has to be so."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
import yaml
from tests.contract.conftest import Server
from tests.integration.kube_support import NAMESPACES
from tests.integration.world import World, world

from controlplane import ControlPlane
from vidra.controllers.delivery import content_of
from vidra.infrahub import Credentials, InfrahubClient, errors, pin
from vidra.kube.errors import ApiError


@pytest.fixture
async def client(server: Server) -> AsyncIterator[InfrahubClient]:
    async with InfrahubClient(server.url, Credentials(token=server.token)) as client:
        yield client


def md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


async def test_artifacts_are_listed_with_their_targets_and_downloaded_whole(
    server: Server, client: InfrahubClient
) -> None:
    refs = await client.list_artifacts(server.artifact, branch="main")
    assert refs, f"the server has no artifact named {server.artifact}"
    for ref in refs:
        assert ref.name == server.artifact
        assert ref.target_id
        if ref.checksum is not None:
            assert md5(await client.download(ref, branch="main")) == ref.checksum


async def test_the_usual_stored_query_lists_the_same(server: Server, client: InfrahubClient) -> None:
    built_in = await client.list_artifacts(server.artifact, branch="main")
    stored = await client.list_artifacts(server.artifact, branch="main", query="ArtifactIDs")
    assert {(ref.id, ref.checksum) for ref in stored} == {(ref.id, ref.checksum) for ref in built_in}


async def test_a_name_that_no_artifact_has_lists_nothing(client: InfrahubClient) -> None:
    assert not await client.list_artifacts("No_Such_Artifact", branch="main")


async def test_the_present_is_the_same_by_date(server: Server, client: InfrahubClient) -> None:
    now = pin("-0s", datetime.now(UTC))
    by_date = await client.list_artifacts(server.artifact, branch="main", at=now)
    assert {ref.id for ref in by_date} == {
        ref.id for ref in await client.list_artifacts(server.artifact, branch="main")
    }


@pytest.mark.parametrize(
    ("branch", "query", "error"),
    [
        ("no-such-branch", None, errors.BranchNotFound),
        ("no-such-branch", "ArtifactIDs", errors.BranchNotFound),
        ("main", "NoSuchQuery", errors.QueryNotFound),
    ],
)
async def test_what_is_not_there_is_an_error_and_no_empty_list(
    server: Server, client: InfrahubClient, branch: str, query: str | None, error: type[Exception]
) -> None:
    with pytest.raises(error):
        await client.list_artifacts(server.artifact, branch=branch, query=query)


async def test_a_date_before_all_is_an_error_and_no_empty_list(server: Server, client: InfrahubClient) -> None:
    with pytest.raises(errors.DateBeforeStart):
        await client.list_artifacts(server.artifact, branch="main", at="2020-01-01T00:00:00Z")


async def test_a_wrong_token_is_refused(server: Server) -> None:
    async with InfrahubClient(server.url, Credentials(token="wrong")) as client:
        with pytest.raises(errors.AuthenticationFailed):
            await client.list_artifacts(server.artifact, branch="main")


async def test_the_main_job(server: Server, control_plane: ControlPlane) -> None:
    async with world(control_plane, credentials=False) as w:
        host = server.url.split("://")[1].split(":")[0].split("/")[0]
        await w.put_credentials(host=host, token=server.token)
        source = {"infrahubAPIURL": server.url, "artefactName": server.artifact}
        await w.create_sync("real", source=source, suspend=False)
        sync = await w.until_state(World.SYNCS, "real", "Succeeded", timeout=60)
        resources = await w.all(World.RESOURCES)
        assert len(resources) == sync["status"]["artifactCount"] > 0
        for resource in resources:
            checksum = resource["metadata"]["annotations"]["vidra.infrahub.operators.com/checksum"]
            assert md5(content_of(resource)) == checksum
            await _make_namespaces(w, content_of(resource))
            await w.until_state(World.RESOURCES, resource["metadata"]["name"], "Succeeded", timeout=60)
        await w.client.delete(World.SYNCS, "real")
        await w.until_gone(World.SYNCS, "real", timeout=60)
        assert await w.all(World.RESOURCES) == []


async def _make_namespaces(w: World, manifest: str) -> None:
    """Those that the artifact's objects name and don't bring."""
    objects = [obj for obj in yaml.load_all(manifest, Loader=yaml.CSafeLoader) if obj]
    for name in {obj["metadata"].get("namespace") for obj in objects} - {None}:
        try:
            await w.client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        except ApiError as error:
            if not error.already_exists:
                raise

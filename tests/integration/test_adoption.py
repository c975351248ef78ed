"""Objects that were there before: refused the same way on every pass, taken over where that is allowed, given back."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.integration.deploy_support import (
    DEPLOYMENTS,
    again,
    asked,
    deploy,
    deployment,
    make,
    make_sync,
    managers,
    owned,
    present,
    redeploy,
    remove,
    until_at_rest,
    writes,
)
from tests.integration.kube_support import CONFIGMAPS, until
from tests.integration.world import World, config_map, documents, world

from controlplane import ControlPlane
from vidra.api import names
from vidra.deploy.managers import ADOPTING_MANAGER, LAST_APPLIED_ANNOTATION, RELEASED_MANAGER
from vidra.kube.client import Obj, PatchType


@pytest.fixture
async def w(control_plane: ControlPlane) -> AsyncIterator[World]:
    async with world(control_plane) as w:
        yield w


async def page(w: World) -> Obj:
    return await present(w, CONFIGMAPS, "page", w.namespace)


def notes_on(obj: Obj) -> dict[str, str]:
    found: dict[str, str] = obj["metadata"].get("annotations") or {}
    return found


async def kubectl_apply(w: World, obj: Obj) -> Obj:
    """As kubectl's client-side apply leaves an object: its manager, and its copy of the manifest."""
    copy = json.dumps(obj, separators=(",", ":")) + "\n"
    metadata = {**obj["metadata"], "annotations": {LAST_APPLIED_ANNOTATION: copy}}
    return await make(w, CONFIGMAPS, {**obj, "metadata": metadata}, by="kubectl-client-side-apply")


@pytest.mark.case("I11")
async def test_a_foreign_object_is_refused_the_same_way_on_every_pass(w: World) -> None:
    before = await make(w, CONFIGMAPS, config_map("page", mine="1"))
    refused = await deploy(w, "a", config_map("page", w.namespace), config_map("own", w.namespace), state="Failed")
    text = refused["status"]["lastError"]
    assert "document 1" in text
    assert "exists and is not Vidra's (managed by somebody); to take it over set spec.adopt" in text
    assert next(c["reason"] for c in refused["status"]["conditions"] if c["type"] == "Ready") == "Conflict"
    for _ in range(3):
        after = await again(w, "a")
        assert (after["status"]["DeployState"], after["status"]["lastError"]) == ("Failed", text)
    assert await page(w) == before
    await present(w, CONFIGMAPS, "own", w.namespace)
    await remove(w, "a")
    assert await page(w) == before


@pytest.mark.case("I11")
async def test_a_foreign_object_in_an_objects_place_is_refused_too(w: World) -> None:
    await deploy(w, "a", config_map("page", w.namespace))
    await w.client.delete(CONFIGMAPS, "page", namespace=w.namespace)
    before = await make(w, CONFIGMAPS, config_map("page", mine="1"))
    after = await again(w, "a")
    assert "exists and is not Vidra's" in after["status"]["lastError"]
    await remove(w, "a")
    assert await page(w) == before


@pytest.mark.case("I11")
@pytest.mark.parametrize("label", [{}, {names.MANAGED_BY_LABEL: names.MANAGED_BY_VALUE}])
@pytest.mark.parametrize("by", ["spec", "manifest", "live"])
async def test_it_is_taken_over_where_that_is_allowed_and_given_back(w: World, by: str, label: dict[str, str]) -> None:
    mine = config_map("page", mine="1")
    mine["metadata"]["labels"] = label
    await make(w, CONFIGMAPS, mine)
    allow = {names.ADOPT_ANNOTATION: names.ENABLED}
    wanted = config_map("page", w.namespace, a="1")
    if by == "manifest":
        wanted["metadata"]["annotations"] = allow
    if by == "live":
        await w.annotate(CONFIGMAPS, "page", w.namespace, **allow)
    found = await deploy(w, "a", wanted, adopt=True if by == "spec" else None)
    assert (await page(w))["data"] == {"mine": "1", "a": "1"}
    assert found["status"]["managedResources"][0]["adopted"] is True
    await until_at_rest(w, "a")
    await remove(w, "a")
    left = await page(w)
    assert left["data"] == {"mine": "1", "a": "1"}
    assert names.MANAGED_BY_LABEL not in (left["metadata"].get("labels") or {})
    assert names.ADOPTED_ANNOTATION not in notes_on(left)
    assert not [name for name in managers(left) if name.startswith(names.MANAGER_PREFIX) or name == ADOPTING_MANAGER]
    assert RELEASED_MANAGER in managers(left)


@pytest.mark.case("I11")
async def test_what_left_the_manifest_is_given_back_when_it_was_taken_over(w: World) -> None:
    await make(w, CONFIGMAPS, config_map("page", mine="1"))
    await deploy(w, "a", config_map("page", w.namespace), config_map("own", w.namespace), adopt=True)
    found = await redeploy(w, "a", config_map("own", w.namespace))
    assert [item["name"] for item in found["status"]["managedResources"]] == ["own"]
    assert (await page(w))["data"] == {"mine": "1", "a": "1"}


async def test_allowing_it_later_is_enough(w: World) -> None:
    await make(w, CONFIGMAPS, config_map("page", mine="1"))
    await deploy(w, "a", config_map("page", w.namespace), state="Failed")
    await w.change(World.RESOURCES, "a", adopt=True)
    await w.until_state(World.RESOURCES, "a", "Succeeded")
    assert (await page(w))["data"] == {"mine": "1", "a": "1"}


async def test_fields_that_kubectl_applied_go_when_the_manifest_lacks_them(w: World) -> None:
    await kubectl_apply(w, config_map("page", old="1", kept="1"))
    await deploy(w, "a", config_map("page", w.namespace, kept="1", new="1"), adopt=True)
    found = await page(w)
    assert found["data"] == {"kept": "1", "new": "1"}
    assert LAST_APPLIED_ANNOTATION not in notes_on(found)
    assert not [name for name in managers(found) if name.startswith("kubectl")]
    assert managers(found)["vidra:"] == "Apply"
    await redeploy(w, "a", config_map("page", w.namespace, new="1"))
    assert (await page(w))["data"] == {"new": "1"}


async def test_what_others_applied_beside_kubectl_stays(w: World) -> None:
    await kubectl_apply(w, config_map("page", old="1"))
    patch = {"data": {"theirs": "1"}}
    await w.client.patch(CONFIGMAPS, "page", patch, PatchType.MERGE, namespace=w.namespace, field_manager="controller")
    await deploy(w, "a", config_map("page", w.namespace, new="1"), adopt=True)
    assert (await page(w))["data"] == {"theirs": "1", "new": "1"}


async def test_kubectls_edit_of_a_managed_object_is_nobodys_drift_whatever_way_it_is_looked_at(w: World) -> None:
    await deploy(w, "a", config_map("page", w.namespace))
    patch: dict[str, Any] = {"data": {"theirs": "1"}, "metadata": {"labels": {names.MANAGED_BY_LABEL: None}}}
    await w.client.patch(
        CONFIGMAPS, "page", patch, PatchType.MERGE, namespace=w.namespace, field_manager="kubectl-edit"
    )
    await again(w, "a")
    found = await page(w)
    assert found["data"] == {"a": "1", "theirs": "1"}
    assert found["metadata"]["labels"] == {names.MANAGED_BY_LABEL: names.MANAGED_BY_VALUE}


async def test_what_was_let_go_and_is_taken_again_follows_the_manifest(w: World) -> None:
    await deploy(w, "a", config_map("page", w.namespace, old="1", kept="1"), deletionPolicy="Orphan")
    await remove(w, "a")
    assert (await page(w))["data"] == {"old": "1", "kept": "1"}
    refused = await deploy(w, "b", config_map("page", w.namespace, kept="1"), state="Failed")
    assert RELEASED_MANAGER in refused["status"]["lastError"]
    await w.change(World.RESOURCES, "b", adopt=True)
    await w.until_state(World.RESOURCES, "b", "Succeeded")
    assert (await page(w))["data"] == {"kept": "1"}


async def test_what_was_taken_over_is_known_though_the_operator_dies_before_it_says_so(
    control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(control_plane, start=False) as w:
        await make(w, CONFIGMAPS, config_map("page", mine="1"))
        async with w.operating() as operator:
            # The takeover arrives at the server; what it was done for, and every word of it, doesn't.
            applied = operator.places
            place = await applied.open("")
            client_apply = place.to.client.apply

            async def dies(*args: Any, **options: Any) -> Obj:
                await client_apply(*args, **options)
                raise AssertionError("the operator dies here")

            monkeypatch.setattr(place.to.client, "apply", dies)
            await w.create_resource("a", documents(config_map("page", w.namespace)), adopt=True)

            async def taken() -> bool:
                return "vidra:" in managers(await page(w))

            await until(taken)
        await w.change(World.RESOURCES, "a", adopt=False)
        async with w.operating():
            found = await w.until_state(World.RESOURCES, "a", "Succeeded")
            assert found["status"]["managedResources"][0]["adopted"] is True
            await remove(w, "a")
            assert (await page(w))["data"]["mine"] == "1"


async def test_a_deployment_is_taken_over_without_a_rollout(w: World) -> None:
    body = deployment("web", w.namespace)
    before = await make(w, DEPLOYMENTS, body)
    sync = await make_sync(w, "one")
    mark = w.plane.audit.mark()
    await deploy(w, "a", body, adopt=True, metadata=owned(sync))
    after = await present(w, DEPLOYMENTS, "web", w.namespace)
    assert after["spec"] == before["spec"]
    assert len(writes(w, mark, DEPLOYMENTS)) <= 3, asked(w, mark)
    await until_at_rest(w, "a")

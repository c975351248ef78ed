"""Objects that several resources declare: applied once, kept till the last of them goes, and never fought over."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator

import pytest
from tests.integration.deploy_support import (
    again,
    assert_at_rest,
    deploy,
    make,
    make_sync,
    managers,
    namespace_of,
    owned,
    present,
    redeploy,
    remove,
    writes,
)
from tests.integration.kube_support import CONFIGMAPS, NAMESPACES
from tests.integration.world import World, config_map, documents, world

from controlplane import ControlPlane


@pytest.fixture
async def w(control_plane: ControlPlane) -> AsyncIterator[World]:
    async with world(control_plane) as w:
        yield w


@pytest.fixture
def team() -> str:
    """The name of a Namespace that nobody else has."""
    return f"team-{uuid.uuid4().hex[:8]}"


async def shared(w: World) -> dict[str, str]:
    data: dict[str, str] = (await present(w, CONFIGMAPS, "shared", w.namespace))["data"]
    return data


def declared(w: World, value: str) -> dict[str, object]:
    return config_map("shared", w.namespace, value=value)


# --- within a sync


async def test_the_last_of_several_resources_takes_the_shared_object_along(w: World) -> None:
    await deploy(w, "a", declared(w, "1"), config_map("a", w.namespace))
    await deploy(w, "b", declared(w, "1"), config_map("b", w.namespace))
    await remove(w, "a")
    assert await shared(w) == {"value": "1"}
    assert await w.get(CONFIGMAPS, "a", w.namespace) is None
    await remove(w, "b")
    assert await w.get(CONFIGMAPS, "shared", w.namespace) is None


@pytest.mark.case("I07")
async def test_a_different_declaration_is_refused_on_every_pass_and_names_the_holder(w: World) -> None:
    await deploy(w, "a", declared(w, "1"))
    refused = await deploy(w, "b", declared(w, "2"), config_map("b", w.namespace), state="Failed")
    await w.until_quiet()
    mark = w.plane.audit.mark()
    for name in ("a", "b", "a", "b"):
        await again(w, name)
        await w.until_quiet()
        assert await shared(w) == {"value": "1"}
    assert writes(w, mark, CONFIGMAPS) == []
    after = await present(w, World.RESOURCES, "b")
    assert after["status"]["lastError"] == refused["status"]["lastError"]
    assert "VidraResource a declares it differently" in after["status"]["lastError"]
    assert await w.get(CONFIGMAPS, "b", w.namespace) is not None


async def test_another_edit_of_the_holder_gives_nothing_away(w: World) -> None:
    await deploy(w, "b", declared(w, "1"))
    await deploy(w, "a", declared(w, "2"), state="Failed")
    await w.change(World.RESOURCES, "b", interval="1h")
    await w.until_state(World.RESOURCES, "b", "Succeeded")
    await w.until_quiet()
    assert await shared(w) == {"value": "1"}
    await redeploy(w, "b", declared(w, "1"), config_map("more", w.namespace))
    await w.until_quiet()
    assert await shared(w) == {"value": "1"}
    await w.until_state(World.RESOURCES, "a", "Failed")


async def test_a_restart_gives_nothing_away(control_plane: ControlPlane) -> None:
    async with world(control_plane, start=False) as w:
        async with w.operating():
            await deploy(w, "z", declared(w, "1"))
            await deploy(w, "a", declared(w, "2"), state="Failed")
            await w.until_quiet()
        async with w.operating(workers_resource=1):
            await w.until_quiet()
            assert await shared(w) == {"value": "1"}
            await w.until_state(World.RESOURCES, "a", "Failed")
            await w.until_state(World.RESOURCES, "z", "Succeeded")


async def test_who_was_refused_is_woken_when_the_holder_moves_on(w: World) -> None:
    await deploy(w, "a", declared(w, "1"))
    await deploy(w, "b", declared(w, "2"), state="Failed")
    await redeploy(w, "a", config_map("a", w.namespace))
    await w.until_state(World.RESOURCES, "b", "Succeeded")
    assert await shared(w) == {"value": "2"}


async def test_who_was_refused_is_woken_when_the_holder_is_deleted(w: World) -> None:
    await deploy(w, "a", declared(w, "1"))
    await deploy(w, "b", declared(w, "2"), state="Failed")
    await remove(w, "a")
    await w.until_state(World.RESOURCES, "b", "Succeeded")
    assert await shared(w) == {"value": "2"}


async def test_who_was_refused_is_woken_when_the_holder_comes_to_agree(w: World) -> None:
    await deploy(w, "a", declared(w, "1"))
    await deploy(w, "b", declared(w, "2"), state="Failed")
    await redeploy(w, "a", declared(w, "2"))
    await w.until_state(World.RESOURCES, "b", "Succeeded")
    assert await shared(w) == {"value": "2"}


async def test_a_declaration_that_all_change_alike_arrives(w: World) -> None:
    for name in "abc":
        await deploy(w, name, declared(w, "1"))
    for name in "abc":
        await w.change(World.RESOURCES, name, manifest=documents(declared(w, "2")))
    for name in "abc":
        await w.until_state(World.RESOURCES, name, "Succeeded")
    assert await shared(w) == {"value": "2"}


# --- between syncs


async def test_two_syncs_that_agree_both_own_it_and_it_outlives_the_first(w: World, team: str) -> None:
    one, two = await make_sync(w, "one"), await make_sync(w, "two")
    await deploy(w, "a", namespace_of(team, tier="web"), metadata=owned(one))
    await deploy(w, "b", namespace_of(team, tier="web"), metadata=owned(two))
    assert {"vidra:one", "vidra:two"} <= managers(await present(w, NAMESPACES, team)).keys()
    await remove(w, "a")
    left = await present(w, NAMESPACES, team)
    assert left["metadata"]["labels"]["tier"] == "web"
    assert "vidra:one" not in managers(left)
    await w.client.delete(World.RESOURCES, "b")
    await w.until_gone(NAMESPACES, team)
    await w.until_gone(World.RESOURCES, "b")


async def test_a_field_that_only_the_leaving_sync_declared_goes_with_it(w: World) -> None:
    one, two = await make_sync(w, "one"), await make_sync(w, "two")
    await deploy(w, "a", config_map("shared", w.namespace, value="1", mine="1"), metadata=owned(one))
    await deploy(w, "b", config_map("shared", w.namespace, value="1"), metadata=owned(two))
    await remove(w, "a")
    assert await shared(w) == {"value": "1"}
    await again(w, "b")
    await assert_at_rest(w, "b")
    await remove(w, "b")
    assert await w.get(CONFIGMAPS, "shared", w.namespace) is None


@pytest.mark.case("I07")
async def test_syncs_that_disagree_have_a_conflict_that_names_the_first_and_nothing_flips(w: World) -> None:
    one, two = await make_sync(w, "one"), await make_sync(w, "two")
    await deploy(w, "a", declared(w, "1"), metadata=owned(one))
    refused = await deploy(w, "b", declared(w, "2"), metadata=owned(two), state="Failed")
    assert "InfrahubSync one sets .data.value to other values" in refused["status"]["lastError"]
    ready = next(c for c in refused["status"]["conditions"] if c["type"] == "Ready")
    assert ready["reason"] == "Conflict"
    for name in ("b", "a", "b", "a"):
        await again(w, name)
        await w.until_quiet()
        assert await shared(w) == {"value": "1"}
    assert (await w.status(World.RESOURCES, "b"))["lastError"] == refused["status"]["lastError"]
    await remove(w, "a")
    await again(w, "b")
    await w.until_state(World.RESOURCES, "b", "Succeeded")
    assert await shared(w) == {"value": "2"}


async def test_an_object_that_was_there_before_outlives_all_who_share_it(w: World) -> None:
    await make(w, CONFIGMAPS, config_map("shared", value="1"))
    one, two = await make_sync(w, "one"), await make_sync(w, "two")
    await deploy(w, "a", declared(w, "1"), metadata=owned(one), adopt=True)
    await deploy(w, "b", declared(w, "1"), metadata=owned(one))
    await deploy(w, "c", declared(w, "1"), metadata=owned(two))
    for name in "abc":
        await remove(w, name)
        assert await shared(w) == {"value": "1"}
    assert not [m for m in managers(await present(w, CONFIGMAPS, "shared", w.namespace)) if m.startswith("vidra:")]


async def test_a_shared_object_at_rest_costs_none_of_its_owners_a_request(w: World) -> None:
    one, two = await make_sync(w, "one"), await make_sync(w, "two")
    for name, sync in (("a", one), ("b", one), ("c", two)):
        await deploy(w, name, declared(w, "1"), metadata=owned(sync))
    for name in "abc":
        await again(w, name)
    for name in "abc":
        await assert_at_rest(w, name)

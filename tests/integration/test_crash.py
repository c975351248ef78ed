"""The operator dies at awkward points and is started anew: nothing leaks, and everything gets where it was going."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from tests.integration.deploy_support import managers, remove, until_at_rest
from tests.integration.kube_support import CONFIGMAPS
from tests.integration.world import World, config_map, documents, world

from controlplane import ControlPlane
from vidra.kube.client import Client, Obj

#: Objects of the resource that is cut short. More than are written at once.
COUNT = 20


class Crash:
    """Cuts the operator off at one of its requests: that one is, or isn't, carried out, and no other one after it."""

    def __init__(self, client: Client, at: Callable[[str, str], bool], *, carried_out: bool) -> None:
        self.happened = asyncio.Event()
        self._at, self._carried_out = at, carried_out
        self._raw = client.raw

    async def raw(self, method: str, path: str, **options: Any) -> Any:
        if self.happened.is_set():
            await asyncio.get_running_loop().create_future()
        if not self._at(method, path):
            return await self._raw(method, path, **options)
        self.happened.set()
        if self._carried_out:
            await self._raw(method, path, **options)
        return await asyncio.get_running_loop().create_future()


@asynccontextmanager
async def dying(w: World, at: Callable[[str, str], bool], *, carried_out: bool) -> AsyncIterator[Crash]:
    """An operator that is cut off when ``at`` says so of a request's method and path, and gone when this is left."""
    async with AsyncExitStack() as stack:
        operator = await stack.enter_async_context(w.operating(grace=0.01))
        client = (await operator.places.open("")).to.client
        crash = Crash(client, at, carried_out=carried_out)
        client.raw = crash.raw  # type: ignore[method-assign]  # no word of it reaches the server after the crash
        yield crash
        await asyncio.wait_for(crash.happened.wait(), 20)


def nth(number: int, matches: Callable[[str, str], bool]) -> Callable[[str, str], bool]:
    """At the nth request that matches."""
    left = number

    def at(method: str, path: str) -> bool:
        nonlocal left
        left -= matches(method, path)
        return left == 0 and matches(method, path)

    return at


def is_status(method: str, path: str) -> bool:
    return path.endswith("/a/status")


def is_create(method: str, path: str) -> bool:
    return method == "POST" and path.endswith("/configmaps")


def is_delete(method: str, path: str) -> bool:
    return method == "DELETE" and "/configmaps/" in path


def is_finalizer(method: str, path: str) -> bool:
    return method == "PATCH" and path.endswith("/vidraresources/a")


def pages(w: World, first: int, last: int) -> list[Obj]:
    return [config_map(f"page-{number:02}", w.namespace, a=str(first)) for number in range(first, last)]


async def found(w: World) -> set[str]:
    return {obj["metadata"]["name"] for obj in await w.all(CONFIGMAPS, w.namespace)} - {"kube-root-ca.crt"}


@pytest.fixture
async def w(control_plane: ControlPlane) -> AsyncIterator[World]:
    """Nobody at work yet."""
    async with world(control_plane, start=False) as w:
        yield w


async def assert_known(w: World) -> None:
    """Whatever of Vidra is in the namespace stands in the inventory: nothing leaks, come what may."""
    items = (await w.status(World.RESOURCES, "a")).get("managedResources") or ()
    known = {item["name"] for item in items}
    live = {o["metadata"]["name"] for o in await w.all(CONFIGMAPS, w.namespace) if "vidra:" in managers(o)}
    assert live <= known, live - known


POINTS: dict[str, tuple[Callable[[str, str], bool], int]] = {
    "storing the finalizer": (is_finalizer, 1),
    "writing the union": (is_status, 1),
    "the first object": (is_create, 1),
    "some objects in": (is_create, COUNT // 2),
    "the last object": (is_create, COUNT),
    "saying how it went": (is_status, 2),
}


@pytest.mark.parametrize("carried_out", [True, False], ids=["carried out", "lost"])
@pytest.mark.parametrize("point", POINTS)
async def test_a_rollout_that_was_cut_short_is_finished_and_everything_of_it_goes(
    w: World, point: str, carried_out: bool
) -> None:
    matches, number = POINTS[point]
    async with dying(w, nth(number, matches), carried_out=carried_out):
        await w.create_resource("a", documents(*pages(w, 0, COUNT)))
    await assert_known(w)
    async with w.operating():
        await w.until_state(World.RESOURCES, "a", "Succeeded")
        assert len(await found(w)) == COUNT
        await until_at_rest(w, "a")
        await remove(w, "a")
        assert await found(w) == set()


@pytest.mark.parametrize("point", ["writing the union", "some objects in", "saying how it went"])
async def test_what_was_cut_short_and_is_unwanted_by_then_goes(w: World, point: str) -> None:
    matches, number = POINTS[point]
    async with dying(w, nth(number, matches), carried_out=True):
        await w.create_resource("a", documents(*pages(w, 0, COUNT)))
    await w.change(World.RESOURCES, "a", manifest=documents(config_map("other", w.namespace)))
    async with w.operating():
        await w.until_state(World.RESOURCES, "a", "Succeeded")
        assert await found(w) == {"other"}


@pytest.mark.parametrize("point", ["writing the union", "some objects in"])
async def test_what_was_cut_short_and_deleted_by_then_goes(w: World, point: str) -> None:
    matches, number = POINTS[point]
    async with dying(w, nth(number, matches), carried_out=True):
        await w.create_resource("a", documents(*pages(w, 0, COUNT)))
    await w.client.delete(World.RESOURCES, "a")
    async with w.operating():
        await w.until_gone(World.RESOURCES, "a")
        assert await found(w) == set()


@pytest.mark.parametrize("carried_out", [True, False], ids=["carried out", "lost"])
@pytest.mark.parametrize("number", [1, 7, COUNT])
async def test_a_cleanup_that_was_cut_short_is_finished(w: World, number: int, carried_out: bool) -> None:
    async with dying(w, nth(number, is_delete), carried_out=carried_out):
        await w.create_resource("a", documents(*pages(w, 0, COUNT)))
        await w.until_state(World.RESOURCES, "a", "Succeeded")
        await w.client.delete(World.RESOURCES, "a")
    async with w.operating():
        await w.until_gone(World.RESOURCES, "a")
        assert await found(w) == set()


async def test_an_object_that_somebody_made_anew_while_nobody_was_there_is_theirs(w: World) -> None:
    async with dying(w, nth(3, is_delete), carried_out=True):
        await w.create_resource("a", documents(*pages(w, 0, COUNT)))
        await w.until_state(World.RESOURCES, "a", "Succeeded")
        await w.client.delete(World.RESOURCES, "a")
    left = await found(w)
    gone = next(obj for obj in pages(w, 0, COUNT) if obj["metadata"]["name"] not in left)
    await w.client.create(CONFIGMAPS, gone, namespace=w.namespace, field_manager="somebody")
    async with w.operating():
        await w.until_gone(World.RESOURCES, "a")
        assert await found(w) == {gone["metadata"]["name"]}


async def test_deaths_at_random_moments_leak_nothing(w: World) -> None:
    dice = random.Random(7)  # the same deaths on every run; what they meet differs all the same
    wanted: list[Obj] = []
    for round_ in range(8):
        wanted = pages(w, dice.randrange(10), COUNT - dice.randrange(10))
        text = documents(*wanted)
        async with dying(w, nth(dice.randrange(1, 12), lambda m, p: m != "GET"), carried_out=dice.random() < 0.5):
            if round_ == 0:
                await w.create_resource("a", text)
            else:
                await w.change(World.RESOURCES, "a", manifest=text)
        if round_:
            await assert_known(w)
    async with w.operating():
        await w.until_state(World.RESOURCES, "a", "Succeeded")
        assert await found(w) == {obj["metadata"]["name"] for obj in wanted}
        await assert_known(w)
        await remove(w, "a")
        assert await found(w) == set()

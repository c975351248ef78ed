"""Informers over a wire that is cut, frozen and closed while a real API server is flooded with writes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import pytest
from tests.integration.kube_support import CONFIGMAPS, config_map, connected, own_namespace, running, until
from tests.scripted.proxy import Wire, by_way_of, wire_to

from controlplane import ControlPlane
from vidra.kube import config
from vidra.kube.breaker import Breaker
from vidra.kube.client import Client, Obj, PatchType
from vidra.kube.errors import ApiError, Unreachable
from vidra.kube.session import Session
from vidra.kube.watch import Collection
from vidra.runtime.backoff import Backoff, ExponentialBackoff
from vidra.runtime.informer import Informer
from vidra.runtime.store import Change, ChangeType, Key, Store

QUICK = ExponentialBackoff(0.05, 0.2, jitter=0.5)


class Patient(Breaker):
    """Never leaves a server alone: here it is the reflector's pauses that are looked at."""

    def check(self, request: str) -> None: ...


class Scene(NamedTuple):
    client: Client
    namespace: str
    wire: Wire
    informer: Informer[Obj]
    told: list[Change[Obj]]

    async def make(self, name: str) -> None:
        await self.client.create(CONFIGMAPS, config_map(name), namespace=self.namespace)

    def holds(self, name: str) -> bool:
        return Key(self.namespace, name) in self.informer.store


@asynccontextmanager
async def scene(plane: ControlPlane, *, stream_lists: bool = True, idle_timeout: float = 30) -> AsyncIterator[Scene]:
    """An informer over a wire, and a client beside it that does not use the wire."""
    loader = config.loader(plane.kubeconfig_path)
    async with (
        connected(plane.kubeconfig_path) as client,
        own_namespace(client) as namespace,
        wire_to(plane.url) as wire,
        Session(by_way_of(wire, loader), breaker=Patient()) as session,
    ):
        source = Collection(Client(session), CONFIGMAPS, namespace=namespace, idle_timeout=idle_timeout)
        informer: Informer[Obj] = Informer(
            source,
            Store[Obj](detect_mutations=True),
            backoff=Backoff(QUICK),
            stream_lists=stream_lists,
            page_size=20,
        )
        told: list[Change[Obj]] = []
        informer.add_handler(told.append)
        async with running(informer.run()):
            assert await informer.wait_synced(10)
            yield Scene(client, namespace, wire, informer, told)


def added_up(told: list[Change[Obj]]) -> dict[Key, str]:
    held: dict[Key, tuple[str, int]] = {}
    for change in told:
        if change.new is None:
            del held[change.key]
            continue
        metadata = change.new["metadata"]
        now = (metadata["uid"], int(metadata["resourceVersion"]))
        if change.type is ChangeType.ADDED:
            assert change.key not in held
        else:
            assert held[change.key][0] == now[0]
            assert held[change.key][1] < now[1]
        held[change.key] = now
    return {key: uid for key, (uid, _) in held.items()}


async def write_at_random(scene: Scene, seed: int, *, connections: int) -> None:
    """Goes on until the informer has had to connect so often."""
    dice = random.Random(seed)
    while scene.wire.opened < connections:
        name = f"m{dice.randrange(40)}"
        try:
            match dice.randrange(4):
                case 0:
                    await scene.make(name)
                case 1:
                    await scene.client.delete(CONFIGMAPS, name, namespace=scene.namespace)
                case _:
                    patch = {"data": {"n": str(dice.random())}}
                    await scene.client.patch(CONFIGMAPS, name, patch, PatchType.MERGE, namespace=scene.namespace)
        except ApiError as error:
            if not (error.not_found or error.already_exists or error.conflict):
                raise


@pytest.mark.parametrize("stream_lists", [True, False], ids=["streamed", "listed"])
async def test_a_flood_of_writes_over_a_wire_that_is_cut_again_and_again_loses_nothing(
    control_plane: ControlPlane, stream_lists: bool
) -> None:
    async with scene(control_plane, stream_lists=stream_lists) as here:

        async def trouble() -> None:
            dice = random.Random(7)
            while True:
                await asyncio.sleep(dice.uniform(0.01, 0.3))
                here.wire.cut()
                here.wire.closed = dice.random() < 0.3

        async with running(trouble()):
            await asyncio.gather(*(write_at_random(here, seed, connections=10) for seed in range(6)))
        here.wire.closed = False
        here.wire.cut()
        await here.make("last")
        await until(lambda: here.holds("last"))

        live = {
            Key(here.namespace, item["metadata"]["name"]): item["metadata"]["resourceVersion"]
            async for item in here.client.list_all(CONFIGMAPS, namespace=here.namespace)
        }
        store = here.informer.store
        assert {key: store.resource_version(key) for key in store} == live
        assert added_up(here.told) == {key: store.uid(key) for key in store}


@pytest.mark.case("U1")
async def test_u1_packets_that_are_dropped_are_noticed_and_the_next_change_is_seen(
    control_plane: ControlPlane,
) -> None:
    async with scene(control_plane, idle_timeout=1) as here:
        await here.make("before")
        await until(lambda: here.holds("before"))
        here.wire.freeze()
        await here.make("during")
        await here.client.delete(CONFIGMAPS, "before", namespace=here.namespace)
        await until(lambda: here.holds("during") and not here.holds("before"), timeout=10)
        assert here.informer.last_error is None


@pytest.mark.case("U5")
async def test_u5_a_server_that_refuses_connections_is_visible_and_taken_up_again(
    control_plane: ControlPlane,
) -> None:
    async with scene(control_plane) as here:
        here.wire.closed = True
        here.wire.cut()
        await until(lambda: isinstance(here.informer.last_error, Unreachable))
        await here.make("meanwhile")
        here.wire.closed = False
        await until(lambda: here.holds("meanwhile"))
        assert here.informer.last_error is None
        assert [change.type for change in here.told if change.key.name == "meanwhile"] == [ChangeType.ADDED]


async def test_a_namespace_that_is_deleted_empties_the_store(control_plane: ControlPlane) -> None:
    async with scene(control_plane) as here:
        await asyncio.gather(*(here.make(f"m{number}") for number in range(30)))
        await until(lambda: all(here.holds(f"m{number}") for number in range(30)))
        await here.client.raw("DELETE", f"/api/v1/namespaces/{here.namespace}")
        await until(lambda: not any(here.holds(f"m{number}") for number in range(30)), timeout=30)
        await until(lambda: len(here.informer.store) == 0, timeout=30)
        assert added_up(here.told) == {}

"""The labelled ConfigMap while the operator runs: what is written there holds without a restart."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.integration.kube_support import CONFIGMAPS, until
from tests.integration.world import World, config_map, world

from controlplane import ControlPlane
from infrahub.seeds import webservers
from vidra.api import names
from vidra.config import LiveConfig
from vidra.kube.client import PatchType

LABEL = {names.CONFIG_LABEL: names.CONFIG_LABEL_VALUE}
OFF = LiveConfig(requeue_sync_after=None, requeue_resources_after=None)


@pytest.fixture
async def w(control_plane: ControlPlane) -> AsyncIterator[World]:
    """An operator whose intervals are off, and a sync that has succeeded once."""
    async with world(control_plane, seed=webservers(1)) as made:
        await made.create_sync("live")
        await made.until_state(made.SYNCS, "live", "Succeeded")
        await made.until_quiet()
        yield made


async def put(w: World, name: str = "settings", **data: str) -> None:
    body = config_map(name, **data)
    body["metadata"]["labels"] = LABEL
    await w.client.create(CONFIGMAPS, body, namespace=w.namespace)


async def change(w: World, **data: str | None) -> None:
    await w.client.patch(CONFIGMAPS, "settings", {"data": data}, PatchType.MERGE, namespace=w.namespace)


async def until_asked_again(w: World) -> None:
    """Infrahub is asked at least twice more, so not by chance once."""
    before = w.standin.count(path_prefix="/graphql")
    await until(lambda: w.standin.count(path_prefix="/graphql") >= before + 2)


async def test_an_interval_written_there_holds_at_once_for_syncs_that_had_none(w: World) -> None:
    await put(w, requeueSyncAfter="1s")

    await until_asked_again(w)
    assert w.operator.config.current == LiveConfig(1.0, None)


async def test_a_wrong_value_keeps_the_last_good_one_and_a_key_taken_away_falls_back(w: World) -> None:
    await put(w, requeueSyncAfter="1s")
    await until(lambda: w.operator.config.current == LiveConfig(1.0, None))

    await change(w, requeueSyncAfter="often", eventBasedReconcile="true")
    await until(lambda: w.operator.config.current == LiveConfig(1.0, None, event_based_reconcile=True))
    await until_asked_again(w)

    await change(w, requeueSyncAfter=None)
    await until(lambda: w.operator.config.current == LiveConfig(None, None, event_based_reconcile=True))

    await w.client.delete(CONFIGMAPS, "settings", namespace=w.namespace)
    await until(lambda: w.operator.config.current == OFF)


async def test_another_query_is_asked_at_once(w: World) -> None:
    await put(w, queryName="NoSuchQuery")

    refused = await w.until_state(w.SYNCS, "live", "Failed", "Stale")
    assert "NoSuchQuery" in refused["status"]["lastError"]


async def test_only_the_labelled_config_map_of_the_own_namespace_counts(w: World) -> None:
    await w.client.create(CONFIGMAPS, config_map("other", requeueSyncAfter="5s"), namespace=w.namespace)
    elsewhere = config_map(f"elsewhere-{w.namespace}", requeueSyncAfter="5s")
    elsewhere["metadata"]["labels"] = LABEL
    await w.client.create(CONFIGMAPS, elsewhere, namespace="default")
    await put(w, requeueSyncAfter="7s")

    await until(lambda: w.operator.config.current != OFF)
    assert w.operator.config.current == LiveConfig(7.0, None)
    assert len(w.operator.caches.config_maps.store) == 1
    await w.client.delete(CONFIGMAPS, elsewhere["metadata"]["name"], namespace="default")

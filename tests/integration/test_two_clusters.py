"""Destinations: found by their whole URL, moved between, let go of when they are gone."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import yaml
from tests.integration.kube_support import CONFIGMAPS, connected, own_namespace, until
from tests.integration.world import SECRETS, World, config_map, documents, world

from controlplane import ControlPlane
from vidra.kube.client import Client, Obj, PatchType
from vidra.kube.errors import ApiError


class Remote:
    """The second cluster: its admin's client, and a namespace for one test's objects."""

    def __init__(self, plane: ControlPlane, client: Client, namespace: str) -> None:
        self.plane, self.client, self.namespace = plane, client, namespace

    async def data(self, name: str) -> dict[str, str] | None:
        try:
            data: dict[str, str] = (await self.client.get(CONFIGMAPS, name, self.namespace)).get("data") or {}
        except ApiError as error:
            if error.not_found:
                return None
            raise
        return data

    def kubeconfig(self) -> dict[str, Any]:
        config: dict[str, Any] = yaml.safe_load(self.plane.kubeconfig_path.read_text())
        return config


@pytest.fixture
async def remote(second_plane: ControlPlane) -> AsyncIterator[Remote]:
    async with connected(second_plane.kubeconfig_path) as client, own_namespace(client) as namespace:
        yield Remote(second_plane, client, namespace)


@asynccontextmanager
async def two_clusters(plane: ControlPlane, remote: Remote, **options: Any) -> AsyncIterator[World]:
    async with world(plane, **options) as w:
        await put_kubeconfig(w, "remote", remote.kubeconfig())
        yield w


def kubeconfig_secret(w: World, name: str, kubeconfig: Obj | str, *, host: str = "127.0.0.1") -> Obj:
    text = kubeconfig if isinstance(kubeconfig, str) else yaml.safe_dump(kubeconfig)
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": w.namespace, "labels": {"cluster-kubeconfig": host}},
        "data": {"kubeconfig": base64.b64encode(text.encode()).decode()},
    }


async def put_kubeconfig(w: World, name: str, kubeconfig: Obj | str, *, host: str = "127.0.0.1") -> None:
    await w.client.create(SECRETS, kubeconfig_secret(w, name, kubeconfig, host=host), namespace=w.namespace)


def at(remote: Remote, **more: Any) -> dict[str, Any]:
    return {"server": remote.plane.url, "namespace": remote.namespace, **more}


async def test_objects_arrive_in_the_cluster_their_resource_names_and_go_with_it(
    control_plane: ControlPlane, remote: Remote
) -> None:
    async with two_clusters(control_plane, remote) as w:
        await w.create_resource("one", documents(config_map("one", a="far")), destination=at(remote))
        await w.until_state(World.RESOURCES, "one", "Succeeded")
        assert await remote.data("one") == {"a": "far"}
        await w.client.delete(World.RESOURCES, "one")
        await w.until_gone(World.RESOURCES, "one")
        assert await remote.data("one") is None


async def test_drift_in_a_remote_cluster_is_corrected_when_it_happens(
    control_plane: ControlPlane, remote: Remote
) -> None:
    async with two_clusters(control_plane, remote) as w:
        manifest = documents(config_map("one", a="right"))
        await w.create_resource("one", manifest, destination=at(remote, reconcileOnEvents=True))
        await w.until_state(World.RESOURCES, "one", "Succeeded")
        patch = {"data": {"a": "wrong"}}
        await remote.client.patch(CONFIGMAPS, "one", patch, PatchType.MERGE, namespace=remote.namespace)

        async def corrected() -> bool:
            return await remote.data("one") == {"a": "right"}

        await until(corrected)


async def test_a_resource_that_goes_elsewhere_is_cleaned_up_at_the_old_place(
    control_plane: ControlPlane, remote: Remote
) -> None:
    async with two_clusters(control_plane, remote) as w:
        await w.create_resource("one", documents(config_map("one", a="1")), destination=at(remote))
        await w.until_state(World.RESOURCES, "one", "Succeeded")

        await w.change(World.RESOURCES, "one", destination={"server": "", "namespace": w.namespace})
        moved = await w.until_state(World.RESOURCES, "one", "Succeeded")
        assert await w.get(CONFIGMAPS, "one", w.namespace) is not None
        assert await remote.data("one") is None
        assert "formerDestinations" not in moved["status"]

        await w.change(World.RESOURCES, "one", destination=at(remote))
        await w.until_state(World.RESOURCES, "one", "Succeeded")
        assert await w.get(CONFIGMAPS, "one", w.namespace) is None
        assert await remote.data("one") == {"a": "1"}


async def test_what_is_left_at_an_old_place_that_is_gone_is_named_until_it_is_back(
    control_plane: ControlPlane, remote: Remote
) -> None:
    async with two_clusters(control_plane, remote) as w:
        await w.create_resource("one", documents(config_map("one")), destination=at(remote))
        await w.until_state(World.RESOURCES, "one", "Succeeded")
        await w.client.delete(SECRETS, "remote", namespace=w.namespace)
        await w.change(World.RESOURCES, "one", destination={"server": "", "namespace": w.namespace})
        moved = await w.until_state(World.RESOURCES, "one", "Failed")
        assert await w.get(CONFIGMAPS, "one", w.namespace) is not None
        (former,) = moved["status"]["formerDestinations"]
        assert former["server"] == remote.plane.url
        assert [item["name"] for item in former["managedResources"]] == ["one"]
        assert remote.plane.url in moved["status"]["lastError"]

        await put_kubeconfig(w, "remote", remote.kubeconfig())
        await w.until_state(World.RESOURCES, "one", "Succeeded")
        assert await remote.data("one") is None


async def test_a_secret_that_goes_makes_what_was_deployed_stale_and_one_that_comes_mends_it(
    control_plane: ControlPlane, remote: Remote
) -> None:
    async with two_clusters(control_plane, remote) as w:
        await w.create_resource("one", documents(config_map("one")), destination=at(remote))
        before = await w.until_state(World.RESOURCES, "one", "Succeeded")
        await w.client.delete(SECRETS, "remote", namespace=w.namespace)
        stale = await w.until_state(World.RESOURCES, "one", "Stale")
        assert stale["status"]["lastSyncTime"] == before["status"]["lastSyncTime"]
        assert "cluster-kubeconfig=127.0.0.1" in stale["status"]["lastError"]
        assert await remote.data("one") is not None
        await put_kubeconfig(w, "again", remote.kubeconfig())
        await w.until_state(World.RESOURCES, "one", "Succeeded")


async def test_two_clusters_behind_one_address_are_told_apart_by_their_ports(
    control_plane: ControlPlane, remote: Remote
) -> None:
    async with two_clusters(control_plane, remote) as w:
        # The local cluster is at the same address: a second Secret of that host, for another port.
        await put_kubeconfig(w, "other", yaml.safe_load(control_plane.kubeconfig_path.read_text()))
        manifest = documents(config_map("one"))
        await w.create_resource("far", manifest, destination=at(remote))
        await w.create_resource("near", manifest, destination={"server": control_plane.url, "namespace": w.namespace})
        await w.until_state(World.RESOURCES, "far", "Succeeded")
        await w.until_state(World.RESOURCES, "near", "Succeeded")
        assert await remote.data("one") is not None
        assert await w.get(CONFIGMAPS, "one", w.namespace) is not None


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda config: config["users"][0].update(user={"exec": {"command": "sh"}}), "--allow-in-kubeconfig exec"),
        (lambda config: config["users"][0].update(user={"tokenFile": "/etc/token"}), "user.tokenFile"),
        (lambda config: config["clusters"][0]["cluster"].update({"insecure-skip-tls-verify": True}), "insecure-tls"),
        (lambda config: config.update({"current-context": "other"}), "names 'other'"),
    ],
    ids=["exec", "file", "insecure", "context"],
)
async def test_a_kubeconfig_that_must_not_be_used_is_named_with_the_field_and_the_way_out(
    control_plane: ControlPlane, remote: Remote, spoil: Any, told: str
) -> None:
    async with world(control_plane) as w:
        config = remote.kubeconfig()
        spoil(config)
        await put_kubeconfig(w, "spoilt", config)
        await w.create_resource("one", documents(config_map("one")), destination=at(remote))
        failed = await w.until_state(World.RESOURCES, "one", "Failed")
        assert told in failed["status"]["lastError"]
        assert f"{w.namespace}/spoilt" in failed["status"]["lastError"]


async def test_two_secrets_for_one_server_are_one_too_many(control_plane: ControlPlane, remote: Remote) -> None:
    async with two_clusters(control_plane, remote) as w:
        await put_kubeconfig(w, "twin", remote.kubeconfig())
        await w.create_resource("one", documents(config_map("one")), destination=at(remote))
        failed = await w.until_state(World.RESOURCES, "one", "Failed")
        assert f"{w.namespace}/remote, {w.namespace}/twin" in failed["status"]["lastError"]
        await w.client.delete(SECRETS, "twin", namespace=w.namespace)
        await w.until_state(World.RESOURCES, "one", "Succeeded")


@pytest.mark.case("D13")
async def test_a_resource_whose_cluster_is_gone_for_good_can_be_deleted_by_orphaning(
    control_plane: ControlPlane, remote: Remote
) -> None:
    async with two_clusters(control_plane, remote) as w:
        await w.create_resource("one", documents(config_map("one")), destination=at(remote))
        await w.until_state(World.RESOURCES, "one", "Succeeded")
        await w.client.delete(SECRETS, "remote", namespace=w.namespace)
        await w.client.delete(World.RESOURCES, "one")
        failed = await w.until_state(World.RESOURCES, "one", "Failed")
        assert "spec.deletionPolicy to Orphan" in failed["status"]["lastError"]
        await w.change(World.RESOURCES, "one", deletionPolicy="Orphan")
        await w.until_gone(World.RESOURCES, "one")
        assert await remote.data("one") is not None

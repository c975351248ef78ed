"""Discovery against the real API server: kinds that come and go, groups that are down, and servers too old for it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from tests.integration.kube_support import CRDS, connected, own_kind, serve, until

from controlplane import ControlPlane
from vidra.kube import discovery as module
from vidra.kube.client import Client
from vidra.kube.discovery import Discovery, DiscoveryStale, NotServed
from vidra.kube.errors import ApiError
from vidra.kube.resource import GroupKind, Resource

API_SERVICES = Resource("apiregistration.k8s.io", "v1", "APIService", "apiservices", namespaced=False)


@pytest.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[Client]:
    async with connected(control_plane.kubeconfig_path) as client:
        yield client


@pytest.mark.parametrize(
    ("group", "version", "kind", "plural", "namespaced"),
    [
        ("", "v1", "ConfigMap", "configmaps", True),
        ("", "v1", "Namespace", "namespaces", False),
        ("", "v1", "Endpoints", "endpoints", True),
        ("apps", "v1", "Deployment", "deployments", True),
        ("networking.k8s.io", "v1", "Ingress", "ingresses", True),
        ("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", True),
        ("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", False),
        ("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False),
    ],
)
async def test_the_servers_own_kinds(
    client: Client, group: str, version: str, kind: str, plural: str, namespaced: bool
) -> None:
    found = await Discovery(client).resource(group, version, kind)
    assert (found.plural, found.namespaced) == (plural, namespaced)
    assert {"get", "list", "watch", "create", "patch", "delete"} <= found.verbs


async def test_everything_is_read_by_two_requests(control_plane: ControlPlane) -> None:
    agent = f"discovery-test/{uuid.uuid4().hex}"
    async with connected(control_plane.kubeconfig_path, user_agent=agent) as client:
        discovery = Discovery(client)
        await asyncio.gather(*(discovery.resource("apps", "v1", "Deployment") for _ in range(20)))
        for _ in range(20):
            with pytest.raises(NotServed):
                await discovery.resource("apps", "v1", "Nothing")
        entries = await asyncio.to_thread(control_plane.audit.entries, user_agent_prefix=agent)
    assert [entry.uri for entry in entries] == ["/api", "/apis"]


async def test_what_is_not_served_says_what_is(client: Client) -> None:
    with pytest.raises(NotServed, match=r"Deployment in apps/v1beta1 is not served .*\(served: apps/v1\)"):
        await Discovery(client).resource("apps", "v1beta1", "Deployment")
    assert (await Discovery(client).any_version("apps", "Deployment", "v1beta1")).version == "v1"


async def test_a_kind_that_is_defined_later_is_found_and_one_that_is_removed_is_not(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REFRESH_PAUSE", 0.0)
    discovery = Discovery(client)
    await discovery.refresh()
    resource, crd = own_kind()
    with pytest.raises(NotServed):
        await discovery.resource(resource.group, resource.version, resource.kind)
    await serve(client, resource, crd)
    found: list[Resource] = []

    async def served() -> bool:
        try:
            found.append(await discovery.resource(resource.group, resource.version, resource.kind))
        except (NotServed, DiscoveryStale):
            return False
        return True

    await until(served)
    assert (found[0].plural, found[0].namespaced) == (resource.plural, True)
    assert resource.kind in {r.kind for r in await discovery.namespaced()}

    await client.delete(CRDS, crd["metadata"]["name"])

    async def gone() -> bool:
        await discovery.refresh(now=True)
        try:
            await discovery.any_version(resource.group, resource.kind)
        except NotServed:
            return True
        return False

    await until(gone, timeout=30)


async def test_a_group_whose_server_is_down_is_unknown_and_not_absent(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REFRESH_PAUSE", 0.0)
    group = f"g{uuid.uuid4().hex[:8]}.example"
    service = {"namespace": "default", "name": "nobody"}
    spec = {"group": group, "version": "v1", "groupPriorityMinimum": 10, "versionPriority": 10, "service": service}
    spec["insecureSkipTLSVerify"] = True
    body = {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": f"v1.{group}"}}
    await client.create(API_SERVICES, {**body, "spec": spec})
    discovery = Discovery(client)
    try:

        async def unknown() -> bool:
            try:
                await discovery.resource(group, "v1", "Thing")
            except DiscoveryStale:
                return True
            except NotServed:
                return False  # the aggregator hasn't heard of it yet
            raise AssertionError

        await until(unknown, timeout=30)
        with pytest.raises(DiscoveryStale):
            await discovery.any_version(group, "Thing")
        with pytest.raises(DiscoveryStale):
            await discovery.namespaced()
        assert (await discovery.resource("apps", "v1", "Deployment")).plural == "deployments", "the others are known"
    finally:
        await client.delete(API_SERVICES, f"v1.{group}")

    async def forgotten() -> bool:
        try:
            await discovery.namespaced()
        except DiscoveryStale:
            return False
        return True

    await until(forgotten, timeout=30)


class Older:
    """The real server, asked in the words of a client that knows no aggregated discovery: it answers as older ones."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def raw(self, method: str, path: str, **_: Any) -> Any:
        return await self._client.raw(method, path)


async def test_the_older_protocol_tells_the_same(client: Client) -> None:
    async def kinds(client: Any) -> dict[GroupKind, set[Resource]]:
        discovery = Discovery(cast(Client, client))
        await discovery.refresh()
        return {kind: set(versions.values()) for kind, versions in discovery._kinds.items()}

    newer, older = await kinds(client), await kinds(Older(client))
    ours = {kind for kind in newer.keys() | older.keys() if kind.group.endswith(".example")}
    assert {kind: r for kind, r in older.items() if kind not in ours} == {
        kind: r for kind, r in newer.items() if kind not in ours
    }
    assert len(newer) > 50


async def test_a_user_without_any_rights_can_still_discover(control_plane: ControlPlane) -> None:
    async with connected(control_plane.user_kubeconfig(f"user-{uuid.uuid4().hex[:8]}")) as client:
        assert (await Discovery(client).resource("", "v1", "Secret")).plural == "secrets"
        with pytest.raises(ApiError, match="403"):
            await client.raw("GET", "/api/v1/secrets")

"""Informers against the real API server: both ways of listing, every kind of event, refusals and recoveries."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from tests.integration.kube_support import (
    CONFIGMAPS,
    CRDS,
    config_map,
    connected,
    own_kind,
    own_namespace,
    running,
    serve,
    until,
)

from controlplane import ControlPlane
from vidra.kube.client import Client, Obj, PatchType
from vidra.kube.errors import ApiError
from vidra.kube.watch import Collection
from vidra.runtime.backoff import Backoff, ExponentialBackoff
from vidra.runtime.informer import Informer
from vidra.runtime.store import Change, Key, Store, drop_managed_fields

QUICK = ExponentialBackoff(0.05, 0.2, jitter=0.0)


@pytest.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[Client]:
    async with connected(control_plane.kubeconfig_path) as client:
        yield client


@pytest.fixture
async def namespace(client: Client) -> AsyncIterator[str]:
    async with own_namespace(client) as name:
        yield name


def informer_of(client: Client, namespace: str, **options: Any) -> Informer[Obj]:
    selection = {name: options.pop(name) for name in ("label_selector", "field_selector") if name in options}
    source = Collection(client, options.pop("resource", CONFIGMAPS), namespace=namespace, **selection)
    store: Store[Obj] = Store(transform=drop_managed_fields, detect_mutations=True)
    return Informer(source, store, backoff=Backoff(QUICK), **options)


def told(informer: Informer[Obj]) -> list[tuple[str, str, bool]]:
    seen: list[tuple[str, str, bool]] = []

    def note(change: Change[Obj]) -> None:
        if change.key.name != "kube-root-ca.crt":
            seen.append((change.type.value, change.key.name, change.initial))

    informer.add_handler(note)
    return seen


@pytest.mark.parametrize("stream_lists", [True, False], ids=["streamed", "listed"])
async def test_what_exists_comes_first_and_then_every_change(
    client: Client, namespace: str, stream_lists: bool
) -> None:
    for name in ("a", "b"):
        await client.create(CONFIGMAPS, config_map(name, {"k": "1"}), namespace=namespace)
    informer = informer_of(client, namespace, stream_lists=stream_lists)
    seen = told(informer)
    async with running(informer.run()):
        assert await informer.wait_synced(10)
        assert sorted(seen) == [("ADDED", "a", True), ("ADDED", "b", True)]
        held = informer.store.get(Key(namespace, "a"))
        assert held is not None
        assert (held["apiVersion"], held["kind"]) == ("v1", "ConfigMap")
        assert "managedFields" not in held["metadata"]

        await client.create(CONFIGMAPS, config_map("c"), namespace=namespace)
        await client.patch(CONFIGMAPS, "a", {"data": {"k": "2"}}, PatchType.MERGE, namespace=namespace)
        await client.delete(CONFIGMAPS, "b", namespace=namespace)
        await until(lambda: len(seen) == 5)
        assert seen[2:] == [("ADDED", "c", False), ("MODIFIED", "a", False), ("DELETED", "b", False)]
        assert informer.last_error is None
        assert informer.last_activity is not None
        informer.store.check_mutations()


async def test_a_list_of_many_pages_is_whole(client: Client, namespace: str) -> None:
    await asyncio.gather(*(client.create(CONFIGMAPS, config_map(f"m{n}"), namespace=namespace) for n in range(23)))
    informer = informer_of(client, namespace, stream_lists=False, page_size=5)
    async with running(informer.run()):
        assert await informer.wait_synced(10)
        names = {key.name for key in informer.store} - {"kube-root-ca.crt"}
    assert names == {f"m{n}" for n in range(23)}


async def test_leaving_the_label_selector_is_a_delete(client: Client, namespace: str) -> None:
    await client.create(CONFIGMAPS, config_map("a", labels={"team": "x"}), namespace=namespace)
    informer = informer_of(client, namespace, label_selector="team=x")
    seen = told(informer)
    async with running(informer.run()):
        assert await informer.wait_synced(10)
        await client.patch(CONFIGMAPS, "a", {"metadata": {"labels": None}}, PatchType.MERGE, namespace=namespace)
        await until(lambda: len(seen) == 2)
    assert seen == [("ADDED", "a", True), ("DELETED", "a", False)]


async def test_a_writer_can_wait_until_its_own_write_has_arrived(client: Client, namespace: str) -> None:
    informer = informer_of(client, namespace)
    async with running(informer.run()):
        assert await informer.wait_synced(10)
        for n in range(20):
            made = await client.create(CONFIGMAPS, config_map(f"w{n}"), namespace=namespace)
            key = Key(namespace, f"w{n}")
            assert await informer.store.wait_for(key, made["metadata"]["resourceVersion"], timeout=10)
            assert key in informer.store


@pytest.mark.case("U15")
async def test_u15_a_kind_that_is_removed_and_comes_back_is_watched_again(client: Client, namespace: str) -> None:
    resource, crd = own_kind()
    await serve(client, resource, crd)
    thing = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "a"}}
    await client.create(resource, thing, namespace=namespace)
    informer = informer_of(client, namespace, resource=resource)
    seen = told(informer)
    async with running(informer.run()):
        assert await informer.wait_synced(10)
        await client.delete(CRDS, crd["metadata"]["name"])
        await until(lambda: ("DELETED", "a", False) in seen)
        await until(lambda: isinstance(informer.last_error, ApiError) and informer.last_error.not_found)

        async def removed() -> bool:
            try:
                await client.get(CRDS, crd["metadata"]["name"])
            except ApiError as error:
                return error.not_found
            return False

        await until(removed)
        await serve(client, resource, crd)
        await client.create(resource, thing, namespace=namespace)
        await until(lambda: seen[-1] == ("ADDED", "a", False))
        assert informer.last_error is None


async def test_a_user_without_rights_is_visible_and_recovers_when_given_them(
    control_plane: ControlPlane, client: Client, namespace: str
) -> None:
    user = f"user-{namespace}"
    async with connected(control_plane.user_kubeconfig(user)) as restricted:
        informer = informer_of(restricted, namespace)
        async with running(informer.run()):
            await until(lambda: isinstance(informer.last_error, ApiError) and informer.last_error.status == 403)
            assert not informer.has_synced
            rbac = "/apis/rbac.authorization.k8s.io/v1"
            rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]}]
            await client.raw(
                "POST",
                f"{rbac}/namespaces/{namespace}/roles",
                body={"metadata": {"name": "reader"}, "rules": rules},
            )
            await client.raw(
                "POST",
                f"{rbac}/namespaces/{namespace}/rolebindings",
                body={
                    "metadata": {"name": "reader"},
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
                    "subjects": [{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}],
                },
            )
            assert await informer.wait_synced(10)
            assert informer.last_error is None


@pytest.mark.case("U1")
async def test_a_quiet_kind_without_bookmarks_costs_next_to_nothing(control_plane: ControlPlane) -> None:
    """Bookmarks come after a minute at the earliest, so with this deadline each watch falls silent."""
    agent = f"quiet/{uuid.uuid4().hex}"
    resource, crd = own_kind()
    async with (
        connected(control_plane.kubeconfig_path) as admin,
        connected(control_plane.kubeconfig_path, user_agent=agent) as client,
    ):
        await serve(admin, resource, crd)
        thing = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "a"}}
        await admin.create(resource, thing, namespace="default")
        source = Collection(client, resource, idle_timeout=0.2)
        informer: Informer[Obj] = Informer(source, Store[Obj](), backoff=Backoff(QUICK), stream_lists=False)
        seen = told(informer)

        async def watched() -> list[str]:
            entries = await asyncio.to_thread(control_plane.audit.entries, user_agent_prefix=agent)
            return [entry.uri for entry in entries if "watch=true" in entry.uri]

        async with running(informer.run()):
            await until(lambda: informer.has_synced)
            await until(lambda: _reached(watched, 8))
            await admin.patch(resource, "a", {"spec": {"n": 1}}, PatchType.MERGE, namespace="default")
            await until(lambda: len(seen) == 2)
        entries = await asyncio.to_thread(control_plane.audit.entries, user_agent_prefix=agent, verb="list")
    assert seen == [("ADDED", "a", True), ("MODIFIED", "a", False)]
    assert ["limit=1&" in f"{entry.uri}&" for entry in entries] == [False, *[True] * (len(entries) - 1)]
    assert len(entries) >= 4


async def _reached(requests: Callable[[], Awaitable[list[str]]], count: int) -> bool:
    return len(await requests()) >= count


async def test_a_version_from_before_the_servers_memory_is_gone(client: Client, namespace: str) -> None:
    """The real server's 410: its memory of a kind begins with the CRD."""
    resource, crd = own_kind()
    await serve(client, resource, crd)
    with pytest.raises(ApiError) as refused:
        async with Collection(client, resource).watch(resource_version="1", timeout_seconds=300) as events:
            await anext(events)
    assert refused.value.gone


async def test_a_list_from_the_future_is_told_apart_from_a_busy_server(client: Client, namespace: str) -> None:
    with pytest.raises(ApiError) as refused:
        await Collection(client, CONFIGMAPS, namespace=namespace).list_page(
            resource_version="999999999", continue_token=None, limit=500
        )
    assert refused.value.too_large_version


async def test_a_restart_of_the_server_is_survived_without_a_false_delete(control_plane_binaries: Any) -> None:
    with ControlPlane(controller_manager=False, binaries=control_plane_binaries) as plane:
        async with connected(plane.kubeconfig_path) as client:
            await client.create(CONFIGMAPS, config_map("a"), namespace="default")
            informer = informer_of(client, "default")
            seen = told(informer)
            async with running(informer.run()):
                assert await informer.wait_synced(10)
                await asyncio.to_thread(plane.restart_api_server)
                await client.create(CONFIGMAPS, config_map("b"), namespace="default")
                await until(lambda: ("ADDED", "b", False) in seen, timeout=30)
                assert [entry for entry in seen if entry[0] == "DELETED"] == []

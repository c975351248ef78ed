"""The client against the real API server: what servers make of each verb."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.integration.kube_support import CONFIGMAPS, NAMESPACES, config_map, connected, own_namespace, refused, until

from controlplane import ControlPlane
from vidra.kube.client import Client, PatchType
from vidra.kube.resource import Resource

ROLES = Resource("rbac.authorization.k8s.io", "v1", "Role", "roles", namespaced=True)
THINGS = Resource("example", "v1", "Thing", "things", namespaced=True)


@pytest.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[Client]:
    async with connected(control_plane.kubeconfig_path) as client:
        yield client


@pytest.fixture
async def namespace(client: Client) -> AsyncIterator[str]:
    async with own_namespace(client) as name:
        yield name


async def test_create_answers_a_name_that_is_taken(client: Client, namespace: str) -> None:
    made = await client.create(CONFIGMAPS, config_map("a", {"k": "é\u2028\U0001f600"}), namespace=namespace)
    assert made == await client.get(CONFIGMAPS, "a", namespace)
    error = await refused(client.create(CONFIGMAPS, config_map("a"), namespace=namespace))
    assert (error.already_exists, error.conflict) == (True, False)
    assert f"POST /api/v1/namespaces/{namespace}/configmaps: 409 AlreadyExists" in str(error)


async def test_what_is_not_there(client: Client, namespace: str) -> None:
    assert (await refused(client.get(CONFIGMAPS, "nothing", namespace))).not_found
    assert (await refused(client.delete(CONFIGMAPS, "nothing", namespace=namespace))).not_found
    assert (await refused(client.get(THINGS, "nothing", namespace))).not_found


async def test_an_apply_over_anothers_field_names_the_other_and_force_takes_it(client: Client, namespace: str) -> None:
    def body(value: str) -> dict[str, Any]:
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": value}}

    await client.apply(CONFIGMAPS, body("1"), "a", namespace=namespace, field_manager="one")
    error = await refused(client.apply(CONFIGMAPS, body("2"), "a", namespace=namespace, field_manager="two"))
    assert error.conflict
    assert [(cause.field, 'conflict with "one"' in cause.message) for cause in error.field_conflicts] == [
        (".data.k", True)
    ]
    taken = await client.apply(CONFIGMAPS, body("2"), "a", namespace=namespace, field_manager="two", force=True)
    assert taken["data"] == {"k": "2"}


async def test_a_dry_run_changes_nothing(client: Client, namespace: str) -> None:
    await client.create(CONFIGMAPS, config_map("a"), namespace=namespace, dry_run=True)
    assert (await refused(client.get(CONFIGMAPS, "a", namespace))).not_found
    await client.create(CONFIGMAPS, config_map("a", {"k": "1"}), namespace=namespace)
    await client.patch(CONFIGMAPS, "a", {"data": {"k": "2"}}, PatchType.MERGE, namespace=namespace, dry_run=True)
    await client.delete(CONFIGMAPS, "a", namespace=namespace, dry_run=True)
    assert (await client.get(CONFIGMAPS, "a", namespace))["data"] == {"k": "1"}


async def test_a_delete_under_preconditions_spares_another_object(client: Client, namespace: str) -> None:
    first = await client.create(CONFIGMAPS, config_map("a"), namespace=namespace)
    await client.delete(CONFIGMAPS, "a", namespace=namespace, uid=first["metadata"]["uid"])
    second = await client.create(CONFIGMAPS, config_map("a"), namespace=namespace)
    error = await refused(client.delete(CONFIGMAPS, "a", namespace=namespace, uid=first["metadata"]["uid"]))
    assert error.conflict
    version = second["metadata"]["resourceVersion"]
    await client.patch(CONFIGMAPS, "a", {"data": {"k": "1"}}, PatchType.MERGE, namespace=namespace)
    assert (await refused(client.delete(CONFIGMAPS, "a", namespace=namespace, resource_version=version))).conflict
    assert (await client.get(CONFIGMAPS, "a", namespace))["metadata"]["uid"] == second["metadata"]["uid"]


async def test_a_failed_test_of_a_json_patch_is_invalid(client: Client, namespace: str) -> None:
    await client.create(CONFIGMAPS, config_map("a", {"k": "1"}), namespace=namespace)
    patch = [{"op": "test", "path": "/data/k", "value": "2"}, {"op": "remove", "path": "/data/k"}]
    assert (await refused(client.patch(CONFIGMAPS, "a", patch, PatchType.JSON, namespace=namespace))).invalid


async def test_an_invalid_object_is_refused_with_its_causes(client: Client, namespace: str) -> None:
    error = await refused(client.create(CONFIGMAPS, config_map("Not_A_Name"), namespace=namespace))
    assert (error.invalid, error.retryable) == (True, False)
    assert [cause.field for cause in error.causes] == ["metadata.name"]


async def test_the_server_warns_of_unknown_fields(client: Client, namespace: str) -> None:
    warnings: list[str] = []
    body = {**config_map("a"), 'odd "field"': 1}
    await client.create(CONFIGMAPS, body, namespace=namespace, warnings=warnings)
    assert warnings == ['unknown field "odd \\"field\\""']


async def test_lists_come_page_by_page_and_by_selector(client: Client, namespace: str) -> None:
    for number in range(7):
        labels = {"parity": str(number % 2)}
        await client.create(CONFIGMAPS, config_map(f"m{number}", labels=labels), namespace=namespace)
    listed = [
        item["metadata"]["name"]
        async for item in client.list_all(CONFIGMAPS, namespace=namespace, label_selector="parity", page_size=2)
    ]
    assert listed == [f"m{number}" for number in range(7)]
    page = await client.list_page(CONFIGMAPS, namespace=namespace, label_selector="parity=1", limit=2)
    assert [item["metadata"]["name"] for item in page["items"]] == ["m1", "m3"]
    assert page["metadata"]["continue"]
    page = await client.list_page(CONFIGMAPS, namespace=namespace, field_selector="metadata.name=m5")
    assert [item["metadata"]["name"] for item in page["items"]] == ["m5"]


async def test_a_name_with_a_colon_is_one_name(client: Client, namespace: str) -> None:
    body = {"apiVersion": ROLES.api_version, "kind": "Role", "metadata": {"name": "a:b"}, "rules": []}
    await client.create(ROLES, body, namespace=namespace)
    assert (await client.get(ROLES, "a:b", namespace))["metadata"]["name"] == "a:b"
    await client.delete(ROLES, "a:b", namespace=namespace)


@pytest.mark.parametrize("name", ["../secrets", "a/b", "a?b", "a#b", "a%2fb"])
async def test_no_name_reaches_another_place(client: Client, namespace: str, name: str) -> None:
    error = await refused(client.get(CONFIGMAPS, name, namespace))
    assert error.status in (400, 404)
    assert f"/namespaces/{namespace}/configmaps/" in str(error)


async def test_a_namespace_that_is_going_takes_nothing_new(client: Client) -> None:
    async with own_namespace(client) as namespace:
        await client.create(CONFIGMAPS, config_map("held", finalizers=["example.org/x"]), namespace=namespace)
        await client.delete(NAMESPACES, namespace)

        async def terminating() -> bool:
            return bool((await client.get(NAMESPACES, namespace))["status"]["phase"] == "Terminating")

        await until(terminating)
        error = await refused(client.create(CONFIGMAPS, config_map("late"), namespace=namespace))
        assert error.status == 403
        assert [cause.reason for cause in error.causes] == ["NamespaceTerminating"]
        patch = [{"op": "remove", "path": "/metadata/finalizers"}]
        await client.patch(CONFIGMAPS, "held", patch, PatchType.JSON, namespace=namespace)


async def test_many_requests_share_few_connections_and_all_come_back(client: Client, namespace: str) -> None:
    await client.create(CONFIGMAPS, config_map("a"), namespace=namespace)
    answers = await asyncio.gather(*(client.get(CONFIGMAPS, "a", namespace) for _ in range(300)))
    assert len(answers) == 300

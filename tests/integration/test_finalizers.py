"""Finalizer patches on the real API server, with other controllers at the same list."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.integration.kube_support import connected, own_kind, own_namespace, refused, serve

from controlplane import ControlPlane
from vidra.kube.client import Client, Obj, PatchType
from vidra.kube.errors import ApiError
from vidra.kube.resource import Resource
from vidra.runtime.finalizers import add_finalizer_patch, remove_finalizer_patch

FINALIZER = "example.org/ours"


@pytest.fixture(scope="module")
def kind(control_plane: ControlPlane) -> Resource:
    resource, crd = own_kind()

    async def make() -> None:
        async with connected(control_plane.kubeconfig_path) as client:
            await serve(client, resource, crd)

    asyncio.run(make())
    return resource


@pytest.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[Client]:
    async with connected(control_plane.kubeconfig_path) as client:
        yield client


@pytest.fixture
async def namespace(client: Client) -> AsyncIterator[str]:
    async with own_namespace(client) as name:
        yield name


async def make(client: Client, kind: Resource, namespace: str, finalizers: list[str] | None = None) -> Obj:
    metadata = {"name": "a", **({"finalizers": finalizers} if finalizers else {})}
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
    return await client.create(kind, body, namespace=namespace)


@pytest.mark.case("U8")
async def test_u8_two_controllers_of_one_objects_finalizers_lose_none(
    client: Client, kind: Resource, namespace: str
) -> None:
    """Another controller adds and removes its own entry as fast as it can while ours come and go."""
    await make(client, kind, namespace, ["foreign/keeps"])

    async def changes(name: str, rounds: int) -> None:
        for number in range(rounds):
            make = remove_finalizer_patch if number % 2 else add_finalizer_patch
            while True:
                patch = make(await client.get(kind, "a", namespace), name)
                assert patch, "whoever else writes, our own entry stays as we left it"
                try:
                    await client.patch(kind, "a", patch, PatchType.JSON, namespace=namespace)
                    break
                except ApiError as error:
                    if not error.invalid:
                        raise
            names = (await client.get(kind, "a", namespace))["metadata"]["finalizers"]
            assert (name in names) is (number % 2 == 0)
            assert "foreign/keeps" in names

    await asyncio.gather(*(changes(f"example.org/f{number}", 11) for number in range(4)))
    names = (await client.get(kind, "a", namespace))["metadata"]["finalizers"]
    assert sorted(names) == [*(f"example.org/f{number}" for number in range(4)), "foreign/keeps"]


@pytest.mark.case("U8")
async def test_u8_a_removal_computed_from_an_old_list_is_refused_or_removes_only_ours(
    client: Client, kind: Resource, namespace: str
) -> None:
    before = await make(client, kind, namespace, ["foreign/one", FINALIZER])
    await client.patch(
        kind, "a", {"metadata": {"finalizers": [FINALIZER, "foreign/two"]}}, PatchType.MERGE, namespace=namespace
    )
    patch = remove_finalizer_patch(before, FINALIZER)
    assert (await refused(client.patch(kind, "a", patch, PatchType.JSON, namespace=namespace))).invalid
    await client.patch(
        kind,
        "a",
        {"metadata": {"finalizers": ["foreign/three", FINALIZER, "foreign/four"]}},
        PatchType.MERGE,
        namespace=namespace,
    )
    await client.patch(kind, "a", patch, PatchType.JSON, namespace=namespace)
    assert (await client.get(kind, "a", namespace))["metadata"]["finalizers"] == ["foreign/three", "foreign/four"]


@pytest.mark.parametrize("present", [None, ["foreign/x"]])
async def test_ours_comes_and_goes_and_the_object_with_it(
    client: Client, kind: Resource, namespace: str, present: list[str] | None
) -> None:
    obj = await make(client, kind, namespace, present)
    obj = await client.patch(kind, "a", add_finalizer_patch(obj, FINALIZER), PatchType.JSON, namespace=namespace)
    assert obj["metadata"]["finalizers"] == [*(present or []), FINALIZER]
    going = await client.delete(kind, "a", namespace=namespace)
    with pytest.raises(ValueError, match="being deleted"):
        add_finalizer_patch(going, "example.org/another")
    patch = remove_finalizer_patch(going, FINALIZER)
    await client.patch(kind, "a", patch, PatchType.JSON, namespace=namespace)
    if present:
        assert (await client.get(kind, "a", namespace))["metadata"]["finalizers"] == present
    else:
        assert (await refused(client.get(kind, "a", namespace))).not_found
        assert (await refused(client.patch(kind, "a", patch, PatchType.JSON, namespace=namespace))).not_found


async def test_a_patch_for_one_object_never_touches_its_successor(
    client: Client, kind: Resource, namespace: str
) -> None:
    first = await make(client, kind, namespace)
    await client.delete(kind, "a", namespace=namespace)
    await make(client, kind, namespace)
    patch = add_finalizer_patch(first, FINALIZER)
    assert (await refused(client.patch(kind, "a", patch, PatchType.JSON, namespace=namespace))).invalid
    assert "finalizers" not in (await client.get(kind, "a", namespace))["metadata"]

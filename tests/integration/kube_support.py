"""What tests on the real API server share: a client, a namespace and a kind of their own, waiting on conditions."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from inspect import isawaitable
from pathlib import Path
from typing import Any

import pytest

from vidra.kube import config
from vidra.kube.client import Client, Obj
from vidra.kube.errors import ApiError
from vidra.kube.resource import Resource
from vidra.kube.session import Session

NAMESPACES = Resource("", "v1", "Namespace", "namespaces", namespaced=False)
CONFIGMAPS = Resource("", "v1", "ConfigMap", "configmaps", namespaced=True)
CRDS = Resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False)


@asynccontextmanager
async def connected(kubeconfig: Path, **options: Any) -> AsyncIterator[Client]:
    async with Session(config.loader(kubeconfig), **options) as session:
        yield Client(session)


async def until(condition: Callable[[], object | Awaitable[object]], *, timeout: float = 15.0) -> None:
    """Waits until the condition holds. Raises TimeoutError."""
    async with asyncio.timeout(timeout):
        while True:
            answer = condition()
            if isawaitable(answer):
                answer = await answer
            if answer:
                return
            await asyncio.sleep(0.01)


@asynccontextmanager
async def running(coroutine: Any) -> AsyncIterator[asyncio.Task[Any]]:
    """Runs it beside the test, and is loud when it ended by an error of its own."""
    task = asyncio.create_task(coroutine)
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@asynccontextmanager
async def own_namespace(client: Client) -> AsyncIterator[str]:
    """A namespace with a name nobody else has. The control plane ends with the tests: its deletion isn't awaited."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    try:
        await client.delete(NAMESPACES, name)
    except ApiError as error:
        if not (error.not_found or error.conflict):  # the test deleted it itself
            raise


def own_kind() -> tuple[Resource, Obj]:
    """A kind with a status subresource that nobody else has, and the CRD that makes it."""
    word = f"w{uuid.uuid4().hex[:8]}"
    resource = Resource(f"{word}.example", "v1", word.capitalize(), f"{word}s", namespaced=True)
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    names = {"plural": resource.plural, "singular": word, "kind": resource.kind}
    return resource, {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": {"group": resource.group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


async def serve(client: Client, resource: Resource, crd: Obj) -> None:
    """Creates the CRD and waits until the kind can be written."""
    await client.create(CRDS, crd)

    async def established() -> bool:
        conditions = (await client.get(CRDS, crd["metadata"]["name"])).get("status", {}).get("conditions")
        return any(c["type"] == "Established" and c["status"] == "True" for c in conditions or ())

    await until(established)

    async def writable() -> bool:
        try:
            probe = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "probe"}}
            await client.create(resource, probe, namespace="default", dry_run=True)
        except ApiError as error:
            if not error.not_found:
                raise
            return False
        return True

    await until(writable)


async def refused(call: Awaitable[object]) -> ApiError:
    """The error the call must end with."""
    with pytest.raises(ApiError) as error:
        await call
    return error.value


def config_map(name: str, data: dict[str, str] | None = None, **metadata: Any) -> Obj:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}, "data": data or {}}

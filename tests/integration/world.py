"""The whole operator in this process, between a real API server and an Infrahub stand-in.

async with world(control_plane, seed=webservers(3)) as w:
    await w.create_sync("shop")
    await w.until_state(w.SYNCS, "shop", "Succeeded")

Intervals are off, so that nothing happens but what a test brings about. Both kinds are cluster-wide: a world wipes all
of them when it ends, and two worlds must not run on one control plane at once.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import yaml
from tests.integration.kube_support import CONFIGMAPS, CRDS, NAMESPACES, connected, running, until

from controlplane import ControlPlane
from infrahub import Standin
from infrahub.server import Seed
from vidra.api import crd, names
from vidra.config import LiveConfig, Settings
from vidra.controllers.kinds import RESOURCES, SYNCS
from vidra.infrahub import ClientPool
from vidra.kube.client import Client, Obj, PatchType
from vidra.kube.errors import ApiError
from vidra.kube.resource import Resource
from vidra.operator import Operator
from vidra.runtime.metrics import Metrics, new_registry
from vidra.runtime.tasks import run_parts

SECRETS = Resource("", "v1", "Secret", "secrets", namespaced=True)
STATE_FIELDS = {SYNCS.kind: "syncState", RESOURCES.kind: "DeployState"}
CONTROLLERS = {SYNCS.kind: "infrahubsync", RESOURCES.kind: "vidraresource"}
ARTIFACT = "Webserver_Manifest"
#: Seconds in which a key comes back that was put off because the cache was behind.
SOON = 1.0
#: Nothing comes back by itself.
QUIET = LiveConfig(requeue_sync_after=None, requeue_resources_after=None)


@dataclass
class World:
    """``client`` is the test's own, as cluster admin; the operator is the user ``operator`` in the audit log."""

    SYNCS: ClassVar[Resource] = SYNCS
    RESOURCES: ClassVar[Resource] = RESOURCES

    plane: ControlPlane
    client: Client
    standin: Standin
    namespace: str
    user: str
    live: LiveConfig
    operator: Operator = field(init=False)
    metrics: Metrics = field(init=False)

    # --- running

    @asynccontextmanager
    async def operating(self, **settings: Any) -> AsyncIterator[Operator]:
        """Runs an operator; its caches are synced when this is entered, and it has ended when it is left."""
        self.metrics = Metrics(new_registry())
        live = {name: getattr(self.live, name) for name in LiveConfig.__slots__}
        quiet = {"namespace": self.namespace, "health_port": 0, "metrics_port": 0, "grace": 5.0}
        chosen = Settings(**(quiet | live | settings))
        kubeconfig = self.plane.user_kubeconfig(self.user, ["system:masters"])
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(connected(kubeconfig))
            pool = await stack.enter_async_context(ClientPool())
            self.operator = Operator(chosen, client, pool, self.metrics)
            await stack.enter_async_context(running(run_parts(self.operator.parts())))
            await until(lambda: all(informer.has_synced for informer in self.operator.informers.values()))
            yield self.operator

    # --- acting

    async def create_sync(self, name: str, *, destination: dict[str, Any] | None = None, **spec: Any) -> Obj:
        """An InfrahubSync of the stand-in's web servers on main; ``spec`` is added, ``source`` merged."""
        source = {"infrahubAPIURL": self.standin.url, "targetBranch": "main", "artefactName": ARTIFACT}
        source |= spec.pop("source", {})
        return await self.client.create(SYNCS, self._body(SYNCS, name, source=source, destination=destination, **spec))

    async def create_resource(
        self, name: str, manifest: str | None, *, metadata: Obj | None = None, **spec: Any
    ) -> Obj:
        """A VidraResource of nobody's sync. Without ``manifest``, ``spec`` has a compressedManifest."""
        body = self._body(RESOURCES, name, manifest=manifest, **spec)
        body["metadata"] |= metadata or {}
        return await self.client.create(RESOURCES, body)

    async def change(self, resource: Resource, name: str, **spec: Any) -> Obj:
        return await self.client.patch(resource, name, {"spec": spec}, PatchType.MERGE)

    async def annotate(self, resource: Resource, name: str, namespace: str | None = None, **annotations: Any) -> Obj:
        """Underscores stay; None takes an annotation away."""
        patch = {"metadata": {"annotations": annotations}}
        return await self.client.patch(resource, name, patch, PatchType.MERGE, namespace=namespace)

    async def put_credentials(self, name: str = "infrahub", *, host: str = "127.0.0.1", **data: str) -> None:
        """The labelled Secret; without data, one that works."""
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": self.namespace, "labels": {names.CREDENTIALS_LABEL: host}},
            "stringData": data or {"username": self.standin.username, "password": self.standin.password},
        }
        await self.client.create(SECRETS, secret, namespace=self.namespace)

    # --- seeing

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Obj | None:
        """None: there is none."""
        try:
            return await self.client.get(resource, name, namespace)
        except ApiError as error:
            if error.not_found:
                return None
            raise

    async def status(self, resource: Resource, name: str) -> Obj:
        obj = await self.get(resource, name)
        return {} if obj is None else obj.get("status") or {}

    async def all(self, resource: Resource, namespace: str | None = None) -> list[Obj]:
        return [obj async for obj in self.client.list_all(resource, namespace=namespace)]

    async def until_state(self, resource: Resource, name: str, *states: str, timeout: float = 20.0) -> Obj:
        """Waits for one of the states, of the newest generation; returns the object."""
        seen: Obj = {}

        async def there() -> bool:
            nonlocal seen
            seen = await self.get(resource, name) or {}
            status = seen.get("status") or {}
            current = status.get("observedGeneration") == seen.get("metadata", {}).get("generation")
            return current and status.get(STATE_FIELDS[resource.kind]) in states

        try:
            await until(there, timeout=timeout)
        except TimeoutError:
            raise AssertionError(f"{name} is not {' or '.join(states)} but has {seen.get('status')}") from None
        return seen

    async def until_gone(
        self, resource: Resource, name: str, namespace: str | None = None, *, timeout: float = 20.0
    ) -> None:
        async def gone() -> bool:
            return await self.get(resource, name, namespace) is None

        await until(gone, timeout=timeout)

    def reconciles(self, resource: Resource) -> int:
        """How many reconciles of this kind have ended."""
        total = 0.0
        for metric in self.metrics.registry.collect():
            if metric.name == "controller_runtime_reconcile":
                total += sum(
                    sample.value
                    for sample in metric.samples
                    if sample.name.endswith("_total") and sample.labels["controller"] == CONTROLLERS[resource.kind]
                )
        return int(total)

    async def until_quiet(self) -> None:
        """Waits until both queues are empty and idle and all that was written has come back by watch."""

        async def quiet() -> bool:
            if not await self._caught_up():
                return False
            queues = (self.operator.sync_queue, self.operator.resource_queue)
            if any(len(queue) or queue.in_progress for queue in queues):
                return False
            # A key whose reconcile met a cache that was behind comes back within a second.
            return all(due is None or due > SOON for due in (queue.next_due() for queue in queues))

        await until(quiet, timeout=30.0)

    async def _caught_up(self) -> bool:
        """Whether the operator's caches have every object in its present version."""
        caches = self.operator.caches
        stores = {SYNCS.kind: caches.syncs.store, RESOURCES.kind: caches.resources.store}
        for resource in (SYNCS, RESOURCES):
            there = {obj["metadata"]["name"]: obj["metadata"]["resourceVersion"] for obj in await self.all(resource)}
            cached = {key.name: stores[resource.kind].resource_version(key) for key in stores[resource.kind]}
            if there != cached:
                return False
        return True

    # --- inside

    @staticmethod
    def _body(resource: Resource, name: str, **spec: Any) -> Obj:
        given = {field_name: value for field_name, value in spec.items() if value is not None}
        return {
            "apiVersion": names.API_VERSION,
            "kind": resource.kind,
            "metadata": {"name": name},
            "spec": given,
        }

    async def wipe(self) -> None:
        """Takes both kinds away, finalizers and all."""
        for resource in (SYNCS, RESOURCES):
            for obj in await self.all(resource):
                name = obj["metadata"]["name"]
                try:
                    await self.client.patch(resource, name, {"metadata": {"finalizers": None}}, PatchType.MERGE)
                    await self.client.delete(resource, name)
                except ApiError as error:
                    if not error.not_found:
                        raise
        for resource in (SYNCS, RESOURCES):

            async def none_left(resource: Resource = resource) -> bool:
                return not await self.all(resource)

            await until(none_left)


async def install_kinds(client: Client) -> None:
    """Creates the CRDs, once per control plane, and waits until they are served."""
    for definition in crd.definitions().values():
        try:
            await client.create(CRDS, definition)
        except ApiError as error:
            if not error.already_exists:
                raise

    async def served() -> bool:
        try:
            for resource in (SYNCS, RESOURCES):
                await client.list_page(resource, limit=1)
        except ApiError as error:
            if not error.not_found:
                raise
            return False
        return True

    await until(served)


@asynccontextmanager
async def world(
    plane: ControlPlane,
    *,
    seed: Seed | None = None,
    live: LiveConfig = QUIET,
    credentials: bool = True,
    start: bool = True,
    **settings: Any,
) -> AsyncIterator[World]:
    """A World with a namespace of its own for the operator's Secrets and ConfigMaps and for a test's objects."""
    async with connected(plane.kubeconfig_path) as client, Standin(seed=seed) as standin:
        await install_kinds(client)
        name = f"w-{uuid.uuid4().hex[:8]}"
        await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        w = World(plane, client, standin, name, f"operator-{name}", live)
        if credentials:
            await w.put_credentials()
        try:
            if start:
                async with w.operating(**settings):
                    yield w
            else:
                yield w
        finally:
            await w.wipe()
            await client.delete(NAMESPACES, name)


def documents(*objects: Obj) -> str:
    """A manifest."""
    return yaml.safe_dump_all(objects, sort_keys=False)


def config_map(name: str, namespace: str | None = None, **data: str) -> Obj:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data or {"a": "1"}}


__all__ = ["ARTIFACT", "CONFIGMAPS", "QUIET", "SECRETS", "World", "config_map", "documents", "install_kinds", "world"]

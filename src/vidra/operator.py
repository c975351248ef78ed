"""Wires all rooms: caches, queues, controllers, servers. The only file that knows them all.

    informers -> predicates -> queues -> controllers -> reconcilers -> status client

Parts start in the order below, each when the one before is ready, and stop in the reverse order: workers end before
the caches they read, and the probes answer from first to last.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack

import structlog

from vidra import __version__
from vidra.api import names
from vidra.clusters.cluster import Cluster, Clusters
from vidra.clusters.live import LiveCache
from vidra.config import LiveConfig, Settings
from vidra.controllers import infrahubsync, vidraresource
from vidra.controllers.credentials import BY_HOST, host_index
from vidra.controllers.events import Routes
from vidra.controllers.infrahubsync import SyncReconciler
from vidra.controllers.kinds import BY_SYNC, RESOURCES, SYNCS, sync_index
from vidra.controllers.places import Places
from vidra.controllers.resource_writer import ResourceWriter
from vidra.controllers.rollout_status import shrink
from vidra.controllers.subjects import Subjects
from vidra.controllers.vidraresource import ResourceReconciler
from vidra.infrahub import ClientPool
from vidra.kube import config as kube_config
from vidra.kube.client import Client, Obj
from vidra.kube.discovery import Discovery
from vidra.kube.resource import Resource
from vidra.kube.session import Session
from vidra.kube.watch import Collection
from vidra.live_config import ConfigWatcher
from vidra.runtime.controller import Controller
from vidra.runtime.informer import Informer
from vidra.runtime.metrics import Metrics, new_registry
from vidra.runtime.probes import Check, ProbeServer
from vidra.runtime.status import StatusClient
from vidra.runtime.store import Store, drop_managed_fields
from vidra.runtime.tasks import Part, run_parts
from vidra.runtime.workqueue import WorkQueue

log = structlog.get_logger(__name__)

SECRETS = Resource("", "v1", "Secret", "secrets", namespaced=True)
CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps", namespaced=True)

#: Field manager of what Vidra writes on its own kinds.
FIELD_MANAGER = "vidra-operator"
#: Seconds that a reconcile may take. A pass waits for new definitions (30 s) and recreated objects (60 s) at the most.
RECONCILE_TIMEOUT = 600.0
#: Seconds after which a worker that is still on one key counts as stuck: beyond the time-out that should have ended it.
STUCK_AFTER = RECONCILE_TIMEOUT + 60.0


async def run(settings: Settings) -> None:
    """Runs the operator until it is cancelled.

    Raises ConfigError when no way leads to the API server, PartEnded when a part of the process failed.
    """
    metrics = Metrics(new_registry())
    loader = kube_config.loader(settings.kubeconfig, settings.context)
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(Session(loader, observer=metrics.requests("kubernetes")))
        pool = await stack.enter_async_context(ClientPool())
        operator = Operator(settings, Client(session), pool, metrics)
        log.info("vidra starts", version=__version__, server=session.server, namespace=settings.namespace)
        try:
            await run_parts(operator.parts())
        finally:
            log.info("vidra stops")


class Operator:
    """All parts of one process. Tests make one on a client of their own."""

    def __init__(self, settings: Settings, client: Client, pool: ClientPool, metrics: Metrics) -> None:
        self._settings = settings
        self._metrics = metrics
        self.config = ConfigWatcher(settings.live, self._config_changed)

        # caches
        own = settings.namespace
        self.syncs: Store[Obj] = Store(transform=drop_managed_fields)
        self.resources: Store[Obj] = Store(transform=drop_managed_fields, indexes={BY_SYNC: sync_index})
        self.secrets: Store[Obj] = Store(transform=drop_managed_fields, indexes={BY_HOST: host_index})
        self.config_maps: Store[Obj] = Store(transform=drop_managed_fields)
        self.informers: dict[str, Informer[Obj]] = {
            "secrets": Informer(
                Collection(client, SECRETS, namespace=settings.secrets_scope, label_selector=names.CREDENTIALS_LABEL),
                self.secrets,
            ),
            "config": Informer(
                Collection(
                    client,
                    CONFIG_MAPS,
                    namespace=own,
                    label_selector=f"{names.CONFIG_LABEL}={names.CONFIG_LABEL_VALUE}",
                ),
                self.config_maps,
            ),
            "syncs": Informer(Collection(client, SYNCS), self.syncs),
            "resources": Informer(Collection(client, RESOURCES), self.resources),
        }
        self._live = LiveCache(
            client,
            label_selector=f"{names.MANAGED_BY_LABEL}={names.MANAGED_BY_VALUE}",
            manager_prefix=names.MANAGER_PREFIX,
            on_change=lambda key: self.routes.object_changed(key),
        )

        # queues
        self.sync_queue: WorkQueue[str] = WorkQueue(observer=metrics.queue("infrahubsync"))
        self.resource_queue: WorkQueue[str] = WorkQueue(observer=metrics.queue("vidraresource"))
        metrics.watch("infrahubsync", self.sync_queue)
        metrics.watch("vidraresource", self.resource_queue)

        # reconcilers
        clusters = Clusters(Cluster("", client, Discovery(client), self._live))
        self.places = Places(clusters, wake=self.resource_queue.add)
        statuses = StatusClient(client, field_manager=FIELD_MANAGER)
        syncs = Subjects(
            SYNCS,
            state_field=infrahubsync.STATE_FIELD,
            finalizer=names.SYNC_FINALIZER,
            client=client,
            statuses=statuses,
            store=self.syncs,
        )
        resources = Subjects(
            RESOURCES,
            state_field=vidraresource.STATE_FIELD,
            finalizer=names.RESOURCE_FINALIZER,
            client=client,
            statuses=statuses,
            store=self.resources,
            shrink=shrink,
            on_write=self.places.take_in,
        )
        sync_reconciler = SyncReconciler(
            syncs,
            resources=resources,
            writer=ResourceWriter(client, resources),
            secrets=self.secrets,
            pool=pool,
            own_namespace=own,
            interval=lambda: self.config.current.requeue_sync_after or 0.0,
            query_name=lambda: self.config.current.query_name,
        )
        resource_reconciler = ResourceReconciler(
            resources,
            syncs=self.syncs,
            places=self.places,
            interval=lambda: self.config.current.requeue_resources_after or 0.0,
        )
        self.routes = Routes(
            syncs=self.syncs,
            resources=self.resources,
            sync_queue=self.sync_queue,
            resource_queue=self.resource_queue,
            places=self.places,
            own_namespace=own,
            event_based=lambda: self.config.current.event_based_reconcile,
        )
        self.routes.connect(
            syncs=self.informers["syncs"], resources=self.informers["resources"], secrets=self.informers["secrets"]
        )
        self.informers["config"].add_handler(lambda change: self.config.look(v for _, v in self.config_maps.items()))

        # controllers
        self._controllers = (
            self._controller("infrahubsync", sync_reconciler.reconcile, self.sync_queue, settings.workers_sync),
            self._controller(
                "vidraresource", resource_reconciler.reconcile, self.resource_queue, settings.workers_resource
            ),
        )

    def parts(self) -> list[Part]:
        """In the order in which they start."""
        parts = [Part(f"server {server.port}", server.run, server.started.wait) for server in self._servers()]
        parts.append(Part("live objects", self._live.run, self._live.ready))
        parts += [
            Part(f"informer {name}", informer.run, _synced(informer)) for name, informer in self.informers.items()
        ]
        parts.append(Part("sweep", self.places.sweeping))
        parts += [Part(f"controller {controller.name}", controller.run) for controller in self._controllers]
        return parts

    def _controller(
        self,
        name: str,
        reconcile: Callable[[str], object],
        queue: WorkQueue[str],
        workers: int,
    ) -> Controller[str]:
        return Controller(
            name,
            reconcile,  # type: ignore[arg-type]
            queue,
            workers=workers,
            timeout=RECONCILE_TIMEOUT,
            grace=self._settings.grace,
            observer=self._metrics.controller(name, workers),
        )

    def _servers(self) -> list[ProbeServer]:
        """One server, or two where probes and metrics have ports of their own."""
        host = self._settings.bind_address or None
        live = [
            Check("workers", self._stuck),
        ]
        ready = [Check(name, _not_synced(informer)) for name, informer in self.informers.items()]
        health, metrics = self._settings.health_port, self._settings.metrics_port
        registry = self._metrics.registry
        if health and health == metrics:
            return [ProbeServer(host=host, port=health, live=live, ready=ready, registry=registry)]
        servers = []
        if health:
            servers.append(ProbeServer(host=host, port=health, live=live, ready=ready))
        if metrics:
            servers.append(ProbeServer(host=host, port=metrics, registry=registry))
        return servers

    def _stuck(self) -> str | None:
        for queue in (self.sync_queue, self.resource_queue):
            running = queue.longest_running()
            if running is not None and running.seconds > STUCK_AFTER:
                return f"a worker has been on {running.key} for {running.seconds:.0f} s"
        return None

    def _config_changed(self, new: LiveConfig) -> None:
        """A shorter interval holds at once: nobody waits for the end of the old one."""
        for store, queue, pause in (
            (self.syncs, self.sync_queue, new.requeue_sync_after),
            (self.resources, self.resource_queue, new.requeue_resources_after),
        ):
            if pause is not None:
                for key in store:
                    queue.add_after(key.name, pause)


def _synced(informer: Informer[Obj]) -> Callable[[], asyncio.Future[bool]]:
    # Without a bound: while the API server is away there is nothing to do but wait; /readyz says so.
    return lambda: asyncio.ensure_future(informer.wait_synced(float("inf")))


def _not_synced(informer: Informer[Obj]) -> Callable[[], str | None]:
    def look() -> str | None:
        if informer.has_synced:
            return None
        return f"not listed yet: {informer.last_error}" if informer.last_error else "not listed yet"

    return look

"""Wires all rooms: caches, queues, controllers, servers. The only file that knows them all.

    informers -> predicates -> queues -> controllers -> reconcilers -> status client

Parts start in the order below, each when the one before is ready, and stop in the reverse order: workers end before
the caches they read, and the probes answer from first to last.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial

import structlog

from vidra import __version__
from vidra.api import names
from vidra.clusters.cluster import Cluster, Clusters
from vidra.clusters.live import LiveCache
from vidra.clusters.secrets import KubeconfigSecrets
from vidra.config import LiveConfig, Settings
from vidra.controllers import infrahubsync, vidraresource
from vidra.controllers.caches import Caches
from vidra.controllers.events import Routes
from vidra.controllers.infrahubsync import SyncReconciler
from vidra.controllers.kinds import RESOURCES, SYNCS
from vidra.controllers.places import Places
from vidra.controllers.resource_writer import ResourceWriter
from vidra.controllers.rollout_status import shrink
from vidra.controllers.subjects import Subjects
from vidra.controllers.vidraresource import ResourceReconciler
from vidra.deploy.destination import see
from vidra.infrahub import ClientPool
from vidra.kube import config as kube_config
from vidra.kube.client import Client, Obj
from vidra.kube.discovery import Discovery
from vidra.kube.guard import Guard
from vidra.kube.session import Session
from vidra.live_config import ConfigWatcher
from vidra.runtime.bulkhead import Bulkhead
from vidra.runtime.controller import Controller, Result
from vidra.runtime.fence import Fence, Watchdog
from vidra.runtime.informer import Informer
from vidra.runtime.leader import Elector, new_identity
from vidra.runtime.lease import KubeLease, LeaseTimes, lease_session
from vidra.runtime.metrics import Metrics, new_registry
from vidra.runtime.probes import Check, ProbeServer
from vidra.runtime.status import StatusClient
from vidra.runtime.tasks import Part, run_parts
from vidra.runtime.workqueue import WorkQueue

log = structlog.get_logger(__name__)

#: Field manager of what Vidra writes on its own kinds.
FIELD_MANAGER = "vidra-operator"
#: Name of the Lease, in Vidra's own namespace.
LEASE = "vidra"
#: Seconds that a reconcile may take. A pass waits for new definitions (30 s) and recreated objects (60 s) at the most.
RECONCILE_TIMEOUT = 600.0
#: Seconds after which a worker that is still on one key counts as stuck: beyond the time-out that should have ended it.
STUCK_AFTER = RECONCILE_TIMEOUT + 60.0
#: The part of the workers that may be with one Infrahub server, or with one remote cluster, at a time: a quarter.
SHARE = 4


async def run(settings: Settings) -> None:
    """Runs the operator until it is cancelled.

    Raises ConfigError when no way leads to the API server, PartEnded when a part of the process failed.
    """
    metrics = Metrics(new_registry())
    loader = kube_config.loader(settings.kubeconfig, settings.context)
    async with AsyncExitStack() as stack:
        observer = metrics.requests("kubernetes")
        elector, guard = None, None
        if settings.leader_elect:
            times = LeaseTimes()
            fence = Fence(slack=times.patience)
            guard = fence.check
            leases = await stack.enter_async_context(lease_session(loader, times, observer))
            elector = Elector(
                KubeLease(Client(leases), settings.namespace, LEASE),
                fence,
                identity=new_identity(),
                times=times,
                watchdog=Watchdog(fence, patience=times.patience),
                observer=metrics.leader(LEASE),
            )
        session = await stack.enter_async_context(Session(loader, observer=observer, guard=guard))
        pool = await stack.enter_async_context(ClientPool())
        operator = Operator(settings, Client(session), pool, metrics, elector=elector, guard=guard)
        log.info("vidra starts", version=__version__, server=session.server, namespace=settings.namespace)
        try:
            await run_parts(operator.parts())
        finally:
            log.info("vidra stops")


class Operator:
    """All parts of one process. Tests make one on a client of their own. With an ``elector``, workers start when it
    leads, and ``guard`` is what it stops writes by; caches are warm before that."""

    def __init__(
        self,
        settings: Settings,
        client: Client,
        pool: ClientPool,
        metrics: Metrics,
        *,
        elector: Elector | None = None,
        guard: Guard | None = None,
    ) -> None:
        self._settings = settings
        self._metrics = metrics
        self._elector = elector
        self._guard = guard
        self.config = ConfigWatcher(settings.live, self._config_changed)
        self.caches = Caches(client, namespace=settings.namespace, secrets_scope=settings.secrets_scope)
        self.informers = self.caches.informers()
        self.sync_queue = self._queue("infrahubsync")
        self.resource_queue = self._queue("vidraresource")
        self._clusters = self._make_clusters(client)
        self.places = Places(
            self._clusters,
            self.caches.resources.store,
            self.resource_queue.add,
            service_account=settings.default_service_account,
        )
        self.routes = self._connect_routes()
        syncs, resources = self._make_reconcilers(client, pool)
        self._controllers = (
            self._controller("infrahubsync", syncs.reconcile, self.sync_queue, settings.workers_sync),
            self._controller("vidraresource", resources.reconcile, self.resource_queue, settings.workers_resource),
        )

    def parts(self) -> list[Part]:
        """In the order in which they start."""
        parts = [Part(f"server {server.port}", server.run, server.started.wait) for server in self._servers()]
        parts.append(Part("clusters", self._clusters.run, self._clusters.ready))
        parts += [
            Part(f"informer {name}", informer.run, _synced(informer)) for name, informer in self.informers.items()
        ]
        parts.append(Part("sweep", self.places.sweeping))
        work = [Part(f"controller {controller.name}", controller.run) for controller in self._controllers]
        elector = self._elector
        if elector is None:
            return parts + work
        return [*parts, Part("leader election", lambda: elector.run(lambda: run_parts(work)))]

    # --- making

    def _queue(self, name: str) -> WorkQueue[str]:
        queue: WorkQueue[str] = WorkQueue(observer=self._metrics.queue(name))
        self._metrics.watch(name, queue)
        return queue

    def _make_clusters(self, client: Client) -> Clusters:
        def new_live(server: str, client: Client) -> LiveCache:
            return LiveCache(
                client,
                label_selector=f"{names.MANAGED_BY_LABEL}={names.MANAGED_BY_VALUE}",
                observe=see,
                on_change=lambda key: self.routes.object_changed(server, key),
            )

        wake = self.resource_queue.add
        local = Cluster("", client, Discovery(client), new_live("", client), Bulkhead(None, wake))
        secrets = KubeconfigSecrets(self.caches.kubeconfigs.store, self._settings.allow_in_kubeconfig)
        return Clusters(
            local,
            secrets,
            new_live=new_live,
            share=max(1, self._settings.workers_resource // SHARE),
            wake=wake,
            on_back=lambda server: self.routes.cluster_is_back(server),
            observer=self._metrics.requests,
            guard=self._guard,
        )

    def _connect_routes(self) -> Routes:
        caches = self.caches
        routes = Routes(
            syncs=caches.syncs.store,
            resources=caches.resources.store,
            sync_queue=self.sync_queue,
            resource_queue=self.resource_queue,
            places=self.places,
            own_namespace=self._settings.namespace,
            event_based=lambda: self.config.current.event_based_reconcile,
        )
        routes.connect(
            syncs=caches.syncs.informer,
            resources=caches.resources.informer,
            credentials=caches.credentials.informer,
            kubeconfigs=caches.kubeconfigs.informer,
        )
        config_maps = caches.config_maps.store
        caches.config_maps.informer.add_handler(lambda change: self.config.look(v for _, v in config_maps.items()))
        return routes

    def _make_reconcilers(self, client: Client, pool: ClientPool) -> tuple[SyncReconciler, ResourceReconciler]:
        caches = self.caches
        subjects = partial(Subjects, client=client, statuses=StatusClient(client, field_manager=FIELD_MANAGER))
        syncs = subjects(
            SYNCS, state_field=infrahubsync.STATE_FIELD, finalizer=names.SYNC_FINALIZER, store=caches.syncs.store
        )
        resources = subjects(
            RESOURCES,
            state_field=vidraresource.STATE_FIELD,
            finalizer=names.RESOURCE_FINALIZER,
            store=caches.resources.store,
            shrink=shrink,
            on_write=self.places.take_in,
        )
        return (
            SyncReconciler(
                syncs,
                resources=resources,
                writer=ResourceWriter(client, resources),
                secrets=caches.credentials.store,
                pool=pool,
                own_namespace=self._settings.namespace,
                bulkhead=lambda: Bulkhead(max(1, self._settings.workers_sync // SHARE), self.sync_queue.add),
                interval=lambda: self.config.current.requeue_sync_after or 0.0,
                query_name=lambda: self.config.current.query_name,
            ),
            ResourceReconciler(
                resources,
                syncs=caches.syncs.store,
                places=self.places,
                interval=lambda: self.config.current.requeue_resources_after or 0.0,
            ),
        )

    def _controller(
        self, name: str, reconcile: Callable[[str], Awaitable[Result]], queue: WorkQueue[str], workers: int
    ) -> Controller[str]:
        return Controller(
            name,
            reconcile,
            queue,
            workers=workers,
            timeout=RECONCILE_TIMEOUT,
            grace=self._settings.grace,
            observer=self._metrics.controller(name, workers),
        )

    def _servers(self) -> list[ProbeServer]:
        """One server, or two where probes and metrics have ports of their own."""
        host = self._settings.bind_address or None
        live = [Check("workers", self._stuck)]
        if self._elector is not None:
            live.append(Check("leader election", self._elector.overdue))
        ready = [Check(name, _not_synced(informer)) for name, informer in self.informers.items()]
        if self._elector is not None:
            # A standby is ready: it has its caches. That it doesn't work is to be seen all the same.
            ready.append(Check("leader", lambda: None, note=self._elector.standing))
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

    # --- at work

    def _stuck(self) -> str | None:
        for queue in (self.sync_queue, self.resource_queue):
            running = queue.longest_running()
            if running is not None and running.seconds > STUCK_AFTER:
                return f"a worker has been on {running.key} for {running.seconds:.0f} s"
        return None

    def _config_changed(self, new: LiveConfig, old: LiveConfig) -> None:
        """It holds at once: nobody waits for the end of an old interval, and another query is asked now."""
        if new.query_name != old.query_name:
            for key in self.caches.syncs.store:
                self.sync_queue.add(key.name)
        for cache, queue, pause in (
            (self.caches.syncs, self.sync_queue, new.requeue_sync_after),
            (self.caches.resources, self.resource_queue, new.requeue_resources_after),
        ):
            if pause is not None:
                for key in cache.store:
                    queue.add_after(key.name, pause)


def _synced(informer: Informer[Obj]) -> Callable[[], Awaitable[bool]]:
    # Without a bound: while the API server is away there is nothing to do but wait; /readyz says so.
    return lambda: informer.wait_synced(float("inf"))


def _not_synced(informer: Informer[Obj]) -> Callable[[], str | None]:
    def look() -> str | None:
        if informer.has_synced:
            return None
        return f"not listed yet: {informer.last_error}" if informer.last_error else "not listed yet"

    return look

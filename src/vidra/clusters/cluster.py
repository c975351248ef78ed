"""The clusters at hand, each with what its resources share: a session, discovery, and the caches of live objects.

Promises:

* The local cluster is there from the start. A remote one is opened when it is first asked for, by one who asks on
  behalf of all, and closed when it was not in use for a while, or when its Secret is gone.
* A changed Secret takes effect with the next :meth:`Clusters.get`, and at the latest with the next 401.
* One cluster's trouble is its own: it has connections, a bound on requests in flight and a breaker of its own, and no
  more than a share of the workers is with it at a time (:class:`vidra.runtime.bulkhead.Bulkhead`).
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Collection, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import structlog

from vidra.clusters.live import LiveCache
from vidra.clusters.secrets import DestinationUnknown, Found, KubeconfigSecrets
from vidra.clusters.server import normalise_server
from vidra.kube.breaker import Breaker
from vidra.kube.client import Client
from vidra.kube.discovery import Discovery
from vidra.kube.errors import ConfigError
from vidra.kube.guard import Guard
from vidra.kube.kubeconfig import kubeconfig_loader
from vidra.kube.session import RequestObserver, Session
from vidra.runtime.bulkhead import Bulkhead
from vidra.runtime.store import Key

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Cluster:
    """One cluster, open. ``server`` is the normalised URL, "" for the local cluster."""

    server: str
    client: Client
    discovery: Discovery
    live: LiveCache
    bulkhead: Bulkhead


#: Makes the cache of live objects of a cluster, by its server and client.
NewLive = Callable[[str, Client], LiveCache]


@dataclass(slots=True)
class _Remote:
    cluster: Cluster
    session: Session
    secret: Key
    version: str
    stack: AsyncExitStack
    caches: asyncio.Task[None]


class Clusters:
    """``share`` is how many workers may be with one remote cluster at a time; ``wake`` is told of a resource that was
    turned away meanwhile and may try again. ``guard`` is asked before anything is written to a remote cluster."""

    def __init__(
        self,
        local: Cluster,
        secrets: KubeconfigSecrets,
        *,
        new_live: NewLive,
        share: int,
        wake: Callable[[str], None],
        on_back: Callable[[str], None],
        observer: Callable[[str], RequestObserver] | None = None,
        guard: Guard | None = None,
    ) -> None:
        self._local = local
        self._secrets = secrets
        self._new_live = new_live
        self._share = share
        self._wake = wake
        self._on_back = on_back
        self._observer = observer
        self._guard = guard
        self._remote: dict[str, _Remote] = {}
        #: One opens or renews a cluster while the others wait for it.
        self._locks: dict[str, asyncio.Lock] = {}
        self._group: asyncio.TaskGroup | None = None
        self._running = asyncio.Event()

    async def run(self) -> None:
        """Keeps the caches of all clusters running until cancelled; a bug in one of them ends this with its error."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._local.live.run(), name="live objects")
                await self._local.live.ready()
                self._group = group
                self._running.set()
                await asyncio.get_running_loop().create_future()
        finally:
            for server in list(self._remote):
                await self.close(server)

    async def ready(self) -> None:
        """Returns when clusters can be opened."""
        await self._running.wait()

    async def get(self, server: str) -> Cluster:
        """The cluster of a destination's ``server``. Raises DestinationUnknown, ConfigError."""
        try:
            normalised = normalise_server(server)
        except ValueError as error:
            raise DestinationUnknown(str(error)) from error
        if normalised == "":
            return self._local
        found = self._secrets.find(normalised)
        async with self._locks.setdefault(normalised, asyncio.Lock()):
            remote = self._remote.get(normalised)
            if remote is None:
                remote = self._remote[normalised] = await self._open(normalised, found)
            elif (remote.secret, remote.version) != (found.key, found.version):
                await remote.session.reload()
                remote.secret, remote.version = found.key, found.version
                log.info("kubeconfig changed", server=normalised, secret=str(found.key))
            return remote.cluster

    def find_open(self, server: str) -> Cluster | None:
        """The cluster of a normalised server where it is open."""
        if not server:
            return self._local
        remote = self._remote.get(server)
        return None if remote is None else remote.cluster

    def open_servers(self) -> Collection[str]:
        """The remote clusters that are open."""
        return list(self._remote)

    async def close(self, server: str) -> None:
        """Ends the watches of a remote cluster and closes its connections."""
        remote = self._remote.pop(server, None)
        if remote is None:
            return
        remote.caches.cancel()
        await asyncio.wait([remote.caches])
        await remote.stack.aclose()
        log.info("cluster closed", server=server)

    async def close_unknown(self) -> None:
        """Closes the clusters whose Secret is gone, or leads elsewhere by now."""
        for server in list(self._remote):
            try:
                self._secrets.find(server)
            except DestinationUnknown:
                await self.close(server)

    async def _open(self, server: str, found: Found) -> _Remote:
        def read() -> Mapping[str, Any]:
            try:
                return self._secrets.find(server).kubeconfig
            except DestinationUnknown as error:
                raise ConfigError(str(error)) from error

        def changed(is_open: bool) -> None:
            if is_open:
                log.warning("cluster does not answer", server=server)
            else:
                log.info("cluster answers again", server=server)
                self._on_back(server)

        assert self._group is not None, "the clusters are not running"
        observer = None if self._observer is None else self._observer(server)
        stack = AsyncExitStack()
        session = await stack.enter_async_context(
            Session(kubeconfig_loader(read), observer=observer, breaker=Breaker(on_change=changed), guard=self._guard)
        )
        client = Client(session)
        live = self._new_live(server, client)
        cluster = Cluster(server, client, Discovery(client), live, Bulkhead(self._share, self._wake))
        # A context of its own: it outlives the reconcile that opens the cluster, whose name its log lines would carry.
        caches = self._group.create_task(live.run(), name=f"live objects of {server}", context=contextvars.Context())
        log.info("cluster opened", server=server, secret=str(found.key))
        return _Remote(cluster, session, found.key, found.version, stack, caches)

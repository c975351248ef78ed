"""The destinations in use, each with its books of who owns what and the tools that work on it.

The books of a cluster outlive its connection: inventories in the statuses say what is there, whether or not the cluster
can be reached just now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from vidra.clusters.cluster import Cluster, Clusters
from vidra.clusters.secrets import DestinationUnknown
from vidra.controllers.kinds import is_deleting, manager_of
from vidra.controllers.whereabouts import BY_SERVER, read_whereabouts
from vidra.deploy.apply import Applier
from vidra.deploy.destination import Destination, KeyedLocks
from vidra.deploy.ownership import Ownership
from vidra.deploy.prune import Pruner
from vidra.deploy.wanted import Seals
from vidra.kube.client import Client, Obj
from vidra.kube.resource import GroupKind
from vidra.runtime.store import Store

#: Seconds between two looks for what is of no use any more.
SWEEP_EVERY = 60.0


@dataclass(frozen=True, slots=True)
class Books:
    """What is known of one cluster's objects, whoever works on them."""

    ownership: Ownership
    seals: Seals = field(default_factory=dict)
    locks: KeyedLocks = field(default_factory=KeyedLocks)

    def forget_unclaimed(self) -> None:
        """Drops the seals of objects that nobody declares any more."""
        for at in [at for at in self.seals if not self.ownership.is_claimed(at[1])]:
            del self.seals[at]


@dataclass(frozen=True, slots=True)
class Place:
    """A destination with the tools that work on it, on behalf of one account."""

    cluster: Cluster
    to: Destination
    ownership: Ownership
    applier: Applier
    pruner: Pruner

    def enter(self, resource: str) -> AbstractContextManager[None]:
        """To be held while a reconcile is with this cluster. Raises Full."""
        return self.cluster.bulkhead.enter(resource)


class Places:
    """``wake`` is told of a resource that was refused for another's sake and may try again. ``service_account``
    (namespace/name) is whom to act as where a resource names none; "" is the operator itself."""

    def __init__(
        self, clusters: Clusters, resources: Store[Obj], wake: Callable[[str], None], *, service_account: str = ""
    ) -> None:
        self._clusters = clusters
        self._resources = resources
        self._wake = wake
        self._service_account = service_account
        self._books: dict[str, Books] = {}
        self._places: dict[tuple[str, str], Place] = {}
        # What was of no use at the last sweep.
        self._idle_clusters: set[str] = set()
        self._idle_kinds: dict[str, set[GroupKind]] = {}

    async def open(self, server: str, service_account: str = "") -> Place:
        """The place at a destination's ``server``, to work there as the service account (namespace/name). Raises
        DestinationUnknown, ConfigError."""
        service_account = service_account or self._service_account
        cluster = await self._clusters.get(server)
        place = self._places.get((cluster.server, service_account))
        if place is None or place.cluster is not cluster:
            books = self.books(cluster.server)
            client = cluster.client
            if service_account:
                try:
                    client = Client(client.session, service_account=service_account)
                except ValueError as error:
                    raise DestinationUnknown(f"spec.serviceAccountName: {error}") from error
            to = Destination(cluster.server, client, cluster.discovery, cluster.live, books.locks)
            applier, pruner = Applier(to, books.ownership, books.seals), Pruner(to, books.ownership)
            place = Place(cluster, to, books.ownership, applier, pruner)
            self._places[cluster.server, service_account] = place
        return place

    def books(self, server: str) -> Books:
        """The books of a cluster, by its normalised server."""
        return self._books.setdefault(server, Books(Ownership(self._wake)))

    def all_books(self) -> list[Books]:
        return list(self._books.values())

    def take_in(self, resource: Obj) -> None:
        """A resource's status, whoever wrote it, says what it is responsible for, and where."""
        metadata = resource["metadata"]
        inventories = read_whereabouts(resource)
        for server in {*inventories, *self._books}:
            self.books(server).ownership.inventory(
                metadata["name"],
                manager_of(resource),
                inventories.get(server, {}),
                version=metadata["resourceVersion"],
                leaving=is_deleting(resource),
            )

    def forget(self, resource: str) -> None:
        """The resource is gone: it declares nothing anywhere."""
        for books in self._books.values():
            books.ownership.forget(resource)

    # --- what is of no use any more

    async def sweep(self) -> None:
        """Stops watching kinds that no resource has an object of any more, closes clusters that no resource goes to,
        and drops what was remembered of objects that are gone. Something must be unused twice in a row: what a
        reconcile has just begun to use is not."""
        await self._clusters.close_unknown()
        await self._close_unused()
        for server in ["", *self._clusters.open_servers()]:
            cluster = self._clusters.find_open(server)
            if cluster is not None:
                unused = set(cluster.live.kinds()) - self.books(server).ownership.kinds()
                await cluster.live.forget(unused & self._idle_kinds.get(server, set()))
                self._idle_kinds[server] = unused
        self._places = {at: place for at, place in self._places.items() if self._is_open(place)}
        for books in self._books.values():
            books.forget_unclaimed()

    async def _close_unused(self) -> None:
        unused = {
            server for server in self._clusters.open_servers() if not self._resources.index_keys(BY_SERVER, server)
        }
        for server in unused & self._idle_clusters:
            await self._clusters.close(server)
        self._idle_clusters = unused

    async def sweeping(self) -> None:
        """Sweeps now and then until cancelled."""
        while True:
            await asyncio.sleep(SWEEP_EVERY)
            await self.sweep()

    def _is_open(self, place: Place) -> bool:
        return self._clusters.find_open(place.cluster.server) is place.cluster

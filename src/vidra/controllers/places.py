"""The destinations in use, each with its books of who owns what and the tools that work on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from vidra.clusters.cluster import Cluster, Clusters, DestinationUnknown
from vidra.controllers.kinds import manager_of
from vidra.deploy.apply import Applier
from vidra.deploy.destination import Destination
from vidra.deploy.inventory import read_inventory
from vidra.deploy.ownership import Ownership
from vidra.deploy.prune import Pruner
from vidra.kube.client import Obj
from vidra.kube.resource import GroupKind

#: Seconds between two looks for what is of no use any more.
SWEEP_EVERY = 60.0


@dataclass(frozen=True, slots=True)
class Place:
    """A destination with the tools that work on it."""

    to: Destination
    ownership: Ownership
    applier: Applier
    pruner: Pruner


class Places:
    """``wake`` is told of a resource that was refused for another's sake and may try again."""

    def __init__(self, clusters: Clusters, wake: Callable[[str], None]) -> None:
        self._clusters = clusters
        self._wake = wake
        self._places: dict[str, Place] = {}
        #: Kinds that were watched for nobody at the last sweep, by destination.
        self._idle: dict[str, set[GroupKind]] = {}

    def get(self, server: str) -> Place:
        """Raises DestinationUnknown."""
        cluster: Cluster = self._clusters.get(server)
        place = self._places.get(cluster.server)
        if place is None:
            to = Destination(cluster.server, cluster.client, cluster.discovery, cluster.live)
            ownership = Ownership(self._wake)
            place = Place(to, ownership, Applier(to, ownership), Pruner(to, ownership))
            self._places[cluster.server] = place
        return place

    def find(self, server: str) -> Place | None:
        """The same, None where no way leads there."""
        try:
            return self.get(server)
        except DestinationUnknown:
            return None

    def all(self) -> list[Place]:
        return list(self._places.values())

    def forget(self, resource: str) -> None:
        """The resource is gone: it declares nothing anywhere."""
        for place in self._places.values():
            place.ownership.forget(resource)

    def take_in(self, resource: Obj) -> None:
        """A resource's status, whoever wrote it, says what it is responsible for at its destination."""
        server = ((resource.get("spec") or {}).get("destination") or {}).get("server") or ""
        place = self.find(server)
        if place is not None:
            metadata, status = resource["metadata"], resource.get("status") or {}
            entries = read_inventory(status.get("managedResources") or ())
            place.ownership.inventory(
                metadata["name"], manager_of(resource), entries, version=metadata["resourceVersion"]
            )

    async def sweep(self) -> None:
        """Stops watching kinds that no resource has an object of any more, and drops what was remembered of objects
        that are gone. A kind must be unused twice in a row: one that a reconcile has just begun to watch is not."""
        for server, place in self._places.items():
            unused = set(place.to.live.kinds()) - place.ownership.kinds()
            await place.to.live.forget(unused & self._idle.get(server, set()))
            self._idle[server] = unused
            place.applier.forget_unless(place.ownership.is_claimed)

    async def sweeping(self) -> None:
        """Sweeps now and then until cancelled."""
        while True:
            await asyncio.sleep(SWEEP_EVERY)
            await self.sweep()

"""The destinations in use, each with its books of who owns what and the tools that work on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from vidra.clusters.cluster import Cluster, Clusters, DestinationUnknown
from vidra.deploy.apply import Applier
from vidra.deploy.destination import Destination
from vidra.deploy.ownership import Ownership
from vidra.deploy.prune import Pruner


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

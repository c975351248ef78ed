"""Where a resource's objects are: its inventory, by the cluster the objects are in.

A resource that moves to another server has two inventories until the old place is cleaned up. The one of the present
destination stands in status.managedResources, as in the original; those of former ones in status.formerDestinations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vidra.api.common import Destination
from vidra.clusters.server import host_label, normalise_server
from vidra.deploy.inventory import Inventory, read_inventory, write_inventory
from vidra.kube.client import Obj

#: Indexes of the resources' store: the normalised servers that a resource has objects at, or is to have; and their
#: hosts, as labels of kubeconfig Secrets have them.
BY_SERVER = "server"
BY_HOST = "host"


def server_index(resource: Obj) -> set[str]:
    """Index values for :data:`BY_SERVER`."""
    spec = resource.get("spec") or {}
    return {server_of(spec.get("destination") or {}), *read_whereabouts(resource)}


def host_index(resource: Obj) -> set[str]:
    """Index values for :data:`BY_HOST`."""
    return {host_label(server) for server in server_index(resource) if server}


def read_whereabouts(resource: Obj) -> dict[str, Inventory]:
    """Every inventory that has something in it, by normalised server."""
    status = resource.get("status") or {}
    found: dict[str, Inventory] = {}
    places = [(status.get("destination") or {}, status.get("managedResources")), *_former(status)]
    for destination, items in places:
        inventory = read_inventory(items or ())
        if inventory:
            found.setdefault(server_of(destination), {}).update(inventory)
    return found


def write_whereabouts(destination: Destination, inventories: Mapping[str, Inventory]) -> dict[str, Any]:
    """The status fields that say the same; None for one that is to be removed."""
    here = server_of(destination.wire())
    former = [
        {"server": server, "managedResources": write_inventory(inventory)}
        for server, inventory in inventories.items()
        if server != here and inventory
    ]
    return {
        "managedResources": write_inventory(inventories.get(here, {})),
        "destination": destination.wire() or None,
        "formerDestinations": former or None,
    }


def server_of(destination: Mapping[str, Any]) -> str:
    """The normalised server of a destination on the wire. One that can't be read is kept as it stands."""
    url = str(destination.get("server") or "")
    try:
        return normalise_server(url)
    except ValueError:
        return url


def _former(status: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], Any]]:
    return [(entry, entry.get("managedResources")) for entry in status.get("formerDestinations") or ()]

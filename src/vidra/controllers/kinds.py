"""Raw objects of the two kinds: where they are on the API server, and who belongs to whom."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from vidra.api import names
from vidra.kube.client import Obj
from vidra.kube.resource import Resource

SYNCS = Resource(names.GROUP, names.VERSION, names.SYNC_KIND, "infrahubsyncs", namespaced=False)
RESOURCES = Resource(names.GROUP, names.VERSION, names.RESOURCE_KIND, "vidraresources", namespaced=False)

#: Index of the resources' store: uid of the sync that made them.
BY_SYNC = "sync"


def owner_reference(sync: Obj) -> dict[str, Any]:
    """Makes the sync the controller of a resource: the garbage collector takes the resource when the sync is gone."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.SYNC_KIND,
        "name": sync["metadata"]["name"],
        "uid": sync["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def owning_sync(resource: Obj) -> tuple[str, str] | None:
    """Name and uid of the sync that controls a resource."""
    for reference in resource["metadata"].get("ownerReferences") or ():
        if reference.get("kind") == names.SYNC_KIND and str(reference.get("apiVersion", "")).startswith(names.GROUP):
            return reference["name"], reference["uid"]
    return None


def sync_index(resource: Obj) -> Iterable[str]:
    """Index values for :data:`BY_SYNC`."""
    owner = owning_sync(resource)
    return () if owner is None else (owner[1],)


def manager_of(resource: Obj) -> str:
    """The field manager that a resource's objects are applied under."""
    owner = owning_sync(resource)
    return names.field_manager(None if owner is None else owner[0])


def is_deleting(obj: Obj) -> bool:
    return "deletionTimestamp" in obj["metadata"]

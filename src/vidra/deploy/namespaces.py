"""What else is in a Namespace: one that holds what others put there is let go, not deleted.

Deleting a Namespace deletes everything in it, and nothing asks whose that is (flux2#1366, #1462, #3949). The look costs
one small request per kind; the namespace controller sends as many when it empties one.
"""

from __future__ import annotations

import asyncio
from typing import Any

from vidra.api import names
from vidra.deploy.destination import Destination
from vidra.kube.resource import ObjectKey, Resource

_METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
#: Made by the cluster in every Namespace, or records of what happened: nobody's work is lost with them.
_KINDS_OF_NOBODY = frozenset({"Event", "Endpoints", "EndpointSlice", "Lease", "PodMetrics"})
_OBJECTS_OF_NOBODY = frozenset({("ServiceAccount", "default"), ("ConfigMap", "kube-root-ca.crt")})
#: Requests at once for one Namespace.
_AT_ONCE = 8
#: A page: the first foreign object decides, and our own may stand before it.
_PAGE = 500


async def foreign_contents(to: Destination, namespace: str, manager: str) -> list[ObjectKey]:
    """Objects in the namespace that are not ``manager``'s, belong to no other object, and aren't going already.

    Stops at the first kind that has some. A kind that can't be listed raises the client's error: not knowing is no
    reason to delete.
    """
    slots = asyncio.Semaphore(_AT_ONCE)
    kinds = [r for r in await to.discovery.namespaced() if r.kind not in _KINDS_OF_NOBODY]

    async def look(resource: Resource) -> list[ObjectKey]:
        async with slots:
            return await _foreign(to, resource, namespace, manager)

    for found in await asyncio.gather(*(look(kind) for kind in kinds)):
        if found:
            return found
    return []


async def _foreign(to: Destination, resource: Resource, namespace: str, manager: str) -> list[ObjectKey]:
    found: list[ObjectKey] = []
    token = ""
    while True:
        params = {"limit": str(_PAGE)} | ({"continue": token} if token else {})
        page = await to.client.raw("GET", resource.path(namespace=namespace), params=params, accept=_METADATA_ONLY)
        for item in page.get("items") or ():
            metadata = item["metadata"]
            if not _is_nobodys(resource, metadata) and not _is_managers(metadata, manager):
                found.append(ObjectKey(resource.group, resource.kind, namespace, metadata["name"]))
        token = (page.get("metadata") or {}).get("continue") or ""
        if found or not token:
            return found


def _is_nobodys(resource: Resource, metadata: dict[str, Any]) -> bool:
    return (
        "deletionTimestamp" in metadata
        or bool(metadata.get("ownerReferences"))
        or (resource.kind, metadata["name"]) in _OBJECTS_OF_NOBODY
    )


def _is_managers(metadata: dict[str, Any], manager: str) -> bool:
    """Ours alone: an object that another sync manages too must not go with the Namespace."""
    managers = {
        str(entry.get("manager"))
        for entry in metadata.get("managedFields") or ()
        if not entry.get("subresource") and str(entry.get("manager", "")).startswith(names.MANAGER_PREFIX)
    }
    return managers == {manager}

"""What would go with an object: a Namespace takes all that is in it along, a definition all objects of its kind.

Nothing asks whose that is when they are deleted (flux2#1366, #1462, #3949). So whoever is about to delete one looks
first, and one that holds what others put there is let go instead. A Namespace costs one small request per kind; the
namespace controller sends as many when it empties one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from vidra.api import names
from vidra.deploy.destination import Destination
from vidra.kube.client import Obj
from vidra.kube.discovery import NotServed
from vidra.kube.resource import ObjectKey, Resource

_METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
#: Made by the cluster in every Namespace, or records of what happened: nobody's work is lost with them.
_KINDS_OF_NOBODY = frozenset({"Event", "Endpoints", "EndpointSlice", "Lease", "PodMetrics"})
_OBJECTS_OF_NOBODY = frozenset({("ServiceAccount", "default"), ("ConfigMap", "kube-root-ca.crt")})
#: Requests at once for one Namespace.
_AT_ONCE = 8
#: A page: the first object that stands in the way decides, and those that don't may stand before it.
_PAGE = 500

#: Says which resource of ours keeps an object; None: none does.
Keeper = Callable[[ObjectKey], str | None]


@dataclass(frozen=True, slots=True)
class Content:
    """Something that must not go. ``keeper`` is the resource of the same sync that has it, "" where it is others'."""

    key: ObjectKey
    keeper: str = ""

    def __str__(self) -> str:
        return f"{self.key} of VidraResource {self.keeper}" if self.keeper else f"{self.key}, which is not this sync's"


async def find_content(to: Destination, obj: Obj, manager: str, keeper: Keeper) -> Content | None:
    """Something that would go with ``obj`` and must not: not ``manager``'s alone, or kept by another resource. What
    belongs to another object, or is going already, is none. What is others' is found before what a resource keeps.

    A kind that can't be listed raises the client's error: not knowing is no reason to delete.
    """
    kind, name = obj.get("kind"), obj["metadata"]["name"]
    if (obj.get("apiVersion"), kind) == ("v1", "Namespace"):
        kinds = [r for r in await to.discovery.namespaced() if r.kind not in _KINDS_OF_NOBODY]
        return await _first(to, kinds, name, manager, keeper)
    if kind == "CustomResourceDefinition":
        spec = obj.get("spec") or {}
        try:
            defined = await to.discovery.any_version(str(spec.get("group")), str((spec.get("names") or {}).get("kind")))
        except NotServed:
            return None
        return await _first(to, [defined], None, manager, keeper)
    return None


async def _first(
    to: Destination, kinds: list[Resource], namespace: str | None, manager: str, keeper: Keeper
) -> Content | None:
    slots = asyncio.Semaphore(_AT_ONCE)

    async def look(resource: Resource) -> Content | None:
        async with slots:
            return await _look(to, resource, namespace, manager, keeper)

    found = [content for content in await asyncio.gather(*(look(kind) for kind in kinds)) if content is not None]
    return min(found, key=lambda content: content.keeper != "", default=None)


async def _look(
    to: Destination, resource: Resource, namespace: str | None, manager: str, keeper: Keeper
) -> Content | None:
    kept: Content | None = None
    token = ""
    while True:
        params = {"limit": str(_PAGE)} | ({"continue": token} if token else {})
        page = await to.client.raw("GET", resource.path(namespace=namespace), params=params, accept=_METADATA_ONLY)
        for item in page.get("items") or ():
            metadata = item["metadata"]
            if _is_nobodys(resource, metadata):
                continue
            key = ObjectKey(resource.group, resource.kind, metadata.get("namespace") or "", metadata["name"])
            if not _is_managers(metadata, manager):
                return Content(key)
            by = keeper(key)
            if by is not None and kept is None:
                kept = Content(key, by)
        token = (page.get("metadata") or {}).get("continue") or ""
        if not token:
            return kept


def _is_nobodys(resource: Resource, metadata: dict[str, Any]) -> bool:
    return (
        "deletionTimestamp" in metadata
        or bool(metadata.get("ownerReferences"))
        or (resource.kind, metadata["name"]) in _OBJECTS_OF_NOBODY
    )


def _is_managers(metadata: dict[str, Any], manager: str) -> bool:
    """Ours alone: an object that another sync manages too must not go, nor one that was there before."""
    managers = {
        str(entry.get("manager"))
        for entry in metadata.get("managedFields") or ()
        if not entry.get("subresource") and str(entry.get("manager", "")).startswith(names.MANAGER_PREFIX)
    }
    adopted = (metadata.get("annotations") or {}).get(names.ADOPTED_ANNOTATION) == names.ADOPTED_VALUE
    return managers == {manager} and not adopted

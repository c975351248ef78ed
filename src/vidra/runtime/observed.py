"""What a cache keeps of an object instead of the object: who it is, who manages it, and a digest of what counts.

Thousands of objects are watched to notice drift, and their bodies are never read: a record costs some 300 bytes, a
Deployment some 20 kB. The digest covers what one who applied the object has to act upon:

- uid, and whether it is being deleted;
- labels and annotations that a manager of ours owns, with their values (somebody else's are nobody's business: the
  deployment controller alone writes one into each Deployment);
- the body, by ``metadata.generation`` where the server counts it, else by content without status.

So a field nobody of ours declares changes the digest of kinds without generation, and a scaled Deployment's: that
costs one apply that changes nothing, and is the price for never reading bodies.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

from vidra.kube.client import Obj
from vidra.runtime.digest import json_digest

#: Shared, since nearly every object has none.
_NONE: Mapping[str, str] = {}


class Manager(NamedTuple):
    """An entry of metadata.managedFields that is no subresource's; ``position`` is its place in the list."""

    name: str
    operation: str
    position: int


class Observed(NamedTuple):
    """One live object. ``version`` is its resourceVersion; ``managers`` are those of ours only, and ``annotations`` are
    those that speak to us."""

    uid: str
    version: str
    digest: str
    managers: tuple[Manager, ...]
    terminating: bool
    finalizers: tuple[str, ...]
    annotations: Mapping[str, str] = _NONE

    def managed_by(self, name: str) -> bool:
        return any(manager.name == name for manager in self.managers)


def observe(obj: Obj, *, manager_prefix: str, annotation_prefix: str = "") -> Observed:
    """Reduces a raw object, managedFields included. Managers whose name starts with ``manager_prefix`` are ours, and
    annotations that start with ``annotation_prefix`` (none, where that is empty) speak to us: they count for the
    digest, whoever set them."""
    metadata = obj["metadata"]
    managers = our_managers(obj, manager_prefix)
    terminating = "deletionTimestamp" in metadata
    annotations = metadata.get("annotations") or {}
    spoken = (
        {key: str(value) for key, value in annotations.items() if key.startswith(annotation_prefix)}
        if annotation_prefix
        else {}
    )
    return Observed(
        uid=metadata.get("uid") or "",
        version=metadata.get("resourceVersion") or "",
        digest=_digest(obj, manager_prefix, spoken),
        managers=managers,
        terminating=terminating,
        finalizers=tuple(metadata.get("finalizers") or ()) if terminating else (),
        annotations=spoken or _NONE,
    )


def our_managers(obj: Mapping[str, Any], prefix: str) -> tuple[Manager, ...]:
    """The managers of ours, in the order of managedFields."""
    return tuple(
        Manager(sys.intern(entry["manager"]), sys.intern(entry["operation"]), position)
        for position, entry in enumerate(obj["metadata"].get("managedFields") or ())
        if not entry.get("subresource") and str(entry.get("manager", "")).startswith(prefix)
    )


def _digest(obj: Obj, prefix: str, spoken: Mapping[str, str]) -> str:
    metadata = obj["metadata"]
    ours = _our_metadata(metadata, prefix)
    generation = metadata.get("generation")
    if generation:
        body: Any = generation
    else:
        body = {key: value for key, value in obj.items() if key not in ("metadata", "status", "kind", "apiVersion")}
    return json_digest(
        [metadata.get("uid"), "deletionTimestamp" in metadata, ours, body, *([spoken] if spoken else ())]
    )


def _our_metadata(metadata: Mapping[str, Any], prefix: str) -> list[Any]:
    """Labels and annotations that stand under a manager of ours in managedFields."""
    found: list[Any] = []
    for place in ("labels", "annotations"):
        values = metadata.get(place) or {}
        keys: set[str] = set()
        for entry in metadata.get("managedFields") or ():
            if str(entry.get("manager", "")).startswith(prefix):
                fields = entry.get("fieldsV1") or {}
                keys.update(fields.get("f:metadata", {}).get(f"f:{place}", {}))
        found.append({key[2:]: values.get(key[2:]) for key in keys if key.startswith("f:")})
    return found

"""The objects a resource is responsible for, as they stand in its status.

The union of the old and the new inventory is written before the first object is, so that a crash at any point leaves
nothing that nobody knows of (kustomize-controller#409). An entry is known by group, kind, namespace and name: the
version it was applied in may change without its becoming another object.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from vidra.kube.resource import ObjectKey, split_api_version

Inventory: TypeAlias = dict[ObjectKey, "Entry"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One object. ``uid`` is empty until it was applied; ``seal`` says what the last apply made of what was wanted
    (see :func:`vidra.deploy.apply.seal`); ``message`` is what stands in its way."""

    key: ObjectKey
    version: str
    uid: str = ""
    adopted: bool = False
    seal: str = ""
    message: str = ""

    def wire(self) -> dict[str, Any]:
        """As an item of status.managedResources."""
        group, kind, namespace, name = self.key
        item: dict[str, Any] = {
            "apiVersion": f"{group}/{self.version}" if group else self.version,
            "kind": kind,
            "name": name,
        }
        if namespace:
            item["namespace"] = namespace
        if self.uid:
            item["uid"] = self.uid
        if self.adopted:
            item["adopted"] = True
        if self.seal:
            item["seal"] = self.seal
        if self.message:
            item["message"] = self.message
        return item


def read_inventory(items: Iterable[Mapping[str, Any]]) -> Inventory:
    """The inventory of status.managedResources; what the original operator wrote reads the same."""
    inventory: Inventory = {}
    for item in items:
        group, version = split_api_version(item.get("apiVersion") or "")
        key = ObjectKey(group, item.get("kind") or "", item.get("namespace") or "", item.get("name") or "")
        inventory[key] = Entry(
            key,
            version,
            uid=item.get("uid") or "",
            adopted=bool(item.get("adopted")),
            seal=item.get("seal") or "",
            message=item.get("message") or "",
        )
    return inventory


def write_inventory(inventory: Inventory) -> list[dict[str, Any]]:
    return [entry.wire() for entry in inventory.values()]


def union(old: Inventory, wanted: Mapping[ObjectKey, str]) -> Inventory:
    """Everything in ``old`` and everything wanted (version by key). What is known of an object is kept."""
    both = dict(old)
    for key, version in wanted.items():
        known = both.get(key)
        both[key] = Entry(key, version) if known is None else replace(known, version=version)
    return both

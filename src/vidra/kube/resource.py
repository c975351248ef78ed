"""Names of things on an API server: kinds as the server serves them, and objects by identity.

:class:`Resource` is a served kind (what discovery answers). :class:`ObjectKey` is an object's identity without the
version, because one object is readable in several versions and moving between them must never look like another
object (kustomize-controller#510).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import quote


class GroupKind(NamedTuple):
    group: str
    kind: str

    def __str__(self) -> str:
        return f"{self.kind}.{self.group}" if self.group else self.kind


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind as one version of it is served: its REST place and its scope."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    verbs: frozenset[str] = frozenset()

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_kind(self) -> GroupKind:
        return GroupKind(self.group, self.kind)

    def path(self, *, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The URL path of the collection, of an object, or of an object's subresource."""
        parts = [f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"]
        if self.namespaced and namespace:
            parts.append(f"namespaces/{quote(namespace, safe='')}")
        parts.append(self.plural)
        if name:
            parts.append(quote(name, safe=":"))
        if subresource:
            parts.append(subresource)
        return "/".join(parts)


class ObjectKey(NamedTuple):
    """An object's identity in one cluster: group, kind, namespace ("" where cluster-scoped), name."""

    group: str
    kind: str
    namespace: str
    name: str

    @property
    def group_kind(self) -> GroupKind:
        return GroupKind(self.group, self.kind)

    def __str__(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {where}"


def split_api_version(api_version: str) -> tuple[str, str]:
    """``apps/v1`` -> (apps, v1); ``v1`` -> ("", v1)."""
    group, _, version = api_version.rpartition("/")
    return group, version


def object_key(obj: Mapping[str, Any]) -> ObjectKey:
    """The identity of a raw object."""
    metadata = obj.get("metadata") or {}
    group, _ = split_api_version(obj.get("apiVersion") or "")
    return ObjectKey(group, obj.get("kind") or "", metadata.get("namespace") or "", metadata.get("name") or "")

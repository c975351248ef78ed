"""What one API server serves: which version, plural and scope a kind has.

Promises: two aggregated requests for all groups (one per group version where the server, or a proxy before it, is too
old for that), sent on first use and again on a miss, at most once per :data:`REFRESH_PAUSE`; a group that can't be
discovered at the moment (its APIService is down) is *unknown*, which is not *absent*: nobody may conclude that its
objects are gone.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from vidra.kube.client import Client, Obj
from vidra.kube.errors import ApiError, InvalidAnswer, KubeError
from vidra.kube.resource import GroupKind, Resource, split_api_version

#: Seconds between two readings caused by misses, so that a kind nobody serves can't flood the server.
REFRESH_PAUSE = 2.0

_AGGREGATED = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)


class NotServed(KubeError):
    """The server answered and does not serve this kind and version."""

    def __init__(self, group: str, version: str, kind: str, served: tuple[str, ...]) -> None:
        name = f"{group}/{version}" if group else version
        hint = f" (served: {', '.join(served)})" if served else ""
        super().__init__(f"kind {kind} in {name} is not served by this cluster{hint}")


class DiscoveryStale(KubeError):
    """The server can't say at the moment what this group has."""

    def __init__(self, group: str, version: str) -> None:
        super().__init__(f"group {group}/{version} can't be discovered at the moment (is its APIService available?)")


class Discovery:
    """Kinds of one server, cached for the life of the object."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._kinds: dict[GroupKind, dict[str, Resource]] = {}
        self._stale: set[tuple[str, str]] = set()
        # When the last reading began and ended.
        self._began_at = self._read_at = float("-inf")
        self._lock = asyncio.Lock()

    async def resource(self, group: str, version: str, kind: str) -> Resource:
        """The served kind in exactly this version. Raises NotServed, DiscoveryStale, and the client's errors."""
        found = self._kinds.get(GroupKind(group, kind), {}).get(version)
        if found is None:
            await self.refresh()
            found = self._kinds.get(GroupKind(group, kind), {}).get(version)
        if found is not None:
            return found
        if (group, version) in self._stale:
            raise DiscoveryStale(group, version)
        raise NotServed(group, version, kind, tuple(r.api_version for r in self._versions(group, kind)))

    async def any_version(self, group: str, kind: str, preferred: str | None = None) -> Resource:
        """The kind in ``preferred`` where that is served, else in the server's first version.

        For objects known by group and kind only: an inventory outlives the version it was applied in.
        """
        if not self._versions(group, kind):
            await self.refresh()
        versions = self._versions(group, kind)
        if versions:
            by_name = {r.version: r for r in versions}
            return by_name.get(preferred or "", versions[0])
        stale = sorted(version for name, version in self._stale if name == group)
        if stale:
            raise DiscoveryStale(group, stale[0])
        raise NotServed(group, preferred or "*", kind, ())

    async def namespaced(self) -> list[Resource]:
        """Every namespaced kind that can be listed and deleted, in its first version: what a Namespace can hold.

        Asks the server each time, for kinds come and go. Raises DiscoveryStale where some group may have kinds that
        nobody has ever seen, and the client's errors.
        """
        await self.refresh(now=True)
        known = {(kind.group, version) for kind, versions in self._kinds.items() for version in versions}
        for group, version in sorted(self._stale - known):
            raise DiscoveryStale(group, version)
        first = [next(iter(versions.values())) for versions in self._kinds.values()]
        return [r for r in first if r.namespaced and {"list", "delete"} <= r.verbs]

    async def refresh(self, *, now: bool = False) -> None:
        """Reads the server's kinds again; concurrent callers share one reading. ``now`` skips the pause.

        With ``now`` the reading begins after the call: what was established before is in it."""
        asked = time.monotonic()
        async with self._lock:
            if self._began_at > asked or (not now and time.monotonic() - self._read_at < REFRESH_PAUSE):
                return
            began = time.monotonic()
            kinds: dict[GroupKind, dict[str, Resource]] = {}
            stale: set[tuple[str, str]] = set()
            for path in ("/api", "/apis"):
                answer = await self._client.raw("GET", path, accept=_AGGREGATED)
                if not isinstance(answer, dict):
                    raise InvalidAnswer(f"GET {path}: the answer is no discovery")
                if answer.get("kind") == "APIGroupDiscoveryList":
                    _read_groups(answer, kinds, stale)
                else:
                    await self._read_one_by_one(answer, path, kinds, stale)
            self._keep_stale(kinds, stale)
            self._kinds, self._stale = kinds, stale
            self._began_at, self._read_at = began, time.monotonic()

    async def _read_one_by_one(
        self, answer: Obj, path: str, kinds: dict[GroupKind, dict[str, Resource]], stale: set[tuple[str, str]]
    ) -> None:
        """The older protocol: a list of group versions first, then what each has."""
        names = _group_versions(answer, path)
        answers = await asyncio.gather(
            *(self._client.raw("GET", f"{path}/{name}") for name in names), return_exceptions=True
        )
        for name, resources in zip(names, answers, strict=True):
            if isinstance(resources, ApiError) and (resources.not_found or resources.status == 503):
                stale.add(split_api_version(name))
            elif isinstance(resources, BaseException):
                raise resources
            else:
                _read_resources(name, resources, kinds)

    def _versions(self, group: str, kind: str) -> tuple[Resource, ...]:
        return tuple(self._kinds.get(GroupKind(group, kind), {}).values())

    def _keep_stale(self, kinds: dict[GroupKind, dict[str, Resource]], stale: set[tuple[str, str]]) -> None:
        """What a stale group served before is most likely what it serves: keep it usable."""
        for group_kind, versions in self._kinds.items():
            for version, resource in versions.items():
                if (group_kind.group, version) in stale:
                    kinds.setdefault(group_kind, {}).setdefault(version, resource)


def _read_groups(answer: Any, kinds: dict[GroupKind, dict[str, Resource]], stale: set[tuple[str, str]]) -> None:
    """Takes in an APIGroupDiscoveryList: items[].versions[].resources[] with responseKind and scope."""
    for group in answer.get("items") or ():
        group_name = (group.get("metadata") or {}).get("name") or ""
        for version in group.get("versions") or ():
            version_name = version.get("version") or ""
            if version.get("freshness") == "Stale":
                stale.add((group_name, version_name))
            for entry in version.get("resources") or ():
                kind = entry.get("responseKind") or {}
                name = kind.get("kind")
                if not name:
                    continue
                resource = Resource(
                    group=kind.get("group") or group_name,
                    version=kind.get("version") or version_name,
                    kind=name,
                    plural=entry["resource"],
                    namespaced=entry.get("scope") == "Namespaced",
                    verbs=frozenset(entry.get("verbs") or ()),
                )
                kinds.setdefault(resource.group_kind, {}).setdefault(resource.version, resource)


def _group_versions(answer: Obj, path: str) -> list[str]:
    """``v1`` from APIVersions, ``apps/v1`` and so on from an APIGroupList, each group's preferred version first."""
    if answer.get("kind") == "APIVersions":
        return list(answer.get("versions") or ())
    if answer.get("kind") != "APIGroupList":
        raise InvalidAnswer(f"GET {path}: the answer is no discovery")
    names: dict[str, None] = {}
    for group in answer.get("groups") or ():
        for version in (group.get("preferredVersion"), *(group.get("versions") or ())):
            if version:
                names[version["groupVersion"]] = None
    return list(names)


def _read_resources(api_version: str, answer: Any, kinds: dict[GroupKind, dict[str, Resource]]) -> None:
    """Takes in an APIResourceList; entries with a slash are subresources."""
    for entry in (answer.get("resources") if isinstance(answer, dict) else None) or ():
        if "/" in entry["name"]:
            continue
        group, version = split_api_version(api_version)
        resource = Resource(
            group=entry.get("group") or group,
            version=entry.get("version") or version,
            kind=entry["kind"],
            plural=entry["name"],
            namespaced=bool(entry.get("namespaced")),
            verbs=frozenset(entry.get("verbs") or ()),
        )
        kinds.setdefault(resource.group_kind, {}).setdefault(resource.version, resource)

"""Who declares which object, among the resources of one destination.

Between syncs the API server keeps the books: each sync applies under a field manager of its own. Within a sync one
manager serves all resources (a hundred managers on a shared Namespace would make applies a hundred times slower), so
what several resources of one sync declare together is counted here:

- :meth:`Ownership.siblings` says who else declares an object: the last one takes it along when it goes.
- The same object must be declared alike. The declaration that was applied holds; a different one is refused and told
  who holds, until the holders have moved on (:meth:`Ownership.holder`). Whoever was refused is woken when that is so.

What is known comes from two sides: the inventories in the resources' statuses (after a restart, that is all there
is), and the declarations of reconciles in this process, which are newer than any cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from vidra.kube.resource import GroupKind, ObjectKey

#: Told of a resource that had been refused and may try again.
Wake = Callable[[str], None]


@dataclass(slots=True)
class _Claim:
    """One resource's relation to one object."""

    manager: str
    in_inventory: bool = False
    declared: str | None = None  # digest of the declaration; None where only the inventory is known
    applied: bool = False  # the declaration is what is live, and the resource still means it
    refused: bool = False


@dataclass(slots=True)
class _Known:
    """What is known of one resource."""

    keys: set[ObjectKey] = field(default_factory=set)
    #: resourceVersion of the newest status that was taken in; older events say nothing new.
    version: int = 0


class Ownership:
    """Plain dictionaries; nothing here awaits, so one event loop needs no locks."""

    def __init__(self, wake: Wake = lambda resource: None) -> None:
        self._wake = wake
        self._claims: dict[ObjectKey, dict[str, _Claim]] = {}
        self._resources: dict[str, _Known] = {}

    # --- what is told

    def inventory(self, resource: str, manager: str, keys: Iterable[ObjectKey], *, version: str) -> None:
        """The resource's status, at this resourceVersion, lists these objects."""
        known = self._resources.setdefault(resource, _Known())
        number = int(version) if version.isdecimal() else 0
        if number and number < known.version:
            return
        known.version = number
        wanted = set(keys)
        for key in wanted:
            self._claim(resource, manager, key).in_inventory = True
        for key in [k for k in known.keys if k not in wanted]:
            claim = self._claims[key][resource]
            claim.in_inventory = False
            if claim.declared is None:
                self._drop(resource, key)

    def declare(self, resource: str, manager: str, digests: Mapping[ObjectKey, str]) -> None:
        """The resource's manifest, as it is being reconciled, declares these objects with these digests."""
        known = self._resources.setdefault(resource, _Known())
        for key, digest in digests.items():
            claim = self._claim(resource, manager, key)
            if claim.declared != digest:
                claim.declared, claim.applied = digest, False
                self._settled(key)
        for key in [k for k in known.keys if k not in digests]:
            claim = self._claims[key][resource]
            claim.declared, claim.applied, claim.refused = None, False, False
            if claim.in_inventory:
                self._settled(key)
            else:
                self._drop(resource, key)

    def applied(self, resource: str, key: ObjectKey) -> None:
        """What the resource declares of this object is what is live now."""
        claim = self._claims[key][resource]
        if not claim.applied or claim.refused:
            claim.applied, claim.refused = True, False
            self._settled(key)

    def refused(self, resource: str, key: ObjectKey) -> None:
        """The resource was told of another holder; it is woken when that one has moved on."""
        self._claims[key][resource].refused = True

    def unsettle(self, resource: str) -> None:
        """The resource's spec has changed since: what it declared may not be what it means any more."""
        for key in list(self._resources.get(resource, _Known()).keys):
            claim = self._claims[key][resource]
            if claim.applied:
                claim.applied = False
                self._settled(key)

    def release(self, resource: str, key: ObjectKey) -> None:
        """The resource has nothing to do with this object any more."""
        if resource in self._claims.get(key, {}):
            self._drop(resource, key)

    def forget(self, resource: str) -> None:
        """The resource is gone."""
        for key in list(self._resources.get(resource, _Known()).keys):
            self._drop(resource, key)
        self._resources.pop(resource, None)

    # --- what is asked

    def siblings(self, resource: str, manager: str, key: ObjectKey) -> list[str]:
        """The other resources under this manager that declare the object or have it in their inventory."""
        return sorted(
            name for name, claim in self._claims.get(key, {}).items() if name != resource and claim.manager == manager
        )

    def holder(self, resource: str, manager: str, key: ObjectKey, digest: str) -> str | None:
        """A resource under this manager whose different declaration is live; None: nothing stands in the way."""
        for name, claim in self._claims.get(key, {}).items():
            if name != resource and claim.manager == manager and claim.applied and claim.declared != digest:
                return name
        return None

    def claimants(self, key: ObjectKey) -> list[str]:
        """Every resource that declares the object or has it in its inventory, whatever its manager."""
        return list(self._claims.get(key, {}))

    def is_claimed(self, key: ObjectKey) -> bool:
        return key in self._claims

    def kinds(self) -> set[GroupKind]:
        """The kinds of all objects that anybody declares or has in its inventory."""
        return {key.group_kind for key in self._claims}

    # --- inside

    def _claim(self, resource: str, manager: str, key: ObjectKey) -> _Claim:
        claims = self._claims.setdefault(key, {})
        claim = claims.get(resource)
        if claim is None or claim.manager != manager:
            claim = claims[resource] = _Claim(manager)
        self._resources[resource].keys.add(key)
        return claim

    def _drop(self, resource: str, key: ObjectKey) -> None:
        claims = self._claims[key]
        del claims[resource]
        if not claims:
            del self._claims[key]
        self._resources[resource].keys.discard(key)
        self._settled(key)

    def _settled(self, key: ObjectKey) -> None:
        """Wakes whom nothing stands in the way of any more. Where no declaration is live, one of those who wait goes
        first, and its success wakes the ones who declare the same."""
        claims = self._claims.get(key)
        if not claims or not any(claim.refused for claim in claims.values()):
            return
        live: dict[str, set[str | None]] = {}
        for claim in claims.values():
            if claim.applied:
                live.setdefault(claim.manager, set()).add(claim.declared)
        first: set[str] = set()
        for name, claim in list(claims.items()):
            if not claim.refused:
                continue
            holding = live.get(claim.manager, set())
            if holding and holding != {claim.declared}:
                continue
            if not holding:
                if claim.manager in first:
                    continue
                first.add(claim.manager)
            claim.refused = False
            self._wake(name)

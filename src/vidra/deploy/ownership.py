"""Who declares which object, among the resources of one destination.

Between syncs the API server keeps the books: each sync applies under a field manager of its own. Within a sync one
manager serves all resources (a hundred managers on a shared Namespace would make applies a hundred times slower), so
what several resources of one sync declare together is counted here:

- :meth:`Ownership.siblings` says who else declares an object: the last one takes it along when it goes.
- The same object must be declared alike. Whoever's declaration was applied *holds* the object; a different one is
  refused and told who holds, until the holders have moved on (:meth:`Ownership.holder`). Whoever was refused is woken
  when that is so.

A holder is *settled* while what it declares is what was applied. After a restart, and from an edit to the reconcile
that reads it, nobody knows yet what a holder means: it is unsettled then, and still holds against all who hold nothing
themselves. Otherwise any edit of the holder, and any restart, would let the one who was refused slip in. Those who hold
it together don't wait for each other: a sync that changes all of its resources alike brings the first of them through.

What is known comes from two sides: the inventories in the resources' statuses (after a restart, that is all there
is), and the declarations of reconciles in this process, which are newer than any cache.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from vidra.deploy.inventory import Entry
from vidra.deploy.wanted import seal
from vidra.kube.resource import GroupKind, ObjectKey

#: Told of a resource that had been refused and may try again.
Wake = Callable[[str], None]


@dataclass(slots=True)
class _Claim:
    """One resource's relation to one object."""

    manager: str
    in_inventory: bool = False
    declared: str | None = None  # digest of the declaration; None where only the inventory is known
    holds: bool = False  # what it declares, or declared, was applied
    settled: bool = False  # what was applied is what it still means
    refused: bool = False
    seal: str = ""  # of the inventory: tells an equal declaration while nothing else is known

    def stands_against(self, digest: str, live: str | None, *, is_holder: bool) -> bool:
        """Whether one who declares this digest, and holds the object or not, has to wait for it."""
        if not self.holds or self.declared == digest:
            return False
        if self.settled:
            return True
        return not (is_holder or (live is not None and self.seal == seal(digest, live)))


@dataclass(slots=True)
class _Known:
    """What is known of one resource."""

    keys: set[ObjectKey] = field(default_factory=set)
    #: It is being deleted, so it keeps nothing.
    leaving: bool = False
    #: resourceVersion of the newest status that was taken in; older events say nothing new.
    version: int = 0


class Ownership:
    """Plain dictionaries; nothing here awaits, so one event loop needs no locks."""

    def __init__(self, wake: Wake = lambda resource: None) -> None:
        self._wake = wake
        self._claims: dict[ObjectKey, dict[str, _Claim]] = {}
        self._resources: dict[str, _Known] = {}

    # --- what is told

    def inventory(
        self,
        resource: str,
        manager: str,
        inventory: Mapping[ObjectKey, Entry],
        *,
        version: str,
        leaving: bool = False,
    ) -> None:
        """The resource's status, at this resourceVersion, lists these objects. ``leaving``: it is being deleted."""
        known = self._resources.setdefault(resource, _Known())
        known.leaving = known.leaving or leaving
        number = int(version) if version.isdecimal() else 0
        if number and number < known.version:
            return
        known.version = number
        for key, entry in inventory.items():
            claim = self._claim(resource, manager, key)
            if not claim.in_inventory and claim.declared is None:
                # Not seen before in this process. One that is refused has no seal.
                claim.holds = bool(entry.seal)
            claim.in_inventory, claim.seal = True, entry.seal
        for key in [k for k in known.keys if k not in inventory]:
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
                claim.declared, claim.settled = digest, False
                self._settled(key)
        for key in [k for k in known.keys if k not in digests]:
            claim = self._claims[key][resource]
            claim.declared, claim.holds, claim.settled, claim.refused = None, False, False, False
            if claim.in_inventory:
                self._settled(key)
            else:
                self._drop(resource, key)

    def applied(self, resource: str, key: ObjectKey) -> None:
        """What the resource declares of this object is what is live now."""
        claim = self._claims[key][resource]
        if not claim.settled or claim.refused:
            claim.holds, claim.settled, claim.refused = True, True, False
            self._settled(key)

    def refused(self, resource: str, key: ObjectKey) -> None:
        """The resource was told of another holder; it is woken when that one has moved on."""
        claim = self._claims[key][resource]
        held, claim.holds, claim.settled, claim.refused = claim.holds, False, False, True
        if held:
            self._settled(key)

    def unsettle(self, resource: str) -> None:
        """The resource's spec has changed since: what it declared may not be what it means any more."""
        for key in self._resources.get(resource, _Known()).keys:
            self._claims[key][resource].settled = False

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

    def holder(
        self, resource: str, manager: str, key: ObjectKey, digest: str, *, live: str | None = None
    ) -> str | None:
        """A resource under this manager that holds the object and declares it differently, or may; None: nothing stands
        in the way. ``live`` is the digest of the live object."""
        claims = self._claims.get(key, {})
        mine = claims.get(resource)
        is_holder = mine is not None and mine.holds
        for name, claim in claims.items():
            if name == resource or claim.manager != manager:
                continue
            if claim.stands_against(digest, live, is_holder=is_holder):
                return name
        return None

    def keeper(self, key: ObjectKey, leaver: str) -> str | None:
        """A resource, of whatever manager, that keeps the object when ``leaver`` lets go of what it doesn't declare."""
        for name, claim in self._claims.get(key, {}).items():
            if claim.declared is not None if name == leaver else not self._resources[name].leaving:
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
        """Wakes whom nothing stands in the way of any more. Where nobody holds the object, one of those who wait goes
        first, and its success wakes the ones who declare the same."""
        claims = self._claims.get(key)
        if not claims or not any(claim.refused for claim in claims.values()):
            return
        #: What the holders of each manager declare; None for one of whom that isn't known.
        held: dict[str, set[str | None]] = {}
        for claim in claims.values():
            if claim.holds:
                held.setdefault(claim.manager, set()).add(claim.declared)
        first: set[str] = set()
        for name, claim in list(claims.items()):
            holding = held.get(claim.manager)
            if not claim.refused or (holding and holding != {claim.declared}):
                continue
            if not holding:
                if claim.manager in first:
                    continue
                first.add(claim.manager)
            claim.refused = False
            self._wake(name)

"""Lets go of objects: deletes what nobody else declares, and steps back from the rest.

What happens to one object, under its lock:

| it is                                                         | it is then                                    |
|---------------------------------------------------------------|-----------------------------------------------|
| declared by another resource of the same sync                 | left as it is                                 |
| gone, or another object of that name which isn't ours         | left as it is                                 |
| annotated prune/reconcile=disabled, adopted, or to be orphaned| handed back: every field stays, our label goes|
| declared by another sync too                                  | left to it: our fields go, shared ones stay   |
| a Namespace or definition that holds what others put there     | handed back                                   |
| the same, and it is a sibling's, who may be about to go too   | left as it is, and looked at again            |
| anything else                                                 | deleted (Background; uid and version checked) |

The version check makes it safe against an owner that comes in at the same moment: its apply moves the version, the
delete is refused, and the next look sees the new owner. Two owners that leave at once each take away their own entry
first; the server puts that in an order, and the last one sees that nobody is left.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import structlog

from vidra.api import names
from vidra.deploy.contents import find_content
from vidra.deploy.destination import Destination, see
from vidra.deploy.errors import ObjectError, Problem, refusal
from vidra.deploy.inventory import Entry
from vidra.deploy.managers import hand_back, unite
from vidra.deploy.ownership import Ownership
from vidra.kube.client import Obj, PatchType
from vidra.kube.discovery import NotServed
from vidra.kube.errors import ApiError, KubeError
from vidra.kube.resource import ObjectKey, Resource
from vidra.runtime.observed import Observed

log = structlog.get_logger(__name__)

#: How often an object may change under our hands before it is left to the next reconcile.
TRIES = 4


class Removal(StrEnum):
    DELETED = "deleted"
    TERMINATING = "terminating"  # deleted, and something holds it: the entry stays in the inventory
    SHARED = "shared"
    RELEASED = "released"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Removed:
    """``note`` says for people why it was not simply deleted; for TERMINATING, what holds it."""

    key: ObjectKey
    removal: Removal
    note: str = ""


@dataclass(frozen=True, slots=True)
class Leaver:
    """On whose behalf: resource, its sync's field manager, and whether its objects stay behind. ``patient``: siblings
    may be about to go as well, so a Namespace waits for what they have in it."""

    resource: str
    manager: str
    orphan: bool = False
    patient: bool = False


@dataclass(frozen=True, slots=True)
class _Kept:
    """Why an object is not deleted; ``waits``: not yet."""

    note: str
    waits: bool = False


class Pruner:
    """For one destination."""

    def __init__(self, destination: Destination, ownership: Ownership) -> None:
        self._to = destination
        self._ownership = ownership

    async def let_go(self, entry: Entry, who: Leaver) -> Removed:
        """Raises ObjectError, and nothing else that the cluster can cause."""
        key = entry.key
        async with self._to.hold(key):
            siblings = self._ownership.siblings(who.resource, who.manager, key)
            if siblings:
                self._ownership.release(who.resource, key)
                return Removed(key, Removal.SHARED, f"still declared by VidraResource {siblings[0]}")
            try:
                removed = await self._remove(entry, who)
            except NotServed:
                # The kind is gone, and with its definition the server deleted every object of it.
                removed = Removed(key, Removal.GONE, "its kind is not served any more")
            except KubeError as error:
                if not (who.orphan and isinstance(error, ApiError) and error.status == 403):
                    raise refusal(key, error, problem=Problem.PRUNE) from error
                # It is to be left behind, and may not even be looked at: as it is, then. Otherwise rights that were
                # taken away would hold the resource for ever.
                removed = Removed(key, Removal.RELEASED, f"left behind as it is: {error}")
            if removed.removal is not Removal.TERMINATING:
                self._ownership.release(who.resource, key)
            return removed

    async def _remove(self, entry: Entry, who: Leaver) -> Removed:
        key = entry.key
        resource = await self._to.discovery.any_version(key.group, key.kind, entry.version)
        last: ApiError | None = None
        for _ in range(TRIES):
            obj = await self._get(resource, key)
            if obj is None:
                return Removed(key, Removal.GONE)
            live = see(obj)
            if (entry.uid and entry.uid != live.uid) and not live.managed_by(who.manager):
                return Removed(key, Removal.GONE, "another object has its name now")
            if not entry.uid and not live.managed_by(who.manager):
                return Removed(key, Removal.GONE, "it was never applied")
            if live.terminating:
                return Removed(key, Removal.TERMINATING, _holds(live))
            kept = await self._keep(entry, obj, live, who)
            if kept is not None and kept.waits:
                return Removed(key, Removal.TERMINATING, kept.note)
            try:
                if kept is not None:
                    return await self._step_back(resource, obj, live, who, kept.note)
                return await self._delete(resource, key, live)
            except ApiError as error:
                if error.not_found:
                    return Removed(key, Removal.GONE)
                # 409: it changed since we looked. 422: our last entry's fields can't be taken away, since nobody else
                # is left to hold them; the next look finds us alone.
                if not (error.conflict or error.invalid):
                    raise
                last = error
        raise ObjectError(key, Problem.PRUNE, f"it keeps changing while it is let go: {last}")

    async def _keep(self, entry: Entry, obj: Obj, live: Observed, who: Leaver) -> _Kept | None:
        """Why the object is not to be deleted; None: it is."""
        annotations = obj["metadata"].get("annotations") or {}
        others = [manager.name for manager in live.managers if manager.name != who.manager]
        if others:
            return _Kept(f"still declared by {', '.join(sorted(set(others)))}")
        for name in (names.PRUNE_ANNOTATION, names.RECONCILE_ANNOTATION):
            if annotations.get(name) == names.DISABLED:
                return _Kept(f"annotated {name}={names.DISABLED}")
        if who.orphan:
            return _Kept("deletionPolicy is Orphan")
        marked = annotations.get(names.ADOPTED_ANNOTATION) == names.ADOPTED_VALUE
        if marked or (entry.adopted and entry.uid == live.uid):
            return _Kept("it was adopted, not made, by Vidra")
        content = await find_content(
            self._to, obj, who.manager, lambda inside: self._ownership.keeper(inside, who.resource)
        )
        if content is None:
            return None
        if who.patient and content.keeper not in ("", who.resource):
            return _Kept(f"waiting for {content}", waits=True)
        return _Kept(f"it holds {content}")

    async def _step_back(self, resource: Resource, obj: Obj, live: Observed, who: Leaver, note: str) -> Removed:
        key = ObjectKey(resource.group, resource.kind, obj["metadata"].get("namespace") or "", obj["metadata"]["name"])
        shared = any(manager.name != who.manager for manager in live.managers)
        if shared:
            # An apply of nothing takes away what only we hold; what the others hold too stays theirs. It can't take
            # what an entry of a POST has: that one must be an Apply entry first.
            patch = unite(obj, who.manager)
            if patch:
                await self._to.client.patch(resource, key.name, patch, PatchType.JSON, namespace=key.namespace)
            body: Obj = {
                "apiVersion": resource.api_version,
                "kind": resource.kind,
                "metadata": {"name": key.name, "uid": live.uid},
            }
            answer = await self._to.client.apply(
                resource, body, key.name, namespace=key.namespace, field_manager=who.manager, force=True
            )
            left = self._to.live.wrote(key, answer)
            if not [manager for manager in left.managers if manager.name != who.manager]:
                # The other one left in the same moment: nobody declares it any more.
                return await self._delete(resource, key, left)
            return Removed(key, Removal.SHARED, note)
        patch = hand_back(obj, who.manager)
        if patch:
            answer = await self._to.client.patch(
                resource, key.name, patch, PatchType.JSON, namespace=key.namespace, field_manager=who.manager
            )
            self._to.live.wrote(key, answer)
        log.info("let go", object=str(key), why=note)
        return Removed(key, Removal.RELEASED, note)

    async def _delete(self, resource: Resource, key: ObjectKey, live: Observed) -> Removed:
        try:
            answer = await self._to.client.delete(
                resource, key.name, namespace=key.namespace, uid=live.uid, resource_version=live.version
            )
        except ApiError as error:
            if error.invalid:  # by an admission policy: another look won't help
                raise refusal(key, error, problem=Problem.PRUNE) from error
            raise
        metadata = answer.get("metadata") or {}
        if "deletionTimestamp" in metadata:
            left = self._to.live.wrote(key, answer)
            return Removed(key, Removal.TERMINATING, _holds(left))
        self._to.live.deleted(key, live.uid)
        return Removed(key, Removal.DELETED)

    async def _get(self, resource: Resource, key: ObjectKey) -> Obj | None:
        try:
            return await self._to.client.get(resource, key.name, key.namespace)
        except ApiError as error:
            if error.not_found:
                return None
            raise


def _holds(live: Observed) -> str:
    if live.finalizers:
        return f"terminating, waiting for finalizer {', '.join(live.finalizers)}"
    return "terminating"

"""Brings one object to its wanted form by server-side apply, and knows when there is nothing to do.

The way of an object, under a lock of its own:

1. Another resource of the same sync declares it differently, and that is live: refused.
2. What is live is what our last apply made of the same wish (the *seal* fits): no request.
3. Not known to be there: POST. A name that is taken is a race-free sign that somebody made it; whose it is, its
   managedFields say. Foreign objects are refused, or adopted where that is allowed.
4. Else: apply. Fields held by managers outside of Vidra are taken by force; held by another sync they are a conflict.
5. A field that can't change, and ``force``: delete, wait, create.

All of it is repeated a few times when the object changes under our hands.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

import structlog

from vidra.api import names
from vidra.deploy.destination import Destination
from vidra.deploy.errors import ObjectError, Problem, conflicting_managers, is_immutable, refusal
from vidra.deploy.inventory import Entry
from vidra.deploy.managers import adoption, promotion
from vidra.deploy.ownership import Ownership
from vidra.deploy.removal import delete_and_wait
from vidra.kube.client import Obj, PatchType
from vidra.kube.errors import ApiError, KubeError
from vidra.kube.resource import ObjectKey, Resource
from vidra.runtime.digest import json_digest
from vidra.runtime.observed import Observed, observe

log = structlog.get_logger(__name__)

#: How often an object may change under our hands before it is left to the next reconcile.
TRIES = 4
#: Kinds that are never deleted in order to be created anew: their contents would go too.
NEVER_RECREATED = frozenset({"Namespace", "PersistentVolumeClaim", "PersistentVolume", "CustomResourceDefinition"})

_UNDECLARED = re.compile(r"\.([A-Za-z0-9_-]+): field not declared in schema")


@dataclass(frozen=True, slots=True)
class Wanted:
    """One object as its resource wants it: ``body`` with Vidra's label, ``where`` for messages."""

    key: ObjectKey
    resource: Resource
    body: Obj
    digest: str
    where: str

    def annotation(self, name: str) -> str | None:
        value = (self.body["metadata"].get("annotations") or {}).get(name)
        return None if value is None else str(value)


@dataclass(frozen=True, slots=True)
class Applicant:
    """On whose behalf: the resource's name, its sync's field manager, and what it allows."""

    resource: str
    manager: str
    adopt: bool = False
    force: bool = False


class Action(StrEnum):
    CREATED = "created"
    CONFIGURED = "configured"
    UNCHANGED = "unchanged"
    ADOPTED = "adopted"
    RECREATED = "recreated"


@dataclass(frozen=True, slots=True)
class Applied:
    entry: Entry
    action: Action
    warnings: tuple[str, ...] = ()


#: The last seal of each object, by field manager; shared by all who apply to one cluster.
Seals: TypeAlias = dict[tuple[str, ObjectKey], str]


def seal(wanted: str, live: str) -> str:
    """Says: this wish was applied, and the server made that of it. Both digests, in 16 hex digits."""
    return json_digest([wanted, live])[:16]


class Applier:
    """For one destination. Keeps the last seal of each object in ``seals``, so that the next owner of the same sync,
    which has none in its status yet, has nothing to do either."""

    def __init__(self, destination: Destination, ownership: Ownership, seals: Seals | None = None) -> None:
        self._to = destination
        self._ownership = ownership
        self._seals: Seals = {} if seals is None else seals

    def is_done(self, wanted: Wanted, prior: Entry | None, who: Applicant) -> bool:
        """Whether :meth:`apply` would find nothing to do, as far as one can tell without waiting for a lock."""
        live = self._to.live.get(wanted.key)
        return prior is not None and live is not None and self._sealed(wanted, prior, who, live)

    async def apply(self, wanted: Wanted, prior: Entry | None, who: Applicant) -> Applied:
        """Raises ObjectError, and nothing else that the cluster can cause."""
        key = wanted.key
        async with self._to.locks.hold(key):
            holder = self._ownership.holder(who.resource, who.manager, key, wanted.digest)
            if holder is not None:
                self._ownership.refused(who.resource, key)
                raise ObjectError(
                    key, Problem.SIBLING_CONFLICT, f"VidraResource {holder} declares it differently", where=wanted.where
                )
            live = self._to.live.get(key)
            if live is not None and self._sealed(wanted, prior, who, live):
                entry = Entry(
                    key, wanted.resource.version, live.uid, _adopted(prior, live), seal(wanted.digest, live.digest)
                )
                self._ownership.applied(who.resource, key)
                return Applied(entry, Action.UNCHANGED)
            warnings: list[str] = []
            try:
                answer, action = await self._write(wanted, prior, who, live, warnings)
            except KubeError as error:
                raise refusal(key, error, body=wanted.body, where=wanted.where) from error
            observed = self._to.live.wrote(key, answer)
            stamp = seal(wanted.digest, observed.digest)
            self._seals[who.manager, key] = stamp
            self._ownership.applied(who.resource, key)
        adopted = action is Action.ADOPTED or (action is Action.CONFIGURED and _adopted(prior, observed))
        entry = Entry(key, wanted.resource.version, observed.uid, adopted, stamp)
        return Applied(entry, action, tuple(warnings))

    def _sealed(self, wanted: Wanted, prior: Entry | None, who: Applicant, live: Observed) -> bool:
        if live.terminating or not live.managed_by(who.manager):
            return False
        stamp = seal(wanted.digest, live.digest)
        return stamp == self._seals.get((who.manager, wanted.key)) or (prior is not None and stamp == prior.seal)

    async def _write(
        self, wanted: Wanted, prior: Entry | None, who: Applicant, live: Observed | None, warnings: list[str]
    ) -> tuple[Obj, Action]:
        action = Action.CONFIGURED
        # An object that should be there but isn't in the cache, because its kind can't be watched, is looked at first.
        if live is None and prior is not None and prior.uid and not self._to.live.knows(wanted.key):
            live, action = await self._look(wanted, prior, who)
        for _ in range(TRIES):
            if live is None:
                try:
                    return await self._create(wanted, who, warnings), Action.CREATED
                except ApiError as error:
                    if not error.already_exists:
                        raise
                live, action = await self._look(wanted, prior, who)
                continue
            self._refuse_terminating(wanted, live)
            try:
                return await self._apply(wanted, who, live, warnings), action
            except ApiError as error:
                if is_immutable(error):
                    return await self._recreate(wanted, who, live, error, warnings), Action.RECREATED
                if not _moved(error):
                    raise
            # It is another object by now, or was changed in between: see what is there.
            live, action = await self._look(wanted, prior, who)
        raise ObjectError(wanted.key, Problem.REFUSED, "it keeps changing while it is applied", where=wanted.where)

    async def _look(self, wanted: Wanted, prior: Entry | None, who: Applicant) -> tuple[Observed | None, Action]:
        """Reads the live object and takes it over where it isn't ours yet. None: it isn't there."""
        key = wanted.key
        try:
            obj = await self._to.client.get(wanted.resource, key.name, key.namespace)
        except ApiError as error:
            if error.not_found:
                return None, Action.CREATED
            raise
        live = observe(obj, manager_prefix=names.MANAGER_PREFIX)
        self._refuse_terminating(wanted, live)
        ours = bool(live.managers) or _is_originals(obj) or (prior is not None and prior.uid == live.uid)
        if not ours and not self._may_adopt(wanted, obj, who):
            raise ObjectError(
                key,
                Problem.CONFLICT,
                f"exists and is not Vidra's ({_managers_of(obj)}); to take it over set spec.adopt, or annotate the "
                f"object {names.ADOPT_ANNOTATION}={names.ENABLED}",
                where=wanted.where,
            )
        patch = adoption(obj, who.manager)
        if patch:
            try:
                obj = await self._to.client.patch(
                    wanted.resource, key.name, patch, PatchType.JSON, namespace=key.namespace, field_manager=who.manager
                )
            except ApiError as error:
                if not error.invalid:
                    raise
                # The test of its version failed: the next look shows the newer one.
                obj = await self._to.client.get(wanted.resource, key.name, key.namespace)
            live = observe(obj, manager_prefix=names.MANAGER_PREFIX)
        return live, Action.CONFIGURED if ours else Action.ADOPTED

    async def _create(self, wanted: Wanted, who: Applicant, warnings: list[str]) -> Obj:
        return await self._to.client.create(
            wanted.resource, wanted.body, namespace=wanted.key.namespace, field_manager=who.manager, warnings=warnings
        )

    async def _apply(self, wanted: Wanted, who: Applicant, live: Observed, warnings: list[str]) -> Obj:
        """Applies to exactly the object that was seen. Raises a 409 that ``_moved`` knows when it is another by now."""
        key, client = wanted.key, self._to.client
        patch = promotion(live, who.manager)
        if patch is None:
            raise ApiError(409, "Conflict", "two entries of ours", request=str(key))
        if patch:
            try:
                await client.patch(wanted.resource, key.name, patch, PatchType.JSON, namespace=key.namespace)
            except ApiError as error:
                if error.invalid:
                    raise ApiError(409, "Conflict", "managedFields have changed", request=str(key)) from error
                raise
        # With the uid an apply can't create: a name that was taken anew since is a conflict, not a takeover.
        body = {**wanted.body, "metadata": {**wanted.body["metadata"], "uid": live.uid}}
        force = False
        while True:
            try:
                return await client.apply(
                    wanted.resource,
                    body,
                    key.name,
                    namespace=key.namespace,
                    field_manager=who.manager,
                    force=force,
                    warnings=warnings,
                )
            except ApiError as error:
                undeclared = _UNDECLARED.findall(error.message)
                if undeclared and all(name in body for name in undeclared):
                    # A POST prunes unknown top-level fields with a warning; an apply must not be stricter.
                    body = {name: value for name, value in body.items() if name not in undeclared}
                    warnings.extend(f'unknown field "{name}"' for name in undeclared)
                    continue
                if force or not error.field_conflicts:
                    raise
                self._refuse_other_syncs(wanted, who, error)
                force = True

    def _refuse_other_syncs(self, wanted: Wanted, who: Applicant, error: ApiError) -> None:
        held = conflicting_managers(error)
        if who.manager in held:
            raise ApiError(409, "Conflict", "an entry of ours is in the way", request=str(wanted.key)) from error
        for manager, fields in held.items():
            if manager.startswith(names.MANAGER_PREFIX):
                sync = manager.removeprefix(names.MANAGER_PREFIX)
                owner = f"InfrahubSync {sync}" if sync else "a VidraResource without a sync"
                raise ObjectError(
                    wanted.key,
                    Problem.CONFLICT,
                    f"{owner} sets {', '.join(sorted(fields))} to other values",
                    where=wanted.where,
                ) from error

    async def _recreate(
        self, wanted: Wanted, who: Applicant, live: Observed, error: ApiError, warnings: list[str]
    ) -> Obj:
        allowed = who.force or wanted.annotation(names.FORCE_ANNOTATION) == names.ENABLED
        if not allowed or wanted.key.kind in NEVER_RECREATED:
            failure = refusal(wanted.key, error, body=wanted.body, where=wanted.where)
            hint = (
                f"{wanted.key.kind}s are never recreated"
                if wanted.key.kind in NEVER_RECREATED
                else f"to delete and create it anew, annotate the object {names.FORCE_ANNOTATION}={names.ENABLED}"
            )
            raise ObjectError(
                wanted.key, Problem.REFUSED, f"{failure.message} ({hint})", retryable=False, where=wanted.where
            ) from error
        log.info("recreating", object=str(wanted.key), why=error.message)
        await delete_and_wait(self._to, wanted.resource, wanted.key, live)
        return await self._create(wanted, who, warnings)

    def _may_adopt(self, wanted: Wanted, obj: Obj, who: Applicant) -> bool:
        live = (obj["metadata"].get("annotations") or {}).get(names.ADOPT_ANNOTATION)
        return who.adopt or names.ENABLED in (live, wanted.annotation(names.ADOPT_ANNOTATION))

    def _refuse_terminating(self, wanted: Wanted, live: Observed) -> None:
        if live.terminating:
            waits = f", waiting for {', '.join(live.finalizers)}" if live.finalizers else ""
            raise ObjectError(
                wanted.key,
                Problem.TERMINATING,
                f"it is being deleted{waits}; it is created anew when it is gone",
                where=wanted.where,
            )


def _adopted(prior: Entry | None, live: Observed) -> bool:
    """An adopted object that was deleted and made anew by us is ours."""
    return prior is not None and prior.adopted and prior.uid == live.uid


def _moved(error: ApiError) -> bool:
    """The object is not the one that was seen: another uid, another version, or gone."""
    return error.not_found or (error.conflict and not error.field_conflicts)


def _is_originals(obj: Obj) -> bool:
    """Whether the original operator made it: its label and its annotation together."""
    metadata = obj["metadata"]
    return (metadata.get("labels") or {}).get(names.MANAGED_BY_LABEL) == names.MANAGED_BY_VALUE and (
        metadata.get("annotations") or {}
    ).get(names.ORIGINAL_MANAGED_BY_ANNOTATION) == names.MANAGED_BY_VALUE


def _managers_of(obj: Obj) -> str:
    found = sorted({str(entry.get("manager")) for entry in obj["metadata"].get("managedFields") or ()})
    return f"managed by {', '.join(found)}" if found else "managed by nobody known"

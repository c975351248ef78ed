"""The requests that bring one object to its wanted form, and whose it is before they are sent.

Three ways: create it (POST), take it over (a look, and a patch of managedFields), apply to exactly the object that was
seen. Each raises the client's errors; a 409 that :func:`moved` knows says that the object is another one by now.
"""

from __future__ import annotations

import re
from typing import Any

import structlog

from vidra.api import names
from vidra.deploy.destination import Destination, see
from vidra.deploy.errors import ObjectError, Problem, conflicting_managers, refusal, shortened, without_values
from vidra.deploy.ignore import with_live
from vidra.deploy.inventory import Entry
from vidra.deploy.managers import ADOPTING_MANAGER, adoption, promotion, unite
from vidra.deploy.removal import delete_and_wait
from vidra.deploy.wanted import Applicant, Wanted
from vidra.kube.client import Obj, PatchType
from vidra.kube.errors import ApiError
from vidra.runtime.observed import Observed

log = structlog.get_logger(__name__)

#: Kinds that are never deleted in order to be created anew: their contents would go too.
NEVER_RECREATED = frozenset({"Namespace", "PersistentVolumeClaim", "PersistentVolume", "CustomResourceDefinition"})

_UNDECLARED = re.compile(r"\.([A-Za-z0-9_-]+): field not declared in schema")


class Writer:
    """For one destination."""

    def __init__(self, destination: Destination) -> None:
        self._to = destination

    async def get(self, wanted: Wanted) -> Obj | None:
        """The live object; None where there is none."""
        try:
            return await self._to.client.get(wanted.resource, wanted.key.name, wanted.key.namespace)
        except ApiError as error:
            if error.not_found:
                return None
            raise

    async def create(self, wanted: Wanted, who: Applicant, warnings: list[str]) -> Obj:
        return await self._to.client.create(
            wanted.resource,
            wanted.initial or wanted.body,
            namespace=wanted.key.namespace,
            field_manager=who.manager,
            warnings=warnings,
        )

    async def take_over(self, wanted: Wanted, prior: Entry | None, who: Applicant) -> tuple[Observed | None, bool]:
        """Reads the live object and makes it ours where it isn't yet and may be; the second says that it was adopted.
        None: it isn't there. Raises ObjectError for one that is somebody else's, or on its way out."""
        for last in (False, False, True):
            obj = await self.get(wanted)
            if obj is None:
                return None, False
            live = see(obj)
            refuse_terminating(wanted, live)
            ours = bool(live.managers) or _is_originals(obj) or (prior is not None and prior.uid == live.uid)
            if not ours and not _may_adopt(wanted, obj, who):
                raise ObjectError(
                    wanted.key,
                    Problem.CONFLICT,
                    f"exists and is not Vidra's ({_managers_of(obj)}); to take it over set spec.adopt, or annotate the "
                    f"object {names.ADOPT_ANNOTATION}={names.ENABLED}",
                    where=wanted.where,
                )
            # What Vidra manages already may have been edited with kubectl since: that is nobody's drift.
            patch = unite(obj, who.manager) if live.managers else adoption(obj, who.manager, mark=not ours)
            try:
                return (await self._adopt(wanted, patch) if patch else live), not ours
            except ApiError as error:
                # The test of its version failed, most likely: the next look shows the newer one.
                if last or not error.invalid:
                    raise
        raise AssertionError("the last look ends in one way or the other")

    async def _adopt(self, wanted: Wanted, patch: list[dict[str, Any]]) -> Observed:
        key = wanted.key
        return see(
            await self._to.client.patch(
                wanted.resource,
                key.name,
                patch,
                PatchType.JSON,
                namespace=key.namespace,
                field_manager=ADOPTING_MANAGER,
            )
        )

    async def apply(self, wanted: Wanted, who: Applicant, live: Observed, warnings: list[str]) -> Obj:
        """Applies to exactly the object that was seen."""
        await self._promote(wanted, who, live)
        # With the uid an apply can't create: a name that was taken anew since is a conflict, not a takeover.
        body = {**wanted.body, "metadata": {**wanted.body["metadata"], "uid": live.uid}}
        if wanted.ignored:
            body = await self._with_ignored(wanted, who, body)
        return await self._apply(wanted, who, body, warnings)

    async def rehearse(self, wanted: Wanted, who: Applicant, live: Obj) -> Obj:
        """What an apply would make of the live object; nothing is written."""
        body = with_live(wanted.body, live, wanted.ignored, who.manager)
        return await self._to.client.apply(
            wanted.resource,
            body,
            wanted.key.name,
            namespace=wanted.key.namespace,
            field_manager=who.manager,
            force=True,
            dry_run=True,
        )

    async def recreate(
        self, wanted: Wanted, who: Applicant, live: Observed, error: ApiError, warnings: list[str]
    ) -> Obj:
        """Deletes and creates an object a field of which can't change. Raises ObjectError where that isn't allowed."""
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
        others = sorted({manager.name for manager in live.managers} - {who.manager})
        if others:
            failure = refusal(wanted.key, error, body=wanted.body, where=wanted.where)
            text = f"{failure.message} (it is not recreated, for {_who_applies(others[0])} declares it too)"
            raise ObjectError(wanted.key, Problem.CONFLICT, text, where=wanted.where) from error
        log.info("recreating", object=str(wanted.key), why=shortened(without_values(error.message, wanted.body)))
        await delete_and_wait(self._to, wanted.resource, wanted.key, live)
        return await self.create(wanted, who, warnings)

    async def _promote(self, wanted: Wanted, who: Applicant, live: Observed) -> None:
        key = wanted.key
        patch = promotion(live, who.manager)
        if patch is None:
            raise ApiError(409, "Conflict", "two entries of ours", request=str(key))
        if not patch:
            return
        try:
            await self._to.client.patch(wanted.resource, key.name, patch, PatchType.JSON, namespace=key.namespace)
        except ApiError as error:
            if error.invalid:
                raise ApiError(409, "Conflict", "managedFields have changed", request=str(key)) from error
            raise

    async def _with_ignored(self, wanted: Wanted, who: Applicant, body: Obj) -> Obj:
        """The body with what is live of the ignored fields; the version sees to it that it still is when it arrives."""
        obj = await self.get(wanted)
        if obj is None:
            raise ApiError(409, "Conflict", "it is gone", request=str(wanted.key))
        merged = with_live(body, obj, wanted.ignored, who.manager)
        merged["metadata"]["resourceVersion"] = obj["metadata"]["resourceVersion"]
        return merged

    async def _apply(self, wanted: Wanted, who: Applicant, body: Obj, warnings: list[str]) -> Obj:
        force = False
        while True:
            try:
                return await self._to.client.apply(
                    wanted.resource,
                    body,
                    wanted.key.name,
                    namespace=wanted.key.namespace,
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
                _refuse_other_syncs(wanted, who, error)
                force = True


def moved(error: ApiError) -> bool:
    """The object is not the one that was seen: another uid, another version, or gone."""
    return error.not_found or (error.conflict and not error.field_conflicts)


def refuse_terminating(wanted: Wanted, live: Observed) -> None:
    """Raises ObjectError where the object is on its way out: nothing can be applied to it any more."""
    if live.terminating:
        waits = f", waiting for {', '.join(live.finalizers)}" if live.finalizers else ""
        raise ObjectError(
            wanted.key,
            Problem.TERMINATING,
            f"it is being deleted{waits}; it is created anew when it is gone",
            where=wanted.where,
        )


def _refuse_other_syncs(wanted: Wanted, who: Applicant, error: ApiError) -> None:
    """Between syncs nobody forces anything: the later one is told who was first."""
    held = conflicting_managers(error)
    if who.manager in held:
        raise ApiError(409, "Conflict", "an entry of ours is in the way", request=str(wanted.key)) from error
    for manager, fields in held.items():
        if manager.startswith(names.MANAGER_PREFIX):
            text = f"{_who_applies(manager)} sets {', '.join(sorted(fields))} to other values"
            raise ObjectError(wanted.key, Problem.CONFLICT, text, where=wanted.where) from error


def _who_applies(manager: str) -> str:
    """Whose field manager it is, in words."""
    sync = manager.removeprefix(names.MANAGER_PREFIX)
    return f"InfrahubSync {sync}" if sync else "a VidraResource without a sync"


def _may_adopt(wanted: Wanted, obj: Obj, who: Applicant) -> bool:
    live = (obj["metadata"].get("annotations") or {}).get(names.ADOPT_ANNOTATION)
    return who.adopt or names.ENABLED in (live, wanted.annotation(names.ADOPT_ANNOTATION))


def _is_originals(obj: Obj) -> bool:
    """Whether the original operator made it: its label and its annotation together."""
    metadata = obj["metadata"]
    return (metadata.get("labels") or {}).get(names.MANAGED_BY_LABEL) == names.MANAGED_BY_VALUE and (
        metadata.get("annotations") or {}
    ).get(names.ORIGINAL_MANAGED_BY_ANNOTATION) == names.MANAGED_BY_VALUE


def _managers_of(obj: Obj) -> str:
    found = sorted({str(entry.get("manager")) for entry in obj["metadata"].get("managedFields") or ()})
    return f"managed by {', '.join(found)}" if found else "managed by nobody known"

"""Reconciles a VidraResource: its manifest's objects are in its destination, and nothing of its former ones is.

    read the manifest -> look its kinds up -> write the inventory's union -> apply, stage by stage -> prune -> status

The union of what was and what will be stands in the status before the first object is written, so that whatever
happens next, a later pass knows all that may exist. What is already as wanted costs no request at all.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NoReturn

import structlog
from pydantic import ValidationError

from vidra.api import names
from vidra.api.common import DeletionPolicy
from vidra.api.conditions import timestamp
from vidra.api.durations import parse_duration
from vidra.api.states import Reason, State
from vidra.api.vidraresource import HISTORY_MAX, VidraResourceSpec
from vidra.clusters.cluster import DestinationUnknown
from vidra.controllers import reporting
from vidra.controllers.kinds import RESOURCES, is_deleting, manager_of, owning_sync
from vidra.controllers.places import Place, Places
from vidra.controllers.reporting import Report
from vidra.deploy.apply import Applicant
from vidra.deploy.compress import BadCompressedManifest, ManifestTooLarge, decompress_manifest
from vidra.deploy.errors import ObjectError, Problem, summary
from vidra.deploy.inventory import Inventory, read_inventory, union, write_inventory
from vidra.deploy.manifest import ManifestObject, read_manifest
from vidra.deploy.problems import ManifestError
from vidra.deploy.prune import Leaver, Removal
from vidra.deploy.resolve import Resolved, resolve
from vidra.deploy.rollout import Outcome, apply_all, prune_all
from vidra.kube.client import Client, Obj, PatchType
from vidra.kube.errors import ApiError, KubeError
from vidra.runtime.controller import Result, RetryableError, RetryAfter, TerminalError
from vidra.runtime.digest import json_digest
from vidra.runtime.finalizers import add_finalizer_patch, has_finalizer, remove_finalizer_patch
from vidra.runtime.ownwrites import OwnWrites
from vidra.runtime.status import Outcome as Written
from vidra.runtime.status import StatusClient
from vidra.runtime.store import Key, Store

log = structlog.get_logger(__name__)

STATE_FIELD = "DeployState"
#: Seconds until a look at objects that are going, where no watch says when they are gone.
STILL_GOING = 5.0
#: Seconds until a resource tries again whose sync is writing its siblings just now.
SETTLING = 1.0
#: Characters from which a manifest is read in a thread, so that the event loop isn't held up.
READ_IN_THREAD = 200_000
#: Intervals are stretched by up to this share, so that what began together doesn't stay together.
SPREAD = 0.1


@dataclass(frozen=True, slots=True)
class _Pass:
    """One reconcile of one resource: what it was read as, and where it goes."""

    obj: Obj
    spec: VidraResourceSpec
    place: Place
    inventory: Inventory
    manager: str

    @property
    def name(self) -> str:
        name: str = self.obj["metadata"]["name"]
        return name


class ResourceReconciler:
    """``interval`` gives the seconds between two checks where a resource names none; 0: none."""

    def __init__(
        self,
        *,
        client: Client,
        statuses: StatusClient,
        resources: Store[Obj],
        syncs: Store[Obj],
        places: Places,
        own_writes: OwnWrites[str],
        interval: Callable[[], float],
    ) -> None:
        self._client = client
        self._statuses = statuses
        self._resources = resources
        self._syncs = syncs
        self._places = places
        self._own_writes = own_writes
        self._interval = interval

    async def reconcile(self, name: str) -> Result:
        """One pass. Raises the controller's errors, after the status says the same."""
        key = Key("", name)
        obj = self._resources.get(key)
        self._own_writes.check(name, self._resources.resource_version(key))
        if obj is None:
            for place in self._places.all():
                place.ownership.forget(name)
            return Result()
        try:
            spec = VidraResourceSpec.model_validate(obj.get("spec") or {})
        except ValidationError as error:
            text = "; ".join(f"spec.{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
            return await self._fail(obj, Report(State.FAILED, Reason.INVALID_SPEC, text, will_retry=False))
        if is_deleting(obj):
            return await self._delete(obj, spec)
        if spec.suspend:
            return await self._suspended(obj)
        if spec.unsupported():
            text = f"not supported by this version: {', '.join(spec.unsupported())}"
            return await self._fail(obj, Report(State.FAILED, Reason.UNSUPPORTED, text, will_retry=False))
        try:
            place = self._places.get(spec.destination.server)
        except DestinationUnknown as error:
            return await self._fail(obj, Report(State.FAILED, Reason.DESTINATION_UNKNOWN, str(error), will_retry=False))
        obj = await self._with_finalizer(obj)
        inventory = read_inventory((obj.get("status") or {}).get("managedResources") or ())
        return await self._deploy(_Pass(obj, spec, place, inventory, manager_of(obj)))

    # --- deploying

    async def _deploy(self, run: _Pass) -> Result:
        try:
            text = _manifest_text(run.spec)
            objects = await _read(text)
            if not objects and not run.spec.allow_empty:
                kept = (
                    f"the {len(run.inventory)} objects of the last one stay" if run.inventory else "nothing is deployed"
                )
                message = f"the manifest has no objects; {kept}. Set spec.allowEmpty if that is meant"
                return await self._fail(run.obj, Report(State.FAILED, Reason.MANIFEST_EMPTY, message, will_retry=False))
            resolved = await resolve(run.place.to, objects, run.spec.destination.namespace)
        except (ManifestError, BadCompressedManifest, ManifestTooLarge) as error:
            report = Report(State.FAILED, Reason.MANIFEST_INVALID, str(error), will_retry=False)
            return await self._fail(run.obj, report)
        except KubeError as error:
            return await self._fail(run.obj, self._unreachable(run.obj, error), cause=error)
        await run.place.to.live.watch({wanted.resource for wanted in resolved.wanted.values()})
        place, wanted = run.place, resolved.keys()
        place.ownership.declare(run.name, run.manager, resolved.digests())
        both = union(run.inventory, wanted)
        run = await self._write_ahead(run, both)
        who = Applicant(run.name, run.manager, adopt=run.spec.adopt, force=run.spec.force)
        outcome = await apply_all(place.to, place.applier, resolved, both, who)
        declared = {key for key, _ in wanted}
        stays = {error.key for error in outcome.errors}
        leaving = [entry for key, entry in run.inventory.items() if key not in declared and key not in stays]
        if leaving and run.spec.prune and not outcome.errors:
            await prune_all(place.pruner, leaving, outcome, Leaver(run.name, run.manager))
        return await self._finish(run, resolved, outcome, _digest(text))

    async def _write_ahead(self, run: _Pass, both: Inventory) -> _Pass:
        """Writes Running and the union, where something is about to happen that a crash must not hide."""
        status = run.obj.get("status") or {}
        generation = run.obj["metadata"].get("generation") or 0
        grown = [(key, entry.version) for key, entry in both.items()] != [
            (key, entry.version) for key, entry in run.inventory.items()
        ]
        if not grown and status.get("observedGeneration") == generation and status.get(STATE_FIELD) == State.SUCCEEDED:
            return run
        changes = {"managedResources": write_inventory(both), "destination": run.spec.destination.wire() or None}
        report = reporting.running(f"applying {len(both)} objects")
        obj = await self._write(run.obj, report, changes)
        return replace(run, obj=obj)

    async def _finish(self, run: _Pass, resolved: Resolved, outcome: Outcome, digest: str) -> Result:
        changes: dict[str, Any] = {"managedResources": write_inventory(outcome.inventory)}
        if outcome.errors:
            return await self._failed_objects(run, outcome, changes)
        warnings = outcome.warnings
        message = f"{len(resolved.wanted)} objects as wanted"
        if outcome.pending:
            pending = outcome.pending[0]
            message += f"; {len(outcome.pending)} still going: {pending.key} is {pending.note}"
        if warnings:
            message += f"; the server warned: {warnings[0]}" + (
                f" and {len(warnings) - 1} more" if warnings[1:] else ""
            )
        _log_outcome(outcome)
        interval = self._seconds(run.spec.interval, self._interval())
        if outcome.changed or self._is_due(run.obj, interval, digest):
            changes["manifestDigest"] = digest
            changes["history"] = _history(run.obj, digest, len(resolved.wanted))
            await self._write(run.obj, reporting.succeeded(message), changes)
        if outcome.pending:
            return Result(requeue_after=STILL_GOING)
        return Result(requeue_after=interval * (1 + SPREAD * random.random())) if interval else Result()  # noqa: S311

    def _is_due(self, obj: Obj, interval: float, digest: str) -> bool:
        """Whether a pass that changed nothing is worth a status write: once an interval, or when it says more."""
        status = obj.get("status") or {}
        if (
            status.get(STATE_FIELD) != State.SUCCEEDED
            or status.get("observedGeneration") != obj["metadata"].get("generation")
            or status.get("manifestDigest") != digest
            or reporting.is_unanswered(obj)
        ):
            return True
        age = (datetime.now(UTC) - datetime.fromisoformat(status["lastSyncTime"])).total_seconds()
        return bool(interval) and age >= interval / 2

    async def _failed_objects(self, run: _Pass, outcome: Outcome, changes: dict[str, Any]) -> Result:
        errors = outcome.errors
        if all(error.problem is Problem.SIBLING_CONFLICT for error in errors) and self._sync_is_writing(run.obj):
            raise RetryAfter(SETTLING, f"waits for its siblings: {errors[0]}")
        text = summary(errors)
        if all(error.problem is Problem.UNREACHABLE for error in errors):
            report = self._unreachable(run.obj, text)
        else:
            conflict = all(e.problem in (Problem.CONFLICT, Problem.SIBLING_CONFLICT) for e in errors)
            prune = all(e.problem is Problem.PRUNE for e in errors)
            reason = Reason.CONFLICT if conflict else Reason.PRUNE_FAILED if prune else Reason.APPLY_FAILED
            report = Report(State.FAILED, reason, text)
        waits = [error.retry_after for error in errors if error.retry_after is not None]
        return await self._fail(
            run.obj,
            report,
            changes=changes,
            retryable=any(error.retryable for error in errors),
            retry_after=max(waits, default=None),
            interval=self._seconds(run.spec.retry_interval, 0),
        )

    def _sync_is_writing(self, obj: Obj) -> bool:
        owner = owning_sync(obj)
        sync = None if owner is None else self._syncs.get(Key("", owner[0]))
        return sync is not None and (sync.get("status") or {}).get("syncState") == State.RUNNING

    # --- going away

    async def _delete(self, obj: Obj, spec: VidraResourceSpec) -> Result:
        if not has_finalizer(obj, names.RESOURCE_FINALIZER):
            return Result()
        name: str = obj["metadata"]["name"]
        inventory = read_inventory((obj.get("status") or {}).get("managedResources") or ())
        orphan = spec.deletion_policy is DeletionPolicy.ORPHAN
        left = inventory
        try:
            place: Place | None = self._places.get(spec.destination.server)
        except DestinationUnknown as error:
            if inventory and not orphan:
                text = f"{error}; to delete this without its objects set spec.deletionPolicy to Orphan"
                return await self._fail(obj, Report(State.FAILED, Reason.DESTINATION_UNKNOWN, text, will_retry=False))
            place, left = None, {}
        if place is not None and inventory:
            outcome = Outcome(dict(inventory))
            place.ownership.declare(name, manager_of(obj), {})
            place.ownership.inventory(
                name, manager_of(obj), inventory, version=obj["metadata"].get("resourceVersion") or ""
            )
            await prune_all(place.pruner, inventory.values(), outcome, Leaver(name, manager_of(obj), orphan=orphan))
            _log_outcome(outcome)
            left = outcome.inventory
            changes = {"managedResources": write_inventory(left)}
            if outcome.errors:
                report = Report(State.FAILED, Reason.PRUNE_FAILED, summary(outcome.errors))
                return await self._fail(obj, report, changes=changes)
            if left:
                pending = outcome.pending[0]
                message = f"{len(left)} objects still going: {pending.key} is {pending.note}"
                await self._write(obj, reporting.running(message, reason=Reason.DELETING), changes)
                return Result(requeue_after=STILL_GOING)
        await self._remove_finalizer(obj)
        for known in self._places.all():
            known.ownership.forget(name)
        return Result()

    async def _with_finalizer(self, obj: Obj) -> Obj:
        """Nothing is applied before the finalizer is stored: a deletion in between would leave it behind."""
        patch = add_finalizer_patch(obj, names.RESOURCE_FINALIZER)
        if not patch:
            return obj
        answer = await self._client.patch(RESOURCES, obj["metadata"]["name"], patch, PatchType.JSON)
        self._own_writes.wrote(obj["metadata"]["name"], answer["metadata"]["resourceVersion"])
        return answer

    async def _remove_finalizer(self, obj: Obj) -> None:
        patch = remove_finalizer_patch(obj, names.RESOURCE_FINALIZER)
        try:
            answer = await self._client.patch(RESOURCES, obj["metadata"]["name"], patch, PatchType.JSON)
        except ApiError as error:
            if error.not_found:
                return
            if error.invalid:
                raise RetryableError("the finalizers have changed meanwhile") from error
            raise
        if has_finalizer(answer, names.RESOURCE_FINALIZER) or answer["metadata"].get("finalizers"):
            self._own_writes.wrote(obj["metadata"]["name"], answer["metadata"]["resourceVersion"])

    # --- telling

    async def _suspended(self, obj: Obj) -> Result:
        """What is deployed stays, and so does what is said of it; one that never ran says why it doesn't."""
        if not (obj.get("status") or {}).get("observedGeneration"):
            report = Report(State.PENDING, Reason.SUSPENDED, "spec.suspend is true")
            await self._write(obj, report, {})
        return Result()

    async def _fail(
        self,
        obj: Obj,
        report: Report,
        *,
        changes: dict[str, Any] | None = None,
        cause: KubeError | None = None,
        retryable: bool = True,
        retry_after: float | None = None,
        interval: float = 0,
    ) -> NoReturn:
        """Writes the failure, then raises what makes the controller try again at the right time."""
        await self._write(obj, report, changes or {})
        if not report.will_retry:
            raise TerminalError(report.message) from cause
        if interval:
            raise RetryAfter(interval, report.message) from cause
        if not retryable:
            # Nothing passes by itself here, and nothing tells us when somebody changed it: look once an interval.
            pause = self._interval() or 600.0
            raise RetryAfter(pause, report.message) from cause
        if retry_after is not None:
            raise RetryAfter(retry_after * (1 + SPREAD * random.random()), report.message) from cause  # noqa: S311
        raise RetryableError(report.message) from cause

    def _unreachable(self, obj: Obj, error: KubeError | str) -> Report:
        """The cluster can't be reached, or asked: the last good state stands, where there is one."""
        state = State.STALE if reporting.has_succeeded(obj) else State.FAILED
        refused = isinstance(error, ApiError)
        return Report(state, Reason.API_ERROR if refused else Reason.CLUSTER_UNREACHABLE, str(error))

    async def _write(self, obj: Obj, report: Report, changes: dict[str, Any]) -> Obj:
        """Writes the status and returns the object as it is now."""
        metadata = obj["metadata"]
        status = reporting.next_status(obj, report, state_field=STATE_FIELD, changes=changes)
        answer = await self._statuses.patch(
            RESOURCES,
            metadata["name"],
            None,
            status,
            obj.get("status"),
            uid=metadata["uid"],
            resource_version=metadata["resourceVersion"],
            shrink=_shrink,
        )
        if answer.outcome is Written.GONE:
            raise RetryableError("the resource was deleted meanwhile")
        if answer.object is None:
            return obj
        written = answer.object["metadata"]
        self._own_writes.wrote(written["name"], written["resourceVersion"])
        for place in self._places.all():
            entries = read_inventory((answer.object.get("status") or {}).get("managedResources") or ())
            place.ownership.inventory(
                written["name"], manager_of(answer.object), entries, version=written["resourceVersion"]
            )
        return answer.object

    @staticmethod
    def _seconds(text: str | None, default: float) -> float:
        return default if text is None else parse_duration(text)


def _manifest_text(spec: VidraResourceSpec) -> str:
    """The manifest, whichever field holds it. Raises BadCompressedManifest, ManifestTooLarge."""
    if spec.compressed_manifest:
        return decompress_manifest(spec.compressed_manifest)
    return spec.manifest


async def _read(text: str) -> tuple[ManifestObject, ...]:
    if len(text) < READ_IN_THREAD:
        return read_manifest(text)
    return await asyncio.to_thread(read_manifest, text)


def _digest(text: str) -> str:
    return json_digest(text)


def _history(obj: Obj, digest: str, objects: int) -> list[dict[str, Any]]:
    """The manifests that succeeded, the newest first; the same one again is no news."""
    entries = list((obj.get("status") or {}).get("history") or ())
    if entries and entries[0].get("manifestDigest") == digest:
        return entries
    return [{"manifestDigest": digest, "time": timestamp(), "objects": objects}, *entries][:HISTORY_MAX]


def _shrink(status: Any, limit: int) -> dict[str, Any]:
    """What a status of thousands of objects can do without: history, then the objects' messages and seals."""
    smaller = {name: value for name, value in status.items() if name != "history"}
    smaller["managedResources"] = [
        {name: value for name, value in item.items() if name not in ("message", "seal")}
        for item in status.get("managedResources") or ()
    ]
    return smaller


def _log_outcome(outcome: Outcome) -> None:
    """One line for each object that something happened to."""
    for applied in outcome.applied:
        if applied.action != "unchanged":
            log.info("object applied", object=str(applied.entry.key), action=applied.action.value)
    for removed in outcome.removed:
        if removed.removal is not Removal.GONE:
            log.info("object let go", object=str(removed.key), action=removed.removal.value, note=removed.note or None)
    for error in outcome.errors:
        _log_error(error)


def _log_error(error: ObjectError) -> None:
    log.warning("object failed", object=str(error.key), problem=error.problem.value, error=error.message)

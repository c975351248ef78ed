"""Reconciles a VidraResource: its manifest's objects are in its destination, and nothing of its former ones is.

    read the manifest -> look its kinds up -> write the inventory's union -> apply, stage by stage -> prune -> status

The union of what was and what will be stands in the status before the first object is written, so that whatever
happens next, a later pass knows all that may exist. What is already as wanted costs no request at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from pydantic import ValidationError

from vidra.api.common import DriftPolicy
from vidra.api.durations import seconds
from vidra.api.states import Reason, State
from vidra.api.vidraresource import VidraResourceSpec
from vidra.clusters.secrets import DestinationUnknown
from vidra.controllers import reporting, rollout_status
from vidra.controllers.departure import STILL_GOING, TURNED_AWAY, Departure
from vidra.controllers.kinds import is_deleting, manager_of, owning_sync
from vidra.controllers.places import Place, Places
from vidra.controllers.reporting import LOOK_AGAIN, Report
from vidra.controllers.subjects import Subjects
from vidra.controllers.whereabouts import read_whereabouts, write_whereabouts
from vidra.deploy.compress import BadCompressedManifest, ManifestTooLarge, decompress_manifest
from vidra.deploy.errors import Problem
from vidra.deploy.inventory import Inventory, union
from vidra.deploy.manifest import ManifestObject, read_manifest
from vidra.deploy.problems import ManifestError
from vidra.deploy.resolve import Resolved, resolve
from vidra.deploy.rollout import Outcome, apply_all, prune_all
from vidra.deploy.wanted import Applicant
from vidra.kube.client import Obj
from vidra.kube.errors import ApiError, ConfigError, KubeError
from vidra.runtime.bulkhead import Full
from vidra.runtime.controller import Result, RetryAfter
from vidra.runtime.digest import json_digest
from vidra.runtime.status import StatusTooLarge
from vidra.runtime.store import Key, Store

STATE_FIELD = "DeployState"
#: Seconds until a resource tries again whose sync is writing its siblings just now.
SETTLING = 1.0
#: Characters from which a manifest is read in a thread, so that the event loop isn't held up.
READ_IN_THREAD = 200_000
#: Intervals are stretched by up to this share, so that what began together doesn't stay together.
SPREAD = 0.1


@dataclass(frozen=True, slots=True)
class Pass:
    """One reconcile of one resource: what it was read as, where it goes, and what it is responsible for there;
    ``former`` are the inventories of clusters it has left."""

    obj: Obj
    spec: VidraResourceSpec
    place: Place
    inventory: Inventory
    former: dict[str, Inventory]
    manager: str

    @property
    def name(self) -> str:
        name: str = self.obj["metadata"]["name"]
        return name

    def whereabouts(self, inventory: Inventory) -> dict[str, Any]:
        """The status fields that say where the objects are, with this inventory at the present place."""
        inventories = {self.place.to.server: inventory, **self.former}
        return write_whereabouts(self.spec.destination, inventories)


class ResourceReconciler:
    """``interval`` gives the seconds between two checks where a resource names none; 0: none."""

    def __init__(self, subjects: Subjects, *, syncs: Store[Obj], places: Places, interval: Callable[[], float]) -> None:
        self._subjects = subjects
        self._syncs = syncs
        self._places = places
        self._departure = Departure(subjects, places, syncs)
        self._interval = interval

    async def reconcile(self, name: str) -> Result:
        """One pass. Raises the controller's errors, after the status says the same."""
        return await self._subjects.told(name, self._reconcile)

    async def _reconcile(self, name: str) -> Result:
        obj = self._subjects.current(name)
        if obj is None:
            self._places.forget(name)
            return Result()
        if is_deleting(obj):
            return await self._departure.of_resource(obj)
        try:
            spec = VidraResourceSpec.model_validate(obj.get("spec") or {})
        except ValidationError as error:
            return await self._subjects.fail(obj, reporting.invalid(error))
        if spec.suspend:
            return await self._subjects.suspended(obj)
        if spec.unsupported():
            return await self._subjects.fail(obj, reporting.unsupported(spec.unsupported()))
        try:
            place = await self._places.open(spec.destination.server, spec.service_account_name)
        except (DestinationUnknown, ConfigError) as error:
            return await self._fail_to_open(obj, error)
        try:
            with place.enter(name):
                obj = await self._subjects.keep(obj)
                former = read_whereabouts(obj)
                inventory = former.pop(place.to.server, {})
                return await self._deploy(Pass(obj, spec, place, inventory, former, manager_of(obj)))
        except Full:
            return Result(requeue_after=TURNED_AWAY)

    async def _fail_to_open(self, obj: Obj, error: Exception) -> NoReturn:
        """Whoever mends it, by a Secret, wakes the resource; the interval is for what nobody tells us of."""
        state = State.STALE if reporting.has_succeeded(obj) else State.FAILED
        report = Report(state, Reason.DESTINATION_UNKNOWN, str(error))
        await self._subjects.fail(obj, report, pause=self._interval() or LOOK_AGAIN)

    # --- deploying

    async def _deploy(self, run: Pass) -> Result:
        try:
            status = run.obj.get("status") or {}
            text = _manifest_text(run.spec)
            objects = await _read(text)
            if not objects and not run.spec.allow_empty:
                return await self._subjects.fail(run.obj, rollout_status.empty(run.inventory))
            resolved = await resolve(run.place.to, objects, run.spec.destination.namespace, run.spec.ignore)
        except ValueError as error:
            report = Report(State.FAILED, Reason.INVALID_SPEC, f"spec.ignore: {error}", will_retry=False)
            return await self._subjects.fail(run.obj, report)
        except (ManifestError, BadCompressedManifest, ManifestTooLarge) as error:
            report = Report(State.FAILED, Reason.MANIFEST_INVALID, str(error), will_retry=False)
            return await self._subjects.fail(run.obj, report)
        except KubeError as error:
            return await self._subjects.fail(run.obj, _unreachable(run.obj, error))
        run.place.ownership.declare(run.name, run.manager, resolved.digests())
        await run.place.to.live.watch({wanted.resource for wanted in resolved.wanted.values()})
        both = union(run.inventory, resolved.versions())
        try:
            run = await self._write_ahead(run, both)
        except StatusTooLarge as error:
            text = f"{len(both)} objects are too many for one resource: {error}"
            report = Report(State.FAILED, Reason.STATUS_TOO_LARGE, text, will_retry=False)
            return await self._subjects.fail(run.obj, report)
        digest = json_digest(text)
        who = Applicant(
            run.name,
            run.manager,
            adopt=run.spec.adopt,
            force=run.spec.force,
            # Drift is what happens to a manifest that was applied; a new one is applied whatever the policy.
            detect=run.spec.drift_policy is DriftPolicy.DETECT and status.get("manifestDigest") == digest,
        )
        outcome = await apply_all(run.place.to, run.place.applier, resolved, both, who)
        await self._prune(run, resolved, outcome)
        return await self._finish(run, resolved, outcome, digest)

    async def _write_ahead(self, run: Pass, both: Inventory) -> Pass:
        """Writes Running and the union, where something is about to happen that a crash must not hide."""
        known = [(key, entry.version) for key, entry in run.inventory.items()]
        grown = [(key, entry.version) for key, entry in both.items()] != known
        seen = (run.obj.get("status") or {}).get("observedGeneration") == run.obj["metadata"].get("generation")
        if not grown and seen and self._subjects.state(run.obj) == State.SUCCEEDED:
            return run
        report = reporting.running(f"applying {len(both)} objects")
        return replace(run, obj=await self._subjects.write(run.obj, report, run.whereabouts(both)))

    async def _prune(self, run: Pass, resolved: Resolved, outcome: Outcome) -> None:
        """Lets go of what left the manifest, and of all that is at former places; of nothing while anything failed
        (see :mod:`vidra.deploy.rollout`)."""
        if not run.spec.prune or outcome.errors:
            return
        declared = resolved.versions()
        leaving = [entry for key, entry in run.inventory.items() if key not in declared]
        await prune_all(run.place.pruner, leaving, outcome, self._departure.leaver(run.obj))
        for server, inventory in list(run.former.items()):
            account = run.spec.service_account_name
            left = await self._departure.from_cluster(run.obj, server, inventory, service_account=account)
            run.former[server] = left.inventory
            outcome.errors += left.errors
            outcome.removed += left.removed

    async def _finish(self, run: Pass, resolved: Resolved, outcome: Outcome, digest: str) -> Result:
        rollout_status.log_outcome(outcome)
        changes = run.whereabouts(outcome.inventory)
        interval = seconds(run.spec.interval, self._interval())
        if outcome.errors:
            if _only_siblings(outcome) and self._sync_is_writing(run.obj):
                raise RetryAfter(SETTLING, f"waits for its siblings: {outcome.errors[0]}")
            report = rollout_status.failure(outcome.errors, stale=reporting.has_succeeded(run.obj))
            pause = rollout_status.pause(outcome.errors, seconds(run.spec.retry_interval, 0), self._interval())
            return await self._subjects.fail(run.obj, report, changes, pause=pause)
        told = outcome.changed or outcome.inventory != run.inventory
        if told or rollout_status.is_due(run.obj, interval, digest, self._subjects.state(run.obj)):
            count = len(resolved.wanted)
            changes |= {"manifestDigest": digest, "history": rollout_status.history(run.obj, digest, count)}
            await self._subjects.write(run.obj, reporting.succeeded(rollout_status.success(count, outcome)), changes)
        if outcome.pending:
            return Result(requeue_after=STILL_GOING)
        return reporting.again_after(interval, SPREAD)

    def _sync_is_writing(self, obj: Obj) -> bool:
        """While a sync writes its resources, siblings may disagree for a moment: that is no failure yet."""
        owner = owning_sync(obj)
        sync = None if owner is None else self._syncs.get(Key("", owner[0]))
        return sync is not None and (sync.get("status") or {}).get("syncState") == State.RUNNING


def _manifest_text(spec: VidraResourceSpec) -> str:
    """The manifest, whichever field holds it. Raises BadCompressedManifest, ManifestTooLarge."""
    if spec.compressed_manifest:
        return decompress_manifest(spec.compressed_manifest)
    return spec.manifest


async def _read(text: str) -> tuple[ManifestObject, ...]:
    if len(text) < READ_IN_THREAD:
        return read_manifest(text)
    return await asyncio.to_thread(read_manifest, text)


def _unreachable(obj: Obj, error: KubeError) -> Report:
    """The cluster can't be reached, or asked: the last good state stands, where there is one."""
    state = State.STALE if reporting.has_succeeded(obj) else State.FAILED
    refused = isinstance(error, ApiError)
    return Report(state, Reason.API_ERROR if refused else Reason.CLUSTER_UNREACHABLE, str(error))


def _only_siblings(outcome: Outcome) -> bool:
    return all(error.problem is Problem.SIBLING_CONFLICT for error in outcome.errors)

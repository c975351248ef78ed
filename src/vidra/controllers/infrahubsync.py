"""Reconciles an InfrahubSync: there is one VidraResource for each artifact that Infrahub has, with its content.

    credentials -> query -> compare with what is there -> download what changed -> write resources -> delete -> status

What Infrahub can't tell at the moment changes nothing: only a whole answer to the query says that an artifact is gone,
and an empty one must be allowed to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from pydantic import ValidationError

from vidra.api.common import DeletionPolicy, LeavingSpec
from vidra.api.durations import seconds
from vidra.api.infrahubsync import InfrahubSyncSpec
from vidra.api.states import Reason, State
from vidra.controllers import delivery, reporting
from vidra.controllers.credentials import CredentialsError, find_credentials
from vidra.controllers.delivery import Delivery
from vidra.controllers.kinds import is_deleting
from vidra.controllers.reporting import LOOK_AGAIN, Report
from vidra.controllers.resource_writer import ResourceWriter, Source
from vidra.controllers.subjects import Subjects
from vidra.infrahub import ClientPool, InfrahubError, pin
from vidra.kube.client import Obj
from vidra.runtime.bulkhead import Bulkhead, Full
from vidra.runtime.controller import Result
from vidra.runtime.store import Store

STATE_FIELD = "syncState"
#: Seconds until a look at resources that are going; their deletion wakes the sync earlier.
STILL_GOING = 10.0
#: Seconds after which one who was turned away from a busy server comes back unless woken before.
TURNED_AWAY = 30.0
#: Intervals are stretched by up to this share, so that syncs don't ask all at once for ever.
SPREAD = 0.05
#: Kubernetes' own finalizer for `kubectl delete --cascade=orphan`.
ORPHAN = "orphan"


class SyncReconciler:
    """``interval`` gives the seconds between two queries where a sync names none (0: none); ``query_name`` the stored
    query where a sync names none ("": the built-in one). ``bulkhead`` makes what keeps one Infrahub server that hangs
    from holding all workers."""

    def __init__(
        self,
        subjects: Subjects,
        *,
        resources: Subjects,
        writer: ResourceWriter,
        secrets: Store[Obj],
        pool: ClientPool,
        own_namespace: str,
        bulkhead: Callable[[], Bulkhead],
        interval: Callable[[], float],
        query_name: Callable[[], str],
    ) -> None:
        self._subjects = subjects
        self._resources = resources
        self._writer = writer
        self._secrets = secrets
        self._pool = pool
        self._own_namespace = own_namespace
        self._new_bulkhead = bulkhead
        self._bulkheads: dict[str, Bulkhead] = {}
        self._interval = interval
        self._query_name = query_name

    async def reconcile(self, name: str) -> Result:
        """One pass. Raises the controller's errors, after the status says the same."""
        return await self._subjects.told(name, self._reconcile)

    async def _reconcile(self, name: str) -> Result:
        obj = self._subjects.current(name)
        if obj is None:
            return Result()
        for resource in delivery.own_resources(obj, self._resources.store):
            self._resources.check(resource["metadata"]["name"])
        if is_deleting(obj):
            return await self._delete(obj)
        try:
            spec = InfrahubSyncSpec.model_validate(obj.get("spec") or {})
        except ValidationError as error:
            return await self._subjects.fail(obj, reporting.invalid(error))
        if spec.suspend:
            return await self._subjects.suspended(obj)
        if spec.unsupported():
            return await self._subjects.fail(obj, reporting.unsupported(spec.unsupported()))
        server = spec.source.infrahub_api_url.rstrip("/").lower()
        bulkhead = self._bulkheads.setdefault(server, self._new_bulkhead())
        try:
            with bulkhead.enter(name):
                return await self._sync(await self._subjects.keep(obj), spec)
        except Full:
            return Result(requeue_after=TURNED_AWAY)

    # --- syncing

    async def _sync(self, obj: Obj, spec: InfrahubSyncSpec) -> Result:
        source = spec.source
        try:
            # One instant for the whole pass: a relative date moves on, and query and downloads must agree.
            at = pin(source.target_date, datetime.now(UTC))
            credentials = find_credentials(spec, self._secrets, self._own_namespace)
            async with self._pool.client(source.infrahub_api_url, credentials) as infrahub:
                query = source.query_name or self._query_name() or None
                refs = await infrahub.list_artifacts(
                    source.artefact_name, branch=source.target_branch, at=at, query=query
                )
                found = delivery.compare(obj, refs, self._resources.store)
                if found.gone and not refs and not spec.allow_empty:
                    return await self._refuse_empty(obj, spec, found)
                obj = await self._announce(obj, found)
                origin = Source(infrahub, source.target_branch, at)
                errors = await self._writer.deliver(obj, spec, found.items, origin)
        except CredentialsError as error:
            state = State.STALE if reporting.has_succeeded(obj) else State.FAILED
            pause = self._pause(spec) or LOOK_AGAIN
            return await self._subjects.fail(obj, Report(state, error.reason, str(error)), pause=pause)
        except InfrahubError as error:
            return await self._source_failed(obj, spec, error)
        if spec.prune:
            errors += await self._writer.remove(found.gone)
        return await self._finish(obj, spec, found, errors)

    async def _announce(self, obj: Obj, found: Delivery) -> Obj:
        """Writes Running where there is something to do; a look that finds nothing new is worth no write."""
        fetch = sum(item.stale for item in found.items)
        idle = not fetch and not found.gone and self._subjects.state(obj) == State.SUCCEEDED
        if idle and (obj.get("status") or {}).get("observedGeneration") == obj["metadata"].get("generation"):
            return obj
        message = f"{len(found.items)} artifacts, {fetch} to fetch, {len(found.gone)} gone"
        return await self._subjects.write(obj, reporting.running(message))

    async def _finish(self, obj: Obj, spec: InfrahubSyncSpec, found: Delivery, errors: Sequence[str]) -> Result:
        changes = found.status()
        if errors:
            more = f"; and {len(errors) - 1} more" if errors[1:] else ""
            report = Report(State.FAILED, Reason.ARTIFACT_FAILED, f"{errors[0]}{more}")
            return await self._subjects.fail(obj, report, changes, pause=seconds(spec.retry_interval, 0))
        await self._subjects.write(obj, reporting.succeeded(found.summary()), changes)
        return reporting.again_after(self._pause(spec), SPREAD)

    async def _refuse_empty(self, obj: Obj, spec: InfrahubSyncSpec, found: Delivery) -> Result:
        text = (
            f"Infrahub has no artifact named {spec.source.artefact_name!r} on branch {spec.source.target_branch!r}; "
            f"the {len(found.gone)} resources there are stay. Set spec.allowEmpty if that is meant"
        )
        state = State.STALE if reporting.has_succeeded(obj) else State.FAILED
        pause = self._pause(spec) or LOOK_AGAIN
        return await self._subjects.fail(obj, Report(state, Reason.EMPTY_ANSWER, text), pause=pause)

    async def _source_failed(self, obj: Obj, spec: InfrahubSyncSpec, error: InfrahubError) -> Result:
        stale = error.source_fault and reporting.has_succeeded(obj)
        report = Report(State.STALE if stale else State.FAILED, error.reason, error.message)
        # What isn't retryable brings the same answer until somebody changes something: the interval is soon enough.
        soon = error.retry_after or seconds(spec.retry_interval, 0)
        pause = soon if error.retryable else self._pause(spec) or LOOK_AGAIN
        return await self._subjects.fail(obj, report, pause=pause)

    def _pause(self, spec: InfrahubSyncSpec) -> float:
        """Seconds between two looks at Infrahub; 0: none but for a reason."""
        return seconds(spec.interval, self._interval())

    # --- going away

    async def _delete(self, obj: Obj) -> Result:
        """The resources go first, each with its objects; then the sync may."""
        if not self._subjects.is_kept(obj):
            return Result()
        spec = LeavingSpec.model_validate(obj.get("spec") or {})
        left = delivery.own_resources(obj, self._resources.store)
        if left and ORPHAN not in (obj["metadata"].get("finalizers") or ()):
            errors = await self._writer.remove(left, orphan=spec.deletion_policy is DeletionPolicy.ORPHAN)
            if errors:
                return await self._subjects.fail(obj, Report(State.FAILED, Reason.PRUNE_FAILED, errors[0]))
            message = f"{len(left)} resources still going"
            await self._subjects.write(obj, reporting.running(message, reason=Reason.DELETING))
            return Result(requeue_after=STILL_GOING)
        await self._subjects.release(obj)
        return Result()

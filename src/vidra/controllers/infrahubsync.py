"""Reconciles an InfrahubSync: there is one VidraResource for each artifact that Infrahub has, with its content.

    credentials -> query -> compare with what is there -> download what changed -> write resources -> delete -> status

What Infrahub can't tell at the moment changes nothing: only a whole answer to the query says that an artifact is gone,
and an empty one must be allowed to.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NoReturn

import structlog
from pydantic import ValidationError

from vidra.api import names
from vidra.api.common import DeletionPolicy
from vidra.api.durations import parse_duration
from vidra.api.infrahubsync import ARTIFACTS_MAX, InfrahubSyncSpec
from vidra.api.states import Reason, State
from vidra.controllers import delivery, reporting
from vidra.controllers.credentials import CredentialsError, find_credentials
from vidra.controllers.delivery import Delivery, Item
from vidra.controllers.kinds import RESOURCES, SYNCS, is_deleting
from vidra.controllers.reporting import Report
from vidra.deploy.compress import ManifestTooLarge
from vidra.infrahub import ArtifactRef, ClientPool, InfrahubClient, InfrahubError, pin
from vidra.infrahub.errors import ChecksumMismatch
from vidra.kube.client import Client, Obj, PatchType
from vidra.kube.errors import ApiError, KubeError
from vidra.runtime.controller import Result, RetryableError, RetryAfter, TerminalError
from vidra.runtime.finalizers import add_finalizer_patch, has_finalizer, remove_finalizer_patch
from vidra.runtime.ownwrites import OwnWrites
from vidra.runtime.status import Outcome as Written
from vidra.runtime.status import StatusClient
from vidra.runtime.store import Key, Store

log = structlog.get_logger(__name__)

STATE_FIELD = "syncState"
#: Resources of one sync that are written at once.
AT_ONCE = 16
#: Seconds until a look at resources that are going; their deletion wakes the sync earlier.
STILL_GOING = 10.0
#: Intervals are stretched by up to this share, so that syncs don't ask all at once for ever.
SPREAD = 0.05
#: Kubernetes' own finalizer for `kubectl delete --cascade=orphan`.
ORPHAN = "orphan"


class SyncReconciler:
    """``interval`` gives the seconds between two queries where a sync names none (0: none); ``query_name`` the stored
    query where a sync names none ("": the built-in one)."""

    def __init__(
        self,
        *,
        client: Client,
        statuses: StatusClient,
        syncs: Store[Obj],
        resources: Store[Obj],
        secrets: Store[Obj],
        pool: ClientPool,
        own_namespace: str,
        own_writes: OwnWrites[str],
        resource_writes: OwnWrites[str],
        interval: Callable[[], float],
        query_name: Callable[[], str],
    ) -> None:
        self._client = client
        self._statuses = statuses
        self._syncs = syncs
        self._resources = resources
        self._secrets = secrets
        self._pool = pool
        self._own_namespace = own_namespace
        self._own_writes = own_writes
        self._resource_writes = resource_writes
        self._interval = interval
        self._query_name = query_name

    async def reconcile(self, name: str) -> Result:
        """One pass. Raises the controller's errors, after the status says the same."""
        key = Key("", name)
        obj = self._syncs.get(key)
        self._own_writes.check(name, self._syncs.resource_version(key))
        if obj is None:
            return Result()
        for resource in delivery.own_resources(obj, self._resources):
            own = resource["metadata"]["name"]
            self._resource_writes.check(own, self._resources.resource_version(Key("", own)))
        try:
            spec = InfrahubSyncSpec.model_validate(obj.get("spec") or {})
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
        return await self._sync(await self._with_finalizer(obj), spec)

    # --- syncing

    async def _sync(self, obj: Obj, spec: InfrahubSyncSpec) -> Result:
        interval = self._seconds(spec.interval, self._interval())
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
                found = delivery.compare(obj, refs, self._resources)
                if found.gone and not refs and not spec.allow_empty:
                    return await self._refuse_empty(obj, spec, found, interval)
                obj = await self._announce(obj, spec, found)
                errors = await self._deliver(obj, spec, found, infrahub, at)
        except CredentialsError as error:
            state = State.STALE if reporting.has_succeeded(obj) else State.FAILED
            return await self._fail(obj, Report(state, error.reason, str(error)), pause=interval)
        except InfrahubError as error:
            return await self._source_failed(obj, spec, error, interval)
        return await self._finish(obj, spec, found, errors, interval)

    async def _announce(self, obj: Obj, spec: InfrahubSyncSpec, found: Delivery) -> Obj:
        """Writes Running where there is something to do; a look that finds nothing new is worth no write."""
        status = obj.get("status") or {}
        fetch = sum(item.stale for item in found.items)
        idle = not fetch and not found.gone and status.get(STATE_FIELD) == State.SUCCEEDED
        if idle and status.get("observedGeneration") == obj["metadata"].get("generation"):
            return obj
        message = f"{len(found.items)} artifacts, {fetch} to fetch, {len(found.gone)} gone"
        return await self._write(obj, reporting.running(message), {})

    async def _deliver(
        self, obj: Obj, spec: InfrahubSyncSpec, found: Delivery, infrahub: InfrahubClient, at: str | None
    ) -> list[str]:
        """Brings every resource up to date and deletes those whose artifact is gone. Returns what failed."""
        slots = asyncio.Semaphore(AT_ONCE)
        # A reference that a stale list holds is worth nothing; one new look is, before giving up.
        work = [item for item in found.items if item.stale or item.current is not None]

        async def one(item: Item) -> str | None:
            async with slots:
                try:
                    await self._deliver_one(obj, spec, item, infrahub, at)
                except (InfrahubError, KubeError, ManifestTooLarge) as error:
                    item.message = str(error)
                    log.warning("artifact failed", artifact=item.ref.id, error=str(error))
                    return f"artifact {item.ref.id}: {error}"
            return None

        async def remove(resource: Obj) -> str | None:
            async with slots:
                return await self._remove(resource)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(item)) for item in work]
            if spec.prune:
                tasks += [group.create_task(remove(resource)) for resource in found.gone]
        return [text for task in tasks if (text := task.result()) is not None]

    async def _deliver_one(
        self, obj: Obj, spec: InfrahubSyncSpec, item: Item, infrahub: InfrahubClient, at: str | None
    ) -> None:
        ref, branch = item.ref, spec.source.target_branch
        if item.stale:
            content = await self._download(ref, spec, infrahub, at, branch)
        else:
            assert item.current is not None
            content = delivery.content_of(item.current)
        wanted = delivery.resource_spec(spec, content)
        if item.current is None:
            item.current = await self._create(obj, ref, wanted)
            log.info("resource created", resource=item.name, artifact=ref.id, checksum=ref.checksum)
            return
        if not item.stale and ref.checksum is None:
            ref = _with_checksum(ref, item.current)
        patch = delivery.resource_patch(obj, ref, item.current, wanted)
        if patch:
            answer = await self._client.patch(RESOURCES, item.name, patch, PatchType.MERGE)
            self._resource_writes.wrote(item.name, answer["metadata"]["resourceVersion"])
            log.info("resource changed", resource=item.name, artifact=ref.id, checksum=ref.checksum)

    async def _download(
        self, ref: ArtifactRef, spec: InfrahubSyncSpec, infrahub: InfrahubClient, at: str | None, branch: str
    ) -> str:
        try:
            return await infrahub.download(ref, branch=branch, at=at)
        except ChecksumMismatch as error:
            # Rendered again between query and download: what the query says now is what the next pass gets.
            raise ChecksumMismatch("the download", f"{error.text}; it is fetched again in the next pass") from error

    async def _create(self, sync: Obj, ref: ArtifactRef, spec: dict[str, Any]) -> Obj:
        for name in dict.fromkeys(
            (
                delivery.free_name(sync, ref, self._resources),
                names.resource_name_of_sync(ref.id, sync["metadata"]["name"]),
            )
        ):
            try:
                answer = await self._client.create(RESOURCES, delivery.new_resource(sync, ref, name, spec))
            except ApiError as error:
                if not error.already_exists:
                    raise
                continue
            self._resource_writes.wrote(name, answer["metadata"]["resourceVersion"])
            return answer
        raise ApiError(409, "AlreadyExists", "both names for its resource are taken", request=f"artifact {ref.id}")

    async def _remove(self, resource: Obj) -> str | None:
        metadata = resource["metadata"]
        if is_deleting(resource):
            return None
        try:
            await self._client.delete(RESOURCES, metadata["name"], uid=metadata["uid"])
        except ApiError as error:
            if not (error.not_found or error.conflict):
                return f"resource {metadata['name']}: {error}"
        log.info("resource deleted", resource=metadata["name"], artifact=delivery.artifact_of(resource))
        return None

    async def _finish(
        self, obj: Obj, spec: InfrahubSyncSpec, found: Delivery, errors: Sequence[str], interval: float
    ) -> Result:
        changes = _artifacts_status(found)
        if errors:
            more = f"; and {len(errors) - 1} more" if errors[1:] else ""
            report = Report(State.FAILED, Reason.ARTIFACT_FAILED, f"{errors[0]}{more}")
            pause = self._seconds(spec.retry_interval, 0)
            return await self._fail(obj, report, changes=changes, pause=pause)
        remarks = [item for item in found.items if item.message]
        message = f"{len(found.items)} artifacts"
        if remarks:
            message += f", {len(remarks)} not ready: {remarks[0].ref.id}: {remarks[0].message}"
        await self._write(obj, reporting.succeeded(message), changes)
        return Result(requeue_after=interval * (1 + SPREAD * random.random())) if interval else Result()  # noqa: S311

    async def _refuse_empty(self, obj: Obj, spec: InfrahubSyncSpec, found: Delivery, interval: float) -> Result:
        text = (
            f"Infrahub has no artifact named {spec.source.artefact_name!r} on branch {spec.source.target_branch!r}; "
            f"the {len(found.gone)} resources there are stay. Set spec.allowEmpty if that is meant"
        )
        state = State.STALE if reporting.has_succeeded(obj) else State.FAILED
        return await self._fail(obj, Report(state, Reason.EMPTY_ANSWER, text), pause=interval)

    async def _source_failed(self, obj: Obj, spec: InfrahubSyncSpec, error: InfrahubError, interval: float) -> Result:
        stale = error.source_fault and reporting.has_succeeded(obj)
        report = Report(State.STALE if stale else State.FAILED, error.reason, error.message)
        if not error.retryable:
            # Asking again before the interval would bring the same answer.
            return await self._fail(obj, report, pause=interval)
        pause = error.retry_after or self._seconds(spec.retry_interval, 0)
        return await self._fail(obj, report, pause=pause)

    # --- going away

    async def _delete(self, obj: Obj, spec: InfrahubSyncSpec) -> Result:
        """The resources go first, each with its objects; then the sync may."""
        if not has_finalizer(obj, names.SYNC_FINALIZER):
            return Result()
        left = delivery.own_resources(obj, self._resources)
        if ORPHAN in (obj["metadata"].get("finalizers") or ()):
            left = []
        errors = []
        for resource in left:
            own = resource.get("spec") or {}
            if spec.deletion_policy is DeletionPolicy.ORPHAN and own.get("deletionPolicy") != DeletionPolicy.ORPHAN:
                patch = {"spec": {"deletionPolicy": DeletionPolicy.ORPHAN.value}}
                await self._client.patch(RESOURCES, resource["metadata"]["name"], patch, PatchType.MERGE)
            error = await self._remove(resource)
            if error is not None:
                errors.append(error)
        if errors:
            return await self._fail(obj, Report(State.FAILED, Reason.PRUNE_FAILED, errors[0]))
        if left:
            await self._write(obj, reporting.running(f"{len(left)} resources still going", reason=Reason.DELETING), {})
            return Result(requeue_after=STILL_GOING)
        try:
            await self._client.patch(
                SYNCS, obj["metadata"]["name"], remove_finalizer_patch(obj, names.SYNC_FINALIZER), PatchType.JSON
            )
        except ApiError as error:
            if error.invalid:
                raise RetryableError("the finalizers have changed meanwhile") from error
            if not error.not_found:
                raise
        return Result()

    async def _with_finalizer(self, obj: Obj) -> Obj:
        patch = add_finalizer_patch(obj, names.SYNC_FINALIZER)
        if not patch:
            return obj
        answer = await self._client.patch(SYNCS, obj["metadata"]["name"], patch, PatchType.JSON)
        self._own_writes.wrote(obj["metadata"]["name"], answer["metadata"]["resourceVersion"])
        return answer

    # --- telling

    async def _suspended(self, obj: Obj) -> Result:
        if not (obj.get("status") or {}).get("observedGeneration"):
            await self._write(obj, Report(State.PENDING, Reason.SUSPENDED, "spec.suspend is true"), {})
        return Result()

    async def _fail(
        self, obj: Obj, report: Report, *, changes: dict[str, Any] | None = None, pause: float = 0
    ) -> NoReturn:
        """Writes the failure, then raises what makes the controller try again: after ``pause`` seconds, or, without
        one, after the back-off."""
        await self._write(obj, report, changes or {})
        if not report.will_retry:
            raise TerminalError(report.message)
        if pause:
            raise RetryAfter(pause, report.message)
        raise RetryableError(report.message)

    async def _write(self, obj: Obj, report: Report, changes: dict[str, Any]) -> Obj:
        metadata = obj["metadata"]
        answer = await self._statuses.patch(
            SYNCS,
            metadata["name"],
            None,
            reporting.next_status(obj, report, state_field=STATE_FIELD, changes=changes),
            obj.get("status"),
            uid=metadata["uid"],
            resource_version=metadata["resourceVersion"],
        )
        if answer.outcome is Written.GONE:
            raise RetryableError("the sync was deleted meanwhile")
        if answer.object is None:
            return obj
        self._own_writes.wrote(metadata["name"], answer.object["metadata"]["resourceVersion"])
        return answer.object

    @staticmethod
    def _seconds(text: str | None, default: float) -> float:
        return default if text is None else parse_duration(text)


def _with_checksum(ref: ArtifactRef, current: Obj) -> ArtifactRef:
    """An artifact that is being rendered has none: the resource keeps the one of the content it keeps."""
    known = (current["metadata"].get("annotations") or {}).get(names.CHECKSUM_ANNOTATION)
    return replace(ref, checksum=known or None)


def _artifacts_status(found: Delivery) -> dict[str, Any]:
    """status.artifacts and kin, bounded; what people should look at stands first."""
    listed = sorted(found.items, key=lambda item: (not item.message, item.ref.id))
    entries = []
    for item in listed[:ARTIFACTS_MAX]:
        entry = {
            "id": item.ref.id,
            "target": item.ref.target_label or item.ref.target_id,
            "status": item.ref.status,
            "checksum": item.ref.checksum,
            "resource": item.name,
            "message": item.message,
        }
        entries.append({name: value for name, value in entry.items() if value})
    checksums = sorted({item.ref.checksum for item in found.items if item.ref.checksum})
    return {"artifactCount": len(found.items), "artifacts": entries, "checksums": checksums[:ARTIFACTS_MAX]}

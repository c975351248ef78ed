"""Writes the VidraResources of a sync: fetches what changed, creates, patches and deletes, a few at once.

One artifact that fails keeps no other from arriving. Every call returns what failed, in words for the status.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import structlog

from vidra.api import names
from vidra.api.common import DeletionPolicy
from vidra.api.infrahubsync import InfrahubSyncSpec
from vidra.controllers import delivery
from vidra.controllers.delivery import Item
from vidra.controllers.kinds import RESOURCES, is_deleting
from vidra.controllers.subjects import Subjects
from vidra.deploy.compress import ManifestTooLarge
from vidra.infrahub import ArtifactRef, InfrahubClient, InfrahubError
from vidra.infrahub.errors import ChecksumMismatch
from vidra.kube.client import Client, Obj, PatchType
from vidra.kube.errors import ApiError, KubeError

log = structlog.get_logger(__name__)

#: Resources of one sync that are written at once.
AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class Source:
    """Where one pass fetches from: branch and instant are the query's, so that what it named is what comes."""

    infrahub: InfrahubClient
    branch: str
    at: str | None


class ResourceWriter:
    """``resources`` are the subjects of the other reconciler: it must not act on a copy older than what is written
    here, and neither must the sync's next pass."""

    def __init__(self, client: Client, resources: Subjects) -> None:
        self._client = client
        self._resources = resources

    async def deliver(self, sync: Obj, spec: InfrahubSyncSpec, items: Iterable[Item], source: Source) -> list[str]:
        """Brings the resource of each item up to date; notes in an item what failed."""

        async def one(item: Item) -> str | None:
            try:
                await self._deliver(sync, spec, item, source)
            except (InfrahubError, KubeError, ManifestTooLarge) as error:
                item.message = str(error)
                log.warning("artifact failed", artifact=item.ref.id, error=str(error))
                return f"artifact {item.ref.id}: {error}"
            return None

        return await _a_few_at_once(one, [item for item in items if item.stale or item.current is not None])

    async def remove(self, resources: Iterable[Obj], *, orphan: bool = False) -> list[str]:
        """Asks for the deletion of resources; with ``orphan``, so that they leave their objects behind."""

        async def one(resource: Obj) -> str | None:
            return await self._remove(resource, orphan)

        return await _a_few_at_once(one, list(resources))

    async def _deliver(self, sync: Obj, spec: InfrahubSyncSpec, item: Item, source: Source) -> None:
        ref = item.ref
        if item.stale:
            content = await _download(ref, source)
        else:
            assert item.current is not None
            content = delivery.content_of(item.current)
        wanted = delivery.resource_spec(spec, content)
        if item.current is None:
            item.current = await self._create(sync, ref, wanted)
            log.info("resource created", resource=item.name, artifact=ref.id, checksum=ref.checksum)
            return
        if not item.stale and ref.checksum is None:
            ref = _with_checksum(ref, item.current)
        patch = delivery.resource_patch(sync, ref, item.current, wanted)
        if patch:
            self._resources.wrote(await self._client.patch(RESOURCES, item.name, patch, PatchType.MERGE))
            log.info("resource changed", resource=item.name, artifact=ref.id, checksum=ref.checksum)

    async def _create(self, sync: Obj, ref: ArtifactRef, spec: dict[str, Any]) -> Obj:
        first = delivery.free_name(sync, ref, self._resources.store)
        for name in dict.fromkeys((first, names.resource_name_of_sync(ref.id, sync["metadata"]["name"]))):
            try:
                answer = await self._client.create(RESOURCES, delivery.new_resource(sync, ref, name, spec))
            except ApiError as error:
                if not error.already_exists:
                    raise
                continue
            self._resources.wrote(answer)
            return answer
        raise ApiError(409, "AlreadyExists", "both names for its resource are taken", request=f"artifact {ref.id}")

    async def _remove(self, resource: Obj, orphan: bool) -> str | None:
        metadata = resource["metadata"]
        try:
            if orphan and (resource.get("spec") or {}).get("deletionPolicy") != DeletionPolicy.ORPHAN:
                patch = {"spec": {"deletionPolicy": DeletionPolicy.ORPHAN.value}}
                await self._client.patch(RESOURCES, metadata["name"], patch, PatchType.MERGE)
            if is_deleting(resource):
                return None
            await self._client.delete(RESOURCES, metadata["name"], uid=metadata["uid"])
        except KubeError as error:
            if not (isinstance(error, ApiError) and (error.not_found or error.conflict)):
                return f"resource {metadata['name']}: {error}"
        log.info("resource deleted", resource=metadata["name"], artifact=delivery.artifact_of(resource))
        return None


async def _a_few_at_once(work: Callable[[Any], Coroutine[Any, Any, str | None]], items: Sequence[object]) -> list[str]:
    """Works on all items, AT_ONCE of them at a time; returns what was said of those that failed."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(item: object) -> str | None:
        async with slots:
            return await work(item)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(item)) for item in items]
    return [text for task in tasks if (text := task.result()) is not None]


async def _download(ref: ArtifactRef, source: Source) -> str:
    try:
        return await source.infrahub.download(ref, branch=source.branch, at=source.at)
    except ChecksumMismatch as error:
        # Rendered again between query and download: what the query says then is what the next pass gets.
        raise ChecksumMismatch("the download", f"{error.text}; it is fetched again in the next pass") from error


def _with_checksum(ref: ArtifactRef, current: Obj) -> ArtifactRef:
    """An artifact that is being rendered has none: the resource keeps the one of the content it keeps."""
    known = (current["metadata"].get("annotations") or {}).get(names.CHECKSUM_ANNOTATION)
    return replace(ref, checksum=known or None)

"""From the artifacts a query found to the VidraResources of one sync: which to write, which to leave, which to delete.

Everything here is the sync's own: a resource that another sync made, or a person, is neither changed nor deleted,
whatever its name and destination.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from vidra.api import names
from vidra.api.common import Options
from vidra.api.infrahubsync import ARTIFACTS_MAX, InfrahubSyncSpec
from vidra.controllers.kinds import BY_SYNC, owner_reference, owning_sync
from vidra.deploy.compress import COMPRESS_ABOVE, compress_manifest, decompress_manifest
from vidra.infrahub import ArtifactRef
from vidra.kube.client import Obj
from vidra.runtime.status import merge_patch
from vidra.runtime.store import Key, Store

#: Infrahub's word for content that is up to date.
READY = "Ready"


@dataclass(slots=True)
class Item:
    """One artifact and its resource, as far as there is one."""

    ref: ArtifactRef
    current: Obj | None
    #: The content has to be fetched: it isn't in the resource.
    stale: bool
    message: str = ""

    @property
    def name(self) -> str:
        return "" if self.current is None else str(self.current["metadata"]["name"])


@dataclass(slots=True)
class Delivery:
    """What a query's answer means for the resources that are there."""

    items: list[Item] = field(default_factory=list)
    gone: list[Obj] = field(default_factory=list)

    def summary(self) -> str:
        """For people: how many, and the first that isn't plainly Ready."""
        remarks = [item for item in self.items if item.message]
        message = f"{len(self.items)} artifacts"
        return message + (f", {len(remarks)} not ready: {remarks[0].ref.id}: {remarks[0].message}" if remarks else "")

    def status(self) -> dict[str, Any]:
        """status.artifacts and kin, bounded; what people should look at stands first."""
        listed = sorted(self.items, key=lambda item: (not item.message, item.ref.id))
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
        checksums = sorted({item.ref.checksum for item in self.items if item.ref.checksum})
        return {"artifactCount": len(self.items), "artifacts": entries, "checksums": checksums[:ARTIFACTS_MAX]}


def compare(sync: Obj, refs: Iterable[ArtifactRef], resources: Store[Obj]) -> Delivery:
    """Pairs artifacts with resources. ``gone`` are resources whose artifact is in the answer no more."""
    mine = {artifact_of(resource): resource for resource in own_resources(sync, resources)}
    delivery = Delivery()
    for ref in refs:
        current = mine.pop(ref.id, None)
        stale = ref.checksum is not None and (current is None or not has_content(current, ref.checksum))
        delivery.items.append(Item(ref, current, stale, _remark(ref, current)))
    delivery.gone = list(mine.values())
    return delivery


def own_resources(sync: Obj, resources: Store[Obj]) -> list[Obj]:
    """The resources that this sync controls."""
    return resources.by_index(BY_SYNC, sync["metadata"]["uid"])


def artifact_of(resource: Obj) -> str:
    """The artifact's id. The original named resources by it and wrote no annotation."""
    annotations = resource["metadata"].get("annotations") or {}
    return str(annotations.get(names.ARTIFACT_ANNOTATION) or resource["metadata"]["name"])


def has_content(resource: Obj, checksum: str) -> bool:
    """Whether the resource holds the very bytes of this checksum, whatever it says of itself."""
    spec = resource.get("spec") or {}
    text = spec.get("manifest")
    if spec.get("compressedManifest"):
        try:
            text = decompress_manifest(spec["compressedManifest"])
        except ValueError:
            return False
    return text is not None and hashlib.md5(text.encode(), usedforsecurity=False).hexdigest() == checksum


def resource_spec(spec: InfrahubSyncSpec, content: str) -> dict[str, Any]:
    """The spec of a resource: the sync's options and destination, and the manifest, compressed where it is large."""
    shared = {name: value for name, value in spec.wire().items() if name in _OPTIONS}
    made: dict[str, Any] = {**shared, "destination": spec.destination.wire()}
    # Intervals of a sync say how often Infrahub is asked; the resources have their own rhythm.
    made.pop("interval", None)
    made.pop("retryInterval", None)
    if len(content.encode()) > COMPRESS_ABOVE:
        made["compressedManifest"] = compress_manifest(content)
    else:
        made["manifest"] = content
    return made


_OPTIONS = frozenset(field.alias or name for name, field in Options.model_fields.items() if name != "suspend")


def content_of(resource: Obj) -> str:
    spec = resource.get("spec") or {}
    if spec.get("compressedManifest"):
        return decompress_manifest(spec["compressedManifest"])
    return str(spec.get("manifest") or "")


def new_resource(sync: Obj, ref: ArtifactRef, name: str, spec: dict[str, Any]) -> Obj:
    """A resource to POST, with its finalizer: one request less than adding it later."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.RESOURCE_KIND,
        "metadata": {"name": name, "finalizers": [names.RESOURCE_FINALIZER], **_metadata(sync, ref)},
        "spec": spec,
    }


def resource_patch(sync: Obj, ref: ArtifactRef, current: Obj, spec: dict[str, Any]) -> dict[str, Any]:
    """The merge patch that brings a resource up to date; empty where it is."""
    wanted = _metadata(sync, ref)
    metadata = {
        part: change
        for part in ("labels", "annotations")
        if (change := _added(current["metadata"].get(part) or {}, wanted[part]))
    }
    # What the server filled in by default is no difference.
    before = dict(current.get("spec") or {})
    before.pop("reconciledAt", None)
    destination = {k: v for k, v in (before.get("destination") or {}).items() if v not in ("", False)}
    change = merge_patch({**before, "destination": destination}, spec)
    patch: dict[str, Any] = {}
    if metadata:
        patch["metadata"] = metadata
    if change:
        patch["spec"] = change
    return patch


def _metadata(sync: Obj, ref: ArtifactRef) -> dict[str, Any]:
    annotations = {names.ARTIFACT_ANNOTATION: ref.id, names.CHECKSUM_ANNOTATION: ref.checksum or ""}
    target = ref.target_label or ref.target_id
    if target:
        annotations[names.TARGET_ANNOTATION] = target
    return {
        "labels": {names.SYNC_LABEL: names.sync_label(sync["metadata"]["name"])},
        "annotations": annotations,
        "ownerReferences": [owner_reference(sync)],
    }


def _added(before: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in wanted.items() if before.get(key) != value}


def free_name(sync: Obj, ref: ArtifactRef, resources: Store[Obj]) -> str:
    """A name for a new resource: the artifact's id, unless somebody else's resource has it."""
    name = names.resource_name(ref.id)
    taken = resources.get(Key("", name))
    if taken is None:
        return name
    owner = owning_sync(taken)
    if owner is not None and owner[1] == sync["metadata"]["uid"]:
        return name
    return names.resource_name_of_sync(ref.id, sync["metadata"]["name"])


def _remark(ref: ArtifactRef, current: Obj | None) -> str:
    """What people should know of an artifact that isn't plainly Ready. It is no reason to prune, ever."""
    if ref.checksum is None:
        kept = "its last content stays" if current is not None else "there is no content yet"
        return f"Infrahub says {ref.status or 'Pending'}: {kept}"
    if ref.status not in (None, READY):
        return f"Infrahub says {ref.status}: its last good content is served"
    return ""

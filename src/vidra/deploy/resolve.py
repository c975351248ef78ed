"""From the objects of a manifest to what is to be applied: kinds looked up, namespaces filled in, labels set.

A kind the cluster doesn't serve fails its object and no other. One that a CustomResourceDefinition of the same
manifest brings is looked up when that has been applied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from vidra.api import names
from vidra.api.common import IgnoreRule
from vidra.deploy.destination import Destination
from vidra.deploy.errors import ObjectError, Problem
from vidra.deploy.ignore import pointers_for, without
from vidra.deploy.manifest import ManifestObject, place
from vidra.deploy.wanted import Wanted
from vidra.kube.client import Obj
from vidra.kube.discovery import DiscoveryStale, NotServed
from vidra.kube.resource import GroupKind, ObjectKey, Resource
from vidra.runtime.digest import json_digest

#: Where objects go that name no namespace when the destination names none either, as kubectl does.
DEFAULT_NAMESPACE = "default"


@dataclass(slots=True)
class Resolved:
    """``wanted`` is ready to be applied, ``coming`` waits for its definition, ``errors`` have no kind here."""

    wanted: dict[ObjectKey, Wanted] = field(default_factory=dict)
    coming: dict[ObjectKey, ManifestObject] = field(default_factory=dict)
    errors: list[ObjectError] = field(default_factory=list)
    rules: Sequence[IgnoreRule] = ()

    def versions(self) -> dict[ObjectKey, str]:
        """All that can be applied, now or later, with the version it is applied in."""
        ready = {key: wanted.resource.version for key, wanted in self.wanted.items()}
        return ready | {key: obj.version for key, obj in self.coming.items()}

    def digests(self) -> dict[ObjectKey, str]:
        """What is declared, object by object."""
        ready = {key: wanted.digest for key, wanted in self.wanted.items()}
        return ready | {key: obj.digest for key, obj in self.coming.items()}


async def resolve(
    to: Destination, objects: Sequence[ManifestObject], namespace: str, rules: Sequence[IgnoreRule] = ()
) -> Resolved:
    """``namespace`` is for objects that name none; ``rules`` say which fields are left to others.

    Raises ManifestError when two objects turn out to be one once their namespaces are known, ValueError for a rule that
    can't be read, and the client's errors when the cluster can't be asked.
    """
    brought = _definitions(objects)
    resources: dict[tuple[str, str, str], Resource | ObjectError | None] = {}
    for obj in objects:
        kind = (obj.group, obj.version, obj.kind)
        if kind not in resources:
            resources[kind] = await _look_up(to, obj, GroupKind(obj.group, obj.kind) in brought)

    def namespaced(group: str, version: str, kind: str) -> bool | None:
        found = resources[group, version, kind]
        return found.namespaced if isinstance(found, Resource) else brought.get(GroupKind(group, kind))

    resolved = Resolved(rules=rules)
    for obj in place(objects, namespaced, namespace or DEFAULT_NAMESPACE):
        key = ObjectKey(obj.group, obj.kind, obj.namespace or "", obj.name)
        found = resources[obj.group, obj.version, obj.kind]
        if isinstance(found, Resource):
            resolved.wanted[key] = make_wanted(obj, key, found, resolved.rules)
        elif found is None:
            resolved.coming[key] = obj
        else:
            error = ObjectError(key, found.problem, found.message, where=obj.describe())
            resolved.errors.append(error)
    return resolved


async def resolve_coming(to: Destination, resolved: Resolved) -> None:
    """Looks up what waited for its definition; what still isn't served becomes an error."""
    for key, obj in list(resolved.coming.items()):
        found = await _look_up(to, obj, brought=False)
        if isinstance(found, Resource):
            resolved.wanted[key] = make_wanted(obj, key, found, resolved.rules)
        elif found is not None:
            resolved.errors.append(ObjectError(key, found.problem, found.message, where=obj.describe()))
        del resolved.coming[key]


def make_wanted(obj: ManifestObject, key: ObjectKey, resource: Resource, rules: Sequence[IgnoreRule] = ()) -> Wanted:
    """Adds the label by which caches find the object. The manifest's own body is shared by nobody else but must stay
    as it is, so what changes is copied. Raises ValueError for a rule that can't be read."""
    metadata = obj.body["metadata"]
    labels = {**(metadata.get("labels") or {}), names.MANAGED_BY_LABEL: names.MANAGED_BY_VALUE}
    body: Obj = {**obj.body, "metadata": {**metadata, "labels": labels}}
    ignored = pointers_for(rules, key)
    if not ignored:
        return Wanted(key, resource, body, obj.digest, obj.describe())
    kept = without(body, ignored)
    digest = json_digest([kept, ignored])
    return Wanted(key, resource, kept, digest, obj.describe(), initial=body, ignored=ignored)


async def _look_up(to: Destination, obj: ManifestObject, brought: bool) -> Resource | ObjectError | None:
    """The served kind; None where the manifest itself brings it; an error where it is not to be had."""
    key = ObjectKey(obj.group, obj.kind, obj.namespace or "", obj.name)
    try:
        return await to.discovery.resource(obj.group, obj.version, obj.kind)
    except NotServed as error:
        return None if brought else ObjectError(key, Problem.NOT_SERVED, str(error))
    except DiscoveryStale as error:
        return ObjectError(key, Problem.NOT_SERVED, str(error))


def _definitions(objects: Sequence[ManifestObject]) -> dict[GroupKind, bool]:
    """The kinds that the manifest's CustomResourceDefinitions bring, and whether they are namespaced."""
    brought: dict[GroupKind, bool] = {}
    for obj in objects:
        if obj.kind != "CustomResourceDefinition":
            continue
        spec = obj.body.get("spec")
        if isinstance(spec, dict) and isinstance(spec.get("names"), dict):
            kind = GroupKind(str(spec.get("group")), str(spec["names"].get("kind")))
            brought[kind] = spec.get("scope") == "Namespaced"
    return brought

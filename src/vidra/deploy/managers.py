"""Changes to metadata.managedFields, as JSON patches that test what they were made from.

Four are needed, all measured on a real API server (the object's spec and generation stay):

- *promote*: what a POST made belongs to an entry of operation Update. Until that is an Apply entry, fields that leave
  the manifest would stay in the object for ever.
- *unite*: entries of ours of both operations become one Apply entry.
- *adopt*: the entries of kubectl's client-side apply become ours, for the same reason (fluxcd/pkg ssa does likewise),
  and so do those of an object that Vidra let go of earlier; kubectl's last-applied annotation goes, and a mark that the
  object is not of Vidra's making comes.
- *hand back*: an adopted object keeps every field when we let it go, so our entry must not be emptied by an apply that
  lacks them; it becomes the entry of a manager that nobody is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from vidra.api import names
from vidra.kube.client import Obj
from vidra.runtime.observed import Observed

#: Owns what was handed back. A later apply of anybody's must force or agree, as with any Update entry.
RELEASED_MANAGER = "vidra-released"
#: Owns the mark of an adopted object. Were it ours, the next apply would take it away.
ADOPTING_MANAGER = "vidra-adopted"
LAST_APPLIED_ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"

JsonPatch = list[dict[str, Any]]


def promotion(live: Observed, manager: str) -> JsonPatch | None:
    """Turns our Update entry into an Apply entry. Empty: nothing to do. None: there are both, use :func:`unite`."""
    ours = {entry.operation: entry for entry in live.managers if entry.name == manager}
    update = ours.get("Update")
    if update is None:
        return []
    if "Apply" in ours:
        return None
    path = f"/metadata/managedFields/{update.position}"
    return [
        {"op": "test", "path": "/metadata/uid", "value": live.uid},
        {"op": "test", "path": f"{path}/manager", "value": manager},
        {"op": "test", "path": f"{path}/operation", "value": "Update"},
        {"op": "replace", "path": f"{path}/operation", "value": "Apply"},
    ]


def unite(obj: Obj, manager: str) -> JsonPatch:
    """Unites all entries of ours into one Apply entry. Empty: there is nothing to unite."""
    return _united(obj, manager, lambda entry: entry.get("manager") == manager)


def adoption(obj: Obj, manager: str, *, mark: bool) -> JsonPatch:
    """Unites kubectl's entries and all of ours into one Apply entry of ours; with ``mark``, the object is marked as
    adopted. To be sent as :data:`ADOPTING_MANAGER`. Empty: there is nothing to do."""
    patch = _united(obj, manager, lambda entry: _taken_over(entry, manager))
    annotations = obj["metadata"].get("annotations") or {}
    if patch and LAST_APPLIED_ANNOTATION in annotations:
        patch.append({"op": "remove", "path": f"/metadata/annotations/{_escaped(LAST_APPLIED_ANNOTATION)}"})
    if mark:
        patch = patch or [_test_version(obj)]
        if not annotations:
            patch.append({"op": "add", "path": "/metadata/annotations", "value": {}})
        path = f"/metadata/annotations/{_escaped(names.ADOPTED_ANNOTATION)}"
        patch.append({"op": "add", "path": path, "value": names.ADOPTED_VALUE})
    return patch


def _united(obj: Obj, manager: str, is_taken: Callable[[Obj], bool]) -> JsonPatch:
    entries = obj["metadata"].get("managedFields") or []
    taken = [entry for entry in entries if not entry.get("subresource") and is_taken(entry)]
    if not taken or (len(taken) == 1 and taken[0]["manager"] == manager and taken[0]["operation"] == "Apply"):
        return []
    fields: Obj = {}
    for entry in taken:
        fields = _union(fields, entry.get("fieldsV1") or {})
    _remove_path(fields, ("f:metadata", "f:annotations", f"f:{LAST_APPLIED_ANNOTATION}"))
    ours = {**taken[0], "manager": manager, "operation": "Apply", "fieldsV1": fields}
    return [_test_version(obj), _replace_entries([ours, *(entry for entry in entries if entry not in taken)])]


def hand_back(obj: Obj, manager: str) -> JsonPatch:
    """Lets go of an object without changing it, but for Vidra's own marks. Empty: we have no part in it."""
    entries = obj["metadata"].get("managedFields") or []
    if not any(entry.get("manager") == manager for entry in entries):
        return []
    kept: list[Obj] = []
    for entry in entries:
        if entry.get("manager") == ADOPTING_MANAGER:
            continue
        if entry.get("manager") == manager and not entry.get("subresource"):
            fields = _union({}, entry.get("fieldsV1") or {})
            _remove_path(fields, ("f:metadata", "f:labels", f"f:{names.MANAGED_BY_LABEL}"))
            entry = {**entry, "manager": RELEASED_MANAGER, "operation": "Update", "fieldsV1": fields}
        kept.append(entry)
    patch = [_test_version(obj), _replace_entries(kept)]
    labels = obj["metadata"].get("labels") or {}
    if labels.get(names.MANAGED_BY_LABEL) == names.MANAGED_BY_VALUE:
        patch.append({"op": "remove", "path": f"/metadata/labels/{_escaped(names.MANAGED_BY_LABEL)}"})
    if names.ADOPTED_ANNOTATION in (obj["metadata"].get("annotations") or {}):
        patch.append({"op": "remove", "path": f"/metadata/annotations/{_escaped(names.ADOPTED_ANNOTATION)}"})
    return patch


def _taken_over(entry: Mapping[str, Any], manager: str) -> bool:
    name, operation = str(entry.get("manager", "")), entry.get("operation")
    if name == "before-first-apply":
        return operation == "Update"
    return name in (manager, RELEASED_MANAGER) or name.startswith("kubectl")


def _union(one: Mapping[str, Any], other: Mapping[str, Any]) -> Obj:
    """The union of two FieldsV1 sets: maps whose keys are field paths and whose leaves are empty maps."""
    united = dict(one)
    for key, value in other.items():
        united[key] = _union(united.get(key) or {}, value or {})
    return united


def _remove_path(fields: Obj, path: tuple[str, ...]) -> None:
    """Removes a leaf and the maps that it leaves empty: an empty map would mean the whole field."""
    parents: list[tuple[Obj, str]] = []
    node = fields
    for step in path:
        if step not in node:
            return
        parents.append((node, step))
        node = node[step]
    for parent, step in reversed(parents):
        if parent[step] and (parent, step) != parents[-1]:
            return
        del parent[step]


def _test_version(obj: Obj) -> dict[str, Any]:
    return {"op": "test", "path": "/metadata/resourceVersion", "value": obj["metadata"]["resourceVersion"]}


def _replace_entries(entries: list[Obj]) -> dict[str, Any]:
    return {"op": "replace", "path": "/metadata/managedFields", "value": entries}


def _escaped(segment: str) -> str:
    return segment.replace("~", "~0").replace("/", "~1")

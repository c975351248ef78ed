"""JSON patches that add and remove one finalizer and can't lose anybody else's.

A merge patch replaces the whole list, and with it what another controller wrote since we read. These patches carry
``test`` operations for what they were computed from: the server refuses them with 422 when that has changed, and the
caller reads again. They also test the uid: a patch meant for one object never touches its successor of the same name.

How they are to be used: store the finalizer before the first thing that would have to be cleaned up; remove it only
after everything is. After a removal 404 and 422 are fine: the object is gone, or the next event shows what is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_PATH = "/metadata/finalizers"

#: JSON patch operations (RFC 6902), to be sent as application/json-patch+json.
JsonPatch = list[dict[str, Any]]


def has_finalizer(obj: Mapping[str, Any], name: str) -> bool:
    return name in _finalizers(obj)


def add_finalizer_patch(obj: Mapping[str, Any], name: str) -> JsonPatch:
    """Adds ``name`` at the end; empty when it is there. ``obj`` is the raw object as it was read.

    Raises ValueError when the object is being deleted: the server takes no new finalizers then.
    """
    metadata = obj["metadata"]
    present = _finalizers(obj)
    if name in present:
        return []
    if metadata.get("deletionTimestamp"):
        raise ValueError(f"{metadata.get('name')} is being deleted, it takes no finalizer")
    if present:
        return [
            *_test_uid(obj),
            {"op": "test", "path": _PATH, "value": list(present)},
            {"op": "add", "path": f"{_PATH}/-", "value": name},
        ]
    # Adding the list replaces one that appeared since, and JSON patch has no test for "not there": the version stands
    # in for it.
    return [
        *_test_uid(obj),
        {"op": "test", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]},
        {"op": "add", "path": _PATH, "value": [name]},
    ]


def remove_finalizer_patch(obj: Mapping[str, Any], name: str) -> JsonPatch:
    """Removes ``name`` from exactly the slot where it was read; empty when it isn't there."""
    slots = [slot for slot, present in enumerate(_finalizers(obj)) if present == name]
    if not slots:
        return []
    patch = _test_uid(obj)
    for slot in reversed(slots):  # from the end, so that no removal moves the slots still to come
        path = f"{_PATH}/{slot}"
        patch += [{"op": "test", "path": path, "value": name}, {"op": "remove", "path": path}]
    return patch


def _finalizers(obj: Mapping[str, Any]) -> list[str]:
    return (obj.get("metadata") or {}).get("finalizers") or []


def _test_uid(obj: Mapping[str, Any]) -> JsonPatch:
    return [{"op": "test", "path": "/metadata/uid", "value": obj["metadata"]["uid"]}]

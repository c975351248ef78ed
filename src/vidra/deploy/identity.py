"""Whether a document is an object at all: something with an apiVersion, a kind and a name that lead to one address.

Nothing here is skipped in silence: what has no name now would be pruned as "left the manifest".
"""

from __future__ import annotations

from typing import Any

from vidra.deploy.problems import short, type_of
from vidra.deploy.textmaps import Path, Report, dotted, must_be_text

# What would end or bend the path of a request's URL.
_NOT_IN = {"apiVersion": "%? #", "kind": "/%? #", "name": "/%", "namespace": "/%? #"}


def check_identity(body: Any, path: Path, report: Report) -> bool:
    """Whether ``body`` is an object that can be named and reached at all; reports all that it lacks."""
    if not isinstance(body, dict):
        report(path, f"is {type_of(body)}, not a Kubernetes object")
        return False
    fine = [_word(body, key, path, report) for key in ("apiVersion", "kind")]
    metadata = body.get("metadata")
    if metadata is None or metadata == {}:
        report(path, "has no metadata.name")
        return False
    if not isinstance(metadata, dict):
        report((*path, "metadata"), f"metadata is {type_of(metadata)}, and must be a map")
        return False
    if metadata.get("name") in (None, "") and metadata.get("generateName"):
        report(
            (*path, "metadata", "generateName"),
            "generateName cannot be reconciled: each pass would make another object; give it a metadata.name",
        )
        return False
    fine.append(_word(metadata, "name", (*path, "metadata"), report))
    if metadata.get("namespace") not in (None, ""):
        fine.append(_word(metadata, "namespace", (*path, "metadata"), report))
    return all(fine)


def _word(owner: dict[str, Any], key: str, path: Path, report: Report) -> bool:
    """Whether ``owner[key]`` is text that can stand in the address of an object."""
    value, where = owner.get(key), (*path, key)
    field = dotted(("metadata", key) if key in ("name", "namespace") else (key,))
    if value is None or value == "":
        report(where if key in owner else path, f"has no {field}")
    elif not isinstance(value, str):
        report(where, f"{field} {must_be_text(value)}")
    elif value in (".", "..") or any(sign in value for sign in _NOT_IN[key]) or not value.isprintable():
        report(where, f"{field} {short(value)!r} can't be one: it would lead to another address")
    elif key == "apiVersion" and (value.count("/") > 1 or not all(value.split("/"))):
        report(where, f"apiVersion {short(value)!r} isn't of the form group/version")
    else:
        return True
    return False

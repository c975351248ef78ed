"""Short fingerprints of raw objects: equal digests mean that nothing changed that anybody reads.

A digest is 32 hex digits (128 bits of BLAKE2b) over canonical JSON, that is, with sorted keys. It tells changes of
trusted data apart and proves nothing to anybody who would forge them. 1, 1.0 and true are three different values, as
they are in JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

#: What the server writes on every change of anything, a status write included.
_BOOKKEEPING = frozenset({"managedFields", "resourceVersion", "generation"})

#: What somebody may have to act upon although ``metadata.generation`` stays.
_OBSERVED = ("uid", "generation", "labels", "annotations", "ownerReferences", "finalizers", "deletionTimestamp")


def json_digest(value: Any) -> str:
    """The digest of any JSON value, whatever the order of its keys. Raises ValueError for NaN, TypeError for others."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return blake2b(text.encode("ascii"), digest_size=16).hexdigest()


def content_digest(obj: Mapping[str, Any]) -> str:
    """The digest of ``obj`` without its status and without the server's bookkeeping.

    Left out are ``status`` and ``metadata.{managedFields,resourceVersion,generation}``; labels, annotations,
    finalizers, owner references and uid count, so an object that was deleted and made anew has another digest.
    """
    content = {name: value for name, value in obj.items() if name != "status"}
    metadata = content.get("metadata")
    if isinstance(metadata, Mapping):
        content["metadata"] = {name: value for name, value in metadata.items() if name not in _BOOKKEEPING}
    return json_digest(content)


def observed_digest(obj: Mapping[str, Any]) -> str:
    """The digest of what an observer of ``obj`` acts upon, without reading the body where the server allows that.

    With a ``metadata.generation`` it covers uid, generation, labels, annotations, owner references, finalizers and the
    deletion timestamp (absent and empty are the same). Kinds without one (ConfigMap, Secret, Service, RBAC, ...) get
    their :func:`content_digest`: for them only the content tells a change.
    """
    metadata = obj.get("metadata") or {}
    if not metadata.get("generation"):
        return content_digest(obj)
    return json_digest([metadata.get(name) or None for name in _OBSERVED])

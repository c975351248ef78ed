"""A manifest's text -> its objects, ready to send. All or nothing: a manifest that can't be read in full gives none.

:func:`read_manifest` needs no cluster. :func:`place` does the rest once the scope of the kinds is known: default
namespaces, and that no object is declared twice. Both collect the problems there are, up to ``MAX_PROBLEMS``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from vidra.deploy.documents import Document, Failure, read_documents
from vidra.deploy.identity import check_identity
from vidra.deploy.normalize import normalize
from vidra.deploy.problems import MAX_PROBLEMS, ManifestError, Problem, identity_of
from vidra.deploy.textmaps import Path
from vidra.deploy.yaml_limits import DEFAULT_LIMITS, Limits
from vidra.kube.resource import ObjectKey, object_key, split_api_version
from vidra.runtime.digest import json_digest

__all__ = ["Limits", "ManifestError", "ManifestObject", "Problem", "Scope", "place", "read_manifest"]

#: (group, version, kind) -> True for namespaced, False for cluster-scoped, None for a kind that isn't known.
Scope = Callable[[str, str, str], bool | None]


@dataclass(frozen=True, slots=True, eq=False)
class ManifestObject:
    """One object, ready to send: ``body`` is normalised JSON, and must not be changed.

    ``document`` is its document's number and ``line`` the line it starts on, both from 1.
    """

    body: dict[str, Any]
    document: int
    line: int
    _digest: str = field(default="", init=False, repr=False)

    @property
    def api_version(self) -> str:
        return str(self.body["apiVersion"])

    @property
    def group(self) -> str:
        return split_api_version(self.api_version)[0]

    @property
    def version(self) -> str:
        return split_api_version(self.api_version)[1]

    @property
    def kind(self) -> str:
        return str(self.body["kind"])

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])

    @property
    def namespace(self) -> str | None:
        """None for a cluster-scoped object, and for one that was written without and isn't placed yet."""
        namespace: str | None = self.body["metadata"].get("namespace")
        return namespace

    @property
    def key(self) -> ObjectKey:
        return object_key(self.body)

    @property
    def digest(self) -> str:
        """32 hex digits that are the same for the same body, whatever the order of its keys."""
        if not self._digest:
            object.__setattr__(self, "_digest", json_digest(self.body))
        return self._digest

    def describe(self) -> str:
        """``document 3 (line 41): Deployment app/web``."""
        return f"document {self.document} (line {self.line}): {identity_of(self.body)}"


def read_manifest(text: str, *, limits: Limits = DEFAULT_LIMITS) -> tuple[ManifestObject, ...]:
    """The objects of a manifest, in its order; lists (``kind: List``, ``kind: PodList``) are taken apart.

    Text without any document in it gives an empty tuple: whether that is a wish or a mishap is for the caller to say.
    Raises :class:`ManifestError` with the problems found.
    """
    if len(text) > limits.size:
        raise ManifestError((Problem(1, 1, None, f"is longer than {limits.size} characters"),))
    if text.lstrip("\ufeff \t\r\n").startswith("<") and not text.lstrip("\ufeff \t\r\n").startswith("<<"):
        raise ManifestError((Problem(1, 1, None, "isn't a manifest but HTML or XML, as of a proxy or a login page"),))
    problems: list[Problem] = []
    objects: list[ManifestObject] = []
    for found in read_documents(text, limits):
        if isinstance(found, Failure):
            problems.append(Problem(found.number, found.line, _identity_within(found.partial), found.message))
        else:
            objects += _objects(found, found.value, (), found.line, problems)
        if len(problems) >= MAX_PROBLEMS:
            break
    if problems:
        raise ManifestError(tuple(sorted(problems, key=lambda problem: (problem.document, problem.line))))
    return tuple(objects)


def place(objects: Iterable[ManifestObject], scope: Scope, default_namespace: str | None) -> tuple[ManifestObject, ...]:
    """The objects with the namespace that is theirs in a cluster: the default filled in, or none where none can be.

    A kind that isn't known stays as it is. Raises :class:`ManifestError` for an object declared twice (whatever the
    version of its kind) and for one that has no namespace when there is no default.
    """
    placed: list[ManifestObject] = []
    problems: list[Problem] = []
    first: dict[ObjectKey, ManifestObject] = {}
    for item in objects:
        namespaced = scope(item.group, item.version, item.kind)
        if namespaced and item.namespace is None:
            if not default_namespace:
                problems.append(_problem(item, "has no namespace, and there is no default to put it in"))
                continue
            item = _in_namespace(item, default_namespace)
        elif namespaced is False and item.namespace is not None:
            item = _in_namespace(item, None)
        other = first.setdefault(item.key, item)
        if other is not item:
            problems.append(_problem(item, f"is declared twice: also by document {other.document} (line {other.line})"))
        placed.append(item)
    if problems:
        raise ManifestError(tuple(problems[:MAX_PROBLEMS]))
    return tuple(placed)


def _identity_within(partial: Any) -> str | None:
    """Whose text was being read when it broke off: the last item's, in a list."""
    items = _list_items(partial)
    return (identity_of(items[-1]) if items else None) or identity_of(partial)


def _problem(item: ManifestObject, message: str) -> Problem:
    return Problem(item.document, item.line, identity_of(item.body), message)


def _in_namespace(item: ManifestObject, namespace: str | None) -> ManifestObject:
    metadata = {key: value for key, value in item.body["metadata"].items() if key != "namespace"}
    if namespace is not None:
        metadata["namespace"] = namespace
    return replace(item, body={**item.body, "metadata": metadata})


def _objects(
    document: Document, value: Any, path: Path, line: int, problems: list[Problem]
) -> Iterator[ManifestObject]:
    """The object at ``path`` of the document, or those of the list there; what is wrong goes into ``problems``."""

    def report(where: Path, message: str) -> None:
        if len(problems) >= MAX_PROBLEMS:
            return
        at = document.source.line_of(where, line)
        problems.append(Problem(document.number, at, identity_of(value), message))

    items = _list_items(value)
    if items is not None:
        if "apiVersion" not in value:
            report(path, "has no apiVersion")
        for index, item in enumerate(items):
            if len(problems) >= MAX_PROBLEMS:
                break
            at: Path = (*path, "items", index)
            _inherit_kind(value, item)
            yield from _objects(document, item, at, document.source.line_of(at, line), problems)
    elif isinstance(value, dict) and value.get("kind") == "List" and value.get("apiVersion") == "v1":
        report(path, "is a List without a list of items")
    elif check_identity(value, path, report):
        known = len(problems)
        normalize(value, path, report)
        if len(problems) == known:
            yield ManifestObject(value, document.number, line)


def _list_items(value: Any) -> list[Any] | None:
    """The items, if the value is a list of objects; a named object only looks like one (``kind: AllowList``)."""
    if not isinstance(value, dict) or not isinstance(value.get("items"), list):
        return None
    kind, metadata, items = value.get("kind"), value.get("metadata"), value["items"]
    if not isinstance(kind, str) or not kind.endswith("List"):
        return None
    if isinstance(metadata, dict) and ("name" in metadata or "generateName" in metadata):
        return None
    return items if kind == "List" or all(isinstance(item, dict) for item in items) else None


def _inherit_kind(owner: dict[str, Any], item: Any) -> None:
    """The API server leaves apiVersion and kind out of the items of a PodList."""
    kind = str(owner["kind"]).removesuffix("List")
    if kind and isinstance(item, dict):
        item.setdefault("kind", kind)
        if "apiVersion" in owner:
            item.setdefault("apiVersion", owner["apiVersion"])

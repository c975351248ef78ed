"""Ignore rules: fields of an object whose live value is left to others, an autoscaler or an injector.

Leaving such a field out of an apply would not do: where we set it before, the server would take it away, and replicas
would fall back to 1. So the live value is applied in its place, unless it belongs to somebody else's server-side apply
already (flux' rule for ``spec.ignore``). A new object gets the value of its manifest.

Fields are JSON pointers (RFC 6901). ``-`` and indexes beyond a list's end match nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from vidra.api.common import IgnoreRule
from vidra.kube.client import Obj
from vidra.kube.resource import ObjectKey

Pointer: TypeAlias = tuple[str, ...]

#: What makes an object that object, and Vidra find it: no rule may take it away.
_KEPT = frozenset({("apiVersion",), ("kind",), ("metadata",), ("metadata", "name"), ("metadata", "namespace")})


def parse_pointer(text: str) -> Pointer:
    """Raises ValueError for what is no pointer to a field that can be ignored."""
    if not text.startswith("/") or text == "/":
        raise ValueError(f"{text!r} is no JSON pointer such as /spec/replicas")
    pointer = tuple(step.replace("~1", "/").replace("~0", "~") for step in text[1:].split("/"))
    if pointer in _KEPT:
        raise ValueError(f"{text!r} can't be ignored")
    return pointer


def pointers_for(rules: Iterable[IgnoreRule], key: ObjectKey) -> tuple[Pointer, ...]:
    """The pointers of all rules that are for this object. Raises ValueError as :func:`parse_pointer`."""
    found: dict[Pointer, None] = {}
    for rule in rules:
        target = rule.target
        wanted = (target.group, target.kind, target.namespace, target.name)
        if all(not want or want == have for want, have in zip(wanted, key, strict=True)):
            found.update(dict.fromkeys(parse_pointer(path) for path in rule.paths))
    return tuple(found)


def without(body: Obj, pointers: Iterable[Pointer]) -> Obj:
    """A copy of the body that lacks these fields."""
    stripped = copy.deepcopy(body)
    for pointer in pointers:
        parent, step = _parent(stripped, pointer)
        if isinstance(parent, dict):
            parent.pop(step, None)
        elif isinstance(parent, list) and (place := _place(parent, step)) is not None:
            del parent[place]
    return stripped


def with_live(body: Obj, live: Mapping[str, Any], pointers: Iterable[Pointer], manager: str) -> Obj:
    """A copy of the body that has the live values of these fields, as far as ``manager`` is to apply them."""
    merged = copy.deepcopy(body)
    for pointer in pointers:
        value, there = _look_up(live, pointer)
        if there and not _applied_by_another(live, pointer, manager):
            _put(merged, pointer, value)
    return merged


def _look_up(node: Any, pointer: Pointer) -> tuple[Any, bool]:
    parent, step = _parent(node, pointer)
    if isinstance(parent, Mapping) and step in parent:
        return parent[step], True
    if isinstance(parent, list) and (place := _place(parent, step)) is not None:
        return parent[place], True
    return None, False


def _parent(node: Any, pointer: Pointer) -> tuple[Any, str]:
    """What holds the field, None where that isn't there, and the last step."""
    for step in pointer[:-1]:
        if isinstance(node, Mapping):
            node = node.get(step)
        elif isinstance(node, list) and (place := _place(node, step)) is not None:
            node = node[place]
        else:
            return None, pointer[-1]
    return node, pointer[-1]


def _place(items: list[Any], step: str) -> int | None:
    return int(step) if step.isdecimal() and int(step) < len(items) else None


def _put(body: Obj, pointer: Pointer, value: Any) -> None:
    """Sets the field, with the maps on the way to it. Into a list only where the manifest has an element there."""
    node: Any = body
    for step in pointer[:-1]:
        if isinstance(node, dict):
            node = node.setdefault(step, {})
        elif isinstance(node, list) and (place := _place(node, step)) is not None:
            node = node[place]
        else:
            return
    step = pointer[-1]
    if isinstance(node, dict):
        node[step] = copy.deepcopy(value)
    elif isinstance(node, list) and (place := _place(node, step)) is not None:
        node[place] = copy.deepcopy(value)


def _applied_by_another(live: Mapping[str, Any], pointer: Pointer, manager: str) -> bool:
    """Whether another manager's Apply entry has the field. List elements are keyed otherwise there: not looked into."""
    for entry in live["metadata"].get("managedFields") or ():
        if entry.get("manager") == manager or entry.get("operation") != "Apply" or entry.get("subresource"):
            continue
        fields: Any = entry.get("fieldsV1") or {}
        for step in pointer:
            fields = fields.get(f"f:{step}") if isinstance(fields, Mapping) else None
            if fields is None:
                break
        else:
            return True
    return False

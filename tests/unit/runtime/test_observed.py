"""What is kept of an object, and which changes of it count."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from vidra.runtime.observed import Manager, observe, our_managers

PREFIX = "ours:"


def deployment(**metadata: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "f:metadata": {"f:labels": {".": {}, "f:app": {}}, "f:annotations": {"f:note": {}}},
        "f:spec": {},
    }
    theirs: dict[str, Any] = {"f:metadata": {"f:labels": {"f:hash": {}}, "f:annotations": {"f:revision": {}}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "a",
            "uid": "u",
            "resourceVersion": "5",
            "generation": 2,
            "labels": {"app": "x", "hash": "1"},
            "annotations": {"note": "n", "revision": "1"},
            "managedFields": [
                {"manager": "kube-controller-manager", "operation": "Update", "fieldsV1": theirs},
                {"manager": "ours:one", "operation": "Apply", "fieldsV1": fields},
                {"manager": "ours:one", "operation": "Update", "subresource": "status", "fieldsV1": {}},
            ],
            **metadata,
        },
        "spec": {"replicas": 1},
        "status": {"replicas": 1},
    }


def config_map() -> dict[str, Any]:
    fields: dict[str, Any] = {"f:data": {}, "f:metadata": {"f:labels": {"f:app": {}}}}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "a",
            "uid": "u",
            "resourceVersion": "5",
            "labels": {"app": "x", "other": "y"},
            "managedFields": [{"manager": "ours:one", "operation": "Apply", "fieldsV1": fields}],
        },
        "data": {"k": "v"},
    }


def digest(obj: dict[str, Any]) -> str:
    return observe(obj, manager_prefix=PREFIX).digest


def setter(*way: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(obj: dict[str, Any]) -> None:
        place = obj
        for step in way[:-1]:
            place = place[step]
        place[way[-1]] = value

    return change


@pytest.mark.parametrize("make", [deployment, config_map])
@pytest.mark.parametrize(
    "change",
    [
        setter("metadata", "uid", value="another"),
        setter("metadata", "deletionTimestamp", value="2026-01-01T00:00:00Z"),
        setter("metadata", "labels", "app", value="changed"),
        setter("metadata", "labels", value={}),
        setter("metadata", "managedFields", value=[]),
    ],
)
def test_what_counts_for_every_kind(make: Callable[[], dict[str, Any]], change: Callable[[Any], None]) -> None:
    obj = make()
    before = digest(obj)
    change(obj)
    assert digest(obj) != before


@pytest.mark.parametrize(
    ("make", "change", "counts"),
    [
        (deployment, setter("metadata", "generation", value=3), True),
        (deployment, setter("metadata", "annotations", "note", value="changed"), True),
        (deployment, setter("metadata", "resourceVersion", value="6"), False),
        (deployment, setter("metadata", "labels", "hash", value="2"), False),
        (deployment, setter("metadata", "annotations", "revision", value="2"), False),
        (deployment, setter("status", "replicas", value=0), False),
        (config_map, setter("data", "k", value="w"), True),
        (config_map, setter("data", "new", value="w"), True),
        (config_map, setter("immutable", value=True), True),
        (config_map, setter("metadata", "labels", "other", value="z"), False),
        (config_map, setter("status", value={"x": 1}), False),
    ],
)
def test_the_body_counts_and_what_is_somebody_elses_does_not(
    make: Callable[[], dict[str, Any]], change: Callable[[Any], None], counts: bool
) -> None:
    obj = make()
    before = digest(obj)
    change(obj)
    assert (digest(obj) != before) is counts


def test_the_managers_of_ours_are_known_by_name_operation_and_place() -> None:
    obj = deployment()
    assert our_managers(obj, PREFIX) == (Manager("ours:one", "Apply", 1),)
    seen = observe(obj, manager_prefix=PREFIX)
    assert seen.managed_by("ours:one")
    assert not seen.managed_by("kube-controller-manager")
    assert our_managers({"metadata": {}}, PREFIX) == ()


def test_finalizers_are_kept_where_they_hold_up_a_deletion() -> None:
    assert observe(deployment(finalizers=["f"]), manager_prefix=PREFIX).finalizers == ()
    going = observe(deployment(finalizers=["f"], deletionTimestamp="t"), manager_prefix=PREFIX)
    assert (going.terminating, going.finalizers, going.uid, going.version) == (True, ("f",), "u", "5")


def test_observing_leaves_the_object_as_it_was() -> None:
    obj = deployment()
    before = copy.deepcopy(obj)
    observe(obj, manager_prefix=PREFIX)
    assert obj == before

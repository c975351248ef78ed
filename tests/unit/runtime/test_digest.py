from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vidra.runtime.digest import content_digest, json_digest, observed_digest

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def turned_around(value: Any) -> Any:
    """The same JSON value with the keys of each object in the opposite order."""
    if isinstance(value, dict):
        return {key: turned_around(value[key]) for key in reversed(value)}
    if isinstance(value, list):
        return [turned_around(item) for item in value]
    return value


def typed(value: Any) -> Any:
    """The value in a form in which Python too takes 1, 1.0 and true for three things."""
    if isinstance(value, dict):
        return {key: typed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [typed(item) for item in value]
    return (type(value), repr(value))


@given(JSON)
def test_the_order_of_keys_does_not_count(value: Any) -> None:
    assert json_digest(turned_around(value)) == json_digest(value)


@given(JSON, JSON)
def test_digests_are_equal_exactly_when_the_values_are(one: Any, two: Any) -> None:
    assert (json_digest(one) == json_digest(two)) == (typed(one) == typed(two))


def test_one_and_true_are_different_although_python_takes_them_for_equal() -> None:
    assert len({json_digest([value]) for value in (1, 1.0, True, "1")}) == 4


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_digest(float("nan"))
    with pytest.raises(TypeError):
        json_digest({"a": object()})


POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Thing",
    "metadata": {
        "name": "a",
        "uid": "u1",
        "generation": 3,
        "resourceVersion": "7",
        "labels": {"app": "web"},
        "managedFields": [{"manager": "x"}],
    },
    "spec": {"n": 1},
    "status": {"ready": True},
}


def changed(path: str, value: Any, obj: dict[str, Any] = POD) -> dict[str, Any]:
    """A copy with one field set, or removed where ``value`` is None."""
    copied = copy.deepcopy(obj)
    *parents, last = path.split(".")
    holder = copied
    for parent in parents:
        holder = holder[parent]
    if value is None:
        del holder[last]
    else:
        holder[last] = value
    return copied


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("status", {"ready": False}),
        ("status", None),
        ("metadata.resourceVersion", "8"),
        ("metadata.generation", 4),
        ("metadata.managedFields", None),
    ],
)
def test_the_content_leaves_out_status_and_bookkeeping(path: str, value: Any) -> None:
    assert content_digest(changed(path, value)) == content_digest(POD)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.n", 2),
        ("metadata.labels", {"app": "db"}),
        ("metadata.uid", "u2"),
        ("metadata.annotations", {"a": "b"}),
        ("metadata.finalizers", ["f"]),
    ],
)
def test_the_content_holds_all_else(path: str, value: Any) -> None:
    assert content_digest(changed(path, value)) != content_digest(POD)


def test_a_digest_leaves_its_object_as_it_was() -> None:
    before = copy.deepcopy(POD)
    content_digest(POD)
    observed_digest(POD)
    assert before == POD


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.uid", "u2"),
        ("metadata.generation", 4),
        ("metadata.labels", {"app": "db"}),
        ("metadata.annotations", {"a": "b"}),
        ("metadata.ownerReferences", [{"uid": "o"}]),
        ("metadata.finalizers", ["f"]),
        ("metadata.deletionTimestamp", "2026-01-01T00:00:00Z"),
    ],
)
def test_what_is_observed_tells_what_one_acts_upon(path: str, value: Any) -> None:
    assert observed_digest(changed(path, value)) != observed_digest(POD)


def test_what_is_observed_leaves_out_status_and_writes_of_nothing() -> None:
    same = changed("status", None, changed("metadata.resourceVersion", "9"))
    assert observed_digest(same) == observed_digest(POD)
    assert observed_digest(changed("metadata.annotations", {})) == observed_digest(POD)


def test_without_a_generation_the_content_and_the_uid_tell() -> None:
    config = {"kind": "ConfigMap", "metadata": {"name": "a", "uid": "u1", "resourceVersion": "7"}, "data": {"k": "v"}}
    assert observed_digest(changed("data.k", "w", config)) != observed_digest(config)
    assert observed_digest(changed("metadata.uid", "u2", config)) != observed_digest(config)
    assert observed_digest(changed("metadata.resourceVersion", "8", config)) == observed_digest(config)

"""Differences are told by field, and never by value."""

from __future__ import annotations

from typing import Any

import pytest

from vidra.deploy.drift import differences


def obj(**fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": "one", "resourceVersion": "1", "generation": 1, "managedFields": [1]}, **fields}


@pytest.mark.parametrize(
    ("live", "applied", "told"),
    [
        ({"data": {"a": "1"}}, {"data": {"a": "1"}}, ""),
        ({"data": {"a": "1"}}, {"data": {"a": "2"}}, "data.a"),
        ({"data": {"a": "1"}}, {"data": {}}, "data.a"),
        ({}, {"data": {"a": "1"}}, "data"),
        ({"data": {"tls.crt": "1"}}, {"data": {"tls.crt": "2"}}, "data[tls.crt]"),
        ({"spec": {"list": [{"x": 1}, {"x": 2}]}}, {"spec": {"list": [{"x": 1}, {"x": 3}]}}, "spec.list[1].x"),
        ({"spec": {"list": [1]}}, {"spec": {"list": [1, 2]}}, "spec.list"),
        ({"status": {"ready": 1}}, {"status": {"ready": 2}}, ""),
    ],
)
def test_the_field_that_differs_is_named(live: dict[str, Any], applied: dict[str, Any], told: str) -> None:
    assert differences(obj(**live), obj(**applied)) == told


def test_what_the_server_writes_by_itself_is_no_difference() -> None:
    later = obj() | {"metadata": {"name": "one", "resourceVersion": "9", "generation": 4, "managedFields": []}}
    assert differences(obj(), later) == ""


def test_labels_are_compared() -> None:
    labelled = {"metadata": {"name": "one", "labels": {"a": "1"}}}
    assert differences(obj(), labelled) == "metadata.labels"


def test_many_differences_are_counted_and_no_value_is_told() -> None:
    live = obj(data={str(number): "secret" for number in range(8)})
    text = differences(live, obj(data={str(number): "other" for number in range(8)}))
    assert text.endswith("and 3 more")
    assert "secret" not in text
    assert "other" not in text

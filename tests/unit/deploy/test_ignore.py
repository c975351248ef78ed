"""Fields that are left to others: which they are, and what is sent in their place."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vidra.api.common import IgnoreRule
from vidra.deploy.ignore import parse_pointer, pointers_for, with_live, without
from vidra.kube.client import Obj
from vidra.kube.resource import ObjectKey

KEY = ObjectKey("apps", "Deployment", "web", "one")
REPLICAS = ("spec", "replicas")


def body(**spec: Any) -> Obj:
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "one"}, "spec": spec}


def managed(live: Obj, manager: str, operation: str, fields: Obj) -> Obj:
    entry = {"manager": manager, "operation": operation, "fieldsV1": fields}
    return {**live, "metadata": {**live["metadata"], "managedFields": [entry]}}


def rule(*paths: str, **target: str) -> IgnoreRule:
    return IgnoreRule.model_validate({"target": target, "paths": paths})


@pytest.mark.parametrize(
    ("text", "pointer"),
    [
        ("/spec/replicas", REPLICAS),
        ("/metadata/annotations/example.com~1x", ("metadata", "annotations", "example.com/x")),
        ("/data/a~0b", ("data", "a~b")),
        ("/spec/items/0/", ("spec", "items", "0", "")),
    ],
)
def test_a_pointer_is_read_as_the_standard_says(text: str, pointer: tuple[str, ...]) -> None:
    assert parse_pointer(text) == pointer


@pytest.mark.parametrize("text", ["", "/", "spec/replicas", "/kind", "/apiVersion", "/metadata", "/metadata/name"])
def test_what_is_no_pointer_or_makes_the_object_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"pointer|ignored"):
        parse_pointer(text)


@pytest.mark.parametrize(
    ("target", "applies"),
    [
        ({}, True),
        ({"kind": "Deployment"}, True),
        ({"group": "apps", "kind": "Deployment", "namespace": "web", "name": "one"}, True),
        ({"kind": "StatefulSet"}, False),
        ({"name": "two"}, False),
        ({"group": "extensions"}, False),
        ({"namespace": "other"}, False),
    ],
)
def test_a_rule_is_for_what_its_target_matches(target: dict[str, str], applies: bool) -> None:
    assert bool(pointers_for([rule("/spec/replicas", **target)], KEY)) is applies


def test_rules_add_up_and_say_nothing_twice() -> None:
    rules = [rule("/spec/replicas", "/spec/paused"), rule("/spec/replicas")]
    assert pointers_for(rules, KEY) == (REPLICAS, ("spec", "paused"))


def test_stripping_takes_the_field_and_nothing_else_and_leaves_the_original() -> None:
    wanted = body(replicas=3, paused=True)
    before = copy.deepcopy(wanted)
    assert without(wanted, [REPLICAS]) == body(paused=True)
    assert wanted == before


@pytest.mark.parametrize("pointer", [("spec", "none", "deep"), ("spec", "list", "7"), ("spec", "list", "-"), ("x",)])
def test_a_field_that_is_not_there_is_no_fault(pointer: tuple[str, ...]) -> None:
    wanted = body(list=[1])
    assert without(wanted, [pointer]) == wanted
    assert with_live(wanted, wanted, [pointer], "us") == wanted


def test_the_live_value_is_sent_in_place_of_ours() -> None:
    live = managed(body(replicas=5), "us", "Apply", {"f:spec": {"f:replicas": {}}})
    assert with_live(body(), live, [REPLICAS], "us") == body(replicas=5)


def test_what_another_applies_is_not_sent_at_all() -> None:
    live = managed(body(replicas=5), "them", "Apply", {"f:spec": {"f:replicas": {}}})
    assert with_live(body(), live, [REPLICAS], "us") == body()


def test_what_another_only_updated_is_sent_since_nobody_would_keep_it_otherwise() -> None:
    live = managed(body(replicas=5), "hpa", "Update", {"f:spec": {"f:replicas": {}}})
    assert with_live(body(), live, [REPLICAS], "us") == body(replicas=5)


def test_a_whole_subtree_and_a_list_element_can_be_left_to_others() -> None:
    wanted = body(template={"labels": {"a": "1"}}, list=[{"image": "ours"}])
    live = body(template={"labels": {"b": "2"}}, list=[{"image": "theirs"}])
    pointers = [("spec", "template"), ("spec", "list", "0", "image")]
    assert without(wanted, pointers) == body(list=[{}])
    assert with_live(without(wanted, pointers), live, pointers, "us") == live


json = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9) | st.text("ab", max_size=2),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text("ab", max_size=1), children, max_size=3),
    max_leaves=12,
)


@given(json, json, st.lists(st.lists(st.sampled_from(["a", "b", "", "0", "1"]), min_size=1, max_size=4), max_size=3))
def test_whatever_is_live_and_wherever_a_pointer_leads_nothing_breaks(
    wanted: Any, live: Any, steps: list[list[str]]
) -> None:
    pointers = [("spec", *path) for path in steps]
    ours, theirs = body(x=1) | {"spec": wanted}, body(x=1) | {"spec": live}
    stripped = without(ours, pointers)
    with_live(stripped, theirs, pointers, "us")
    assert without(stripped, []) == stripped

"""Changes to managedFields: whose entries become whose, and what is tested before."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from vidra.api import names
from vidra.deploy.destination import see
from vidra.deploy.managers import (
    ADOPTING_MANAGER,
    LAST_APPLIED_ANNOTATION,
    RELEASED_MANAGER,
    adoption,
    hand_back,
    promotion,
    unite,
)
from vidra.kube.client import Obj

US = "vidra:one"
LABEL = f"f:{names.MANAGED_BY_LABEL}"


def entry(manager: str, operation: str, *keys: str, **more: Any) -> Obj:
    fields: Obj = {"f:data": {f"f:{key}": {} for key in keys}}
    return {"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsV1": fields, **more}


def obj(*entries: Obj, annotations: dict[str, str] | None = None, labels: dict[str, str] | None = None) -> Obj:
    metadata: Obj = {"name": "x", "uid": "u", "resourceVersion": "7", "managedFields": list(entries)}
    if annotations is not None:
        metadata["annotations"] = annotations
    if labels is not None:
        metadata["labels"] = labels
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def patched(before: Obj, patch: list[dict[str, Any]]) -> Obj:
    """The object after a JSON patch of the operations in use; a failed test is an AssertionError."""
    after = copy.deepcopy(before)
    for step in patch:
        *path, last = [part.replace("~1", "/").replace("~0", "~") for part in step["path"].split("/")[1:]]
        node: Any = after
        for part in path:
            node = node[int(part)] if isinstance(node, list) else node[part]
        if step["op"] == "test":
            assert node[last] == step["value"]
        elif step["op"] == "remove":
            del node[last]
        else:
            assert step["op"] == "add" or last in node
            node[last] = step["value"]
    return after


def entries(of: Obj) -> dict[tuple[str, str], set[str]]:
    """The data keys by manager and operation."""
    return {
        (found["manager"], found["operation"]): {key[2:] for key in found["fieldsV1"].get("f:data", {})}
        for found in of["metadata"]["managedFields"]
    }


def test_the_entry_of_a_post_becomes_one_of_an_apply() -> None:
    before = obj(entry("other", "Update", "b"), entry(US, "Update", "a"))
    patch = promotion(see(before), US)
    assert patch is not None
    assert entries(patched(before, patch)) == {("other", "Update"): {"b"}, (US, "Apply"): {"a"}}
    moved = obj(entry(US, "Update", "a"), entry("other", "Update", "b"))
    with pytest.raises(AssertionError):
        patched(moved, patch)


def test_what_is_an_apply_already_needs_no_promotion_and_both_at_once_need_more() -> None:
    assert promotion(see(obj(entry(US, "Apply", "a"))), US) == []
    assert promotion(see(obj(entry("vidra:two", "Update", "a"))), US) == []
    assert promotion(see(obj(entry(US, "Apply", "a"), entry(US, "Update", "b"))), US) is None


def test_uniting_touches_nobody_elses_entries() -> None:
    kubectl, status = entry("kubectl-edit", "Update", "c"), entry(US, "Update", "s", subresource="status")
    before = obj(entry(US, "Update", "b"), kubectl, entry(US, "Apply", "a"), status, entry("vidra:two", "Apply", "d"))
    after = patched(before, unite(before, US))
    assert entries(after) == {
        (US, "Apply"): {"a", "b"},
        ("kubectl-edit", "Update"): {"c"},
        (US, "Update"): {"s"},
        ("vidra:two", "Apply"): {"d"},
    }
    assert unite(after, US) == []
    assert unite(obj(kubectl), US) == []


@pytest.mark.parametrize(
    ("manager", "operation", "taken"),
    [
        ("kubectl-client-side-apply", "Update", True),
        ("kubectl", "Apply", True),
        ("kubectl-edit", "Update", True),
        ("before-first-apply", "Update", True),
        ("before-first-apply", "Apply", False),
        (RELEASED_MANAGER, "Update", True),
        ("helm", "Update", False),
        ("vidra:two", "Apply", False),
    ],
)
def test_adoption_takes_over_what_kubectl_and_we_ourselves_had(manager: str, operation: str, taken: bool) -> None:
    before = obj(entry(manager, operation, "a"), annotations={LAST_APPLIED_ANNOTATION: "{}", "note": "1"})
    after = patched(before, adoption(before, US, mark=True))
    assert entries(after) == {(US, "Apply") if taken else (manager, operation): {"a"}}
    wanted = {"note": "1", names.ADOPTED_ANNOTATION: names.ADOPTED_VALUE}
    left = {} if taken else {LAST_APPLIED_ANNOTATION: "{}"}
    assert after["metadata"]["annotations"] == wanted | left


def test_adoption_unites_several_and_forgets_that_it_owns_kubectls_copy() -> None:
    copy_of: Obj = {"f:metadata": {"f:annotations": {".": {}, f"f:{LAST_APPLIED_ANNOTATION}": {}}}}
    kubectl = entry("kubectl-client-side-apply", "Update", "a")
    kubectl["fieldsV1"] |= copy_of
    before = obj(kubectl, entry("kubectl-edit", "Update", "b"), annotations={LAST_APPLIED_ANNOTATION: "{}"})
    after = patched(before, adoption(before, US, mark=False))
    assert entries(after) == {(US, "Apply"): {"a", "b"}}
    (ours,) = after["metadata"]["managedFields"]
    assert LAST_APPLIED_ANNOTATION not in str(ours)
    assert after["metadata"]["annotations"] == {}
    assert adoption(after, US, mark=False) == []


def test_an_object_without_annotations_or_entries_is_marked_all_the_same() -> None:
    before = obj()
    after = patched(before, adoption(before, US, mark=True))
    assert after["metadata"]["annotations"] == {names.ADOPTED_ANNOTATION: names.ADOPTED_VALUE}
    assert adoption(before, US, mark=False) == []


@pytest.mark.parametrize("make", [unite, hand_back, lambda o, m: adoption(o, m, mark=True)])
def test_each_change_is_of_the_object_that_was_seen(make: Any) -> None:
    before = obj(entry(US, "Update", "a"), entry(US, "Apply", "b"))
    patch = make(before, US)
    newer = copy.deepcopy(before)
    newer["metadata"]["resourceVersion"] = "8"
    with pytest.raises(AssertionError):
        patched(newer, patch)


def test_handing_back_keeps_every_field_and_takes_our_marks_along() -> None:
    ours = entry(US, "Apply", "a")
    ours["fieldsV1"]["f:metadata"] = {"f:labels": {LABEL: {}, "f:tier": {}}}
    before = obj(
        ours,
        entry(ADOPTING_MANAGER, "Update"),
        entry("other", "Apply", "b"),
        annotations={names.ADOPTED_ANNOTATION: names.ADOPTED_VALUE, "note": "1"},
        labels={names.MANAGED_BY_LABEL: names.MANAGED_BY_VALUE, "tier": "web"},
    )
    after = patched(before, hand_back(before, US))
    assert entries(after) == {(RELEASED_MANAGER, "Update"): {"a"}, ("other", "Apply"): {"b"}}
    assert after["metadata"]["annotations"] == {"note": "1"}
    assert after["metadata"]["labels"] == {"tier": "web"}
    kept = after["metadata"]["managedFields"][0]["fieldsV1"]["f:metadata"]
    assert kept == {"f:labels": {"f:tier": {}}}
    assert hand_back(after, US) == []


def test_handing_back_leaves_no_empty_map_which_would_mean_the_whole_field() -> None:
    ours = entry(US, "Apply", "a")
    ours["fieldsV1"]["f:metadata"] = {"f:labels": {LABEL: {}}}
    before = obj(ours, labels={names.MANAGED_BY_LABEL: "somebody else's value"})
    after = patched(before, hand_back(before, US))
    assert after["metadata"]["managedFields"][0]["fieldsV1"] == {"f:data": {"f:a": {}}}
    assert after["metadata"]["labels"] == {names.MANAGED_BY_LABEL: "somebody else's value"}

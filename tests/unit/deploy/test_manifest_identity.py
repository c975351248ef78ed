"""What makes a document an object, how lists are taken apart, and where objects are placed."""

from __future__ import annotations

import pytest
from tests.unit.deploy.manifest_support import config_map, names, only, problems, refusal

from vidra.deploy.manifest import ManifestError, ManifestObject, place, read_manifest


def scope(group: str, version: str, kind: str) -> bool | None:
    return {"ConfigMap": True, "Ingress": True, "Namespace": False}.get(kind)


def placed(text: str, default: str | None = "apps") -> tuple[ManifestObject, ...]:
    return place(read_manifest(text), scope, default)


def misplaced(text: str, default: str | None = "apps") -> list[str]:
    with pytest.raises(ManifestError) as caught:
        placed(text, default)
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.case("P26")
@pytest.mark.parametrize(
    ("document", "said"),
    [
        ("just words", ": is text, not a Kubernetes object"),
        ("5", ": is a number, not a Kubernetes object"),
        ("off", ": is true or false, not a Kubernetes object"),
        ("- a\n- b", ": is a list, not a Kubernetes object"),
        ("apiVersion: v1\nmetadata: {name: a}", ", a: has no kind"),
        ("kind: ConfigMap\nmetadata: {name: a}", ", ConfigMap a: has no apiVersion"),
        ("apiVersion: v1\nkind: ConfigMap", ", ConfigMap: has no metadata.name"),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {}", ", ConfigMap: has no metadata.name"),
    ],
)
def test_what_is_no_object_is_named_and_not_skipped(document: str, said: str) -> None:
    assert refusal(f"{config_map('a')}---\n{document}\n") == f"document 2 (line 5){said}"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("metadata: {name: 123}", "metadata.name is a number, and must be text: quote it"),
        ("metadata: {name: on}", "metadata.name is true or false, and must be text: quote it"),
        ("metadata: {name: a, namespace: 5}", "metadata.namespace is a number, and must be text: quote it"),
        ("metadata: {name: [a]}", "metadata.name is a list, and must be text"),
        ("metadata: a", "metadata is text, and must be a map"),
        ("metadata: {name: ''}", "has no metadata.name"),
        ("metadata: {name: a/b}", "metadata.name 'a/b' can't be one: it would lead to another address"),
        ("metadata: {name: ..}", "metadata.name '..' can't be one: it would lead to another address"),
        ("metadata: {name: a%2fb}", "metadata.name 'a%2fb' can't be one: it would lead to another address"),
        (
            "metadata: {name: a, namespace: ../b}",
            "metadata.namespace '../b' can't be one: it would lead to another address",
        ),
        ('metadata: {name: "a\\nb"}', "metadata.name 'a\\\\nb' can't be one: it would lead to another address"),
    ],
)
def test_a_name_is_text_that_leads_to_one_address(line: str, said: str) -> None:
    found = refusal(f"apiVersion: v1\nkind: ConfigMap\n{line}\n")
    assert found.startswith("document 1 (line 3), ConfigMap")
    assert found.endswith(f": {said}")


@pytest.mark.parametrize("version", ["a/b/c", "/v1", "apps/", "..", "v1?x", "1", "[v1]"])
def test_an_api_version_leads_to_one_address(version: str) -> None:
    assert "apiVersion" in refusal(f"apiVersion: {version}\nkind: ConfigMap\nmetadata: {{name: a}}\n")


def test_all_that_an_object_lacks_is_told_at_once() -> None:
    assert [problem.message for problem in problems("x: y")] == [
        "has no apiVersion",
        "has no kind",
        "has no metadata.name",
    ]


@pytest.mark.case("I01")
def test_a_generated_name_is_refused_with_the_reason_and_nothing_of_the_set_is_read() -> None:
    job = "apiVersion: batch/v1\nkind: Job\nmetadata:\n  generateName: run-\n"
    assert refusal(f"{config_map('a')}---\n{job}") == (
        "document 2 (line 8), Job: generateName cannot be reconciled: each pass would make another object; "
        "give it a metadata.name"
    )


def test_a_generated_name_beside_a_name_is_harmless() -> None:
    assert names("apiVersion: batch/v1\nkind: Job\nmetadata: {name: run, generateName: run-}\n") == ["run"]


@pytest.mark.parametrize(
    ("head", "item"),
    [
        ("apiVersion: v1\nkind: List", "apiVersion: v1\n  kind: ConfigMap\n  metadata"),
        ("apiVersion: v1\nkind: ConfigMapList\nmetadata: {resourceVersion: '5'}", "metadata"),
    ],
)
def test_lists_are_taken_apart_and_items_may_leave_out_the_lists_kind(head: str, item: str) -> None:
    text = f"{head}\nitems:\n- {item}: {{name: a}}\n- {item}: {{name: b}}\n"
    found = read_manifest(text)
    assert [(x.api_version, x.kind, x.name, x.document) for x in found] == [
        ("v1", "ConfigMap", "a", 1),
        ("v1", "ConfigMap", "b", 1),
    ]
    assert found[0].line < found[1].line


def test_lists_inside_of_lists_are_taken_apart() -> None:
    item = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}"
    inner = f"{{apiVersion: v1, kind: List, items: [{item}]}}"
    assert names(f"{{apiVersion: v1, kind: List, items: [{inner}, {item}]}}") == ["a", "a"]


def test_a_fault_in_a_list_names_the_item() -> None:
    text = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n"
    text += "  metadata:\n    name: a\n    labels: {x: 1}\n"
    assert refusal(text) == (
        "document 1 (line 8), ConfigMap a: items[0].metadata.labels: x is a number, and must be text: quote it"
    )
    assert refusal(f"{text}    labels: {{}}\n").startswith(
        "document 1 (line 9), ConfigMap a: the key 'labels' is there"
    )


def test_an_empty_list_holds_no_objects_and_one_without_items_is_refused() -> None:
    assert read_manifest("apiVersion: v1\nkind: List\nitems: []\n") == ()
    assert refusal("apiVersion: v1\nkind: List\n") == "document 1 (line 1), List: is a List without a list of items"


@pytest.mark.parametrize("kind", ["Thing", "AllowList"])
def test_a_named_object_with_items_is_no_list(kind: str) -> None:
    found = only(f"apiVersion: example.test/v1\nkind: {kind}\nmetadata: {{name: a}}\nitems: [{{x: 1}}]\n")
    assert (found.kind, found.body["items"]) == (kind, [{"x": 1}])


@pytest.mark.case("I02")
def test_an_object_without_namespace_goes_to_the_default_and_others_stay() -> None:
    found = placed(f"{config_map('a')}---\n{config_map('b').replace('name: b', 'name: b, namespace: own')}")
    assert [(item.namespace, item.key.namespace) for item in found] == [("apps", "apps"), ("own", "own")]


@pytest.mark.case("I02")
@pytest.mark.parametrize("namespace", ["''", "null", ""])
@pytest.mark.parametrize("default", [None, ""])
def test_an_object_never_lands_in_an_empty_namespace(namespace: str, default: str | None) -> None:
    text = f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  namespace: {namespace}\n"
    assert placed(text)[0].namespace == "apps"
    assert misplaced(text, default) == [
        "document 1 (line 1), ConfigMap a: has no namespace, and there is no default to put it in"
    ]


def test_a_cluster_scoped_object_loses_a_namespace_and_an_unknown_kind_keeps_what_it_has() -> None:
    text = "apiVersion: v1\nkind: {}\nmetadata: {{name: a, namespace: b}}\n"
    assert placed(text.format("Namespace"))[0].namespace is None
    assert placed(text.format("Unknown"))[0].namespace == "b"


@pytest.mark.case("I05")
def test_an_object_declared_twice_is_an_error_that_names_both_documents() -> None:
    explicit = config_map("a", "data: {x: y}").replace("name: a", "name: a, namespace: apps")
    assert misplaced(f"{config_map('a')}---\n{config_map('b')}---\n{explicit}") == [
        "document 3 (line 9), ConfigMap apps/a: is declared twice: also by document 1 (line 1)"
    ]


def test_an_object_declared_in_two_versions_is_declared_twice() -> None:
    text = "apiVersion: networking.k8s.io/{}\nkind: Ingress\nmetadata: {{name: a}}\n"
    assert len(misplaced(f"{text.format('v1')}---\n{text.format('v1beta1')}")) == 1


def test_one_name_in_two_namespaces_kinds_or_groups_is_two_objects() -> None:
    elsewhere = config_map("a").replace("name: a", "name: a, namespace: b")
    assert (
        len(placed(f"{config_map('a')}---\n{elsewhere}---\n{config_map('a').replace('ConfigMap', 'Namespace')}")) == 3
    )


def test_placing_leaves_what_was_read_as_it_was() -> None:
    before = read_manifest(config_map("a"))
    digest = before[0].digest
    after = place(before, scope, "apps")
    assert before[0].namespace is None
    assert before[0].digest == digest != after[0].digest

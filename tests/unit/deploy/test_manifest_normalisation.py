"""What an object is cleared of and completed with, and which values of built-in kinds must be text."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any

import pytest
from tests.unit.deploy.manifest_support import body, config_map, only, problems, refusal, thing

CERTIFICATE = b64encode(b"-----BEGIN CERTIFICATE-----\nQQ==\n-----END CERTIFICATE-----\n").decode()


def secret(rest: str) -> str:
    return f"apiVersion: v1\nkind: Secret\nmetadata: {{name: a}}\n{rest}\n"


def unpacked(text: str) -> dict[str, str]:
    return {key: b64decode(value).decode() for key, value in body(text)["data"].items()}


@pytest.mark.case("A06")
@pytest.mark.parametrize("kind", ["v1\nkind: ConfigMap", "apps/v1\nkind: Deployment", "example.test/v1\nkind: Thing"])
def test_what_only_the_server_writes_is_left_out(kind: str) -> None:
    text = f"""
apiVersion: {kind}
metadata:
  name: a
  namespace: b
  labels: {{app: a}}
  finalizers: [example.test/wait]
  uid: 8d1b
  resourceVersion: "5"
  generation: 3
  selfLink: /api/v1/a
  creationTimestamp: null
  deletionTimestamp: 2024-01-01T00:00:00Z
  deletionGracePeriodSeconds: 30
  managedFields: [{{manager: kubectl}}]
  annotations:
    kubectl.kubernetes.io/last-applied-configuration: "{{}}"
    deployment.kubernetes.io/revision: "4"
status: {{phase: Active}}
"""
    found = body(text)
    assert "status" not in found
    assert found["metadata"] == {
        "name": "a",
        "namespace": "b",
        "labels": {"app": "a"},
        "finalizers": ["example.test/wait"],
    }


def test_annotations_of_people_stay() -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, annotations: {kubectl.kubernetes.io/x: y}}\n"
    assert body(text)["metadata"]["annotations"] == {"kubectl.kubernetes.io/x": "y"}


@pytest.mark.case("P28")
def test_null_maps_are_absent_and_a_null_value_is_empty_text() -> None:
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n"
    plain = only(head)
    assert only(f"{head}  labels: null\n  annotations:\ndata: ~\nbinaryData:\n").body == plain.body
    found = only(f"{head}  annotations: {{a: null, b: c}}\n")
    assert found.body["metadata"]["annotations"] == {"a": "", "b": "c"}
    assert found.digest == only(f"{head}  annotations: {{a: '', b: c}}\n").digest


@pytest.mark.case("P12")
def test_a_label_or_annotation_that_is_no_text_is_refused_by_field_and_object() -> None:
    text = (
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  labels:\n    build: 1234567890\n"
        "  annotations:\n    prometheus.io/port: 8181\n"
    )
    assert [str(problem) for problem in problems(text)] == [
        "document 1 (line 6), ConfigMap a: metadata.labels: build is a number, and must be text: quote it",
        "document 1 (line 8), ConfigMap a: metadata.annotations: prometheus.io/port is a number, "
        "and must be text: quote it",
    ]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("1.10", "is a number, and must be text: quote it"),
        ("off", "is true or false, and must be text: quote it"),
        ("[a]", "is a list, and must be text"),
        ("{a: b}", "is a map, and must be text"),
    ],
)
@pytest.mark.parametrize(
    ("kind", "place", "field"),
    [
        ("example.test/v1\nkind: Thing", "metadata: {name: a, labels: {k: V}}", "metadata.labels"),
        ("v1\nkind: ConfigMap", "data: {k: V}", "data"),
        ("v1\nkind: ConfigMap", "binaryData: {k: V}", "binaryData"),
        ("v1\nkind: Secret", "data: {k: V}", "data"),
        ("v1\nkind: Secret", "stringData: {k: V}", "stringData"),
        ("v1\nkind: Service", "spec: {selector: {k: V}}", "spec.selector"),
        ("apps/v1\nkind: Deployment", "spec: {selector: {matchLabels: {k: V}}}", "spec.selector.matchLabels"),
        (
            "apps/v1\nkind: Deployment",
            "spec: {template: {metadata: {annotations: {k: V}}}}",
            "spec.template.metadata.annotations",
        ),
        ("v1\nkind: Pod", "spec: {nodeSelector: {k: V}}", "spec.nodeSelector"),
        ("storage.k8s.io/v1\nkind: StorageClass", "parameters: {k: V}", "parameters"),
    ],
)
def test_what_must_be_text_is_refused_as_anything_else(
    kind: str, place: str, field: str, value: str, said: str
) -> None:
    name = "" if place.startswith("metadata") else "metadata: {name: a}\n"
    found = refusal(f"apiVersion: {kind}\n{name}{place.replace('V', value)}\n")
    assert found.endswith(f": {field}: k {said}")


def test_maps_of_other_kinds_are_left_to_their_definitions() -> None:
    spec = {
        "selector": {"matchLabels": {"k": 1}},
        "containers": [{"env": [{"name": "a", "value": 1}] * 2, "ports": [{}]}],
    }
    assert body(thing(f"spec: {spec}\ndata: {{a: 1}}"))["spec"] == spec


def test_selectors_of_nodes_with_terms_are_no_maps_of_text() -> None:
    required = "{nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}"
    text = f"apiVersion: v1\nkind: PersistentVolume\nmetadata: {{name: a}}\nspec: {{nodeSelector: {required}}}\n"
    assert "nodeSelectorTerms" in body(text)["spec"]["nodeSelector"]


@pytest.mark.case("A09")
def test_string_data_is_folded_into_data_and_wins() -> None:
    assert unpacked(secret("data: {pass: b2xk, other: eA==}\nstringData: {user: me, pass: new}")) == {
        "user": "me",
        "pass": "new",
        "other": "x",
    }
    assert "stringData" not in body(secret("stringData: {a: b}"))


@pytest.mark.case("A09")
def test_a_key_that_left_string_data_is_not_in_data_any_more() -> None:
    assert unpacked(secret("stringData: {user: me, pass: x}")).keys() == {"user", "pass"}
    assert unpacked(secret("stringData: {user1: me, pass: x}")).keys() == {"user1", "pass"}


def test_string_data_keeps_every_character() -> None:
    assert unpacked(secret('stringData: {a: "ä😀\\r\\n\\u0007", b: , c: ""}')) == {"a": "ä😀\r\n\a", "b": "", "c": ""}


@pytest.mark.parametrize("value", ["plain!", "YQ", "a b", "'='", "ä"])
def test_data_that_is_no_base64_is_refused_with_a_hint(value: str) -> None:
    assert refusal(secret(f"data: {{pass: {value}}}")).endswith(
        "Secret a: data: pass isn't base64: plain text goes into stringData"
    )
    assert refusal(config_map("a", f"binaryData: {{pass: {value}}}")).endswith("a: binaryData: pass isn't base64")


def test_base64_may_be_wrapped_and_is_sent_as_it_is() -> None:
    assert body(secret("data:\n  a: |\n    YWJj\n    ZGVm\n"))["data"] == {"a": "YWJj\nZGVm\n"}


@pytest.mark.case("A11")
def test_binary_data_stays_and_a_changed_byte_changes_the_digest() -> None:
    before, after = (b64encode(blob).decode() for blob in (b"a\r\n\x00\xff", b"a\r\n\x00\xfe"))
    text = config_map("a", "data: {text: x}\nbinaryData: {blob: BLOB}\n")
    first, second = only(text.replace("BLOB", before)), only(text.replace("BLOB", after))
    assert b64decode(first.body["binaryData"]["blob"]) == b"a\r\n\x00\xff"
    assert first.digest != second.digest


@pytest.mark.case("A11")
def test_a_key_in_data_and_in_binary_data_is_refused() -> None:
    assert refusal(config_map("a", "data: {x: y}\nbinaryData: {x: eQ==}")).endswith(
        "ConfigMap a: the key x is in data and in binaryData"
    )


@pytest.mark.case("A17")
def test_claim_templates_are_cleared_of_time_and_sent_as_written() -> None:
    template = "{metadata: {name: data, creationTimestamp: null, labels: null}, spec: {accessModes: [ReadWriteOnce]}}"
    text = (
        f"apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {{name: a}}\nspec: {{volumeClaimTemplates: [{template}]}}\n"
    )
    assert body(text)["spec"]["volumeClaimTemplates"] == [
        {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    ]


@pytest.mark.parametrize(
    ("bundle", "stays"),
    [(CERTIFICATE, True), ("Cg==", False), ("''", False), ("placeholder", False), ("null", False), ("5", False)],
)
def test_only_a_real_bundle_stays_where_one_may_be_injected(bundle: str, stays: bool) -> None:
    webhook = f"{{clientConfig: {{service: {{name: a}}, caBundle: {bundle}}}}}"
    found = body(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a}\n"
        f"spec: {{conversion: {{strategy: Webhook, webhook: {webhook}}}}}\nstatus: {{conditions: []}}\n"
    )
    assert ("caBundle" in found["spec"]["conversion"]["webhook"]["clientConfig"]) is stays
    head = "apiVersion: admissionregistration.k8s.io/v1\nkind: {}WebhookConfiguration\nmetadata: {{name: a}}\n"
    for kind in ("Mutating", "Validating"):
        found = body(head.format(kind) + f"webhooks: [{{name: b, clientConfig: {{caBundle: {bundle}}}}}, words]\n")
        assert ("caBundle" in found["webhooks"][0]["clientConfig"]) is stays
    service = "apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {name: a}\n"
    assert ("caBundle" in body(f"{service}spec: {{group: b, caBundle: {bundle}}}\n")["spec"]) is stays
    assert "status" not in found


@pytest.mark.parametrize("spec", ["x", "{conversion: }", "{conversion: {webhook: [a]}}", "[]"])
def test_a_definition_of_an_odd_shape_is_left_to_the_server(spec: str) -> None:
    head = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a}\n"
    assert body(f"{head}spec: {spec}\n")["spec"] is not None


def test_a_revision_of_a_controller_is_data_and_left_alone() -> None:
    data: dict[str, Any] = {"spec": {"template": {"metadata": {"labels": {"a": 1}, "creationTimestamp": None}}}}
    head = "apiVersion: apps/v1\nkind: ControllerRevision\nmetadata: {name: a}\n"
    assert (
        body(f"{head}data: {{spec: {{template: {{metadata: {{labels: {{a: 1}}, creationTimestamp: null}}}}}}}}\n")[
            "data"
        ]
        == data
    )


def test_a_field_that_is_no_map_is_refused() -> None:
    assert refusal(config_map("a", "data: text")).endswith("ConfigMap a: data is text, and must be a map")
    assert refusal(secret("data: [a]\nstringData: {a: b}")).endswith("Secret a: data is a list, and must be a map")

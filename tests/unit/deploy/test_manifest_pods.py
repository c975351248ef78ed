"""Containers in every kind that has some: ports, environment and commands."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.unit.deploy.manifest_support import body, problems, refusal

CONTAINER_KINDS = {
    "Pod": ("v1", ("spec",)),
    "Deployment": ("apps/v1", ("spec", "template", "spec")),
    "StatefulSet": ("apps/v1", ("spec", "template", "spec")),
    "DaemonSet": ("apps/v1", ("spec", "template", "spec")),
    "ReplicaSet": ("apps/v1", ("spec", "template", "spec")),
    "ReplicationController": ("v1", ("spec", "template", "spec")),
    "PodTemplate": ("v1", ("template", "spec")),
    "Job": ("batch/v1", ("spec", "template", "spec")),
    "CronJob": ("batch/v1", ("spec", "jobTemplate", "spec", "template", "spec")),
}


def workload(kind: str, pod: str) -> str:
    version, path = CONTAINER_KINDS[kind]
    for step in reversed(path):
        pod = f"{{{step}: {pod}}}"
    return f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: a}}\n{pod[1:-1]}\n"


def pod_of(kind: str, pod: str) -> Any:
    found: Any = body(workload(kind, pod))
    for step in CONTAINER_KINDS[kind][1]:
        found = found[step]
    return found


def deployment(container: str) -> str:
    return workload("Deployment", f"{{containers: [{{name: web, {container}}}]}}")


@pytest.mark.case("P10")
def test_an_environment_value_that_is_no_text_is_refused_with_what_to_do() -> None:
    text = (
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec:\n  template:\n    spec:\n      containers:\n"
        "      - name: web\n        env:\n        - name: DEBUG\n          value: off\n"
        "        - name: TRACE\n          value: yes\n"
    )
    assert [str(problem) for problem in problems(text)] == [
        f"document 1 (line {line}), Deployment a: container web: the value of env {name} is true or false, "
        "and must be text: quote it"
        for line, name in ((11, "DEBUG"), (13, "TRACE"))
    ]


@pytest.mark.parametrize("kind", CONTAINER_KINDS)
@pytest.mark.parametrize("containers", ["containers", "initContainers", "ephemeralContainers"])
def test_every_container_of_every_kind_is_looked_into(kind: str, containers: str) -> None:
    pod = f"{{{containers}: [{{name: b, env: [{{name: N, value: 8080}}], ports: [{{containerPort: 80}}]}}]}}"
    assert "container b: the value of env N is a number" in refusal(workload(kind, pod))
    found = pod_of(kind, pod.replace("8080", "'8080'"))
    assert found[containers][0]["ports"] == [{"containerPort": 80, "protocol": "TCP"}]


@pytest.mark.parametrize(
    ("container", "said"),
    [
        ("args: [a, 1]", "container web: item 2 of args is a number, and must be text: quote it"),
        ("command: [off]", "container web: item 1 of command is true or false, and must be text: quote it"),
        (
            "env: [{name: NO, value: a}]",
            "container web: the name of env 1 is true or false, and must be text: quote it",
        ),
        ("env: [{name: A, value: [a]}]", "container web: the value of env A is a list, and must be text"),
        ("env: [{value: 1}]", "container web: the value of env 1 is a number, and must be text: quote it"),
    ],
)
def test_what_a_container_is_told_must_be_text(container: str, said: str) -> None:
    assert refusal(deployment(container)) == f"document 1 (line 4), Deployment a: {said}"


def test_an_environment_value_of_null_is_absent() -> None:
    variables = pod_of("Deployment", "{containers: [{env: [{name: A, value: null}, {name: B, value: ''}, {name: C}]}]}")
    assert variables["containers"][0]["env"] == [{"name": "A"}, {"name": "B", "value": ""}, {"name": "C"}]


@pytest.mark.case("A05")
def test_an_environment_variable_twice_is_refused_by_container_and_name() -> None:
    env = "env: [{name: REPEATED, value: a}, {name: OTHER, value: b}, {name: REPEATED, value: a}]"
    assert refusal(deployment(env)) == "document 1 (line 4), Deployment a: container web: env has REPEATED twice"


@pytest.mark.parametrize(
    ("pod", "said"),
    [
        (
            "{containers: [{ports: [{containerPort: 80, name: a}, {containerPort: 80, name: b}]}]}",
            "ports has 80 TCP twice",
        ),
        ("{containers: [], imagePullSecrets: [{name: a}, {name: a}]}", "the pod: imagePullSecrets has a twice"),
        ("{containers: [], hostAliases: [{ip: 10.0.0.1}, {ip: 10.0.0.1}]}", "the pod: hostAliases has 10.0.0.1 twice"),
    ],
)
def test_what_kubernetes_merges_by_a_key_holds_it_once(pod: str, said: str) -> None:
    assert refusal(workload("Pod", pod)).endswith(said)


@pytest.mark.case("A01")
def test_ports_get_the_protocol_that_the_server_would_add() -> None:
    service = (
        "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {ports: [{port: 80}, {port: 81, protocol: null}]}\n"
    )
    assert body(service)["spec"]["ports"] == [{"port": 80, "protocol": "TCP"}, {"port": 81, "protocol": "TCP"}]


@pytest.mark.case("A02")
def test_one_port_with_two_protocols_is_two_ports() -> None:
    ports = "[{port: 53, name: a, protocol: TCP}, {port: 53, name: b, protocol: UDP}]"
    head = "apiVersion: v1\nkind: Service\nmetadata: {name: dns}\n"
    assert [port["protocol"] for port in body(f"{head}spec: {{ports: {ports}}}")["spec"]["ports"]] == ["TCP", "UDP"]
    assert refusal(f"{head}spec: {{ports: {ports.replace('UDP', 'TCP')}}}").endswith(
        "the service: ports has 53 TCP twice"
    )


@pytest.mark.parametrize("odd", [None, 5, "x", [], {}, [None], ["x"], [5], [[]], [{}], [{"name": []}], [{"value": {}}]])
@pytest.mark.parametrize("field", ["env", "ports", "command", "args"])
def test_an_odd_shape_is_left_to_the_server_or_refused_but_never_a_crash(field: str, odd: Any) -> None:
    text = deployment(f"{field}: {json.dumps(odd)}")
    if field in ("command", "args") and isinstance(odd, list) and any(not isinstance(item, str) for item in odd):
        assert f"item 1 of {field}" in refusal(text)
    elif field == "env" and odd == [{"value": {}}]:
        assert "the value of env 1 is a map" in refusal(text)
    else:
        found = body(text)["spec"]["template"]["spec"]["containers"][0][field]
        port = field == "ports" and isinstance(odd, list) and odd and isinstance(odd[0], dict)
        assert found == ([{**odd[0], "protocol": "TCP"}] if port else odd)

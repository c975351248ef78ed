"""One object, made ready to send: what only the server may write goes, what every server would add comes.

Works in place on a freshly read body and reports what must be mended by people. Only kinds built into Kubernetes are
looked into; what a custom resource's fields mean is known to its CustomResourceDefinition alone, so beyond their
metadata they are left to the API server.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from typing import Any

from vidra.api import names
from vidra.deploy.pods import check_pod, default_protocol, unique
from vidra.deploy.problems import short
from vidra.deploy.textmaps import Path, Report, text_map
from vidra.kube.resource import split_api_version

#: Written by the server alone; an apply that holds them is refused (managedFields) or means an old state.
_SERVER_SET = (
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
)

#: Come with objects exported from a cluster: kubectl's own copy of the object, a counter of a controller's, and Vidra's
#: mark of what it took over.
_EXPORTED_ANNOTATIONS = (
    "kubectl.kubernetes.io/last-applied-configuration",
    "deployment.kubernetes.io/revision",
    names.ADOPTED_ANNOTATION,
)

_BUILT_IN = frozenset(
    {"", "apps", "autoscaling", "batch", "extensions", "policy"}
    | {
        f"{group}.k8s.io"
        for group in (
            "admissionregistration",
            "apiregistration",
            "certificates",
            "coordination",
            "discovery",
            "events",
            "flowcontrol.apiserver",
            "networking",
            "node",
            "rbac.authorization",
            "resource",
            "scheduling",
            "storage",
        )
    }
)

#: Beside CustomResourceDefinition, which is no built-in kind otherwise.
_WITH_CA_BUNDLE = frozenset(
    {
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
        ("apiregistration.k8s.io", "APIService"),
    }
)

#: Maps of text to text wherever they stand in a built-in kind.
_TEXT_MAPS = ("matchLabels", "nodeSelector", "volumeAttributes")


def normalize(body: dict[str, Any], path: Path, report: Report) -> None:
    """Clean and check ``body``, whose identity was checked before; ``path`` is its own in its document."""
    metadata: dict[str, Any] = body["metadata"]
    for key in _SERVER_SET:
        metadata.pop(key, None)
    if not metadata.get("namespace"):
        metadata.pop("namespace", None)
    body.pop("status", None)
    _labels_and_annotations(metadata, (*path, "metadata"), report)

    group, _ = split_api_version(body["apiVersion"])
    kind = (group, body["kind"])
    if kind == ("", "ConfigMap"):
        _config_map(body, path, report)
    elif kind == ("", "Secret"):
        _secret(body, path, report)
    elif kind == ("apiextensions.k8s.io", "CustomResourceDefinition"):
        _ca_placeholders(body)
    elif kind in _WITH_CA_BUNDLE:
        _ca_placeholders(body)
        _built_in(body, kind, path, report)
    elif group in _BUILT_IN and kind != ("apps", "ControllerRevision"):
        _built_in(body, kind, path, report)


def _labels_and_annotations(metadata: dict[str, Any], path: Path, report: Report) -> None:
    text_map(metadata, "labels", path, report)
    annotations = text_map(metadata, "annotations", path, report)
    if annotations:
        for name in _EXPORTED_ANNOTATIONS:
            annotations.pop(name, None)
        if not annotations:
            del metadata["annotations"]


def _config_map(body: dict[str, Any], path: Path, report: Report) -> None:
    data = text_map(body, "data", path, report) or {}
    binary = _base64_map(body, "binaryData", path, report) or {}
    for key in data.keys() & binary.keys():
        report((*path, "binaryData", key), f"the key {short(key)} is in data and in binaryData")


def _secret(body: dict[str, Any], path: Path, report: Report) -> None:
    data = _base64_map(body, "data", path, report)
    plain = text_map(body, "stringData", path, report)
    if plain is None or body.get("data") is not data:
        return
    # Sent as stringData, a key that leaves it would stay in data: the server folds it away and forgets who set it.
    body["data"] = (data or {}) | {
        key: b64encode(value.encode()).decode() for key, value in plain.items() if isinstance(value, str)
    }
    del body["stringData"]


def _base64_map(body: dict[str, Any], key: str, path: Path, report: Report) -> dict[str, str] | None:
    values = text_map(body, key, path, report)
    for name, value in (values or {}).items():
        if not isinstance(value, str):
            continue  # reported
        try:
            b64decode(value.replace("\r", "").replace("\n", ""), validate=True)
        except (binascii.Error, ValueError):
            hint = ": plain text goes into stringData" if key == "data" else ""
            report((*path, key, name), f"{key}: {short(name)} isn't base64{hint}")
    return values


def _ca_placeholders(body: dict[str, Any]) -> None:
    """Take out placeholders where a CA bundle is to be injected. We would own them, and so take the injector's bundle
    away again on each pass; and in definitions API servers since 1.31 refuse them."""
    spec = body.get("spec")
    owners = [spec, _descend(spec, "conversion", "webhook", "clientConfig")]
    webhooks = body.get("webhooks")
    owners += [_descend(webhook, "clientConfig") for webhook in (webhooks if isinstance(webhooks, list) else ())]
    for owner in owners:
        if isinstance(owner, dict) and "caBundle" in owner and not _is_ca_bundle(owner["caBundle"]):
            del owner["caBundle"]


def _descend(node: Any, *steps: str) -> Any:
    for step in steps:
        node = node.get(step) if isinstance(node, dict) else None
    return node


def _is_ca_bundle(value: Any) -> bool:
    try:
        bundle = b64decode(str(value).replace("\r", "").replace("\n", ""), validate=True)
    except (binascii.Error, ValueError):
        return False
    return b"-----BEGIN CERTIFICATE-----" in bundle


def _built_in(body: dict[str, Any], kind: tuple[str, str], path: Path, report: Report) -> None:
    spec = body.get("spec")
    if kind == ("", "Service") and isinstance(spec, dict):
        default_protocol(spec)
        unique(spec, "ports", ("port", "protocol"), (*path, "spec"), "the service", report)
    if kind in (("", "Service"), ("", "ReplicationController")) and isinstance(spec, dict):
        text_map(spec, "selector", (*path, "spec"), report)
    if kind == ("storage.k8s.io", "StorageClass"):
        text_map(body, "parameters", path, report)

    todo: list[tuple[Any, Path]] = [
        (value, (*path, key)) for key, value in body.items() if key != "metadata" and isinstance(value, dict | list)
    ]
    while todo:
        node, at = todo.pop()
        if isinstance(node, list):
            todo += ((item, (*at, index)) for index, item in enumerate(node) if isinstance(item, dict | list))
            continue
        for key in _TEXT_MAPS:
            if key in node and not _is_node_selector(node[key]):
                text_map(node, key, at, report)
        if isinstance(node.get("metadata"), dict):  # of a template
            node["metadata"].pop("creationTimestamp", None)
            _labels_and_annotations(node["metadata"], (*at, "metadata"), report)
        check_pod(node, at, report)
        todo += ((value, (*at, key)) for key, value in node.items() if isinstance(value, dict | list))


def _is_node_selector(value: Any) -> bool:
    """The other thing of that name, with terms in it."""
    return isinstance(value, dict) and "nodeSelectorTerms" in value

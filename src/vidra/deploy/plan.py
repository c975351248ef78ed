"""In which order objects are applied, and the reverse in which they go.

Four stages, each waits for the one before: definitions and places (CRD, Namespace, ClusterRole), classes, the rest,
and last what can stop others from being written (webhooks, APIServices). Within a stage the kind gives the order in
which work is begun; it is Flux' order (facts of fluxcd/pkg ssa/sort.go), since users' charts were tried with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum

from vidra.kube.resource import ObjectKey


class Stage(IntEnum):
    DEFINITIONS = 0
    CLASSES = 1
    REST = 2
    GATES = 3


_FIRST = (
    "CustomResourceDefinition",
    "Namespace",
    "ClusterRole",
    "ClusterClass",
    "RuntimeClass",
    "PriorityClass",
    "StorageClass",
    "VolumeSnapshotClass",
    "IngressClass",
    "GatewayClass",
    "ClusterRoleBinding",
    "ResourceQuota",
    "ServiceAccount",
    "Role",
    "RoleBinding",
    "ConfigMap",
    "Secret",
    "Service",
    "LimitRange",
    "Deployment",
    "StatefulSet",
    "CronJob",
    "PodDisruptionBudget",
)
_LAST = (
    "APIService",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
    "MutatingAdmissionPolicy",
    "ValidatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "ValidatingAdmissionPolicyBinding",
)
_RANKS = {kind: rank for rank, kind in enumerate(_FIRST)} | {kind: 1000 + rank for rank, kind in enumerate(_LAST)}
_DEFINITIONS = frozenset({"CustomResourceDefinition", "Namespace", "ClusterRole"})
_GATES = frozenset(_LAST)
_CLASSES = frozenset(
    {
        "ClusterClass",
        "RuntimeClass",
        "PriorityClass",
        "StorageClass",
        "VolumeSnapshotClass",
        "VolumeAttributesClass",
        "IngressClass",
        "GatewayClass",
        "DeviceClass",
        "FlowSchema",
        "PriorityLevelConfiguration",
    }
)


def stage_of(kind: str) -> Stage:
    if kind in _DEFINITIONS:
        return Stage.DEFINITIONS
    if kind in _CLASSES:
        return Stage.CLASSES
    return Stage.GATES if kind in _GATES else Stage.REST


def rank(key: ObjectKey) -> tuple[int, ObjectKey]:
    """Sorts objects into the order of application, the same on every run."""
    return _RANKS.get(key.kind, 500), key


def stages(keys: Iterable[ObjectKey]) -> list[tuple[Stage, list[ObjectKey]]]:
    """The stages that have something in them, in order, each in the order of application."""
    by_stage: dict[Stage, list[ObjectKey]] = {}
    for key in sorted(keys, key=rank):
        by_stage.setdefault(stage_of(key.kind), []).append(key)
    return sorted(by_stage.items())


def reverse_stages(keys: Iterable[ObjectKey]) -> list[list[ObjectKey]]:
    """The order of deletion: gates first, then what they guarded, definitions and places last."""
    return [list(reversed(group)) for _, group in reversed(stages(keys))]


def by_kind(keys: Sequence[ObjectKey]) -> list[list[ObjectKey]]:
    """Runs of one rank, for work that begins with all of one kind before the next."""
    runs: list[list[ObjectKey]] = []
    for key in keys:
        if runs and _RANKS.get(runs[-1][0].kind, 500) == _RANKS.get(key.kind, 500):
            runs[-1].append(key)
        else:
            runs.append([key])
    return runs

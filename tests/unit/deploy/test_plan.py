"""The order of application and of deletion."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from vidra.deploy.plan import Stage, by_kind, rank, reverse_stages, stage_of, stages
from vidra.kube.resource import ObjectKey

KINDS = (
    "CustomResourceDefinition",
    "Namespace",
    "ClusterRole",
    "StorageClass",
    "ConfigMap",
    "Deployment",
    "Thing",
    "ValidatingWebhookConfiguration",
    "APIService",
)
#: No deadline: other work on the machine is no fault.
few = settings(max_examples=50, deadline=None)
keys = st.builds(ObjectKey, st.just(""), st.sampled_from(KINDS), st.sampled_from(["", "a"]), st.sampled_from("xyz"))


def key(kind: str, name: str = "x") -> ObjectKey:
    return ObjectKey("", kind, "", name)


def test_definitions_come_first_and_what_can_stop_others_last() -> None:
    order = [key("ValidatingWebhookConfiguration"), key("Thing"), key("IngressClass"), key("Namespace")]
    assert [(stage, [k.kind for k in group]) for stage, group in stages(order)] == [
        (Stage.DEFINITIONS, ["Namespace"]),
        (Stage.CLASSES, ["IngressClass"]),
        (Stage.REST, ["Thing"]),
        (Stage.GATES, ["ValidatingWebhookConfiguration"]),
    ]


def test_within_a_stage_what_others_need_comes_first() -> None:
    kinds = ["Deployment", "Thing", "Secret", "ServiceAccount", "ConfigMap", "Service", "Role", "RoleBinding"]
    ((_, group),) = stages([key(kind) for kind in kinds])
    order = [k.kind for k in group]
    assert order == ["ServiceAccount", "Role", "RoleBinding", "ConfigMap", "Secret", "Service", "Deployment", "Thing"]


def test_a_definition_is_applied_before_the_namespace_and_deleted_after_it() -> None:
    both = [key("Namespace"), key("CustomResourceDefinition")]
    assert [k.kind for k in stages(both)[0][1]] == ["CustomResourceDefinition", "Namespace"]
    assert [k.kind for k in reverse_stages(both)[0]] == ["Namespace", "CustomResourceDefinition"]


def test_the_kind_alone_gives_the_stage() -> None:
    assert stage_of("MutatingAdmissionPolicyBinding") is Stage.GATES
    assert stage_of("DeviceClass") is Stage.CLASSES
    assert stage_of("SomethingOfACustomersOwn") is Stage.REST


@few
@given(st.lists(keys, unique=True))
def test_every_object_has_one_place_whatever_the_order_it_was_named_in(objects: list[ObjectKey]) -> None:
    found = [k for _, group in stages(objects) for k in group]
    assert sorted(found) == sorted(objects)
    assert found == [k for _, group in stages(reversed(objects)) for k in group]
    assert found == sorted(found, key=lambda k: (stage_of(k.kind), rank(k)))


@few
@given(st.lists(keys, unique=True))
def test_deletion_is_application_backwards(objects: list[ObjectKey]) -> None:
    forwards = [k for _, group in stages(objects) for k in group]
    assert [k for group in reverse_stages(objects) for k in group] == forwards[::-1]


@few
@given(st.lists(keys, unique=True))
def test_runs_of_one_rank_keep_the_order_and_leave_nothing_out(objects: list[ObjectKey]) -> None:
    for _, group in stages(objects):
        runs = by_kind(group)
        assert [k for run in runs for k in run] == group
        assert all(run and len({rank(k)[0] for k in run}) == 1 for run in runs)
        ranks = [rank(run[0])[0] for run in runs]
        assert ranks == sorted(set(ranks))

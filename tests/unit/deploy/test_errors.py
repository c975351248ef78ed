"""What is told of a refusal: by whom, of what, and no secret in it."""

from __future__ import annotations

import base64

import pytest

from vidra.deploy.errors import (
    MESSAGE_MAX,
    NAMED_MAX,
    ObjectError,
    Problem,
    conflicting_managers,
    is_immutable,
    refusal,
    shortened,
    summary,
    without_values,
)
from vidra.kube.errors import ApiError, Cause, Unreachable
from vidra.kube.resource import ObjectKey

KEY = ObjectKey("", "Secret", "a", "s")
HIDDEN = "hunter2"
ENCODED = base64.b64encode(HIDDEN.encode()).decode()


def conflict(*messages: str) -> ApiError:
    causes = tuple(Cause("FieldManagerConflict", f".data.{number}", text) for number, text in enumerate(messages))
    return ApiError(409, "Conflict", "Apply failed", causes=causes)


def test_conflicts_are_read_from_either_form_of_their_text() -> None:
    error = conflict('conflict with "vidra:one"', 'conflict with "vidra:one" using v1', 'conflict with "other"', "?")
    assert conflicting_managers(error) == {"vidra:one": [".data.0", ".data.1"], "other": [".data.2"], "?": [".data.3"]}


@pytest.mark.parametrize(
    "text",
    [
        "spec.selector: Invalid value: field is immutable",
        'spec.clusterIPs[0]: Invalid value: ["None"]: may not change once set',
        "updates to statefulset spec for fields other than 'replicas', 'template' are forbidden",
        "updates to provisioner are forbidden.",
        "value: Forbidden: may not be changed in an update.",
        'roleRef: Invalid value: {"kind":"Role"}: cannot change roleRef',
        "pod updates may not change fields other than `spec.containers[*].image`",
        "spec is Immutable",
    ],
)
def test_a_field_that_can_not_change_is_known_by_its_words(text: str) -> None:
    assert is_immutable(ApiError(422, "Invalid", text))
    assert not is_immutable(ApiError(409, "Conflict", text))


@pytest.mark.parametrize("text", ["spec.replicas: must be greater than or equal to 0", "spec.ports: Required value"])
def test_other_faults_are_the_manifests(text: str) -> None:
    assert not is_immutable(ApiError(422, "Invalid", text))


@pytest.mark.case("A09")
@pytest.mark.parametrize("field", [{"stringData": {"word": HIDDEN}}, {"data": {"word": ENCODED}}])
def test_a_secrets_values_are_taken_out_in_either_form(field: dict[str, dict[str, str]]) -> None:
    told = without_values(f"refused: {HIDDEN} and {ENCODED}", {"kind": "Secret", **field})
    assert HIDDEN not in told
    if "data" in field:
        assert ENCODED not in told
    assert told.startswith("refused: ***")


def test_values_of_other_kinds_and_broken_ones_change_nothing() -> None:
    assert without_values("refused: web", {"kind": "ConfigMap", "data": {"a": "web"}}) == "refused: web"
    assert without_values("refused", {"kind": "Secret", "data": {"a": "not base64", "b": "/w==", "c": ""}}) == "refused"


def test_a_quoted_value_is_left_out_and_the_reason_stays() -> None:
    dump = '{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"env":[{"value":"x: {y}"}]}]}}'
    text = f'Job.batch "x" is invalid: spec.template: Invalid value: {dump}: field is immutable'
    assert shortened(text) == 'Job.batch "x" is invalid: spec.template: Invalid value: field is immutable'
    two = f"[a: Invalid value: {dump}: field is immutable, b: Invalid value: {dump}: may not change]"
    assert shortened(two) == "[a: Invalid value: field is immutable, b: Invalid value: may not change]"


def test_a_message_is_bounded_and_keeps_its_end() -> None:
    text = shortened("begin" + "x" * 10_000 + "the end")
    assert len(text) <= MESSAGE_MAX + 3
    assert text.startswith("begin")
    assert text.endswith("the end")
    assert shortened("short") == "short"


def test_a_refusal_says_what_it_was_and_whether_waiting_helps() -> None:
    gone = refusal(KEY, ApiError(404, "NotFound", "no namespace"))
    assert (gone.problem, gone.retryable, str(gone)) == (
        Problem.REFUSED,
        True,
        "Secret a/s: NotFound (404): no namespace",
    )
    bad = refusal(KEY, ApiError(422, "Invalid", f"bad {HIDDEN}"), body={"kind": "Secret", "stringData": {"a": HIDDEN}})
    assert (bad.retryable, bad.message) == (False, "Invalid (422): bad ***")
    busy = refusal(KEY, ApiError(429, "TooManyRequests", "wait", retry_after=3.0), problem=Problem.PRUNE)
    assert (busy.problem, busy.retryable, busy.retry_after) == (Problem.PRUNE, True, 3.0)
    away = refusal(KEY, Unreachable("no answer"), where="document 2 (line 9): Secret a/s")
    assert (away.problem, str(away)) == (Problem.UNREACHABLE, "document 2 (line 9): Secret a/s: no answer")


def test_many_errors_are_named_up_to_a_number_and_then_counted() -> None:
    errors = [ObjectError(KEY, Problem.REFUSED, f"{number}") for number in range(NAMED_MAX + 2)]
    assert summary(errors[:1]) == "Secret a/s: 0"
    assert summary(errors).endswith(f"Secret a/s: {NAMED_MAX - 1}; and 2 more")

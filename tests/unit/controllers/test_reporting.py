"""What the end of a reconcile looks like in status."""

from __future__ import annotations

import pytest

from vidra.api.states import Reason, State
from vidra.controllers.reporting import Report, has_succeeded, is_unanswered, next_status, running, succeeded
from vidra.kube.client import Obj

REQUEST = "vidra.infrahub.operators.com/reconcile-request"
EARLIER = "2020-01-01T00:00:00Z"


def resource(status: Obj | None = None, requested: str | None = None) -> Obj:
    annotations = {} if requested is None else {REQUEST: requested}
    return {"metadata": {"generation": 3, "annotations": annotations}, "status": status or {}}


def told(obj: Obj, report: Report, **changes: object) -> Obj:
    return next_status(obj, report, state_field="state", changes=changes)


def conditions(status: Obj) -> dict[str, tuple[str, str]]:
    return {c["type"]: (c["status"], c["reason"]) for c in status["conditions"]}


FAILURE = Report(State.FAILED, Reason.APPLY_FAILED, "no")
STALL = Report(State.FAILED, Reason.MANIFEST_INVALID, "no", will_retry=False)
STALE = Report(State.STALE, Reason.CLUSTER_UNREACHABLE, "away")


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        (Report(State.PENDING, Reason.SUSPENDED, ""), {"Ready": "Unknown", "Reconciling": "True"}),
        (running(""), {"Ready": "Unknown", "Reconciling": "True"}),
        (succeeded(""), {"Ready": "True"}),
        (FAILURE, {"Ready": "False", "Reconciling": "True"}),
        (STALL, {"Ready": "False", "Stalled": "True"}),
        (STALE, {"Ready": "False", "Reconciling": "True"}),
    ],
    ids=lambda value: value.state.value if isinstance(value, Report) else "",
)
def test_each_state_has_its_conditions(report: Report, expected: dict[str, str]) -> None:
    status = told(resource(), report)
    assert status["state"] == report.state
    assert {kind: state for kind, (state, _) in conditions(status).items()} == expected
    assert {c["observedGeneration"] for c in status["conditions"]} == {status["observedGeneration"]} == {3}


def test_one_who_tries_again_says_so_and_why_it_failed() -> None:
    assert conditions(told(resource(), FAILURE)) == {
        "Ready": ("False", "ApplyFailed"),
        "Reconciling": ("True", "Retrying"),
    }


@pytest.mark.parametrize("report", [running(""), FAILURE, STALL, STALE])
def test_the_last_success_moves_with_nothing_else(report: Report) -> None:
    assert told(resource({"lastSyncTime": EARLIER}), report)["lastSyncTime"] == EARLIER
    assert "lastSyncTime" not in told(resource(), report)


def test_a_success_is_noted_and_clears_the_error() -> None:
    status = told(resource({"lastSyncTime": EARLIER, "lastError": "no"}), succeeded("ok"))
    assert status["lastSyncTime"] > EARLIER
    assert "lastError" not in status


def test_the_last_error_stays_while_the_next_try_runs() -> None:
    failed = told(resource(), FAILURE)
    assert told(resource(failed), running("again"))["lastError"] == "no"


def test_a_running_pass_is_no_attempt_yet_and_answers_no_request() -> None:
    status = told(resource(requested="now"), running(""))
    assert "lastAttemptTime" not in status
    assert "lastHandledReconcileAt" not in status


@pytest.mark.parametrize("report", [succeeded(""), FAILURE, STALL, STALE])
def test_any_end_answers_a_request(report: Report) -> None:
    obj = resource(requested="now")
    assert is_unanswered(obj)
    status = told(obj, report)
    assert status["lastHandledReconcileAt"] == "now"
    assert not is_unanswered(resource(status, "now"))


def test_a_transition_is_a_flip_of_status_and_no_new_message() -> None:
    before = told(resource(), FAILURE)
    for condition in before["conditions"]:
        condition["lastTransitionTime"] = EARLIER
    again = told(resource(before), Report(State.FAILED, Reason.CONFLICT, "another"))
    assert {c["lastTransitionTime"] for c in again["conditions"]} == {EARLIER}
    flipped = told(resource(before), succeeded("ok"))
    assert flipped["conditions"][0]["lastTransitionTime"] > EARLIER


def test_a_stall_ends_with_the_next_try() -> None:
    stalled = told(resource(), STALL)
    assert "Stalled" not in conditions(told(resource(stalled), running("")))


def test_a_kinds_own_fields_change_and_go() -> None:
    status = told(resource({"kept": 1, "gone": 2, "lastSyncTime": EARLIER}), succeeded(""), gone=None, new=3)
    assert (status["kept"], status["new"], "gone" in status) == (1, 3, False)
    assert has_succeeded(resource(status))
    assert not has_succeeded(resource())


def test_a_long_error_is_cut_where_it_is_stored() -> None:
    status = told(resource(), Report(State.FAILED, Reason.APPLY_FAILED, "x" * 10_000))
    assert len(status["lastError"]) <= 2000
    assert "10000 chars" in status["lastError"]

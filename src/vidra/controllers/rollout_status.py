"""What a rollout's outcome means for the status of its resource: pure functions of the one and the other."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import structlog

from vidra.api.conditions import timestamp
from vidra.api.states import Reason, State
from vidra.api.vidraresource import HISTORY_MAX
from vidra.controllers import reporting
from vidra.controllers.reporting import LOOK_AGAIN, Report
from vidra.deploy.errors import ObjectError, Problem, summary
from vidra.deploy.inventory import Inventory
from vidra.deploy.prune import Removal
from vidra.deploy.rollout import Outcome
from vidra.deploy.wanted import Action
from vidra.kube.client import Obj

log = structlog.get_logger(__name__)

#: A server's Retry-After is stretched by up to this share: all who were told the same must not come back at once.
SPREAD = 0.1

_REASONS = {
    Problem.CONFLICT: Reason.CONFLICT,
    Problem.SIBLING_CONFLICT: Reason.CONFLICT,
    Problem.PRUNE: Reason.PRUNE_FAILED,
}


def empty(inventory: Inventory) -> Report:
    """A manifest without objects: most often a template that lost its data, so nothing is pruned for it."""
    kept = f"the {len(inventory)} objects of the last one stay" if inventory else "nothing is deployed"
    text = f"the manifest has no objects; {kept}. Set spec.allowEmpty if that is meant"
    return Report(State.FAILED, Reason.MANIFEST_EMPTY, text, will_retry=False)


def success(count: int, outcome: Outcome) -> str:
    message = f"{count} objects as wanted"
    if outcome.pending:
        message += f"; {still_going(outcome)}"
    drifted = outcome.drifted
    if drifted:
        more = f" and {len(drifted) - 1} more" if drifted[1:] else ""
        message += f"; {drifted[0].key} {drifted[0].message}{more}"
    warnings = outcome.warnings
    if warnings:
        more = f" and {len(warnings) - 1} more" if warnings[1:] else ""
        message += f"; the server warned: {warnings[0]}{more}"
    return message


def still_going(outcome: Outcome) -> str:
    pending = outcome.pending
    return f"{len(pending)} still going: {pending[0].key} is {pending[0].note}"


def failure(errors: Sequence[ObjectError], *, stale: bool) -> Report:
    """One report of all objects' errors. ``stale``: there is a last good state, which stands where the cluster could
    just not be reached."""
    problems = {error.problem for error in errors}
    text = summary(errors)
    if problems == {Problem.UNREACHABLE}:
        return Report(State.STALE if stale else State.FAILED, Reason.CLUSTER_UNREACHABLE, text)
    reasons = {_REASONS.get(problem, Reason.APPLY_FAILED) for problem in problems}
    return Report(State.FAILED, reasons.pop() if len(reasons) == 1 else Reason.APPLY_FAILED, text)


def pause(errors: Sequence[ObjectError], retry_interval: float, interval: float) -> float | None:
    """Seconds until the next try; None leaves them to the back-off. Where nothing passes by itself, and nothing tells
    us when somebody changed it, one look an interval is enough."""
    if retry_interval:
        return retry_interval
    if not any(error.retryable for error in errors):
        return interval or LOOK_AGAIN
    asked = [error.retry_after for error in errors if error.retry_after is not None]
    return max(asked) * (1 + SPREAD * random.random()) if asked else None  # noqa: S311


def is_due(obj: Obj, interval: float, digest: str, state: str | None) -> bool:
    """Whether a pass that changed nothing is worth a status write: once an interval, or when it says more."""
    status = obj.get("status") or {}
    if (
        state != State.SUCCEEDED
        or status.get("observedGeneration") != obj["metadata"].get("generation")
        or status.get("manifestDigest") != digest
        or reporting.is_unanswered(obj)
    ):
        return True
    age = (datetime.now(UTC) - datetime.fromisoformat(status["lastSyncTime"])).total_seconds()
    return bool(interval) and age >= interval / 2


def history(obj: Obj, digest: str, objects: int) -> list[dict[str, Any]]:
    """The manifests that succeeded, the newest first; the same one again is no news."""
    entries = list((obj.get("status") or {}).get("history") or ())
    if entries and entries[0].get("manifestDigest") == digest:
        return entries
    return [{"manifestDigest": digest, "time": timestamp(), "objects": objects}, *entries][:HISTORY_MAX]


def shrink(status: Mapping[str, Any], limit: int) -> dict[str, Any]:
    """What a status of thousands of objects can do without: history, then the objects' messages and seals."""
    smaller = {name: value for name, value in status.items() if name != "history"}
    smaller["managedResources"] = [
        {name: value for name, value in item.items() if name not in ("message", "seal")}
        for item in status.get("managedResources") or ()
    ]
    return smaller


def log_outcome(outcome: Outcome) -> None:
    """One line for each object that something happened to."""
    for applied in outcome.applied:
        if applied.action is not Action.UNCHANGED:
            log.info("object applied", object=str(applied.entry.key), action=applied.action.value)
    for removed in outcome.removed:
        if removed.removal is not Removal.GONE:
            log.info("object let go", object=str(removed.key), action=removed.removal.value, note=removed.note or None)
    for error in outcome.errors:
        log.warning("object failed", object=str(error.key), problem=error.problem.value, error=error.message)

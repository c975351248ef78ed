"""What a reconcile's end looks like in status, on both kinds. docs/states.md has the table this makes true.

- lastSyncTime moves on success and at no other time.
- lastError stays while tries go on and goes with the next success.
- observedGeneration is always the generation that was acted on.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from vidra.api import names
from vidra.api.conditions import MESSAGE_MAX, bounded, conditions_for, timestamp
from vidra.api.states import Reason, State
from vidra.kube.client import Obj
from vidra.runtime.controller import Result

#: Seconds until a look at a failure that nothing wakes us for, where intervals are off.
LOOK_AGAIN = 600.0


@dataclass(frozen=True, slots=True)
class Report:
    """One end, or the Running in between. ``reason`` is a word of Reason, or of InfrahubError."""

    state: State
    reason: str
    message: str
    will_retry: bool = True


def succeeded(message: str) -> Report:
    return Report(State.SUCCEEDED, Reason.SUCCEEDED, message)


def running(message: str, *, reason: str = Reason.PROGRESSING) -> Report:
    return Report(State.RUNNING, reason, message)


def invalid(error: ValidationError) -> Report:
    """A spec that the CRD's schema let pass and the model doesn't."""
    text = "; ".join(f"spec.{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
    return Report(State.FAILED, Reason.INVALID_SPEC, text, will_retry=False)


def unsupported(fields: Sequence[str]) -> Report:
    """An option that this version does not act on must never be ignored in silence."""
    text = f"not supported by this version: {', '.join(fields)}"
    return Report(State.FAILED, Reason.UNSUPPORTED, text, will_retry=False)


def again_after(interval: float, spread: float) -> Result:
    """A success: the next look after ``interval`` seconds, stretched by up to the share ``spread``; 0: none."""
    return Result(requeue_after=interval * (1 + spread * random.random())) if interval else Result()  # noqa: S311


def next_status(obj: Obj, report: Report, *, state_field: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The whole status to write: the one in ``obj``, moved on. ``changes`` are the kind's own fields; None removes."""
    metadata, previous = obj["metadata"], obj.get("status") or {}
    now = timestamp()
    status: dict[str, Any] = {**previous, **changes}
    status[state_field] = report.state.value
    status["observedGeneration"] = metadata.get("generation") or 0
    status["conditions"] = conditions_for(
        report.state,
        reason=report.reason,
        message=report.message,
        will_retry=report.will_retry,
        generation=metadata.get("generation") or 0,
        previous=previous.get("conditions") or (),
        now=now,
    )
    if report.state is not State.RUNNING:
        status["lastAttemptTime"] = now
        requested = (metadata.get("annotations") or {}).get(names.RECONCILE_REQUEST_ANNOTATION)
        if requested:
            status["lastHandledReconcileAt"] = requested
    if report.state is State.SUCCEEDED:
        status["lastSyncTime"] = now
        status.pop("lastError", None)
    elif report.state in (State.FAILED, State.STALE):
        status["lastError"] = bounded(report.message, MESSAGE_MAX)
    return {name: value for name, value in status.items() if value is not None}


def has_succeeded(obj: Obj) -> bool:
    """Whether there is a last good state that could be standing still."""
    return bool((obj.get("status") or {}).get("lastSyncTime"))


def is_unanswered(obj: Obj) -> bool:
    """Whether somebody asked for a reconcile that has not been answered yet."""
    requested = (obj["metadata"].get("annotations") or {}).get(names.RECONCILE_REQUEST_ANNOTATION)
    return bool(requested) and requested != (obj.get("status") or {}).get("lastHandledReconcileAt")

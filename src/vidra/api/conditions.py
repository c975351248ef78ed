"""Conditions as kstatus and ``kubectl wait`` read them.

Ready is always there. Reconciling and Stalled are there only while true ("abnormal-true", as kstatus asks).
lastTransitionTime moves on a flip of status and at no other time: an unchanged condition must cost no write.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from vidra.api.states import ConditionType, Reason, State

#: Longest message of a condition; metav1.Condition allows 32768, people read less.
MESSAGE_MAX = 2000


def timestamp(when: datetime | None = None) -> str:
    """RFC 3339 in UTC with whole seconds, as metav1.Time is written."""
    return (when or datetime.now(UTC)).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def conditions_for(
    state: State,
    *,
    reason: str,
    message: str,
    will_retry: bool,
    generation: int,
    previous: Sequence[Mapping[str, Any]],
    now: str,
) -> list[dict[str, Any]]:
    """The conditions that go with a state (docs/states.md), keeping what did not flip from ``previous``.

    ``will_retry`` tells whether Vidra tries again by itself before somebody changes something.
    """
    ready = {State.SUCCEEDED: "True", State.FAILED: "False", State.STALE: "False"}.get(state, "Unknown")
    wanted: list[tuple[ConditionType, str, str, str]] = [(ConditionType.READY, ready, reason, message)]
    if state in (State.PENDING, State.RUNNING):
        wanted.append((ConditionType.RECONCILING, "True", reason, message))
    elif state in (State.FAILED, State.STALE) and will_retry:
        wanted.append((ConditionType.RECONCILING, "True", Reason.RETRYING, message))
    elif state in (State.FAILED, State.STALE):
        wanted.append((ConditionType.STALLED, "True", reason, message))
    before = {str(condition.get("type")): condition for condition in previous}
    return [
        {
            "type": kind.value,
            "status": status,
            "reason": why,
            "message": bounded(text, MESSAGE_MAX),
            "observedGeneration": generation,
            "lastTransitionTime": (
                before[kind].get("lastTransitionTime", now)
                if kind in before and before[kind].get("status") == status
                else now
            ),
        }
        for kind, status, why, text in wanted
    ]


def bounded(text: str, limit: int) -> str:
    """At most ``limit`` characters, with a mark where something was left out."""
    return text if len(text) <= limit else f"{text[: limit - 20]} … ({len(text)} chars)"

"""What went wrong with one object, in words for people and in a form for the controller."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from enum import StrEnum

from vidra.kube.client import Obj
from vidra.kube.errors import ApiError, KubeError, Unreachable
from vidra.kube.resource import ObjectKey

#: How many objects a text names before it only counts.
NAMED_MAX = 5
#: Characters of a server's message.
MESSAGE_MAX = 600


class Problem(StrEnum):
    CONFLICT = "Conflict"  # somebody else's object, or another declaration of it
    SIBLING_CONFLICT = "SiblingConflict"  # another resource of the same sync declares it differently
    REFUSED = "ApplyFailed"  # the API server said no
    NOT_SERVED = "NotServed"
    TERMINATING = "Terminating"
    HELD_BACK = "HeldBack"  # not tried: what it needs failed
    PRUNE = "PruneFailed"
    UNREACHABLE = "ClusterUnreachable"


class ObjectError(Exception):
    """One object could not be brought, or let go. ``message`` holds no value of a Secret.

    ``retryable``: it may work later though nobody changes anything. ``retry_after``: seconds the server asked for.
    """

    def __init__(
        self,
        key: ObjectKey,
        problem: Problem,
        message: str,
        *,
        retryable: bool = True,
        retry_after: float | None = None,
        where: str = "",
    ) -> None:
        super().__init__(f"{where or key}: {message}")
        self.key = key
        self.problem = problem
        self.message = message
        self.retryable = retryable
        self.retry_after = retry_after
        self.where = where


def refusal(
    key: ObjectKey, error: KubeError, *, body: Obj | None = None, where: str = "", problem: Problem = Problem.REFUSED
) -> ObjectError:
    """The object's error of a request's."""
    if isinstance(error, ApiError):
        message = f"{error.reason} ({error.status}): {shortened(without_values(error.message, body))}"
        return ObjectError(
            key,
            problem,
            message,
            retryable=error.retryable or error.not_found,
            retry_after=error.retry_after,
            where=where,
        )
    if isinstance(error, Unreachable):
        problem = Problem.UNREACHABLE
    return ObjectError(key, problem, str(error), retryable=error.retryable, where=where)


def summary(errors: Iterable[ObjectError]) -> str:
    """One text of many errors, bounded: the first few in full, then a count."""
    listed = list(errors)
    text = "; ".join(str(error) for error in listed[:NAMED_MAX])
    return f"{text}; and {len(listed) - NAMED_MAX} more" if len(listed) > NAMED_MAX else text


def without_values(message: str, body: Obj | None) -> str:
    """Servers and webhooks may quote what they refuse; a Secret's values are taken out."""
    if body is None or body.get("kind") != "Secret":
        return message
    values = {str(value) for value in (body.get("stringData") or {}).values()}
    for value in (body.get("data") or {}).values():
        values.add(str(value))
        try:
            values.add(base64.b64decode(str(value), validate=True).decode())
        except (binascii.Error, UnicodeDecodeError):
            continue
    for value in sorted((v for v in values if len(v) > 2), key=len, reverse=True):
        message = message.replace(value, "***")
    return message


_DUMP = re.compile(r"Invalid value: \{.*?\}: (?=\w)", re.DOTALL)


def shortened(message: str) -> str:
    """A server's message without the whole values that it quotes (a Job's pod template, with all its variables), and
    of a bounded length; the end stays, for it says why."""
    text = _DUMP.sub("Invalid value: ", message)
    return text if len(text) <= MESSAGE_MAX else f"{text[: MESSAGE_MAX // 2]} … {text[-MESSAGE_MAX // 2 :]}"


_MANAGER = re.compile(r'conflict with "([^"]+)"')


def conflicting_managers(error: ApiError) -> dict[str, list[str]]:
    """Field paths by the manager that holds them, of a server-side apply that met other managers."""
    held: dict[str, list[str]] = {}
    for cause in error.field_conflicts:
        found = _MANAGER.search(cause.message)
        held.setdefault(found[1] if found else "?", []).append(cause.field)
    return held


_IMMUTABLE = re.compile(
    r"immutable|may not (be )?change|can(no|')t (be )?change|"
    r"updates to \S+ (spec )?for fields other than|updates to .* forbidden",
    re.IGNORECASE,
)


def is_immutable(error: ApiError) -> bool:
    """Whether the server says that a field can't change, in words that leave no doubt.

    Any other Invalid is an error of the manifest: recreating on those cost users their data (kustomize-controller#734).
    """
    return error.invalid and bool(_IMMUTABLE.search(error.message))

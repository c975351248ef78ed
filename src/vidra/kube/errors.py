"""What can go wrong when one talks to an API server, as one small tree.

    KubeError
     +- ApiError          the server answered, and it was a refusal (HTTP status, reason, causes)
     +- Unreachable       no answer: connect failed, connection lost, time-out, TLS
     |   +- Silent        a watch on which nothing came any more
     +- InvalidAnswer     an answer that is none of an API server (a proxy's HTML page, cut JSON)
     +- ConfigError       the kubeconfig or the in-cluster files can't be used
     +- Fenced            a write that was not sent, because this process may not write (any more)

Messages name what was asked and never hold a body that was sent: it may be a Secret's.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any


class KubeError(Exception):
    """Base of all errors of this room."""

    #: Whether the same request may succeed later without anybody changing it.
    retryable = True


class ConfigError(KubeError):
    """The kubeconfig or the in-cluster files can't be used as they are."""

    retryable = False


class Unreachable(KubeError):
    """No answer came: refused, reset, timed out, TLS failed."""


class Silent(Unreachable):
    """A watch on which nothing came for so long, not even a bookmark, that its connection must be dead."""


class Fenced(KubeError):
    """A write was not sent: this process may not write, or not any more. Another one will."""


class InvalidAnswer(KubeError):
    """Something answered, but not as an API server does."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One entry of Status.details.causes: ``reason`` (FieldManagerConflict, ...), ``field`` (path) and ``message``."""

    reason: str
    field: str
    message: str


class ApiError(KubeError):
    """The server refused: ``status`` is the HTTP code, ``reason`` the Status' CamelCase word, ``message`` its text.

    ``retry_after`` is the number of seconds the server asked to wait, None where it asked for nothing.
    """

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        *,
        causes: tuple[Cause, ...] = (),
        retry_after: float | None = None,
        request: str = "",
    ) -> None:
        super().__init__(f"{request}: {status} {reason}: {message}" if request else f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.causes = causes
        self.retry_after = retry_after
        self.request = request

    @property
    def retryable(self) -> bool:  # type: ignore[override]
        """408, 409, 429 and 5xx pass by themselves; the rest needs somebody to change something."""
        return self.status in {408, 409, 429} or self.status >= 500

    @property
    def not_found(self) -> bool:
        return self.status == 404

    @property
    def conflict(self) -> bool:
        """409 of an update, a precondition or a field manager; an existing name is :attr:`already_exists`."""
        return self.status == 409 and self.reason != "AlreadyExists"

    @property
    def already_exists(self) -> bool:
        return self.status == 409 and self.reason == "AlreadyExists"

    @property
    def gone(self) -> bool:
        """The resourceVersion or continue token is too old: list again. Both shapes of it (runtime R6)."""
        return self.status == 410 or self.reason in {"Gone", "Expired"}

    @property
    def too_large_version(self) -> bool:
        """The server has not seen this resourceVersion yet: another replica lags, or etcd came back from a backup."""
        return any(cause.reason == "ResourceVersionTooLarge" for cause in self.causes) or (
            self.status == 504 and "Too large resource version" in self.message
        )

    @property
    def invalid(self) -> bool:
        return self.status == 422

    @property
    def field_conflicts(self) -> tuple[Cause, ...]:
        """The causes of a server-side apply that met other managers' fields."""
        return tuple(cause for cause in self.causes if cause.reason == "FieldManagerConflict")


def api_error(status: int, body: bytes, *, retry_after: str | None = None, request: str = "") -> ApiError:
    """Reads a refusal's body, which is a Status as a rule and may be plain text or a proxy's page."""
    parsed: Any = None
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        text = " ".join(body[:300].decode("utf-8", "replace").split())
        return ApiError(status, _word(status), text or "no text", retry_after=_seconds(retry_after), request=request)
    return status_error(parsed, status=status, retry_after=retry_after, request=request)


def status_error(
    parsed: Any, *, status: int | None = None, retry_after: str | None = None, request: str = ""
) -> ApiError:
    """Makes the error of a Status object, as it stands in a body or in a watch's ERROR event.

    Whatever ``parsed`` is, an error comes of it: it is read when something is wrong already.
    """
    if not isinstance(parsed, dict):
        parsed = {}
    told, details = parsed.get("code"), parsed.get("details")
    code = status if status is not None else told if isinstance(told, int) and told else 500
    if not isinstance(details, dict):
        details = {}
    wait = _seconds(retry_after)
    if wait is None and details.get("retryAfterSeconds"):
        wait = _seconds(str(details["retryAfterSeconds"]))
    listed = details.get("causes")
    causes = tuple(
        Cause(str(c.get("reason", "")), str(c.get("field", "")), str(c.get("message", "")))
        for c in (listed if isinstance(listed, list) else ())
        if isinstance(c, dict)
    )
    return ApiError(
        code,
        str(parsed.get("reason") or _word(code)),
        str(parsed.get("message") or "no message"),
        causes=causes,
        retry_after=wait,
        request=request,
    )


def _seconds(header: str | None) -> float | None:
    """Retry-After in seconds; its date form is not used by API servers and is left out."""
    try:
        seconds = float(header) if header else math.nan
    except ValueError:
        return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


_WORDS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Gone",
    413: "RequestEntityTooLarge",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    502: "BadGateway",
    503: "ServiceUnavailable",
    504: "Timeout",
}


def _word(status: int) -> str:
    return _WORDS.get(status, "Unknown")

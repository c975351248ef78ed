"""Reads what a server says when it says no, and makes the error of it.

Promises: every refusal an Infrahub of 1.2 to 1.11 was seen to give (tests/recordings) and those of a proxy in front of
it become exactly one error of :mod:`vidra.infrahub.errors`. Pure: bytes in, error out.

Bodies come as ``errors[]`` of strings, of ``{message: text}`` or of ``{message: {message: text}}``, as ``{detail:
[...]}``, as plain text, or as a proxy's page. Of a validation error's ``detail`` only place and text are taken: its
``input`` repeats what was sent, passwords included.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from vidra.infrahub import errors
from vidra.infrahub.errors import Asked, InfrahubError

#: Characters of the server's text that go into a message.
MAX_TEXT = 300
#: A Retry-After beyond this many seconds is cut to it: no proxy silences a sync for days.
MAX_RETRY_AFTER = 3600.0

_TITLE = re.compile(r"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)
_PERMISSION = ("You do not have one of the following permissions", "You are not allowed to")


@dataclass(frozen=True, slots=True)
class Refusal:
    """One body, read. ``nested`` is the ``{message: {message}}`` shape, which only a failed stored query has;
    ``located`` is a GraphQL error that broke a running query (it has a path), not one that kept it from running."""

    text: str
    recognised: bool
    nested: bool = False
    located: bool = False
    status: int | None = None


def http_error(
    asked: Asked, status: int, body: bytes, *, retry_after: str | None = None, secrets: Iterable[str] = ()
) -> InfrahubError:
    """Makes the error of an answer whose HTTP status is no success. ``secrets`` are blotted out of its text."""
    refusal = read(body)
    text = blot(refusal.text or "no text", secrets)
    kind = _classify(asked.endpoint, status, refusal, text)
    return kind(asked, text, status=status, retry_after=seconds(retry_after))


def graphql_error(asked: Asked, answer: Mapping[str, Any], *, secrets: Iterable[str] = ()) -> InfrahubError | None:
    """Makes the error of a GraphQL answer that came with HTTP 200, None when it holds no ``errors``.

    ``extensions.http_status`` says what the error is, except that a query which could not even start (an unknown field)
    counts as 500 there; older servers (up to 1.9) send no extensions at all. The path tells these two apart: a query
    that never ran has none.
    """
    if not answer.get("errors"):
        return None
    refusal = _read_json(answer)
    status = refusal.status
    if status is None or status == 500:
        kind: type[InfrahubError] = errors.ServerError if refusal.located else errors.QueryRefused
        if refusal.text.startswith(_PERMISSION):
            kind = errors.PermissionDenied
    else:
        kind = _classify("graphql", status, refusal, refusal.text)
    return kind(asked, blot(refusal.text, secrets), status=status)


def read(body: bytes) -> Refusal:
    """Finds the text in a body of any shape."""
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        parsed = None
    if isinstance(parsed, dict):
        return _read_json(parsed)
    text = body.decode("utf-8", "replace")
    if "<html" in text[:1000].lower():
        title = _TITLE.search(text)
        return Refusal(_short(f"an HTML page {_short(title[1]) if title else ''}".strip()), recognised=False)
    return Refusal(_short(text), recognised=False)


def _read_json(parsed: Mapping[str, Any]) -> Refusal:
    listed = parsed.get("errors")
    if isinstance(listed, list) and listed:
        first = listed[0]
        more = f" (and {len(listed) - 1} more)" if len(listed) > 1 else ""
        if not isinstance(first, dict):
            return Refusal(_short(str(first)) + more, recognised=True)
        message = first.get("message")
        nested = isinstance(message, dict)
        if isinstance(message, dict):
            message = message.get("message")
        extensions = first.get("extensions")
        extensions = extensions if isinstance(extensions, dict) else {}
        codes = (extensions.get("http_status"), extensions.get("code"))
        return Refusal(
            _short(str(message or "no text")) + more,
            recognised=True,
            nested=nested,
            located=bool(first.get("path")),
            status=next((code for code in codes if isinstance(code, int)), None),
        )
    detail = parsed.get("detail")
    if isinstance(detail, str):
        return Refusal(_short(detail), recognised=True)
    if isinstance(detail, list):
        parts = [
            f"{'.'.join(str(part) for part in one.get('loc') or ())}: {one.get('msg')}"
            for one in detail
            if isinstance(one, dict)
        ]
        return Refusal(_short("; ".join(parts) or "no text"), recognised=True)
    return Refusal("no text", recognised=False)


def _classify(endpoint: str, status: int, refusal: Refusal, text: str) -> type[InfrahubError]:
    """One cause for one answer. The texts are the servers' own, the same from 1.2 to 1.11."""
    if status == 429:
        return errors.Throttled
    if status >= 500:
        return _of_5xx(endpoint, status, refusal)
    if status in {408, 423, 425}:
        return errors.Unavailable
    if 300 <= status < 400 or status == 405 or text.startswith("The requested endpoint"):
        return errors.WrongURL
    if status == 401:
        return errors.AuthenticationFailed
    if status == 403:
        return errors.AuthenticationFailed if endpoint == "login" else errors.PermissionDenied
    if not refusal.recognised:
        return errors.InvalidAnswer
    if endpoint == "login":
        # 404 is an unknown user, 422 an empty field.
        return errors.AuthenticationFailed
    if text.startswith("Branch: ") and "not found" in text:
        return errors.BranchNotFound
    if text.startswith("Invalid time format"):
        return errors.BadDate
    if text.startswith("Requested time") and "is before branch" in text:
        return errors.DateBeforeStart
    if status == 404:
        return _of_404(endpoint, text)
    if status == 409 and endpoint in {"artifact", "storage"}:
        return errors.ContentAltered
    return errors.BadRequest


def _of_5xx(endpoint: str, status: int, refusal: Refusal) -> type[InfrahubError]:
    if "connect to the database" in refusal.text:
        return errors.Unavailable
    if status == 502 and endpoint == "query" and refusal.nested:
        return errors.QueryRefused
    return errors.Unavailable if status in {502, 503, 504} else errors.ServerError


def _of_404(endpoint: str, text: str) -> type[InfrahubError]:
    if endpoint == "storage" or "/ StorageObject" in text:
        return errors.ContentMissing
    if endpoint == "artifact":
        return errors.ArtifactNotFound
    return errors.QueryNotFound if endpoint == "query" else errors.NotFound


def seconds(header: str | None) -> float | None:
    """Retry-After as seconds from now, of either form (a number, or a date), None when absent or unreadable."""
    if not header:
        return None
    try:
        wait = float(header)
    except ValueError:
        try:
            date = parsedate_to_datetime(header)
        except (ValueError, TypeError):
            return None
        if date.tzinfo is None:
            date = date.replace(tzinfo=UTC)
        wait = (date - datetime.now(UTC)).total_seconds()
    return min(max(0.0, wait), MAX_RETRY_AFTER) if wait == wait else None


def _short(text: str) -> str:
    flat = " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * MAX_TEXT]).split())
    return flat if len(flat) <= MAX_TEXT else flat[: MAX_TEXT - 1] + "…"


def blot(text: str, secrets: Iterable[str]) -> str:
    """``text`` without the secrets, should a server or a proxy repeat them."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, "***")
    return text

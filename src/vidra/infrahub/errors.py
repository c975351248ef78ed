"""What can go wrong at an Infrahub server, as one closed tree.

    InfrahubError
     +- AuthenticationFailed     no login with these credentials, or 401 to a fresh token
     +- PermissionDenied         403: the account may not see what was asked for
     +- NotFound
     |   +- BranchNotFound       never was or was deleted (REST says 400, GraphQL 404)
     |   +- QueryNotFound        no stored query of that name
     |   +- ArtifactNotFound     no artifact of that id (now, on that branch)
     |   +- ContentMissing       the artifact is there, its file is not
     +- BadRequest               400 and kin that none of the others explain
     |   +- BadDate              a target date that can't be read, by us or by the server
     |   +- DateBeforeStart      a target date before the branch's first moment
     |   +- WrongURL             what answers there is no Infrahub API
     |   +- QueryRefused         a query that may not run, or that the server can't run
     +- Unavailable              503 and kin, the database is down
     |   +- Unreachable          no answer: refused, reset, timed out, name not found, TLS broken off
     |   +- Throttled            429
     |   +- ServerError          500
     +- CertificateRefused       TLS: the server's certificate isn't trusted
     +- InvalidAnswer            not what an Infrahub says (a proxy's page, cut JSON)
     |   +- IncompleteAnswer     JSON, but a field is missing or the list is not whole
     |   +- ListUnstable         the list changed under every attempt to read its pages
     +- BadContent
         +- ChecksumMismatch     other bytes than the checksum says
         +- ContentAltered       the server found its own file altered and didn't serve it
         +- ContentTooLarge      more bytes than allowed
         +- ContentNotText       not UTF-8

Promises: one class per cause and one ``reason`` per class, CamelCase and stable, fit for a status condition; texts
that name the server and what was asked, and hold no secret. docs/infrahub-errors.md lists them all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request was for, in words for people: ``the artifacts named 'web' on branch 'main'``, and of whom.

    ``endpoint`` is one of ``login``, ``query``, ``graphql``, ``artifact``, ``storage`` and says how a refusal is read.
    """

    endpoint: str
    what: str
    server: str

    def __str__(self) -> str:
        return f"{self.what} at {self.server}"


class InfrahubError(Exception):
    """Base of all errors of this room; ``str()`` of it is its message.

    ``status`` is the HTTP code, None where no answer came or the fault was found here. ``text`` is what the server
    said, shortened. ``retry_after`` is the number of seconds the server asked to wait, None where it asked nothing.
    """

    #: Stable CamelCase word for conditions, metrics and docs.
    reason: ClassVar[str] = "InfrahubError"
    #: Whether the same request may succeed soon without anybody changing anything. What isn't retryable is asked
    #: again at the next interval only.
    retryable: ClassVar[bool] = False
    #: Whether the source is at fault (away, or refusing) rather than what the sync asks for: a sync that succeeded
    #: before is then Stale, not Failed.
    source_fault: ClassVar[bool] = False

    def __init__(
        self,
        asked: Asked | str,
        text: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
    ) -> None:
        code = f"HTTP {status}: " if status is not None else ""
        super().__init__(f"{asked}: {code}{text}")
        self.text = text
        self.status = status
        self.retry_after = retry_after

    @property
    def message(self) -> str:
        return str(self)


class AuthenticationFailed(InfrahubError):
    """Raised only after one fresh login failed or brought a token that was refused too; a static token at once."""

    reason = "AuthenticationFailed"
    source_fault = True


class PermissionDenied(InfrahubError):
    reason = "PermissionDenied"
    source_fault = True


class NotFound(InfrahubError):
    reason = "NotFound"
    source_fault = True


class BranchNotFound(NotFound):
    """A deleted branch is not an empty one: never a reason to prune."""

    reason = "BranchNotFound"


class QueryNotFound(NotFound):
    """Also when the target date lies before the query was stored."""

    reason = "QueryNotFound"


class ArtifactNotFound(NotFound):
    """Only the list says whether an artifact is gone: this may be a race with it, never a reason to prune."""

    reason = "ArtifactNotFound"


class ContentMissing(NotFound):
    """Not rendered yet, or its file was lost: Infrahub has to regenerate it. The artifact is not gone."""

    reason = "ContentMissing"


class BadRequest(InfrahubError):
    reason = "BadRequest"


class BadDate(BadRequest):
    reason = "BadDate"


class DateBeforeStart(BadRequest):
    reason = "DateBeforeStart"


class WrongURL(BadRequest):
    reason = "WrongURL"


class QueryRefused(BadRequest):
    """A mutation, an undeclared or mistyped variable, an unknown field. The server's 502 for it is permanent."""

    reason = "QueryRefused"


class Unavailable(InfrahubError):
    reason = "Unavailable"
    retryable = True
    source_fault = True


class Unreachable(Unavailable):
    reason = "Unreachable"


class Throttled(Unavailable):
    reason = "Throttled"


class ServerError(Unavailable):
    reason = "ServerError"


class CertificateRefused(InfrahubError):
    reason = "CertificateRefused"
    source_fault = True


class InvalidAnswer(InfrahubError):
    reason = "InvalidAnswer"
    retryable = True
    source_fault = True


class IncompleteAnswer(InvalidAnswer):
    """A query that answers without what Vidra needs does so every time, until somebody changes the query."""

    reason = "IncompleteAnswer"
    retryable = False
    source_fault = False


class ListUnstable(InvalidAnswer):
    reason = "ListUnstable"


class BadContent(InfrahubError):
    reason = "BadContent"


class ChecksumMismatch(BadContent):
    """Rendered again between query and download as a rule: query again, then download."""

    reason = "ChecksumMismatch"
    retryable = True


class ContentAltered(BadContent):
    reason = "ContentAltered"


class ContentTooLarge(BadContent):
    reason = "ContentTooLarge"


class ContentNotText(BadContent):
    reason = "ContentNotText"

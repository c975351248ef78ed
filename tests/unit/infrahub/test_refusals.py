"""Every recorded failure of a real server becomes one error with one reason."""

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from vidra.infrahub import errors
from vidra.infrahub.errors import Asked, InfrahubError
from vidra.infrahub.refusals import MAX_RETRY_AFTER, graphql_error, http_error, seconds

RECORDINGS = Path(__file__).parents[2] / "recordings"
SERVER = "http://infrahub:8000"

#: Name of a recording -> its reason. The same on both recorded servers, but for what has a folder before it.
EXPECTED = {
    "anonymous-off-artifact": "AuthenticationFailed",
    "anonymous-off-graphql": "AuthenticationFailed",
    "anonymous-off-info": "AuthenticationFailed",
    "anonymous-off-query-get": "AuthenticationFailed",
    "anonymous-off-storage": "AuthenticationFailed",
    "api-unknown-path": "WrongURL",
    "artifact-at-before-branch": "DateBeforeStart",
    "1.4.13/artifact-at-before-branch": "ArtifactNotFound",
    "artifact-bad-at": "BadDate",
    "artifact-checksum-mismatch": "ContentAltered",
    "artifact-deleted-branch": "BranchNotFound",
    "artifact-deleted-get": "ArtifactNotFound",
    "artifact-generate-anonymous": "AuthenticationFailed",
    "artifact-generate-unknown-definition": "ArtifactNotFound",
    "artifact-head": "WrongURL",
    "artifact-non-uuid": "ArtifactNotFound",
    "artifact-of-deleted-target": "ArtifactNotFound",
    "artifact-other-kind-id": "ArtifactNotFound",
    "1.4.13/artifact-other-kind-id": "ServerError",
    "artifact-pending-get": "ContentMissing",
    "artifact-slash-id": "WrongURL",
    "artifact-stale-removed": "ArtifactNotFound",
    "artifact-storage-missing": "ContentMissing",
    "artifact-token-expired": "AuthenticationFailed",
    "artifact-unknown-branch": "BranchNotFound",
    "artifact-unknown-id": "ArtifactNotFound",
    "auth-after-logout-refresh": "AuthenticationFailed",
    "auth-login-empty-password": "AuthenticationFailed",
    "auth-login-inactive-account": "AuthenticationFailed",
    "auth-login-missing-field": "AuthenticationFailed",
    "auth-login-not-json": "AuthenticationFailed",
    "auth-login-unknown-user": "AuthenticationFailed",
    "auth-login-wrong-password": "AuthenticationFailed",
    "auth-refresh-inactive-account": "AuthenticationFailed",
    "auth-refresh-none": "AuthenticationFailed",
    "auth-refresh-with-access-token": "AuthenticationFailed",
    "branch-merge-conflict": "BadRequest",
    "db-down-artifact": "Unavailable",
    "db-down-graphql": "Unavailable",
    "db-down-login": "Unavailable",
    "db-down-query": "Unavailable",
    "graphql-anonymous-mutation": "AuthenticationFailed",
    "graphql-at-before-branch": "DateBeforeStart",
    "graphql-bad-at": "BadDate",
    "graphql-batch": "BadRequest",
    "graphql-deleted-branch": "BranchNotFound",
    "graphql-missing-variable": "QueryRefused",
    "graphql-mutation-no-permission": "PermissionDenied",
    "graphql-mutation-on-merged-branch": "BadRequest",
    "graphql-no-query": "ServerError",
    "1.4.13/graphql-node-metadata": "QueryRefused",
    "graphql-syntax-error": "ServerError",
    "graphql-token-expired": "AuthenticationFailed",
    "graphql-token-garbage": "AuthenticationFailed",
    "graphql-unknown-branch": "BranchNotFound",
    "graphql-unknown-field": "QueryRefused",
    "graphql-unknown-kind": "QueryRefused",
    "graphql-wrong-type": "QueryRefused",
    "perm-artifact-view-only-page": "PermissionDenied",
    "perm-view-all-generate": "PermissionDenied",
    "query-stored-access-token-of-inactive-account": "PermissionDenied",
    "query-stored-anonymous-post": "AuthenticationFailed",
    "query-stored-apikey-bad": "AuthenticationFailed",
    "query-stored-apikey-expired": "AuthenticationFailed",
    "query-stored-at-bad": "BadDate",
    "query-stored-at-before-branch": "DateBeforeStart",
    "1.4.13/query-stored-at-before-branch": "QueryNotFound",
    "query-stored-at-days": "BadDate",
    "query-stored-at-empty": "BadDate",
    "query-stored-at-epoch": "BadDate",
    "query-stored-at-garbage-date": "BadDate",
    "1.4.13/query-stored-at-iso-lower": "BadDate",
    "query-stored-at-rel-2h-before-branch": "DateBeforeStart",
    "1.4.13/query-stored-at-rel-2h-before-branch": "QueryNotFound",
    "1.4.13/query-stored-at-space": "BadDate",
    "query-stored-at-unencoded-plus": "BadDate",
    "query-stored-bad-body": "BadRequest",
    "query-stored-deleted-branch": "BranchNotFound",
    "query-stored-empty-bearer": "AuthenticationFailed",
    "query-stored-missing": "QueryNotFound",
    "query-stored-missing-required-variable": "QueryRefused",
    "query-stored-no-permission": "PermissionDenied",
    "query-stored-refresh-token-as-access": "AuthenticationFailed",
    "query-stored-token-expired": "AuthenticationFailed",
    "query-stored-token-expired-get": "AuthenticationFailed",
    "query-stored-token-garbage": "AuthenticationFailed",
    "query-stored-unknown-branch": "BranchNotFound",
    "query-stored-unknown-branch-slash": "BranchNotFound",
    "query-stored-wrong-type": "QueryRefused",
    "storage-checksum-mismatch": "ContentAltered",
    "storage-object-traversal": "WrongURL",
    "storage-object-unknown": "ContentMissing",
}
RETRYABLE = {
    "Unavailable",
    "Unreachable",
    "Throttled",
    "ServerError",
    "InvalidAnswer",
    "ListUnstable",
    "ChecksumMismatch",
}


def _endpoint(url: str) -> str:
    path = urlsplit(url).path
    starts = {
        "/api/auth": "login",
        "/api/query": "query",
        "/graphql": "graphql",
        "/api/artifact": "artifact",
        "/api/storage": "storage",
    }
    return next((endpoint for start, endpoint in starts.items() if path.startswith(start)), "other")


def _error(recording: dict[str, Any]) -> InfrahubError | None:
    answer = recording["response"]
    asked = Asked(_endpoint(recording["request"]["url"]), "what was asked", SERVER)
    body = answer["body"]
    if answer["status"] >= 300:
        raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        return http_error(asked, answer["status"], raw)
    return graphql_error(asked, body) if isinstance(body, dict) else None


def _failures() -> dict[str, dict[str, Any]]:
    found = {}
    for path in sorted(RECORDINGS.rglob("*.json")):
        recording = json.loads(path.read_text())
        answer = recording.get("response")
        if answer and (answer["status"] >= 300 or (isinstance(answer["body"], dict) and answer["body"].get("errors"))):
            found[path.relative_to(RECORDINGS).with_suffix("").as_posix()] = recording
    return found


FAILURES = _failures()


def _expected(name: str) -> str:
    return EXPECTED[name] if name in EXPECTED else EXPECTED[name.rpartition("/")[2]]


@pytest.mark.parametrize("name", FAILURES)
def test_a_recorded_failure_has_its_reason(name: str) -> None:
    error = _error(FAILURES[name])
    assert error is not None
    assert error.reason == _expected(name)
    assert error.retryable == (error.reason in RETRYABLE)
    assert error.message == str(error)
    assert SERVER in error.message
    assert "what was asked" in error.message
    assert error.text in error.message
    if FAILURES[name]["response"]["status"] >= 300:
        assert f"HTTP {FAILURES[name]['response']['status']}" in error.message


def test_the_table_has_no_row_without_a_recording() -> None:
    names = set(FAILURES) | {name.rpartition("/")[2] for name in FAILURES}
    assert set(EXPECTED) <= names
    assert len(FAILURES) > 130


def _tree(kind: type[InfrahubError]) -> list[type[InfrahubError]]:
    return [kind, *(one for below in kind.__subclasses__() for one in _tree(below))]


def test_each_cause_has_a_reason_of_its_own_named_as_its_class() -> None:
    kinds = _tree(InfrahubError)
    assert len({kind.reason for kind in kinds}) == len(kinds)
    assert all(kind.reason == kind.__name__ for kind in kinds)
    assert {kind.reason for kind in kinds if kind.retryable} == RETRYABLE


def test_each_reason_is_documented_with_what_a_sync_does() -> None:
    documented = (Path(__file__).parents[3] / "docs" / "infrahub-errors.md").read_text()
    abstract = {InfrahubError, errors.BadContent}
    for kind in set(_tree(InfrahubError)) - abstract:
        row = next((line for line in documented.splitlines() if line.startswith(f"| {kind.reason} |")), "")
        assert row, kind.reason
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        assert cells[1] == ("yes" if kind.retryable else "no"), kind.reason
        assert cells[2] == ("Stale" if kind.source_fault else "Failed"), kind.reason


@pytest.mark.parametrize(
    ("endpoint", "status", "body", "reason"),
    [
        ("query", 502, b"<html><head><title>502 Bad Gateway</title></head></html>", "Unavailable"),
        ("query", 502, b'{"errors":[{"message":"upstream","extensions":{"code":502}}]}', "Unavailable"),
        ("query", 502, b'{"errors":[{"message":{"message":"Unable to connect to the database"}}]}', "Unavailable"),
        ("graphql", 504, b"", "Unavailable"),
        ("graphql", 423, b'{"errors":[{"message":"merging"}]}', "Unavailable"),
        ("graphql", 429, b'{"errors":[{"message":"shed"}]}', "Throttled"),
        ("login", 429, b"slow down", "Throttled"),
        ("login", 404, b"<html><title>Not here</title></html>", "InvalidAnswer"),
        ("login", 404, b'{"errors":[{"message":"The requested endpoint /x does not exist"}]}', "WrongURL"),
        ("login", 403, b"{}", "AuthenticationFailed"),
        ("artifact", 404, b"<HTML><body>gone</body></HTML>", "InvalidAnswer"),
        ("artifact", 403, b"<html><title>WAF</title></html>", "PermissionDenied"),
        ("artifact", 302, b"redirects to https://elsewhere", "WrongURL"),
        ("artifact", 409, b'{"errors":[{"message":"no checksum"}]}', "ContentAltered"),
        ("query", 409, b'{"errors":[{"message":"no checksum"}]}', "BadRequest"),
        ("graphql", 404, b'{"errors":["Unable to find the node x / CoreThing in the database."]}', "NotFound"),
        ("graphql", 400, b'{"errors":[]}', "InvalidAnswer"),
        ("graphql", 400, b'{"detail":"no"}', "BadRequest"),
        ("graphql", 400, b"[" * 100_000, "InvalidAnswer"),
    ],
)
def test_what_a_proxy_or_a_strained_server_says_has_its_reason(
    endpoint: str, status: int, body: bytes, reason: str
) -> None:
    assert http_error(Asked(endpoint, "x", SERVER), status, body).reason == reason


def test_the_title_of_a_page_is_its_text_and_long_texts_are_cut() -> None:
    page = http_error(Asked("query", "x", SERVER), 503, b"<html><title> Down\nfor  repair </title>" + b"x" * 9999)
    assert page.text == "an HTML page Down for repair"
    assert len(http_error(Asked("query", "x", SERVER), 500, b"y" * 9999).text) <= 300


def test_several_errors_are_counted() -> None:
    error = http_error(Asked("query", "x", SERVER), 400, b'{"errors":[{"message":"a"},{"message":"b"},"c"]}')
    assert error.text == "a (and 2 more)"


def test_a_validation_error_never_repeats_what_was_sent() -> None:
    body = {"detail": [{"loc": ["body", "username"], "msg": "Field required", "input": {"password": "hush"}}]}
    error = http_error(Asked("login", "login", SERVER), 422, json.dumps(body).encode())
    assert error.text == "body.username: Field required"


def test_a_secret_that_the_server_repeats_is_blotted_out() -> None:
    error = http_error(Asked("login", "login", SERVER), 401, b"password hush-hush is wrong", secrets=("hush-hush",))
    assert "hush" not in error.message


def test_a_graphql_error_of_an_old_server_is_told_apart_by_its_path() -> None:
    asked = Asked("graphql", "x", SERVER)
    broken = graphql_error(asked, {"data": {"A": None}, "errors": [{"message": "lost", "path": ["A"]}]})
    assert isinstance(broken, errors.ServerError)
    denied = {"message": "You do not have one of the following permissions: object:x", "path": ["A"]}
    assert isinstance(graphql_error(asked, {"data": None, "errors": [denied]}), errors.PermissionDenied)
    lost = {"message": "Unable to connect to the database", "extensions": {"http_status": 503}}
    assert isinstance(graphql_error(asked, {"data": None, "errors": [lost]}), errors.Unavailable)
    assert graphql_error(asked, {"data": {}}) is None


def test_retry_after_is_read_in_both_forms_and_bounded() -> None:
    assert seconds("7") == 7
    assert seconds("-3") == 0
    assert seconds("1e99") == MAX_RETRY_AFTER
    assert seconds(format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)) == pytest.approx(90, abs=5)
    assert [seconds(text) for text in (None, "", "soon", "nan")] == [None] * 4
    error = http_error(Asked("query", "x", SERVER), 429, b"{}", retry_after="12")
    assert error.retry_after == 12

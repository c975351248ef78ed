"""Refusals of API servers and of what stands before them: what each is, and whether waiting helps."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vidra.kube.errors import (
    ApiError,
    Cause,
    ConfigError,
    InvalidAnswer,
    KubeError,
    Silent,
    Unreachable,
    api_error,
    status_error,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def body(code: int, reason: str, message: str = "m", **details: Any) -> bytes:
    status = {"kind": "Status", "code": code, "reason": reason, "message": message, "details": details}
    return json.dumps(status).encode()


@pytest.mark.parametrize(
    ("code", "reason", "retryable"),
    [
        (400, "BadRequest", False),
        (401, "Unauthorized", False),
        (403, "Forbidden", False),
        (404, "NotFound", False),
        (405, "MethodNotAllowed", False),
        (408, "Timeout", True),
        (409, "Conflict", True),
        (409, "AlreadyExists", True),
        (410, "Expired", False),
        (413, "RequestEntityTooLarge", False),
        (415, "UnsupportedMediaType", False),
        (422, "Invalid", False),
        (429, "TooManyRequests", True),
        (500, "InternalError", True),
        (502, "BadGateway", True),
        (503, "ServiceUnavailable", True),
        (504, "Timeout", True),
    ],
)
def test_whether_waiting_helps(code: int, reason: str, retryable: bool) -> None:
    error = api_error(code, body(code, reason))
    assert (error.status, error.reason, error.retryable) == (code, reason, retryable)


@pytest.mark.parametrize(
    ("error", "retryable"),
    [(Unreachable("x"), True), (Silent("x"), True), (InvalidAnswer("x"), True), (ConfigError("x"), False)],
)
def test_whether_waiting_helps_where_no_server_answered(error: KubeError, retryable: bool) -> None:
    assert error.retryable is retryable


@pytest.mark.parametrize(
    ("code", "reason", "true"),
    [
        (404, "NotFound", {"not_found"}),
        (409, "Conflict", {"conflict"}),
        (409, "AlreadyExists", {"already_exists"}),
        (410, "Gone", {"gone"}),
        (410, "Expired", {"gone"}),
        (400, "Expired", {"gone"}),
        (422, "Invalid", {"invalid"}),
        (403, "Forbidden", set()),
    ],
)
def test_each_refusal_is_one_thing_and_no_other(code: int, reason: str, true: set[str]) -> None:
    error = api_error(code, body(code, reason))
    words = ("not_found", "conflict", "already_exists", "gone", "invalid", "too_large_version")
    assert {word for word in words if getattr(error, word)} == true


def test_a_version_from_the_future_is_known_by_its_cause_and_by_older_servers_words() -> None:
    assert api_error(504, body(504, "Timeout", causes=[{"reason": "ResourceVersionTooLarge"}])).too_large_version
    assert api_error(504, body(504, "Timeout", "Too large resource version: 9, current: 5")).too_large_version
    assert not api_error(504, body(504, "Timeout", "request did not complete")).too_large_version


def test_other_managers_fields_are_among_the_causes() -> None:
    causes = [
        {"reason": "FieldManagerConflict", "field": ".spec.x", "message": 'conflict with "other"'},
        {"reason": "FieldValueInvalid", "field": "spec.y", "message": "no"},
        "not a cause",
    ]
    error = api_error(409, body(409, "Conflict", causes=causes))
    assert error.field_conflicts == (Cause("FieldManagerConflict", ".spec.x", 'conflict with "other"'),)
    assert len(error.causes) == 2


@pytest.mark.case("R08")
def test_r08_the_text_names_the_code_and_the_object_and_the_wait_is_known() -> None:
    error = api_error(429, body(429, "TooManyRequests", "slow down"), retry_after="7", request="PATCH /api/v1/pods/a")
    assert str(error) == "PATCH /api/v1/pods/a: 429 TooManyRequests: slow down"
    assert error.retry_after == 7


@pytest.mark.parametrize(
    ("header", "in_body", "wait"),
    [
        ("3", None, 3.0),
        ("3", 9, 3.0),
        (None, 9, 9.0),
        ("0", None, 0.0),
        ("-5", None, 0.0),
        ("", None, None),
        ("Wed, 21 Oct 2026 07:28:00 GMT", None, None),
        ("nan", None, None),
        ("inf", None, None),
        (None, "soon", None),
        (None, None, None),
    ],
)
def test_the_wait_that_was_asked_for(header: str | None, in_body: Any, wait: float | None) -> None:
    details = {} if in_body is None else {"retryAfterSeconds": in_body}
    assert api_error(429, body(429, "TooManyRequests", **details), retry_after=header).retry_after == wait


def test_a_proxys_page_is_shortened_to_one_line() -> None:
    error = api_error(502, b"<html>\n<body>\n502 Bad Gateway\xff" + b"x" * 1000)
    assert str(error).startswith("502 BadGateway: <html> <body> 502 Bad Gateway")
    assert "\n" not in str(error)
    assert len(str(error)) < 330


def test_an_empty_answer_still_says_something() -> None:
    assert str(api_error(503, b"")) == "503 ServiceUnavailable: no text"
    assert str(api_error(503, b"null")) == "503 ServiceUnavailable: no message"
    assert str(api_error(418, b"{}")) == "418 Unknown: no message"


@given(parsed=JSON | st.fixed_dictionaries({}, optional=dict.fromkeys(("code", "reason", "message"), JSON)))
def test_whatever_stands_in_an_error_it_is_one(parsed: Any) -> None:
    assert isinstance(status_error(parsed), ApiError)
    assert isinstance(status_error({"details": parsed}), ApiError)
    assert isinstance(status_error({"details": {"causes": parsed, "retryAfterSeconds": parsed}}), ApiError)


@given(data=st.binary(max_size=50))
def test_whatever_bytes_a_refusal_has_it_is_an_error(data: bytes) -> None:
    assert api_error(500, data).status == 500


def test_a_refusal_that_nests_too_deeply_is_an_error_as_well() -> None:
    assert api_error(500, b"[" * 200_000).status == 500

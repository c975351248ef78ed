"""The stand-in's ways in, and what tokens look like."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from infrahub.auth import Accounts, AuthError, bearer
from infrahub.clock import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def accounts(clock: Clock) -> Accounts:
    return Accounts(clock)


def claims(token: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    return read


def refusal(call: Any, *arguments: Any) -> tuple[int, str]:
    with pytest.raises(AuthError) as caught:
        call(*arguments)
    return caught.value.status, caught.value.message


def test_tokens_carry_the_recorded_claims_and_lifetimes(accounts: Accounts) -> None:
    tokens = accounts.login("admin", "infrahub")
    access, refresh = claims(tokens["access_token"]), claims(tokens["refresh_token"])
    assert set(access) == {"sub", "iat", "nbf", "exp", "fresh", "type", "session_id"}
    assert (access["type"], refresh["type"], access["fresh"]) == ("access", "refresh", False)
    assert access["exp"] - access["iat"] == 3600
    assert refresh["exp"] - refresh["iat"] == 2592000
    assert json.loads(base64.urlsafe_b64decode(tokens["access_token"].split(".")[0] + "=="))["alg"] == "HS256"


def test_a_token_expires_when_the_clock_says_so(accounts: Accounts, clock: Clock) -> None:
    accounts.access_lifetime = 10
    token = accounts.login("admin", "infrahub")["access_token"]
    headers = {"Authorization": f"Bearer {token}"}
    found = accounts.who(headers, {})
    assert found is not None
    assert found.name == "admin"
    clock.advance(11)
    assert refusal(accounts.who, headers, {}) == (401, "Expired Signature")


def test_a_rotated_secret_makes_every_token_invalid(accounts: Accounts) -> None:
    token = accounts.login("admin", "infrahub")["access_token"]
    accounts.rotate_secret()
    assert refusal(accounts.who, {"Authorization": f"Bearer {token}"}, {}) == (401, "Invalid token")


def test_a_key_wins_over_a_bearer_and_a_bearer_over_a_cookie(accounts: Accounts) -> None:
    key = accounts.add_key("admin")
    assert accounts.who({"X-INFRAHUB-KEY": key, "Authorization": "Bearer rubbish"}, {}) is not None
    cookies = {"access_token": accounts.login("admin", "infrahub")["access_token"]}
    assert accounts.who({}, cookies) is not None
    assert refusal(accounts.who, {"Authorization": "Bearer rubbish"}, cookies) == (401, "Invalid token")
    assert accounts.who({}, {}) is None


def test_logging_out_ends_the_refresh_token_but_not_the_access_token(accounts: Accounts) -> None:
    tokens = accounts.login("admin", "infrahub")
    assert set(accounts.refresh(tokens["refresh_token"])) == {"access_token"}
    accounts.logout(tokens["access_token"])
    assert refusal(accounts.refresh, tokens["refresh_token"])[0] == 401
    assert accounts.who({"Authorization": f"Bearer {tokens['access_token']}"}, {}) is not None


def test_an_inactive_account_may_not_log_in_nor_use_its_key(accounts: Accounts) -> None:
    account = accounts.add("reader", "pw")
    key = accounts.add_key("reader")
    account.active = False
    assert refusal(accounts.login, "reader", "pw") == (401, "This account is not allowed to login")
    assert refusal(accounts.who, {"X-INFRAHUB-KEY": key}, {}) == (401, "This account has been deactivated")


def test_an_account_without_a_role_lacks_what_others_have(accounts: Accounts) -> None:
    assert not accounts.by_name["admin"].missing(["CoreArtifact"])
    nobody = accounts.add("nobody", "pw", views=frozenset())
    assert nobody.missing(["CoreArtifact"])
    assert not nobody.missing([])


@pytest.mark.parametrize(
    ("header", "token"), [("Bearer x", "x"), ("bearer x", "x"), ("Bearer", None), ("Basic x", None)]
)
def test_only_a_bearer_header_with_a_token_counts(header: str, token: str | None) -> None:
    assert bearer({"Authorization": header}) == token

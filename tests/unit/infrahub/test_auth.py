"""Credentials, the life of a token, and URLs: the parts that need no server."""

import base64
import json
from typing import Any

import pytest

from vidra.infrahub.auth import Credentials, Pass, lifetime
from vidra.infrahub.errors import BadRequest, WrongURL
from vidra.infrahub.transport import normalise_url, segment


def jwt(**claims: Any) -> str:
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in ({}, claims)]
    return ".".join([*parts, "c2ln"])


def test_the_life_of_a_token_is_read_by_the_servers_own_clock() -> None:
    assert lifetime(jwt(iat=1_000_000, exp=1_003_600), now=5.0) == 3600
    assert lifetime(jwt(exp=1_003_600), now=1_000_000) == 3600


@pytest.mark.parametrize(
    "token",
    ["", "opaque", "a.b.c", "a.!!.c", jwt(), jwt(exp=None), jwt(exp="soon"), jwt(exp=float("inf"), iat=1), "a.W10.c"],
)
def test_a_token_that_does_not_say_its_end_has_none(token: str) -> None:
    assert lifetime(token, now=0) is None


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"username": "u"},
        {"password": "p"},
        {"token": "t", "username": "u", "password": "p"},
        {"token": "t", "password": "p"},
        {"token": "t\r\nx-evil: 1"},
    ],
)
def test_credentials_are_either_a_token_or_a_pair(parts: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"credentials|one line"):
        Credentials(**parts)


def test_no_secret_shows_in_a_repr() -> None:
    shown = repr(
        [Credentials(username="me", password="hush"), Credentials(token="hush"), Pass("Authorization", "hush")]
    )
    assert "hush" not in shown
    assert "hush" not in Credentials(token="hush").digest


def test_digests_tell_credentials_apart() -> None:
    pairs = [Credentials("a", "bc"), Credentials("ab", "c"), Credentials(token="abc")]
    assert len({one.digest for one in pairs}) == 3
    assert Credentials("a", "bc").digest == pairs[0].digest


@pytest.mark.parametrize(
    ("url", "normal"),
    [
        ("http://Infrahub:8000/", "http://infrahub:8000"),
        ("HTTP://infrahub:80", "http://infrahub"),
        ("https://infrahub:443/base/", "https://infrahub/base"),
        ("https://infrahub:80", "https://infrahub:80"),
        (" http://[::1]:8000 ", "http://[::1]:8000"),
    ],
)
def test_one_server_has_one_url(url: str, normal: str) -> None:
    assert normalise_url(url) == normal


@pytest.mark.parametrize(
    "url",
    ["", "infrahub:8000", "ftp://x", "http://", "http://x:port", "http://u:hush@x", "http://x?a=hush", "http://[x"],
)
def test_what_is_no_plain_url_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(WrongURL) as caught:
        normalise_url(url)
    assert "hush" not in caught.value.message


def test_names_are_percent_encoded_whole() -> None:
    assert segment("feature/a#1+ü -x") == "feature%2Fa%231%2B%C3%BC%20-x"
    for unfit in ("", ".", ".."):
        with pytest.raises(BadRequest):
            segment(unfit)

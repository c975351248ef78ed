"""Accounts, tokens and what an account may do.

Tokens are real JWTs (HS256) whose lifetimes are settings and whose time is the stand-in's clock, so a test lets them
expire by moving the clock. Every failure is an AuthError with the server's own status and words.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from infrahub.clock import Clock, new_id

TokenKind = Literal["access", "refresh"]
ADMIN_KEY = "06438eb2-8019-4776-878c-0941b1f1d1ec"


class AuthError(Exception):
    """The request is refused; `code` is what newer servers put into GraphQL errors."""

    def __init__(self, status: int, message: str, code: str = "AUTHENTICATION_REQUIRED") -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code


@dataclass
class Account:
    """An account. `views` are the kinds it may read, None for all; `writes` covers mutations and generation."""

    name: str
    password: str
    active: bool = True
    views: frozenset[str] | None = None
    writes: bool = False
    keys: set[str] = field(default_factory=set)

    def missing(self, kinds: list[str]) -> bool:
        """Whether the account lacks the permission to read any of the kinds."""
        if not self.active:
            return bool(kinds)
        return self.views is not None and not self.views.issuperset(kinds)


ANONYMOUS = Account("anonymous", "")


class Accounts:
    """Who may come in, and how."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._secret = secrets.token_bytes(32)
        self._dead_sessions: set[str] = set()
        self.access_lifetime = 3600.0
        self.refresh_lifetime = 30 * 24 * 3600.0
        self.anonymous = True
        self.by_name = {"admin": Account("admin", "infrahub", writes=True, keys={ADMIN_KEY})}

    def add(self, name: str, password: str, **settings: Any) -> Account:
        """A new account; `views=frozenset()` makes one without a role."""
        account = self.by_name[name] = Account(name, password, **settings)
        return account

    def rotate_secret(self) -> None:
        """Change the signing secret: every token that is out becomes invalid."""
        self._secret = secrets.token_bytes(32)

    # -- tokens ---------------------------------------------------------------------------------------------------

    def token(self, name: str, kind: TokenKind = "access", *, session: str = "", lifetime: float | None = None) -> str:
        """A signed token for the account, valid for `lifetime` seconds (default: the setting)."""
        now = self._clock.now().timestamp()
        if lifetime is None:
            lifetime = self.access_lifetime if kind == "access" else self.refresh_lifetime
        claims = {
            "sub": name,
            "iat": int(now),
            "nbf": int(now),
            "exp": int(now + lifetime),
            "fresh": False,
            "type": kind,
            "session_id": session or new_id(self._clock.now()),
        }
        head = _base64(json.dumps({"alg": "HS256", "typ": "JWT"}).encode())
        signed = f"{head}.{_base64(json.dumps(claims).encode())}"
        return f"{signed}.{self._signature(signed)}"

    def _signature(self, signed: str) -> str:
        return _base64(hmac.digest(self._secret, signed.encode(), hashlib.sha256))

    def _claims(self, token: str, kind: TokenKind) -> dict[str, Any]:
        signed, _, signature = token.rpartition(".")
        if not signed or not hmac.compare_digest(self._signature(signed).encode(), signature.encode()):
            raise AuthError(401, "Invalid token")
        claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(signed.split(".")[1] + "=="))
        if claims["exp"] <= self._clock.now().timestamp():
            raise AuthError(401, "Expired Signature", "TOKEN_EXPIRED")
        if claims["type"] != kind:
            article = "an access" if kind == "access" else "a refresh"
            raise AuthError(401, f"Invalid token, current token is not {article} token")
        return claims

    # -- ways in --------------------------------------------------------------------------------------------------

    def login(self, name: str, password: str) -> dict[str, str]:
        """Both tokens for the right password. Raises AuthError."""
        account = self.by_name.get(name)
        if account is None:
            raise AuthError(404, "That login user doesn't exist in the system")
        if not account.active:
            raise AuthError(401, "This account is not allowed to login")
        if account.password != password:
            raise AuthError(401, "Incorrect password")
        session = new_id(self._clock.now())
        return {
            "access_token": self.token(name, session=session),
            "refresh_token": self.token(name, "refresh", session=session),
        }

    def refresh(self, token: str | None) -> dict[str, str]:
        """A new access token; the refresh token stays. Raises AuthError."""
        if not token:
            raise AuthError(401, "A JWT refresh token is required to perform this operation.")
        claims = self._claims(token, "refresh")
        if claims["session_id"] in self._dead_sessions:
            raise AuthError(401, "The provided refresh token has been invalidated in the database")
        if not self.by_name[claims["sub"]].active:
            raise AuthError(401, "This account has been deactivated")
        return {"access_token": self.token(claims["sub"], session=claims["session_id"])}

    def logout(self, token: str | None) -> None:
        """End the session; its access tokens live on until they expire. Raises AuthError."""
        if not token:
            raise AuthError(401, "Authentication is required")
        self._dead_sessions.add(self._claims(token, "access")["session_id"])

    def who(self, headers: Mapping[str, str], cookies: Mapping[str, str]) -> Account | None:
        """The account a request comes from, None for nobody. The API key wins over everything. Raises AuthError."""
        if key := headers.get("X-INFRAHUB-KEY"):
            for account in self.by_name.values():
                if key in account.keys:
                    if not account.active:
                        raise AuthError(401, "This account has been deactivated")
                    return account
            raise AuthError(401, "Invalid token")
        token = bearer(headers) or cookies.get("access_token")
        if not token:
            return None
        return self.by_name[self._claims(token, "access")["sub"]]

    def add_key(self, name: str) -> str:
        """A new API key for the account."""
        key = str(uuid.uuid4())
        self.by_name[name].keys.add(key)
        return key


def bearer(headers: Mapping[str, str]) -> str | None:
    """The token of the Authorization header, if there is one."""
    scheme, _, token = headers.get("Authorization", "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

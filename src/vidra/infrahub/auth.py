"""Who Vidra is to a server: credentials, and the token a login brings.

Promises: a token is kept until shortly before it ends, however many callers there are; one login is in flight for
all of them, and outlives the one that began it; a refused token is dropped only by those who used that very token.
Every login costs the server about a second and a node in its graph, for good.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from vidra.infrahub.errors import Asked, AuthenticationFailed, InvalidAnswer
from vidra.infrahub.transport import Transport

#: A token is renewed this many seconds, or this share of its life if that is less, before it ends.
MARGIN_SECONDS, MARGIN_SHARE = 60.0, 0.1


@dataclass(frozen=True, slots=True)
class Credentials:
    """An API token, or a username and a password. Values show in no ``repr``. Raises ValueError for neither or both."""

    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if bool(self.token) == bool(self.username or self.password):
            raise ValueError("credentials are either a token or a username and a password")
        if not self.token and not (self.username and self.password):
            raise ValueError("credentials need both a username and a password")
        if any(c in self.token for c in "\r\n\0"):
            raise ValueError("a token is one line")

    @property
    def digest(self) -> str:
        """Tells credentials apart and can't be turned back; fit for keys of a cache, not for logs."""
        parts = json.dumps([self.username, self.password, self.token])
        return hashlib.sha256(parts.encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def secrets(self) -> tuple[str, ...]:
        return tuple(secret for secret in (self.password, self.token) if secret)


@dataclass(frozen=True, slots=True)
class Pass:
    """What goes with a request: one header, good until ``ends`` (monotonic seconds), None where no end is known."""

    name: str
    value: str = field(repr=False)
    ends: float | None = None

    @property
    def headers(self) -> dict[str, str]:
        return {self.name: self.value}

    @property
    def secret(self) -> str:
        return self.value.removeprefix("Bearer ")


class Auth:
    """The one holder of a server's token for one set of credentials."""

    def __init__(
        self, transport: Transport, credentials: Credentials, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._transport = transport
        self._credentials = credentials
        self._clock = clock
        self._pass: Pass | None = None
        self._login: asyncio.Task[Pass] | None = None
        if credentials.token:
            self._pass = Pass("X-INFRAHUB-KEY", credentials.token)

    async def get(self) -> Pass:
        """The pass in force, of a new login if need be. Raises InfrahubError."""
        held = self._pass
        if held is not None and (held.ends is None or self._clock() < held.ends):
            return held
        if self._login is None:
            self._login = asyncio.create_task(self._log_in(), name=f"login at {self._transport.server}")
            self._login.add_done_callback(self._ended)
        # Shielded: a caller that gives up must not take the login from the others.
        return await asyncio.shield(self._login)

    def refused(self, used: Pass) -> bool:
        """Called after a 401: drops ``used`` if it is still the one in force. False when no login can help."""
        if self._credentials.token:
            return False
        if self._pass is used:
            self._pass = None
        return True

    async def close(self) -> None:
        if self._login is not None:
            self._login.cancel()
            await asyncio.gather(self._login, return_exceptions=True)

    def _ended(self, login: asyncio.Task[Pass]) -> None:
        self._login = None
        if login.cancelled():
            return
        # Read here, as there may be no caller left to do so.
        if login.exception() is None:
            self._pass = login.result()

    async def _log_in(self) -> Pass:
        asked = Asked("login", "login", self._transport.server)
        began = self._clock()
        answer = await self._transport.fetch_json(
            "POST",
            "/api/auth/login",
            asked,
            body={"username": self._credentials.username, "password": self._credentials.password},
            secrets=self._credentials.secrets,
        )
        token = answer.get("access_token")
        if not isinstance(token, str) or not token.isascii() or not token.isprintable() or " " in token:
            raise InvalidAnswer(asked, "no access_token in the answer")
        life = lifetime(token, now=time.time())
        if life is not None and life <= 0:
            raise AuthenticationFailed(asked, "the server gave a token that has ended already")
        ends = None if life is None else began + life - min(MARGIN_SECONDS, MARGIN_SHARE * life)
        return Pass("Authorization", f"Bearer {token}", ends)


def lifetime(token: str, *, now: float) -> float | None:
    """Seconds a JWT lives from its issue, None when it doesn't say so (it then serves until it is refused).

    ``exp`` less ``iat`` where both are there, so that a server whose clock differs from ours is understood; else
    ``exp`` less ``now`` (Unix seconds). The signature is the server's business.
    """
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        ends, issued = claims.get("exp"), claims.get("iat", now)
        life = float(ends) - float(issued)
        return life if math.isfinite(life) else None
    except (IndexError, ValueError, TypeError, AttributeError, binascii.Error, RecursionError):
        return None

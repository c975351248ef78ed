"""Clients shared by all who ask one server as one account.

Promises: callers with the same URL, credentials and TLS context get the same client, so they share its login, its
connections and what it learnt; all clients of one URL share one bound on requests in flight, whoever they log in as.
A client that nobody has used for a while is closed the next time anybody comes or goes; one in use never is.
"""

from __future__ import annotations

import asyncio
import ssl as tls
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeAlias
from weakref import WeakValueDictionary

from vidra.infrahub.auth import Credentials
from vidra.infrahub.client import InfrahubClient
from vidra.infrahub.transport import MAX_CONCURRENCY, TIMEOUT, normalise_url

#: Seconds without a user after which a client is closed. Longer than the usual interval of a sync, so that the token
#: lasts from one reconcile to the next.
IDLE = 1800.0

_Key: TypeAlias = tuple[str, str, tls.SSLContext | None]


@dataclass(slots=True)
class _Held:
    client: InfrahubClient
    users: int = 0
    idle_since: float = 0.0


class ClientPool:
    """Use as ``async with ClientPool() as pool``, then ``async with pool.client(url, credentials) as client``."""

    def __init__(
        self,
        *,
        timeout: float = TIMEOUT,
        max_concurrency: int = MAX_CONCURRENCY,
        idle: float = IDLE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._timeout = timeout
        self._max_concurrency = max_concurrency
        self._idle = idle
        self._clock = clock
        self._held: dict[_Key, _Held] = {}
        self._slots: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def __aenter__(self) -> ClientPool:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        held, self._held = list(self._held.values()), {}
        for one in held:
            await one.client.__aexit__(None, None, None)

    def __len__(self) -> int:
        """The clients that are open."""
        return len(self._held)

    @asynccontextmanager
    async def client(
        self, url: str, credentials: Credentials, *, ssl: tls.SSLContext | None = None
    ) -> AsyncIterator[InfrahubClient]:
        """The shared client, open for as long as the context lasts.

        ``ssl`` is compared by identity: callers who mean the same authorities pass the same context. Raises WrongURL.
        """
        server = normalise_url(url)
        key = (server, credentials.digest, ssl)
        held = self._held.get(key)
        if held is None:
            held = self._held[key] = _Held(await self._open(server, credentials, ssl))
        held.users += 1
        try:
            await self._close_idle()
            yield held.client
        finally:
            held.users -= 1
            held.idle_since = self._clock()
            await self._close_idle()

    async def _open(self, server: str, credentials: Credentials, ssl: tls.SSLContext | None) -> InfrahubClient:
        slots = self._slots.get(server)
        if slots is None:
            slots = self._slots[server] = asyncio.Semaphore(self._max_concurrency)
        # Opening waits for nothing, so two callers can't both come here for one key.
        client = InfrahubClient(server, credentials, ssl=ssl, timeout=self._timeout, slots=slots)
        return await client.__aenter__()

    async def _close_idle(self) -> None:
        now = self._clock()
        for key, held in list(self._held.items()):
            if not held.users and now - held.idle_since >= self._idle:
                del self._held[key]
                await held.client.__aexit__(None, None, None)

"""One authenticated HTTP session to one API server.

Promises: one connection pool, a bound on requests in flight, a time-out on every request, credentials read again
after a 401 (once per request), errors of :mod:`vidra.kube.errors` and no other. It knows HTTP and no verbs: those are
:class:`vidra.kube.client.Client`'s.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlencode

import aiohttp
from kubernetes_asyncio.client.configuration import Configuration
from kubernetes_asyncio.client.rest import RESTClientObject
from yarl import URL

from vidra import __version__
from vidra.kube import config
from vidra.kube.breaker import Breaker
from vidra.kube.errors import ApiError, ConfigError, Fenced, Silent, Unreachable, api_error
from vidra.kube.guard import READS, Guard, GuardedBody

#: Requests in flight at once. Beyond 32 a single API server gains nothing and others' requests wait longer.
MAX_IN_FLIGHT = 32
#: Seconds for a request that is no watch. The API server's own limit is 60.
REQUEST_TIMEOUT = 60.0
#: Seconds without a byte of an answer. Webhooks may take 30 on the server's side.
SILENCE = 35.0
#: Two 401 closer together than this share one reading of the credentials.
RELOAD_PAUSE = 1.0

#: Told of each answer: HTTP code ("<error>" when there was none), method.
RequestObserver: TypeAlias = Callable[[str, str], None]


class Session:
    """Use as ``async with Session(loader) as session``.

    ``loader`` is asked for credentials at the start and again after a 401. A server that stops answering is left alone
    for a while (:mod:`vidra.kube.breaker`). ``guard`` is asked before anything is sent that could change the server
    (:mod:`vidra.kube.guard`); the Fenced it raises is the caller's.
    """

    def __init__(
        self,
        loader: config.Loader,
        *,
        user_agent: str = f"vidra/{__version__}",
        max_in_flight: int = MAX_IN_FLIGHT,
        timeout: float = REQUEST_TIMEOUT,
        observer: RequestObserver | None = None,
        breaker: Breaker | None = None,
        guard: Guard | None = None,
    ) -> None:
        self._loader = loader
        self._guard = guard
        self._user_agent = user_agent
        self._slots = asyncio.Semaphore(max_in_flight)
        self._timeout = aiohttp.ClientTimeout(total=timeout, sock_connect=10, sock_read=min(timeout, SILENCE))
        self._breaker = breaker or Breaker()
        self._observer = observer or (lambda code, method: None)
        self._configuration: Configuration | None = None
        self._rest: RESTClientObject | None = None
        self._transport: tuple[object, ...] | None = None
        # Connections of an earlier certificate. Requests may still be under way on them, so they stay open until the
        # session ends; idle ones are closed by aiohttp after its keep-alive time.
        self._retired: list[RESTClientObject] = []
        self._loaded_at = float("-inf")
        self._loading = asyncio.Lock()

    async def __aenter__(self) -> Session:
        await self._load()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        for rest in (self._rest, *self._retired):
            if rest is not None:
                await rest.close()

    @property
    def server(self) -> str:
        """The server's base URL, without a slash at the end."""
        assert self._configuration is not None, "the session is not open"
        return str(self._configuration.host).rstrip("/")

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        warnings: list[str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        """Sends one request and returns the answer's body.

        ``headers`` are sent beside the session's own. ``warnings`` collects the texts of the answer's Warning headers.
        Raises ApiError, Unreachable, Fenced.
        """
        sent = {"Accept": accept, **(headers or {})}
        if body is not None:
            sent["Content-Type"] = content_type
        async with self._slots, self._send(method, path, params, body, sent, self._timeout) as answer:
            data = await answer.read()
            # A redirect is no answer of an API server either, and following one would carry the token elsewhere.
            if answer.status >= 300:
                raise _refusal(answer, data, method, path)
            if warnings is not None:
                warnings.extend(_warnings(answer))
            return data

    @asynccontextmanager
    async def stream(
        self, path: str, *, params: Mapping[str, str], idle_timeout: float, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Opens a watch and yields its chunks as they come. It takes no slot of the bound and ends with the context.

        The chunks raise :class:`Unreachable` when the connection breaks, and :class:`Silent` after ``idle_timeout``
        seconds in which not one byte came: a connection that died without a word (R9).
        """
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=idle_timeout)
        sent = {"Accept": "application/json", **(headers or {})}
        async with self._send("GET", path, params, None, sent, timeout) as answer:
            if answer.status != 200:
                raise _refusal(answer, await answer.read(), "WATCH", path)
            async with aclosing(_chunks(answer, path, idle_timeout)) as chunks:
                yield chunks

    @asynccontextmanager
    async def _send(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        body: bytes | None,
        headers: Mapping[str, str],
        timeout: aiohttp.ClientTimeout,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        # The URL is put together here because yarl would decode and re-encode what Resource.path quoted.
        url = f"{path}?{urlencode(params)}" if params else path
        self._breaker.check(f"{method} {path}")
        try:
            answer = await self._once(method, url, body, headers, timeout)
            if answer.status == 401:
                answer.release()
                await self._reload()
                answer = await self._once(method, url, body, headers, timeout)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            if isinstance(error.__cause__, Fenced):  # raised while the body was to be written
                self._breaker.gave_up()
                raise error.__cause__ from None
            self._observer("<error>", method)
            self._breaker.failed()
            raise _unreachable(error, method, path) from error
        except BaseException:
            # Cancelled, or no credentials: that says nothing of the server, and a probe must not count as under way.
            self._breaker.gave_up()
            raise
        self._observer(str(answer.status), method)
        self._breaker.answered()
        try:
            yield answer
        except (aiohttp.ClientError, TimeoutError) as error:
            raise _unreachable(error, method, path) from error
        finally:
            # An unread body (a watch) must not go back into the pool.
            answer.close() if not answer.content.at_eof() else answer.release()

    async def _once(
        self,
        method: str,
        url: str,
        body: bytes | None,
        headers: Mapping[str, str],
        timeout: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        assert self._rest is not None, "the session is not open"
        configuration = self._configuration
        assert configuration is not None
        sent = {"User-Agent": self._user_agent, **headers, **await _credentials(configuration)}
        options: dict[str, Any] = {}
        if self._rest.proxy:
            options["proxy"] = self._rest.proxy
        if self._rest.server_hostname:
            options["server_hostname"] = self._rest.server_hostname
        http: aiohttp.ClientSession = self._rest.pool_manager
        data: bytes | GuardedBody | None = body
        if self._guard is not None and method not in READS:
            self._guard()
            data = GuardedBody(body or b"", self._guard)
        return await http.request(
            method,
            URL(self.server + url, encoded=True),
            data=data,
            headers=sent,
            timeout=timeout,
            allow_redirects=False,
            **options,
        )

    async def _load(self) -> None:
        configuration = await self._loader()
        try:
            transport = await asyncio.to_thread(_transport, configuration)
            fresh = RESTClientObject(configuration, maxsize=0) if transport != self._transport else None
        except OSError as error:  # ssl's errors too
            raise ConfigError(f"the certificates for {configuration.host} can't be used: {error}") from error
        if fresh is not None:
            if self._rest is not None:
                self._retired.append(self._rest)
            self._rest, self._transport = fresh, transport
        # A new token alone needs no new connection.
        self._configuration = configuration
        self._loaded_at = time.monotonic()

    async def reload(self) -> None:
        """Reads the credentials again, because they are known to have changed. Raises what the loader raises."""
        async with self._loading:
            await self._load()

    async def _reload(self) -> None:
        """Reads the credentials again; many requests that failed together cause one reading."""
        seen = self._loaded_at
        async with self._loading:
            if self._loaded_at == seen and time.monotonic() - seen >= RELOAD_PAUSE:
                await self._load()


async def _chunks(answer: aiohttp.ClientResponse, path: str, idle_timeout: float) -> AsyncGenerator[bytes, None]:
    try:
        while chunk := await answer.content.readany():
            yield chunk
    except aiohttp.SocketTimeoutError as error:
        raise Silent(f"WATCH {path}: not one byte in {idle_timeout:g} s") from error
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise _unreachable(error, "WATCH", path) from error


async def _credentials(configuration: Configuration) -> dict[str, str]:
    """The headers that say who we are. Raises ConfigError, whose text has nothing of them."""
    try:
        settings = await configuration.auth_settings()
    # A pod's token file is read in there, now and then: the library raises its own ConfigException and OSError.
    except Exception as error:
        raise ConfigError(f"the credentials can't be read: {error}") from error
    sent = {auth["key"]: str(auth["value"]).strip() for auth in settings.values()}
    if not all(value.isprintable() for value in sent.values()):
        raise ConfigError("the credentials can't be used: a line break or another control character is in them")
    return sent


def _transport(configuration: Configuration) -> tuple[object, ...]:
    """What decides whether an open connection still is the right one: place and TLS material, not the token."""
    files = tuple(
        hashlib.sha256(Path(name).read_bytes()).digest() if name else None
        for name in (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file)
    )
    return (
        configuration.host,
        configuration.proxy,
        configuration.verify_ssl,
        configuration.tls_server_name,
        *files,
    )


def _refusal(answer: aiohttp.ClientResponse, data: bytes, method: str, path: str) -> ApiError:
    return api_error(answer.status, data, retry_after=answer.headers.get("Retry-After"), request=f"{method} {path}")


def _unreachable(error: BaseException, method: str, path: str) -> Unreachable:
    return Unreachable(f"{method} {path}: {str(error) or type(error).__name__}")


def _warnings(answer: aiohttp.ClientResponse) -> list[str]:
    """RFC 7234 warnings as API servers send them: ``299 - "text"``."""
    texts = []
    for header in answer.headers.getall("Warning", ()):
        _, quote, text = header.partition('"')
        if quote:
            texts.append(text.rpartition('"')[0].replace('\\"', '"').replace("\\\\", "\\"))
    return texts

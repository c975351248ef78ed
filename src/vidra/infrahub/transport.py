"""HTTP to one Infrahub server.

Promises: one pool of kept-alive connections and no cookie jar, a bound on requests in flight, one deadline over the
whole of a request, a bound on the bytes of an answer that holds while they stream in, no redirects (credentials go
where they were meant to go, or nowhere), and errors of :mod:`vidra.infrahub.errors` and no other.

The only retry is that of a request which died on a *reused* connection before an answer began: a server resets
connections it kept (Infrahub does so after each 500), and the request never had a chance. It is sent once more, on a
new connection. All else is the caller's to repeat: a work queue does so without holding a worker.
"""

from __future__ import annotations

import asyncio
import json
import ssl as tls
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import aiohttp
from yarl import URL

from vidra import __version__
from vidra.infrahub import errors, refusals
from vidra.infrahub.errors import Asked

#: Seconds for one request, waiting for a free slot not counted. Infrahub needs up to 1 for a login.
TIMEOUT = 60.0
#: Seconds to get a TCP connection.
CONNECT_TIMEOUT = 10.0
#: Requests in flight to one server. Infrahub sheds load beyond what its few workers take.
MAX_CONCURRENCY = 8
#: Bytes of a JSON answer: 10 000 artifacts in one unpaged query are about 5 MB.
MAX_JSON = 64 * 1024 * 1024
#: Bytes read of a refusal; its text is cut far below that.
MAX_REFUSAL = 64 * 1024


class Transport:
    """Use as ``async with Transport(url) as transport``. ``url`` is normalised; ``slots`` may be shared by several."""

    def __init__(
        self,
        url: str,
        *,
        ssl: tls.SSLContext | None = None,
        timeout: float = TIMEOUT,
        slots: asyncio.Semaphore | None = None,
    ) -> None:
        self.server = normalise_url(url)
        self._ssl = ssl
        self._timeout = timeout
        self._slots = slots or asyncio.Semaphore(MAX_CONCURRENCY)
        self._kept: aiohttp.ClientSession | None = None
        self._fresh: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Transport:
        self._kept = self._session(force_close=False)
        # A retry from the pool could meet the next dead connection: after a restart of the server all of them are.
        self._fresh = self._session(force_close=True)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        for session in (self._kept, self._fresh):
            if session is not None:
                await session.close()

    async def fetch_json(
        self,
        method: str,
        path: str,
        asked: Asked,
        *,
        params: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        secrets: tuple[str, ...] = (),
    ) -> dict[str, Any]:
        """Sends ``body`` as JSON and returns the JSON object that comes back. Raises InfrahubError."""
        data = await self.fetch(
            method, path, asked, params=params, body=body, headers=headers, secrets=secrets, limit=MAX_JSON
        )
        try:
            parsed = json.loads(data)
        except (ValueError, RecursionError):
            text = refusals.blot(refusals.read(data).text or "nothing", secrets)
            raise errors.InvalidAnswer(asked, f"no JSON but {text!r}") from None
        if not isinstance(parsed, dict):
            raise errors.InvalidAnswer(asked, f"no JSON object but a {type(parsed).__name__}")
        return parsed

    async def fetch(
        self,
        method: str,
        path: str,
        asked: Asked,
        *,
        params: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        secrets: tuple[str, ...] = (),
        limit: int,
    ) -> bytes:
        """Sends a request and returns the answer's body, of ``limit`` bytes at most.

        ``path`` is percent-encoded already (:func:`segment`), ``params`` are not. ``secrets`` are what must not stand
        in an error even if the server repeats it. Raises InfrahubError; ContentTooLarge beyond the limit.
        """
        # Put together here because yarl would decode and re-encode what segment() quoted.
        query = f"?{urlencode(params, quote_via=quote, safe='')}" if params else ""
        url = URL(f"{self.server}{path}{query}", encoded=True)
        try:
            async with self._slots, asyncio.timeout(self._timeout):
                response = await self._send(method, url, body, dict(headers or {}))
                try:
                    return await _read(response, asked, limit, secrets)
                finally:
                    # A body that wasn't read to its end must not go back into the pool.
                    response.release() if response.content.at_eof() else response.close()
        except aiohttp.ServerTimeoutError as error:
            raise errors.Unreachable(asked, f"no connection within {CONNECT_TIMEOUT:g} s") from error
        except TimeoutError:
            raise errors.Unreachable(asked, f"no answer within {self._timeout:g} s") from None
        except aiohttp.ClientConnectorCertificateError as error:
            raise errors.CertificateRefused(asked, str(error.certificate_error)) from error
        except (aiohttp.ClientError, OSError) as error:
            raise errors.Unreachable(asked, str(error) or type(error).__name__) from error

    async def _send(
        self, method: str, url: URL, body: Mapping[str, Any] | None, headers: dict[str, str]
    ) -> aiohttp.ClientResponse:
        assert self._kept is not None, "the transport is not open"
        assert self._fresh is not None, "the transport is not open"
        connection = SimpleNamespace(reused=False)
        try:
            return await self._request(self._kept, method, url, body, headers, connection)
        except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError):
            if not connection.reused:
                raise
            return await self._request(self._fresh, method, url, body, headers, connection)

    async def _request(
        self,
        session: aiohttp.ClientSession,
        method: str,
        url: URL,
        body: Mapping[str, Any] | None,
        headers: dict[str, str],
        connection: SimpleNamespace,
    ) -> aiohttp.ClientResponse:
        return await session.request(
            method, url, json=body, headers=headers, allow_redirects=False, trace_request_ctx=connection
        )

    def _session(self, *, force_close: bool) -> aiohttp.ClientSession:
        watch = aiohttp.TraceConfig()
        watch.on_connection_reuseconn.append(_mark_reused)
        watch.on_connection_create_start.append(_mark_new)
        return aiohttp.ClientSession(
            # The slots bound the connections too.
            connector=aiohttp.TCPConnector(ssl=self._ssl or True, force_close=force_close, limit=0),
            # Login sets an access cookie, which would authenticate requests of another account to the same host.
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT),
            headers={"User-Agent": f"vidra/{__version__}"},
            trace_configs=[watch],
        )


async def _mark_reused(session: aiohttp.ClientSession, context: SimpleNamespace, params: object) -> None:
    context.trace_request_ctx.reused = True


async def _mark_new(session: aiohttp.ClientSession, context: SimpleNamespace, params: object) -> None:
    context.trace_request_ctx.reused = False


async def _read(response: aiohttp.ClientResponse, asked: Asked, limit: int, secrets: tuple[str, ...]) -> bytes:
    if response.status >= 300:
        body = await _bounded(response, MAX_REFUSAL)
        if response.status < 400:
            # Only where it points: the rest of a Location may hold anything.
            target = urlsplit(response.headers.get("Location", ""))
            body = f"redirects to {target.scheme}://{target.hostname}".encode()
        retry_after = response.headers.get("Retry-After")
        raise refusals.http_error(asked, response.status, body, retry_after=retry_after, secrets=secrets)
    announced = response.content_length
    if announced is not None and announced > limit:
        raise errors.ContentTooLarge(asked, f"{announced} bytes, {limit} are allowed")
    data = await _bounded(response, limit + 1)
    if len(data) > limit:
        raise errors.ContentTooLarge(asked, f"more than the {limit} bytes allowed")
    return data


async def _bounded(response: aiohttp.ClientResponse, limit: int) -> bytes:
    """The body, or its first ``limit`` bytes."""
    chunks: list[bytes] = []
    missing = limit
    async for chunk in response.content.iter_any():
        chunks.append(chunk[:missing])
        missing -= len(chunks[-1])
        if not missing:
            break
    return b"".join(chunks)


def segment(text: str) -> str:
    """One path segment, percent-encoded: a branch may hold ``/`` and ``#``. Raises BadRequest for ``.`` and ``..``."""
    if text in {"", ".", ".."}:
        raise errors.BadRequest(f"{text!r}", "no name that fits in a URL")
    return quote(text, safe="")


def normalise_url(url: str) -> str:
    """Scheme, host and port as everybody writes them, no slash at the end: one server, one text.

    Raises WrongURL for what is no plain http(s) URL; credentials in a URL are refused, they would end up in messages.
    """
    try:
        parts = urlsplit(url.strip())
        host, port = parts.hostname, parts.port
    except ValueError:
        raise errors.WrongURL("the Infrahub URL", "it can't be read") from None
    if parts.scheme not in {"http", "https"} or not host:
        raise errors.WrongURL("the Infrahub URL", "it must read http(s)://host[:port][/path]")
    if parts.username is not None or parts.query or parts.fragment:
        raise errors.WrongURL("the Infrahub URL", "it must hold no credentials, query or fragment")
    host = f"[{host}]" if ":" in host else host
    default = {"http": 80, "https": 443}[parts.scheme]
    suffix = f":{port}" if port is not None and port != default else ""
    return f"{parts.scheme}://{host}{suffix}{parts.path.rstrip('/')}"

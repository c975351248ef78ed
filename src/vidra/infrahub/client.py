"""The client: lists artifacts and downloads them, from one server with one set of credentials.

Promises: every answer is checked before it is believed. A list is whole or an error (:mod:`vidra.infrahub.artifacts`),
content is the one its checksum names, a stored query that would write or would ignore the artifact's name is not run.
A 401 drops the token and logs in once; nothing else is repeated here (but see :mod:`vidra.infrahub.transport`).

All names of branches, queries and ids may hold any character. An empty branch means the server's default branch,
``at`` is what :func:`vidra.infrahub.at.pin` made, or None for now.
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl as tls
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from vidra.infrahub import artifacts, errors, refusals, stored_query
from vidra.infrahub.artifacts import ArtifactRef, Page
from vidra.infrahub.auth import Auth, Credentials, Pass
from vidra.infrahub.errors import Asked
from vidra.infrahub.transport import MAX_CONCURRENCY, TIMEOUT, Transport, segment

#: Bytes of one artifact. Beyond a few MB nothing Kubernetes stores could hold it anyway.
MAX_CONTENT = 20 * 1024 * 1024
#: The variable a stored query is given, as the original names it.
VARIABLE = "artifactname"
#: Seconds for which what was learnt about a stored query, or about the account's permissions, is believed.
BELIEF = 300.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What was found about a stored query, believed ``until`` (monotonic seconds)."""

    until: float
    verified: bool
    objection: str | None = None


class InfrahubClient:
    """Use as ``async with InfrahubClient(url, credentials) as client``; safe for any number of tasks at once.

    ``ssl`` is what certificates are checked with, None for the system's authorities. ``timeout`` is in seconds and
    for one request. ``slots`` bounds the requests in flight in place of ``max_concurrency``, for several clients of one
    server. All methods raise InfrahubError.
    """

    def __init__(
        self,
        url: str,
        credentials: Credentials,
        *,
        ssl: tls.SSLContext | None = None,
        timeout: float = TIMEOUT,
        max_concurrency: int = MAX_CONCURRENCY,
        slots: asyncio.Semaphore | None = None,
        max_content: int = MAX_CONTENT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        slots = slots or asyncio.Semaphore(max_concurrency)
        self._transport = Transport(url, ssl=ssl, timeout=timeout, slots=slots)
        self._auth = Auth(self._transport, credentials, clock=clock)
        self._secrets = credentials.secrets
        self._max_content = max_content
        self._clock = clock
        self._verdicts: dict[tuple[str, str, str | None], _Verdict] = {}
        self._plain_until = float("-inf")

    async def __aenter__(self) -> InfrahubClient:
        await self._transport.__aenter__()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._auth.close()
        await self._transport.__aexit__(*exc_info)

    @property
    def server(self) -> str:
        """The normalised URL."""
        return self._transport.server

    async def list_artifacts(
        self, name: str, *, branch: str = "", at: str | None = None, query: str | None = None
    ) -> tuple[ArtifactRef, ...]:
        """All artifacts named ``name``, each id once; by the stored query ``query`` (its name) or the built-in one."""
        if not name:
            # To Infrahub an empty filter is no filter.
            raise errors.BadRequest("the artifacts to list", "a name is needed")
        refs = await (self._by_query(query, name, branch, at) if query else self._by_pages(name, branch, at))
        if not refs and at is not None:
            await self._refuse_before_start(at)
        return refs

    async def download(self, ref: ArtifactRef, *, branch: str = "", at: str | None = None) -> str:
        """The content of ``ref``: UTF-8, of ``max_content`` bytes at most, and what its checksum names.

        Fetched by its storage id where that is known: such content never changes, while an artifact may be rendered
        anew between the query and this call. ChecksumMismatch says that just this happened: list again. An error says
        nothing about whether the artifact still exists; only a list does.
        """
        where = f"artifact {ref.id}{_on(branch, at)}"
        if ref.checksum is None:
            raise errors.ContentMissing(self._asked("artifact", where), f"not rendered yet (status {ref.status})")
        if ref.storage_id is not None:
            asked = self._asked("storage", f"the content of {where}")
            data = await self._get(f"/api/storage/object/{segment(ref.storage_id)}", {}, asked)
        else:
            asked = self._asked("artifact", f"the content of {where}")
            data = await self._get(f"/api/artifact/{segment(ref.id)}", _params(branch, at), asked)
        found = hashlib.md5(data, usedforsecurity=False).hexdigest()
        if found != ref.checksum.lower():
            raise errors.ChecksumMismatch(asked, f"{len(data)} bytes with checksum {found} instead of {ref.checksum}")
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise errors.ContentNotText(
                asked, f"not UTF-8: byte {error.start} is 0x{data[error.start]:02x} ({error.reason})"
            ) from None

    # Lists

    async def _by_pages(self, name: str, branch: str, at: str | None) -> tuple[ArtifactRef, ...]:
        """By the built-in query, without target and definition when the account may not see these."""
        if self._clock() >= self._plain_until:
            try:
                return await self._read_pages(artifacts.RICH_PAGE, name, branch, at)
            except errors.PermissionDenied:
                refs = await self._read_pages(artifacts.PLAIN_PAGE, name, branch, at)
                self._plain_until = self._clock() + BELIEF
                return refs
        return await self._read_pages(artifacts.PLAIN_PAGE, name, branch, at)

    async def _read_pages(self, text: str, name: str, branch: str, at: str | None) -> tuple[ArtifactRef, ...]:
        asked = self._asked("graphql", f"the artifacts named {name!r}{_on(branch, at)}")

        async def fetch(offset: int, limit: int) -> Page:
            variables = {"name": name, "offset": offset, "limit": limit}
            return artifacts.read_page(asked, await self._graphql(text, variables, asked, branch, at))

        return await artifacts.collect(asked, fetch)

    async def _by_query(self, query: str, name: str, branch: str, at: str | None) -> tuple[ArtifactRef, ...]:
        asked = self._asked("query", f"stored query {query!r} for the artifacts named {name!r}{_on(branch, at)}")
        verified = await self._verify(query, branch, at)
        params = {"update_group": "false", **_params(branch, at)}
        answer = await self._post(f"/api/query/{segment(query)}", params, {"variables": {VARIABLE: name}}, asked)
        page = artifacts.read_page(asked, _data(asked, answer))
        if page.count is not None and page.count > len(page.refs):
            raise errors.IncompleteAnswer(asked, f"the query gives {len(page.refs)} of {page.count} artifacts")
        refs = page.refs if verified else _only_named(asked, name, page.refs)
        return tuple({ref.id: ref for ref in refs}.values())

    async def _verify(self, query: str, branch: str, at: str | None) -> bool:
        """Whether the text of a stored query was seen and is fit to run; raises QueryRefused when it was and isn't.

        False when the account may not read it, as is so for one that may view artifacts and nothing else: the query
        is run then, and its answer filtered. A mutation would do harm only to an account that may write what it may
        not read; Vidra's account should write nothing.
        """
        key = (query, branch, at)
        verdict = self._verdicts.get(key)
        if verdict is None or self._clock() >= verdict.until:
            verdict = await self._judge(query, branch, at)
            # A relative date makes a new key each time: forget what is out of date.
            now = self._clock()
            self._verdicts = {k: held for k, held in self._verdicts.items() if held.until > now} | {key: verdict}
        if verdict.objection is not None:
            raise errors.QueryRefused(
                self._asked("query", f"stored query {query!r}{_on(branch, at)}"), verdict.objection
            )
        return verdict.verified

    async def _judge(self, query: str, branch: str, at: str | None) -> _Verdict:
        asked = self._asked("graphql", f"the text of stored query {query!r}{_on(branch, at)}")
        until = self._clock() + BELIEF
        try:
            data = await self._graphql(artifacts.STORED_QUERY_TEXT, {"name": query}, asked, branch, at)
        except (errors.PermissionDenied, errors.QueryRefused):
            return _Verdict(until, verified=False)
        text = _query_text(data)
        if text is None:
            if at is not None:
                await self._refuse_before_start(at)
            raise errors.QueryNotFound(asked, "there is no stored query of that name")
        return _Verdict(until, verified=True, objection=stored_query.objection(text, VARIABLE))

    async def _refuse_before_start(self, at: str) -> None:
        """Raises DateBeforeStart when ``at`` lies before the default branch began.

        Servers up to 1.9 answer such a date with an empty list instead of a refusal.
        """
        asked = self._asked("graphql", f"the state{_on('', at)}")
        branches = (await self._graphql(artifacts.BRANCHES, {}, asked, "", None)).get("Branch")
        try:
            began = next(branch["created_at"] for branch in branches or () if branch["is_default"])
            if datetime.fromisoformat(at) < datetime.fromisoformat(began):
                raise errors.DateBeforeStart(asked, f"the default branch was created at {began}")
        except (StopIteration, LookupError, TypeError, ValueError):
            raise errors.IncompleteAnswer(asked, "the answer doesn't say when the default branch was created") from None

    # Requests

    async def _graphql(
        self, text: str, variables: Mapping[str, Any], asked: Asked, branch: str, at: str | None
    ) -> Mapping[str, Any]:
        path = f"/graphql/{segment(branch)}" if branch else "/graphql"
        answer = await self._post(path, _params("", at), {"query": text, "variables": variables}, asked)
        return _data(asked, answer)

    async def _post(
        self, path: str, params: Mapping[str, str], body: Mapping[str, Any], asked: Asked
    ) -> Mapping[str, Any]:
        async def send(granted: Pass) -> Mapping[str, Any]:
            secrets = (*self._secrets, granted.secret)
            answer = await self._transport.fetch_json(
                "POST", path, asked, params=params, body=body, headers=granted.headers, secrets=secrets
            )
            error = refusals.graphql_error(asked, answer, secrets=secrets)
            if error is not None:
                raise error
            return answer

        return await self._with_pass(send)

    async def _get(self, path: str, params: Mapping[str, str], asked: Asked) -> bytes:
        async def send(granted: Pass) -> bytes:
            return await self._transport.fetch(
                "GET",
                path,
                asked,
                params=params,
                headers=granted.headers,
                secrets=(*self._secrets, granted.secret),
                limit=self._max_content,
            )

        return await self._with_pass(send)

    async def _with_pass(self, send: Callable[[Pass], Awaitable[T]]) -> T:
        granted = await self._auth.get()
        try:
            return await send(granted)
        except errors.AuthenticationFailed:
            # Expired, revoked, or the server's secret was rotated: a new login mends all of them.
            if not self._auth.refused(granted):
                raise
        return await send(await self._auth.get())

    def _asked(self, endpoint: str, what: str) -> Asked:
        return Asked(endpoint, what, self.server)


def _params(branch: str, at: str | None) -> dict[str, str]:
    """Only what says something: an empty ``at`` is refused."""
    return {key: value for key, value in (("branch", branch), ("at", at)) if value}


def _on(branch: str, at: str | None) -> str:
    return (f" on branch {branch!r}" if branch else "") + (f" of {at}" if at else "")


def _data(asked: Asked, answer: Mapping[str, Any]) -> Mapping[str, Any]:
    data = answer.get("data")
    if not isinstance(data, Mapping):
        raise errors.InvalidAnswer(asked, "the answer has no data")
    return data


def _query_text(data: Mapping[str, Any]) -> str | None:
    try:
        text = data["CoreGraphQLQuery"]["edges"][0]["node"]["query"]["value"]
    except (LookupError, TypeError):
        return None
    return text if isinstance(text, str) else None


def _only_named(asked: Asked, name: str, refs: tuple[ArtifactRef, ...]) -> tuple[ArtifactRef, ...]:
    """What of an unverified answer is surely meant. An answer full of others' artifacts is refused, not emptied."""
    if any(ref.name is None for ref in refs):
        raise errors.IncompleteAnswer(
            asked, "this account can't read the query's text, and its answer has no name{value} to check it by"
        )
    named = tuple(ref for ref in refs if ref.name == name)
    if refs and not named:
        raise errors.QueryRefused(
            asked, f"none of the {len(refs)} artifacts it answers has that name, and this account can't read its text"
        )
    return named

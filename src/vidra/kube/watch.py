"""A collection of one API server as a reflector reads it: pages of a list, and the events of a watch.

Promises of :func:`watch`: whole events or none (a line that the end of the stream cut is dropped), lines of any
length, an answer that is no watch is an error and never an event, an ERROR event is raised as the ApiError it holds,
and a connection that fell silent is noticed. It does not retry, and it does not know what a resourceVersion means:
both are the reflector's.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import Any, NamedTuple

import structlog

from vidra.kube import codec
from vidra.kube.client import Client, Obj
from vidra.kube.errors import InvalidAnswer, status_error
from vidra.kube.resource import Resource

log = structlog.get_logger(__name__)

#: Seconds of silence after which a watch counts as dead. API servers send a bookmark about once a minute; for some
#: kinds they send none, and a kind that was defined just now waits two minutes for its first (seen on 1.36).
IDLE_TIMEOUT = 90.0
#: Bytes of JSON that are parsed in one go, about 2 ms.
PARSE_TOGETHER = 128 * 1024


class WatchEvent(NamedTuple):
    """``type`` is ADDED, MODIFIED, DELETED or BOOKMARK, or a word this code doesn't know yet; never ERROR."""

    type: str
    object: Obj


class Page(NamedTuple):
    """One page of a list. ``continue_token`` is None on the last one; ``resource_version`` is the whole list's."""

    items: list[Obj]
    resource_version: str
    continue_token: str | None


@asynccontextmanager
async def watch(
    client: Client,
    resource: Resource,
    *,
    namespace: str | None = None,
    label_selector: str | None = None,
    field_selector: str | None = None,
    resource_version: str | None = None,
    timeout_seconds: int | None = None,
    send_initial_events: bool = False,
    idle_timeout: float = IDLE_TIMEOUT,
) -> AsyncIterator[AsyncIterator[WatchEvent]]:
    """Opens one watch: entering the context means the server accepted it, leaving it closes the connection.

    ``timeout_seconds`` asks the server to end the stream after that time. ``send_initial_events`` asks for the
    objects that exist first (WatchList). The iterator ends when the server ends the stream, and raises ApiError,
    Unreachable (Silent after ``idle_timeout`` seconds without a byte) and InvalidAnswer.
    """
    params = {"watch": "true", "allowWatchBookmarks": "true"}
    optional = {
        "labelSelector": label_selector,
        "fieldSelector": field_selector,
        "resourceVersion": resource_version,
        "timeoutSeconds": None if timeout_seconds is None else str(timeout_seconds),
    }
    params.update({name: value for name, value in optional.items() if value is not None})
    if send_initial_events:
        params.update(sendInitialEvents="true", resourceVersionMatch="NotOlderThan")
    path = resource.path(namespace=namespace)
    # All closed here and now, not when the garbage collector finds them.
    async with (
        client.stream(path, params=params, idle_timeout=idle_timeout) as chunks,
        aclosing(_lines(chunks, path)) as lines,
        aclosing(_events(lines, path)) as events,
    ):
        yield events


async def _events(batches: AsyncIterator[list[bytes]], path: str) -> AsyncGenerator[WatchEvent, None]:
    async for lines in batches:
        for line, value in _parsed(lines):
            kind, obj = (value.get("type"), value.get("object")) if isinstance(value, dict) else (None, None)
            if kind == "ERROR":
                raise status_error(obj, request=f"WATCH {path}")
            if not isinstance(kind, str) or not isinstance(obj, dict):
                # Not one word of the line: it may be a Secret's.
                raise InvalidAnswer(f"WATCH {path}: a line of {len(line)} bytes is no watch event")
            yield WatchEvent(kind, obj)


def _parsed(lines: list[bytes]) -> Iterator[tuple[bytes, Any]]:
    """Each line with its JSON value, None where it has none.

    Lines that came together are parsed together, some at a time: the parser then makes each key only once for all of
    them, which halves the time and the memory of a streamed list.
    """
    start = 0
    while start < len(lines):
        end, size = start + 1, len(lines[start])
        while end < len(lines) and size + len(lines[end]) <= PARSE_TOGETHER:
            size += len(lines[end])
            end += 1
        group = lines[start:end]
        start = end
        values = _json(b"[" + b",".join(group) + b"]")
        if values is not None and len(values) == len(group):
            yield from zip(group, values, strict=True)
        else:
            # One of them is broken: the others still count, up to there.
            yield from ((line, _json(line)) for line in group)


def _json(data: bytes) -> Any:
    try:
        return codec.loads(data)
    except ValueError:
        return None


async def _lines(chunks: AsyncIterator[bytes], path: str) -> AsyncGenerator[list[bytes], None]:
    """The whole lines that each chunk completes. aiohttp's own line reader refuses long lines (W7), and gives a cut
    one as a whole (W2)."""
    tail = bytearray()
    async for chunk in chunks:
        end, *others = chunk.split(b"\n")
        tail += end
        if others:
            lines = [bytes(tail), *others[:-1]]
            tail = bytearray(others[-1])
            yield [line for line in lines if line and not line.isspace()]
    if tail:
        log.debug("the end of a watch cut a line, which is dropped", path=path, bytes=len(tail))


class Collection:
    """The objects of one kind, in one namespace or all, by selector: what a reflector lists and watches.

    Items of a list get the apiVersion and kind that servers leave out there, so that an object reads the same
    whichever way it came.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource,
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        idle_timeout: float = IDLE_TIMEOUT,
    ) -> None:
        self.resource = resource
        self._client = client
        self._scope: dict[str, Any] = {
            "namespace": namespace,
            "label_selector": label_selector,
            "field_selector": field_selector,
        }
        self._idle_timeout = idle_timeout

    @property
    def name(self) -> str:
        """What it is called in logs: ``deployments.apps/v1``."""
        return f"{self.resource.plural}.{self.resource.api_version}"

    def accepts(self, obj: Obj) -> bool:
        """Whether an object of the stream is of this kind; a confused server or proxy may send another (R5)."""
        return obj.get("kind") == self.resource.kind and isinstance(obj.get("metadata"), dict)

    async def list_page(self, *, resource_version: str | None, continue_token: str | None, limit: int | None) -> Page:
        """One page, not older than ``resource_version``; a continued list takes its version from the token."""
        answer = await self._client.list_page(
            self.resource,
            **self._scope,
            limit=limit,
            continue_token=continue_token,
            resource_version=None if continue_token else resource_version,
            resource_version_match="NotOlderThan" if resource_version and not continue_token else None,
        )
        items, metadata = answer.get("items") or [], answer.get("metadata") or {}
        if not _is_list(items, metadata):
            raise InvalidAnswer(f"LIST {self.name}: the answer is no list")
        for item in items:
            item.setdefault("apiVersion", self.resource.api_version)
            item.setdefault("kind", self.resource.kind)
        return Page(items, metadata["resourceVersion"], metadata.get("continue") or None)

    def watch(
        self, *, resource_version: str | None, timeout_seconds: int, send_initial_events: bool = False
    ) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent]]:
        """See :func:`watch`."""
        return watch(
            self._client,
            self.resource,
            **self._scope,
            resource_version=resource_version,
            timeout_seconds=timeout_seconds,
            send_initial_events=send_initial_events,
            idle_timeout=self._idle_timeout,
        )


def _is_list(items: Any, metadata: Any) -> bool:
    return (
        isinstance(metadata, dict)
        and isinstance(metadata.get("resourceVersion"), str)
        and bool(metadata["resourceVersion"])
        and isinstance(metadata.get("continue", ""), str | None)
        and isinstance(items, list)
        and all(isinstance(item, dict) for item in items)
    )

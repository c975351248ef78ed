"""Whole events or none: what comes of the bytes of a watch and of a list's answer, whatever they are."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vidra.kube.client import Client
from vidra.kube.errors import ApiError, InvalidAnswer, KubeError
from vidra.kube.resource import Resource
from vidra.kube.session import Session
from vidra.kube.watch import PARSE_TOGETHER, Collection, Page, WatchEvent

THINGS = Resource("example", "v1", "Thing", "things", namespaced=True)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


class Wire:
    """A session that streams these chunks and answers every request with this body."""

    def __init__(self, chunks: Sequence[bytes] = (), body: bytes = b"") -> None:
        self.chunks = chunks
        self.body = body
        self.asked: list[tuple[str, dict[str, str]]] = []

    @asynccontextmanager
    async def stream(
        self, path: str, *, params: Mapping[str, str], idle_timeout: float, headers: Mapping[str, str]
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        self.asked.append((path, dict(params)))

        async def chunks() -> AsyncIterator[bytes]:
            for chunk in self.chunks:
                yield chunk

        yield chunks()

    async def request(self, method: str, path: str, *, params: Mapping[str, str] | None, **_: Any) -> bytes:
        self.asked.append((path, dict(params or {})))
        return self.body


def collection(wire: Wire, **scope: Any) -> Collection:
    return Collection(Client(cast(Session, wire)), THINGS, **scope)


def watched(*chunks: bytes) -> tuple[list[WatchEvent], KubeError | None]:
    """The events, and the error that ended them."""

    async def story() -> tuple[list[WatchEvent], KubeError | None]:
        seen: list[WatchEvent] = []
        try:
            async with collection(Wire(chunks)).watch(resource_version="5", timeout_seconds=300) as events:
                async for event in events:
                    seen.append(event)  # noqa: PERF401  # those before the error count
        except KubeError as error:
            return seen, error
        return seen, None

    return asyncio.run(story())


def listed(answer: Any) -> Page:
    return asyncio.run(
        collection(Wire(body=json.dumps(answer).encode())).list_page(
            resource_version=None, continue_token=None, limit=None
        )
    )


def line(kind: str, obj: Any) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


@given(data=st.data(), count=st.integers(0, 8))
def test_wherever_the_bytes_are_cut_the_events_are_the_same(data: st.DataObject, count: int) -> None:
    objects = [{"kind": "Thing", "metadata": {"name": f"é{number}"}} for number in range(count)]
    stream = b"".join(line("ADDED", obj) for obj in objects)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert watched(*pieces) == ([WatchEvent("ADDED", obj) for obj in objects], None)


@pytest.mark.case("U6")
@given(cut=st.integers(1, 40))
def test_u6_a_line_that_the_end_cuts_is_no_event(cut: int) -> None:
    whole, half = line("ADDED", {"a": 1}), line("MODIFIED", {"kind": "Thing", "a": "2"})
    events, error = watched(whole + half[:-cut])
    assert (events, error) == ([WatchEvent("ADDED", {"a": 1})], None)


@pytest.mark.parametrize(
    ("broken", "size"),
    [(b"<html>", 6), (b'"text"', 6), (b"[]", 2), (b'{"type":"ADDED"}', 16), (b'{"type":1,"object":{}}', 22)],
)
def test_the_events_before_a_broken_line_count_and_its_text_is_not_repeated(broken: bytes, size: int) -> None:
    events, error = watched(line("ADDED", {"a": 1}) + broken + b"\n" + line("ADDED", {"a": 2}))
    assert events == [WatchEvent("ADDED", {"a": 1})]
    assert isinstance(error, InvalidAnswer)
    assert str(error) == f"WATCH /apis/example/v1/things: a line of {size} bytes is no watch event"


def test_a_line_that_is_two_values_is_no_event() -> None:
    """Lines are parsed together, as elements of one array: a comma in one must not make two of it."""
    events, error = watched(b'{"type":"ADDED","object":{}},{"type":"ADDED","object":{}}\n' + line("ADDED", {}))
    assert (events, type(error)) == ([], InvalidAnswer)
    events, error = watched(b'{"type":"ADDED","object":{}\n,"x":1}\n')
    assert (events, type(error)) == ([], InvalidAnswer)


def test_many_lines_in_one_chunk_come_in_order_however_large() -> None:
    large = [{"n": number, "text": "x" * (PARSE_TOGETHER // 3)} for number in range(10)]
    events, error = watched(b"".join(line("ADDED", obj) for obj in large) + b"\n \n")
    assert [event.object["n"] for event in events] == list(range(10))
    assert error is None


@pytest.mark.case("R01")
def test_r01_an_error_event_is_the_error_it_holds() -> None:
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version: 5 (9)"}
    events, error = watched(line("ADDED", {"a": 1}) + line("ERROR", status))
    assert len(events) == 1
    assert isinstance(error, ApiError)
    assert error.gone
    assert str(error) == "WATCH /apis/example/v1/things: 410 Expired: too old resource version: 5 (9)"


@given(lines=st.lists(st.binary(max_size=30) | JSON.map(lambda v: json.dumps(v).encode()), max_size=5), obj=JSON)
def test_whatever_a_watch_sends_it_is_events_or_a_kube_error(lines: list[bytes], obj: Any) -> None:
    sent = [*lines, *(line(kind, obj) for kind in ("ADDED", "BOOKMARK", "ERROR"))]
    events, error = watched(b"\n".join(sent) + b"\n")
    assert error is not None, "the last line is an ERROR"
    assert all(isinstance(event.type, str) and isinstance(event.object, dict) for event in events)


def test_a_watch_asks_for_bookmarks_and_for_what_it_was_told() -> None:
    wire = Wire()

    async def story() -> None:
        scoped = collection(wire, namespace="n", label_selector="a=b", field_selector="c=d")
        async with scoped.watch(resource_version="7", timeout_seconds=300, send_initial_events=True):
            pass
        async with collection(wire).watch(resource_version=None, timeout_seconds=1):
            pass

    asyncio.run(story())
    assert wire.asked == [
        (
            "/apis/example/v1/namespaces/n/things",
            {
                "watch": "true",
                "allowWatchBookmarks": "true",
                "labelSelector": "a=b",
                "fieldSelector": "c=d",
                "resourceVersion": "7",
                "timeoutSeconds": "300",
                "sendInitialEvents": "true",
                "resourceVersionMatch": "NotOlderThan",
            },
        ),
        ("/apis/example/v1/things", {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": "1"}),
    ]


@pytest.mark.case("R01")
def test_r01_no_list_ever_asks_for_a_version_called_none() -> None:
    wire = Wire(body=b'{"metadata":{"resourceVersion":"9"},"items":null}')

    async def story() -> None:
        for version, token in ((None, None), ("7", None), ("7", "t")):
            await collection(wire).list_page(resource_version=version, continue_token=token, limit=250)

    asyncio.run(story())
    assert [asked for _, asked in wire.asked] == [
        {"limit": "250"},
        {"limit": "250", "resourceVersion": "7", "resourceVersionMatch": "NotOlderThan"},
        {"limit": "250", "continue": "t"},
    ]


def test_items_of_a_list_say_what_they_are() -> None:
    page = listed({"metadata": {"resourceVersion": "9", "continue": ""}, "items": [{"metadata": {"name": "a"}}]})
    assert page == Page([{"metadata": {"name": "a"}, "apiVersion": "example/v1", "kind": "Thing"}], "9", None)


@given(answer=JSON, items=JSON, metadata=JSON | st.fixed_dictionaries({"resourceVersion": JSON, "continue": JSON}))
def test_whatever_a_list_answers_it_is_a_page_or_a_kube_error(answer: Any, items: Any, metadata: Any) -> None:
    for body in (answer, {"items": items, "metadata": metadata}):
        try:
            page = listed(body)
        except KubeError:
            continue
        assert page.resource_version
        assert isinstance(page.resource_version, str)
        assert all(item["kind"] for item in page.items)


@pytest.mark.parametrize(
    ("obj", "accepted"),
    [
        ({"kind": "Thing", "metadata": {"name": "a"}}, True),
        ({"kind": "Thing"}, False),
        ({"kind": "Thing", "metadata": None}, False),
        ({"kind": "Other", "metadata": {"name": "a"}}, False),
        ({}, False),
    ],
)
def test_only_objects_of_the_kind_are_accepted(obj: Any, accepted: bool) -> None:
    assert collection(Wire()).accepts(obj) is accepted

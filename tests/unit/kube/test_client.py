"""What each verb sends. What servers make of it is asked of a real one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, cast

import pytest

from vidra.kube.client import Client, PatchType
from vidra.kube.errors import InvalidAnswer
from vidra.kube.resource import Resource
from vidra.kube.session import Session
from vidra.kube.watch import Collection

THINGS = Resource("example", "v1", "Thing", "things", namespaced=True)
PLACE = "/apis/example/v1/namespaces/n/things"


class Sent(NamedTuple):
    method: str
    path: str
    params: dict[str, str]
    body: Any
    content_type: str
    headers: dict[str, str]


class Wire:
    """A session that notes what is sent and answers the next of ``answers``, {} when there is none."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.sent: list[Sent] = []
        self.server = "https://example"

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None,
        body: bytes | None,
        content_type: str,
        accept: str,
        warnings: list[str] | None,
        headers: Mapping[str, str],
    ) -> bytes:
        if warnings is not None:
            warnings.append("mind the gap")
        parsed = None if body is None else json.loads(body)
        self.sent.append(Sent(method, path, dict(params or {}), parsed, content_type, dict(headers)))
        answer = self.answers.pop(0) if self.answers else {}
        return answer if isinstance(answer, bytes) else json.dumps(answer).encode()

    @asynccontextmanager
    async def stream(self, path: str, *, headers: Mapping[str, str], **_: Any) -> AsyncIterator[AsyncIterator[bytes]]:
        self.sent.append(Sent("WATCH", path, {}, None, "", dict(headers)))

        async def nothing() -> AsyncIterator[bytes]:
            for chunk in list[bytes]():
                yield chunk

        yield nothing()


def client(wire: Wire, **options: Any) -> Client:
    return Client(cast(Session, wire), **options)


JSON_TYPE = "application/json"
Call = Callable[[Client], Awaitable[Any]]


@pytest.mark.parametrize(
    ("call", "sent"),
    [
        (lambda c: c.get(THINGS, "a", "n"), ("GET", f"{PLACE}/a", {}, None, JSON_TYPE)),
        (
            lambda c: c.create(THINGS, {"x": 1}, namespace="n", field_manager="m"),
            ("POST", PLACE, {"fieldManager": "m"}, {"x": 1}, JSON_TYPE),
        ),
        (
            lambda c: c.create(THINGS, {}, namespace="n", dry_run=True),
            ("POST", PLACE, {"dryRun": "All"}, {}, JSON_TYPE),
        ),
        (
            lambda c: c.apply(THINGS, {"x": 1}, "a", namespace="n", field_manager="m"),
            ("PATCH", f"{PLACE}/a", {"fieldManager": "m"}, {"x": 1}, "application/apply-patch+yaml"),
        ),
        (
            lambda c: c.apply(
                THINGS, {}, "a", namespace="n", field_manager="m", force=True, dry_run=True, subresource="status"
            ),
            (
                "PATCH",
                f"{PLACE}/a/status",
                {"fieldManager": "m", "force": "true", "dryRun": "All"},
                {},
                "application/apply-patch+yaml",
            ),
        ),
        (
            lambda c: c.patch(THINGS, "a", [{"op": "test"}], PatchType.JSON, namespace="n"),
            ("PATCH", f"{PLACE}/a", {}, [{"op": "test"}], "application/json-patch+json"),
        ),
        (
            lambda c: c.patch(
                THINGS, "a", {"s": None}, PatchType.MERGE, namespace="n", subresource="status", field_manager="m"
            ),
            ("PATCH", f"{PLACE}/a/status", {"fieldManager": "m"}, {"s": None}, "application/merge-patch+json"),
        ),
        (
            lambda c: c.delete(THINGS, "a", namespace="n"),
            (
                "DELETE",
                f"{PLACE}/a",
                {},
                {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"},
                JSON_TYPE,
            ),
        ),
        (
            lambda c: c.delete(THINGS, "a", uid="u", resource_version="7", propagation="Foreground", dry_run=True),
            (
                "DELETE",
                "/apis/example/v1/things/a",
                {},
                {
                    "kind": "DeleteOptions",
                    "apiVersion": "v1",
                    "propagationPolicy": "Foreground",
                    "preconditions": {"uid": "u", "resourceVersion": "7"},
                    "dryRun": ["All"],
                },
                JSON_TYPE,
            ),
        ),
        (
            lambda c: c.list_page(THINGS, label_selector="a=b,c", field_selector="d=e", limit=5, continue_token="t"),
            (
                "GET",
                "/apis/example/v1/things",
                {"labelSelector": "a=b,c", "fieldSelector": "d=e", "limit": "5", "continue": "t"},
                None,
                JSON_TYPE,
            ),
        ),
    ],
    ids=["get", "create", "dry run", "apply", "apply all", "json", "merge", "delete", "delete all", "list"],
)
def test_each_verb_sends_one_request(call: Call, sent: tuple[Any, ...]) -> None:
    wire = Wire()
    asyncio.run(cast(Any, call(client(wire))))
    assert [tuple(request[:5]) for request in wire.sent] == [sent]


def test_a_list_of_everything_follows_the_tokens() -> None:
    pages = [
        {"items": [{"n": 1}, {"n": 2}], "metadata": {"continue": "t1"}},
        {"items": None, "metadata": {"continue": "t2"}},
        {"items": [{"n": 3}], "metadata": {}},
    ]
    wire = Wire(*pages)

    async def read() -> list[int]:
        return [item["n"] async for item in client(wire).list_all(THINGS, namespace="n", page_size=2)]

    assert asyncio.run(read()) == [1, 2, 3]
    assert [request.params for request in wire.sent] == [
        {"limit": "2"},
        {"limit": "2", "continue": "t1"},
        {"limit": "2", "continue": "t2"},
    ]


@pytest.mark.parametrize("answer", [b"<html>", b"", b"[]", b"null", b'"text"'])
def test_an_answer_that_is_no_object_is_an_error_without_its_text(answer: bytes) -> None:
    with pytest.raises(InvalidAnswer, match="GET /apis/example/v1/namespaces/n/things/a") as error:
        asyncio.run(client(Wire(answer)).get(THINGS, "a", "n"))
    assert "html" not in str(error.value)


def test_warnings_of_the_server_are_collected_where_they_are_asked_for() -> None:
    warnings: list[str] = []
    asyncio.run(client(Wire()).create(THINGS, {}, namespace="n", warnings=warnings))
    asyncio.run(client(Wire()).apply(THINGS, {}, "a", namespace="n", field_manager="m", warnings=warnings))
    assert warnings == ["mind the gap"] * 2


def test_who_acts_for_a_service_account_does_so_in_every_request_and_in_watches() -> None:
    wire = Wire()
    acting = client(wire, service_account="n/robot")

    async def story() -> None:
        await acting.get(THINGS, "a", "n")
        await acting.raw("GET", "/version")
        async with Collection(acting, THINGS).watch(resource_version="1", timeout_seconds=300) as events:
            assert [event async for event in events] == []

    asyncio.run(story())
    assert [sent.headers for sent in wire.sent] == [{"Impersonate-User": "system:serviceaccount:n:robot"}] * 3


@pytest.mark.parametrize("account", ["robot", "/robot", "n/", "n/a/b"])
def test_a_service_account_has_a_namespace_and_a_name(account: str) -> None:
    with pytest.raises(ValueError, match="namespace/name"):
        client(Wire(), service_account=account)

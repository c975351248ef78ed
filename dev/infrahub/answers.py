"""The shapes of the server's answers: JSON bodies, REST errors, GraphQL errors, in the words of each version."""

from __future__ import annotations

import json
from typing import Any

from aiohttp import web

from infrahub.schema import GraphQLError


class Refusal(Exception):
    """A request that ends in an error answer. `code` names it in newer GraphQL answers."""

    def __init__(self, status: int, message: Any, code: str = "UNDEFINED_ERROR", data: Any = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.data = {} if data is None else data


def encode(body: Any) -> bytes:
    """JSON as the server writes it: compact, UTF-8 unescaped."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def answer(body: Any, status: int = 200) -> web.Response:
    """A JSON answer; its content type carries no charset."""
    return web.Response(body=encode(body), status=status, content_type="application/json")


def refused(error: Refusal) -> web.Response:
    """A REST error."""
    return answer(
        {"data": None, "errors": [{"message": error.message, "extensions": {"code": error.status}}]}, error.status
    )


def refused_graphql(error: Refusal, *, catalogue: bool) -> web.Response:
    """A GraphQL request refused before it ran. `catalogue`: the server is new enough to name its errors."""
    if not catalogue:
        return refused(error)
    extensions = {"code": error.code, "http_status": error.status, "data": error.data}
    return answer({"data": None, "errors": [{"message": error.message, "extensions": extensions}]}, error.status)


def graphql_error(error: GraphQLError, *, catalogue: bool) -> dict[str, Any]:
    """One entry in the errors of a GraphQL request that was run."""
    entry: dict[str, Any] = {"message": error.message}
    if error.where:
        entry["locations"] = [{"line": error.where[0], "column": error.where[1]}]
    if error.path:
        entry["path"] = error.path
    if catalogue:
        entry["extensions"] = {"code": "UNDEFINED_ERROR", "http_status": 500, "data": {}}
    return entry


def invalid(kind: str, where: list[Any], message: str, given: Any, **more: Any) -> web.Response:
    """A body that isn't what it should be, in the web framework's own shape."""
    return answer({"detail": [{"type": kind, "loc": ["body", *where], "msg": message, "input": given, **more}]}, 422)


def not_found(node_id: str, kind: str) -> Refusal:
    return Refusal(404, f"Unable to find the node {node_id} / {kind} in the database.")


class Broken(web.Response):
    """What an unhandled exception leads to: this answer, and a connection that resets the next request on it."""

    def __init__(self) -> None:
        super().__init__(text="Internal Server Error", status=500)


class Untyped(web.Response):
    """An answer without a content type, which aiohttp would add."""


async def drop_type(_request: web.Request, response: web.StreamResponse) -> None:
    """Keep Untyped's word; runs when the headers are about to be sent."""
    if isinstance(response, Untyped):
        response.headers.popall("Content-Type", None)

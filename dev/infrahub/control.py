"""Control over HTTP, for processes other than the stand-in's own: what the demo and by-hand use need.

    GET    /_standin/artifacts                 [{id, name, target, status, checksum}]
    POST   /_standin/artifacts                 {name, content, target, branch?} -> {id}
    PUT    /_standin/artifacts/<id>            {content, branch?}
    DELETE /_standin/artifacts/<id>?branch=
    POST   /_standin/artifacts/<id>/error      the rendering failed
    POST   /_standin/artifacts/<id>/pending    not rendered yet
    POST   /_standin/seed                      {seed: "webservers", count: 3, ...}: begin anew
    GET    /_standin/requests                  [{method, path, query, account, status}]

A wrong id is 404, a wrong body 400, both with {"error": text}.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from aiohttp import web

from infrahub import seeds
from infrahub.answers import answer
from infrahub.state import NoSuchBranchError

if TYPE_CHECKING:
    from infrahub.server import Standin

PREFIX = "/_standin/"


class Control:
    """The control endpoints of one stand-in."""

    def __init__(self, standin: Standin) -> None:
        self._standin = standin

    async def list(self, request: web.Request) -> web.Response:
        state = self._standin.state
        branch = state.branch(request.query.get("branch"))
        return answer(
            [
                {
                    "id": seen.node.id,
                    "name": seen.node.name,
                    "target": seen.node.target.label,
                    "status": seen.version.status,
                    "checksum": seen.version.checksum,
                }
                for seen in state.all_seen(branch, self._standin.now())
            ]
        )

    async def add(self, request: web.Request) -> web.Response:
        return answer({"id": self._standin.add_artifact(**await _body(request))}, 201)

    async def change(self, request: web.Request) -> web.Response:
        self._standin.change_artifact(self._known(request), **await _body(request))
        return answer(None)

    async def remove(self, request: web.Request) -> web.Response:
        self._standin.remove_artifact(self._known(request), **request.query)
        return answer(None)

    async def fail(self, request: web.Request) -> web.Response:
        self._standin.set_error(self._known(request), **request.query)
        return answer(None)

    async def hold(self, request: web.Request) -> web.Response:
        self._standin.set_pending(self._known(request), **request.query)
        return answer(None)

    async def seed(self, request: web.Request) -> web.Response:
        self._standin.plant(seeds.named(**await _body(request)))
        return answer(None)

    async def requests(self, _request: web.Request) -> web.Response:
        fields = ("method", "path", "query", "account", "status")
        return answer([{name: getattr(entry, name) for name in fields} for entry in self._standin.requests])

    def _known(self, request: web.Request) -> str:
        artifact_id = request.match_info["id"]
        if artifact_id not in self._standin.state.artifacts:
            raise KeyError(artifact_id)
        return artifact_id


async def _body(request: web.Request) -> dict[str, Any]:
    body = await request.json()
    if not isinstance(body, dict):
        raise TypeError("the body must be an object")
    return body


@web.middleware
async def _readable(request: web.Request, handler: Any) -> web.StreamResponse:
    """Wrong input is the caller's fault and says so, instead of a 500."""
    try:
        response: web.StreamResponse = await handler(request)
    except (KeyError, NoSuchBranchError) as error:
        return answer({"error": f"unknown: {error}"}, 404)
    except (TypeError, ValueError, json.JSONDecodeError) as error:
        return answer({"error": str(error)}, 400)
    return response


def add_routes(app: web.Application, standin: Standin) -> None:
    """Put the control endpoints under /_standin/."""
    control = Control(standin)
    inner = web.Application(middlewares=[_readable], client_max_size=64 * 1024 * 1024)
    inner.router.add_get("/artifacts", control.list)
    inner.router.add_post("/artifacts", control.add)
    inner.router.add_put("/artifacts/{id}", control.change)
    inner.router.add_delete("/artifacts/{id}", control.remove)
    inner.router.add_post("/artifacts/{id}/error", control.fail)
    inner.router.add_post("/artifacts/{id}/pending", control.hold)
    inner.router.add_post("/seed", control.seed)
    inner.router.add_get("/requests", control.requests)
    app.add_subapp(PREFIX.rstrip("/"), inner)

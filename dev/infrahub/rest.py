"""The endpoints: each turns a request into an answer, reading the state; failures are raised as Refusal or AuthError.

Paths are matched here rather than by aiohttp's router, because the server decodes a path before it matches it: a
branch's slash works raw and encoded, and an id with a slash in it is another endpoint.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from aiohttp import web

from infrahub import answers
from infrahub.answers import Refusal, answer, not_found
from infrahub.auth import ANONYMOUS, Account, Accounts, AuthError, bearer
from infrahub.clock import BadTimeError, parse_at, written
from infrahub.graphql_exec import Context, kinds_read, run
from infrahub.graphql_parser import GraphQLSyntaxError, Operation, parse
from infrahub.state import Branch, NoSuchBranchError, State

NEWEST = "1.11.9"
ALTERED = (
    "The stored file of this artifact ({}) does not match its checksum, so it was not served. It may have been "
    "modified outside of Infrahub. Regenerate the artifact to restore it."
)


@dataclass
class Ask:
    """A request on its way through: `part` is what its path ends in, `account` who was found to be asking."""

    request: web.Request
    part: str = ""
    account: str | None = None


Handler = Callable[[Ask], Awaitable[web.Response]]


@dataclass
class Site:
    """The server's parts and settings; the endpoints are its methods."""

    state: State
    accounts: Accounts
    version: str = NEWEST
    database_down: bool = False

    def __post_init__(self) -> None:
        self._routes: list[tuple[str, re.Pattern[str], Handler]] = [
            (method, re.compile(path), handler)
            for method, path, handler in (
                ("POST", "/api/auth/login", self._login),
                ("POST", "/api/auth/refresh", self._refresh),
                ("POST", "/api/auth/logout", self._logout),
                ("GET", "/api/info", self._info),
                ("GET", "/api/config", self._config),
                ("GET", "/api/artifact/([^/]+)", self._artifact),
                ("POST", "/api/artifact/generate/([^/]+)", self._generate),
                ("GET", "/api/storage/object/([^/]+)", self._object),
                ("GET", "/api/query/([^/]+)", self._query),
                ("POST", "/api/query/([^/]+)", self._query),
                ("POST", "/graphql(?:/(.*))?", self._graphql),
            )
        ]

    @property
    def new(self) -> bool:
        """Whether the server has what came with 1.10 and 1.11: the error catalogue, checks of time and checksum."""
        return tuple(int(part) for part in self.version.split(".")) >= (1, 10)

    async def handle(self, ask: Ask) -> web.Response:
        """The answer to any request."""
        request = ask.request
        graphql = request.path == "/graphql" or request.path.startswith("/graphql/")
        try:
            response = await self._dispatch(ask)
        except AuthError as error:
            data = {"expired_at": None} if error.code == "TOKEN_EXPIRED" else None
            refusal = Refusal(error.status, error.message, error.code, data)
            response = answers.refused_graphql(refusal, catalogue=self.new and graphql)
        except Refusal as refusal:
            response = answers.refused_graphql(refusal, catalogue=self.new and graphql)
        except json.JSONDecodeError as error:
            context = {"error": error.msg}
            response = answers.invalid("json_invalid", [error.pos], "JSON decode error", {}, ctx=context)
        if self.new and not isinstance(response, answers.Broken):
            response.headers["Vary"] = "Origin"
        return response

    async def _dispatch(self, ask: Ask) -> web.Response:
        request, allowed = ask.request, []
        for method, pattern, handler in self._routes:
            if match := pattern.fullmatch(request.path):
                if method == request.method:
                    if self.database_down:
                        raise Refusal(503, "Unable to connect to the database")
                    ask.part = next((part for part in match.groups() if part), "")
                    return await handler(ask)
                allowed.append(method)
        if allowed:
            response = answer({"detail": "Method Not Allowed"}, 405)
            response.headers["Allow"] = ", ".join(sorted(set(allowed)))
            return response
        raise Refusal(404, f"The requested endpoint {request.path} does not exist")

    # -- who, where and when --------------------------------------------------------------------------------------

    def _who(self, ask: Ask) -> Account:
        """The account behind the request. Raises AuthError where nobody may ask this."""
        request = ask.request
        account = self.accounts.who(request.headers, request.cookies)
        if account is None and not (self.accounts.anonymous and request.method == "GET"):
            raise AuthError(401, "Authentication is required")
        ask.account = account.name if account else None
        return account or ANONYMOUS

    def _branch(self, name: str | None) -> Branch:
        try:
            return self.state.branch(name)
        except NoSuchBranchError:
            raise Refusal(400, f"Branch: {name} not found.") from None

    def _at(self, request: web.Request, branch: Branch) -> datetime:
        now = self.state.clock.now()
        if (text := request.query.get("at")) is None:
            return now
        try:
            at = parse_at(text, now, strict=not self.new)
        except BadTimeError:
            raise Refusal(400, f"Invalid time format for {text}") from None
        start = self.state.branch(None).created
        if self.new and at < start:
            message = f"Requested time '{written(at)}' is before branch 'main' was created at '{written(start)}'."
            raise Refusal(422, message)
        return min(at, now)

    def _may_read(self, account: Account, operation: Operation) -> None:
        kinds = kinds_read(operation, self.state)
        if account.missing(kinds):
            raise Refusal(403, _permissions(kinds, "view"), "PERMISSION_DENIED")

    # -- authentication -------------------------------------------------------------------------------------------

    async def _login(self, ask: Ask) -> web.Response:
        body = await ask.request.json()
        for field in ("username", "password"):
            if field not in body:
                return answers.invalid("missing", [field], "Field required", body)
        tokens = self.accounts.login(body["username"], body["password"])
        ask.account = body["username"]
        response = answer(tokens)
        self._cookie(response, "access_token", tokens["access_token"], self.accounts.access_lifetime)
        self._cookie(response, "refresh_token", tokens["refresh_token"], self.accounts.refresh_lifetime)
        return response

    async def _refresh(self, ask: Ask) -> web.Response:
        tokens = self.accounts.refresh(bearer(ask.request.headers) or ask.request.cookies.get("refresh_token"))
        response = answer(tokens)
        self._cookie(response, "access_token", tokens["access_token"], self.accounts.access_lifetime)
        return response

    async def _logout(self, ask: Ask) -> web.Response:
        self.accounts.logout(bearer(ask.request.headers) or ask.request.cookies.get("access_token"))
        response = answer(None)
        for name in ("access_token", "refresh_token"):
            response.del_cookie(name, samesite="lax")
        return response

    @staticmethod
    def _cookie(response: web.Response, name: str, value: str, lifetime: float) -> None:
        response.set_cookie(name, value, httponly=True, max_age=int(lifetime), samesite="lax")

    # -- about the server -----------------------------------------------------------------------------------------

    async def _info(self, ask: Ask) -> web.Response:
        self._who(ask)
        return answer({"deployment_id": self.state.deployment_id, "version": self.version})

    async def _config(self, _ask: Ask) -> web.Response:
        return answer({"main": {"default_branch": "main", "allow_anonymous_access": self.accounts.anonymous}})

    # -- artifacts ------------------------------------------------------------------------------------------------

    async def _artifact(self, ask: Ask) -> web.Response:
        request, artifact_id = ask.request, ask.part
        self._who(ask)
        branch = self._branch(request.query.get("branch"))
        at = self._at(request, branch)
        artifact = self.state.artifacts.get(artifact_id)
        seen = self.state.see(artifact, branch, at) if artifact else None
        if artifact is None or seen is None:
            if kind := self._kind_of(artifact_id):
                if not self.new:
                    return answers.Broken()
                raise Refusal(404, f"Node with id {artifact_id} exists, but it is a {kind}, not CoreArtifact")
            raise not_found(artifact_id, "CoreArtifact")
        content = self._content(str(seen.version.storage_id))
        return web.Response(body=content, headers={"Content-Type": artifact.content_type})

    def _kind_of(self, node_id: str) -> str | None:
        if any(query.id == node_id for query in self.state.queries.values()):
            return "CoreGraphQLQuery"
        return self.state.nodes[node_id].kind if node_id in self.state.nodes else None

    def _content(self, storage_id: str) -> bytes:
        content = self.state.objects.get(storage_id)
        if content is None:
            raise not_found(storage_id, "StorageObject")
        if self.new and hashlib.md5(content).hexdigest() != self.state.object_checksums[storage_id]:
            raise Refusal(409, ALTERED.format(storage_id))
        return content

    async def _object(self, ask: Ask) -> web.Response:
        self._who(ask)
        return answers.Untyped(body=self._content(ask.part))

    async def _generate(self, ask: Ask) -> web.Response:
        request, definition_id = ask.request, ask.part
        account = self._who(ask)
        if not (account.writes and account.active):
            raise Refusal(403, _permissions(["CoreArtifact"], "create", "update"))
        self._branch(request.query.get("branch"))
        node = self.state.nodes.get(definition_id)
        if node is None or node.kind != "CoreArtifactDefinition":
            raise not_found(definition_id, self._class("CoreArtifactDefinition"))
        return answer(None)

    def _class(self, kind: str) -> str:
        return kind if self.new else f"<class 'infrahub.core.protocols.{kind}'>"

    # -- queries --------------------------------------------------------------------------------------------------

    async def _query(self, ask: Ask) -> web.Response:
        request, name = ask.request, ask.part
        account = self._who(ask)
        branch = self._branch(request.query.get("branch"))
        at = self._at(request, branch)
        variables: Any = {k: v for k, v in request.query.items() if k not in ("branch", "at", "update_group")}
        if request.method == "POST":
            body = json.loads(await request.read() or "{}")
            variables = body.get("variables", {})
            if not isinstance(variables, dict):
                message = "Input should be a valid dictionary"
                return answers.invalid("dict_type", ["variables"], message, variables)
        stored = [query for query in self.state.queries.values() if name in (query.name, query.id)]
        if not stored or stored[0].created > at:
            raise not_found(name, self._class("CoreGraphQLQuery"))
        operation = parse(stored[0].text)
        if operation.kind == "mutation":
            self._may_write(account, branch)
        self._may_read(account, operation)
        data, errors = run(operation, variables, Context(self.state, branch, at, metadata=self.new))
        if errors:
            error = errors[0]
            where = [{"line": error.where[0], "column": error.where[1]}] if error.where else None
            message = f"GraphQLQuery {stored[0].name}: {error.message}"
            raise Refusal(502, {"message": message, "path": error.path, "locations": where})
        return answer({"data": data})

    async def _graphql(self, ask: Ask) -> web.Response:
        request, branch_name = ask.request, ask.part
        account = self.accounts.who(request.headers, request.cookies)
        ask.account = account.name if account else None
        if account is None and not self.accounts.anonymous:
            raise AuthError(401, "Authentication is required to perform this operation")
        try:
            branch = self.state.branch(branch_name)
        except NoSuchBranchError:
            return answer({"errors": [f"Branch: {branch_name} not found."]}, 404)
        body = await request.json()
        if isinstance(body, list):
            return answer({"errors": ["This server does not support batching"]}, 400)
        at = self._at(request, branch)
        try:
            operation = parse(body["query"])
        except (KeyError, GraphQLSyntaxError):
            return answers.Broken()
        if operation.kind == "mutation":
            self._may_write(account, branch)
        self._may_read(account or ANONYMOUS, operation)
        variables = body.get("variables") or {}
        data, errors = run(operation, variables, Context(self.state, branch, at, metadata=self.new))
        result: dict[str, Any] = {"data": data}
        if errors:
            result["errors"] = [answers.graphql_error(error, catalogue=self.new) for error in errors]
        return answer(result)

    def _may_write(self, account: Account | None, branch: Branch) -> None:
        if account is None:
            raise AuthError(401, "Authentication is required to perform this operation")
        if not (account.writes and account.active):
            where = "the default branch" if branch.default else "this branch"
            data = {"action": None, "resource_kind": None}
            raise Refusal(403, f"You are not allowed to change data in {where}", "PERMISSION_DENIED", data)


def _permissions(kinds: list[str], *actions: str) -> str:
    """How the server names the permissions that would have done."""
    names = [re.sub(r"^([A-Z][a-z0-9]*)", r"\1:", kind, count=1) for kind in kinds]
    wanted = (f"object:{name}:{action}:allow_default" for name in names for action in actions)
    return "You do not have one of the following permissions: " + " | ".join(wanted)

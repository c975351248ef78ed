"""The stand-in as a running server: start, stop, change what it holds, see what it was asked.

async with Standin(seed=webservers(3)) as standin:
    artifact_id = standin.add_artifact(name="webserver", content=text, target="shop")
    ...
    assert standin.count(path_prefix="/api/artifact/") == 1
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from types import TracebackType

from aiohttp import web

from infrahub import control
from infrahub.answers import drop_type
from infrahub.auth import ADMIN_KEY, Accounts
from infrahub.clock import Clock
from infrahub.faults import Dropped, Faults
from infrahub.queries import ARTIFACT_IDS
from infrahub.rest import NEWEST, Ask, Site
from infrahub.state import MAIN, State

Seed = Callable[["Standin"], None]


@dataclass
class Request:
    """A request the stand-in got. `at` is monotonic seconds; `status` 0 means it was left without an answer."""

    method: str
    path: str
    query: dict[str, str]
    at: float
    account: str | None = None
    status: int = 0


@dataclass
class Standin:
    """An Infrahub, from `async with` on. On loopback unless `host` says otherwise; port 0 takes a free one."""

    seed: Seed | None = None
    port: int = 0
    host: str = "127.0.0.1"
    server_version: str = NEWEST
    username: str = "admin"
    password: str = "infrahub"
    api_key: str = ADMIN_KEY
    clock: Clock = field(default_factory=Clock)
    faults: Faults = field(default_factory=Faults)
    requests: list[Request] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.accounts = Accounts(self.clock)
        self.site = Site(State(self.clock), self.accounts, version=self.server_version)
        self.plant(self.seed)
        self._runner: web.AppRunner | None = None

    # -- running --------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Standin:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen; a second start after a stop takes the same port."""
        app = web.Application(client_max_size=64 * 1024 * 1024)
        control.add_routes(app, self)
        app.router.add_route("*", "/{path:.*}", self._handle)
        app.on_response_prepare.append(drop_type)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self.host, self.port)
        await site.start()
        self.port = int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """Close every connection and stop listening."""
        if self._runner:
            await self._runner.cleanup()
            self._runner = None

    @property
    def url(self) -> str:
        """Where the server listens, without a slash at the end."""
        return f"http://{self.host}:{self.port}"

    # -- what it was asked ----------------------------------------------------------------------------------------

    def count(self, *, method: str | None = None, path_prefix: str = "/") -> int:
        """How many requests came with this method to paths that start so. Control requests are not recorded."""
        return sum(1 for r in self.requests if method in (None, r.method) and r.path.startswith(path_prefix))

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        record = Request(request.method, request.path, dict(request.query), time.monotonic())
        self.requests.append(record)
        ask = Ask(request)
        response = await self.faults.apply(request, lambda: self.site.handle(ask))
        record.account = ask.account
        record.status = 0 if isinstance(response, Dropped) else response.status
        return response

    # -- what it holds --------------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        return self.site.state

    def plant(self, seed: Seed | None) -> None:
        """Begin anew with what `seed` brings. Accounts, faults and recorded requests stay."""
        self.site.state = State(self.clock)
        self.state.add_query("ArtifactIDs", ARTIFACT_IDS)
        if seed:
            seed(self)

    def add_artifact(
        self,
        *,
        name: str,
        content: str | bytes | None,
        target: str,
        kind: str = "VidraApp",
        definition: str | None = None,
        content_type: str = "application/yaml",
        branch: str = MAIN,
        artifact_id: str | None = None,
    ) -> str:
        """A rendered artifact for the target (Pending when `content` is None); answers its id."""
        artifact = self.state.add_artifact(
            name,
            target=self.state.add_node(kind, target),
            definition=self.state.add_node("CoreArtifactDefinition", definition or f"{name}_Def"),
            content_type=content_type,
            artifact_id=artifact_id,
        )
        if content is None:
            self.state.set(artifact.id, branch)
        else:
            self.state.render(artifact.id, content, branch)
        return artifact.id

    def change_artifact(self, artifact_id: str, content: str | bytes, *, branch: str = MAIN) -> None:
        """Render new content. Content as before changes nothing, and an Error stays one."""
        self.state.render(artifact_id, content, branch)

    def remove_artifact(self, artifact_id: str, *, branch: str = MAIN) -> None:
        """Delete the artifact node; its stored objects and its past stay readable."""
        self.state.set(artifact_id, branch, gone=True)

    def set_error(self, artifact_id: str, *, branch: str = MAIN) -> None:
        """A rendering failed: the last good content stays."""
        self.state.set(artifact_id, branch, status="Error")

    def set_pending(self, artifact_id: str, *, branch: str = MAIN) -> None:
        """As a new artifact before its first rendering: neither checksum nor content."""
        self.state.set(artifact_id, branch, status="Pending", checksum=None, storage_id=None)

    def lose_content(self, artifact_id: str, *, branch: str = MAIN) -> None:
        """The stored file of the artifact's present version is gone; the node stays."""
        self.state.objects[self._stored(artifact_id, branch)] = None

    def alter_content(self, artifact_id: str, content: bytes, *, branch: str = MAIN) -> None:
        """The stored file was changed behind the server's back: newer servers answer 409, older ones serve it."""
        self.state.objects[self._stored(artifact_id, branch)] = content

    def _stored(self, artifact_id: str, branch: str) -> str:
        seen = self.state.see(self.state.artifacts[artifact_id], self.state.branch(branch), self.clock.now())
        if seen is None or seen.version.storage_id is None:
            raise LookupError(f"artifact {artifact_id} has no content on branch {branch}")
        return seen.version.storage_id

    def create_branch(self, name: str) -> None:
        """A branch of main as it is now."""
        self.state.create_branch(name)

    def delete_branch(self, name: str) -> None:
        """The branch and all that was changed on it are gone."""
        self.state.delete_branch(name)

    def add_query(self, name: str, text: str) -> None:
        """Store a query under a name."""
        self.state.add_query(name, text)

    def now(self) -> datetime:
        """The server's present."""
        return self.clock.now()

"""What is concluded from what a server says it serves. How servers really say it is asked of a real one."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from vidra.kube import discovery as module
from vidra.kube.client import Client
from vidra.kube.discovery import Discovery, DiscoveryStale, NotServed
from vidra.kube.errors import ApiError, InvalidAnswer, KubeError


def entry(kind: str, *, scope: str = "Namespaced", verbs: tuple[str, ...] = ("get", "list", "delete")) -> Any:
    return {
        "resource": f"{kind.lower()}s",
        "responseKind": {"group": "", "version": "", "kind": kind},
        "scope": scope,
        "verbs": list(verbs),
    }


def version(name: str, *kinds: str, stale: bool = False) -> Any:
    return {
        "version": name,
        "freshness": "Stale" if stale else "Current",
        "resources": [entry(kind) for kind in kinds],
    }


class Server:
    """``groups`` is what /apis says; it may be changed between two readings, and be an error."""

    def __init__(self, **groups: list[Any]) -> None:
        self.groups: dict[str, list[Any]] = groups
        self.core = [entry("Pod"), entry("Node", scope="Cluster"), entry("Binding", verbs=("create",))]
        self.error: KubeError | None = None
        self.readings = 0

    async def raw(self, method: str, path: str, *, accept: str = "") -> Any:
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        assert "APIGroupDiscoveryList" in accept
        if path == "/api":
            self.readings += 1
            versions = {"": [{"version": "v1", "resources": self.core}]}
        else:
            versions = self.groups
        items = [{"metadata": {"name": name}, "versions": listed} for name, listed in versions.items()]
        return {"kind": "APIGroupDiscoveryList", "items": items}


def ask(server: Any, scene: Any) -> Any:
    async def story() -> Any:
        return await scene(Discovery(cast(Client, server)))

    return asyncio.run(story())


@pytest.fixture
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REFRESH_PAUSE", 0.0)


def test_a_kind_is_found_in_exactly_the_version_asked_for() -> None:
    server = Server(example=[version("v2", "Thing"), version("v1", "Thing")])

    async def scene(discovery: Discovery) -> None:
        found = await discovery.resource("example", "v1", "Thing")
        assert (found.api_version, found.plural, found.namespaced) == ("example/v1", "things", True)
        assert not (await discovery.resource("", "v1", "Node")).namespaced
        with pytest.raises(NotServed, match=r"example/v3 is not served .*\(served: example/v2, example/v1\)"):
            await discovery.resource("example", "v3", "Thing")

    ask(server, scene)


def test_an_object_known_by_its_kind_is_read_in_the_preferred_version_else_in_the_servers_first() -> None:
    server = Server(example=[version("v2", "Thing"), version("v1", "Thing")])

    async def scene(discovery: Discovery) -> list[str]:
        return [(await discovery.any_version("example", "Thing", wish)).version for wish in ("v1", "v0", None)]

    assert ask(server, scene) == ["v1", "v2", "v2"]


@pytest.mark.usefixtures("_no_pause")
def test_a_miss_reads_again_and_finds_what_came_meanwhile() -> None:
    server = Server()

    async def scene(discovery: Discovery) -> None:
        with pytest.raises(NotServed):
            await discovery.resource("example", "v1", "Thing")
        server.groups["example"] = [version("v1", "Thing")]
        assert (await discovery.resource("example", "v1", "Thing")).kind == "Thing"
        assert (await discovery.any_version("example", "Thing")).kind == "Thing"

    ask(server, scene)
    assert server.readings == 2


def test_a_kind_nobody_serves_does_not_flood_the_server() -> None:
    server = Server()

    async def scene(discovery: Discovery) -> None:
        for number in range(100):
            with pytest.raises(NotServed):
                await discovery.resource("example", "v1", f"Kind{number}")

    ask(server, scene)
    assert server.readings == 1


def test_many_that_miss_at_once_share_one_reading() -> None:
    server = Server(example=[version("v1", "Thing")])

    async def scene(discovery: Discovery) -> None:
        await asyncio.gather(*(discovery.resource("example", "v1", "Thing") for _ in range(50)))
        await asyncio.gather(*(discovery.refresh(now=True) for _ in range(50)))

    ask(server, scene)
    assert server.readings == 3, "one for the misses, one under way when the others asked, one for all of those"


def test_a_reading_that_began_before_one_asked_does_not_count() -> None:
    """A definition became established while somebody else's reading was under way: it may not be in there."""
    under_way, go_on = asyncio.Event(), asyncio.Event()

    class Slow(Server):
        async def raw(self, method: str, path: str, *, accept: str = "") -> Any:
            answer = await super().raw(method, path, accept=accept)
            if path == "/apis" and not go_on.is_set():
                under_way.set()
                await go_on.wait()
            return answer

    server = Slow()

    async def scene(discovery: Discovery) -> None:
        earlier = asyncio.create_task(discovery.refresh())
        await under_way.wait()
        server.groups["example"] = [version("v1", "Thing")]
        asked = asyncio.create_task(discovery.refresh(now=True))
        await asyncio.sleep(0)
        go_on.set()
        await asyncio.gather(earlier, asked)
        assert (await discovery.resource("example", "v1", "Thing")).kind == "Thing"

    ask(server, scene)
    assert server.readings == 2


@pytest.mark.usefixtures("_no_pause")
def test_a_group_that_cannot_be_discovered_is_unknown_and_not_absent() -> None:
    server = Server(example=[version("v1", stale=True)])

    async def scene(discovery: Discovery) -> None:
        with pytest.raises(DiscoveryStale):
            await discovery.resource("example", "v1", "Thing")
        with pytest.raises(DiscoveryStale):
            await discovery.any_version("example", "Thing")
        with pytest.raises(NotServed):
            await discovery.resource("other", "v1", "Thing")

    ask(server, scene)


@pytest.mark.usefixtures("_no_pause")
def test_what_a_group_had_stays_usable_while_it_cannot_be_discovered() -> None:
    server = Server(example=[version("v1", "Thing")])

    async def scene(discovery: Discovery) -> None:
        await discovery.refresh()
        server.groups["example"] = [version("v1", stale=True)]
        await discovery.refresh()
        assert (await discovery.resource("example", "v1", "Thing")).plural == "things"
        with pytest.raises(DiscoveryStale):
            await discovery.resource("example", "v1", "Another")
        server.groups["example"] = [version("v1", "Another")]
        await discovery.refresh()
        with pytest.raises(NotServed):
            await discovery.resource("example", "v1", "Thing")

    ask(server, scene)


@pytest.mark.usefixtures("_no_pause")
@pytest.mark.parametrize("error", [ApiError(503, "ServiceUnavailable", "no"), InvalidAnswer("html")])
def test_a_reading_that_fails_is_an_error_and_loses_nothing(error: KubeError) -> None:
    server = Server(example=[version("v1", "Thing")])

    async def scene(discovery: Discovery) -> None:
        await discovery.refresh()
        server.error = error
        with pytest.raises(type(error)):
            await discovery.resource("example", "v1", "Another")
        assert (await discovery.resource("example", "v1", "Thing")).kind == "Thing"

    ask(server, scene)


def test_what_a_namespace_can_hold_is_asked_anew_each_time() -> None:
    server = Server()

    async def scene(discovery: Discovery) -> None:
        assert [r.kind for r in await discovery.namespaced()] == ["Pod"]
        server.groups["example"] = [version("v2", "Thing"), version("v1", "Thing", "Old")]
        assert [(r.kind, r.version) for r in await discovery.namespaced()] == [
            ("Pod", "v1"),
            ("Thing", "v2"),
            ("Old", "v1"),
        ]

    ask(server, scene)


def test_what_a_namespace_can_hold_is_unknown_while_a_group_was_never_seen() -> None:
    server = Server(example=[version("v1", stale=True)])

    async def scene(discovery: Discovery) -> None:
        with pytest.raises(DiscoveryStale):
            await discovery.namespaced()
        server.groups["example"] = [version("v1", "Thing")]
        await discovery.namespaced()
        server.groups["example"] = [version("v1", stale=True)]
        assert [r.kind for r in await discovery.namespaced()] == ["Pod", "Thing"]

    ask(server, scene)


@pytest.mark.parametrize("answer", [None, [], {"kind": "Status"}, {}])
def test_what_is_no_discovery_is_not_taken_for_a_server_without_kinds(answer: Any) -> None:
    class Odd:
        async def raw(self, method: str, path: str, *, accept: str = "") -> Any:
            return answer

    async def scene(discovery: Discovery) -> None:
        with pytest.raises(InvalidAnswer):
            await discovery.resource("", "v1", "Pod")

    ask(Odd(), scene)


def test_an_older_server_is_asked_group_by_group() -> None:
    """The answers of servers before aggregated discovery; one group is down."""
    answers: dict[str, Any] = {
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/api/v1": {
            "resources": [
                {"name": "pods", "kind": "Pod", "namespaced": True, "verbs": ["get", "list", "delete"]},
                {"name": "pods/status", "kind": "Pod", "namespaced": True, "verbs": ["get"]},
            ]
        },
        "/apis": {
            "kind": "APIGroupList",
            "groups": [
                {
                    "name": "example",
                    "versions": [{"groupVersion": "example/v1"}, {"groupVersion": "example/v2"}],
                    "preferredVersion": {"groupVersion": "example/v2"},
                },
                {"name": "down", "versions": [{"groupVersion": "down/v1"}]},
            ],
        },
        "/apis/example/v1": {"resources": [{"name": "things", "kind": "Thing", "namespaced": False, "verbs": []}]},
        "/apis/example/v2": {"resources": [{"name": "things", "kind": "Thing", "namespaced": False, "verbs": []}]},
    }

    class Old:
        async def raw(self, method: str, path: str, *, accept: str = "") -> Any:
            if path not in answers:
                raise ApiError(503, "ServiceUnavailable", "down")
            return answers[path]

    async def scene(discovery: Discovery) -> None:
        assert (await discovery.any_version("example", "Thing")).version == "v2"
        assert (await discovery.resource("", "v1", "Pod")).plural == "pods"
        with pytest.raises(DiscoveryStale):
            await discovery.resource("down", "v1", "X")

    ask(Old(), scene)

"""The status client against the real API server, with the requests counted in its audit log."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import pytest
from tests.integration.kube_support import connected, own_kind, own_namespace, serve
from tests.scripted.server import Connection, Request, loader_for, scripted_server

from controlplane import ControlPlane
from vidra.kube.client import Client, Obj, PatchType
from vidra.kube.errors import ApiError
from vidra.kube.resource import Resource
from vidra.kube.session import Session
from vidra.runtime.status import Answer, Outcome, StatusClient, StatusTooLarge

THING = Resource("example", "v1", "Thing", "things", namespaced=True)


class World(NamedTuple):
    plane: ControlPlane
    client: Client
    status: StatusClient
    kind: Resource
    namespace: str
    agent: str

    async def make(self, name: str, **spec: Any) -> Obj:
        body = {"apiVersion": self.kind.api_version, "kind": self.kind.kind, "metadata": {"name": name}, "spec": spec}
        return await self.client.create(self.kind, body, namespace=self.namespace)

    async def read(self, name: str) -> Obj:
        return await self.client.get(self.kind, name, self.namespace)

    async def write(self, obj: Obj, desired: Obj, **options: Any) -> Answer:
        """Writes over ``obj`` as it was read."""
        return await self.status.patch(
            self.kind,
            obj["metadata"]["name"],
            self.namespace,
            desired,
            obj.get("status"),
            uid=obj["metadata"]["uid"],
            **{"resource_version": obj["metadata"]["resourceVersion"], **options},
        )

    async def requests(self) -> list[str]:
        """The verbs of all requests of this world's client so far."""
        entries = await asyncio.to_thread(self.plane.audit.entries, user_agent_prefix=self.agent)
        return [entry.verb for entry in entries]


@pytest.fixture(scope="module")
def kind(control_plane: ControlPlane) -> Resource:
    """One kind for all tests here: it takes the server two seconds to serve one."""
    resource, crd = own_kind()

    async def make() -> None:
        async with connected(control_plane.kubeconfig_path) as client:
            await serve(client, resource, crd)

    asyncio.run(make())
    return resource


@pytest.fixture
async def world(control_plane: ControlPlane, kind: Resource) -> AsyncIterator[World]:
    agent = f"status-test/{uuid.uuid4().hex}"
    async with (
        connected(control_plane.kubeconfig_path) as admin,
        connected(control_plane.kubeconfig_path, user_agent=agent) as counted,
        own_namespace(admin) as namespace,
    ):
        status = StatusClient(counted, field_manager="status-test")
        yield World(control_plane, admin, status, kind, namespace, agent)


async def test_the_difference_is_written_and_what_is_gone_is_removed(world: World) -> None:
    obj = await world.make("a")
    first = {"state": "Running", "error": "x", "items": [1, 2], "nested": {"a": 1, "b": 2}}
    answer = await world.write(obj, first)
    assert answer.object is not None
    assert answer.object["status"] == first

    second = {"state": "Done", "items": [2], "nested": {"a": 1}}
    answer = await world.write(answer.object, second)
    assert answer.outcome is Outcome.WRITTEN
    assert (await world.read("a"))["status"] == second
    assert await world.requests() == ["patch", "patch"]


async def test_the_generation_and_the_spec_stay_and_the_manager_is_named(world: World) -> None:
    obj = await world.make("a", n=1)
    await world.write(obj, {"state": "Done"})
    live = await world.read("a")
    assert (live["metadata"]["generation"], live["spec"]) == (1, {"n": 1})
    entries = [entry for entry in live["metadata"]["managedFields"] if entry.get("subresource") == "status"]
    assert [entry["manager"] for entry in entries] == ["status-test"]


@pytest.mark.case("U11")
async def test_u11_a_thousand_identical_writes_are_no_request(world: World) -> None:
    obj = await world.make("a")
    answer = await world.write(obj, {"state": "Done", "conditions": [{"type": "Ready", "status": "True"}]})
    live = answer.object
    assert live is not None
    before = await world.requests()
    for _ in range(1000):
        wanted = {"conditions": [{"status": "True", "type": "Ready"}], "state": "Done", "error": None}
        assert await world.write(live, wanted) == Answer(Outcome.UNCHANGED, None)
    assert await world.requests() == before
    assert (await world.read("a"))["metadata"]["resourceVersion"] == live["metadata"]["resourceVersion"]


async def test_a_stale_answer_is_read_again(world: World) -> None:
    stale = await world.make("a")
    await world.client.patch(
        world.kind, "a", {"status": {"theirs": 1}}, PatchType.MERGE, namespace=world.namespace, subresource="status"
    )
    answer = await world.write(stale, {"state": "Done"})
    assert answer.outcome is Outcome.WRITTEN
    assert (await world.read("a"))["status"] == {"state": "Done"}
    assert await world.requests() == ["patch", "get", "patch"]


@pytest.mark.case("U12")
async def test_u12_a_change_of_the_spec_meanwhile_costs_one_more_read_and_loses_nothing(world: World) -> None:
    stale = await world.make("a", n=1)
    await world.client.patch(world.kind, "a", {"spec": {"n": 2}}, PatchType.MERGE, namespace=world.namespace)
    assert (await world.write(stale, {"observedGeneration": 1, "state": "Done"})).outcome is Outcome.WRITTEN
    live = await world.read("a")
    assert (live["spec"], live["status"]["observedGeneration"]) == ({"n": 2}, 1)
    assert await world.requests() == ["patch", "get", "patch"]


async def test_a_status_of_a_newer_generation_stays(world: World) -> None:
    stale = await world.make("a")
    fresh = await world.write(stale, {"observedGeneration": 2, "state": "Done"})
    answer = await world.write(stale, {"observedGeneration": 1, "state": "Failed"})
    assert answer.outcome is Outcome.SUPERSEDED
    assert fresh.object is not None
    assert await world.read("a") == fresh.object


@pytest.mark.parametrize("again", [False, True], ids=["deleted", "made again"])
@pytest.mark.parametrize("versioned", [True, False])
async def test_an_object_that_is_gone_gets_nothing(world: World, again: bool, versioned: bool) -> None:
    obj = await world.make("a")
    await world.client.delete(world.kind, "a", namespace=world.namespace)
    successor = await world.make("a") if again else None
    options: dict[str, Any] = {} if versioned else {"resource_version": None}
    assert await world.write(obj, {"state": "Done"}, **options) == Answer(Outcome.GONE, None)
    if successor is not None:
        assert await world.read("a") == successor


async def test_many_writers_of_one_object_all_come_through(world: World) -> None:
    """Each wants the whole status its way, so the last one wins; none fails, and none is lost in between."""
    obj = await world.make("a")
    wanted = [{"state": f"state-{number}"} for number in range(5)]
    answers = await asyncio.gather(*(world.write(obj, status) for status in wanted))
    assert {answer.outcome for answer in answers} == {Outcome.WRITTEN}
    assert (await world.read("a"))["status"] in wanted


async def test_a_refusal_is_the_callers_at_once(world: World) -> None:
    obj = await world.make("a")
    nobody = world.plane.user_kubeconfig(f"nobody-{world.namespace}")
    async with connected(nobody) as client:
        with pytest.raises(ApiError) as refused:
            await world._replace(status=StatusClient(client, field_manager="x")).write(obj, {"state": "Done"})
    assert refused.value.status == 403


async def test_the_largest_status_we_send_is_taken_and_a_larger_one_is_never_sent(world: World) -> None:
    obj = await world.make("a")
    answer = await world.write(obj, {"text": "x" * 999_000})
    assert answer.outcome is Outcome.WRITTEN
    assert answer.object is not None
    with pytest.raises(StatusTooLarge, match="1000000"):
        await world.write(answer.object, {"text": "y" * 1_000_000})
    assert await world.requests() == ["patch"]


@pytest.mark.case("U9")
async def test_u9_an_object_of_900_kb_gets_a_status_and_a_finalizer_and_can_be_deleted(world: World) -> None:
    obj = await world.make("a", text="x" * 900_000)
    answer = await world.write(obj, {"state": "Done"})
    assert answer.object is not None
    assert "annotations" not in answer.object["metadata"]
    body = [{"op": "add", "path": "/metadata/finalizers", "value": ["example.org/x"]}]
    await world.client.patch(world.kind, "a", body, PatchType.JSON, namespace=world.namespace)
    going = await world.client.delete(world.kind, "a", namespace=world.namespace)
    assert (await world.write(going, {"state": "Deleting"})).outcome is Outcome.WRITTEN
    body = [{"op": "remove", "path": "/metadata/finalizers/0"}]
    await world.client.patch(world.kind, "a", body, PatchType.JSON, namespace=world.namespace)
    with pytest.raises(ApiError, match="404"):
        await world.read("a")


# --- what a real server does not do on demand


@pytest.mark.case("R08")
@pytest.mark.parametrize("code", [429, 503])
async def test_r08_a_busy_server_gets_the_time_it_asks_for(code: int) -> None:
    times: list[float] = []

    async def busy(request: Request, connection: Connection) -> None:
        times.append(asyncio.get_running_loop().time())
        if len(times) == 1:
            await connection.answer(code, {"kind": "Status", "code": code, "message": "slow down"}, Retry_After="1")
        else:
            await connection.answer(200, {"metadata": {"resourceVersion": "2"}, "status": {"state": "Done"}})

    async with scripted_server(busy) as url, Session(loader_for(url)) as session:
        status = StatusClient(Client(session), field_manager="x")
        answer = await status.patch(THING, "a", "n", {"state": "Done"}, {}, uid="u", resource_version="1")
    assert answer.outcome is Outcome.WRITTEN
    assert 1.0 <= times[1] - times[0] < 5


@pytest.mark.case("R08")
async def test_r08_a_wait_longer_than_our_patience_is_the_callers_with_code_and_object() -> None:
    requests = 0

    async def busy(request: Request, connection: Connection) -> None:
        nonlocal requests
        requests += 1
        await connection.answer(429, {"kind": "Status", "code": 429, "message": "slow down"}, Retry_After="60")

    async with scripted_server(busy) as url, Session(loader_for(url)) as session:
        status = StatusClient(Client(session), field_manager="x")
        with pytest.raises(ApiError, match=r"PATCH /apis/example/v1/namespaces/n/things/a/status: 429") as refused:
            await status.patch(THING, "a", "n", {"state": "Done"}, {}, uid="u", resource_version="1")
    assert (refused.value.retry_after, requests) == (60, 1)


async def test_an_answer_that_is_lost_on_the_way_is_found_to_have_been_written() -> None:
    live: Obj = {"metadata": {"uid": "u", "resourceVersion": "1"}, "status": {}}
    verbs: list[str] = []

    async def loses(request: Request, connection: Connection) -> None:
        verbs.append(request.method)
        if verbs == ["PATCH"]:
            live.update(metadata={"uid": "u", "resourceVersion": "2"}, status={"state": "Done"})
            connection.cut()
        elif request.method == "PATCH":
            await connection.answer(409, {"kind": "Status", "code": 409, "reason": "Conflict", "message": "modified"})
        else:
            await connection.answer(200, live)

    async with scripted_server(loses) as url, Session(loader_for(url)) as session:
        status = StatusClient(Client(session), field_manager="x")
        answer = await status.patch(THING, "a", "n", {"state": "Done"}, {}, uid="u", resource_version="1")
    assert answer == Answer(Outcome.UNCHANGED, live)
    assert verbs == ["PATCH", "PATCH", "GET"]

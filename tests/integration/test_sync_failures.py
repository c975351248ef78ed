"""Every way in which Infrahub says no ends in a documented state, reason and message, and changes nothing deployed.

Which recorded answer has which reason is tests/unit/infrahub/test_refusals.py; that the client meets each of them is
test_infrahub_client.py. Here: what a person reads in status, what stays deployed, and when it is asked again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from tests.integration.kube_support import until
from tests.integration.test_sync_main import add, data_of, page, pass_once
from tests.integration.world import ARTIFACT, SECRETS, World, world

from controlplane import ControlPlane
from infrahub import Standin
from vidra.kube.client import Obj

NO_ARGUMENT = "query Wide { CoreArtifact { edges { node { id checksum { value } } } } }"
MUTATION = "mutation M($artifactname: [String]) { BranchCreate(data: {name: $artifactname}) { ok } }"


@dataclass(frozen=True)
class Fault:
    """``spoil`` breaks the stand-in, or ``source`` the sync's own spec."""

    reason: str
    told: str
    state: str = "Stale"
    spoil: Callable[[Standin], None] = lambda standin: None
    source: dict[str, Any] | None = None


def answers(status: int, body: Any, prefix: str = "/graphql") -> Callable[[Standin], None]:
    return lambda standin: standin.faults.answer(prefix, status, body)


def moved(standin: Standin) -> None:
    standin.faults.answer("/graphql", 301, "", {"Location": "https://infrahub.example/graphql"})


def forget_branch(standin: Standin) -> None:
    standin.delete_branch("work")


def lock_out(standin: Standin) -> None:
    standin.accounts.rotate_secret()
    standin.faults.answer("/api/auth/login", 401, {"errors": [{"message": "Incorrect password"}]})


FAULTS = {
    "down": Fault("Unreachable", "reset", spoil=lambda standin: standin.faults.down()),
    "database-away": Fault("Unavailable", "HTTP 503", spoil=answers(503, {"errors": [{"message": "no database"}]})),
    "throttled": Fault("Throttled", "HTTP 429", spoil=answers(429, {"detail": "slow down"})),
    "broken": Fault("ServerError", "HTTP 500", spoil=answers(500, "Internal Server Error")),
    "a-proxys-page": Fault("InvalidAnswer", "HTML", spoil=answers(200, "<html><title>Sign in</title></html>")),
    "cut-json": Fault("InvalidAnswer", "JSON", spoil=answers(200, '{"data": {"CoreArt')),
    "locked-out": Fault("AuthenticationFailed", "HTTP 401", spoil=lock_out),
    "denied": Fault("PermissionDenied", "HTTP 403", spoil=answers(403, {"errors": [{"message": "not you"}]})),
    "branch-deleted": Fault("BranchNotFound", "work", spoil=forget_branch),
    "branch-unknown": Fault("BranchNotFound", "never", source={"targetBranch": "never"}),
    "query-unknown": Fault("QueryNotFound", "NoSuchQuery", source={"queryName": "NoSuchQuery"}),
    "query-mutates": Fault("QueryRefused", "mutation", "Failed", source={"queryName": "Mutates"}),
    "query-ignores-the-name": Fault("QueryRefused", "$artifactname", "Failed", source={"queryName": "Wide"}),
    "date-ahead": Fault("BadDate", "tomorrow", "Failed", source={"targetDate": "tomorrow"}),
    "date-before-all": Fault("DateBeforeStart", "2020", "Failed", source={"targetDate": "2020-01-01T00:00:00Z"}),
    "no-infrahub": Fault("WrongURL", "redirects", "Failed", spoil=moved),
}
#: Asking again soon could help.
SOON = {"down", "database-away", "throttled", "broken", "a-proxys-page", "cut-json"}


@pytest.fixture
async def w(control_plane: ControlPlane) -> AsyncIterator[World]:
    """A sync of one artifact on the branch `work` that has succeeded, and whose resource has."""
    async with world(control_plane) as w:
        w.standin.add_query("Wide", NO_ARGUMENT)
        w.standin.add_query("Mutates", MUTATION)
        add(w, "a")
        w.standin.create_branch("work")
        await w.create_sync("one", source={"targetBranch": "work"})
        await w.until_state(World.SYNCS, "one", "Succeeded")
        await w.until_quiet()
        yield w


async def spoil(w: World, fault: Fault) -> Obj:
    """Lets the fault happen to a pass; the sync as that left it."""
    fault.spoil(w.standin)
    if fault.source is None:
        return await pass_once(w)
    sync = await w.get(World.SYNCS, "one") or {}
    await w.change(World.SYNCS, "one", source=sync["spec"]["source"] | fault.source)
    return await w.until_state(World.SYNCS, "one", "Failed", "Stale")


def ready(sync: Obj) -> Obj:
    condition: Obj = next(c for c in sync["status"]["conditions"] if c["type"] == "Ready")
    return condition


@pytest.mark.parametrize("name", FAULTS)
async def test_a_fault_is_told_by_reason_and_message_and_changes_nothing(w: World, name: str) -> None:
    fault = FAULTS[name]
    before = await w.get(World.SYNCS, "one") or {}
    resources = [(r["metadata"]["name"], r["metadata"]["generation"]) for r in await w.all(World.RESOURCES)]
    sync = await spoil(w, fault)
    status = sync["status"]
    assert (status["syncState"], ready(sync)["reason"]) == (fault.state, fault.reason), status["lastError"]
    assert fault.told in status["lastError"]
    assert status["lastSyncTime"] == before["status"]["lastSyncTime"]
    assert [(r["metadata"]["name"], r["metadata"]["generation"]) for r in await w.all(World.RESOURCES)] == resources
    assert await data_of(w, "a") == {"a": "1"}


async def test_a_fault_that_passes_leaves_no_error_behind(w: World) -> None:
    w.standin.faults.down()
    assert (await pass_once(w))["status"]["syncState"] == "Stale"
    w.standin.faults.clear()
    sync = await pass_once(w)
    assert sync["status"]["syncState"] == "Succeeded"
    assert "lastError" not in sync["status"]


async def test_a_sync_that_never_succeeded_is_failed_and_not_stale(control_plane: ControlPlane) -> None:
    async with world(control_plane) as w:
        w.standin.faults.down()
        await w.create_sync("one")
        sync = await w.until_state(World.SYNCS, "one", "Failed")
        assert ready(sync)["reason"] == "Unreachable"
        assert "lastSyncTime" not in sync["status"]


@pytest.mark.parametrize("name", sorted(SOON))
async def test_what_may_pass_is_tried_again_by_itself(w: World, name: str) -> None:
    FAULTS[name].spoil(w.standin)
    await pass_once(w)
    w.standin.faults.clear()
    await w.until_state(World.SYNCS, "one", "Succeeded", timeout=30)


@pytest.mark.parametrize("name", ["locked-out", "denied", "query-unknown", "branch-unknown"])
async def test_a_refusal_is_not_asked_again_before_the_interval(w: World, name: str) -> None:
    sync = await spoil(w, FAULTS[name])
    assert ready(sync)["reason"] == FAULTS[name].reason
    await w.until_quiet()
    assert w.operator.sync_queue.retries("one") == 0, "it waits for its interval, not for a back-off"


async def test_credentials_that_are_mended_are_used_at_once(control_plane: ControlPlane) -> None:
    async with world(control_plane, credentials=False) as w:
        add(w, "a")
        await w.create_sync("one")
        sync = await w.until_state(World.SYNCS, "one", "Failed")
        assert ready(sync)["reason"] == "CredentialsNotFound"
        assert "infrahub-api-url=127.0.0.1" in sync["status"]["lastError"]
        await w.put_credentials("wrong", username="nobody", password="guess")

        async def refused() -> bool:
            return bool(ready(await w.get(World.SYNCS, "one") or {})["reason"] == "AuthenticationFailed")

        await until(refused)
        await w.client.delete(SECRETS, "wrong", namespace=w.namespace)
        await w.put_credentials()
        await w.until_state(World.SYNCS, "one", "Succeeded")


async def test_a_secret_without_a_login_says_so(control_plane: ControlPlane) -> None:
    async with world(control_plane, credentials=False) as w:
        await w.put_credentials(user="admin")
        await w.create_sync("one")
        sync = await w.until_state(World.SYNCS, "one", "Failed")
        assert ready(sync)["reason"] == "CredentialsInvalid"


async def test_one_artifact_that_fails_keeps_no_other_from_arriving(w: World) -> None:
    lost = w.standin.add_artifact(name=ARTIFACT, content=page(w, "b"), target="b", branch="work")
    w.standin.lose_content(lost, branch="work")
    w.standin.add_artifact(name=ARTIFACT, content=page(w, "c"), target="c", branch="work")
    sync = await pass_once(w)
    assert (sync["status"]["syncState"], ready(sync)["reason"]) == ("Failed", "ArtifactFailed")
    assert lost in sync["status"]["lastError"]
    assert await data_of(w, "c") == {"a": "1"}
    assert await data_of(w, "b") is None


@pytest.mark.parametrize("cut", [True, False], ids=["cut-short", "altered"])
async def test_content_that_is_not_what_was_promised_never_arrives(w: World, cut: bool) -> None:
    artifact = next(iter(w.standin.state.artifacts))
    w.standin.change_artifact(artifact, page(w, "a", a="2"), branch="work")
    if cut:
        w.standin.faults.cut_short("/api/storage/", 20)
    else:
        w.standin.alter_content(artifact, page(w, "a", a="wrong").encode(), branch="work")
    sync = await pass_once(w)
    assert ready(sync)["reason"] == "ArtifactFailed"
    assert await data_of(w, "a") == {"a": "1"}
    if cut:
        w.standin.faults.clear()
        await w.until_state(World.SYNCS, "one", "Succeeded", timeout=30)
        await w.until_quiet()
        assert await data_of(w, "a") == {"a": "2"}


async def test_a_kept_connection_that_is_reset_is_no_failure(w: World) -> None:
    w.standin.faults.reset_connection("/graphql", times=1)
    assert (await pass_once(w))["status"]["syncState"] == "Succeeded"


async def test_servers_that_never_answer_hold_up_no_other_sync(control_plane: ControlPlane) -> None:
    async with world(control_plane, workers_sync=4) as w, Standin() as silent:
        silent.faults.delay("/", 3600)
        for number in range(4):
            await w.create_sync(f"silent-{number}", source={"infrahubAPIURL": silent.url})
        await until(lambda: w.operator.sync_queue.in_progress == 1)
        add(w, "a")
        await w.create_sync("one")
        await w.until_state(World.SYNCS, "one", "Succeeded", timeout=30)

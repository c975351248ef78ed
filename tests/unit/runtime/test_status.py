"""The difference between two statuses, and how the status client meets what comes in between."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.scripted.virtual_time import run

from vidra.kube.client import Client, Obj, PatchType
from vidra.kube.errors import ApiError, KubeError, Unreachable
from vidra.kube.resource import Resource
from vidra.runtime.status import Answer, Outcome, StatusClient, StatusTooLarge, merge_patch

THING = Resource("example", "v1", "Thing", "things", namespaced=True)
CONFLICT = ApiError(409, "Conflict", "the object has been modified")
NOT_FOUND = ApiError(404, "NotFound", "no")


# --- the difference


def merged(target: Any, patch: Any) -> Any:
    """RFC 7386, section 2, word by word."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


scalars = st.text(max_size=3) | st.integers(2, 5)
statuses = st.dictionaries(
    st.sampled_from("abc"),
    st.recursive(
        scalars | st.lists(scalars, max_size=2),
        lambda inner: st.dictionaries(st.sampled_from("xyz"), inner, max_size=3),
        max_leaves=6,
    ),
    max_size=3,
)


@given(statuses, statuses)
def test_the_patch_turns_the_one_into_the_other_and_is_empty_where_they_are_alike(old: Obj, new: Obj) -> None:
    patch = merge_patch(old, new)
    assert merged(old, patch) == new
    assert (patch == {}) == (old == new)


def test_what_is_gone_becomes_null_and_lists_are_sent_whole() -> None:
    old = {"state": "Failed", "lastError": "x", "nested": {"a": 1, "b": 2}, "list": [1, 2]}
    new = {"state": "Failed", "nested": {"a": 1, "c": 3}, "list": [1, 3]}
    assert merge_patch(old, new) == {"lastError": None, "nested": {"b": None, "c": 3}, "list": [1, 3]}


def test_none_in_the_wanted_status_is_absent() -> None:
    assert merge_patch({}, {"lastError": None}) == {}
    assert merge_patch({"lastError": "x"}, {"lastError": None}) == {"lastError": None}


# --- the client


class Server:
    """One object and what goes wrong: ``faults`` are raised by the requests in order, None lets one pass."""

    def __init__(
        self, status: Obj, *, version: int = 5, uid: str = "u", faults: Sequence[KubeError | None] = ()
    ) -> None:
        self.object: Obj = {"metadata": {"uid": uid, "resourceVersion": str(version)}, "status": status}
        self.faults = list(faults)
        self.requests: list[str] = []
        self.patches: list[Obj] = []

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Obj:
        self._request("get")
        return copy.deepcopy(self.object)

    async def patch(
        self, resource: Resource, name: str, patch: Obj, kind: PatchType, *, namespace: str | None, **options: Any
    ) -> Obj:
        self._request("patch")
        assert (kind, options) == (PatchType.MERGE, {"subresource": "status", "field_manager": "m"})
        self.patches.append(patch)
        if patch["metadata"]["resourceVersion"] != self.object["metadata"]["resourceVersion"]:
            raise CONFLICT
        self.write(merged(self.object["status"], patch["status"]))
        return copy.deepcopy(self.object)

    def write(self, status: Obj) -> None:
        """What another process would do."""
        self.object["status"] = status
        self.object["metadata"]["resourceVersion"] = str(int(self.object["metadata"]["resourceVersion"]) + 1)

    def _request(self, verb: str) -> None:
        self.requests.append(verb)
        fault = self.faults.pop(0) if self.faults else None
        if fault is not None:
            raise fault


def write(server: Server, desired: Mapping[str, Any], known: Mapping[str, Any] | None, **options: Any) -> Answer:
    size = {"max_bytes": options.pop("max_bytes")} if "max_bytes" in options else {}
    client = StatusClient(cast(Client, server), field_manager="m", **size)
    options = {"uid": "u", "resource_version": "5", **options}
    return run(client.patch(THING, "a", "n", desired, known, **options))


def test_only_the_difference_is_sent_bound_to_the_version_it_was_computed_from() -> None:
    server = Server({"state": "Running", "n": 1})
    answer = write(server, {"state": "Succeeded", "n": 1}, {"state": "Running", "n": 1})
    assert answer.outcome is Outcome.WRITTEN
    assert answer.object is not None
    assert answer.object["metadata"]["resourceVersion"] == "6"
    assert server.patches == [{"metadata": {"resourceVersion": "5"}, "status": {"state": "Succeeded"}}]


@pytest.mark.case("U11")
def test_u11_nothing_is_sent_where_nothing_differs() -> None:
    server = Server({"state": "Running"})
    assert write(server, {"state": "Running"}, {"state": "Running"}) == Answer(Outcome.UNCHANGED, None)
    assert server.requests == []


def test_a_stale_answer_is_read_again_and_the_difference_computed_anew() -> None:
    """Another process had written an error meanwhile, which what we want doesn't hold."""
    server = Server({"state": "Failed", "lastError": "theirs"}, version=9)
    answer = write(server, {"state": "Succeeded"}, {"state": "Running"})
    assert answer.outcome is Outcome.WRITTEN
    assert server.requests == ["patch", "get", "patch"]
    assert server.object["status"] == {"state": "Succeeded"}


def test_a_status_of_a_newer_generation_is_never_overwritten() -> None:
    newer = {"observedGeneration": 3, "state": "Succeeded"}
    server = Server(newer, version=9)
    answer = write(server, {"observedGeneration": 2, "state": "Failed"}, {"observedGeneration": 2, "state": "Running"})
    assert answer.outcome is Outcome.SUPERSEDED
    assert server.object["status"] == newer


def test_a_status_is_never_written_on_an_object_that_was_made_again() -> None:
    server = Server({}, version=9, uid="another")
    assert write(server, {"state": "Succeeded"}, {"state": "Running"}) == Answer(Outcome.GONE, None)
    assert server.object["status"] == {}


def test_without_a_version_the_object_is_read_first() -> None:
    server = Server({"state": "Running"})
    assert write(server, {"state": "Done"}, None, resource_version=None).outcome is Outcome.WRITTEN
    assert server.requests == ["get", "patch"]
    server = Server({"state": "Done"})
    assert write(server, {"state": "Done"}, None, resource_version=None).outcome is Outcome.UNCHANGED
    assert server.requests == ["get"]


@pytest.mark.parametrize("version", ["5", None])
def test_an_object_that_is_gone_is_no_error(version: str | None) -> None:
    server = Server({}, faults=[NOT_FOUND])
    assert write(server, {"state": "Done"}, {}, resource_version=version) == Answer(Outcome.GONE, None)


@pytest.mark.parametrize(
    "error", [Unreachable("reset"), ApiError(503, "ServiceUnavailable", ""), ApiError(429, "TooManyRequests", "")]
)
def test_transient_errors_are_tried_again(error: KubeError) -> None:
    server = Server({}, faults=[error, error])
    assert write(server, {"state": "Done"}, {}).outcome is Outcome.WRITTEN
    assert server.requests == ["patch", "patch", "patch"]


def test_a_write_whose_answer_was_lost_is_recognised_as_done() -> None:
    class Loses(Server):
        async def patch(self, *args: Any, **options: Any) -> Obj:
            answer = await super().patch(*args, **options)
            if len(self.patches) == 1:
                raise Unreachable("reset before the answer")
            return answer

    server = Loses({"state": "Running"})
    answer = write(server, {"state": "Done"}, {"state": "Running"})
    assert answer.outcome is Outcome.UNCHANGED
    assert answer.object == server.object


@pytest.mark.parametrize("status", [400, 401, 403, 413, 422])
def test_a_refusal_that_waiting_will_not_change_is_the_callers_at_once(status: int) -> None:
    server = Server({}, faults=[ApiError(status, "Refused", "no")])
    with pytest.raises(ApiError):
        write(server, {"state": "Done"}, {})
    assert server.requests == ["patch"]


@pytest.mark.parametrize("error", [Unreachable("down"), CONFLICT, ApiError(429, "TooManyRequests", "", retry_after=60)])
def test_trying_again_ends_within_ten_seconds(error: KubeError) -> None:
    async def scene() -> float:
        server = Server({}, faults=[error] * 1000)
        with pytest.raises(KubeError):
            await StatusClient(cast(Client, server), field_manager="m").patch(
                THING, "a", "n", {"state": "Done"}, {}, uid="u", resource_version="5"
            )
        assert len(server.requests) < 40
        return asyncio.get_running_loop().time()

    assert run(scene()) <= 10


def test_a_request_that_hangs_ends_in_time_too() -> None:
    class Hangs(Server):
        async def patch(self, *args: Any, **options: Any) -> Obj:
            await asyncio.sleep(60)
            raise AssertionError

    with pytest.raises(Unreachable, match="10 s"):
        write(Hangs({}), {"state": "Done"}, {})


# --- the size


def test_a_status_that_is_too_large_is_an_error_before_anything_is_sent() -> None:
    server = Server({})
    with pytest.raises(StatusTooLarge, match="bytes"):
        write(server, {"text": "x" * 200}, {}, max_bytes=100)
    assert server.requests == []


def test_a_status_that_is_too_large_is_shrunk_by_who_knows_how() -> None:
    server = Server({})

    def shrink(status: Mapping[str, Any], size: int) -> Mapping[str, Any]:
        return {"text": status["text"][: size - 50]}

    write(server, {"text": "x" * 200}, {}, max_bytes=100, shrink=shrink)
    assert server.object["status"] == {"text": "x" * 50}
    write(server, {"text": "x" * 200}, {"text": "x" * 50}, max_bytes=100, shrink=shrink, resource_version="6")
    assert server.requests == ["patch"], "what it shrinks to stands there already"
    with pytest.raises(StatusTooLarge, match="after shrinking"):
        write(server, {"text": "x" * 200}, {}, max_bytes=100, shrink=lambda status, size: status)


def test_a_large_status_is_measured_as_json() -> None:
    status = {"text": "é" * 60}
    assert len(json.dumps(status)) > 200
    assert write(Server({}), status, {}, max_bytes=140).outcome is Outcome.WRITTEN

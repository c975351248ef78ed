"""The recorder in virtual time: what is written, how often, and that nothing of it holds anybody up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from structlog.testing import capture_logs
from tests.scripted.virtual_time import run, settle

from vidra.kube.client import Client, Obj
from vidra.kube.errors import ApiError, Fenced, KubeError, Unreachable
from vidra.runtime import events
from vidra.runtime.event_objects import Ref
from vidra.runtime.events import Recorder

THING = {"apiVersion": "example/v1", "kind": "Thing", "metadata": {"name": "a", "uid": "u-a", "resourceVersion": "7"}}


def thing(name: str) -> Obj:
    return {**THING, "metadata": {"name": name, "uid": f"u-{name}"}}


class Sink:
    """The Events of a server, and whatever is wrong with it."""

    def __init__(self) -> None:
        self.events: dict[str, Obj] = {}
        self.requests: list[tuple[float, str]] = []
        self.fault: Callable[[], Awaitable[None]] | None = None
        self.answers_lost = False

    async def create(self, resource: Any, body: Obj, *, namespace: str) -> Obj:
        await self._arrives("create")
        assert namespace == body["metadata"]["namespace"]
        if body["metadata"]["name"] in self.events:
            raise ApiError(409, "AlreadyExists", "it exists")
        self.events[body["metadata"]["name"]] = body
        return self._answer(body)

    async def patch(self, resource: Any, name: str, change: Obj, kind: Any, *, namespace: str) -> Obj:
        await self._arrives("patch")
        if name not in self.events:
            raise ApiError(404, "NotFound", "no such event")
        self.events[name].update(change)
        return self._answer(self.events[name])

    async def _arrives(self, verb: str) -> None:
        self.requests.append((asyncio.get_running_loop().time(), verb))
        if self.fault is not None:
            await self.fault()

    def _answer(self, body: Obj) -> Obj:
        if self.answers_lost:
            raise Unreachable("the answer was lost")
        return body

    @property
    def only(self) -> Obj:
        assert len(self.events) == 1, list(self.events)
        return next(iter(self.events.values()))

    def fails(self, error: KubeError) -> None:
        async def fail() -> None:
            raise error

        self.fault = fail


@asynccontextmanager
async def recording(sink: Sink) -> Any:
    recorder = Recorder(cast(Client, sink), controller="example.com/thing", instance="pod-1")
    running = asyncio.create_task(recorder.run())
    try:
        yield recorder
        assert not running.done()
    finally:
        running.cancel()
        await asyncio.wait([running])


def say(recorder: Recorder, about: Any = THING, **options: Any) -> None:
    recorder.event(about, **{"reason": "Applied", "action": "Apply", "note": "3 objects", **options})


def story(test: Callable[[Recorder, Sink], Awaitable[None]]) -> None:
    async def told() -> None:
        sink = Sink()
        async with recording(sink) as recorder:
            await test(recorder, sink)

    run(told())


def test_an_event_says_what_happened_to_what_and_who_says_so() -> None:
    async def test(recorder: Recorder, sink: Sink) -> None:
        say(recorder, related={"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "n"}})
        await settle()
        event = sink.only
        assert event.pop("eventTime").endswith("Z")
        assert event.pop("metadata")["name"].startswith("a.")
        assert event == {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "type": "Normal",
            "reason": "Applied",
            "action": "Apply",
            "note": "3 objects",
            "regarding": {"apiVersion": "example/v1", "kind": "Thing", "name": "a", "uid": "u-a"},
            "related": {"apiVersion": "v1", "kind": "Secret", "namespace": "n", "name": "s"},
            "reportingController": "example.com/thing",
            "reportingInstance": "pod-1",
        }

    story(test)


def test_events_are_written_where_the_api_wants_them() -> None:
    async def test(recorder: Recorder, sink: Sink) -> None:
        say(recorder)
        say(recorder, Ref("v1", "Pod", "kube-system", "p", "u"))
        await settle()
        assert [event["metadata"]["namespace"] for event in sink.events.values()] == ["default", "kube-system"]

    story(test)


@pytest.mark.case("U21")
def test_u21_a_thousand_same_failures_are_one_event_with_a_count() -> None:
    async def test(recorder: Recorder, sink: Sink) -> None:
        for number in range(1000):
            say(recorder, type="Warning", reason="Failed", note=f"try {number}")
            if number == 0:
                await settle()
        await settle()
        assert "series" not in sink.only
        await asyncio.sleep(events.FIRST_PAUSE)
        assert sink.only["series"]["count"] == 1000
        assert sink.only["note"] == "try 0"
        assert [verb for _, verb in sink.requests] == ["create", "patch"]

    story(test)


def test_what_repeats_before_it_is_first_written_is_written_with_its_count() -> None:
    async def test(recorder: Recorder, sink: Sink) -> None:
        for _ in range(10):
            say(recorder)
        await settle()
        assert sink.only["series"]["count"] == 10
        assert len(sink.requests) == 1

    story(test)


def test_what_happens_all_the_time_is_written_ever_more_rarely() -> None:
    async def test(recorder: Recorder, sink: Sink) -> None:
        for _ in range(3600):
            say(recorder)
            await asyncio.sleep(1)
        times = [at for at, _ in sink.requests]
        assert times[:5] == [0, 6, 16, 36, 76], "5 s after the first repetition, 10 s after the next, ..."
        assert len(times) < 20
        await asyncio.sleep(events.LAST_PAUSE)
        assert sink.only["series"]["count"] == 3600

    story(test)


@pytest.mark.parametrize(
    "other",
    [
        {"type": "Warning"},
        {"reason": "Other"},
        {"action": "Other"},
        {"about": thing("b")},
        {"related": thing("b")},
        {"about": {**THING, "metadata": {"name": "a", "uid": "another"}}},
    ],
)
def test_another_thing_is_another_event(other: dict[str, Any]) -> None:
    async def test(recorder: Recorder, sink: Sink) -> None:
        say(recorder)
        say(recorder, **other)
        await settle()
        assert len(sink.events) == 2

    story(test)


def test_a_later_version_of_the_object_or_another_note_is_the_same_thing() -> None:
    async def test(recorder: Recorder, sink: Sink) -> None:
        say(recorder)
        say(recorder, {**THING, "metadata": {"name": "a", "uid": "u-a", "resourceVersion": "8"}}, note="4 objects")
        await settle()
        assert sink.only["series"]["count"] == 2

    story(test)


def test_what_has_not_happened_for_six_minutes_is_news_again() -> None:
    async def test(recorder: Recorder, sink: Sink) -> None:
        say(recorder)
        await asyncio.sleep(200)
        say(recorder)
        await asyncio.sleep(359)
        say(recorder)
        await asyncio.sleep(10)
        assert sink.only["series"]["count"] == 3
        await asyncio.sleep(361)
        say(recorder)
        await settle()
        assert len(sink.events) == 2
        assert "series" not in list(sink.events.values())[1]

    story(test)


def test_an_event_that_the_server_forgot_is_made_anew_with_its_count() -> None:
    async def test(recorder: Recorder, sink: Sink) -> None:
        say(recorder)
        await settle()
        (first,) = sink.events
        sink.events.clear()
        say(recorder)
        await asyncio.sleep(10)
        assert sink.only["series"]["count"] == 2
        assert sink.only["metadata"]["name"] != first

    story(test)


def test_a_full_queue_drops_says_so_once_and_blocks_nobody() -> None:
    async def test(recorder: Recorder, sink: Sink) -> None:
        sink.fault = asyncio.Event().wait  # type: ignore[assignment]
        for number in range(5000):
            say(recorder, thing(str(number)))
            await asyncio.sleep(0)
        assert recorder.dropped == 5000 - events.MAX_NEW
        assert len(sink.requests) == events.WRITERS

    with capture_logs() as logs:
        story(test)
    said = [entry for entry in logs if entry["event"] == "events are dropped"]
    assert len(said) == 1
    assert said[0]["why"] == "too many at once"


def test_repetitions_take_no_place_from_news() -> None:
    async def test(recorder: Recorder, sink: Sink) -> None:
        for number in range(events.MAX_NEW):
            say(recorder, thing(str(number)))
        await asyncio.sleep(1)
        for number in range(events.MAX_NEW):
            say(recorder, thing(str(number)))
        say(recorder, thing("new"))
        assert recorder.dropped == 0

    story(test)


def test_one_object_has_so_many_new_events_at_once_and_then_one_in_five_minutes() -> None:
    async def test(recorder: Recorder, sink: Sink) -> None:
        for number in range(100):
            say(recorder, reason=f"Reason{number}")
        say(recorder, thing("other"))
        await settle()
        assert len(sink.events) == events.BURST + 1
        await asyncio.sleep(events.REFILL)
        say(recorder, reason="Late")
        say(recorder, reason="TooLate")
        await settle()
        assert [event["reason"] for event in sink.events.values()][events.BURST + 1 :] == ["Late"]

    story(test)


def test_memory_stays_bounded_whatever_happens() -> None:
    async def test(recorder: Recorder, sink: Sink) -> None:
        for number in range(3 * events.MAX_KNOWN):
            say(recorder, thing(str(number)))
            if number % 500 == 0:
                await asyncio.sleep(0.1)
                await settle()
        await asyncio.sleep(1)
        assert len(sink.events) == 3 * events.MAX_KNOWN
        assert len(recorder._known) <= events.MAX_KNOWN
        assert len(recorder._buckets) <= events.MAX_KNOWN
        await asyncio.sleep(2 * events.FINISHED)
        assert not recorder._known
        assert not recorder._waiting
        assert not recorder._new

    story(test)


def test_a_server_that_is_away_is_tried_again_for_two_minutes() -> None:
    async def test(recorder: Recorder, sink: Sink) -> None:
        sink.fails(Unreachable("nobody there"))
        say(recorder)
        await asyncio.sleep(55)
        say(recorder)
        assert [at for at, _ in sink.requests] == [0, 10, 20, 30, 40, 50]
        sink.fault = None
        await asyncio.sleep(10)
        assert sink.only["series"]["count"] == 2
        sink.fails(Unreachable("nobody there"))
        say(recorder, reason="Other")
        await asyncio.sleep(1000)
        assert recorder.dropped == 1
        assert len(sink.requests) == 7 + events.TRIES

    story(test)


def test_a_server_that_asks_for_time_gets_it() -> None:
    async def test(recorder: Recorder, sink: Sink) -> None:
        sink.fails(ApiError(429, "TooManyRequests", "later", retry_after=33))
        say(recorder)
        await asyncio.sleep(70)
        assert [at for at, _ in sink.requests] == [0, 33, 66]

    story(test)


def test_a_refused_event_is_dropped_and_the_next_one_is_written() -> None:
    async def test(recorder: Recorder, sink: Sink) -> None:
        sink.fails(ApiError(403, "Forbidden", "no"))
        say(recorder)
        await asyncio.sleep(100)
        assert len(sink.requests) == 1
        sink.fault = None
        say(recorder)
        await settle()
        assert sink.only["reason"] == "Applied"
        assert recorder.dropped == 1

    story(test)


def test_an_event_whose_answer_got_lost_is_there_once() -> None:
    async def test(recorder: Recorder, sink: Sink) -> None:
        sink.answers_lost = True
        say(recorder)
        await settle()
        sink.answers_lost = False
        say(recorder)
        await asyncio.sleep(20)
        assert sink.only["series"]["count"] == 2
        assert recorder.dropped == 0

    story(test)


def test_news_that_could_not_be_written_for_six_minutes_is_none_any_more() -> None:
    """On a standby, whose writes its fence holds back."""

    async def test(recorder: Recorder, sink: Sink) -> None:
        sink.fails(Fenced("not sent"))
        for _ in range(20):
            say(recorder)
            await asyncio.sleep(50)
        sink.fault = None
        await asyncio.sleep(400)
        await settle()
        assert len(sink.events) <= 1
        assert not recorder._known

    story(test)


def test_at_the_end_what_waits_is_written_counts_too() -> None:
    async def test() -> None:
        sink = Sink()
        async with recording(sink) as recorder:
            say(recorder)
            await settle()
            for _ in range(41):
                say(recorder)
            say(recorder, thing("b"))
        assert {event["regarding"]["name"]: event.get("series", {}).get("count") for event in sink.events.values()} == {
            "a": 42,
            "b": None,
        }
        assert asyncio.get_running_loop().time() == 0

    run(test())


def test_an_end_waits_no_longer_than_a_second() -> None:
    async def test() -> None:
        sink = Sink()
        sink.fault = asyncio.Event().wait  # type: ignore[assignment]
        async with recording(sink) as recorder:
            say(recorder)
            await settle()
        assert asyncio.get_running_loop().time() == events.FLUSH

    run(test())


def test_a_call_costs_microseconds() -> None:
    async def test(recorder: Recorder, sink: Sink) -> None:
        def spent(first: int) -> float:
            began = time.perf_counter()
            for number in range(first, first + 200):
                say(recorder, thing(str(number)))
            return (time.perf_counter() - began) / 200

        assert min(spent(first) for first in (0, 200, 400)) < 100e-6, "news"
        assert min(spent(0) for _ in range(3)) < 100e-6, "repetitions"

    story(test)

"""The reflector's way through its states, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
from tests.scripted.source import Pause, ScriptedSource, Step, bookmark, thing
from tests.scripted.virtual_time import run

from vidra.kube.client import Obj
from vidra.kube.errors import ApiError, InvalidAnswer, KubeError, Silent, Unreachable, status_error
from vidra.kube.watch import Page, WatchEvent
from vidra.runtime.backoff import Backoff
from vidra.runtime.informer import Informer
from vidra.runtime.reflector import HEALTHY_AFTER, PAUSES
from vidra.runtime.store import Change, Key, Store

FOREVER = Pause(1e9)
GONE = ApiError(410, "Expired", "too old resource version")
TOO_LARGE = status_error(
    {
        "code": 504,
        "reason": "Timeout",
        "message": "Timeout: Too large resource version: 9, current: 5",
        "details": {"causes": [{"reason": "ResourceVersionTooLarge"}], "retryAfterSeconds": 1},
    }
)


def page(version: str, *objects: Obj, token: str | None = None) -> Page:
    return Page(list(objects), version, token)


def modified(name: str, version: str, **spec: Any) -> WatchEvent:
    return WatchEvent("MODIFIED", thing(name, version, **spec))


def added(name: str, version: str, **spec: Any) -> WatchEvent:
    return WatchEvent("ADDED", thing(name, version, **spec))


def deleted(name: str, version: str) -> WatchEvent:
    return WatchEvent("DELETED", thing(name, version))


class Scene:
    """An informer over a script, played for some seconds of virtual time."""

    def __init__(
        self,
        lists: Sequence[Page | KubeError] = (),
        watches: Sequence[Sequence[Step] | KubeError] = ([FOREVER],),
        *,
        stream_lists: bool = False,
    ) -> None:
        self.source = ScriptedSource(lists, watches)
        self.changes: list[Change[Obj]] = []
        self.error: KubeError | None = None
        self.state = ""
        self.last_activity: float | None = None
        self._stream_lists = stream_lists

    def play(self, seconds: float) -> Scene:
        run(self._play(seconds))
        return self

    async def _play(self, seconds: float) -> None:
        clock = asyncio.get_running_loop().time
        backoff = Backoff(PAUSES, healthy_after=HEALTHY_AFTER, clock=clock, rand=lambda: 0.0)
        informer = Informer(
            self.source, Store[Obj](detect_mutations=True), backoff=backoff, stream_lists=self._stream_lists
        )
        informer.add_handler(self.changes.append)
        task = asyncio.create_task(informer.run())
        await asyncio.sleep(seconds)
        assert not task.done(), "a reflector never ends by itself"
        self.error, self.state, self.last_activity = informer.last_error, informer.state, informer.last_activity
        self.store = informer.store
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        assert self.source.open_watches == 0, "a watch was left open"

    @property
    def told(self) -> list[tuple[str, str]]:
        return [(change.type.value, change.key.name) for change in self.changes]

    def times(self, verb: str) -> list[float]:
        return [round(at, 3) for word, at, _ in self.source.requests if word == verb]


# --- listing


def test_the_first_list_asks_for_pages_of_the_most_recent_state_and_the_watch_goes_on_from_there() -> None:
    scene = Scene([page("7", thing("a", "3"), token="t"), page("7", thing("b", "5"))]).play(1)
    assert scene.source.asked("list") == [
        {"resource_version": None, "continue_token": None, "limit": 250},
        {"resource_version": None, "continue_token": "t", "limit": 250},
    ]
    assert [asked["resource_version"] for asked in scene.source.asked("watch")] == ["7"]
    assert scene.told == [("ADDED", "a"), ("ADDED", "b")]
    assert scene.state == "watching"


def test_an_expired_token_on_a_later_page_starts_the_list_again_and_nothing_of_the_half_is_told() -> None:
    scene = Scene([page("7", thing("a", "3"), token="t"), GONE, page("9", thing("b", "8"))]).play(5)
    assert scene.told == [("ADDED", "b")]
    assert [asked["continue_token"] for asked in scene.source.asked("list")] == [None, "t", None]


@pytest.mark.parametrize("refusal", [GONE, TOO_LARGE], ids=["gone", "too large"])
def test_a_list_that_cannot_be_not_older_is_asked_for_whatever_is_newest_at_once(refusal: ApiError) -> None:
    scene = Scene([page("7", thing("a", "3")), refusal, page("5", thing("a", "4"))], [[Pause(5), GONE], [FOREVER]])
    scene.play(6)
    assert [asked["resource_version"] for asked in scene.source.asked("list")] == [None, "7", None]
    assert scene.times("list") == [0, 5, 5]
    assert [asked["resource_version"] for asked in scene.source.asked("watch")] == ["7", "5"]


@pytest.mark.case("U5")
def test_u5_a_list_refused_for_ten_minutes_recovers_alone_within_a_minute() -> None:
    refused = ApiError(503, "ServiceUnavailable", "not now")
    scene = Scene([*[refused] * 24, page("7")])
    scene.play(590)
    assert isinstance(scene.error, ApiError), "what stands in the way is visible"

    scene = Scene([*[refused] * 24, page("7")]).play(660)
    tries = scene.times("list")
    pauses = [after - before for before, after in pairwise(tries)]
    assert pauses[:5] == pytest.approx([0.8, 1.6, 3.2, 6.4, 12.8])
    assert max(pauses) <= 60
    assert (len(tries), scene.state, scene.error) == (25, "watching", None)


def test_a_healthy_stretch_lets_the_pauses_begin_anew() -> None:
    down = Unreachable("refused")
    scene = Scene([page("1")], [down, down, down, [Pause(200)], down, [FOREVER]]).play(300)
    opened = scene.times("watch")
    assert opened == pytest.approx([0, 0.8, 2.4, 5.6, 205.6, 206.4])


# --- watching


def test_every_kind_of_event_is_told_and_moves_the_version_the_next_watch_starts_from() -> None:
    script: list[Step] = [modified("a", "8"), added("b", "9"), deleted("a", "11"), Pause(2)]
    scene = Scene([page("7", thing("a", "3"))], [script, [Pause(2), bookmark("40"), Pause(2)], [FOREVER]]).play(10)
    assert scene.told == [("ADDED", "a"), ("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "a")]
    assert [asked["resource_version"] for asked in scene.source.asked("watch")] == ["7", "11", "40"]
    assert scene.times("watch") == [0, 2, 6], "the server's time-out is no failure"
    assert len(scene.source.asked("list")) == 1
    assert scene.error is None


def test_a_watch_is_asked_to_end_at_a_random_time() -> None:
    scene = Scene([page("1")], [[Pause(2)]]).play(100)
    timeouts = {asked["timeout"] for asked in scene.source.asked("watch")}
    assert len(timeouts) > 5
    assert min(timeouts) >= 290
    assert max(timeouts) <= 600


def test_an_unknown_type_and_a_foreign_kind_are_skipped() -> None:
    foreign = WatchEvent("MODIFIED", thing("a", "8", kind="Other"))
    unknown = WatchEvent("RENAMED", thing("a", "9"))
    scene = Scene([page("7", thing("a", "3"))], [[foreign, unknown, modified("a", "10"), FOREVER]]).play(1)
    assert scene.told == [("ADDED", "a"), ("MODIFIED", "a")]
    assert scene.store.resource_version(Key("n", "a")) == "10"


@pytest.mark.case("U2")
def test_u2_gone_in_the_stream_costs_one_list_and_tells_what_was_missed() -> None:
    before = page("7", thing("kept", "1"), thing("deleted", "2"), thing("changed", "3"))
    after = page("20", thing("kept", "1"), thing("changed", "15"))
    scene = Scene([before, after], [[Pause(60), GONE], [FOREVER]]).play(100)
    assert scene.told[3:] == [("DELETED", "deleted"), ("MODIFIED", "changed")]
    assert scene.changes[3].final_state_unknown
    assert [asked["resource_version"] for asked in scene.source.asked("list")] == [None, "7"]
    assert scene.times("list") == [0, 60], "the list comes at once"


@pytest.mark.case("U3")
def test_u3_gone_as_the_answer_to_a_watch_is_the_same() -> None:
    before = page("7", thing("kept", "1"), thing("deleted", "2"), thing("changed", "3"))
    after = page("20", thing("kept", "1"), thing("changed", "15"))
    scene = Scene([before, after], [[Pause(60)], GONE, [FOREVER]]).play(100)
    assert scene.told[3:] == [("DELETED", "deleted"), ("MODIFIED", "changed")]
    assert scene.times("list") == [0, 60]
    assert [asked["resource_version"] for asked in scene.source.asked("watch")] == ["7", "7", "20"]


def test_a_server_whose_lists_are_always_too_old_to_watch_makes_no_hot_loop() -> None:
    scene = Scene([page("7")], [GONE]).play(30)
    assert len(scene.source.requests) < 14
    assert scene.source.asked("list")[1]["resource_version"] is None


@pytest.mark.case("U4")
def test_u4_a_watch_that_closes_at_once_for_ever_is_met_by_growing_pauses() -> None:
    scene = Scene([page("7")], [[]]).play(30)
    assert len(scene.source.requests) < 10
    assert len(scene.source.asked("list")) >= 2, "a new list may bring a version that can be watched"
    opened = scene.times("watch")
    pauses = [after - before for before, after in pairwise(opened)]
    assert pauses == sorted(pauses)
    assert scene.error is not None


def test_a_proxy_that_cuts_every_stream_after_an_event_makes_no_hot_loop_either() -> None:
    scene = Scene([page("7")], [[bookmark("8")]]).play(30)
    assert len(scene.source.requests) < 10


@pytest.mark.case("U6")
def test_u6_a_connection_cut_after_a_while_goes_on_at_the_last_whole_event() -> None:
    cut: list[Step] = [Pause(10), modified("a", "8"), Unreachable("payload is not complete")]
    scene = Scene([page("7", thing("a", "3"))], [cut, [FOREVER]]).play(20)
    assert [asked["resource_version"] for asked in scene.source.asked("watch")] == ["7", "8"]
    assert scene.times("watch") == [0, 10]
    assert scene.told == [("ADDED", "a"), ("MODIFIED", "a")]
    assert scene.error is None


@pytest.mark.case("U7")
@pytest.mark.parametrize(
    "refusal",
    [ApiError(502, "BadGateway", "<html>"), InvalidAnswer("not JSON"), Unreachable("connection refused")],
    ids=["502", "not JSON", "refused"],
)
def test_u7_a_watch_that_cannot_be_opened_is_tried_again_without_a_list(refusal: KubeError) -> None:
    scene = Scene([page("7", thing("a", "3"))], [refusal, refusal, [FOREVER]]).play(10)
    assert scene.times("watch") == pytest.approx([0, 0.8, 2.4])
    assert len(scene.source.asked("list")) == 1
    assert scene.error is None


@pytest.mark.case("U7")
def test_u7_retry_after_is_obeyed() -> None:
    busy = ApiError(429, "TooManyRequests", "slow down", retry_after=17)
    scene = Scene([busy, page("7")], [busy, [FOREVER]]).play(60)
    assert scene.times("list") == [0, 17]
    assert scene.times("watch") == [17, 34]


def test_a_retry_after_of_days_is_not_believed() -> None:
    scene = Scene([ApiError(503, "ServiceUnavailable", "", retry_after=1e6), page("7")]).play(301)
    assert scene.times("list") == [0, 300]


@pytest.mark.parametrize("status", [401, 403, 404, 500])
def test_a_refusal_of_the_watch_is_visible_and_leads_to_a_new_list(status: int) -> None:
    refused = ApiError(status, "Refused", "no")
    scene = Scene([page("7"), refused], [[Pause(5), refused]]).play(20)
    assert isinstance(scene.error, ApiError)
    assert scene.error.status == status
    assert scene.times("list")[:2] == pytest.approx([0, 5.8])


@pytest.mark.case("U1")
def test_u1_a_watch_that_fell_silent_is_opened_again_at_once() -> None:
    scene = Scene([page("7")], [[Pause(90), Silent("nothing")], [modified("a", "8"), FOREVER]]).play(100)
    assert scene.times("watch") == [0, 90]
    assert scene.told == [("ADDED", "a")]
    assert scene.last_activity == pytest.approx(90)


def test_silence_again_renews_the_list_since_a_version_from_the_future_is_watched_in_silence() -> None:
    """etcd came back from a backup: the server knows version 5, we wait for what comes after 700."""
    silent: list[Step] = [Pause(90), Silent("nothing")]
    scene = Scene(
        [page("700", thing("a", "650")), TOO_LARGE, page("5", thing("a", "4"))],
        [silent, silent, [FOREVER]],
    ).play(200)
    assert [asked["resource_version"] for asked in scene.source.asked("list")] == [None, "700", None]
    assert [asked["resource_version"] for asked in scene.source.asked("watch")] == ["700", "700", "5"]
    assert scene.told[1:] == [("MODIFIED", "a")]


def test_a_relist_without_changes_tells_nothing() -> None:
    same = page("7", thing("a", "3"), thing("b", "4"))
    scene = Scene([same, page("30", thing("a", "3"), thing("b", "4"))], [[Pause(9), GONE], [FOREVER]]).play(20)
    assert len(scene.source.asked("list")) == 2
    assert scene.told == [("ADDED", "a"), ("ADDED", "b")]


# --- streaming (WatchList)


def test_a_streamed_list_is_told_as_a_whole_and_the_same_stream_goes_on() -> None:
    script: list[Step] = [
        added("b", "9"),
        added("a", "3"),
        Pause(1),
        bookmark("12", initial_events_end=True),
        deleted("b", "13"),
    ]
    scene = Scene(watches=[[*script, Pause(5)], [FOREVER]], stream_lists=True).play(0.5)
    assert scene.told == [], "nothing before the list is complete"

    scene = Scene(watches=[[*script, Pause(5)], [FOREVER]], stream_lists=True).play(10)
    assert scene.told == [("ADDED", "b"), ("ADDED", "a"), ("DELETED", "b")]
    assert [change.initial for change in scene.changes] == [True, True, False]
    asked = scene.source.asked("watch")
    assert [(request["resource_version"], request["initial_events"]) for request in asked] == [
        (None, True),
        ("13", False),
    ]
    assert scene.source.asked("list") == []


def test_the_version_of_a_streamed_list_is_the_bookmarks_and_never_an_objects() -> None:
    script: list[Step] = [added("a", "99"), bookmark("50", initial_events_end=True), Pause(5)]
    scene = Scene(watches=[script, [FOREVER]], stream_lists=True).play(10)
    assert scene.source.asked("watch")[1]["resource_version"] == "50"


@pytest.mark.case("U2")
def test_u2_gone_is_answered_by_a_streamed_list_not_older_than_what_was_seen() -> None:
    first: list[Step] = [added("a", "3"), added("b", "4"), bookmark("7", initial_events_end=True), Pause(60), GONE]
    second: list[Step] = [added("b", "15"), bookmark("20", initial_events_end=True), FOREVER]
    scene = Scene(watches=[first, second], stream_lists=True).play(100)
    assert scene.told[2:] == [("DELETED", "a"), ("MODIFIED", "b")]
    assert scene.source.asked("watch")[1] | {"timeout": 0} == {
        "resource_version": "7",
        "initial_events": True,
        "timeout": 0,
    }


@pytest.mark.parametrize(
    "script",
    [
        ApiError(422, "Invalid", "sendInitialEvents is forbidden"),
        ApiError(400, "BadRequest", "no"),
        [added("a", "3"), ApiError(404, "NotFound", "no")],
        [added("a", "3"), InvalidAnswer("html")],
        [added("a", "3")],
        [added("a", "3"), FOREVER],
    ],
    ids=["forbidden", "bad request", "refused midway", "not JSON", "ends early", "never says it is complete"],
)
def test_where_streaming_fails_a_plain_list_takes_its_place(script: Sequence[Step] | KubeError) -> None:
    scene = Scene([page("7", thing("b", "3"))], [script, [FOREVER]], stream_lists=True).play(15)
    assert scene.told == [("ADDED", "b")]
    assert len(scene.source.asked("list")) == 1


def test_a_server_that_does_not_know_streaming_is_not_asked_again() -> None:
    refused = ApiError(422, "Invalid", "sendInitialEvents is forbidden")
    scene = Scene([page("7")], [refused, [Pause(5), GONE], [FOREVER]], stream_lists=True).play(20)
    assert [asked["initial_events"] for asked in scene.source.asked("watch")] == [True, False, False]


@pytest.mark.parametrize("error", [Unreachable("refused"), ApiError(429, "TooManyRequests", "busy")])
def test_a_server_in_trouble_is_not_asked_for_a_list_on_top(error: KubeError) -> None:
    complete: list[Step] = [bookmark("7", initial_events_end=True), FOREVER]
    scene = Scene([page("1")], [error, error, complete], stream_lists=True).play(10)
    assert scene.source.asked("list") == []
    assert scene.times("watch") == pytest.approx([0, 0.8, 2.4])

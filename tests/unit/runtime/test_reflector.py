"""The reflector's way through its states, in virtual time."""

from __future__ import annotations

from itertools import pairwise

import pytest
from tests.scripted.reflector_scene import FOREVER, GONE, TOO_LARGE, Scene, added, deleted, modified, page
from tests.scripted.source import Pause, Step, bookmark, thing

from vidra.kube.errors import ApiError, InvalidAnswer, KubeError, Silent, Unreachable
from vidra.kube.watch import WatchEvent
from vidra.runtime.store import Key

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
@pytest.mark.case("R01")
def test_u2_gone_in_the_stream_costs_one_list_and_tells_what_was_missed() -> None:
    before = page("7", thing("kept", "1"), thing("deleted", "2"), thing("changed", "3"))
    after = page("20", thing("kept", "1"), thing("changed", "15"))
    scene = Scene([before, after], [[Pause(60), GONE], [FOREVER]]).play(100)
    assert scene.told[3:] == [("DELETED", "deleted"), ("MODIFIED", "changed")]
    assert scene.changes[3].final_state_unknown
    assert [asked["resource_version"] for asked in scene.source.asked("list")] == [None, "7"]
    assert scene.times("list") == [0, 60], "the list comes at once"


@pytest.mark.case("U3")
@pytest.mark.case("R01")
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


def test_a_version_from_the_future_is_watched_in_silence_and_found_out() -> None:
    """etcd came back from a backup: the server knows version 5, we wait for what comes after 700."""
    silent: list[Step] = [Pause(90), Silent("nothing")]
    scene = Scene(
        [page("700", thing("a", "650")), TOO_LARGE, page("5", thing("a", "4"))],
        [silent, silent, [FOREVER]],
    ).play(200)
    assert [(asked["resource_version"], asked["limit"]) for asked in scene.source.asked("list")] == [
        (None, 250),
        ("700", 1),
        (None, 250),
    ]
    assert [asked["resource_version"] for asked in scene.source.asked("watch")] == ["700", "700", "5"]
    assert scene.told[1:] == [("MODIFIED", "a")]


def test_a_kind_that_is_always_silent_is_never_listed_again() -> None:
    scene = Scene([page("7", thing("a", "3")), page("7", thing("x", "3"))], [[Pause(90), Silent("nothing")]]).play(3600)
    assert scene.told == [("ADDED", "a")]
    assert {asked["limit"] for asked in scene.source.asked("list")[1:]} == {1}
    assert len(scene.source.requests) == pytest.approx(3600 / 90 * 1.5, abs=3)
    assert scene.error is None


def test_a_server_that_is_gone_after_two_silences_is_met_by_pauses() -> None:
    silent: list[Step] = [Pause(90), Silent("nothing")]
    down = Unreachable("no route")
    scene = Scene([page("7"), down], [silent, silent, down]).play(300)
    assert scene.error is down
    assert len(scene.source.requests) < 14


def test_a_relist_without_changes_tells_nothing() -> None:
    same = page("7", thing("a", "3"), thing("b", "4"))
    scene = Scene([same, page("30", thing("a", "3"), thing("b", "4"))], [[Pause(9), GONE], [FOREVER]]).play(20)
    assert len(scene.source.asked("list")) == 2
    assert scene.told == [("ADDED", "a"), ("ADDED", "b")]

"""The reflector where lists are streamed (WatchList), in virtual time."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.scripted.reflector_scene import FOREVER, GONE, Scene, added, deleted, page
from tests.scripted.source import Pause, Step, bookmark, thing

from vidra.kube.errors import ApiError, InvalidAnswer, KubeError, Unreachable


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

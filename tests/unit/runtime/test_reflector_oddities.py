"""What no server should send and what comes at the worst moment: the reflector goes on, or ends and leaves nothing."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from tests.scripted.history import History
from tests.scripted.reflector_scene import FOREVER, GONE, Scene, added, deleted, modified, page
from tests.scripted.source import Pause, ScriptedSource, Step, bookmark, thing
from tests.scripted.virtual_time import run

from vidra.kube.client import Obj
from vidra.kube.errors import ApiError, ConfigError, InvalidAnswer, KubeError
from vidra.kube.watch import Page, WatchEvent
from vidra.runtime.informer import Informer
from vidra.runtime.store import Change, Key, Store


def test_a_bookmark_from_the_past_does_not_show_the_past_again() -> None:
    scene = Scene([page("7", thing("a", "3"))], [[modified("a", "20"), bookmark("12"), Pause(5)], [FOREVER]]).play(10)
    assert [asked["resource_version"] for asked in scene.source.asked("watch")] == ["7", "20"]
    assert scene.store.has_seen(Key("n", "other"), "20")


def test_a_version_that_is_no_number_is_followed_as_it_comes() -> None:
    scene = Scene([page("b", thing("a", "x"))], [[modified("a", "a"), Pause(5)], [bookmark("c"), FOREVER]]).play(10)
    assert [asked["resource_version"] for asked in scene.source.asked("watch")] == ["b", "a"]


@pytest.mark.parametrize(
    "obj",
    [{"kind": "Thing"}, {"kind": "Thing", "metadata": None}, {"kind": "Thing", "metadata": "text"}, {}],
    ids=["no metadata", "null", "text", "nothing"],
)
@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED", "BOOKMARK"])
def test_an_event_without_metadata_is_skipped(kind: str, obj: Obj) -> None:
    scene = Scene([page("7")], [[WatchEvent(kind, obj), modified("a", "8"), Pause(5)], [FOREVER]]).play(10)
    assert scene.told == [("ADDED", "a")]
    assert [asked["resource_version"] for asked in scene.source.asked("watch")] == ["7", "8"]


@pytest.mark.parametrize("metadata", [{}, {"namespace": "n"}])
def test_an_object_without_a_name_is_left_out_of_lists_and_streams(metadata: dict[str, Any]) -> None:
    nameless: Obj = {"kind": "Thing", "metadata": {"resourceVersion": "9", **metadata}}
    script: list[Step] = [WatchEvent("ADDED", nameless), WatchEvent("DELETED", nameless), modified("a", "10"), FOREVER]
    scene = Scene([page("7", nameless)], [script]).play(5)
    assert scene.told == [("ADDED", "a")]


def test_a_bookmark_that_ends_a_streamed_list_without_a_version_is_no_end() -> None:
    end = WatchEvent("BOOKMARK", {"metadata": {"annotations": {"k8s.io/initial-events-end": "true"}}})
    scene = Scene([page("7", thing("b", "3"))], [[added("a", "3"), end], [FOREVER]], stream_lists=True).play(5)
    assert scene.told == [("ADDED", "b")]


def test_an_event_that_can_never_be_read_leads_to_a_new_list_and_makes_no_hot_loop() -> None:
    """It comes again whenever the watch goes on before it."""
    poison: list[Step] = [InvalidAnswer("a line of 7 bytes is no watch event")]
    scene = Scene([page("7"), page("9", thing("a", "8"))], [[Pause(60), *poison], poison, [FOREVER]]).play(100)
    assert scene.told == [("ADDED", "a")]
    assert [asked["resource_version"] for asked in scene.source.asked("watch")] == ["7", "7", "9"]

    scene = Scene([page("7")], [poison]).play(30)
    assert len(scene.source.requests) < 10


@pytest.mark.parametrize("stream_lists", [True, False], ids=["streamed", "listed"])
@pytest.mark.parametrize("error", [ConfigError("the token file is empty"), KubeError("whatever comes next")])
def test_no_error_of_the_way_there_ends_it(error: KubeError, stream_lists: bool) -> None:
    """Credentials that are being replaced, say: at the first list, within the stream, and when it is opened again."""
    complete = bookmark("7", initial_events_end=True)
    watches: list[Sequence[Step] | KubeError] = [
        error,
        [error],
        [complete, Pause(5), error],
        error,
        [complete, FOREVER],
    ]
    scene = Scene([error, page("7"), error, page("7")], watches, stream_lists=stream_lists).play(100)
    assert (scene.state, scene.error) == ("watching", None)


def test_an_object_made_again_within_a_gap_is_a_delete_and_a_create() -> None:
    again = thing("a", "15", uid="another")
    scene = Scene([page("7", thing("a", "3")), page("20", again)], [[Pause(5), GONE], [FOREVER]]).play(10)
    assert scene.told == [("ADDED", "a"), ("DELETED", "a"), ("ADDED", "a")]
    assert [change.initial for change in scene.changes] == [True, False, False]


def test_a_delete_of_what_is_unknown_is_nothing() -> None:
    scene = Scene([page("7")], [[deleted("a", "8"), FOREVER]]).play(5)
    assert scene.told == []


def test_a_namespace_with_all_its_objects_goes_one_by_one() -> None:
    everything = [thing(f"t{number}", str(number + 1)) for number in range(100)]
    gone: list[Step] = [deleted(f"t{number}", str(1000 + number)) for number in range(100)]
    scene = Scene([page("200", *everything)], [[*gone, Pause(5)], [FOREVER]]).play(10)
    assert scene.told[100:] == [("DELETED", f"t{number}") for number in range(100)]
    assert len(scene.store) == 0
    assert scene.source.asked("watch")[1]["resource_version"] == "1099"


# --- cancelled


class Slow(ScriptedSource):
    """Takes a second for each page."""

    async def list_page(self, **arguments: Any) -> Page:
        answer = await super().list_page(**arguments)
        await asyncio.sleep(1)
        return answer


STREAM: list[Step] = [
    added("a", "3"),
    Pause(1),
    bookmark("7", initial_events_end=True),
    Pause(1),
    modified("a", "8"),
    Pause(1),
]


@pytest.mark.parametrize("at", [0.0, 0.5, 1.5, 2.5, 3.5, 10.0])
@pytest.mark.parametrize("stream_lists", [True, False], ids=["streamed", "listed"])
def test_cancelled_at_any_moment_it_ends_and_leaves_nothing_open(at: float, stream_lists: bool) -> None:
    """Within a list, a stream, a watch and a pause."""
    thresholds = gc.get_threshold()
    lists = [page("7", thing("a", "3"), token="t"), page("7", thing("b", "5"))]
    refused = ApiError(403, "Forbidden", "no")
    watches: list[Sequence[Step] | KubeError] = [STREAM if stream_lists else [Pause(1)], refused]
    source = Slow(lists, watches)

    async def story() -> None:
        informer = Informer(source, Store[Obj](), stream_lists=stream_lists)
        told: list[Change[Obj]] = []
        informer.add_handler(told.append)
        task = asyncio.create_task(informer.run())
        await asyncio.sleep(at)
        asked, heard = len(source.requests), len(told)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        assert task.cancelled()
        await asyncio.sleep(100)
        assert (len(source.requests), len(told), source.open_watches) == (asked, heard, 0)

    run(story())
    assert gc.get_threshold() == thresholds


def test_half_a_list_is_never_told_when_it_is_cancelled() -> None:
    source = Slow([page("7", thing("a", "3"), token="t")], [[FOREVER]])

    async def story() -> None:
        informer = Informer(source, Store[Obj](), stream_lists=False)
        task = asyncio.create_task(informer.run())
        await asyncio.sleep(5.5)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        assert len(informer.store) == 0
        assert not informer.has_synced

    run(story())


@pytest.mark.parametrize("way", ["listed", "streamed", "watched"])
def test_however_much_is_buffered_the_loop_gets_its_turn(way: str) -> None:
    """400 objects that come without any waiting, half a millisecond of work each."""
    many = [thing(f"t{number}", str(number + 1)) for number in range(400)]
    events: list[Step] = [WatchEvent("ADDED", obj) for obj in many]
    match way:
        case "listed":
            source = ScriptedSource([page("500", *many)], [[FOREVER]])
        case "streamed":
            source = ScriptedSource([], [[*events, bookmark("500", initial_events_end=True), FOREVER]])
        case _:
            source = ScriptedSource([page("0")], [[*events, FOREVER]])

    def works(obj: Obj) -> Obj:
        until = time.perf_counter() + 0.0005
        while time.perf_counter() < until:
            pass
        return obj

    async def story() -> int:
        store: Store[Obj] = Store(transform=works)
        task = asyncio.create_task(Informer(source, store, stream_lists=way == "streamed").run())
        turns = 0
        while len(store) < len(many):
            await asyncio.sleep(0)
            turns += 1
            assert not task.done()
        task.cancel()
        await asyncio.wait([task])
        return turns

    assert asyncio.run(story()) > 10


def test_two_kinds_never_share_a_pause() -> None:
    """U5 for others: one kind that is refused holds up no other."""

    async def story() -> None:
        refused, sound = History(), History()
        refused.refuse_next(["forbidden"] * 100)
        informers = [Informer(history, Store[Obj]()) for history in (refused, sound)]
        tasks = [asyncio.create_task(informer.run()) for informer in informers]
        await asyncio.sleep(1)
        sound.put("a")
        await asyncio.sleep(0.01)
        assert [len(informer.store) for informer in informers] == [0, 1]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run(story())

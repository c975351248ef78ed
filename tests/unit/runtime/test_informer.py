"""What handlers are told, and what they can't break."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tests.scripted.source import Pause, ScriptedSource, thing
from tests.scripted.virtual_time import run

from vidra.kube.client import Obj
from vidra.kube.watch import Page, WatchEvent
from vidra.runtime.informer import Informer
from vidra.runtime.predicates import Predicate, generation_changed, label_selected
from vidra.runtime.store import Change, Key, Store

FOREVER = Pause(1e9)


async def informed(source: ScriptedSource, seconds: float, *prepare: Callable[[Informer[Obj]], None]) -> Informer[Obj]:
    informer = Informer(source, Store[Obj](detect_mutations=True), stream_lists=False)
    for step in prepare:
        step(informer)
    task = asyncio.create_task(informer.run())
    await asyncio.sleep(seconds)
    assert not task.done()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    return informer


def labelled(name: str, version: str, **labels: str) -> Obj:
    obj = thing(name, version)
    obj["metadata"]["labels"] = labels
    return obj


def names(changes: list[Change[Obj]]) -> list[tuple[str, str, bool]]:
    return [(change.type.value, change.key.name, change.initial) for change in changes]


def test_the_first_list_is_marked_and_what_comes_after_it_is_not() -> None:
    told: list[Change[Obj]] = []
    source = ScriptedSource([Page([thing("a", "1")], "5", None)], [[WatchEvent("ADDED", thing("b", "6")), FOREVER]])
    run(informed(source, 1, lambda informer: informer.add_handler(told.append)))
    assert names(told) == [("ADDED", "a", True), ("ADDED", "b", False)]


def test_the_store_has_a_change_before_anybody_is_told() -> None:
    source = ScriptedSource([Page([thing("a", "1")], "5", None)], [[WatchEvent("MODIFIED", thing("a", "6")), FOREVER]])
    held: list[str | None] = []

    def prepare(informer: Informer[Obj]) -> None:
        informer.add_handler(lambda change: held.append(informer.store.resource_version(change.key)))

    run(informed(source, 1, prepare))
    assert held == ["1", "6"]


def test_a_handler_that_fails_stops_neither_the_stream_nor_the_others() -> None:
    told: list[Change[Obj]] = []

    def fails(change: Change[Obj]) -> None:
        raise RuntimeError("a bug")

    def prepare(informer: Informer[Obj]) -> None:
        informer.add_handler(fails)
        informer.add_handler(told.append)

    source = ScriptedSource([Page([thing("a", "1")], "5", None)], [[WatchEvent("MODIFIED", thing("a", "6")), FOREVER]])
    informer = run(informed(source, 1, prepare))
    assert [change.type.value for change in told] == ["ADDED", "MODIFIED"]
    assert informer.handler_errors == 2


def test_a_predicate_that_fails_lets_pass() -> None:
    told: list[Change[Obj]] = []

    def fails(old: Any, new: Any) -> bool:
        raise RuntimeError("a bug")

    source = ScriptedSource([Page([thing("a", "1")], "5", None)], [[WatchEvent("MODIFIED", thing("a", "6")), FOREVER]])
    informer = run(informed(source, 1, lambda informer: informer.add_handler(told.append, Predicate("fails", fails))))
    assert [change.type.value for change in told] == ["ADDED", "MODIFIED"]
    assert informer.handler_errors == 1


def test_a_predicate_chooses_among_updates() -> None:
    told: list[Change[Obj]] = []
    same, other = thing("a", "6", size=1), thing("a", "7", size=2)
    source = ScriptedSource(
        [Page([thing("a", "1", size=1)], "5", None)],
        [[WatchEvent("MODIFIED", same), WatchEvent("MODIFIED", other), FOREVER]],
    )
    run(informed(source, 1, lambda informer: informer.add_handler(told.append, generation_changed)))
    assert [change.new for change in told] == [thing("a", "1", size=1), other]


def test_for_a_selector_leaving_is_a_delete_and_entering_a_create() -> None:
    told: list[Change[Obj]] = []
    events = [
        WatchEvent("MODIFIED", labelled("a", "6", team="y")),
        WatchEvent("MODIFIED", labelled("a", "7", team="y", more="1")),
        WatchEvent("MODIFIED", labelled("a", "8", team="x")),
    ]
    source = ScriptedSource([Page([labelled("a", "1", team="x")], "5", None)], [[*events, FOREVER]])
    run(informed(source, 1, lambda informer: informer.add_handler(told.append, label_selected("team=x"))))
    assert names(told) == [("ADDED", "a", True), ("DELETED", "a", False), ("ADDED", "a", False)]


def test_a_handler_that_comes_later_is_told_what_exists() -> None:
    told: list[Change[Obj]] = []
    source = ScriptedSource([Page([thing("a", "1"), thing("b", "2")], "5", None)], [[FOREVER]])

    async def scene() -> None:
        informer = await informed(source, 1)
        informer.add_handler(told.append)

    run(scene())
    assert names(told) == [("ADDED", "a", True), ("ADDED", "b", True)]


def test_a_handler_that_comes_while_a_list_is_told_hears_of_each_object_once() -> None:
    late: list[Key] = []
    source = ScriptedSource([Page([thing(f"o{n}", "1") for n in range(50)], "5", None)], [[FOREVER]])

    def prepare(informer: Informer[Obj]) -> None:
        def first(change: Change[Obj]) -> None:
            if change.key.name == "o7":
                informer.add_handler(lambda change: late.append(change.key))

        informer.add_handler(first)

    run(informed(source, 1, prepare))
    assert len(late) == 50
    assert len(set(late)) == 50


def test_synced_means_that_the_whole_first_list_was_told() -> None:
    told: list[Change[Obj]] = []
    empty = ScriptedSource([Page([], "5", None)], [[FOREVER]])
    many = ScriptedSource([Page([thing(f"o{n}", "1") for n in range(200)], "5", None)], [[FOREVER]])

    async def scene() -> tuple[bool, int, bool]:
        for source in (empty, many):
            informer = Informer(source, Store[Obj](), stream_lists=False)
            assert not await informer.wait_synced(1), "nothing runs yet"
            informer.add_handler(told.append)
            task = asyncio.create_task(informer.run())
            synced = await informer.wait_synced(1)
            count = len(told)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        return synced, count, informer.has_synced

    assert run(scene()) == (True, 200, True)

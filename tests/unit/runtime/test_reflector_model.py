"""Whatever happens to a collection and to the way there: in the end the store holds what the server holds, and what
handlers were told adds up to it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.scripted.history import FAULTS, History
from tests.scripted.virtual_time import run

from vidra.kube.client import Obj
from vidra.runtime.backoff import Backoff
from vidra.runtime.informer import Informer
from vidra.runtime.reflector import HEALTHY_AFTER, PAUSES
from vidra.runtime.store import Change, ChangeType, Key, Store

NAMES = st.sampled_from("abcd")
STEPS = st.one_of(
    st.tuples(st.just("put"), NAMES),
    st.tuples(st.just("put"), NAMES),
    st.tuples(st.just("remove"), NAMES),
    st.tuples(st.just("recreate"), NAMES),
    st.tuples(st.just("compact"), st.none()),
    # What no watch can show any more: only a new list tells.
    st.tuples(st.just("gap"), st.lists(st.tuples(st.sampled_from(["put", "remove", "recreate"]), NAMES), max_size=5)),
    st.tuples(st.just("break"), st.sampled_from(sorted(FAULTS))),
    st.tuples(st.just("refuse"), st.lists(st.none() | st.sampled_from(sorted(FAULTS)), min_size=1, max_size=4)),
    st.tuples(st.just("wait"), st.sampled_from([2, 70])),
    st.tuples(st.just("wait"), st.sampled_from([0.005, 0.02, 0.5, 2, 70, 400])),
)
#: The longest run of refusals above is met by pauses that grow to a minute; this is more than all of them.
IN_THE_END = 1200.0


async def play(steps: list[tuple[str, Any]], *, stream_lists: bool) -> None:
    clock = asyncio.get_running_loop().time
    server = History()
    store: Store[Obj] = Store(detect_mutations=True)
    backoff = Backoff(PAUSES, healthy_after=HEALTHY_AFTER, clock=clock, rand=lambda: 0.5)
    informer = Informer(server, store, backoff=backoff, stream_lists=stream_lists)
    told: list[Change[Obj]] = []
    informer.add_handler(told.append)
    task = asyncio.create_task(informer.run())
    for word, what in steps:
        match word:
            case "put" | "remove" | "recreate":
                write(server, word, what)
            case "gap":
                server.break_streams("cut")
                for kind, name in what:
                    write(server, kind, name)
                server.compact()
            case "compact":
                server.compact()
            case "break":
                server.break_streams(what)
            case "refuse":
                server.refuse_next(what)
            case "wait":
                await asyncio.sleep(what)
    await asyncio.sleep(IN_THE_END)
    assert not task.done(), "a reflector never ends by itself"
    before = server.requests
    await asyncio.sleep(3600)
    assert server.requests - before < 20, "an hour of peace is a watch every five to ten minutes"

    assert {key.name: value for key, value in store.items()} == server.objects
    assert informer.last_error is None
    assert informer.has_synced
    add_up(told, store)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert server.open_watches == 0


def write(server: History, kind: str, name: str) -> None:
    if kind != "put":
        server.remove(name)
    if kind != "remove":
        server.put(name)


def add_up(told: list[Change[Obj]], store: Store[Obj]) -> None:
    """Per key: added, changed, deleted, in this order and forwards; a new uid is a delete and a create."""
    held: dict[Key, Obj] = {}
    for change in told:
        match change.type:
            case ChangeType.ADDED:
                assert change.key not in held
                assert change.new is not None
                held[change.key] = change.new
            case ChangeType.MODIFIED:
                assert change.new is not None
                before, after = held[change.key]["metadata"], change.new["metadata"]
                assert before["uid"] == after["uid"]
                assert int(before["resourceVersion"]) < int(after["resourceVersion"])
                held[change.key] = change.new
            case ChangeType.DELETED:
                del held[change.key]
    assert held == dict(store.items())


@settings(max_examples=200, deadline=None)
@example(
    steps=[("put", "a"), ("put", "b"), ("wait", 2), ("gap", [("remove", "a"), ("recreate", "b")])], stream_lists=False
)
@given(steps=st.lists(STEPS, min_size=10, max_size=40), stream_lists=st.booleans())
def test_in_the_end_the_store_holds_what_the_server_holds(steps: list[tuple[str, Any]], stream_lists: bool) -> None:
    run(play(steps, stream_lists=stream_lists))

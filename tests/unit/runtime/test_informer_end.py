"""An informer that ended leaves nothing behind, and needs no collector for that.

The cycle collector never looks at caches (vidra.runtime.collector): what is part of a cycle when a list comes in stays
for ever, and with it every object of its store.
"""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator, Sequence
from contextlib import suppress

import pytest
from tests.scripted.source import Pause, ScriptedSource, Step, bookmark, thing
from tests.scripted.virtual_time import run

from vidra.kube.client import Obj
from vidra.kube.errors import ApiError, KubeError, Unreachable
from vidra.kube.watch import Page, WatchEvent
from vidra.runtime.informer import Informer
from vidra.runtime.store import Change, Store

FOREVER = Pause(1e9)
SYNCED: list[Step] = [WatchEvent("ADDED", thing("a", "3")), bookmark("7", initial_events_end=True)]


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()
    gc.unfreeze()


class Owner:
    """Has an informer whose handler is its own method."""

    def __init__(self, source: ScriptedSource, *, stream_lists: bool) -> None:
        self.store: Store[Obj] = Store()
        self.informer = Informer(source, self.store, stream_lists=stream_lists)
        self.informer.add_handler(self.changed)
        self.told = 0

    def changed(self, change: Change[Obj]) -> None:
        self.told += 1


@pytest.mark.parametrize("stream_lists", [True, False], ids=["streamed", "listed"])
@pytest.mark.parametrize(
    "watches",
    [
        [[*SYNCED, FOREVER]],
        [[*SYNCED, Pause(1), ApiError(403, "Forbidden", "no")], ApiError(403, "Forbidden", "no")],
        [[*SYNCED, Pause(1), Unreachable("cut")], Unreachable("down")],
    ],
    ids=["watching", "refused", "down"],
)
def test_a_store_is_gone_with_the_last_one_who_holds_it(
    watches: Sequence[Sequence[Step] | KubeError], stream_lists: bool
) -> None:
    async def story() -> weakref.ref[Store[Obj]]:
        owner = Owner(ScriptedSource([Page([thing("a", "3")], "7", None)], watches), stream_lists=stream_lists)
        task = asyncio.create_task(owner.informer.run())
        assert await owner.informer.wait_synced(10)
        await asyncio.sleep(5)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        assert owner.told == 1
        assert len(owner.store) == 1, "what is known can still be read"
        return weakref.ref(owner.store)

    async def outer() -> None:
        held = await asyncio.create_task(story())
        await asyncio.sleep(1)
        assert held() is None

    run(outer())

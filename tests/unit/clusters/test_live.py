"""Our own writes wake nobody, however fast the watch is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from vidra.clusters.live import LiveCache, is_news
from vidra.kube.resource import GroupKind, ObjectKey
from vidra.runtime.observed import Observed
from vidra.runtime.store import Change, ChangeType, Key

KIND = GroupKind("", "ConfigMap")
KEY = ObjectKey("", "ConfigMap", "web", "one")


def state(version: int, digest: str = "a") -> Observed:
    return Observed("uid", str(version), digest, (), False, ())


class Watched:
    """A cache, and what the watch tells it; no server."""

    def __init__(self) -> None:
        self.woken: list[ObjectKey] = []
        client: Any = None
        self.cache = LiveCache(client, label_selector="", observe=lambda obj: obj["seen"], on_change=self.woken.append)

    def show(self, old: Observed | None, new: Observed | None, *, initial: bool = False) -> None:
        kind = ChangeType.ADDED if old is None else ChangeType.DELETED if new is None else ChangeType.MODIFIED
        change = Change(kind, Key("web", "one"), old, new, initial=initial)
        self.cache._changed(KIND, change)


@pytest.fixture
async def watched() -> Watched:
    await asyncio.sleep(0)
    return Watched()


async def test_what_others_do_is_told(watched: Watched) -> None:
    watched.show(state(1, "a"), state(2, "b"))
    watched.show(state(2, "b"), None)
    assert watched.woken == [KEY, KEY]


async def test_what_is_there_at_first_and_what_changes_nothing_is_not(watched: Watched) -> None:
    watched.show(None, state(1), initial=True)
    watched.show(state(1), state(2))
    assert watched.woken == []


async def test_an_echo_that_is_faster_than_the_answer_wakes_nobody(watched: Watched) -> None:
    with watched.cache.writing(KEY):
        watched.show(None, state(5))
        watched.cache.wrote(KEY, {"seen": state(5)})
    assert watched.woken == []


async def test_a_later_state_that_is_the_same_for_all_that_counts_wakes_nobody(watched: Watched) -> None:
    with watched.cache.writing(KEY):
        watched.show(None, state(7, "a"))
        watched.cache.wrote(KEY, {"seen": state(5, "a")})
    assert watched.woken == []


async def test_what_others_did_while_we_wrote_is_told_when_we_are_done(watched: Watched) -> None:
    with watched.cache.writing(KEY):
        watched.show(None, state(7, "theirs"))
        watched.cache.wrote(KEY, {"seen": state(5, "ours")})
        assert watched.woken == []
    assert watched.woken == [KEY]


async def test_what_is_seen_while_nothing_was_written_is_told(watched: Watched) -> None:
    with watched.cache.writing(KEY):
        watched.show(state(1, "a"), state(2, "b"))
    assert watched.woken == [KEY]


async def test_our_own_deletion_wakes_nobody_and_anothers_does(watched: Watched) -> None:
    with watched.cache.writing(KEY):
        watched.show(state(1), None)
        watched.cache.deleted(KEY, "uid")
    assert watched.woken == []
    with watched.cache.writing(KEY):
        watched.show(state(3), None)
        watched.cache.wrote(KEY, {"seen": state(2)})
    assert watched.woken == [KEY]


async def test_a_write_that_fails_holds_nothing_back(watched: Watched) -> None:
    def fail() -> None:
        with watched.cache.writing(KEY):
            watched.show(state(1, "a"), state(2, "b"))
            raise KeyError("refused")

    with pytest.raises(KeyError):
        fail()
    assert watched.woken == [KEY]


@pytest.mark.parametrize(
    ("known", "seen", "news"),
    [
        (None, state(1), True),
        (state(2, "b"), state(1, "a"), False),
        (state(1, "a"), state(2, "a"), False),
        (state(1, "a"), state(2, "b"), True),
    ],
)
def test_news_is_newer_and_different(known: Observed | None, seen: Observed, news: bool) -> None:
    assert is_news(known, seen) is news

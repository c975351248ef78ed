"""The store: what a list or an event changes, indexes, waiting for one's own write, and who changes what isn't his."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.scripted.source import thing
from tests.scripted.virtual_time import run

from vidra.kube.client import Obj
from vidra.runtime.store import Change, ChangeType, Key, MutationError, Store, drop_managed_fields


def key(name: str) -> Key:
    return Key("n", name)


def fill(store: Store[Any], version: str, *objects: Obj) -> list[Change[Any]]:
    entries = [entry for obj in objects if (entry := store.ingest(obj)) is not None]
    return store.replace(entries, version)


def short(changes: Iterable[Change[Any]]) -> list[tuple[str, str]]:
    return [(change.type.value, change.key.name) for change in changes]


def test_a_new_list_says_what_was_missed_deletes_first() -> None:
    store: Store[Obj] = Store()
    fill(store, "5", thing("same", "1"), thing("gone", "2"), thing("other", "3"))
    changes = fill(store, "9", thing("new", "8"), thing("same", "1"), thing("other", "7"))
    assert short(changes) == [("DELETED", "gone"), ("ADDED", "new"), ("MODIFIED", "other")]
    assert changes[0].final_state_unknown
    assert changes[0].old == thing("gone", "2")
    assert (changes[2].old, changes[2].new) == (thing("other", "3"), thing("other", "7"))
    assert set(store) == {key("new"), key("same"), key("other")}


def test_an_event_with_a_known_version_is_no_change() -> None:
    store: Store[Obj] = Store()
    fill(store, "5", thing("a", "1"))
    assert store.apply(ChangeType.ADDED, thing("a", "1")) == []
    assert store.apply(ChangeType.MODIFIED, thing("a", "1")) == []


@pytest.mark.parametrize("by", ["list", "event"])
def test_another_uid_under_a_known_name_is_a_delete_and_a_create(by: str) -> None:
    store: Store[Obj] = Store()
    fill(store, "5", thing("a", "1", uid="first"))
    second = thing("a", "8", uid="second")
    changes = fill(store, "9", second) if by == "list" else store.apply(ChangeType.MODIFIED, second)
    assert short(changes) == [("DELETED", "a"), ("ADDED", "a")]
    assert changes[0].final_state_unknown
    assert store.uid(key("a")) == "second"


def test_a_delete_hands_on_the_objects_last_state() -> None:
    store: Store[Obj] = Store()
    fill(store, "5", thing("a", "1"))
    (change,) = store.apply(ChangeType.DELETED, thing("a", "8", last=True))
    assert change == Change(ChangeType.DELETED, key("a"), thing("a", "8", last=True), None)
    assert key("a") not in store
    assert store.apply(ChangeType.DELETED, thing("a", "9")) == []


def test_a_modification_of_an_unknown_object_is_a_create() -> None:
    store: Store[Obj] = Store()
    assert short(store.apply(ChangeType.MODIFIED, thing("a", "1"))) == [("ADDED", "a")]


def test_a_transform_may_reduce_the_object_to_a_record_and_identity_is_still_known() -> None:
    store: Store[int] = Store(transform=lambda obj: len(obj["spec"]))
    fill(store, "5", thing("a", "1", uid="u", x=1, y=2))
    assert (store.get(key("a")), store.uid(key("a")), store.resource_version(key("a"))) == (2, "u", "1")


def test_managed_fields_can_be_dropped_on_the_way_in() -> None:
    store: Store[Obj] = Store(transform=drop_managed_fields)
    obj = thing("a", "1")
    obj["metadata"]["managedFields"] = [{"manager": "x"}]
    fill(store, "5", obj)
    assert store.get(key("a")) == thing("a", "1")


def test_an_object_that_a_transform_fails_on_keeps_its_last_value_and_is_not_taken_for_deleted() -> None:
    store: Store[str] = Store(transform=lambda obj: obj["spec"]["size"])
    fill(store, "5", thing("a", "1", size="big"), thing("b", "2", size="small"))
    assert fill(store, "9", thing("a", "8"), thing("b", "2", size="small")) == []
    assert store.apply(ChangeType.MODIFIED, thing("a", "10")) == []
    assert store.apply(ChangeType.ADDED, thing("new", "11")) == []
    assert store.get(key("a")) == "big"
    assert store.transform_errors == 3
    assert short(store.apply(ChangeType.DELETED, thing("a", "12"))) == [("DELETED", "a")]


def test_an_object_without_a_name_is_left_out() -> None:
    store: Store[Obj] = Store()
    assert store.ingest({"metadata": {}}) is None
    assert store.ingest({}) is None


def test_a_key_function_of_the_callers_names_the_objects() -> None:
    store: Store[Obj] = Store(key=lambda obj: Key("", obj["spec"]["id"]))
    fill(store, "5", thing("a", "1", id="x"))
    assert set(store) == {Key("", "x")}


# --- indexes


def owners(obj: Obj) -> list[str]:
    return list(obj["spec"].get("owners", ()))


def test_an_index_follows_every_change() -> None:
    store: Store[Obj] = Store(indexes={"owner": owners})
    fill(store, "5", thing("a", "1", owners=["x", "y"]), thing("b", "2", owners=["x"]))
    assert sorted(store.index_keys("owner", "x")) == [key("a"), key("b")]
    store.apply(ChangeType.MODIFIED, thing("a", "6", owners=["y"]))
    assert store.index_keys("owner", "x") == [key("b")]
    assert store.by_index("owner", "y") == [thing("a", "6", owners=["y"])]
    store.apply(ChangeType.DELETED, thing("b", "7"))
    assert store.index_keys("owner", "x") == []
    with pytest.raises(KeyError):
        store.index_keys("nobody declared this", "x")


states = st.dictionaries(
    st.sampled_from("abcde"),
    st.tuples(st.integers(1, 4), st.sampled_from(["u1", "u2"]), st.lists(st.sampled_from("xyz"), unique=True)),
)


@given(st.lists(st.tuples(st.booleans(), states), min_size=1, max_size=6))
def test_whatever_happens_the_changes_told_add_up_to_what_is_stored(history: list[tuple[bool, Any]]) -> None:
    """A listener that only follows the changes knows the same objects, and the indexes say what a search would."""
    store: Store[Obj] = Store(indexes={"owner": owners}, detect_mutations=True)
    followed: dict[Key, Obj] = {}
    for as_list, state in history:
        objects = [
            thing(name, f"{version}{uid[1]}", uid=uid, owners=list(owned))
            for name, (version, uid, owned) in state.items()
        ]
        if as_list:
            changes = fill(store, "1", *objects)
        else:
            changes = [change for obj in objects for change in store.apply(ChangeType.MODIFIED, obj)]
        for change in changes:
            if change.type is not ChangeType.ADDED:
                assert followed.pop(change.key) == change.old
            if change.new is not None:
                assert change.key not in followed
                followed[change.key] = change.new
        if as_list:
            assert {k.name for k in store} == set(state)
    assert dict(store.items()) == followed
    for owner in "xyz":
        expected = {k for k, obj in followed.items() if owner in obj["spec"]["owners"]}
        assert set(store.index_keys("owner", owner)) == expected


# --- waiting for one's own write


def test_a_write_is_seen_when_its_version_or_a_later_one_has_passed() -> None:
    store: Store[Obj] = Store()
    fill(store, "5", thing("a", "3"))
    assert store.has_seen(key("a"), "5")
    assert not store.has_seen(key("a"), "6")
    store.advance("99")
    assert store.has_seen(key("a"), "100") is False
    assert store.has_seen(key("deleted meanwhile"), "98"), "versions are numbers, not texts"


@pytest.mark.case("U12")
def test_u12_a_writer_waits_until_the_delayed_stream_has_shown_its_write() -> None:
    async def scene() -> tuple[bool, float]:
        store: Store[Obj] = Store()
        fill(store, "5", thing("a", "3"))
        loop = asyncio.get_running_loop()
        loop.call_later(2, store.apply, ChangeType.MODIFIED, thing("b", "6"))
        loop.call_later(3, store.apply, ChangeType.MODIFIED, thing("a", "7"))
        return await store.wait_for(key("a"), "7", timeout=10), loop.time()

    assert run(scene()) == (True, 3)


def test_a_wait_for_a_write_that_never_shows_ends_in_time() -> None:
    async def scene() -> tuple[bool, float]:
        store: Store[Obj] = Store()
        return await store.wait_for(key("a"), "7", timeout=10), asyncio.get_running_loop().time()

    assert run(scene()) == (False, 10)


def test_a_version_that_is_no_number_is_seen_when_it_comes() -> None:
    store: Store[Obj] = Store()
    store.apply(ChangeType.ADDED, thing("a", "opaque-1"))
    store.advance("opaque-2")
    assert store.has_seen(key("a"), "opaque-1")
    assert not store.has_seen(key("a"), "opaque-3")


# --- mutations


def test_a_change_of_a_value_that_was_handed_out_is_found() -> None:
    store: Store[Obj] = Store(detect_mutations=True)
    fill(store, "5", thing("a", "1", size=1))
    store.check_mutations()
    held = store.get(key("a"))
    assert held is not None
    held["spec"]["size"] = 2
    with pytest.raises(MutationError, match="n/a"):
        store.check_mutations()
    with pytest.raises(MutationError):
        store.apply(ChangeType.MODIFIED, thing("a", "6"))

"""Finalizer patches, applied as an API server would: nobody's entry is ever lost."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vidra.runtime.finalizers import JsonPatch, add_finalizer_patch, has_finalizer, remove_finalizer_patch

OURS = "example.org/ours"
NAMES = st.sampled_from(["a/x", "b/y", "c/z", OURS])


class Refused(Exception):
    """The server's 422: a test of the patch failed."""


def obj(finalizers: list[str] | None, *, uid: str = "u", version: str = "1", deleting: bool = False) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "a", "uid": uid, "resourceVersion": version}
    if finalizers is not None:
        metadata["finalizers"] = finalizers
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {"metadata": metadata}


def patched(live: dict[str, Any], patch: JsonPatch) -> dict[str, Any]:
    """RFC 6902, as far as these patches go."""
    live = copy.deepcopy(live)
    for operation in patch:
        *way, last = operation["path"].strip("/").split("/")
        place: Any = live
        for step in way:
            if step not in place:
                raise Refused(operation)
            place = place[step]
        if isinstance(place, list):
            if last == "-":
                place.append(operation["value"])
                continue
            if int(last) >= len(place):
                raise Refused(operation)
            last = int(last)
        match operation["op"]:
            case "test":
                if (isinstance(place, dict) and last not in place) or place[last] != operation["value"]:
                    raise Refused(operation)
            case "add":
                place[last] = operation["value"]
            case "remove":
                del place[last]
    return live


@pytest.mark.parametrize("present", [None, [], ["a/x"], ["a/x", "b/y"]])
def test_ours_is_added_at_the_end(present: list[str] | None) -> None:
    live = obj(present)
    after = patched(live, add_finalizer_patch(live, OURS))
    assert after["metadata"]["finalizers"] == [*(present or []), OURS]
    assert has_finalizer(after, OURS)
    assert not has_finalizer(live, OURS)


def test_what_is_there_or_gone_already_needs_no_patch() -> None:
    assert add_finalizer_patch(obj([OURS]), OURS) == []
    assert add_finalizer_patch(obj([OURS], deleting=True), OURS) == []
    assert remove_finalizer_patch(obj(["a/x"]), OURS) == []
    assert remove_finalizer_patch(obj(None), OURS) == []


def test_an_object_that_is_being_deleted_takes_no_finalizer() -> None:
    with pytest.raises(ValueError, match="being deleted"):
        add_finalizer_patch(obj(["a/x"], deleting=True), OURS)


@pytest.mark.case("U8")
@given(read=st.lists(NAMES, unique=True) | st.none(), written=st.lists(NAMES, unique=True) | st.none())
def test_u8_whatever_another_controller_wrote_meanwhile_stays(
    read: list[str] | None, written: list[str] | None
) -> None:
    before, live = obj(read, version="1"), obj(written, version="1" if read == written else "2")
    others = [name for name in written or [] if name != OURS]
    for patch in (add_finalizer_patch(before, OURS), remove_finalizer_patch(before, OURS)):
        try:
            after = patched(live, patch)
        except Refused:
            assert read != written, "nothing had changed: it had to be taken"
            continue
        names = after["metadata"].get("finalizers") or []
        assert [name for name in names if name != OURS] == others
        assert names.count(OURS) <= 1


@given(names=st.lists(NAMES, max_size=6))
def test_removing_takes_ours_and_nothing_else(names: list[str]) -> None:
    live = obj(names)
    after = patched(live, remove_finalizer_patch(live, OURS))
    assert after["metadata"]["finalizers"] == [name for name in names if name != OURS]


@pytest.mark.parametrize("make", [add_finalizer_patch, remove_finalizer_patch])
@pytest.mark.parametrize("names", [None, ["a/x"], ["a/x", OURS]])
def test_a_successor_of_the_same_name_is_never_touched(make: Any, names: list[str] | None) -> None:
    patch = make(obj(names, uid="u"), OURS)
    if patch:
        with pytest.raises(Refused):
            patched(obj(names, uid="another"), patch)

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vidra.runtime import predicates
from vidra.runtime.digest import content_digest
from vidra.runtime.predicates import (
    Event,
    EventType,
    Predicate,
    annotation_changed,
    content_changed,
    deletion_started,
    finalizers_changed,
    generation_changed,
    label_selected,
    labels_changed,
    resource_version_changed,
)

COLUMNS: dict[str, Predicate] = {
    "generation": generation_changed,
    "content": content_changed,
    "labels": labels_changed,
    "annotation": annotation_changed("example.org/at"),
    "finalizers": finalizers_changed,
    "deletion": deletion_started,
    "version": resource_version_changed,
    "selected": label_selected("app=web"),
}
UPDATE_PREDICATES = [predicate for name, predicate in COLUMNS.items() if name != "selected"]

Obj = dict[str, Any]


def thing(*, generation: int | None = 3, **metadata: Any) -> Obj:
    fields: Obj = {"name": "a", "uid": "u1", "resourceVersion": "10", "labels": {"app": "web"}, **metadata}
    if generation is not None:
        fields["generation"] = generation
    return {"metadata": fields, "spec": {"n": 1}, "status": {"ready": False}}


def written(obj: Obj, *, body: Obj | None = None, generation: int | None = None, **metadata: Any) -> Obj:
    """The object after a write: a new version and other managedFields, and what is said."""
    new = copy.deepcopy(obj)
    new["metadata"] |= {"resourceVersion": "11", "managedFields": [{"manager": "m"}], **metadata}
    if generation is not None:
        new["metadata"]["generation"] = generation
    return new | (body or {})


CONFIG = thing(generation=None)
OUTSIDE = thing(labels={"app": "db"})
DELETED_AT = "2026-01-01T00:00:00Z"

ROWS: dict[str, tuple[Obj, Obj]] = {
    "spec": (thing(), written(thing(), body={"spec": {"n": 2}}, generation=4)),
    "status": (thing(), written(thing(), body={"status": {"ready": True}})),
    "a label": (thing(), written(thing(), labels={"app": "web", "x": "y"})),
    "the named annotation": (thing(), written(thing(), annotations={"example.org/at": "now"})),
    "another annotation": (thing(), written(thing(), annotations={"example.org/other": "now"})),
    "finalizers": (thing(), written(thing(), finalizers=["example.org/f"])),
    "owner references": (thing(), written(thing(), ownerReferences=[{"uid": "o"}])),
    "deletionTimestamp set": (thing(), written(thing(), generation=4, deletionTimestamp=DELETED_AT)),
    "nothing else": (thing(), written(thing())),
    "nothing at all (a resync)": (thing(), thing()),
    "no generation: data": (CONFIG, written(CONFIG, body={"spec": {"n": 2}})),
    "no generation: a label": (CONFIG, written(CONFIG, labels={"app": "web", "x": "y"})),
    "no generation: deletion": (CONFIG, written(CONFIG, deletionTimestamp=DELETED_AT)),
    "into the selector": (OUTSIDE, written(OUTSIDE, labels={"app": "web"})),
    "out of the selector": (thing(), written(thing(), labels={"app": "db"})),
    "outside the selector: spec": (OUTSIDE, written(OUTSIDE, body={"spec": {"n": 2}}, generation=4)),
    "another uid": (thing(), written(thing(), uid="u2")),
}


def table(text: str) -> Iterator[tuple[str, str, bool]]:
    """Each cell of the only markdown table in ``text``: row, column, whether it passes."""
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]
    columns = lines[0][1:]
    assert columns == list(COLUMNS)
    for row, *cells in lines[2:]:
        for column, cell in zip(columns, cells, strict=True):
            yield row, column, {"yes": True, "-": False}[cell]


DOCS = Path(__file__).parents[3] / "docs" / "predicates.md"
CELLS = list(table(DOCS.read_text()))


@pytest.mark.parametrize(("row", "column", "passes"), CELLS)
def test_the_documented_table_is_true(row: str, column: str, passes: bool) -> None:
    old, new = ROWS[row]
    assert COLUMNS[column](Event.of(old, new)) is passes


def test_the_module_has_the_same_table_and_no_row_goes_untested() -> None:
    assert list(table(predicates.__doc__ or "")) == CELLS
    assert list(dict.fromkeys(row for row, _, _ in CELLS)) == list(ROWS)


NAMES = st.sampled_from(["x", "y"])
METADATA = st.fixed_dictionaries(
    {"uid": st.just("u1"), "labels": st.dictionaries(st.sampled_from(["app", "x"]), st.sampled_from(["web", "db"]))},
    optional={
        "resourceVersion": st.sampled_from(["1", "2"]),
        "generation": st.sampled_from([1, 2]),
        "annotations": st.dictionaries(st.sampled_from(["example.org/at", "other"]), NAMES),
        "finalizers": st.lists(NAMES, max_size=2),
        "deletionTimestamp": st.just(DELETED_AT),
        "managedFields": st.lists(st.just({"manager": "m"}), max_size=1),
    },
)
OBJECTS = st.fixed_dictionaries(
    {"metadata": METADATA}, optional={"spec": st.sampled_from([{"n": 1}, {"n": 2}]), "status": NAMES}
)
EVENTS = st.builds(Event.of, st.none(), OBJECTS) | st.builds(Event.of, OBJECTS, st.none() | OBJECTS)
UPDATES = st.builds(Event.of, OBJECTS, OBJECTS)
WITHOUT_SELECTION = st.recursive(
    st.sampled_from(UPDATE_PREDICATES),
    lambda inner: st.builds(lambda a, b: a & b, inner, inner) | st.builds(lambda a, b: a | b, inner, inner),
    max_leaves=4,
)
SELECTIONS = st.sampled_from([label_selected("app=web"), label_selected("app=db"), label_selected("!x")])
ANY = st.recursive(
    st.sampled_from(UPDATE_PREDICATES) | SELECTIONS,
    lambda inner: (
        st.builds(lambda a, b: a & b, inner, inner)
        | st.builds(lambda a, b: a | b, inner, inner)
        | inner.map(lambda a: ~a)
    ),
    max_leaves=4,
)


@given(ANY, ANY, ANY, EVENTS)
def test_and_and_or_are_commutative_associative_and_idempotent(
    a: Predicate, b: Predicate, c: Predicate, event: Event
) -> None:
    assert (a & b)(event) == (b & a)(event)
    assert (a | b)(event) == (b | a)(event)
    assert (a & (b & c))(event) == ((a & b) & c)(event)
    assert (a | (b | c))(event) == ((a | b) | c)(event)
    assert (a & a)(event) == a(event) == (a | a)(event)
    assert (~~a)(event) == a(event)


@given(ANY, ANY, EVENTS)
def test_or_passes_what_one_of_both_passes(a: Predicate, b: Predicate, event: Event) -> None:
    assert (a | b)(event) == (a(event) or b(event))


@given(WITHOUT_SELECTION, WITHOUT_SELECTION, WITHOUT_SELECTION, UPDATES)
def test_without_selections_the_laws_of_booleans_hold_for_updates(
    a: Predicate, b: Predicate, c: Predicate, event: Event
) -> None:
    assert (a & b)(event) == (a(event) and b(event))
    assert (~a)(event) is not a(event)
    assert (~(a | b))(event) == (~a & ~b)(event)
    assert (~(a & b))(event) == (~a | ~b)(event)
    assert (a & (b | c))(event) == ((a & b) | (a & c))(event)
    assert (a | (b & c))(event) == ((a | b) & (a | c))(event)


@given(WITHOUT_SELECTION, OBJECTS, st.booleans())
def test_creates_and_deletes_pass_inverted_or_not(a: Predicate, obj: Obj, created: bool) -> None:
    event = Event.of(None, obj) if created else Event.of(obj, None)
    assert a(event)
    assert (~a)(event)


@given(WITHOUT_SELECTION, OBJECTS, OBJECTS)
def test_another_uid_passes_inverted_or_not(a: Predicate, old: Obj, new: Obj) -> None:
    event = Event.of(old, new | {"metadata": new["metadata"] | {"uid": "u2"}})
    assert a(event)
    assert (~a)(event)


@given(OBJECTS, METADATA, st.integers(1, 3), NAMES)
def test_no_status_or_metadata_write_passes_generation_changed(
    old: Obj, metadata: Obj, generation: int, status: str
) -> None:
    old = old | {"metadata": old["metadata"] | {"generation": generation}}
    new = old | {"metadata": metadata | {"generation": generation}, "status": status}
    assert not generation_changed(Event.of(old, new))


@given(OBJECTS, OBJECTS)
def test_content_changed_passes_exactly_when_the_content_differs(old: Obj, new: Obj) -> None:
    def content(obj: Obj) -> Obj:
        dropped = ("managedFields", "resourceVersion", "generation")
        metadata = {name: value for name, value in obj["metadata"].items() if name not in dropped}
        return {name: value for name, value in obj.items() if name != "status"} | {"metadata": metadata}

    assert content_changed(Event.of(old, new)) == (content(old) != content(new))
    assert (content_digest(old) == content_digest(new)) == (content(old) == content(new))


@given(ANY, OBJECTS, OBJECTS)
def test_who_selects_never_sees_what_is_outside_before_and_after(other: Predicate, old: Obj, new: Obj) -> None:
    selected = label_selected("app=web")
    inside = [obj["metadata"]["labels"].get("app") == "web" for obj in (old, new)]
    event = Event.of(old, new)
    if not any(inside):
        assert not (other & selected)(event)
        assert selected.view(event) is None


def test_leaving_the_selector_is_a_delete_and_entering_it_a_create_whatever_stands_beside() -> None:
    selected = label_selected("app=web")
    old, new = ROWS["out of the selector"]
    assert selected.view(Event.of(old, new)) == Event(EventType.DELETE, old, None)
    assert selected.view(Event.of(new, old)) == Event(EventType.CREATE, None, old)
    assert not generation_changed(Event.of(old, new))
    for both in (generation_changed & selected, selected & generation_changed, selected & ~generation_changed):
        assert both(Event.of(old, new))
        assert both(Event.of(new, old))


def test_moving_between_two_selections_is_no_change_for_their_union() -> None:
    either = label_selected("app=web") | label_selected("app=db")
    old, new = ROWS["out of the selector"]
    assert not (generation_changed & either)(Event.of(old, new))
    assert (generation_changed & either)(Event.of(old, written(old, labels={})))


@pytest.mark.case("U13")
def test_the_start_of_a_deletion_passes_the_generation_predicate() -> None:
    """U13: cleanup runs though status and metadata writes are dropped."""
    assert generation_changed(Event.of(*ROWS["deletionTimestamp set"]))
    assert generation_changed(Event.of(*ROWS["no generation: deletion"]))
    assert content_changed(Event.of(*ROWS["no generation: data"]))


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        (EventType.UPDATE, None, {}),
        (EventType.UPDATE, {}, None),
        (EventType.CREATE, {}, {}),
        (EventType.DELETE, None, {}),
        (EventType.CREATE, None, None),
    ],
)
def test_an_event_that_lacks_a_state_cannot_be_made(kind: EventType, old: Obj | None, new: Obj | None) -> None:
    with pytest.raises(ValueError, match="with old="):
        Event(kind, old, new)


def test_a_predicate_says_what_it_is() -> None:
    predicate = generation_changed | ~annotation_changed("a/b") & label_selected("app")
    assert repr(predicate) == "(generation_changed | (~annotation_changed('a/b') & label_selected('app')))"

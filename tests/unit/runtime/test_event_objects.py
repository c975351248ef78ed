from __future__ import annotations

import pytest

from vidra.runtime.event_objects import MAX_NOTE, Ref, new_name, shorten


@pytest.mark.parametrize("note", ["x" * 5000, "ü" * 5000, "🎈" * 300, "a" + "€" * 342])
def test_a_long_note_is_cut_between_characters(note: str) -> None:
    short = shorten(note)
    assert MAX_NOTE - 4 < len(short.encode()) <= MAX_NOTE
    assert short.endswith("…")
    assert note.startswith(short[:-1])


def test_a_note_that_fits_stays_and_one_that_is_no_text_passes_too() -> None:
    assert shorten("€" * 341) == "€" * 341
    assert shorten("half a \ud83c") == "half a ?"


@pytest.mark.parametrize("name", ["a", "a.b-c", "x" * 253, "system:node", "UPPER", "a-.b", "", "a" * 219 + "-b"])
def test_every_name_makes_a_name_of_an_event(name: str) -> None:
    made = new_name(Ref("v1", "Thing", "", name, "u"))
    assert len(made) <= 253
    labels = made.split(".")
    assert all(label and label[0].isalnum() and label[-1].isalnum() and label == label.lower() for label in labels)
    assert ":" not in made
    assert new_name(Ref("v1", "Thing", "", name, "u")) != made

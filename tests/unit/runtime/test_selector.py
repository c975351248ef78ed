from __future__ import annotations

import pytest

from vidra.runtime.selector import Selector

WEB = {"metadata": {"labels": {"app": "web", "tier": "front", "example.org/x": ""}}}


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ("", True),
        ("  ", True),
        ("app=web", True),
        ("app == web", True),
        ("app=db", False),
        ("app!=db", True),
        ("app!=web", False),
        ("zone!=a", True),
        ("app in (db, web)", True),
        ("app in (db)", False),
        ("app notin (db,cache)", True),
        ("zone notin (a)", True),
        ("tier", True),
        ("zone", False),
        ("!zone", True),
        ("! tier", False),
        ("example.org/x=", True),
        ("example.org/x", True),
        (" app=web , tier in (front) , !zone ", True),
        ("app=web,tier=back", False),
        ("in=x", False),
    ],
)
def test_a_selector_selects_as_the_server_does(text: str, selected: bool) -> None:
    assert Selector.parse(text).matches(WEB) is selected


@pytest.mark.parametrize("obj", [{}, {"metadata": None}, {"metadata": {}}, {"metadata": {"labels": None}}])
def test_an_object_without_labels_has_none(obj: dict[str, object]) -> None:
    assert not Selector.parse("app").matches(obj)
    assert Selector.parse("!app").matches(obj)


@pytest.mark.parametrize(
    "text", ["app=web,", ",", "app=web tier", "app in web", "app in ()x", "=web", "a b", "app=w w"]
)
def test_what_is_no_selector_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(ValueError, match="from character"):
        Selector.parse(text)

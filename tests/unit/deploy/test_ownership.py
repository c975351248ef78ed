"""Who stands in whose way, and who is woken when."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from vidra.deploy.inventory import Entry, Inventory
from vidra.deploy.ownership import Ownership
from vidra.deploy.wanted import seal
from vidra.kube.resource import GroupKind, ObjectKey

X, Y = ObjectKey("", "Namespace", "", "x"), ObjectKey("", "ConfigMap", "x", "y")
US = "vidra:one"


class Books(Ownership):
    """With short ways, and what was woken."""

    def __init__(self) -> None:
        self.woken: list[str] = []
        super().__init__(self.woken.append)

    def tries(self, name: str, wish: str, manager: str = US) -> str | None:
        """A reconcile that declares X so; the holder that stands in its way."""
        self.declare(name, manager, {X: wish})
        holder = self.holder(name, manager, X, wish)
        if holder is None:
            self.applied(name, X)
        else:
            self.refused(name, X)
        return holder


def sealed(wish: str, live: str) -> Inventory:
    return {X: Entry(X, "v1", uid="u", seal=seal(wish, live))}


def test_the_same_declaration_is_shared_and_another_one_is_refused() -> None:
    books = Books()
    assert [books.tries("a", "1"), books.tries("b", "1"), books.tries("c", "2")] == [None, None, "a"]
    assert books.siblings("a", US, X) == ["b", "c"]
    assert books.woken == []


def test_managers_are_each_others_business_at_the_api_server_only() -> None:
    books = Books()
    assert [books.tries("a", "1"), books.tries("b", "2", "vidra:two")] == [None, None]
    assert books.siblings("a", US, X) == []
    assert books.claimants(X) == ["a", "b"]


def test_one_declaration_that_arrives_after_all_holders_moved_wakes_the_others() -> None:
    books = Books()
    for name in "abc":
        books.tries(name, "1")
    assert [books.tries("a", "2"), books.tries("b", "2"), books.tries("c", "2")] == ["b", "c", None]
    assert sorted(books.woken) == ["a", "b"]


def test_an_edit_that_nobody_read_yet_holds_against_those_who_hold_nothing() -> None:
    books = Books()
    books.tries("a", "1")
    assert books.tries("b", "2") == "a"
    books.unsettle("a")
    assert books.woken == []
    assert books.tries("b", "2") == "a"


def test_one_who_was_refused_holds_nothing_any_more() -> None:
    books = Books()
    books.tries("a", "1")
    books.tries("b", "1")
    assert books.tries("b", "2") == "a"
    books.unsettle("a")
    books.unsettle("b")
    assert books.tries("b", "2") == "a"


def test_those_who_hold_it_together_do_not_wait_for_an_edit_that_nobody_read() -> None:
    books = Books()
    books.tries("a", "1")
    books.tries("b", "1")
    books.unsettle("a")
    assert books.tries("b", "2") is None


def test_after_a_start_the_seals_say_who_holds() -> None:
    books = Books()
    books.inventory("a", US, sealed("1", "live"), version="1")
    books.inventory("b", US, {X: Entry(X, "v1")}, version="2")
    assert books.tries("b", "2") == "a"
    assert books.holder("b", US, X, "1", live="live") is None
    assert books.tries("a", "1") is None


def test_an_older_status_says_nothing_new() -> None:
    books = Books()
    books.inventory("a", US, sealed("1", "live"), version="5")
    books.inventory("a", US, {}, version="4")
    assert books.is_claimed(X)
    books.inventory("a", US, {}, version="6")
    assert not books.is_claimed(X)


@pytest.mark.parametrize(
    "leave",
    [
        lambda books: books.release("a", X),
        lambda books: books.forget("a"),
        lambda books: books.declare("a", US, {Y: "1"}),
    ],
    ids=["released", "forgotten", "moved on"],
)
def test_who_leaves_makes_room(leave: Callable[[Books], None]) -> None:
    books = Books()
    books.tries("a", "1")
    books.tries("b", "2")
    books.tries("c", "2")
    leave(books)
    assert books.woken == ["b"]  # c follows when b has succeeded
    assert books.tries("b", "2") is None
    assert books.woken == ["b", "c"]


def test_an_object_is_kept_by_whoever_does_not_leave() -> None:
    books = Books()
    books.inventory("a", US, {Y: Entry(Y, "v1")}, version="1")
    assert books.keeper(Y, "b") == "a"
    assert books.keeper(Y, "a") is None
    books.declare("a", US, {Y: "1"})
    assert books.keeper(Y, "a") == "a"
    books.declare("a", US, {})
    books.inventory("a", US, {Y: Entry(Y, "v1")}, version="2", leaving=True)
    assert books.keeper(Y, "b") is None


def test_kinds_are_known_while_anybody_has_an_object_of_them() -> None:
    books = Books()
    books.tries("a", "1")
    books.inventory("b", US, {Y: Entry(Y, "v1")}, version="1")
    assert books.kinds() == {GroupKind("", "Namespace"), GroupKind("", "ConfigMap")}
    books.forget("a")
    assert books.kinds() == {GroupKind("", "ConfigMap")}
    books.forget("nobody")

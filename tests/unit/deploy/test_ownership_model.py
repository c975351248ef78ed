"""Any number of resources that declare one object as they like, against a plain model of what must come of it.

The model knows who holds the object: whoever applied a declaration of it and was not refused since. Between two steps
every wake-up is followed, in any order, as the work queue would.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from vidra.deploy.inventory import Entry
from vidra.deploy.ownership import Ownership
from vidra.deploy.wanted import seal
from vidra.kube.resource import ObjectKey

X = ObjectKey("", "Namespace", "", "team")
US = "vidra:one"
names = st.sampled_from("abcd")
wishes = st.sampled_from(["1", "2", None])
#: More reconciles than any number of wake-ups can ask for: beyond it, somebody wakes somebody for ever.
PATIENCE = 200


class OwnershipMachine(RuleBasedStateMachine):
    """``live`` is the declaration that stands in the cluster, None where the object isn't there."""

    def __init__(self) -> None:
        super().__init__()
        self.specs: dict[str, str | None] = {}
        self.statuses: dict[str, Entry] = {}  # the inventory of each, as its status has it
        self.queue: list[str] = []
        self.live: str | None = None
        self.holders: set[str] = set()
        self.unread: set[str] = set()  # not reconciled since their last edit, or since the start
        self.version = 0

    @initialize()
    def start(self) -> None:
        self.ownership = Ownership(self.wake)
        self.unread = set(self.specs)
        for name, entry in self.statuses.items():
            self.take_in(name, {X: entry})

    def wake(self, name: str) -> None:
        if name not in self.queue:
            self.queue.append(name)

    def take_in(self, name: str, inventory: dict[ObjectKey, Entry]) -> None:
        self.version += 1
        self.ownership.inventory(name, US, inventory, version=str(self.version))

    # --- what may happen

    @rule(name=names, wish=wishes)
    def edit(self, name: str, wish: str | None) -> None:
        """Somebody writes a spec; None declares something else only."""
        self.specs[name] = wish
        self.unread.add(name)
        self.ownership.unsettle(name)
        self.wake(name)

    @rule(name=names)
    def touch(self, name: str) -> None:
        """An edit, or a request to reconcile, that changes nothing about the object."""
        if name in self.specs:
            self.unread.add(name)
            self.ownership.unsettle(name)
            self.wake(name)

    @rule(name=names)
    def delete(self, name: str) -> None:
        if name in self.specs:
            del self.specs[name]
            self.wake(name)

    @precondition(lambda self: self.queue)
    @rule(data=st.data())
    def reconcile_one(self, data: st.DataObject) -> None:
        self.reconcile(self.queue.pop(data.draw(st.integers(0, len(self.queue) - 1))))

    @precondition(lambda self: self.specs)
    @rule(data=st.data())
    def restart(self, data: st.DataObject) -> None:
        """A new process knows the statuses alone, and looks at every resource, in any order."""
        self.queue = data.draw(st.permutations(sorted({*self.specs, *self.statuses})))
        self.start()

    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        for _ in range(PATIENCE):
            if not self.queue:
                break
            self.reconcile_one(data)
        assert not self.queue, "they wake each other for ever"
        declared = {name: wish for name, wish in self.specs.items() if wish is not None}
        assert (self.live in declared.values()) if declared else self.live is None
        for name, wish in declared.items():
            assert (name in self.holders) is (wish == self.live), name

    # --- what a reconcile does

    def reconcile(self, name: str) -> None:
        self.unread.discard(name)
        wish = self.specs.get(name)
        if wish is None:
            self.let_go(name)
            return
        known = self.statuses.setdefault(name, Entry(X, "v1"))
        self.ownership.declare(name, US, {X: wish})
        self.take_in(name, {X: known})
        if self.ownership.holder(name, US, X, wish, live=self.live) is not None:
            assert self.holders - {name}, "refused for nobody's sake"
            self.ownership.refused(name, X)
            self.holders.discard(name)
            self.statuses[name] = Entry(X, "v1", uid=known.uid)
        else:
            self.check_apply(name, wish)
            self.live = wish
            self.holders.add(name)
            self.ownership.applied(name, X)
            self.statuses[name] = Entry(X, "v1", uid="u", seal=seal(wish, wish))
        self.take_in(name, {X: self.statuses[name]})

    def check_apply(self, name: str, wish: str) -> None:
        """Nobody's declaration that stands, and is meant as before, is overwritten."""
        for other in self.holders - {name}:
            if self.specs.get(other) != self.live or wish == self.live:
                continue  # it has moved on, or agrees
            # Those who hold it together don't wait for one whose newest spec nobody has read.
            assert name in self.holders, f"{name} takes it from {other}"
            assert other in self.unread, f"{name} takes it from {other}"

    def let_go(self, name: str) -> None:
        self.ownership.declare(name, US, {})
        if name in self.statuses:
            if not self.ownership.siblings(name, US, X):
                self.live = None
            self.ownership.release(name, X)
            del self.statuses[name]
            self.take_in(name, {})
        self.holders.discard(name)
        if name not in self.specs:
            self.ownership.forget(name)

    @invariant()
    def nothing_is_remembered_of_what_nobody_has(self) -> None:
        if not self.statuses and not self.queue:
            assert not self.ownership.is_claimed(X)
            assert self.live is None


TestOwnership = OwnershipMachine.TestCase
TestOwnership.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)

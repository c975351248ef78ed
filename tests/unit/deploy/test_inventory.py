"""The inventory as it stands in a status."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from vidra.deploy.inventory import Entry, Inventory, read_inventory, union, write_inventory
from vidra.kube.resource import ObjectKey

words = st.text("abcxyz", min_size=1, max_size=4)
#: No deadline: other work on the machine is no fault.
few = settings(max_examples=50, deadline=None)
keys = st.builds(ObjectKey, st.one_of(st.just(""), words), words, st.one_of(st.just(""), words), words)
entries = st.builds(
    Entry,
    keys,
    st.sampled_from(["v1", "v1beta1"]),
    uid=st.one_of(st.just(""), words),
    adopted=st.booleans(),
    seal=st.one_of(st.just(""), words),
    message=st.one_of(st.just(""), words),
)
inventories = st.lists(entries).map(lambda found: {entry.key: entry for entry in found})

X, Y = ObjectKey("", "ConfigMap", "a", "x"), ObjectKey("apps", "Deployment", "a", "y")


@few
@given(inventories)
def test_what_is_written_reads_the_same(inventory: Inventory) -> None:
    assert read_inventory(write_inventory(inventory)) == inventory


def test_what_is_empty_is_left_out() -> None:
    assert write_inventory({X: Entry(X, "v1")}) == [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "namespace": "a"}
    ]
    role = ObjectKey("rbac.authorization.k8s.io", "ClusterRole", "", "x")
    (item,) = write_inventory({role: Entry(role, "v1", uid="1", adopted=True, seal="s", message="m")})
    assert item == {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "name": "x",
        "uid": "1",
        "adopted": True,
        "seal": "s",
        "message": "m",
    }


def test_what_the_original_wrote_reads_too_and_fields_we_do_not_know_do_no_harm() -> None:
    item = {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "a", "name": "y", "health": "Current", "new": 1}
    assert read_inventory([item]) == {Y: Entry(Y, "v1")}


def test_the_union_keeps_what_is_known_and_takes_the_new_version() -> None:
    old = {X: Entry(X, "v1", uid="1", adopted=True, seal="s")}
    both = union(old, {X: "v2", Y: "v1"})
    assert both == {X: Entry(X, "v2", uid="1", adopted=True, seal="s"), Y: Entry(Y, "v1")}
    assert old[X].version == "v1"


@few
@given(inventories, st.dictionaries(keys, st.sampled_from(["v1", "v2"])))
def test_the_union_has_everything_and_nothing_else(old: Inventory, wanted: dict[ObjectKey, str]) -> None:
    both = union(old, wanted)
    assert both.keys() == old.keys() | wanted.keys()
    assert all(both[key].version == version for key, version in wanted.items())
    assert all(both[key].uid == entry.uid and both[key].adopted == entry.adopted for key, entry in old.items())

"""Where a resource's objects are, across a move."""

from __future__ import annotations

from vidra.api.common import Destination
from vidra.controllers.whereabouts import host_index, read_whereabouts, server_index, write_whereabouts
from vidra.deploy.inventory import Entry
from vidra.kube.client import Obj
from vidra.kube.resource import ObjectKey

FAR = "https://10.0.0.1:6443"


def entry(name: str) -> dict[ObjectKey, Entry]:
    key = ObjectKey("", "ConfigMap", "web", name)
    return {key: Entry(key, "v1", uid=name)}


def resource(status: Obj, server: str = "") -> Obj:
    return {"metadata": {"name": "one"}, "spec": {"destination": {"server": server}}, "status": status}


def test_what_is_written_is_read_again() -> None:
    inventories = {"": entry("here"), FAR: entry("there")}
    for destination in (Destination(), Destination(server=FAR)):
        status = {k: v for k, v in write_whereabouts(destination, inventories).items() if v is not None}
        assert read_whereabouts(resource(status)) == inventories


def test_the_present_place_stands_where_the_original_has_it() -> None:
    status = write_whereabouts(Destination(server=FAR), {"": entry("here"), FAR: entry("there")})
    assert [item["name"] for item in status["managedResources"]] == ["there"]
    assert [former["server"] for former in status["formerDestinations"]] == [""]


def test_a_place_that_is_cleaned_up_leaves_nothing() -> None:
    status = write_whereabouts(Destination(), {"": entry("here"), FAR: {}})
    assert status["formerDestinations"] is None
    assert status["destination"] is None


def test_a_status_of_the_original_is_of_the_local_cluster() -> None:
    item = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "namespace": "web"}
    assert list(read_whereabouts(resource({"managedResources": [item]}))) == [""]


def test_a_resource_is_found_by_where_it_is_and_where_it_is_to_be() -> None:
    status = write_whereabouts(Destination(), {"": entry("here")})
    assert server_index(resource(status, FAR + "/")) == {"", FAR}
    assert host_index(resource(status, FAR)) == {"10.0.0.1"}


def test_a_server_that_cannot_be_read_is_kept_as_it_stands() -> None:
    assert server_index(resource({}, "nonsense")) == {"nonsense"}

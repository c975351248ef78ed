from __future__ import annotations

import pytest

from vidra.kube.resource import GroupKind, ObjectKey, Resource, object_key, split_api_version

PODS = Resource("", "v1", "Pod", "pods", namespaced=True)
DEPLOYMENTS = Resource("apps", "v1", "Deployment", "deployments", namespaced=True)
ROLES = Resource("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", namespaced=False)


@pytest.mark.parametrize(
    ("resource", "place", "path"),
    [
        (PODS, {}, "/api/v1/pods"),
        (PODS, {"namespace": "n"}, "/api/v1/namespaces/n/pods"),
        (PODS, {"namespace": "n", "name": "a"}, "/api/v1/namespaces/n/pods/a"),
        (PODS, {"namespace": "n", "name": "a", "subresource": "status"}, "/api/v1/namespaces/n/pods/a/status"),
        (DEPLOYMENTS, {"namespace": "n", "name": "a"}, "/apis/apps/v1/namespaces/n/deployments/a"),
        (ROLES, {"name": "a"}, "/apis/rbac.authorization.k8s.io/v1/clusterroles/a"),
        (ROLES, {"namespace": "n", "name": "a"}, "/apis/rbac.authorization.k8s.io/v1/clusterroles/a"),
        (ROLES, {"name": "system:node"}, "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node"),
    ],
)
def test_the_path_of_a_collection_an_object_and_a_subresource(
    resource: Resource, place: dict[str, str], path: str
) -> None:
    assert resource.path(**place) == path


@pytest.mark.parametrize("name", ["../secrets/x", "a/b", "a?x=y", "a#b", "a%2e", "é"])
def test_no_name_leads_out_of_its_collection(name: str) -> None:
    for path in (PODS.path(namespace="n", name=name), PODS.path(namespace=name)):
        assert path.startswith("/api/v1/namespaces/")
        assert path.count("/") == (6 if path.startswith("/api/v1/namespaces/n/") else 5)
        assert not set("?#é") & set(path)


@pytest.mark.parametrize(
    ("api_version", "split"),
    [("v1", ("", "v1")), ("apps/v1", ("apps", "v1")), ("a.b.example/v1beta1", ("a.b.example", "v1beta1"))],
)
def test_an_api_version_has_a_group_and_a_version(api_version: str, split: tuple[str, str]) -> None:
    assert split_api_version(api_version) == split
    assert Resource(*split, "X", "xs", namespaced=True).api_version == api_version


def test_an_object_is_the_same_in_whichever_version_it_is_read() -> None:
    def hpa(version: str) -> dict[str, object]:
        return {
            "apiVersion": f"autoscaling/{version}",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "a", "namespace": "n"},
        }

    key = object_key(hpa("v1"))
    assert key == object_key(hpa("v2")) == ObjectKey("autoscaling", "HorizontalPodAutoscaler", "n", "a")
    assert key.group_kind == GroupKind("autoscaling", "HorizontalPodAutoscaler")


@pytest.mark.parametrize("obj", [{}, {"metadata": None}, {"kind": None, "apiVersion": None, "metadata": {}}])
def test_what_an_object_lacks_is_empty_in_its_key(obj: dict[str, object]) -> None:
    assert object_key(obj) == ObjectKey("", "", "", "")


def test_how_things_are_called() -> None:
    assert str(ObjectKey("apps", "Deployment", "n", "a")) == "Deployment n/a"
    assert str(ObjectKey("", "Namespace", "", "a")) == "Namespace a"
    assert str(GroupKind("apps", "Deployment")) == "Deployment.apps"
    assert str(GroupKind("", "Pod")) == "Pod"

"""The shipped manifests on a real API server: it takes them without a warning, and the rights in them are those meant.

Nothing here starts an operator. Samples are only tried (dry run), so that they are nobody's work in other tests.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controlplane import ControlPlane
from e2e.kubectl import Kubectl, KubectlError, kustomize

MANIFESTS = Path(__file__).parents[2] / "manifests"
SAMPLES = sorted((MANIFESTS / "samples").glob("*.yaml"))
GROUP = "infrahub.operators.com"
SHIPPED = "system:serviceaccount:vidra-system:vidra"
NARROWED = "system:serviceaccount:vidra-narrow:vidra-narrow"


@pytest.fixture(scope="module")
def kubectl(control_plane: ControlPlane) -> Kubectl:
    """The shared control plane, as administrator."""
    return Kubectl(control_plane.kubeconfig_path)


@pytest.fixture(scope="module")
def shipped(kubectl: Kubectl) -> Iterator[Kubectl]:
    """Installed as the README says, but a warning is an error. The CRDs stay, since other tests use them too."""
    kubectl("apply", "--server-side", "--warnings-as-errors", "-k", str(MANIFESTS / "operator"))
    crds = kustomize(MANIFESTS / "crds")
    kubectl("wait", "--for=condition=Established", "--timeout=30s", "-f", "-", stdin=crds)
    yield kubectl
    kubectl("delete", "-k", str(MANIFESTS / "rbac"))
    kubectl("delete", "--timeout=60s", "namespace", "vidra-system")  # waits, so that others may make it anew


@pytest.fixture(scope="module")
def narrowed(kubectl: Kubectl, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    """The same rights less the broad one, taken away as manifests/rbac/deploys.yaml advises, under other names."""
    overlay = tmp_path_factory.mktemp("narrow").resolve()
    overlay.joinpath("kustomization.yaml").write_text(
        f"""
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
namespace: vidra-narrow
nameSuffix: -narrow
resources: [{os.path.relpath(MANIFESTS / "rbac", overlay)}]
patches:
  - patch: |
      $patch: delete
      apiVersion: rbac.authorization.k8s.io/v1
      kind: ClusterRoleBinding
      metadata:
        name: vidra-deploys
"""
    )
    kubectl("create", "namespace", "vidra-narrow")
    kubectl("apply", "--server-side", "-k", str(overlay))
    yield kubectl
    kubectl("delete", "--wait=false", "-k", str(overlay))
    kubectl("delete", "--wait=false", "namespace", "vidra-narrow")


def may(kubectl: Kubectl, account: str, verb: str, resource: str, *, group: str = "", namespace: str = "") -> bool:
    """What the API server's authorizer answers. `resource` may name a subresource: "pods/exec"."""
    resource, _, subresource = resource.partition("/")
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": account,
            "groups": ["system:serviceaccounts", "system:authenticated"],
            "resourceAttributes": {
                "verb": verb,
                "group": group,
                "resource": resource,
                "subresource": subresource,
                "namespace": namespace,
            },
        },
    }
    answer = json.loads(kubectl("create", "-f", "-", "-o", "json", stdin=json.dumps(review)))
    return bool(answer["status"]["allowed"])


def test_every_folder_for_users_renders() -> None:
    for folder in ("crds", "rbac", "operator"):
        assert "kind: " in kustomize(MANIFESTS / folder), folder


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_a_sample_is_accepted_by_the_schemas_we_ship(shipped: Kubectl, sample: Path) -> None:
    tried = shipped("apply", "--server-side", "--dry-run=server", "--warnings-as-errors", "-f", str(sample))

    assert tried.count("serverside-applied") == sample.read_text().count("\nkind: ")


def test_a_sample_with_a_misspelt_field_is_refused(shipped: Kubectl) -> None:
    misspelt = (MANIFESTS / "samples/infrahubsync.yaml").read_text().replace("targetDate", "targetdate")

    with pytest.raises(KubectlError, match="targetdate"):
        shipped.apply(misspelt, "--dry-run=server")


def test_the_pod_is_admitted_under_the_restricted_standard(shipped: Kubectl) -> None:
    """The Namespace enforces it: a pod that lacks anything would never come to be."""
    careless = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "careless", "namespace": "vidra-system"},
        "spec": {"containers": [{"name": "main", "image": "example"}]},
    }
    with pytest.raises(KubectlError, match="violates PodSecurity"):
        shipped.apply(careless, "--dry-run=server")

    pods = shipped.until(
        lambda: shipped.items("-n", "vidra-system", "pods", "-l", "app.kubernetes.io/name=vidra"),
        bool,
        what="the Deployment's pod exists",
        within=30,
        every=0.1,
    )
    assert pods[0]["spec"]["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True


OWN_WORK: list[tuple[str, str, dict[str, Any]]] = [
    ("watch", "infrahubsyncs", {"group": GROUP}),
    ("patch", "infrahubsyncs", {"group": GROUP}),
    ("patch", "infrahubsyncs/status", {"group": GROUP}),
    ("update", "infrahubsyncs/finalizers", {"group": GROUP}),
    ("create", "vidraresources", {"group": GROUP}),
    ("delete", "vidraresources", {"group": GROUP}),
    ("patch", "vidraresources/status", {"group": GROUP}),
    ("create", "events", {"group": "events.k8s.io", "namespace": "default"}),
]


def test_the_operator_may_do_its_own_work_without_the_broad_role(narrowed: Kubectl) -> None:
    refused = [
        f"{verb} {resource}"
        for verb, resource, where in OWN_WORK
        if not may(narrowed, NARROWED, verb, resource, **where)
    ]
    assert refused == []
    for verb in ("get", "list", "watch"):
        assert may(narrowed, NARROWED, verb, "secrets", namespace="vidra-narrow"), verb
        assert may(narrowed, NARROWED, verb, "configmaps", namespace="vidra-narrow"), verb


def test_without_the_broad_role_nobody_elses_objects_can_be_read_or_written(narrowed: Kubectl) -> None:
    for verb, resource, where in (
        ("get", "secrets", {"namespace": "default"}),
        ("list", "secrets", {"namespace": "kube-system"}),
        ("list", "secrets", {}),
        ("watch", "configmaps", {}),
        ("patch", "secrets", {"namespace": "vidra-narrow"}),
        ("create", "namespaces", {}),
        ("create", "deployments", {"group": "apps", "namespace": "vidra-narrow"}),
        ("create", "pods/exec", {"namespace": "vidra-narrow"}),
        ("patch", "clusterroles", {"group": "rbac.authorization.k8s.io"}),
    ):
        assert not may(narrowed, NARROWED, verb, resource, **where), f"{verb} {resource}"


def test_as_shipped_the_operator_may_deploy_any_kind_anywhere(shipped: Kubectl) -> None:
    for verb in ("get", "list", "watch", "create", "patch", "delete"):
        assert may(shipped, SHIPPED, verb, "namespaces"), verb
        assert may(shipped, SHIPPED, verb, "secrets", namespace="default"), verb
        assert may(shipped, SHIPPED, verb, "kinds", group="nobody-made.example.com", namespace="default"), verb


def test_as_shipped_the_operator_may_not_pose_as_somebody_else(shipped: Kubectl) -> None:
    """A cluster-admin may. Only service accounts are needed, for what names one to be deployed with its rights."""
    for resource in ("users", "groups", "uids"):
        assert not may(shipped, SHIPPED, "impersonate", resource), resource
    assert may(shipped, SHIPPED, "impersonate", "serviceaccounts", namespace="default")


def test_an_artifact_may_bring_a_role_that_grants_more_than_the_operator_has(shipped: Kubectl) -> None:
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "brought-by-an-artifact"},
        "rules": [{"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["update"]}],
    }
    assert not may(shipped, SHIPPED, "update", "deployments", group="apps", namespace="default")

    assert "serverside-applied" in shipped.apply(role, "--dry-run=server", f"--as={SHIPPED}")

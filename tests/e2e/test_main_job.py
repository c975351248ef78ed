"""The main job with nothing replaced: the shipped image as a pod, its own ServiceAccount, pods that really start."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.e2e.standin import ARTIFACT, PASSWORD, USERNAME, Infrahub

from e2e.kubectl import Kubectl

SYNC = "e2e"
READY_WITHIN = 120  # seconds, from an apply to ready pods; the image is on the node already
ARRIVES_WITHIN = 60.0  # seconds; syncs are polled every 2 (see `settings`)
GONE_WITHIN = 120.0  # a Namespace takes its time


def manifest(target: str, image: str, *, replicas: int = 1, text: str = "first") -> str:
    """A Namespace, a ConfigMap and a Deployment whose pods run, from the one image every cluster here has: ours."""
    return f"""---
apiVersion: v1
kind: Namespace
metadata:
  name: {target}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: page
  namespace: {target}
data:
  text: {text}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: {target}
spec:
  replicas: {replicas}
  selector:
    matchLabels: {{app: web}}
  template:
    metadata:
      labels: {{app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
        - name: web
          image: {image}
          imagePullPolicy: IfNotPresent
          command: [python, -c, "import signal; signal.pause()"]
"""


def credentials(namespace: str, host: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "e2e-infrahub", "namespace": namespace, "labels": {"infrahub-api-url": host}},
        "stringData": {"username": USERNAME, "password": PASSWORD},
    }


def settings(namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "vidra-config", "namespace": namespace, "labels": {"app": "vidra"}},
        "data": {"requeueSyncAfter": "2s"},
    }


def sync(url: str) -> dict[str, Any]:
    return {
        "apiVersion": "infrahub.operators.com/v1alpha1",
        "kind": "InfrahubSync",
        "metadata": {"name": SYNC},
        "spec": {"source": {"infrahubAPIURL": url, "targetBranch": "main", "artefactName": ARTIFACT}},
    }


def pod_of(kubectl: Kubectl, namespace: str) -> Any:
    """The operator's only pod; one that is being replaced isn't counted."""
    pods = kubectl.items("-n", namespace, "pods", "-l", "app.kubernetes.io/name=vidra")
    [pod] = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    return pod


def faults(kubectl: Kubectl, namespace: str) -> list[str]:
    """The lines of the operator's log that no good run has: a refusal, a crash, anything but a JSON object."""
    log = kubectl("-n", namespace, "logs", pod_of(kubectl, namespace)["metadata"]["name"], "--tail=-1").splitlines()
    assert log, "the operator has logged nothing"
    return [line for line in log if "forbidden" in line.lower() or "Traceback" in line or not is_json(line)]


def is_json(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def identity(kubectl: Kubectl, namespace: str) -> Any:
    """What would be other than before if anybody had written to the Deployment or its pods had been replaced; what
    Kubernetes says in its status is left out."""
    deployment = kubectl.get("-n", namespace, "deployment", "web", "--show-managed-fields")
    writes = [write for write in deployment["metadata"]["managedFields"] if write.get("subresource") != "status"]
    pods = kubectl.items("-n", namespace, "pods", "-l", "app=web")
    return deployment["metadata"]["uid"], writes, sorted(pod["metadata"]["uid"] for pod in pods)


@pytest.fixture
def no_sync_left(kubectl: Kubectl, operator: str) -> Iterator[None]:
    """Deletes the sync even after a failure: uninstalling waits for finalizers that only a running operator removes."""
    yield
    kubectl("delete", "infrahubsync", SYNC, "--ignore-not-found", "--wait=false")
    kubectl.until(
        lambda: kubectl.items("infrahubsyncs,vidraresources"),
        lambda seen: not seen,
        what="the sync and its resources are gone",
        within=GONE_WITHIN,
    )


def test_the_operator_pod_becomes_ready(kubectl: Kubectl, operator: str) -> None:
    kubectl("-n", operator, "rollout", "status", "deployment/vidra", f"--timeout={READY_WITHIN}s")

    [status] = pod_of(kubectl, operator)["status"]["containerStatuses"]
    assert status["ready"]
    assert status["restartCount"] == 0


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("no_sync_left")
def test_artifacts_arrive_change_and_go_and_a_deleted_sync_leaves_nothing(
    kubectl: Kubectl, operator: str, infrahub: Infrahub, image: str
) -> None:
    kubectl("-n", operator, "rollout", "status", "deployment/vidra", f"--timeout={READY_WITHIN}s")
    shop = infrahub.add(manifest("e2e-shop", image), target="e2e-shop")
    blog = infrahub.add(manifest("e2e-blog", image), target="e2e-blog")

    kubectl.apply(settings(operator))
    kubectl.apply(credentials(operator, infrahub.host))
    kubectl.apply(sync(infrahub.url))

    # They arrive, and what they start runs.
    kubectl.until(
        lambda: kubectl.get("infrahubsync", SYNC),
        lambda seen: seen.get("status", {}).get("syncState") == "Succeeded",
        what="the sync has succeeded",
        within=ARRIVES_WITHIN,
    )
    kubectl.until(
        lambda: {name: (kubectl.get("vidraresource", name) or {}).get("status", {}) for name in (shop, blog)},
        lambda seen: all(status.get("DeployState") == "Succeeded" for status in seen.values()),
        what="both resources have succeeded",
        within=ARRIVES_WITHIN,
    )
    for namespace in ("e2e-shop", "e2e-blog"):
        kubectl("-n", namespace, "rollout", "status", "deployment/web", f"--timeout={READY_WITHIN}s")

    # One changes.
    infrahub.change(shop, manifest("e2e-shop", image, replicas=2, text="second"))
    kubectl.until(
        lambda: kubectl.get("-n", "e2e-shop", "configmap", "page"),
        lambda seen: seen["data"] == {"text": "second"},
        what="the change is in the ConfigMap",
        within=ARRIVES_WITHIN,
    )
    kubectl.until(
        lambda: kubectl.get("-n", "e2e-shop", "deployment", "web"),
        lambda seen: seen["status"].get("availableReplicas") == 2,
        what="the changed Deployment has both its pods",
        within=READY_WITHIN,
    )

    # The operator is replaced, and what it has deployed is left alone: same object, same pods.
    untouched = identity(kubectl, "e2e-shop")
    assert faults(kubectl, operator) == []
    kubectl("-n", operator, "rollout", "restart", "deployment/vidra")
    kubectl("-n", operator, "rollout", "status", "deployment/vidra", f"--timeout={READY_WITHIN}s")

    # One goes, and only that one.
    infrahub.remove(blog)
    kubectl.until(
        lambda: (kubectl.get("vidraresource", blog), kubectl.get("namespace", "e2e-blog")),
        lambda seen: seen == (None, None),
        what="the removed artifact's resource and objects are gone",
        within=GONE_WITHIN,
    )
    assert identity(kubectl, "e2e-shop") == untouched

    # The sync goes and takes all of its own along.
    kubectl("delete", "infrahubsync", SYNC, f"--timeout={GONE_WITHIN:.0f}s")
    kubectl.until(
        lambda: (kubectl.items("vidraresources"), kubectl.get("namespace", "e2e-shop")),
        lambda seen: seen == ([], None),
        what="nothing of the sync is left",
        within=GONE_WITHIN,
    )

    # All of that with the rights that ship, and without a crash.
    assert faults(kubectl, operator) == []
    assert pod_of(kubectl, operator)["status"]["containerStatuses"][0]["restartCount"] == 0

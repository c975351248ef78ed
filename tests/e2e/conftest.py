"""The shipped image and manifests in a cluster that runs pods, and an Infrahub stand-in that those pods reach.

`make e2e` sets the environment (dev/e2e/run says what). Without E2E_KUBECONFIG there is no cluster to test in and these
tests aren't collected: they are a run of their own, not part of the others.
"""

import os
import subprocess
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from tests.e2e.standin import Infrahub

from e2e.kubectl import Kubectl, KubectlError

ROOT = Path(__file__).parents[2]
NAMESPACE = "vidra-system"
collect_ignore_glob = [] if "E2E_KUBECONFIG" in os.environ else ["test_*.py"]


@pytest.fixture(scope="session")
def kubectl() -> Kubectl:
    """The cluster."""
    return Kubectl(Path(os.environ["E2E_KUBECONFIG"]))


@pytest.fixture(scope="session")
def image() -> str:
    """The name of the operator's image, which the nodes have."""
    return os.environ["E2E_IMAGE"]


@pytest.fixture(scope="session")
def operator(kubectl: Kubectl, image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Installs manifests/operator with only the image replaced, removes it at the end. The value: its namespace."""
    overlay = tmp_path_factory.mktemp("overlay")
    name, _, tag = image.rpartition(":")
    (overlay / "kustomization.yaml").write_text(
        "apiVersion: kustomize.config.k8s.io/v1beta1\n"
        "kind: Kustomization\n"
        f"resources: [{os.path.relpath(ROOT / 'manifests/operator', overlay.resolve())}]\n"
        f"images: [{{name: vidra, newName: {name}, newTag: {tag}}}]\n"
    )
    kubectl("apply", "--server-side", "-k", str(overlay))
    try:
        yield NAMESPACE
    finally:
        kubectl("delete", "--ignore-not-found", "--timeout=120s", "-k", str(overlay))


@pytest.fixture(scope="session")
def infrahub() -> Iterator[Infrahub]:
    """The stand-in, empty, in a process of its own, at an address that pods reach."""
    process = subprocess.Popen(
        [sys.executable, "-m", "infrahub", "--host", os.environ["E2E_STANDIN_HOST"], "--seed", "empty"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "dev")},
    )
    assert process.stdout is not None
    try:
        url = process.stdout.readline().strip()
        assert url, f"the stand-in ended with exit code {process.wait()}"
        yield Infrahub(url)
    finally:
        process.terminate()
        process.wait(timeout=10)
        process.stdout.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test is reported with what the cluster knows, since the cluster is gone when anybody could look."""
    report = yield
    if report.failed:
        cluster = Kubectl(Path(os.environ["E2E_KUBECONFIG"]))
        for arguments in (
            ("-n", NAMESPACE, "get", "pods", "-o", "wide"),
            ("-n", NAMESPACE, "describe", "pods"),
            ("get", "infrahubsyncs,vidraresources", "-o", "yaml"),
            ("-n", NAMESPACE, "logs", "deployment/vidra", "--tail=200"),
        ):
            try:
                text = cluster(*arguments)
            except (KubectlError, subprocess.TimeoutExpired) as error:
                text = str(error)
            report.sections.append((f"kubectl {' '.join(arguments)}", text))
    return report

"""The operator as a process of its own under the ServiceAccount that ships: its rights are enough for the main job.

Nobody else's rights are at hand: the kubeconfig holds a token of that account and nothing else. A 403 that the
operator gets around is a fault too, so the audit log decides, not the outcome alone.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import yaml
from tests.integration.kube_support import CONFIGMAPS, NAMESPACES, until
from tests.integration.process_support import (
    ACCOUNT,
    HIDDEN,
    NAMESPACE,
    everything,
    lines,
    operator_process,
    refused,
    write_kubeconfig,
)
from tests.integration.world import SECRETS, World, config_map, documents, world

from controlplane import ControlPlane
from e2e.kubectl import Kubectl, kustomize
from vidra.api import names
from vidra.kube.client import Obj
from vidra.kube.resource import Resource

MANIFESTS = Path(__file__).parents[2] / "manifests"
ARTIFACT = "Rights_Manifest"
PASSWORD = "open-sesame-Zm9v"  # not the stand-in's own, which is a word of every line
DEPLOYMENTS = Resource("apps", "v1", "Deployment", "deployments", namespaced=True)


@pytest.fixture(scope="module")
def account(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Installs CRDs and rights as shipped; a kubeconfig with a token of the shipped ServiceAccount."""
    kubectl = Kubectl(control_plane.kubeconfig_path)
    kubectl("apply", "--server-side", "-f", str(MANIFESTS / "operator/namespace.yaml"))
    kubectl("apply", "--server-side", "-k", str(MANIFESTS / "crds"))
    kubectl("apply", "--server-side", "-k", str(MANIFESTS / "rbac"))
    kubectl("wait", "--for=condition=Established", "--timeout=30s", "-f", "-", stdin=kustomize(MANIFESTS / "crds"))
    token = kubectl("-n", NAMESPACE, "create", "token", "vidra").strip()
    yield write_kubeconfig(tmp_path_factory.mktemp("account") / "kubeconfig", control_plane, token)
    kubectl("delete", "-k", str(MANIFESTS / "rbac"))
    kubectl("delete", "--timeout=60s", "namespace", NAMESPACE)  # waits, so that others may make it anew


@pytest.fixture
async def w(control_plane: ControlPlane, account: Path) -> AsyncIterator[World]:
    """The stand-in and an administrator's client; no operator. Its credentials are where the shipped rights reach."""
    async with world(control_plane, start=False, credentials=False) as made:
        made.standin.accounts.by_name[made.standin.username].password = PASSWORD
        made.standin.accounts.anonymous = False
        await made.client.create(SECRETS, credentials(made), namespace=NAMESPACE)
        yield made
        await made.client.delete(SECRETS, "rights", namespace=NAMESPACE)


def credentials(w: World) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "rights", "namespace": NAMESPACE, "labels": {names.CREDENTIALS_LABEL: "127.0.0.1"}},
        "stringData": {"username": w.standin.username, "password": PASSWORD},
    }


async def test_the_shipped_rights_are_enough_for_the_main_job(
    control_plane: ControlPlane, account: Path, w: World, tmp_path: Path
) -> None:
    mark = control_plane.audit.mark()
    log = tmp_path / "log"
    one, two = f"{w.namespace}-one", f"{w.namespace}-two"
    first = w.standin.add_artifact(name=ARTIFACT, content=everything(one), target="one")
    second = w.standin.add_artifact(name=ARTIFACT, content=everything(two), target="two")

    async with operator_process(account, log):
        await w.create_sync("rights", source={"artefactName": ARTIFACT})
        await w.until_state(w.SYNCS, "rights", "Succeeded", timeout=60.0)
        for artifact in (first, second):
            await w.until_state(w.RESOURCES, artifact, "Succeeded", timeout=60.0)
        assert await w.get(DEPLOYMENTS, "web", one) is not None

        w.standin.change_artifact(first, everything(one, text="second"))
        await until(lambda: has_text(w, one, "second"), timeout=60.0)

        w.standin.remove_artifact(second)
        await w.until_gone(w.RESOURCES, second, timeout=60.0)
        await w.until_gone(NAMESPACES, two, timeout=60.0)
        assert await has_text(w, one, "second")

        await w.client.delete(w.SYNCS, "rights")
        await w.until_gone(w.SYNCS, "rights", timeout=60.0)
        await w.until_gone(NAMESPACES, one, timeout=60.0)
        assert await w.all(w.RESOURCES) == []

    assert control_plane.audit.count(since=mark, user=ACCOUNT) > 0
    assert refused(control_plane, mark) == []
    assert [line for line in lines(log) if "forbidden" in json.dumps(line).lower()] == []
    assert [line for line in lines(log) if "exception" in line] == []


async def has_text(w: World, namespace: str, text: str) -> bool:
    found = await w.get(CONFIGMAPS, "page", namespace)
    return found is not None and found["data"] == {"text": text}


async def test_a_resource_may_be_deployed_with_the_rights_of_a_service_account(
    control_plane: ControlPlane, account: Path, w: World, tmp_path: Path
) -> None:
    kubectl = Kubectl(control_plane.kubeconfig_path)
    await asyncio.to_thread(kubectl, "-n", w.namespace, "create", "serviceaccount", "team")
    subject = f"--serviceaccount={w.namespace}:team"
    await asyncio.to_thread(kubectl, "-n", w.namespace, "create", "rolebinding", "team", "--clusterrole=edit", subject)
    mark = control_plane.audit.mark()

    async with operator_process(account, tmp_path / "log"):
        text = documents(config_map("mine", w.namespace))
        await w.create_resource("team", text, serviceAccountName=f"{w.namespace}/team")
        await w.until_state(w.RESOURCES, "team", "Succeeded", timeout=60.0)
        await w.client.delete(w.RESOURCES, "team")
        await w.until_gone(w.RESOURCES, "team", timeout=60.0)
        assert await w.get(CONFIGMAPS, "mine", w.namespace) is None

    team = f"system:serviceaccount:{w.namespace}:team"
    assert control_plane.audit.count(since=mark, user=team, resource="configmaps", verb="create") == 1
    assert refused(control_plane, mark) == []


async def test_with_rights_in_one_namespace_only_that_is_deployed_and_a_refusal_says_what_is_missing(
    control_plane: ControlPlane, account: Path, w: World, tmp_path: Path
) -> None:
    """As docs/install.md says how to narrow the rights. The watch that is refused then must hold nothing up."""
    kubectl = Kubectl(control_plane.kubeconfig_path)
    await asyncio.to_thread(kubectl, "delete", "clusterrolebinding", "vidra-deploys")
    subject = f"--serviceaccount={NAMESPACE}:vidra"
    binding = ["create", "rolebinding", "vidra-deploys", "--clusterrole=vidra-deploys", subject]
    await asyncio.to_thread(kubectl, "-n", w.namespace, *binding)
    log = tmp_path / "log"
    mark = control_plane.audit.mark()
    try:
        async with operator_process(account, log):
            inside = w.standin.add_artifact(
                name=ARTIFACT, content=documents(config_map("mine", w.namespace)), target="a"
            )
            await w.create_sync("rights", source={"artefactName": ARTIFACT})
            await w.create_resource("outside", documents(config_map(f"not-{w.namespace}", "default")))
            await w.until_state(w.SYNCS, "rights", "Succeeded", timeout=60.0)
            await w.until_state(w.RESOURCES, inside, "Succeeded", timeout=60.0)
            failed = await w.until_state(w.RESOURCES, "outside", "Failed", timeout=60.0)
            missing = 'cannot get resource "configmaps" in API group "" in the namespace "default"'
            assert missing in failed["status"]["lastError"]

            await w.client.delete(CONFIGMAPS, "mine", namespace=w.namespace)
            await until(lambda: w.get(CONFIGMAPS, "mine", w.namespace), timeout=60.0)

            # The watch belongs to no single reconcile, so its lines must not name one.
            watching = [line for line in lines(log) if line["msg"] == "can't list or watch, trying again"]
            assert watching
            assert [line for line in watching if "reconcile_id" in line] == []

            # Nobody can tell whether there is something left to delete outside, so that has to be said.
            await w.change(w.RESOURCES, "outside", deletionPolicy="Orphan")
            for resource, name in ((w.SYNCS, "rights"), (w.RESOURCES, "outside")):
                await w.client.delete(resource, name)
                await w.until_gone(resource, name, timeout=30.0)
            assert await w.all(w.RESOURCES) == []
            assert await w.get(CONFIGMAPS, "mine", w.namespace) is None
    finally:
        await asyncio.to_thread(kubectl, "apply", "--server-side", "-k", str(MANIFESTS / "rbac"))
    # Nothing of its own work was refused, so the narrow role is enough for that.
    assert [each for each in refused(control_plane, mark) if "/configmaps" not in each] == []
    assert f"{ACCOUNT}: get /api/v1/namespaces/default/configmaps/not-{w.namespace}" in refused(control_plane, mark)


@pytest.mark.case("U19")
async def test_u19_no_secret_value_and_no_token_is_logged_or_told_though_a_secret_is_applied_and_refused(
    control_plane: ControlPlane, account: Path, w: World, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    good: Obj = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "good", "namespace": w.namespace}}
    # Refused by the API server, each in other words: a required key, no base64, a value of another type, a change.
    tls: Obj = {"metadata": {"name": "tls", "namespace": w.namespace}, "type": "kubernetes.io/tls"}
    raw: Obj = {"metadata": {"name": "raw", "namespace": w.namespace}, "data": {"word": f"{HIDDEN}!"}}
    deep: Obj = {"metadata": {"name": "deep", "namespace": w.namespace}, "stringData": {"word": {"inner": HIDDEN}}}
    bodies = {
        "good": good | {"stringData": {"word": HIDDEN}, "immutable": True},
        "tls": good | tls | {"stringData": {"word": HIDDEN}},
        "raw": good | raw,
        "deep": good | deep,
    }
    head = f"apiVersion: v1\nkind: Secret\nmetadata: {{name: broken, namespace: {w.namespace}}}\nstringData:\n"
    broken = {  # refused before anything is sent
        "twice": f"{head}  word: {HIDDEN}\n  word: {HIDDEN}\n",
        "indent": f"{head}  word: {HIDDEN}\n other: {HIDDEN}\n",
        "tab": f"{head}\tword: {HIDDEN}\n",
        "quote": f'{head}  word: "{HIDDEN}\n',
        "tag": f"{head}  word: !{HIDDEN} x\n",
        "tagged-list": f"{head}  word: !{HIDDEN} []\n",
        "alias": f"{head}  word: *{HIDDEN}\n",
        "escape": f'{head}  word: "{HIDDEN}\\q"\n',
        "list": f"{head}  - {HIDDEN}\n",
        "text": f"{HIDDEN}\n",
    }
    texts = {name: documents(body) for name, body in bodies.items()} | broken
    async with operator_process(account, log):
        for name, text in texts.items():
            await w.create_resource(name, text)
        await w.until_state(w.RESOURCES, "good", "Succeeded", timeout=60.0)
        for name in (*texts.keys() - {"good"},):
            await w.until_state(w.RESOURCES, name, "Failed", timeout=60.0)
        changed = documents(bodies["good"] | {"stringData": {"word": f"{HIDDEN}-2"}})
        await w.change(w.RESOURCES, "good", manifest=changed)
        await w.until_state(w.RESOURCES, "good", "Failed", "Stale", timeout=60.0)

        w.standin.add_artifact(name=ARTIFACT, content=documents(bodies["tls"]), target="tls")
        await w.create_sync("rights", source={"artefactName": ARTIFACT})
        await w.until_state(w.SYNCS, "rights", "Succeeded", timeout=60.0)

        told = json.dumps([obj["status"] for obj in [*await w.all(w.RESOURCES), *await w.all(w.SYNCS)]])
        events = json.dumps(await w.all(Resource("events.k8s.io", "v1", "Event", "events", namespaced=True)))
        for name in ("rights", *texts):
            await w.client.delete(w.SYNCS if name == "rights" else w.RESOURCES, name)
        await until(lambda: none_left(w), timeout=60.0)

    written = log.read_text()
    token = yaml.safe_load(account.read_text())["users"][0]["user"]["token"]
    assert {line["key"] for line in lines(log) if line["msg"].startswith("reconcile failed")} >= set(texts)
    encoded = base64.b64encode(HIDDEN.encode()).decode()
    for secret in (HIDDEN, encoded, token, PASSWORD):
        assert secret not in written
        assert secret not in told
        assert secret not in events
    assert re.findall(r"eyJ[\w-]{8,}\.", written + told) == []  # any other token, Infrahub's too


async def none_left(w: World) -> bool:
    return not [*await w.all(w.RESOURCES), *await w.all(w.SYNCS)]

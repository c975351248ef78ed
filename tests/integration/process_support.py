"""The operator as a process of its own under a ServiceAccount's token: what tests of its rights share."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml
from tests.integration.world import config_map, documents

from controlplane import ControlPlane
from controlplane.audit import Entry, Mark

NAMESPACE = "vidra-system"
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:vidra"
HIDDEN = "hunter2-Zm9v"


def write_kubeconfig(path: Path, plane: ControlPlane, token: str) -> Path:
    authority = base64.b64encode(plane.ca_path.read_bytes()).decode()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "here", "cluster": {"server": plane.url, "certificate-authority-data": authority}}],
        "users": [{"name": "vidra", "user": {"token": token}}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "vidra"}}],
        "current-context": "here",
    }
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(config))
    return path


@asynccontextmanager
async def operator_process(kubeconfig: Path, log: Path) -> AsyncIterator[None]:
    """`python -m vidra run` with everything on its own command line; ended in order, and loud when it wasn't."""
    command = f"run --kubeconfig {kubeconfig} --namespace {NAMESPACE} --health-port 0 --metrics-port 0 --grace 5s"
    command += " --requeue-sync-after 1s --requeue-resources-after 5s --log-level debug --log-format json"
    foreign = ("VIDRA_", "POD_NAMESPACE", "KUBERNETES_SERVICE")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    with log.open("wb") as out:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "vidra", *command.split(), stdout=out, stderr=out, env=environment
        )
        try:
            yield
            assert process.returncode is None, f"the operator has ended:\n{log.read_text()}"
            process.terminate()
            assert await asyncio.wait_for(process.wait(), 30) == 0, log.read_text()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


def refused(plane: ControlPlane, since: Mark) -> list[str]:
    """What the shipped account, or one that it acts as, was refused."""

    def shown(entry: Entry) -> str:
        return f"{entry.user}: {entry.verb} {entry.uri}"

    return [shown(entry) for entry in plane.audit.entries(since=since) if entry.code == 403 and _ours(entry)]


def _ours(entry: Entry) -> bool:
    return entry.user.startswith("system:serviceaccount:") and not entry.user.startswith("system:serviceaccount:kube-")


def lines(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def everything(namespace: str, *, text: str = "first") -> str:
    """One of each kind that rights are special for: contents of a namespace, roles that grant more than the operator
    has, a definition of a new kind and an object of it."""
    group = f"{namespace}.example"
    inside = {"namespace": namespace}
    account = {"kind": "ServiceAccount", "name": "web", "namespace": namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "web"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    labels = {"app": "web"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "example"}]}}
    return documents(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        config_map("page", namespace, text=text),
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", **inside}, "stringData": {"word": HIDDEN}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "web", **inside}},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": "web", **inside},
            "rules": [{"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["update", "deletecollection"]}],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "web", **inside},
            "roleRef": role,
            "subjects": [account],
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web", **inside},
            "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": pod},
        },
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"things.{group}"},
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
                "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
            },
        },
        {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": "thing", **inside}, "spec": {"a": 1}},
    )

"""What happens: a sync is created, its artifacts arrive, one changes, one goes. Each is looked for in the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from demo.screen import Row, Screen
from demo.stage import Stage
from infrahub.seeds import WEBSERVER, webserver_manifest
from infrahub.state import Seen
from vidra.kube.client import Obj
from vidra.kube.resource import Resource

SYNCS = Resource("infrahub.operators.com", "v1alpha1", "InfrahubSync", "infrahubsyncs", namespaced=False)
RESOURCES = Resource("infrahub.operators.com", "v1alpha1", "VidraResource", "vidraresources", namespaced=False)
NAMESPACES = Resource("", "v1", "Namespace", "namespaces", namespaced=False)
DEPLOYMENTS = Resource("apps", "v1", "Deployment", "deployments", namespaced=True)

SYNC = "webservers"
#: Seconds that each step may take. A Namespace that goes takes the longest.
WITHIN = 60.0
#: Seconds between two looks.
LOOK = 0.2


class NotReached(Exception):
    """A step of the story did not come true in time."""


async def play(stage: Stage, screen: Screen) -> None:
    """Raises NotReached."""
    screen.title(f"An InfrahubSync: the artifacts named {WEBSERVER} on branch main")
    source = {"infrahubAPIURL": stage.standin.url, "targetBranch": "main", "artefactName": WEBSERVER}
    sync = {"apiVersion": "infrahub.operators.com/v1alpha1", "kind": "InfrahubSync", "metadata": {"name": SYNC}}
    await stage.client.create(SYNCS, {**sync, "spec": {"source": source}})
    await _until(stage, screen, "all three artifacts are deployed and Succeeded", lambda: _all_succeeded(stage, 3))

    artifacts = {seen.node.target.label: seen.node.id for seen in _artifacts(stage)}
    screen.title("In Infrahub, web-001 is to have 3 replicas")
    stage.standin.change_artifact(artifacts["web-001"], webserver_manifest("web-001", replicas=3))
    await _until(stage, screen, "Deployment web-001 has 3 replicas", lambda: _has_replicas(stage, "web-001", 3))

    screen.title("In Infrahub, web-003 is removed")
    stage.standin.remove_artifact(artifacts["web-003"])
    await _until(stage, screen, "web-003 and its Namespace are gone", lambda: _is_gone(stage, "web-003"))
    await _until(stage, screen, "the other two are as they should be", lambda: _all_succeeded(stage, 2))


async def _until(stage: Stage, screen: Screen, what: str, reached: Callable[[], Awaitable[bool]]) -> None:
    try:
        async with asyncio.timeout(WITHIN):
            while True:
                there = await reached()
                screen.table(await _table(stage))
                if there:
                    break
                await asyncio.sleep(LOOK)
    except TimeoutError:
        raise NotReached(f"not within {WITHIN:g} s: {what}") from None
    screen.done(what)


async def _table(stage: Stage) -> list[Row]:
    rows: list[Row] = [("KIND", "NAME", "STATE", "OBJECTS", "MESSAGE")]
    for sync in await stage.all(SYNCS):
        status = sync.get("status") or {}
        rows.append(("sync", sync["metadata"]["name"], status.get("syncState", "-"), "", _message(sync)))
    for resource in sorted(await stage.all(RESOURCES), key=_target):
        status = resource.get("status") or {}
        count = str(len(status.get("managedResources") or ()))
        rows.append(("resource", _target(resource), status.get("DeployState", "-"), count, _message(resource)))
    return rows


def _target(resource: Obj) -> str:
    """What the artifact was rendered for: easier on the eye than its id."""
    metadata = resource["metadata"]
    return str((metadata.get("annotations") or {}).get("vidra.infrahub.operators.com/target") or metadata["name"])


def _message(obj: Obj) -> str:
    for condition in (obj.get("status") or {}).get("conditions") or ():
        if condition["type"] == "Ready":
            return str(condition["message"])[:70]
    return "-"


async def _all_succeeded(stage: Stage, count: int) -> bool:
    resources = await stage.all(RESOURCES)
    states = [(resource.get("status") or {}).get("DeployState") for resource in resources]
    sync = await stage.get(SYNCS, SYNC) or {}
    return states == ["Succeeded"] * count and (sync.get("status") or {}).get("syncState") == "Succeeded"


async def _has_replicas(stage: Stage, name: str, replicas: int) -> bool:
    deployment = await stage.get(DEPLOYMENTS, name, f"ns-{name}")
    return deployment is not None and deployment["spec"]["replicas"] == replicas


async def _is_gone(stage: Stage, name: str) -> bool:
    return await stage.get(NAMESPACES, f"ns-{name}") is None and len(await stage.all(RESOURCES)) == 2


def _artifacts(stage: Stage) -> list[Seen]:
    state = stage.standin.state
    return state.all_seen(state.branch(None), stage.standin.now())

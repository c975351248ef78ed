"""The state behind the recorded answers of real servers 1.11.9 and 1.4.13, told as the story it was.

Both servers held applications app1 to app5 with two artifacts each. The story of 1.11.9 goes on: an artifact that waits
for its first rendering, updates, branches, a failed rendering, deletions, a merge. `recorded(at=...)` tells the story
up to that instant and makes it the present. Contents are made by the templates the real servers had; their checksums
prove them equal.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from infrahub import queries
from infrahub import recorded_ids as ids
from infrahub.clock import instant, time_of, written
from infrahub.state import MAIN, Branch, State

if TYPE_CHECKING:
    from infrahub.server import Seed, Standin

# The one artifact whose times were recorded: made, rendered, made Ready.
_TIMED = "18ed05c9-2c32-dcaa-e333-13e373ef7d07"
_TIMES = ("2026-12-01T04:09:47.982703Z", "2026-12-01T04:09:52.312510Z", "2026-12-01T04:09:54.445577Z")
APP1, APP2, APP3, APP4 = (ids.MANIFESTS[number][1] for number in range(4))
INFO3, INFO4, INFO5 = (ids.INFOS[number][1] for number in range(2, 5))
PENDING = "18ed05de-7a0c-c867-e352-13e333f75ed4"
LATE = "18ed0646-29e6-99bf-e3b1-13e35dc9a352"
DAY = "2026-12-01T"
BEGINNING = {"1.11.9": DAY + "04:11:12.514573Z", "1.4.13": DAY + "04:30:55.479062Z"}


def app_manifest(app: int, replicas: int = 2) -> str:
    """What the recorded servers rendered for an application."""
    return f"""# café {app}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: app{app}-cfg
  namespace: ns-app{app}
data:
  note: "caf\\u00e9 {app}"
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: app{app}
  namespace: ns-app{app}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: app{app}}}}}
  template:
    metadata: {{labels: {{app: app{app}}}}}
    spec:
      containers:
        - name: main
          image: example/app:1.{app}"""


def app_info(app: int) -> str:
    """The JSON artifact of an application."""
    return json.dumps({"app": f"app{app}", "replicas": 2, "note": f"café {app}"}, indent=2)


class _Story:
    """Tells events in the order they happened, each at its own instant, up to an end."""

    def __init__(self, standin: Standin) -> None:
        self.standin = standin
        self._events: list[tuple[str, Callable[[], object]]] = []

    def at(self, moment: str, event: Callable[..., object], *arguments: Any, **named: Any) -> None:
        """At the moment, in full or as a time of the day, call `event`."""
        full = moment if moment.startswith(DAY) else f"{DAY}{moment}"
        self._events.append((full, partial(event, *arguments, **named)))

    def tell(self, until: str) -> None:
        """Let what happened up to `until` happen."""
        for moment, event in sorted(self._events, key=lambda told: told[0]):
            if moment <= until:
                self.standin.clock.set(instant(moment), frozen=True)
                event()

    def artifacts(self, rows: tuple[ids.Row, ...], name: str) -> None:
        """Each row's artifact is made, rendered, and made Ready."""
        state = self.standin.state
        for app, artifact_id, attribute_id, storage_id in rows:
            rendered = written(time_of(storage_id) + timedelta(milliseconds=10))
            times = (written(time_of(artifact_id)), rendered, rendered)
            if artifact_id == _TIMED:
                times = _TIMES
            content = app_info(app) if name == "App_Info" else app_manifest(app)
            self.at(times[0], _make, state, app, name, artifact_id, attribute_id)
            self.at(times[1], state.render, artifact_id, content, storage_id=storage_id, status="Processing")
            self.at(times[2], state.set, artifact_id, status="Ready")


def _make(state: State, app: int, name: str, artifact_id: str, attribute_id: str) -> None:
    state.add_artifact(
        name,
        target=state.add_node("VidraApp", f"app{app}"),
        definition=state.add_node("CoreArtifactDefinition", f"{name}_Def"),
        content_type="application/json" if name == "App_Info" else "application/yaml",
        artifact_id=artifact_id,
        storage_attribute_id=attribute_id,
    )
    state.set(artifact_id)


def _store_again(state: State) -> None:
    """Two renderings that overlap store the same content twice."""
    stored = state.store(app_info(5).encode(), storage_id=ids.OLD_INFO5_AGAIN)
    state.set(ids.OLD_INFOS[4][1], storage_id=stored)


def recorded(at: str | None = None, *, frozen: bool = False) -> Seed:
    """The recorded server's state at the instant (default: with its ten artifacts), for the stand-in's version."""

    def fill(standin: Standin) -> None:
        until = at or BEGINNING[standin.server_version]
        story = _Story(standin)
        if standin.server_version == "1.4.13":
            _ground(standin, "18ed06c7-87a6-888a-e376-16bac05adada", "18ed06c7-97a6-888a-e376-16bac05adada")
            _nodes(
                standin, ids.OLD_TARGETS, "18ed06df-252a-6d66-e33a-16bafe03c03a", "18ed06df-8118-6732-e3bb-16ba8603d0fd"
            )
            _queries(standin, "18ed06db-762d-b8a9-e346-16baaa22da19")
            story.artifacts(ids.OLD_INFOS, "App_Info")
            story.artifacts(ids.OLD_MANIFESTS, "App_Manifest")
            story.at("04:30:30.200000Z", _store_again, standin.state)
        else:
            _ground(standin, "18ed05ac-3454-e5f8-e30f-13e3b2e015ad", "18ed05ac-448f-641c-e33d-13e3eb615dbf")
            main = standin.state.branches[MAIN]
            main.created, main.branched = instant(DAY + "04:07:43.833038Z"), instant(DAY + "04:07:43.833354Z")
            _nodes(standin, ids.TARGETS, "18ed05c5-2fc1-73c2-e3dc-13e3f62d0152", "18ed05c5-a85f-0b93-e381-13e31b8ef1d9")
            _queries(standin, "18ed05c2-5b97-8465-e37a-13e35b6a8737")
            story.artifacts(ids.INFOS, "App_Info")
            story.artifacts(ids.MANIFESTS, "App_Manifest")
            _later(story)
        standin.accounts.add("reader", "reader-pw", views=frozenset())
        story.tell(until)
        standin.clock.set(instant(until), frozen=frozen)

    return fill


def _ground(standin: Standin, deployment_id: str, main_id: str) -> None:
    started = time_of(main_id)
    standin.clock.set(started, frozen=True)
    state = standin.site.state = State(standin.clock)
    state.deployment_id = deployment_id
    state.branches[MAIN] = Branch(main_id, MAIN, started, started)


def _nodes(standin: Standin, targets: tuple[str, ...], info_id: str, manifest_id: str) -> None:
    state = standin.state
    for number, node_id in enumerate(targets, 1):
        attributes = {"namespace": f"ns-app{number}", "image": f"example/app:1.{number}", "replicas": 2}
        state.add_node("VidraApp", f"app{number}", node_id=node_id, note=f"café {number}", **attributes)
    state.add_node("CoreArtifactDefinition", "App_Info_Def", node_id=info_id)
    state.add_node("CoreArtifactDefinition", "App_Manifest_Def", node_id=manifest_id)


def _queries(standin: Standin, artifact_ids: str) -> None:
    standin.clock.set(time_of(artifact_ids), frozen=True)
    standin.state.add_query("ArtifactIDs", queries.ARTIFACT_IDS, node_id=artifact_ids)
    for name, text in queries.RECORDED.items():
        standin.state.add_query(name, text)


def _later(story: _Story) -> None:
    """What happened on 1.11.9 after the beginning."""
    standin = story.standin
    state, at = standin.state, story.at
    pending = {"name": "Pending_Manifest", "content": None, "target": "app1", "artifact_id": PENDING}
    at("04:11:19.479233Z", standin.add_artifact, **pending)
    at("04:11:50.000000Z", standin.remove_artifact, PENDING)
    at("04:12:01.229348Z", state.render, APP1, app_manifest(1, 4), storage_id=ids.APP1_OBJECTS[0])
    for name, branch_id, created, branched in ids.BRANCHES:
        at(created, state.create_branch, name, branch_id=branch_id, branched=DAY + branched)
    at("04:12:40.000000Z", standin.change_artifact, APP1, app_manifest(1, 5), branch="feature/vidra-1")
    for artifact_id in (APP3, INFO3):
        at("04:12:53.000000Z", standin.remove_artifact, artifact_id)
    at("04:13:27.053064Z", state.render, APP1, app_manifest(1, 3), storage_id=ids.APP1_OBJECTS[1])
    at("04:13:40.000000Z", standin.set_error, INFO5)
    for artifact_id in (APP4, INFO4):
        at("04:14:30.000000Z", standin.remove_artifact, artifact_id)
    at("04:15:00.000000Z", standin.delete_branch, "feature/vidra-1")
    at("04:16:00.000000Z", lambda: setattr(state.branch("feature/vidra-2"), "status", "MERGED"))
    at("04:16:20.000000Z", standin.change_artifact, APP2, app_manifest(2, 7))
    at("04:17:00.000000Z", standin.delete_branch, "feature/vidra-2")
    at("04:18:44.811152Z", _make, state, 6, "App_Manifest", LATE, ids.LATE_ATTRIBUTE)
    at("04:18:45.000000Z", standin.change_artifact, LATE, app_manifest(6))

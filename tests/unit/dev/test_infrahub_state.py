"""The stand-in's memory: history, branches, stored objects, seeds."""

from __future__ import annotations

import hashlib

import pytest
import yaml

from infrahub import Standin, seeds
from infrahub.recorded import recorded
from infrahub.state import NoSuchBranchError, Seen


def seen(standin: Standin, artifact_id: str, branch: str = "main", *, ago: float = 0) -> Seen | None:
    at = standin.clock.now()
    standin.clock.advance(-ago)
    moment = standin.clock.now() if ago else at
    standin.clock.advance(ago)
    return standin.state.see(standin.state.artifacts[artifact_id], standin.state.branch(branch), moment)


def content(standin: Standin, artifact_id: str, branch: str = "main", *, ago: float = 0) -> bytes | None:
    found = seen(standin, artifact_id, branch, ago=ago)
    return standin.state.objects[str(found.version.storage_id)] if found else None


def test_the_past_stays_readable_after_a_change_and_a_removal() -> None:
    standin = Standin()
    artifact_id = standin.add_artifact(name="a", content="one", target="t")
    standin.clock.advance(60)
    standin.change_artifact(artifact_id, "two")
    standin.clock.advance(60)
    standin.remove_artifact(artifact_id)
    standin.clock.advance(60)
    assert [content(standin, artifact_id, ago=ago) for ago in (150, 90, 0)] == [b"one", b"two", None]


def test_a_branch_shows_mains_artifacts_under_their_ids_until_it_changes_them() -> None:
    standin = Standin()
    artifact_id = standin.add_artifact(name="a", content="one", target="t")
    standin.create_branch("feature/x")
    standin.clock.advance(1)
    standin.change_artifact(artifact_id, "main moved on")
    assert content(standin, artifact_id, "feature/x") == b"one"
    standin.change_artifact(artifact_id, "changed there", branch="feature/x")
    assert content(standin, artifact_id, "feature/x") == b"changed there"
    assert content(standin, artifact_id) == b"main moved on"
    standin.delete_branch("feature/x")
    with pytest.raises(NoSuchBranchError):
        standin.state.branch("feature/x")


def test_an_artifact_of_a_branch_alone_is_not_on_main() -> None:
    standin = Standin()
    standin.create_branch("b")
    artifact_id = standin.add_artifact(name="a", content="one", target="t", branch="b")
    assert content(standin, artifact_id) is None
    assert content(standin, artifact_id, "b") == b"one"


def test_an_error_keeps_the_last_good_content_and_stays_after_an_identical_rendering() -> None:
    standin = Standin()
    artifact_id = standin.add_artifact(name="a", content="one", target="t")
    before = seen(standin, artifact_id)
    standin.set_error(artifact_id)
    standin.change_artifact(artifact_id, "one")
    after = seen(standin, artifact_id)
    assert before is not None
    assert after is not None
    assert after.version.status == "Error"
    assert after.version.checksum == before.version.checksum == hashlib.md5(b"one").hexdigest()
    standin.change_artifact(artifact_id, "two")
    mended = seen(standin, artifact_id)
    assert mended is not None
    assert mended.version.status == "Ready"


def test_a_pending_artifact_has_neither_checksum_nor_content() -> None:
    standin = Standin()
    artifact_id = standin.add_artifact(name="a", content=None, target="t")
    waiting = seen(standin, artifact_id)
    assert waiting is not None
    assert (waiting.version.status, waiting.version.checksum, waiting.version.storage_id) == ("Pending", None, None)


def test_a_removed_artifact_may_come_back_under_its_id() -> None:
    standin = Standin()
    artifact_id = standin.add_artifact(name="a", content="one", target="t")
    standin.remove_artifact(artifact_id)
    standin.change_artifact(artifact_id, "one")
    assert content(standin, artifact_id) == b"one"


@pytest.mark.parametrize("shared", [None, "ns-all"])
def test_a_web_server_is_four_documents_of_about_a_kilobyte(shared: str | None) -> None:
    standin = Standin(seed=seeds.webservers(3, shared_namespace=shared))
    namespaces = set()
    for artifact_id in standin.state.artifacts:
        text = (content(standin, artifact_id) or b"").decode()
        assert text.startswith("---\n")
        assert 800 < len(text) < 1200
        documents = list(yaml.safe_load_all(text))
        assert [document["kind"] for document in documents] == ["Namespace", "Deployment", "Service", "Ingress"]
        namespaces.add(documents[0]["metadata"]["name"])
    assert len(namespaces) == (1 if shared else 3)


def test_a_bench_artifact_is_two_of_each_kind_and_starts_nothing() -> None:
    documents = list(yaml.safe_load_all(seeds.bench_manifest(7)))
    assert sorted(document["kind"] for document in documents) == [
        *("ConfigMap", "ConfigMap", "Deployment", "Deployment", "Service", "Service"),
    ]
    assert {document["spec"]["replicas"] for document in documents if document["kind"] == "Deployment"} == {0}
    assert len({(document["kind"], document["metadata"]["name"]) for document in documents}) == 6


def test_the_recorded_state_begins_with_ten_artifacts_of_both_versions() -> None:
    for version in ("1.11.9", "1.4.13"):
        standin = Standin(seed=recorded(), server_version=version)
        names = [s.node.name for s in standin.state.all_seen(standin.state.branch(None), standin.clock.now())]
        assert names == ["App_Info"] * 5 + ["App_Manifest"] * 5

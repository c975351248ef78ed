"""Which resources a query's answer writes, leaves and deletes."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import pytest

from vidra.api import names
from vidra.api.infrahubsync import ARTIFACTS_MAX, InfrahubSyncSpec
from vidra.controllers import delivery
from vidra.controllers.kinds import BY_SYNC, sync_index
from vidra.deploy.compress import COMPRESS_ABOVE
from vidra.infrahub import ArtifactRef
from vidra.kube.client import Obj
from vidra.runtime.store import ChangeType, Store

SYNC: Obj = {"metadata": {"name": "one", "uid": "sync-uid"}}
OTHER: Obj = {"metadata": {"name": "two", "uid": "other-uid"}}


def spec(**more: Any) -> InfrahubSyncSpec:
    source = {"infrahubAPIURL": "http://infrahub:8000", "artefactName": "web"}
    return InfrahubSyncSpec.model_validate({"source": source, **more})


def checksum(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def ref(artifact: str = "a", text: str | None = "text", status: str = "Ready") -> ArtifactRef:
    made = ArtifactRef(id=artifact, checksum=None if text is None else checksum(text), storage_id="s")
    return replace(made, status=status)


def resource(artifact: str = "a", text: str = "text", *, sync: Obj = SYNC, name: str | None = None) -> Obj:
    made = delivery.new_resource(sync, ref(artifact, text), name or artifact, delivery.resource_spec(spec(), text))
    made["metadata"] |= {"uid": f"uid-{artifact}", "resourceVersion": "1"}
    return made


def store(*resources: Obj) -> Store[Obj]:
    filled: Store[Obj] = Store(indexes={BY_SYNC: sync_index})
    for one in resources:
        filled.apply(ChangeType.ADDED, one)
    return filled


def test_a_new_artifact_is_fetched() -> None:
    (item,) = delivery.compare(SYNC, [ref()], store()).items
    assert (item.stale, item.current, item.message) == (True, None, "")


def test_one_whose_content_is_there_is_not_fetched() -> None:
    (item,) = delivery.compare(SYNC, [ref()], store(resource())).items
    assert not item.stale


def test_one_that_was_edited_by_hand_is_fetched_although_its_checksum_is_noted() -> None:
    edited = resource()
    edited["spec"]["manifest"] = "edited"
    (item,) = delivery.compare(SYNC, [ref()], store(edited)).items
    assert item.stale


def test_a_resource_without_an_artifact_is_gone_and_those_of_others_are_not() -> None:
    by_hand = {"metadata": {"name": "c", "uid": "c", "resourceVersion": "1"}, "spec": {"manifest": "text"}}
    found = delivery.compare(SYNC, [ref("a")], store(resource("a"), resource("b"), resource("x", sync=OTHER), by_hand))
    assert [delivery.artifact_of(gone) for gone in found.gone] == ["b"]


@pytest.mark.parametrize("status", ["Pending", "Processing"])
def test_an_artifact_without_content_keeps_what_it_had(status: str) -> None:
    found = delivery.compare(SYNC, [ref(text=None, status=status)], store(resource()))
    assert not found.items[0].stale
    assert not found.gone
    assert f"Infrahub says {status}: its last content stays" in found.items[0].message


def test_an_artifact_in_error_is_served_and_named() -> None:
    (item,) = delivery.compare(SYNC, [ref(status="Error")], store()).items
    assert item.stale
    assert "Error" in item.message


def test_a_compressed_resource_has_its_content_too() -> None:
    text = "x: " + "y" * (COMPRESS_ABOVE + 1)
    made = resource(text=text)
    assert "manifest" not in made["spec"]
    assert delivery.has_content(made, checksum(text))
    assert delivery.content_of(made) == text
    made["spec"]["compressedManifest"] = "no gzip"
    assert not delivery.has_content(made, checksum(text))


def test_options_go_down_and_the_rhythm_stays() -> None:
    made = delivery.resource_spec(spec(adopt=True, prune=False, interval="1m", retryInterval="1m", suspend=True), "t")
    assert made == {"adopt": True, "prune": False, "destination": {}, "manifest": "t"}


def test_a_resource_that_is_up_to_date_needs_no_patch_whatever_the_server_filled_in() -> None:
    current = resource()
    current["spec"]["destination"] = {"server": "", "namespace": "", "reconcileOnEvents": False}
    current["spec"]["reconciledAt"] = "2020-01-01T00:00:00Z"
    current["metadata"]["annotations"]["theirs"] = "kept"
    assert delivery.resource_patch(SYNC, ref(), current, delivery.resource_spec(spec(), "text")) == {}


def test_an_option_that_is_taken_back_is_removed() -> None:
    current = resource()
    current["spec"]["adopt"] = True
    patch = delivery.resource_patch(SYNC, ref(), current, delivery.resource_spec(spec(), "text"))
    assert patch == {"spec": {"adopt": None}}


def test_a_manifest_that_grows_changes_its_field() -> None:
    text = "x: " + "y" * (COMPRESS_ABOVE + 1)
    patch = delivery.resource_patch(SYNC, ref(text=text), resource(), delivery.resource_spec(spec(), text))
    assert patch["spec"]["manifest"] is None
    assert patch["spec"]["compressedManifest"]


def test_a_taken_name_is_left_to_whoever_has_it() -> None:
    assert delivery.free_name(SYNC, ref(), store()) == "a"
    assert delivery.free_name(SYNC, ref(), store(resource())) == "a"
    fallback = names.resource_name_of_sync("a", "one")
    assert delivery.free_name(SYNC, ref(), store(resource(sync=OTHER))) == fallback


def test_the_status_names_what_is_not_ready_first_and_is_bounded() -> None:
    refs = [ref(f"a-{number:04}") for number in range(ARTIFACTS_MAX + 5)] + [ref("z", None, "Pending")]
    found = delivery.compare(SYNC, refs, store())
    status = found.status()
    assert status["artifactCount"] == ARTIFACTS_MAX + 6
    assert len(status["artifacts"]) == ARTIFACTS_MAX
    assert status["artifacts"][0]["id"] == "z"
    assert "1 not ready: z" in found.summary()

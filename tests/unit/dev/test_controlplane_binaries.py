"""Which source a binary comes from, and which envtest archive is taken and believed."""

import hashlib
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from controlplane import build, envtest
from controlplane.binaries import (
    KUBERNETES_VERSION,
    BinariesUnavailable,
    BuildFailed,
    Source,
    SourceUnavailable,
    cache_folder,
    default_sources,
    resolve,
)

GO_MOD = Path(build.__file__).with_name("go.mod")


class Recorder:
    """A source that has some names, and remembers what it was asked for."""

    def __init__(self, label: str, *names: str, refuses: Exception | None = None) -> None:
        self.source = Source(label, self.find)
        self.asked: list[list[str]] = []
        self._names, self._refuses = names, refuses

    def find(self, names: Sequence[str]) -> Mapping[str, Path]:
        self.asked.append(list(names))
        if self._refuses is not None:
            raise self._refuses
        return {name: Path("/") / self.source.label / name for name in self._names}


def resolved(names: Sequence[str], *recorders: Recorder) -> dict[str, str]:
    found = resolve(names, [recorder.source for recorder in recorders], report=lambda _: None)
    return {name: binary.source for name, binary in found.items()}


def test_the_sources_stand_in_the_documented_order() -> None:
    labels = [source.label for source in default_sources(report=lambda _: None)]
    assert labels == ["KUBEBUILDER_ASSETS", "PATH", "cache", "envtest archive", "Go modules"]


def test_the_first_source_that_has_a_binary_wins() -> None:
    assert resolved(["etcd"], Recorder("none"), Recorder("first", "etcd"), Recorder("second", "etcd")) == {
        "etcd": "first"
    }


def test_a_later_source_is_asked_only_for_what_is_still_missing() -> None:
    early, late, never = Recorder("early", "etcd"), Recorder("late", "etcd", "api"), Recorder("never", "api")
    assert resolved(["etcd", "api"], early, late, never) == {"etcd": "early", "api": "late"}
    assert late.asked == [["api"]]
    assert never.asked == []


def test_a_source_that_cannot_serve_is_passed_over_and_reported() -> None:
    told: list[str] = []
    offline = Recorder("archive", refuses=SourceUnavailable("no way out"))
    found = resolve(["etcd"], [offline.source, Recorder("built", "etcd").source], report=told.append)
    assert found["etcd"].source == "built"
    assert told == ["archive: no way out"]


def test_when_no_source_serves_the_error_gives_every_reason() -> None:
    shut = Recorder("shut", "etcd", refuses=SourceUnavailable("no way out"))
    with pytest.raises(BinariesUnavailable, match=r"no api .*PATH: has no etcd, api; shut: no way out; go: has no api"):
        resolved(["etcd", "api"], Recorder("PATH"), shut, Recorder("go", "etcd"))


def test_a_broken_build_is_not_passed_over() -> None:
    with pytest.raises(BuildFailed):
        resolved(["etcd"], Recorder("go", refuses=BuildFailed("syntax error")), Recorder("other", "etcd"))


def test_the_cache_is_found_by_xdg_cache_home_and_named_by_version_and_platform() -> None:
    folder = cache_folder({"XDG_CACHE_HOME": "/cache"})
    assert folder.parent == Path("/cache/vidra/controlplane")
    assert folder.name.startswith(f"{KUBERNETES_VERSION}-")


def test_the_version_is_the_one_the_go_module_builds() -> None:
    lines = {line.strip() for line in GO_MOD.read_text().splitlines()}
    assert f"k8s.io/kubernetes v{KUBERNETES_VERSION} // indirect" in lines
    assert set(build.PACKAGES.values()) <= lines  # its tool directives


def test_the_build_says_its_version_the_way_kubernetes_reads_it() -> None:
    flags = build.ldflags("1.36.3")
    assert flags.startswith("-s -w -X k8s.io/component-base/version.gitVersion=v1.36.3 ")
    assert flags.endswith("version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36")


@pytest.mark.parametrize(("seconds", "shown"), [(0, "0:00"), (9.9, "0:09"), (65, "1:05"), (3600, "60:00")])
def test_elapsed_time_is_shown_in_minutes_and_seconds(seconds: float, shown: str) -> None:
    assert build.elapsed(seconds) == shown


def index(
    *versions: str, target: str = "linux-amd64", sha512: str = "0" * 128, scheme: str = "https"
) -> dict[str, Any]:
    """A release index of the shape the controller-tools project publishes."""
    return {
        "releases": {
            f"v{version}": {
                f"envtest-v{version}-{target}.tar.gz": {
                    "hash": sha512,
                    "selfLink": f"{scheme}://example.org/envtest-v{version}-{target}.tar.gz",
                }
            }
            for version in versions
        }
    }


def test_the_archive_of_the_exact_version_is_preferred() -> None:
    chosen = envtest.choose(index("1.36.2", "1.36.3", "1.36.10"), "1.36.3", "linux-amd64")
    assert chosen.name == "envtest-v1.36.3-linux-amd64.tar.gz"


def test_otherwise_the_newest_patch_of_the_same_minor_is_taken() -> None:
    chosen = envtest.choose(index("1.36.2", "1.36.10", "1.37.0", "1.3.99"), "1.36.3", "linux-amd64")
    assert chosen.name == "envtest-v1.36.10-linux-amd64.tar.gz"


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (index("1.35.0"), "no 1.36"),
        (index("1.36.3", target="darwin-arm64"), "for linux-amd64"),
        (index("1.36.3", sha512="abc"), "no SHA-512"),
        (index("1.36.3", scheme="http"), "no https"),
        ({"releases": None}, "no 1.36"),
    ],
)
def test_an_index_that_cannot_be_used_says_why(document: dict[str, Any], reason: str) -> None:
    with pytest.raises(SourceUnavailable, match=reason):
        envtest.choose(document, "1.36.3", "linux-amd64")


def test_an_archive_with_the_right_checksum_is_copied_whole() -> None:
    content, target = b"x" * (3 << 20), io.BytesIO()
    envtest.copy_verified(io.BytesIO(content), target, hashlib.sha512(content).hexdigest())
    assert target.getvalue() == content


@pytest.mark.parametrize("content", [b"", b"tampered", b"origina"])
def test_an_archive_with_another_checksum_is_refused(content: bytes) -> None:
    with pytest.raises(SourceUnavailable, match="checksum mismatch"):
        envtest.copy_verified(io.BytesIO(content), io.BytesIO(), hashlib.sha512(b"original").hexdigest())


def test_the_archive_is_not_asked_for_what_it_never_holds() -> None:
    with pytest.raises(SourceUnavailable, match="holds no kube-controller-manager"):
        envtest.download(["kube-controller-manager"], report=lambda _: None)

"""Building the binaries, with a program in Go's place that takes no minutes."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from controlplane import BuildFailed, build
from controlplane.binaries import SourceUnavailable, cache_folder

DEV = Path(build.__file__).parents[1]

# `go build ... -o FILE PACKAGE`: notes the call, writes half of the file, waits for the word, writes the rest.
FAKE_GO = """#!/bin/sh
while [ "$1" != -o ]; do shift; done
echo "$3" >> "$FAKE/calls"
printf 'half ' > "$2"
while [ ! -e "$FAKE/go-on" ]; do sleep 0.02; done
if [ -e "$FAKE/fail" ]; then echo "main.go:1: broken"; exit 1; fi
printf 'whole' >> "$2"
chmod +x "$2"
"""


def wait_until(condition: Callable[[], bool]) -> None:
    """Return as soon as it holds; fail after 20 s."""
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.02)


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder by which the fake is steered: `calls`, `go-on`, `fail`."""
    program = tmp_path / "bin" / "go"
    program.parent.mkdir()
    program.write_text(FAKE_GO)
    program.chmod(0o755)
    monkeypatch.setenv("FAKE", str(tmp_path))
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def calls(fake: Path) -> list[str]:
    """The packages Go was asked for."""
    return (fake / "calls").read_text().split() if (fake / "calls").exists() else []


def test_what_is_built_is_in_the_cache_and_not_built_again(fake: Path) -> None:
    (fake / "go-on").touch()
    for _ in range(2):
        built = build.build(["etcd", "kube-apiserver"], report=lambda _: None)
    assert {name: path.read_text() for name, path in built.items()} == dict.fromkeys(built, "half whole")
    assert {path.parent for path in built.values()} == {cache_folder()}
    assert calls(fake) == [build.PACKAGES["etcd"], build.PACKAGES["kube-apiserver"]]


def test_a_failing_build_says_what_go_said_and_leaves_no_binary(fake: Path) -> None:
    (fake / "go-on").touch()
    (fake / "fail").touch()
    with pytest.raises(BuildFailed, match=r"(?s)go build of etcd ended with 1.*main.go:1: broken"):
        build.build(["etcd"], report=lambda _: None)
    assert not (cache_folder() / "etcd").exists()


def test_progress_names_the_binary_its_place_and_the_time(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "PROGRESS_EVERY", 0.05)
    told: list[str] = []

    def report(line: str) -> None:
        told.append(line)
        if len(told) == 3:
            (fake / "go-on").touch()

    build.build(["etcd"], report=report)
    assert len(told) >= 3
    assert set(told) == {"building etcd from Go modules (1 of 1), 0:00"}


def test_two_builds_at_once_run_go_once(fake: Path) -> None:
    told: list[str] = []
    builds = [threading.Thread(target=build.build, args=(["etcd"],), kwargs={"report": told.append}) for _ in range(2)]
    for thread in builds:
        thread.start()
    wait_until(lambda: any(line.startswith("waiting for another build") for line in told) and bool(calls(fake)))
    (fake / "go-on").touch()
    for thread in builds:
        thread.join(20)
    assert calls(fake) == [build.PACKAGES["etcd"]]
    assert (cache_folder() / "etcd").read_text() == "half whole"


def test_a_killed_build_leaves_no_half_binary_and_the_next_one_waits_for_its_go(fake: Path) -> None:
    program = "from controlplane import build; build.build(['etcd'], report=print)"
    first = subprocess.Popen(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(DEV)}, stdout=subprocess.DEVNULL
    )
    wait_until(lambda: (cache_folder() / ".etcd.partial").exists())
    first.kill()
    first.wait()
    assert not (cache_folder() / "etcd").exists()
    told: list[str] = []
    second = threading.Thread(target=build.build, args=(["etcd"],), kwargs={"report": told.append})
    second.start()
    wait_until(lambda: bool(told))
    assert told[0].startswith("waiting for another build")
    (fake / "go-on").touch()
    second.join(20)
    assert (cache_folder() / "etcd").read_text() == "half whole"
    assert len(calls(fake)) == 2


def test_without_go_the_source_says_so(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(fake))
    with pytest.raises(SourceUnavailable, match="go is not on PATH"):
        build.build(["etcd"], report=lambda _: None)

"""Building the binaries from Go modules, once, into the project's cache.

A binary appears in the cache whole or not at all: it is built under another name and renamed. Two builds at once are
kept apart by a lock, and the second finds the first one's work. Takes about 8 minutes on 2 cores from nothing.
"""

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from controlplane.binaries import (
    KUBERNETES_VERSION,
    BuildFailed,
    Report,
    SourceUnavailable,
    cache_folder,
    in_folder,
)

MODULE = Path(__file__).parent  # holds go.mod
PROGRESS_EVERY = 10.0  # seconds
PACKAGES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
}


def ldflags(version: str) -> str:
    """Linker flags: no symbols, and the version that the servers report of themselves."""
    major, minor, _ = version.split(".")
    package = "k8s.io/component-base/version"
    values = {"gitVersion": f"v{version}", "gitMajor": major, "gitMinor": minor}
    return " ".join(["-s", "-w", *(f"-X {package}.{key}={value}" for key, value in values.items())])


def elapsed(seconds: float) -> str:
    """Minutes and seconds for people: `1:05`."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def build(names: Sequence[str], *, report: Report) -> Mapping[str, Path]:
    """Build what the cache lacks and return all of the names.

    Raises SourceUnavailable without Go, BuildFailed when Go is there and fails.
    """
    go = shutil.which("go")
    if go is None:
        raise SourceUnavailable("go is not on PATH")
    if unknown := [name for name in names if name not in PACKAGES]:
        raise SourceUnavailable(f"has no {', '.join(unknown)}")
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with _lock(folder / ".lock", report=report) as lock:
        missing = [name for name in names if name not in in_folder(folder, names)]
        for stale in folder.glob(".*.partial"):  # of a killed build: the lock is ours, so nobody writes it
            stale.unlink()
        started = time.monotonic()
        for count, name in enumerate(missing, start=1):
            step = f"building {name} from Go modules ({count} of {len(missing)})"
            _build_one(go, name, folder, step=step, started=started, lock=lock, report=report)
    return in_folder(folder, names)


def _build_one(go: str, name: str, folder: Path, *, step: str, started: float, lock: int, report: Report) -> None:
    partial = folder / f".{name}.partial"
    command = [go, "build", "-trimpath", "-ldflags", ldflags(KUBERNETES_VERSION), "-o", str(partial), PACKAGES[name]]
    report(f"{step}, {elapsed(time.monotonic() - started)}")
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            command,
            cwd=MODULE,
            env={**os.environ, "CGO_ENABLED": "0"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            process_group=0,
            pass_fds=[lock],  # so that a Go that outlives a killed build still keeps the next one waiting
        )
        try:
            while True:
                try:
                    process.wait(PROGRESS_EVERY)
                    break
                except subprocess.TimeoutExpired:
                    report(f"{step}, {elapsed(time.monotonic() - started)}")
        finally:
            if process.returncode is None:  # interrupted: the compilers Go started end with it
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if process.returncode != 0:
            output.seek(0)
            tail = "".join(output.readlines()[-20:])
            raise BuildFailed(f"go build of {name} ended with {process.returncode}:\n{tail}")
    partial.replace(folder / name)


@contextlib.contextmanager
def _lock(path: Path, *, report: Report) -> Iterator[int]:
    """Hold the lock file; the kernel lets it go when all processes that have it open have ended, however they end."""
    with path.open("w") as file:
        started = time.monotonic()
        told = -PROGRESS_EVERY
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                waited = time.monotonic() - started
                if waited - told >= PROGRESS_EVERY:
                    told = waited
                    report(f"waiting for another build to finish, {elapsed(waited)}")
                time.sleep(0.2)
        yield file.fileno()

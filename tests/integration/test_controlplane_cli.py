"""`python -m controlplane`: what its commands print, and that it leaves nothing, whatever ends it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from controlplane import Found
from controlplane.api import Api
from controlplane.processes import Identity, alive, identify

DEV = Path(__file__).parents[2] / "dev"


def wait_until(condition: Callable[[], bool], *, seconds: float = 30.0) -> None:
    """Return as soon as it holds; fail when it doesn't in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.05)


def serves(kubeconfig: str) -> bool:
    """Whether the API server of a kubeconfig in a control plane's folder is ready."""
    folder = Path(kubeconfig).parent
    url = yaml.safe_load(Path(kubeconfig).read_text())["clusters"][0]["cluster"]["server"]
    port = int(url.rpartition(":")[2])
    api = Api(port, ca=folder / "ca.crt", certificate=folder / "admin.crt", key=folder / "admin.key")
    return api.answers("/readyz")


class Shell:
    """`python -m controlplane` with a state of its own."""

    def __init__(self, folder: Path) -> None:
        self.environment = {**os.environ, "PYTHONPATH": str(DEV), "XDG_STATE_HOME": str(folder)}

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run one command to its end."""
        command = [sys.executable, "-m", "controlplane", *arguments]
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=90, check=False)

    def processes(self) -> list[Identity]:
        """What `status` lists."""
        shown = self.run("status").stdout.splitlines()
        found = [identify(int(line.split()[-1])) for line in shown if " pid " in line]
        return [process for process in found if process is not None]


@pytest.fixture
def shell(control_plane_binaries: Mapping[str, Found], temp_folder: Path, tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path)
    yield shell
    shell.run("down")


def test_up_outlives_its_command_and_down_leaves_nothing(shell: Shell, temp_folder: Path) -> None:
    assert shell.run("status").returncode == 3
    assert shell.run("kubeconfig").returncode == 1
    up = shell.run("up")
    assert up.returncode == 0, up.stderr
    path = up.stdout.strip()
    assert serves(path)
    assert shell.run("kubeconfig").stdout.strip() == path
    left = shell.processes()
    assert len(left) == 5  # owner, watchdog, three servers
    assert shell.run("up").stdout.strip() == path  # a second time changes nothing
    assert shell.processes() == left
    down = shell.run("down")
    assert down.returncode == 0, down.stderr
    assert not any(alive(process) for process in left)
    assert list(temp_folder.iterdir()) == []
    assert shell.run("down").returncode == 0
    assert shell.run("status").returncode == 3


def test_up_after_a_crash_of_owner_and_watchdog_cleans_up_and_starts_anew(shell: Shell, temp_folder: Path) -> None:
    first = shell.run("up").stdout.strip()
    left = shell.processes()
    lines = shell.run("status").stdout.splitlines()
    pids = {line.split()[0]: int(line.split()[-1]) for line in lines if " pid " in line}
    os.kill(pids["watchdog"], signal.SIGKILL)
    os.kill(pids["owner"], signal.SIGKILL)
    wait_until(lambda: identify(pids["owner"]) is None)
    assert identify(pids["etcd"]) is not None  # nobody was there to end it
    second = shell.run("up").stdout.strip()
    assert second != first
    assert not any(alive(process) for process in left)
    assert [str(path) for path in temp_folder.iterdir()] == [str(Path(second).parent)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_in_the_foreground_it_runs_until_it_is_told_to_end(
    shell: Shell, temp_folder: Path, number: signal.Signals
) -> None:
    command = [sys.executable, "-m", "controlplane", "up", "--foreground"]
    with subprocess.Popen(command, env=shell.environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        path = process.stdout.readline().strip()
        assert serves(path)
        process.send_signal(number)
        assert process.wait(20) == 0
    assert list(temp_folder.iterdir()) == []
    assert shell.run("status").returncode == 3

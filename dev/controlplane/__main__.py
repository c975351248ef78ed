"""`python -m controlplane`: a control plane from the shell.

    up            start one in the background (or say where it runs) and print its kubeconfig's path
    up --foreground   the same, ended by Ctrl-C or SIGTERM
    down          end it; nothing of it is left
    status        what runs; exit code 3 when nothing does
    kubeconfig    print the path; exit code 1 when nothing runs
    binaries      obtain the binaries and say where they came from

Results go to stdout, progress and faults to stderr. One control plane per user and XDG_STATE_HOME.
"""

import argparse
import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from controlplane import state
from controlplane.binaries import REQUIRED, BinariesUnavailable, BuildFailed, obtain
from controlplane.build import PACKAGES
from controlplane.plane import READY_WITHIN, ControlPlane, StartFailed
from controlplane.processes import alive, identify, send

NOTHING_RUNS = 3
DOWN_WITHIN = 15.0  # seconds


def say(line: str) -> None:
    """Progress and faults, for people."""
    print(f"controlplane: {line}", file=sys.stderr, flush=True)


def pointer() -> Path:
    """The file that holds the folder of the control plane that is up."""
    home = os.environ.get("XDG_STATE_HOME")
    base = Path(home) if home else Path.home() / ".local" / "state"
    return base / "vidra" / "controlplane"


def recorded() -> state.State | None:
    """The control plane the pointer names, whether or not it still runs."""
    try:
        return state.load(Path(pointer().read_text()))
    except FileNotFoundError:
        return None


def running() -> state.State | None:
    """The control plane that is up."""
    found = recorded()
    return found if found is not None and alive(found.owner) else None


@contextlib.contextmanager
def only_one() -> Iterator[None]:
    """Keeps two `up` or `down` from working at once."""
    pointer().parent.mkdir(parents=True, exist_ok=True)
    with pointer().with_suffix(".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def up() -> int:
    """Start the foreground command in a session of its own and wait until it has said that it is ready."""
    binaries = obtain(report=say)  # here, where progress is seen
    del binaries
    with only_one():
        if found := running():
            say("is up already")
            print(found.directory / "kubeconfig")
            return 0
        with tempfile.TemporaryFile("w+") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "controlplane", "up", "--foreground"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            deadline = time.monotonic() + 2 * READY_WITHIN
            while time.monotonic() < deadline and process.poll() is None:
                found = running()
                if found is not None and found.owner == identify(process.pid):
                    print(found.directory / "kubeconfig")
                    return 0
                time.sleep(0.05)
            process.terminate()
            process.wait()
            output.seek(0)
            sys.stderr.write(output.read())
    return 1


def foreground() -> int:
    """Run a control plane until SIGINT or SIGTERM, or until one of its servers ends by itself."""
    told = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: told.set())
    if running():
        say("is up already; `down` ends it")
        return 1
    if left := recorded():
        state.clean(left)
    with ControlPlane(binaries=obtain(report=say)) as plane:
        pointer().parent.mkdir(parents=True, exist_ok=True)
        pointer().write_text(str(plane.directory))
        print(plane.kubeconfig_path, flush=True)
        try:
            while not told.wait(0.5):
                if dead := [server for server in plane.servers if not server.running]:
                    say(f"{dead[0].name} ended:\n{dead[0].log_tail()}")
                    return 1
        finally:
            pointer().unlink(missing_ok=True)
    return 0


def down() -> int:
    """End what is up by asking its owner, or clean up after one that is gone."""
    with only_one():
        found = recorded()
        if found is None:
            say("is down")
        else:
            send(found.owner, signal.SIGTERM)
            deadline = time.monotonic() + DOWN_WITHIN
            while alive(found.owner) and time.monotonic() < deadline:
                time.sleep(0.05)
            send(found.owner, signal.SIGKILL)
            state.clean(found)
        pointer().unlink(missing_ok=True)
    return 0


def status() -> int:
    """One line per process."""
    found = running()
    if found is None:
        print("down")
        return NOTHING_RUNS
    print(f"up, {found.directory / 'kubeconfig'}")
    for name, process in {"owner": found.owner, **found.processes}.items():
        print(f"{name} {'runs' if alive(process) else 'ended'}, pid {process.pid}")
    return 0


def kubeconfig() -> int:
    """Only the path, for `KUBECONFIG=$(...)`."""
    found = running()
    if found is None:
        say("is down")
        return 1
    print(found.directory / "kubeconfig")
    return 0


def binaries(names: list[str]) -> int:
    """Obtain and list: name, path, source."""
    for name, found in obtain(names or REQUIRED, report=say).items():
        print(f"{name} {found.path} ({found.source})")
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="controlplane", description="A real Kubernetes control plane on loopback.")
    commands = parser.add_subparsers(dest="command", required=True)
    starts = commands.add_parser("up", help="start it and print the kubeconfig's path")
    starts.add_argument("--foreground", action="store_true", help="run until Ctrl-C or SIGTERM")
    for name, text in (("down", "end it"), ("status", "what runs"), ("kubeconfig", "print the path")):
        commands.add_parser(name, help=text)
    obtains = commands.add_parser("binaries", help="obtain the binaries")
    obtains.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(PACKAGES)}; default: all needed")
    chosen = parser.parse_args(arguments)
    try:
        match chosen.command:
            case "up":
                return foreground() if chosen.foreground else up()
            case "binaries":
                return binaries(chosen.names)
            case command:
                return {"down": down, "status": status, "kubeconfig": kubeconfig}[command]()
    except (BinariesUnavailable, BuildFailed, StartFailed) as error:
        say(str(error))
        return 1


if __name__ == "__main__":
    sys.exit(main())

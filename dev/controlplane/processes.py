"""Processes that end with the one that started them.

A process is named by its pid and the moment it started, so that a pid the system gave to somebody else is never
signalled. Servers stand in the process group of a watchdog (watchdog.py), which ends them when their owner is gone.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Identity:
    """A process for good: `started` is an opaque token of its start time."""

    pid: int
    started: str


def parse_stat(text: str) -> tuple[str, str]:
    """State letter and start time in clock ticks of a Linux /proc/PID/stat line.

    The second field is the program's name in brackets, and may itself hold blanks and brackets.
    """
    fields = text.rpartition(")")[2].split()
    return fields[0], fields[19]


def identify(pid: int) -> Identity | None:
    """The process that has this pid now, or None when there is none or only its exit status is left."""
    if sys.platform == "linux":
        try:
            state, ticks = parse_stat(Path(f"/proc/{pid}/stat").read_text())
            boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        except (FileNotFoundError, ProcessLookupError):
            return None
        return None if state in "ZX" else Identity(pid, f"{boot}:{ticks}")
    shown = subprocess.run(["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    state, _, started = shown.stdout.strip().partition(" ")
    return None if not started or state.startswith("Z") else Identity(pid, started.strip())


def alive(process: Identity) -> bool:
    """Whether this very process runs."""
    return identify(process.pid) == process


def send(process: Identity, number: signal.Signals) -> None:
    """Signal this very process; nothing happens when it is gone."""
    if alive(process):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)


class Watchdog:
    """Ends a process group and removes a folder when this process is gone, were it by SIGKILL."""

    def __init__(self, directory: Path) -> None:
        script = Path(__file__).with_name("watchdog.py")
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(script), str(directory), str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=0,
        )

    @property
    def group(self) -> int:
        """The process group for the servers; also the watchdog's pid."""
        return self._process.pid

    def release(self) -> None:
        """Send the watchdog home: all has been cleaned up."""
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate(b".")
        self._process.wait()


class Server:
    """One server process, its log, and its ends."""

    def __init__(self, name: str, command: Sequence[str], *, log: Path, directory: Path, group: int) -> None:
        self.name = name
        self.log = log
        self._command = list(command)
        self._directory = directory
        self._group = group
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it (again); the log is appended to."""
        assert not self.running, f"{self.name} runs already"
        environment = {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(self._directory),
            "TMPDIR": str(self._directory),
        }  # nothing else, or a proxy or KUBE* variable of the shell would change what a server does
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                process_group=self._group,
            )

    @property
    def pid(self) -> int:
        """The pid of the last start."""
        assert self._process is not None, f"{self.name} was never started"
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """End it at once, as a crash would: open connections are reset. Returns when it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def terminate(self, timeout: float = 30.0) -> None:
        """Ask it to end and wait, at most `timeout` seconds, then kill it."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()

    def log_tail(self, lines: int = 15) -> str:
        """The last lines of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:]) if self.log.exists() else ""

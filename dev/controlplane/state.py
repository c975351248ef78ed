"""What is written down about a running control plane, so that another process can end it or clean up after it.

Only processes whose pid and start time are written down are ever signalled.
"""

import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from controlplane.processes import Identity, alive, identify, send

PREFIX = "vidra-controlplane-"
FILE = "state.json"


@dataclass(frozen=True)
class State:
    """A control plane as its folder's state file has it. `processes` are watchdog and servers by name."""

    directory: Path
    owner: Identity
    processes: Mapping[str, Identity] = field(default_factory=dict)

    def to_json(self) -> str:
        """The text of the state file."""
        document: dict[str, Any] = {
            "directory": str(self.directory),
            "owner": asdict(self.owner),
            "processes": {name: asdict(process) for name, process in self.processes.items()},
        }
        return json.dumps(document, indent=2)

    @classmethod
    def from_json(cls, text: str) -> "State":
        """The reverse. Raises ValueError for anything else."""
        try:
            document = json.loads(text)
            return cls(
                Path(document["directory"]),
                Identity(**document["owner"]),
                {name: Identity(**process) for name, process in document["processes"].items()},
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a state file: {error}") from error

    def save(self) -> None:
        """Write the state file, whole or not at all."""
        partial = self.directory / f".{FILE}"
        partial.write_text(self.to_json())
        partial.replace(self.directory / FILE)


def this_process() -> Identity:
    """The process that runs this."""
    process = identify(os.getpid())
    assert process is not None
    return process


def load(directory: Path) -> State | None:
    """The state of the control plane in a folder, or None when there is none that can be read."""
    try:
        state = State.from_json((directory / FILE).read_text())
    except (OSError, ValueError):
        return None
    return state if state.directory == directory else None


def clean(state: State, *, timeout: float = 10.0) -> None:
    """End what is left of a control plane whose owner is gone, and remove its folder."""
    left = list(state.processes.values())
    for process in left:
        send(process, signal.SIGKILL)
    deadline = time.monotonic() + timeout
    while any(alive(process) for process in left) and time.monotonic() < deadline:
        time.sleep(0.02)
    shutil.rmtree(state.directory, ignore_errors=True)


def sweep() -> list[Path]:
    """Clean up after every control plane of this user that lost both owner and watchdog; returns their folders."""
    swept: list[Path] = []
    for directory in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            ours = directory.is_dir() and not directory.is_symlink() and directory.stat().st_uid == os.getuid()
        except FileNotFoundError:  # ended meanwhile
            continue
        state = load(directory) if ours else None
        if state is None or alive(state.owner):
            continue
        watchdog = state.processes.get("watchdog")
        if watchdog is not None and alive(watchdog):  # at it already
            continue
        clean(state)
        swept.append(directory)
    return swept

"""Outlives the owner of a control plane by a moment, to end its servers and remove its folder.

    watchdog.py DIRECTORY OWNER_PID

Runs alone (`python -I -S`), as leader of the process group the servers are in. Its stdin is a pipe from the owner: a
byte means all is cleaned up; the end of the pipe, or a new parent, means the owner is gone. The parent is looked at
too because a process the owner forked may hold the pipe open.
"""

import os
import select
import shutil
import signal
import sys
import time

LOOK_EVERY = 1.0  # seconds
GONE_WITHIN = 10.0  # seconds


def owner_is_gone(owner: int) -> bool:
    """Wait for the owner's word (False) or its end (True)."""
    while True:
        if select.select([sys.stdin], [], [], LOOK_EVERY)[0]:
            return not os.read(sys.stdin.fileno(), 1)
        if os.getppid() != owner:
            return True


def end_group(group: int) -> None:
    """Kill the group and wait, bounded, until nobody is in it."""
    deadline = time.monotonic() + GONE_WITHIN
    try:
        os.killpg(group, signal.SIGKILL)
        while time.monotonic() < deadline:
            os.killpg(group, 0)
            time.sleep(0.02)
    except ProcessLookupError:
        pass


def main() -> None:
    """Wait, and clean up if need be."""
    directory, owner = sys.argv[1], int(sys.argv[2])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    group = os.getpgrp()
    if owner_is_gone(owner) and os.fork() == 0:
        os.setpgid(0, 0)  # a child outside the group can kill all of it, and then see it empty
        end_group(group)
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()

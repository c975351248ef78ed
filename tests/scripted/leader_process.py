"""A process that writes a ConfigMap as fast as it may while it leads; run as `python -m tests.scripted.leader_process`.

It says on standard output when it leads. SIGTERM ends it in order, SIGUSR1 blocks its event loop by work for a minute.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import structlog
from tests.integration.kube_support import CONFIGMAPS

from vidra.kube import config
from vidra.kube.client import Client, PatchType
from vidra.kube.errors import KubeError
from vidra.kube.session import Session
from vidra.runtime.fence import Fence, Watchdog
from vidra.runtime.leader import Elector, LeaseLost
from vidra.runtime.lease import KubeLease, LeaseTimes, lease_session

#: Short, so that tests are. As in the defaults, about a third of the lease is left when the fence closes.
TIMES = LeaseTimes(duration=4, renew_deadline=2.8, retry=0.5)
#: Exit status after a lost lease.
LOST = 3


async def write_on(client: Client, namespace: str, name: str) -> None:
    """A write every 50 ms, whatever became of the last one. Asked to end, it makes one more, as a status would be."""
    number = 0

    async def write(**data: str) -> None:
        await client.patch(CONFIGMAPS, "journal", {"data": data}, PatchType.MERGE, namespace=namespace)

    try:
        while True:
            with suppress(KubeError):
                await write(by=name, number=str(number))
            number += 1
            await asyncio.sleep(0.05)
    finally:
        with suppress(KubeError):
            await write(last=name)


async def main(arguments: argparse.Namespace) -> int:
    fence = Fence(slack=TIMES.patience)
    loader = config.loader(arguments.kubeconfig)
    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, task.cancel)
    loop.add_signal_handler(signal.SIGUSR1, block)
    async with lease_session(loader, TIMES) as own, Session(loader, guard=fence.check) as session:
        elector = Elector(
            KubeLease(Client(own), arguments.namespace, "lease"),
            fence,
            identity=arguments.name,
            times=TIMES,
            watchdog=Watchdog(fence, patience=TIMES.patience) if arguments.watchdog == "yes" else None,
            observer=lambda leads: print("leading" if leads else "not leading", flush=True),
        )
        try:
            await elector.run(lambda: write_on(Client(session), arguments.namespace, arguments.name))
        except LeaseLost as lost:
            print(f"lost: {lost}", flush=True)
            return LOST
        except asyncio.CancelledError:
            return 0
    return 1


def block() -> None:
    print("blocked", flush=True)
    until = time.monotonic() + 60
    while time.monotonic() < until:
        pass


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    parser = argparse.ArgumentParser()
    parser.add_argument("kubeconfig", type=Path)
    for argument in ("namespace", "name", "watchdog"):
        parser.add_argument(argument)
    sys.exit(asyncio.run(main(parser.parse_args())))

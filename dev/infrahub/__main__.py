"""`python -m infrahub`: run a stand-in until it is told to stop. The first line out is its URL."""

from __future__ import annotations

import argparse
import asyncio
import signal

from infrahub.rest import NEWEST
from infrahub.seeds import SEEDS, named
from infrahub.server import Standin


async def serve(standin: Standin) -> None:
    """Run until SIGINT or SIGTERM."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    async with standin:
        print(standin.url, flush=True)
        await stopped.wait()


def main() -> None:
    """Read the arguments and serve."""
    parser = argparse.ArgumentParser(prog="python -m infrahub", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on; pods can't reach the default")
    parser.add_argument("--port", type=int, default=0, help="port to listen on (default: a free one)")
    parser.add_argument("--seed", choices=SEEDS, default="webservers")
    parser.add_argument("--count", type=int, default=3, help="artifacts of the seeds webservers and bench")
    parser.add_argument("--server-version", default=NEWEST)
    arguments = parser.parse_args()
    settings = {"count": arguments.count} if arguments.seed in ("webservers", "bench") else {}
    seed = named(arguments.seed, **settings)
    standin = Standin(seed=seed, host=arguments.host, port=arguments.port, server_version=arguments.server_version)
    asyncio.run(serve(standin))


if __name__ == "__main__":
    main()

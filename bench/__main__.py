"""`python -m bench [--artifacts N] [--objects N] [--only TEXT] [--json FILE]`: the table of docs/benchmarks.md.

Every contender has a control plane of its own, on this machine, one after the other.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from bench import peers, rows
from bench.report import Row, table
from controlplane import obtain


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Vidra beside bare API calls and kubectl.")
    parser.add_argument("--artifacts", type=int, default=100)
    parser.add_argument("--objects", type=int, default=6, help="objects of each artifact")
    parser.add_argument("--idle", type=float, default=60.0, help="seconds of the idle row")
    parser.add_argument("--only", default="", help="rows whose name holds this")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    options = parser.parse_args()
    obtain(report=print)
    measured = asyncio.run(_measure(options))
    print(f"\n{os.cpu_count()} cores, Python {sys.version.split()[0]}\n\n{table(measured)}")
    if options.json:
        options.json.write_text(json.dumps([row.wire() for row in measured], indent=2))
    return 0


async def _measure(options: argparse.Namespace) -> list[Row]:
    artifacts, objects = options.artifacts, options.objects
    contenders: dict[str, Callable[[], Awaitable[Row | list[Row]]]] = {
        "bare applies": lambda: peers.bare_applies(artifacts, objects),
        "bare all": lambda: peers.bare_all(artifacts, objects),
        "kubectl": lambda: peers.kubectl(artifacts, objects),
        "vidra": lambda: rows.from_nothing_and_again(artifacts, objects),
        "vidra 5x": lambda: rows.from_nothing_and_again(5 * artifacts, objects),
        "idle": lambda: rows.idle(artifacts, objects, options.idle),
        "shared namespace": lambda: rows.shared_namespace(10 * artifacts),
    }
    measured: list[Row] = []
    for name, contender in contenders.items():
        if options.only in name:
            print(f"bench: {name} ...", flush=True)
            answer = await contender()
            measured += answer if isinstance(answer, list) else [answer]
    return measured


if __name__ == "__main__":
    sys.exit(main())

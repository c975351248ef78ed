"""`python -m bench [--rows LIST] [--repeat N] [--json FILE] [--profile FILE]`: the table of docs/benchmarks.md.

Every contender has a control plane of its own, on this machine, one after the other; a repeat goes through all of them,
so that what else the machine does falls on each of them alike.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

from bench import bare, peers, rows
from bench.report import Measured, machine, table
from controlplane import obtain

ROWS = ("first", "again", "idle", "shared", "growth")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Vidra beside bare API calls and kubectl.",
        epilog=f"Rows: {', '.join(ROWS)}.",
    )
    parser.add_argument("--rows", type=_rows, default=list(ROWS), help="which, with commas between; all of them")
    parser.add_argument("--repeat", type=int, default=1, help="times; the table has medians")
    parser.add_argument("--artifacts", type=int, default=100)
    parser.add_argument("--objects", type=int, default=6, help="objects of each artifact")
    parser.add_argument("--idle", type=float, default=60.0, help="seconds of the idle row")
    parser.add_argument("--json", type=Path, help="write every single measurement here")
    parser.add_argument("--profile", type=Path, help="run the operator of the first row alone, under cProfile")
    options = parser.parse_args()
    obtain(report=print)
    measured = asyncio.run(_measure(options))
    print(f"\n{machine()}\n\n{table(measured)}")
    if options.json:
        wire = {"machine": machine(), "measured": [row.wire() for row in measured]}
        options.json.write_text(json.dumps(wire, indent=2) + "\n")
    return 0


def _rows(text: str) -> list[str]:
    names = text.split(",")
    if unknown := set(names) - set(ROWS):
        raise argparse.ArgumentTypeError(f"no such row: {', '.join(sorted(unknown))}; there are {', '.join(ROWS)}")
    return names


async def _measure(options: argparse.Namespace) -> list[Measured]:
    measured: list[Measured] = []
    for repeat in range(options.repeat):
        async for found in _once(options):
            measured += [replace(row, repeat=repeat) for row in found]
            for row in found:
                print(
                    f"bench: {repeat + 1}/{options.repeat} {row.work}: {row.contender}: {row.seconds:.2f} s", flush=True
                )
    return measured


async def _once(options: argparse.Namespace) -> AsyncIterator[Sequence[Measured]]:
    artifacts, objects = options.artifacts, options.objects
    first = f"{artifacts} artifacts x {objects}, from nothing"
    works = [first, "the same again"] if "again" in options.rows else [first]
    if options.profile:
        yield await rows.from_nothing_and_again(artifacts, objects, [first], options.profile)
        return
    if {"first", "again"} & set(options.rows):
        yield await bare.applies(artifacts, objects, works)
        yield [await bare.everything(artifacts, objects, first)]
        yield await peers.kubectl(artifacts, objects, works)
        yield await rows.from_nothing_and_again(artifacts, objects, works)
    if "idle" in options.rows:
        yield [await rows.idle(artifacts, objects, options.idle, f"idle, {artifacts * objects} objects")]
    if "shared" in options.rows:
        yield [await rows.shared_namespace(10 * artifacts, f"{10 * artifacts} resources share a Namespace")]
    if "growth" in options.rows:
        for size in (artifacts, 5 * artifacts):
            yield [await rows.growth(size, objects, f"memory with {size * objects} objects")]


if __name__ == "__main__":
    sys.exit(main())

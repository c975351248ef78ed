"""Three processes that come and go, over lines that are slow, cut and silent at random: at no moment may two write."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from tests.scripted.lease_store import Process, Record, cut, hang
from tests.scripted.virtual_time import run

from vidra.kube.errors import Fenced

SECONDS = 600.0


@dataclass
class Journal:
    """Who wrote when."""

    writes: list[tuple[float, str]] = field(default_factory=list)

    def changes_of_hand(self) -> int:
        return sum(1 for (_, a), (_, b) in zip(self.writes, self.writes[1:], strict=False) if a != b)


def fault(rand: random.Random) -> Callable[[], object]:
    kind = rand.choice(["slow", "cut", "silent", "fine", "fine"])
    if kind == "slow":
        return lambda: asyncio.sleep(rand.uniform(0, 4))
    return {"cut": cut, "silent": hang, "fine": lambda: asyncio.sleep(rand.uniform(0, 0.05))}[kind]


async def live(record: Record, name: str, journal: Journal, rand: random.Random) -> None:
    """A process that writes what it can, and is started again when it has ended."""
    loop = asyncio.get_running_loop()
    while True:
        process = Process(record, f"{name}{loop.time():.0f}", rand=rand.random)
        process.line.watches = rand.random() < 0.7

        async def work(process: Process = process) -> None:
            while True:
                await asyncio.sleep(rand.uniform(0.01, 0.3))
                try:
                    process.fence.check()
                except Fenced:
                    continue  # what is cancelled late tries on
                journal.writes.append((loop.time(), process.name))

        task = process.start(work)
        ends_at = loop.time() + rand.expovariate(1 / 120)
        while not task.done() and loop.time() < ends_at:
            process.line.there = fault(rand)  # type: ignore[assignment]
            process.line.back = fault(rand)  # type: ignore[assignment]
            await asyncio.wait([task], timeout=rand.expovariate(1 / 6))
        task.cancel()
        await asyncio.wait([task])


@pytest.mark.parametrize("seed", range(25))
def test_never_do_two_write_in_turns(seed: int) -> None:
    async def story() -> Journal:
        rand, record, journal = random.Random(seed), Record(), Journal()
        processes = [asyncio.create_task(live(record, name, journal, rand)) for name in "abc"]
        await asyncio.sleep(SECONDS)
        for process in processes:
            process.cancel()
        await asyncio.wait(processes)
        return journal

    journal = run(story())
    names = [name for _, name in journal.writes]
    assert len(names) > 200, "hardly anybody got to write"
    assert journal.changes_of_hand() > 2, "it was always the same one"
    order = list(dict.fromkeys(names))
    assert names == sorted(names, key=order.index), "one wrote, another did, and the first one did again"

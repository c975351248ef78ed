"""What was measured, and how it is shown: medians of the repeats, with the ratio to the floor of the same repeat."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One contender at one piece of work, once. All times are seconds.

    ``cpu`` is the contender's processor time, ``server_cpu`` that of API server and etcd meanwhile. ``requests`` are
    counted by the audit log, by verb. ``memory`` is the contender's resident bytes at the end (0: not measured).
    ``floor`` marks what the ratios of the same work are taken to.
    """

    work: str
    contender: str
    seconds: float
    cpu: float = 0.0
    server_cpu: float = 0.0
    requests: Mapping[str, int] = field(default_factory=dict)
    memory: int = 0
    note: str = ""
    floor: bool = False
    repeat: int = 0

    def wire(self) -> dict[str, Any]:
        return {name: round(value, 3) if isinstance(value, float) else value for name, value in asdict(self).items()}


def machine() -> str:
    """The machine in words that belong beside every figure."""
    total = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal:"))
    memory = f"{int(total.split()[1]) / 1024**2:.0f} GB"
    return f"{os.cpu_count()} cores, {memory}, {platform.system()}, Python {platform.python_version()}"


def table(measured: Sequence[Measured]) -> str:
    """As Markdown, ready for docs/benchmarks.md."""
    lines = [
        "| work | who | seconds | to the floor | own CPU | servers' CPU | requests | memory | |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    floors = {(row.work, row.repeat): row.seconds for row in measured if row.floor}
    for work, contender in dict.fromkeys((row.work, row.contender) for row in measured):
        rows = [row for row in measured if (row.work, row.contender) == (work, contender)]
        ratios = [row.seconds / floors[work, row.repeat] for row in rows if (work, row.repeat) in floors]
        last = rows[-1]
        cells = [
            work,
            contender,
            _spread([row.seconds for row in rows]),
            f"{median(ratios):.2f}x" if ratios else "",
            f"{median(row.cpu for row in rows):.2f}",
            f"{median(row.server_cpu for row in rows):.2f}",
            _requests(last.requests.items()),
            f"{median(row.memory for row in rows) / 1e6:.0f} MB" if last.memory else "",
            last.note,
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _spread(values: Sequence[float]) -> str:
    middle = f"{median(values):.2f}"
    return f"{middle} ({min(values):.2f} to {max(values):.2f})" if len(values) > 1 else middle


def _requests(counts: Iterable[tuple[str, int]]) -> str:
    counted = sorted(counts)
    total = sum(count for _, count in counted)
    return f"{total} ({', '.join(f'{count} {verb}' for verb, count in counted)})" if counted else "0"

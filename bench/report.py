"""What a row says, and how it is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Row:
    """``seconds`` of wall-clock time, requests by verb as the audit log has them, and the resident bytes of the
    contender's process at the end (0: not measured)."""

    name: str
    seconds: float
    requests: Mapping[str, int] = field(default_factory=dict)
    memory: int = 0
    note: str = ""

    def wire(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "seconds": round(self.seconds, 3),
            "requests": dict(self.requests),
            "memory": self.memory,
            "note": self.note,
        }


def table(rows: Sequence[Row]) -> str:
    """As Markdown, ready for docs/benchmarks.md."""
    lines = ["| work | seconds | requests | memory | |", "|---|---|---|---|---|"]
    for row in rows:
        verbs = ", ".join(f"{count} {verb}" for verb, count in sorted(row.requests.items()))
        requests = f"{sum(row.requests.values())} ({verbs})" if row.requests else ""
        memory = f"{row.memory / 1e6:.0f} MB" if row.memory else ""
        lines.append(f"| {row.name} | {row.seconds:.2f} | {requests} | {memory} | {row.note} |")
    return "\n".join(lines)

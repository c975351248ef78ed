"""docs/runtime.md promises a test for each guarantee: it must be there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "runtime.md").read_text()
IDS = [*(f"R{n}" for n in range(1, 16)), *(f"Q{n}" for n in range(1, 8)), *(f"C{n}" for n in range(1, 7))]
IDS += [*(f"P{n}" for n in range(1, 6)), *(f"F{n}" for n in range(1, 4))]
IDS += [*(f"L{n}" for n in range(1, 6)), *(f"E{n}" for n in range(1, 4))]


def rows() -> list[list[str]]:
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in TEXT.splitlines() if line[:1] == "|"]
    return [row for row in cells if row[0] not in {"id", "guarantee"} and not set(row[0]) <= {"-"}]


def test_each_guarantee_has_a_row() -> None:
    assert [row[0] for row in rows() if len(row) == 3] == IDS


def test_each_row_names_tests_that_exist() -> None:
    files = [*ROOT.glob("tests/unit/**/test_*.py"), *ROOT.glob("tests/integration/test_*.py")]
    test = re.compile(r"^(?:async )?def (test_\w+)", re.MULTILINE)
    there = {name for file in files for name in test.findall(file.read_text())}
    for row in rows():
        named = re.findall(r"`(test_\w+)`", row[-1])
        assert named, f"no test holds this: {row}"
        assert set(named) <= there, f"there is no {set(named) - there}"

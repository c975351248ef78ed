"""What CI runs, with a `make` that only pretends: the closing line is the last one, and counts all that ran."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
#: Writes the report that the target would write: `PASSED_test=3 FAILED_test=1`; no number, no report.
MAKE = """#!/bin/bash
echo "make $1"
[ "$1" = test ] && name=test || name=e2e
passed=PASSED_$name failed=FAILED_$name
[ -n "${!passed:-}" ] || exit 1
mkdir -p build/reports
{
    echo '<testsuite>'
    for number in $(seq "${!passed}"); do echo "<testcase name='passed$number'/>"; done
    for number in $(seq "${!failed:-0}"); do echo "<testcase name='failed$number'><failure/></testcase>"; done
    echo '</testsuite>'
} > "build/reports/$name.xml"
[ "${!failed:-0}" = 0 ]
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The script and what it calls, in a checkout with nothing else; on PATH the pretended `make` and bare tools."""
    for name in (".ci/run", "dev/closing_line.py", "dev/find-python"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    tools = tmp_path / "tools"
    tools.mkdir()
    program(tools / "make", MAKE)
    for name in ("bash", "sh", "mkdir", "rm", "seq", "dirname"):
        found = shutil.which(name)
        assert found is not None
        (tools / name).symlink_to(found)
    (tools / "python3").symlink_to(sys.executable)
    return tmp_path


def program(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


def ci(checkout: Path, **environment: str) -> tuple[int, str, list[str]]:
    """Exit code, last line, and the targets that were made."""
    done = subprocess.run(
        [str(checkout / ".ci/run")],
        env={"PATH": str(checkout / "tools"), "HOME": os.environ.get("HOME", "/"), "CI": "true"} | environment,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    lines = done.stdout.splitlines()
    return done.returncode, lines[-1], [line.split()[1] for line in lines if line.startswith("make ")]


def test_without_a_cluster_for_pods_the_tests_alone_are_counted(checkout: Path) -> None:
    assert ci(checkout, PASSED_test="3") == (0, "3 passed, 0 failed, 0 skipped", ["test"])


def test_a_failed_test_fails_ci_and_nothing_else_is_begun(checkout: Path) -> None:
    tool = str(program(checkout / "node", "#!/bin/bash\n"))
    assert ci(checkout, PASSED_test="3", FAILED_test="2", E2E_NODE_TOOL=tool) == (
        1,
        "3 passed, 2 failed, 0 skipped",
        ["test"],
    )


def test_a_run_that_never_came_to_the_tests_counts_as_a_failure(checkout: Path) -> None:
    assert ci(checkout) == (1, "0 passed, 1 failed, 0 skipped", ["test"])


def test_with_a_tool_that_works_here_the_end_to_end_tests_are_counted_too(checkout: Path) -> None:
    tool = str(program(checkout / "node", "#!/bin/bash\necho down\n"))
    environment = {"PASSED_test": "3", "E2E_NODE_TOOL": tool}
    assert ci(checkout, PASSED_e2e="2", **environment) == (0, "5 passed, 0 failed, 0 skipped", ["test", "e2e-node"])
    assert ci(checkout, PASSED_e2e="1", FAILED_e2e="1", **environment)[:2] == (1, "4 passed, 1 failed, 0 skipped")


def test_end_to_end_tests_that_could_not_begin_count_as_a_failure_though_an_old_report_is_there(checkout: Path) -> None:
    tool = str(program(checkout / "node", "#!/bin/bash\necho down\n"))
    ci(checkout, PASSED_test="3", PASSED_e2e="2", E2E_NODE_TOOL=tool)
    assert ci(checkout, PASSED_test="3", E2E_NODE_TOOL=tool)[:2] == (1, "3 passed, 1 failed, 0 skipped")


def test_a_tool_that_can_not_work_here_is_left_alone(checkout: Path) -> None:
    tool = str(program(checkout / "node", "#!/bin/bash\necho needs root >&2\nexit 1\n"))
    assert ci(checkout, PASSED_test="3", E2E_NODE_TOOL=tool) == (0, "3 passed, 0 failed, 0 skipped", ["test"])

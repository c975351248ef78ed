"""The closing line is what CI is read by, so it must not say that all is well when it isn't."""

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "dev" / "closing_line.py"
SPEC = importlib.util.spec_from_file_location("closing_line", SCRIPT)
assert SPEC is not None
assert SPEC.loader is not None
closing_line = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(closing_line)


def report(folder: Path, name: str, cases: str) -> str:
    path = folder / name
    path.write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
    return str(path)


def case(name: str, outcome: str = "") -> str:
    return f'<testcase classname="tests.a" name="{name}">{outcome}</testcase>'


def test_the_line_adds_up_several_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = report(tmp_path, "1.xml", case("a") + case("b", "<skipped/>"))
    second = report(tmp_path, "2.xml", case("a") + case("c"))

    assert closing_line.main([first, second]) == 0
    assert capsys.readouterr().out == "3 passed, 0 failed, 1 skipped\n"


def test_a_test_that_passes_and_fails_to_clean_up_is_one_failed_test(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    only = report(tmp_path, "1.xml", case("a") + case("a", "<error/>") + case("b", "<failure/>"))

    assert closing_line.main([only]) == 1
    assert capsys.readouterr().out == "0 passed, 2 failed, 0 skipped\n"


def test_a_run_that_left_no_report_has_failed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = report(tmp_path, "1.xml", case("a"))
    cut_short = tmp_path / "2.xml"
    cut_short.write_text("<testsuites>")

    assert closing_line.main([good, str(cut_short), str(tmp_path / "3.xml")]) == 1
    assert capsys.readouterr().out == "1 passed, 2 failed, 0 skipped\n"


def test_a_run_of_no_tests_has_failed(tmp_path: Path) -> None:
    assert closing_line.main([report(tmp_path, "1.xml", "")]) == 1

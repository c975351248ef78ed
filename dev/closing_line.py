"""`python dev/closing_line.py REPORT...`: the closing line of one or several test runs, from their JUnit reports.

Prints `N passed, N failed, N skipped` and nothing else. A missing or unreadable report counts as a failure, since the
run that should have written it ended early. Exit code 1 when anything failed or nothing ran.
"""

import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path


def outcomes(report: Path) -> Counter[str]:
    """How many tests of one report passed, failed (errors too) and were skipped."""
    try:
        cases = list(ElementTree.parse(report).iter("testcase"))
    except (OSError, ElementTree.ParseError) as error:
        print(f"no test report {report}: {error}", file=sys.stderr)
        return Counter(failed=1)
    # A test with an error in its teardown has two entries; it is one failed test.
    by_test: dict[tuple[str | None, str | None], str] = {}
    for case in cases:
        name = (case.get("classname"), case.get("name"))
        if case.find("failure") is not None or case.find("error") is not None:
            by_test[name] = "failed"
        elif case.find("skipped") is not None:
            by_test.setdefault(name, "skipped")
        else:
            by_test.setdefault(name, "passed")
    return Counter(by_test.values())


def main(reports: list[str]) -> int:
    """Print the line for all reports together."""
    total = sum((outcomes(Path(report)) for report in reports), Counter[str]())
    print(f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped", flush=True)
    return 1 if total["failed"] or not total.total() else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""docs/states.md lists what there is, no more and no less."""

import re
from pathlib import Path

from vidra.api.states import Reason, State

TEXT = (Path(__file__).parents[3] / "docs" / "states.md").read_text()


def first_words(section: str) -> set[str]:
    """The first cells of the table below a heading."""
    text = TEXT.split(f"## {section}\n")[1].split("\n## ")[0]
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    return {re.split(r"\s*\|\s*", row)[1] for row in rows[1:]} - {"---"}


def test_every_state_is_documented_and_none_else() -> None:
    assert first_words("States") == {state.value for state in State}


def test_every_reason_is_documented_and_none_else() -> None:
    assert first_words("Reasons") == {reason.value for reason in Reason}

"""Why a text can't be read, with its line, and whose text it was as far as that was read.

libyaml's own words are kept, since people find them elsewhere; what stood in the text is left out of them.
"""

from __future__ import annotations

import re
from typing import Any

from yaml import MarkedYAMLError

# What libyaml's reader lets through; the rest may stand in no YAML text.
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class ReadError(Exception):
    """Text that can't be read. ``line`` counts from 1; ``message`` holds no value of the text.

    ``ahead``: complete documents that stand before the broken one in the same part of the text. ``partial``: what had
    been read of the broken one, or None. ``position``: of a character that may not stand there, in that part.
    """

    ahead = 0
    position = 0
    partial: Any = None

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line
        self.message = message


def unprintable(text: str, position: int | None, first_line: int) -> ReadError:
    """For the character at ``position``, or the first that may not stand in a text."""
    if position is None:
        bad = _UNPRINTABLE.search(text)
        position = bad.start() if bad else 0
    line = first_line + text.count("\n", 0, position)
    fault = ReadError(line, f"the character U+{ord(text[position]):04X} may not stand in a manifest")
    fault.position = position
    return fault


def syntax_error(error: MarkedYAMLError, text: str, first_line: int) -> ReadError:
    """What libyaml found, in one line and without the text around it."""
    message = f"isn't YAML: {error.problem or error.context or 'syntax error'}"
    if error.context and error.context_mark and error.problem:
        message += f" ({error.context} of line {first_line + error.context_mark.line})"
    mark = error.problem_mark or error.context_mark
    lines = text.splitlines() or [""]
    at = min(mark.line if mark else 0, len(lines) - 1)  # the end of a text counts as a line for libyaml
    if "\t" in lines[at][: len(lines[at]) - len(lines[at].lstrip())]:
        message += "; the line is indented by a tab, and YAML wants spaces"
    return ReadError(first_line + at, message)

"""What a person sees: titles, lines, and a table: redrawn in place on a terminal, else printed as it changes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TextIO

Row = Sequence[str]


class Screen:
    """Writes to ``out``. Times are seconds since it was made."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._live = out.isatty()
        self._began = time.monotonic()
        self._drawn = 0
        self._last: list[str] = []

    def title(self, text: str) -> None:
        self.settle()
        self._write(f"\n== {text}")

    def line(self, text: str) -> None:
        self.settle()
        self._write(text)

    def done(self, text: str) -> None:
        """Something was reached."""
        self.line(f"   {time.monotonic() - self._began:6.1f} s  {text}")

    def table(self, rows: Sequence[Row]) -> None:
        """The state of things. What was drawn before is replaced; without a terminal, what is new is printed."""
        widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
        padded = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
        lines = [f"   {text}".rstrip() for text in padded]
        if lines == self._last:
            return
        if self._live:
            if self._drawn:
                self._out.write(f"\x1b[{self._drawn}F\x1b[J")
            for text in lines:
                self._write(text)
            self._drawn = len(lines)
        else:
            for text in lines:
                if (text not in self._last and text != lines[0]) or not self._last:
                    self._write(text)
        self._last = lines

    def settle(self) -> None:
        """What is drawn stays: the next table is a new one."""
        self._drawn, self._last = 0, []

    def _write(self, text: str) -> None:
        print(text, file=self._out, flush=True)

"""What a person sees while waiting: one line that moves on a terminal, one line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TextIO


def thousands(number: float) -> str:
    """950, 1.9k, 23k, 1.2M."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.1f}{letter}" if number < 10 * size else f"{number / size:.0f}{letter}"
    return f"{number:.0f}"


class Progress:
    """Lines on standard error."""

    def __init__(self, quiet: bool = False, stream: TextIO | None = None, every: float = 15.0) -> None:
        self.stream = stream or sys.stderr
        self.quiet = quiet
        self.live = self.stream.isatty()
        self.every = 0.2 if self.live else every
        self.last = time.monotonic()
        self.open_line = False

    def say(self, line: str) -> None:
        """A line that stays."""
        if self.quiet:
            return
        self._clear()
        print(line, file=self.stream, flush=True)

    def due(self) -> bool:
        """Is it time for another passing line?"""
        return not self.quiet and time.monotonic() - self.last >= self.every

    def passing(self, line: str) -> None:
        """A line that the next one replaces on a terminal."""
        self.last = time.monotonic()
        if self.live:
            self._clear()
            print(line, end="", file=self.stream, flush=True)
            self.open_line = True
        else:
            print(line, file=self.stream, flush=True)

    def _clear(self) -> None:
        if self.open_line:
            print("\r\033[K", end="", file=self.stream)
            self.open_line = False

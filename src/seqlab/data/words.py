"""Words that are apart already, as cells hold them, and text cut into words."""

from __future__ import annotations

import functools
import itertools
import json
import re
import sys
import unicodedata
from collections.abc import Sequence

from seqlab.data.cells import Cells
from seqlab.data.conll import LINES
from seqlab.data.files import Place

TOKENS = "tokens"
"""The role of the words of a row."""


def listed(cell: str) -> list[str] | None:
    """The values of a cell that holds a JSON list of texts or numbers; None where it holds something else."""
    if not cell.lstrip().startswith("["):
        return None
    try:
        values = json.loads(cell, parse_int=str, parse_float=str)
    except ValueError:
        return None
    return values if isinstance(values, list) and all(isinstance(one, str) for one in values) else None


def as_cell(values: Sequence[str]) -> str:
    """A list as a cell holds it."""
    return json.dumps(list(values), ensure_ascii=False)


def values_of(cell: str) -> list[str]:
    """A list, or what stands between the spaces of a text."""
    found = listed(cell)
    return cell.split() if found is None else found


def words_of(cells: Cells) -> list[str]:
    """The words of a row: a list as it is; text that has something said of each word at its spaces; text
    alone in words and marks."""
    cell = cells[TOKENS]
    if set(cells) - {TOKENS, LINES}:
        return values_of(cell)
    found = listed(cell)
    return [cell[start:end] for start, end in cut(cell)] if found is None else found


def cut(text: str) -> list[tuple[int, int]]:
    """Where each word or mark of a text begins and ends: letters and digits with inner apostrophes, or one
    other sign. Accents belong to the letter before them."""
    pattern = _pattern("" if text.isascii() else _accents())
    return [match.span() for match in pattern.finditer(text)]


@functools.cache
def _pattern(accents: str) -> re.Pattern[str]:
    letter = f"[\\w{accents}]" if accents else r"\w"
    after = f"[{accents}]*" if accents else ""
    return re.compile(f"{letter}+(?:['’]{letter}+)*|[^\\w\\s]{after}")


@functools.cache
def _accents() -> str:
    """All marks of Unicode as ranges of a class of characters: they stand on, below or after a letter."""
    codes = [code for code in range(0x300, sys.maxunicode + 1) if unicodedata.category(chr(code))[0] == "M"]
    ranges = []
    for _, some in itertools.groupby(enumerate(codes), lambda pair: pair[1] - pair[0]):
        run = [code for _, code in some]
        ranges.append(f"\\U{run[0]:08x}-\\U{run[-1]:08x}")
    return "".join(ranges)


def line_of(row: Place, lines: str | None, number: int) -> Place:
    """Where a value of a row stands; `lines` is what `conll.LINES` has of the row."""
    return Place(row.file, int(lines.split()[number])) if lines else row


class RowLines:
    """Where the values of rows stand, for rows whose values have a line each."""

    def __init__(self) -> None:
        self._apart = bytearray()
        """Of each row, whether its values have lines of their own."""
        self._uneven: dict[int, str] = {}
        """The lines of the rows that have others between them."""

    def see(self, cells: Cells) -> None:
        lines = cells.get(LINES, "")
        if lines:
            first, *others = lines.split()
            if others and int(others[-1]) - int(first) != len(others):
                self._uneven[len(self._apart)] = lines
        self._apart.append(bool(lines))

    def place(self, at: Place, row: int, number: int) -> Place:
        """Where a value of the row that begins there stands."""
        if row in self._uneven:
            return line_of(at, self._uneven[row], number)
        return Place(at.file, at.line + number) if self._apart[row] else at

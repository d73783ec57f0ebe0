"""CoNLL files: a line for each token, its columns between tabs or spaces, a blank line after each sentence.

A block of lines becomes a row whose cells are lists. Lines with `#` before a sentence are comments, and a
line -DOCSTART- begins a document. In CoNLL-U the ten columns have names; a token of several words (3-4) and
an empty node (5.1) are no words. The columns of other files are called column1, column2, ..., unless a first
comment `# global.columns = FORM NER` names them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from seqlab.data.columns import Layout, Role
from seqlab.errors import UserError, did_you_mean

NAMES = ["ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC"]
"""The columns of CoNLL-U."""
LINES = "lines"
"""Beside the roles in the cells of a block: the line that each of its values stands on."""
DOCUMENT = "-DOCSTART-"
COLUMN = "column"
"""What a column without a name is called, before its number."""
GIVEN = re.compile(r"#\s*global\.columns\s*=\s*(.+)")
NUMBER = re.compile(r"\d+")
NO_WORD = re.compile(r"\d+[-.]\d+")

Numbered = Iterable[tuple[int, str | None]]


class ConllSentence(NamedTuple):
    """A sentence."""

    lines: tuple[int, ...]
    """Where each of its tokens stands."""
    record: dict[str, list[str]]
    """By column."""


class LineFault(NamedTuple):
    """What is wrong with a line, which spoils its sentence."""

    line: int
    what: str
    fix: str


def cells_of(line: str, width: int = 0) -> list[str]:
    """The columns of a line: between tabs where it has some, else between spaces. `width`: how many there
    are to be."""
    bare = line.rstrip("\r\n")
    if "\t" in bare:
        cells = [cell.strip() for cell in bare.split("\t")]
        return cells[:-1] if len(cells) == width + 1 and not cells[-1] else cells
    return bare.split()


def blocks(lines: Numbered, columns: Sequence[str]) -> Iterator[ConllSentence | LineFault]:
    """The sentences of a file with these columns, or what is wrong with one."""
    width, by_id = len(columns), columns[0] == NAMES[0]
    numbers: list[int] = []
    rows: list[list[str]] = []
    fault: LineFault | None = None
    for number, line in _without_comments(lines, width, by_id):
        cells = [] if line is None else cells_of(line, width)
        if line is not None and (not cells or cells[0] == DOCUMENT):
            if fault or rows:
                yield fault or _block(numbers, rows, columns)
            numbers, rows, fault = [], [], None
        elif fault or (by_id and cells and NO_WORD.fullmatch(cells[0])):
            continue
        elif wrong := _wrong(cells, columns, line is None):
            fault = LineFault(number, *wrong)
        else:
            numbers.append(number)
            rows.append(cells)
    if fault or rows:
        yield fault or _block(numbers, rows, columns)


def _without_comments(lines: Numbered, width: int, by_id: bool) -> Iterator[tuple[int, str | None]]:
    """The lines without comments: those with # before a sentence, unless they have all columns. Where columns
    stand between tabs, "# newdoc" has not, and the line after it tells that they do."""
    tabs = inside = False
    waiting: list[tuple[int, str | None]] = []
    for number, line in lines:
        if line is not None and line.startswith("#") and not inside:
            if by_id or len(cells_of(line, width)) != width:
                continue
            if "\t" not in line:
                waiting += [] if tabs else [(number, line)]
                continue
        tabs = tabs or (line is not None and "\t" in line)
        yield from [] if tabs else waiting
        waiting.clear()
        inside = line is None or not (line.isspace() or line.startswith(DOCUMENT))
        yield number, line
    yield from waiting


def _block(numbers: list[int], rows: list[list[str]], columns: Sequence[str]) -> ConllSentence:
    values = map(list, zip(*rows, strict=True))
    return ConllSentence(tuple(numbers), dict(zip(columns, values, strict=True)))


def _wrong(cells: Sequence[str], columns: Sequence[str], long: bool) -> tuple[str, str] | None:
    """What is wrong with the line of a token, and how to mend it."""
    if long:
        return "this line is too long.", "Look for a missing line break. If it is meant: data.longest_line"
    if len(cells) != len(columns):
        few = f"{len(cells)} column{'s' if len(cells) > 1 else ''}"
        what = f'this line has {few}, but the file has {len(columns)}: "{" ".join(cells)[:40]}"'
        return f"{what}.", "Give every token a tag; the columns stand between tabs, or between single spaces."
    if "" in cells:
        what = f'column {columns[cells.index("")]} of this line is empty: "{" ".join(cells)[:40]}"'
        return f"{what}.", "Fill it; where nothing is meant, CoNLL files have _ or O."
    return None


def layout_of(name: str, lines: Numbered, roles: Sequence[Role], told: Mapping[str, str]) -> Layout:
    """Which columns there are, and which role each plays."""
    if not any(role.many for role in roles):
        raise UserError(
            what=f"{name}: a CoNLL file holds a line for each token, which this task does not read.",
            why=f"It reads tables with columns for {' and '.join(role.name for role in roles)}.",
            fix="Use a table: .csv .tsv .jsonl .parquet",
        )
    columns = _columns(name, lines)
    found: dict[str, str] = {}
    for role in roles:
        wanted = told.get(role.name)
        column = _named(wanted, columns) if wanted else _usual(role, columns, first=role is roles[0])
        if column:
            found[role.name] = column
        elif wanted or role.required:
            raise UserError(
                what=f"{name}: there is no column {f'“{wanted}”' if wanted else f'for the {role.name}'}."
                + (did_you_mean(wanted, columns) if wanted else ""),
                why=f"The columns are: {', '.join(columns)}",
                fix=f"Name one: data.columns.{role.name}={columns[-1]}",
            )
    return Layout(columns, False, False, found)


def _columns(name: str, lines: Numbered) -> list[str]:
    """The names of the columns, by the first lines of a file."""
    given: list[str] = []
    for _, line in lines:
        if line is None or not line.strip():
            continue
        cells = cells_of(line)
        if match := GIVEN.fullmatch(line.strip()):
            given = match[1].split()
        elif cells[0] == DOCUMENT or (line.startswith("#") and (len(cells) < 2 or "\t" not in line)):
            continue
        elif given:
            return given
        elif len(cells) == len(NAMES) and NUMBER.match(cells[0]):
            return NAMES
        else:
            return [f"{COLUMN}{number}" for number in range(1, len(cells) + 1)]
    raise UserError(
        what=f"{name}: this file is empty.",
        why="There is nothing to read.",
        fix="Check that it was written or downloaded in full.",
    )


def _named(name: str, columns: Sequence[str]) -> str | None:
    """A column by its name, or by its number."""
    lower = [column.lower() for column in columns]
    if name.lower() in lower:
        return columns[lower.index(name.lower())]
    return columns[int(name) - 1] if name.isdigit() and 0 < int(name) <= len(columns) else None


def _usual(role: Role, columns: Sequence[str], first: bool) -> str | None:
    """The column of a role that is not told: by its usual names; without names the tokens come first and
    what is said of them last."""
    lower = [column.lower() for column in columns]
    if lower[0] != f"{COLUMN}1":
        found = next((name for name in role.usual if name in lower), None)
        return None if found is None else columns[lower.index(found)]
    if first:
        return columns[0]
    return columns[-1] if len(columns) > 1 else None

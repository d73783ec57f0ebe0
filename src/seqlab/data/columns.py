"""Which column plays which role: told, found by its usual name, or, in a table without a header, by what is
in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from statistics import mean
from typing import NamedTuple

from seqlab.errors import UserError, did_you_mean, one_of

RowCheck = Callable[[Mapping[str, str]], tuple[str, str] | tuple[str, str, int] | None]


class Role(NamedTuple):
    """Something a task needs from each row."""

    name: str
    usual: tuple[str, ...]
    """Names that columns of this role usually have, best first."""
    required: bool = True
    """Whether the column must be there and its cells must not be empty."""
    number: bool = False
    """Whether its cells must be numbers."""
    in_order: bool = False
    """Whether without a usual name it is the first column that no other role has."""
    many: bool = False
    """Whether a cell may be a list; it then comes as JSON."""
    check: RowCheck | None = None
    """What is wrong with a row of cells, by role, how to mend it and, of a list, with which of its values;
    None: nothing."""


SECOND_TEXT = Role("text2", ("text2", "sentence2", "hypothesis"), required=False)
"""The second of a pair of texts."""


class Layout(NamedTuple):
    """What the columns of a file are."""

    columns: list[str]
    header: bool
    """Whether the first record names the columns."""
    named: bool
    """Whether every record names its own values: jsonl, parquet."""
    found: dict[str, str]
    """Role → column."""


CellList = Sequence[str]

_NAME = re.compile(r"[^\W\d][\w .#/-]{0,30}")


def layout_of(
    file: str,
    sample: Sequence[CellList],
    roles: Sequence[Role],
    told: Mapping[str, str],
    *,
    header: bool | None,
    named: bool,
) -> Layout:
    """The layout of a table whose first records these are; a UserError where there is nothing in it or a role
    has no column."""
    if not sample or not any(cell.strip() for row in sample for cell in row):
        raise UserError(
            what=f"{file}: this file is empty.",
            why="There is nothing to read.",
            fix="Check that it was written or downloaded in full.",
        )
    if header is None:
        header = is_header(sample[0], sample[1:], roles, told)
    if header and len(sample) == 1:
        raise UserError(
            what=f"{file}:1: there is a header but no row below it.",
            why="There is nothing to read.",
            fix="Check that it was written in full. If line 1 is a row itself: data.header=false",
        )
    columns = _distinct(
        [cell.strip() for cell in sample[0]]
        if header
        else [str(place + 1) for place in range(len(sample[0]))]
    )
    rows = [row for row in sample[1 if header else 0 :] if len(row) == len(columns)]
    guesses = by_content(columns, rows, roles)
    found: dict[str, str] = {}
    for role in roles:
        free = [column for column in columns if column not in found.values() and column not in told.values()]
        if role.name in told:
            column = _match(told[role.name], columns)
        elif header:
            column = next((match for name in role.usual if (match := _match(name, free))), None)
        else:
            column = None if role.in_order else guesses.get(role.name)
        if column:
            found[role.name] = column
    for role in roles:
        free = [column for column in columns if column not in found.values()]
        if role.in_order and role.name not in (*found, *told) and role.required and free:
            found[role.name] = free[0]
        if role.name not in found and (role.required or role.name in told):
            raise _missing(file, role, told.get(role.name), columns, guesses, header)
    return Layout(
        columns, header, named, {role.name: found[role.name] for role in roles if role.name in found}
    )


def is_header(
    first: CellList, rest: Sequence[CellList], roles: Sequence[Role], told: Mapping[str, str]
) -> bool:
    """Whether the first row names the columns.

    It does when a cell is a name we look for; for roles in order, whose cells may be any word, when every
    role has its name there. Otherwise it does when its cells look like names, never come again in their
    columns, and stand over a column of numbers or of few values, of which they would be another one.
    """
    names = {cell.strip().lower() for cell in first}
    if told and all(name.lower() in names for name in told.values()):
        return True
    if told and all(name.isdigit() for name in told.values()):
        return False
    usual = [any(name in names for name in role.usual) for role in roles]
    if any(usual) and (all(usual) or not roles[0].in_order):
        return True
    below = [row for row in rest if len(row) == len(first)]
    if len(below) < 2 or len(names) < len(first) or not all(_NAME.fullmatch(cell.strip()) for cell in first):
        return False
    columns = list(zip(*below, strict=True))
    if any(cell in column for cell, column in zip(first, columns, strict=True)):
        return False
    return any(
        all(_numeric(cell) for cell in column) or len(set(column)) <= len(column) / 2 for column in columns
    )


def by_content(columns: Sequence[str], rows: Sequence[CellList], roles: Sequence[Role]) -> dict[str, str]:
    """Which column each required role would be: the text has the longest cells, the label the fewest
    different ones (as a number: numbers); other roles take the columns in order."""
    values = {column: [row[place] for row in rows] for place, column in enumerate(columns)}
    guesses: dict[str, str] = {}
    for role in sorted((role for role in roles if role.required), key=lambda role: role.name != "text"):
        free = [column for column in columns if column not in guesses.values()]
        if role.number:
            free = [column for column in free if all(_numeric(cell) for cell in values[column])]
        if not free:
            continue
        if role.name == "text":
            guesses[role.name] = max(free, key=lambda column: mean(map(len, values[column] or [""])))
        elif role.name == "label" and not role.number:
            guesses[role.name] = min(free, key=lambda column: len(set(values[column])))
        else:
            guesses[role.name] = free[0]
    return guesses


def _missing(
    file: str, role: Role, told: str | None, columns: list[str], guesses: Mapping[str, str], header: bool
) -> UserError:
    if role.in_order and not told and len(columns) == 1:
        return UserError(
            what=f"{file}: there is one column, but every row needs a {role.name}, too.",
            why="A table of pairs has two columns: .csv with a comma between them, .tsv with a tab.",
            fix="Add the column, or give the pairs as two files of lines: train.en,train.fr",
        )
    wanted = told or role.usual[0]
    guess = guesses.get(role.name) or columns[0]
    asked = f'"{told}"' if told else f"for the {role.name}: none is named {one_of(role.usual[:4])}"
    names = ", ".join(columns[:30]) + (" ..." if len(columns) > 30 else "")
    told_header = (
        f"If the first row is {'not ' if header else ''}a header: data.header={'false' if header else 'true'}"
    )
    return UserError(
        what=f"{file}: there is no column {asked}.{did_you_mean(wanted.lower(), columns)}",
        why=f"The columns are: {names}" + ("" if header else " (no header row was found)"),
        fix=f"Name the column: data.columns.{role.name}={_quoted(guess)}\n{told_header}",
    )


def _quoted(name: str) -> str:
    return f'"{name}"' if re.search(r"[^\w.-]", name) else name


def _match(name: str, columns: Sequence[str]) -> str | None:
    """The column of this name: as written if there is one, else in other capitals."""
    if name in columns:
        return name
    return next((column for column in columns if column.lower() == name.lower()), None)


def _distinct(names: list[str]) -> list[str]:
    """A second "text" becomes "text.2"."""
    seen: dict[str, int] = {}
    distinct = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        distinct.append(name if seen[name] == 1 else f"{name}.{seen[name]}")
    return distinct


def _numeric(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True

"""Series of numbers in the cells of a table: written in one cell, spread over columns, or in files of their
own."""

from __future__ import annotations

import csv
import functools
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqlab.data.columns import Layout, Role
from seqlab.data.files import SERIES_FILES, DataFile, Lines, Place
from seqlab.data.read import Bad, DataConfig, Row, Table
from seqlab.errors import UserError, did_you_mean

MOST_SHOWN = 40


def joined(numbers: NDArray[np.float64]) -> str:
    """Numbers (T F) as the text that a cell keeps: F, then all of them."""
    return f"{numbers.shape[1]}|" + " ".join(map(repr, numbers.ravel().tolist()))


def numbers_of(cell: str) -> NDArray[np.float64]:
    """The numbers (T F) that `joined` wrote."""
    features, _, rest = cell.partition("|")
    return np.array(rest.split(), np.float64).reshape(-1, int(features))


def read_numbers(value: Any) -> NDArray[np.float64]:
    """Numbers (T F) from what a person wrote or gave: a list of numbers, or of equally many numbers for each
    step; as text, JSON or numbers with spaces, commas or semicolons between them. A ValueError says what is
    wrong."""
    if isinstance(value, str):
        value = value.strip()
        if value.startswith("["):
            try:
                value = json.loads(value)
            except json.JSONDecodeError as error:
                raise ValueError(f"this is not a list of numbers: {error.msg}") from None
        else:
            value = value.replace(",", " ").replace(";", " ").split()
    steps = value.tolist() if hasattr(value, "tolist") else value
    if not isinstance(steps, Sequence) or isinstance(steps, str):
        raise ValueError(f'"{str(value)[:MOST_SHOWN]}" is not a list of numbers')
    if not len(steps):
        raise ValueError("there is no number in it")
    rows = [step if isinstance(step, Sequence) and not isinstance(step, str) else [step] for step in steps]
    widths = [len(row) for row in rows]
    if len(set(widths)) > 1:
        odd = next(place for place, width in enumerate(widths) if width != widths[0])
        raise ValueError(f"step 1 has {widths[0]} numbers, but step {odd + 1} has {widths[odd]}")
    for place, row in enumerate(rows, 1):
        for cell in row:
            if not is_number(cell):
                told = "is missing" if cell in ("", None) else f'"{str(cell)[:MOST_SHOWN]}" is not a number'
                raise ValueError(f"number {place} {told}" if len(row) == 1 else f"step {place}: {told}")
    return np.array(rows, np.float64)


def is_number(cell: Any) -> bool:
    """Whether it is a finite number, or text that says one."""
    try:
        return math.isfinite(float(cell))
    except (TypeError, ValueError):
        return False


def read_file(path: Path, name: str, config: DataConfig) -> NDArray[np.float64]:
    """The numbers (T F) of a file that holds one series, a row a step; names of columns may stand above. A
    ValueError says what is wrong, and in which line."""
    source = DataFile(name, path)
    separator = "\t" if ".tsv" in path.name else ","
    lines = [(number, line) for number, line in Lines(source, config.encoding, config.longest_line) if line]
    rows = [(number, next(csv.reader([line], delimiter=separator))) for number, line in lines if line.strip()]
    if rows and not any(is_number(cell) for cell in rows[0][1]):
        rows = rows[1:]
    if not rows:
        raise ValueError(f"{name} has no numbers")
    width = len(rows[0][1])
    for number, row in rows:
        if len(row) != width:
            raise ValueError(f"{name}:{number}: this step has {len(row)} numbers, but the first one {width}")
        for cell in row:
            if not is_number(cell):
                told = f'"{cell[:MOST_SHOWN]}" is not a number' if cell.strip() else "a number is missing"
                raise ValueError(f"{name}:{number}: {told}")
    return np.array([row for _, row in rows], np.float64)


class SeriesTable(Table):
    """A table of series of numbers. The role `spread` is one column, or all columns that no other role has;
    those in `lists` are one column each."""

    features = 0
    """Numbers of each step, as in the first row."""

    def __init__(
        self,
        names: Sequence[str],
        config: DataConfig,
        roles: Sequence[Role],
        spread: str = "values",
        lists: Sequence[str] = (),
    ) -> None:
        self.spread, self.lists = spread, lists
        told = config.columns.get(spread, "")
        self.chosen = [name.strip() for name in told.split(",")] if "," in told else []
        """The columns that are a series together, where they are told."""
        others = {role: name for role, name in config.columns.items() if role != spread or not self.chosen}
        one = bool(told) and not self.chosen
        some = [role._replace(required=one) if role.name == spread else role for role in roles]
        super().__init__(names, replace(config, columns=others), some)

    @functools.cached_property
    def found(self) -> dict[str, str]:
        layout = self._layout(self.sources[0])
        return {**layout.found, self.spread: ", ".join(self._columns(layout, self.sources[0].name))}

    def _columns(self, layout: Layout, file: str) -> list[str]:
        """The columns of the series."""
        if self.spread in layout.found:
            return [layout.found[self.spread]]
        if not self.chosen:
            taken = set(layout.found.values())
            return [column for column in layout.columns if column not in taken]
        for column in self.chosen:
            if column not in layout.columns:
                raise UserError(
                    what=f'{file}: there is no column "{column}".{did_you_mean(column, layout.columns)}',
                    why=f"The columns are: {', '.join(layout.columns[:30])}",
                    fix=f"Mend data.columns.{self.spread}.",
                )
        return self.chosen

    def _checked(self, place: Place, record: dict[str, str], layout: Layout) -> Row | Bad:
        row = super()._checked(place, record, layout)
        if isinstance(row, Bad):
            return row
        columns = self._columns(layout, place.file)
        cells = [record.get(column, "") for column in columns]
        try:
            if len(columns) > 1:
                numbers = self._wide(columns, cells)
            elif cells[0].lower().endswith(SERIES_FILES):
                path = Path(place.file).parent / cells[0]
                if not path.exists():
                    return Bad(place, f"there is no file {path}.", "Name it as seen from the table's folder.")
                numbers = read_file(path, str(path), self.config)
            else:
                numbers = read_numbers(cells[0])
            others = {role: joined(read_numbers(row.cells[role])) for role in self.lists if role in row.cells}
        except (ValueError, UserError) as error:
            what = error.what if isinstance(error, UserError) else f"{error}."
            return Bad(place, what, "Write plain numbers, and fill gaps or leave such rows out.")
        self.features = self.features or numbers.shape[1]
        if numbers.shape[1] != self.features:
            return Bad(
                place,
                f"each step has {numbers.shape[1]} numbers here, but {self.features} in the first row.",
                "Give every series the same columns.",
            )
        return Row(place, {**row.cells, **others, self.spread: joined(numbers)}, record)

    @staticmethod
    def _wide(columns: Sequence[str], cells: Sequence[str]) -> NDArray[np.float64]:
        """A series that is spread over columns; shorter ones leave their last cells empty."""
        last = max((place for place, cell in enumerate(cells) if cell.strip()), default=-1)
        if last < 0:
            raise ValueError("there is no number in this row")
        for column, cell in zip(columns, cells[: last + 1], strict=False):
            if not is_number(cell):
                told = f'"{cell[:MOST_SHOWN]}" is not a number' if cell.strip() else "the number is missing"
                raise ValueError(f'column "{column}": {told}')
        return np.array([[float(cell)] for cell in cells[: last + 1]])


def shown(numbers: NDArray[np.float64], most: int = 6) -> str:
    """The first of them, for a line of text."""
    steps = [" ".join(f"{number:.4g}" for number in step) for step in numbers[:most].tolist()]
    more = f", ... ({len(numbers):,} steps)" if len(numbers) > most else ""
    return ", ".join(steps) + more

"""What the rows of a file hold, by a look at its first lines: text, numbers, pictures or sound.

The check that runs before torch is imported asks here, too."""

from __future__ import annotations

import csv
import json
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence

from seqlab.data.files import ENDINGS, SERIES_FILES, Lines, find, held_by

NAMES: dict[str, tuple[str, ...]] = {
    "image": ("image", "images", "picture", "photo", "img"),
    "sound": ("audio", "sound", "wav", "recording", "speech"),
    "values": ("values", "series", "signal"),
    "vector": ("vector", "parameters", "features"),
}
"""What a column of each kind is usually called; the role of the same name takes it."""
LOOKED_AT = 20
MOSTLY = 0.9
"""A faulty cell does not make text of a table of numbers; it is told of when the table is read."""
LABELS = {"label", "class", "category", "target", "y", "id", "name"}
"""Columns beside a series that is spread over all others."""


def kind_of(names: Sequence[str], columns: Mapping[str, str], readable: Sequence[str]) -> str:
    """The first of `readable` that the first file holds; the first of all where nothing tells otherwise.

    `columns` are those that the user has told, by role. A file that is missing or broken is told of later, by
    those who read it.
    """
    if told := next((kind for kind in readable[1:] if kind in columns), None):
        return told
    if not names or any(role in columns for role in ("text", "source")):
        return readable[0]
    try:
        header, rows = _beginning(names[0])
    except Exception:
        return readable[0]
    return next((kind for kind in readable[1:] if _HOLDS[kind](header, rows, columns)), readable[0])


def _beginning(name: str) -> tuple[list[str], list[list[str]]]:
    """The names of the columns of a file, and some rows."""
    source = find([name])[0]
    if source.format == "folder":
        return [held_by(source.path), "label"], []
    if not source.path.is_file():  # a pipe gives its lines only once
        return [], []
    if source.name.endswith(".npz"):
        with zipfile.ZipFile(source.path) as archive:
            return [one.removesuffix(".npy") for one in archive.namelist()], []
    if source.format == "parquet":
        import pyarrow.parquet

        return list(pyarrow.parquet.read_schema(source.path).names), []
    if source.sides or source.format not in ("csv", "tsv", "jsonl"):
        return [], []
    lines: list[str] = []
    for _, line in Lines(source, "utf-8", 2**22):
        if line and line.strip():
            lines.append(line)
        if len(lines) == LOOKED_AT:
            break
    if source.format == "jsonl":
        objects = [json.loads(line) for line in lines]
        header = list(objects[0])
        return header, [[str(one.get(name, "")) for name in header] for one in objects]
    cells = list(csv.reader(lines, delimiter="\t" if source.format == "tsv" else ","))
    return [cell.strip() for cell in cells[0]], cells[1:]


def _named(kind: str) -> Callable[[Sequence[str], Sequence[Sequence[str]], Mapping[str, str]], bool]:
    """Whether a column is named after the kind, or holds names of files of that kind."""

    def holds(header: Sequence[str], rows: Sequence[Sequence[str]], columns: Mapping[str, str]) -> bool:
        if any(column.lower() in NAMES[kind] for column in header):
            return True
        return _all_end(rows, range(len(header)), ENDINGS.get(kind, ()))

    return holds


def _values(header: Sequence[str], rows: Sequence[Sequence[str]], columns: Mapping[str, str]) -> bool:
    """Whether a column is named after a series or names a file for each, or all columns but that of the label
    hold numbers."""
    if any(column.lower() in NAMES["values"] for column in header):
        return True
    others = LABELS | {column.lower() for column in columns.values()}
    places = [place for place, column in enumerate(header) if column.lower() not in others]
    if len(places) == 1 and _all_end(rows, places, SERIES_FILES):
        return True
    cells = [row[place] for row in rows for place in places if place < len(row)]
    return len(places) > 1 and bool(cells) and sum(map(_number, cells)) > MOSTLY * len(cells)


def _all_end(rows: Sequence[Sequence[str]], places: Iterable[int], endings: tuple[str, ...]) -> bool:
    """Whether one of these columns holds nothing but names of files with such an ending."""
    return bool(rows and endings) and any(
        all(place < len(row) and row[place].lower().endswith(endings) for row in rows) for place in places
    )


def _number(cell: str) -> bool:
    try:
        float(cell or "0")
    except ValueError:
        return False
    return True


_HOLDS = {"image": _named("image"), "sound": _named("sound"), "values": _values, "vector": _named("vector")}

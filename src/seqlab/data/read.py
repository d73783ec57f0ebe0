"""Tables of any format, row by row: csv, tsv, jsonl, parquet and lines of text, with the line each row starts
on.

A task names the roles it needs (text, label, ...); a `Table` finds the columns that play them and streams
rows, so a file may be larger than the memory. A row that can't be used comes out as `Bad`; a file that can't
is a UserError.
"""

from __future__ import annotations

import csv
import functools
import itertools
import json
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from seqlab.config import Positive
from seqlab.data import conll
from seqlab.data.columns import Layout, Role, RowCheck, layout_of
from seqlab.data.files import DataFile, Lines, Place, find, open_bytes
from seqlab.data.pictures import PictureConfig
from seqlab.data.sound import SoundConfig
from seqlab.data.tokenizers import TokensConfig, WordTokens
from seqlab.errors import UserError, one_of

__all__ = ["Bad", "DataConfig", "Place", "Role", "Row", "Table"]

SAMPLED_ROWS = 300
SAMPLED_CHARACTERS = 2_000_000
IN_PAIRS = "; two files of lines: train.en,train.fr; or, if tabs separate its columns, rename it to .tsv"


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Which files are read, and how a text becomes numbers."""

    train: tuple[str, ...] = ()
    """Files to learn from: .csv .tsv .jsonl .parquet .txt, plain or .gz; patterns and several files are one
    data set."""
    valid: tuple[str, ...] = ()
    """Files to compare models on while training; none: a tenth of the training rows is held out."""
    test: tuple[str, ...] = ()
    """Files for the final scores."""
    split: tuple[str, ...] = ()
    """How the training file is cut up in time, where it holds all: shares (0.7,0.1,0.2), or the times at
    which validation and the test begin and, if told, the test ends. For series over time alone."""
    columns: dict[str, str] = field(default_factory=dict)
    """Which column plays which role, where it does not have a usual name: {text: review, label: stars}."""
    header: bool | None = None
    """Whether the first row holds the names of the columns; empty: found out. Without a header they are named
    1, 2, ..."""
    encoding: str = "utf-8"
    """Encoding of the files."""
    quotes: bool | None = None
    """Whether cells may be quoted; empty: yes in csv, no in tsv."""
    on_bad: Literal["stop", "skip"] = "stop"
    """What to do about a row that can't be used (no text, no label, wrong number of cells)."""
    longest_line: Positive = 4_000_000
    """Bytes of a line, at most. A longer one mostly means a broken quote or a file without line breaks."""
    tokens: TokensConfig = field(default_factory=WordTokens)
    """How text is cut into tokens."""
    target_tokens: TokensConfig | None = None
    """How the written side is cut, where there is one; empty: as the side that is read."""
    marks: Literal["none", "cls", "sep"] = "none"
    """What stands around a text: nothing; [CLS] text [SEP], as for BERT; or [SEP] text [SEP], as between
    documents."""
    length: Positive = 512
    """Pieces kept of a text: of a longer one a third from its head, the rest from its tail. Longer pairs are
    not trained on."""
    sentences: Positive = 60
    """Sentences kept of a text, where a model reads sentences."""
    sentence_length: Positive = 60
    """Pieces of a sentence; the rest of a longer one becomes the next sentence."""
    word_length: Positive = 20
    """Characters kept of a word, where a model reads them."""
    images: str = ""
    """Where the pictures of the training rows are: a folder, a .zip or an .npz; empty: beside the table."""
    valid_images: str = ""
    """The same of the validation rows."""
    test_images: str = ""
    """The same of the test rows."""
    image: PictureConfig = PictureConfig()
    """How pictures are read."""
    sound: SoundConfig = SoundConfig()
    """How recordings become numbers."""


class Row(NamedTuple):
    """A row that can be used."""

    place: Place
    cells: dict[str, str]
    """By role."""
    record: dict[str, str]
    """By column, all of them."""


@dataclass(frozen=True)
class Bad:
    """A row that can't be used."""

    place: Place
    what: str
    fix: str
    value: int | None = None
    """Which value of a list is meant, where it is one."""

    def error(self) -> UserError:
        return UserError(
            what=f"{self.place}: {self.what}",
            why="Every row has to be whole: one that is left out silently may be the one that matters.",
            fix=f"{self.fix} Or leave such rows out: data.on_bad=skip",
        )


Record = tuple[int, list[str]]
"""The line a record starts on, and its cells."""


class Table:
    """One data set: rows of one or several files, in order. Iterating gives Row | Bad, anew each time."""

    def __init__(
        self, names: Sequence[str], config: DataConfig, roles: Sequence[Role], any_ending: bool = False
    ) -> None:
        """any_ending: a file whose ending tells no format is lines of text."""
        self.config, self.roles = config, tuple(roles)
        self.sources = find(names, any_ending)
        self._layouts: dict[DataFile, Layout] = {}
        self._needs: dict[int, tuple[list[Role], list[RowCheck]]] = {}

    @functools.cached_property
    def found(self) -> dict[str, str]:
        """The column of each role that has one, in the first file."""
        return dict(self._layout(self.sources[0]).found)

    def rows(self) -> Iterator[Row]:
        """The good rows. A bad one ends the reading, unless data.on_bad=skip."""
        for row in self:
            if isinstance(row, Row):
                yield row
            elif self.config.on_bad == "stop":
                raise row.error()

    def __iter__(self) -> Iterator[Row | Bad]:
        for source in self.sources:
            layout = self._layout(source)
            if self._format(source) == "conll":
                yield from self._sentences(source, layout)
            elif source.sides:
                yield from self._parallel_rows(source, layout)
            elif layout.named:
                for place, record in self._objects(source):
                    yield record if isinstance(record, Bad) else self._named_row(place, record, layout)
            else:
                yield from self._cell_rows(source, layout)

    # Cells in a fixed order: csv, tsv, txt ------------------------------------------------------------------

    def _cell_rows(self, source: DataFile, layout: Layout) -> Iterator[Row | Bad]:
        name, columns, width = source.name, layout.columns, len(layout.columns)
        records = self._records(source)
        if layout.header:
            next(record for record in records if not isinstance(record, Bad))
        for record in records:
            if isinstance(record, Bad):
                yield record
            elif len(record[1]) != width:
                yield Bad(
                    Place(name, record[0]),
                    f"this row has {len(record[1])} cells, but the table has {width} columns.",
                    "Complete the row, or quote a cell that contains the separator.",
                )
            else:
                yield self._checked(
                    Place(name, record[0]), dict(zip(columns, record[1], strict=True)), layout
                )

    def _records(self, source: DataFile) -> Iterator[Record | Bad]:
        """Records with the line each starts on; blank lines of csv and tsv are none."""
        config, kind = self.config, self._format(source)
        lines = Lines(source, config.encoding, config.longest_line)
        if kind == "txt":
            for number, line in lines:
                yield self._too_long(source, number) if line is None else (number, [_bare(line)])
            return
        separator = "\t" if kind == "tsv" else ","
        if config.quotes or (config.quotes is None and kind == "csv"):
            yield from self._quoted(lines, separator)
            return
        for number, line in lines:
            if line is None:
                yield self._too_long(source, number)
            elif bare := _bare(line):
                yield number, bare.split(separator)

    def _quoted(self, lines: Lines, separator: str) -> Iterator[Record | Bad]:
        """Records whose cells may be quoted, and then hold separators and line breaks."""
        source, longest = lines.source, lines.longest
        start = size = 0
        long: list[int] = []

        def feed() -> Iterator[str]:
            nonlocal start, size
            for number, line in lines:
                if line is None and not start:
                    long.append(number)
                    continue
                start = start or number
                size += longest + 1 if line is None else len(line)
                if size > longest and number > start:
                    raise _broken_quote(source, start, f"its cell does not end within {longest:,} bytes")
                yield line or ""

        csv.field_size_limit(sys.maxsize)
        reader = csv.reader(feed(), delimiter=separator, strict=True)
        while True:
            start = size = 0
            try:
                cells = next(reader, None)
            except csv.Error as error:
                if "new-line" in str(error):
                    raise UserError(
                        what=f"{Place(source.name, start)}: a line ends with a carriage return alone.",
                        why="Lines end with \\n or \\r\\n.",
                        fix=f"Convert it: tr '\\r' '\\n' < {source.name} > lines.csv",
                    ) from None
                raise _broken_quote(source, start, str(error)) from None
            yield from (self._too_long(source, number) for number in long)
            long.clear()
            if cells is None:
                return
            if cells:
                yield start, cells

    # Blocks of lines: conll ---------------------------------------------------------------------------------

    def _sentences(self, source: DataFile, layout: Layout) -> Iterator[Row | Bad]:
        """Each block of lines is a row of lists, which come as JSON."""
        for block in conll.blocks(self._lines(source), layout.columns):
            if isinstance(block, conll.LineFault):
                yield Bad(Place(source.name, block.line), block.what, block.fix)
                continue
            record = {column: _text(values) for column, values in block.record.items()}
            row = self._checked(Place(source.name, block.lines[0]), record, layout)
            if isinstance(row, Row):
                row.cells[conll.LINES] = " ".join(map(str, block.lines))
            elif row.value is not None:
                row = replace(row, place=Place(source.name, block.lines[row.value]))
            yield row

    def _lines(self, source: DataFile) -> Lines:
        return Lines(source, self.config.encoding, self.config.longest_line)

    # Lines of two files -------------------------------------------------------------------------------------

    def _parallel_rows(self, source: DataFile, layout: Layout) -> Iterator[Row | Bad]:
        """Line n of one file with line n of the other. A line that is empty in both is none."""
        roles = list(layout.found)
        for number, lines in self._parallel(source):
            places = [Place(side.name, number) for side in source.sides]
            texts = [None if line is None else _bare(line) for line in lines]
            if long := [side for side, text in zip(source.sides, texts, strict=True) if text is None]:
                yield self._too_long(long[0], number)
                continue
            empty = [not (text or "").strip() for text in texts]
            if any(empty) and not all(empty):
                role = roles[empty.index(True)]
                what, fix = f"the {role} is empty.", f"Give it a {role}, or remove the line from both files."
                yield Bad(places[empty.index(True)], what, fix)
            elif not any(empty):
                cells = {role: text or "" for role, text in zip(roles, texts, strict=True)}
                yield Row(places[0], cells, cells)

    def _parallel(self, source: DataFile) -> Iterator[tuple[int, tuple[str | None, str | None]]]:
        """Numbered lines of both files; a UserError when one has more than the other."""
        one, two = (
            iter(Lines(side, self.config.encoding, self.config.longest_line)) for side in source.sides
        )
        for number, (first, second) in enumerate(itertools.zip_longest(one, two), 1):
            if first is None or second is None:
                counts = [
                    number - (first is None) + sum(1 for _ in one),
                    number - (second is None) + sum(1 for _ in two),
                ]
                names = [side.name for side in source.sides]
                has = " and ".join(
                    f"{name} has {count:,} lines" for name, count in zip(names, counts, strict=True)
                )
                raise UserError(
                    what=f"{has}.",
                    why="Line n of one file belongs to line n of the other, so they must have equally many.",
                    fix=f"Look for lines that were lost or broken in two: paste {' '.join(names)} | less",
                )
            yield number, (first[1], second[1])

    # Named values: jsonl, parquet ---------------------------------------------------------------------------

    def _objects(self, source: DataFile) -> Iterator[tuple[Place, dict[str, Any] | Bad]]:
        if self._format(source) == "parquet":
            yield from _parquet(source)
            return
        for number, line in Lines(source, self.config.encoding, self.config.longest_line):
            place = Place(source.name, number)
            if line is None:
                yield place, self._too_long(source, number)
            elif line.strip():
                yield place, _object(place, line)

    def _named_row(self, place: Place, values: dict[str, Any], layout: Layout) -> Row | Bad:
        for role, column in layout.found.items():
            value = values.get(column)
            if isinstance(value, dict) or (isinstance(value, list) and not self._role(role).many):
                shown = json.dumps(value, ensure_ascii=False)[:60]
                many = role == "label" and isinstance(value, list)
                return Bad(
                    place,
                    f'"{column}" is {"a list" if isinstance(value, list) else "an object"}, not one value:'
                    f" {shown}",
                    (
                        "Multi-label data is not supported: give each row one label."
                        if many
                        else "Write it as one text or number."
                    ),
                )
            if value is None and self._role(role).required:
                return Bad(place, f'there is no "{column}" in this row.', f'Add "{column}" to it.')
        record = {name: _text(value) for name, value in values.items()}
        for column in layout.found.values():
            record.setdefault(column, "")
        return self._checked(place, record, layout)

    # Both ---------------------------------------------------------------------------------------------------

    def _checked(self, place: Place, record: dict[str, str], layout: Layout) -> Row | Bad:
        """The row, unless a cell that is needed is empty or not the number it should be."""
        needed, checks = self._asked(layout)
        cells = {role: record[column] for role, column in layout.found.items()}
        for role in needed:
            cell = cells[role.name]
            if not cell or cell.isspace():
                return Bad(place, *_empty(role))
            if role.number and not _is_number(cell):
                return Bad(
                    place,
                    f'the {role.name} "{cell[:40]}" is not a number.',
                    "Write a plain number, such as 3.5.",
                )
        for check in checks:
            if fault := check(cells):
                return Bad(place, *fault)
        return Row(place, cells, record)

    def _asked(self, layout: Layout) -> tuple[list[Role], list[RowCheck]]:
        """The roles whose cells have to be there, and what else is asked of a row; worked out once."""
        if id(layout) not in self._needs:
            roles = [role for role in self.roles if role.name in layout.found]
            checks = [role.check for role in roles if role.check is not None]
            self._needs[id(layout)] = [role for role in roles if role.required], checks
        return self._needs[id(layout)]

    def _layout(self, source: DataFile) -> Layout:
        """What the columns of a file are; read from its first rows once."""
        if source not in self._layouts:
            self._layouts[source] = self._find_layout(source)
        return self._layouts[source]

    def _find_layout(self, source: DataFile) -> Layout:
        kind, told = self._format(source), self.config
        if kind == "parallel":
            return self._two_sides(source)
        if kind == "conll":
            return conll.layout_of(source.name, self._lines(source), self.roles, told.columns)
        if kind in ("jsonl", "parquet"):
            objects = [found for _, found in itertools.islice(self._objects(source), SAMPLED_ROWS)]
            names = list(
                dict.fromkeys(name for found in objects if not isinstance(found, Bad) for name in found)
            )
            faults = [found for found in objects if isinstance(found, Bad)]
            if not names and faults:
                raise faults[0].error()
            rows = [
                [_text(found.get(name)) for name in names] for found in objects if not isinstance(found, Bad)
            ]
            sample = [names, *rows] if objects else []
            columns = {
                role: name for role, name in told.columns.items() if name in names or not name.isdigit()
            }
            return layout_of(source.name, sample, self.roles, columns, header=True, named=True)
        sample, faults, size = [], [], 0
        for record in itertools.islice(self._records(source), SAMPLED_ROWS):
            if isinstance(record, Bad):
                faults.append(record)
                continue
            sample.append(record[1])
            size += sum(map(len, record[1]))
            if size > SAMPLED_CHARACTERS:
                break
        if not sample and faults:
            raise faults[0].error()
        if kind == "txt":
            return self._lines_of_text(source, sample)
        first = self._layouts.get(self.sources[0])
        before = (
            first.found if first and not first.header and not first.named else {}
        )  # headerless files of a set are alike
        return layout_of(
            source.name, sample, self.roles, {**before, **told.columns}, header=told.header, named=False
        )

    def _lines_of_text(self, source: DataFile, sample: list[list[str]]) -> Layout:
        """A .txt file is one column, the first role, and has no header."""
        more = [role.name for role in self.roles[1:] if role.required]
        if more:
            raise UserError(
                what=f"{source.name}: a .txt file holds one text a line, and no {one_of(more)}.",
                why=f"Each row needs a {one_of(more)}, too.",
                fix="Use a table: .csv .tsv .jsonl .parquet" + (IN_PAIRS if self.roles[0].in_order else ""),
            )
        layout_of(source.name, sample, (), {}, header=False, named=False)  # it must not be empty
        return Layout([self.roles[0].name], False, False, {self.roles[0].name: self.roles[0].name})

    def _two_sides(self, source: DataFile) -> Layout:
        """Parallel files are two columns, source and target, and have no header."""
        if not self.roles[0].in_order:
            raise UserError(
                what=(
                    f"{source.name}: a comma joins two files of parallel text, which this task does not read."
                ),
                why=(
                    "It reads tables with columns for"
                    f" {' and '.join(role.name for role in self.roles if role.required)}."
                ),
                fix=(
                    "If these are files of one data set, put a space between them:"
                    f" {source.name.replace(',', ' ')}"
                ),
            )
        return Layout(["source", "target"], False, False, {"source": "source", "target": "target"})

    def _format(self, source: DataFile) -> str:
        named = source.format
        if not named:
            named = "txt" if Path(source.name).exists() else _sniffed(source, self.roles)
        lists = sum(role.many and role.required for role in self.roles)
        return "conll" if lists > 1 and named == "txt" else named  # lists side by side are no lines of text

    def _role(self, name: str) -> Role:
        return next(role for role in self.roles if role.name == name)

    def _too_long(self, source: DataFile, number: int) -> Bad:
        return Bad(
            Place(source.name, number),
            f"this line has more than {self.config.longest_line:,} bytes.",
            "Look for a missing line break or quote. If it is meant, raise data.longest_line.",
        )


def _empty(role: Role) -> tuple[str, str]:
    """That a cell is empty, and what to do about it."""
    if role.many:
        return f"the {role.name} are empty.", "Give it some, or remove the row."
    return f"the {role.name} is empty.", f"Give it a {role.name}, or remove the row."


def _bare(line: str) -> str:
    """A line without its end."""
    return line.removesuffix("\n").removesuffix("\r")


def _broken_quote(source: DataFile, line: int, what: str) -> UserError:
    return UserError(
        what=f"{Place(source.name, line)}: a quote is broken in the row that starts here: {what}.",
        why='A cell that starts with " ends with ", and a " inside it is written twice: "".',
        fix="Mend the row; or, if cells are never quoted in this file: data.quotes=false",
    )


_DECODER = json.JSONDecoder(
    parse_int=str, parse_float=str, parse_constant=str
)  # numbers stay as they are written


def _object(place: Place, line: str) -> dict[str, Any] | Bad:
    """The object on a line of jsonl."""
    try:
        value = _DECODER.decode(line)
        if "\\ud" in line.lower():
            json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair is no text
    except json.JSONDecodeError as error:
        return Bad(
            place,
            f"this is not valid JSON: {error.msg} at character {error.pos + 1}.",
            "Write one JSON object a line.",
        )
    except UnicodeEncodeError:
        return Bad(
            place, "this line has half a character (a lone \\ud... escape).", "Write the character whole."
        )
    except RecursionError:
        return Bad(place, "this JSON is nested too deeply.", "Write one flat JSON object a line.")
    if not isinstance(value, dict):
        return Bad(
            place,
            f"this is a JSON {_JSON_NAMES[type(value)]}, not an object.",
            'Write {"text": "...", "label": "..."}.',
        )
    return value


_JSON_NAMES = {list: "list", str: "value", bool: "value", type(None): "null"}


def _text(value: Any) -> str:
    """A value as JSON writes it; text itself stays bare, and so do the dates and times of parquet."""
    if value is None or isinstance(value, str):
        return value or ""
    plain = isinstance(value, (bool, int, float, list, dict))
    return json.dumps(value, ensure_ascii=False, default=str) if plain else str(value)


def _is_number(cell: str) -> bool:
    try:
        return math.isfinite(float(cell))
    except ValueError:
        return False


def _parquet(source: DataFile) -> Iterator[tuple[Place, dict[str, Any] | Bad]]:
    """Rows of a parquet file, a thousand at a time."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UserError(
            what=f"{source.name}: reading parquet needs pyarrow, which is not installed.",
            fix='pip install "seqlab[parquet]"',
        ) from None
    number = 0
    try:
        with open_bytes(source) as file:
            for batch in pyarrow.parquet.ParquetFile(file).iter_batches(batch_size=1000):
                for values in batch.to_pylist():
                    number += 1
                    yield Place(source.name, number), values
    except (pyarrow.ArrowException, OSError) as error:
        raise UserError(
            what=f"{Place(source.name, number + 1)}: this parquet file is damaged or none: {error}.",
            fix="Write or download it again.",
        ) from None


@functools.cache
def _sniffed(source: DataFile, roles: tuple[Role, ...]) -> str:
    """The format of standard input, by its first line."""
    with open_bytes(source) as file:
        line = file.readline(2**16)
    text = line.decode("utf-8", errors="replace").lstrip("\ufeff \t")
    cells = {cell.strip(' "\r\n').lower() for cell in text.split(",")}
    if line.startswith(b"PAR1"):
        return "parquet"
    if text.startswith("{"):
        return "jsonl"
    if "\t" in text:
        return "txt" if sum(role.many and role.required for role in roles) > 1 else "tsv"
    usual = any(name in cells for role in roles for name in role.usual)
    return "csv" if "," in text and (usual or sum(role.required for role in roles) > 1) else "txt"

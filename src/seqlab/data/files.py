"""From names to numbered lines: finds files, unpacks and decodes them, and says exactly where one is
broken."""

from __future__ import annotations

import atexit
import codecs
import functools
import glob
import gzip
import io
import shutil
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from seqlab.errors import UserError, did_you_mean

FORMATS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".txt": "txt",
    ".npz": "npz",
    ".conll": "conll",
    ".conllu": "conll",
    ".conllup": "conll",
    ".bio": "conll",
    ".iob": "conll",
    ".iob2": "conll",
}
SERIES_FILES = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
"""How names of files end that hold one series of numbers each."""
ENDINGS: dict[str, tuple[str, ...]] = {
    "image": (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp", ".tif", ".tiff"),
    "sound": (".wav", ".flac", ".ogg"),
}
"""Of files that each are one thing to read. A folder of them is a data set; folders in it are labels."""
GZIP = b"\x1f\x8b"
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class Place(NamedTuple):
    """A line of a file (of a parquet file or an .npz: a row), counted from 1; 0 is the file as a whole."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(frozen=True)
class DataFile:
    """A file to read."""

    name: str
    """What the user calls it."""
    path: Path
    sides: tuple[DataFile, ...] = ()
    """The two files of parallel text, whose lines belong together; `path` is the first one's."""

    @property
    def paths(self) -> tuple[Path, ...]:
        """All files that are read; those in a folder are known to who reads it."""
        if self.format == "folder":
            return ()
        return tuple(side.path for side in self.sides) or (self.path,)

    @property
    def format(self) -> str:
        """csv, tsv, jsonl, parquet, txt, conll or npz, by the name; parallel for two files, folder for a
        folder of pictures or recordings; empty for standard input, which has no name."""
        if self.sides:
            return "parallel"
        if held_by(self.path):
            return "folder"
        return FORMATS.get(Path(self.name.lower().removesuffix(".gz")).suffix, "")


def held_by(folder: Path) -> str:
    """What kind of files a folder holds, or the folders in it: image or sound; empty where it is none of
    them. A .zip archive is looked into for images."""
    if folder.suffix.lower() == ".zip" and zipfile.is_zipfile(folder):
        with zipfile.ZipFile(folder) as archive:
            members = [name.lower() for name in archive.namelist()]
        return "image" if any(name.endswith(ENDINGS["image"]) for name in members) else ""
    if not folder.is_dir():
        return ""
    for inside in (folder, *sorted(child for child in folder.iterdir() if child.is_dir())):
        for file in inside.iterdir():
            kinds = [kind for kind, endings in ENDINGS.items() if file.name.lower().endswith(endings)]
            if kinds:
                return kinds[0]
    return ""


def files_in(folder: Path, kind: str) -> list[Path]:
    """All files of a kind in a folder and the folders below it, in a fixed order."""
    return sorted(path for path in folder.rglob("*") if path.name.lower().endswith(ENDINGS[kind]))


def find(names: Sequence[str], any_ending: bool = False) -> list[DataFile]:
    """The files that these names and patterns stand for, in a fixed order. any_ending: also `test.en`, as
    lines of text."""
    sources: list[DataFile] = []
    for name in names:
        path = Path(name).expanduser()
        if name == "-":
            sources.append(DataFile("standard input", _standard_input()))
        elif not path.exists() and glob.has_magic(name):
            sources += [
                _checked(found, Path(found))
                for found in sorted(glob.glob(str(path), recursive=True)) or [name]
            ]
        elif not path.exists() and any(Path(part).expanduser().exists() for part in name.split(",") if part):
            sources.append(_joined(name))
        else:
            sources.append(_checked(name, path, any_ending))
    return sources


def _joined(name: str) -> DataFile:
    """Parallel text: two files joined by a comma, `train.en,train.fr`. Whatever their endings, they are lines
    of text."""
    parts = name.split(",")
    if len(parts) != 2 or not all(parts):
        raise UserError(
            what=f"{name}: a comma joins {len(parts)} names here.",
            why=(
                "A comma joins the two files of parallel text; the files of one data set have spaces between"
                " them."
            ),
            fix="Write: train.en,train.fr",
        )
    sides = tuple(_checked(part, Path(part).expanduser(), any_ending=True) for part in parts)
    return DataFile(name, sides[0].path, sides)


def _checked(name: str, path: Path, any_ending: bool = False) -> DataFile:
    source = DataFile(name, path)
    if path.is_dir() and not source.format:
        inside = sorted(child.name for child in path.iterdir() if DataFile(child.name, child).format)
        ending = "".join(Path(inside[0]).suffixes) if inside else ".csv"
        some = ", ".join(inside[:5]) + (" ..." if len(inside) > 5 else "")
        raise UserError(
            what=f"{name}: this is a folder, not a file.",
            why=f"Tables in it: {some or 'none'}",
            fix=f'Name the file, or several as one data set: "{name.rstrip("/")}/*{ending}"',
        )
    if not path.exists():
        near = sorted(child.name for child in path.parent.iterdir()) if path.parent.is_dir() else []
        raise UserError(
            what=f"{name}: there is no such file.{did_you_mean(path.name, near)}",
            why=f"We looked in {path.parent.resolve()}"
            + ("." if near else ", which does not exist or is empty."),
            fix="Check the name, or give the whole path.",
        )
    if not source.format and not any_ending:
        other = "Save the table as .csv, or rename the file."
        if path.name.lower().endswith(".json"):
            other = f"One object a line is read: jq -c '.[]' {name} > {path.stem}.jsonl"
        raise UserError(
            what=f"{name}: this kind of file is not known.",
            why=f"The name tells the format: {' '.join(FORMATS)}, each also with .gz.",
            fix=other,
        )
    return source


@functools.cache
def _standard_input() -> Path:
    """Standard input kept in a file that goes away with the process, because data is read more than once."""
    with tempfile.NamedTemporaryFile(prefix="seqlab-", delete=False) as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
    path = Path(copy.name)
    atexit.register(path.unlink, missing_ok=True)
    return path


def open_bytes(source: DataFile) -> io.BufferedReader:
    """The bytes of a file, unpacked if they are packed, whatever its name says."""
    try:
        file = source.path.open("rb")
    except OSError as error:
        raise UserError(
            what=f"{source.name}: {error.strerror or error}.", fix="Check the permissions of the file."
        ) from None
    if file.peek(2)[:2] != GZIP:
        return file
    file.close()
    return io.BufferedReader(_Unpacked(source.path), 2**18)  # type: ignore[arg-type]


class _Unpacked(gzip.GzipFile):
    """Gives what could be unpacked before it says that the file breaks off, so that the line is known."""

    def readinto(self, buffer: Any) -> int:
        return self.readinto1(buffer)


class Lines:
    """The lines of a text file, with their numbers. A line that is too long comes as None."""

    def __init__(self, source: DataFile, encoding: str, longest: int) -> None:
        self.source, self.encoding, self.longest = source, encoding, longest
        try:
            self.plain = "\n".encode(encoding) == b"\n"
        except LookupError:
            raise UserError(
                what=f'data.encoding: there is no encoding "{encoding}".',
                fix="Usual ones: utf-8, latin-1, cp1252, utf-16.",
            ) from None

    def __iter__(self) -> Iterator[tuple[int, str | None]]:
        number = 0
        with open_bytes(self.source) as file:
            try:
                for line in self._decoded(file) if self.plain else self._wide(file):
                    number += 1
                    if line is not None and "\0" in line:
                        raise self._nul(number)
                    yield number, line
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                raise UserError(
                    what=(
                        f"{Place(self.source.name, number + 1)}: the gzip file breaks off or is damaged here:"
                        f" {error}."
                    ),
                    why=(
                        "The rest of its rows can't be unpacked, so the file was not copied or downloaded in"
                        " full."
                    ),
                    fix=f"Fetch it again and check it with: gzip -t {self.source.name}",
                ) from None

    def _decoded(self, file: io.BufferedReader) -> Iterator[str | None]:
        """Lines of an encoding in which a line ends with the byte \\n; each is decoded by itself, so a fault
        has its line."""
        number = 0
        while line := file.readline(self.longest + 1):
            number += 1
            if number == 1 and line.startswith(UTF_16):
                raise self._utf_16()
            if len(line) > self.longest and not line.endswith(b"\n"):
                while (rest := file.readline(self.longest)) and not rest.endswith(b"\n"):
                    pass
                yield None
                continue
            try:
                text = line.decode(self.encoding)
            except UnicodeDecodeError as error:
                raise self._undecodable(number, error) from None
            yield text.removeprefix("\ufeff") if number == 1 else text

    def _wide(self, file: io.BufferedReader) -> Iterator[str | None]:
        """Lines of an encoding with wide characters, such as UTF-16."""
        text = io.TextIOWrapper(file, self.encoding, newline="\n")
        number = 0
        try:
            while line := text.readline(self.longest + 1):
                number += 1
                if len(line) > self.longest and not line.endswith("\n"):
                    while (rest := text.readline(self.longest)) and not rest.endswith("\n"):
                        pass
                    yield None
                    continue
                yield line.removeprefix("\ufeff") if number == 1 else line
        except UnicodeError as error:
            raise UserError(
                what=(
                    f"{self.source.name}: the text is not {self.encoding}, at the latest after line {number}:"
                    f" {error}."
                ),
                fix="Try data.encoding=utf-8.",
            ) from None
        finally:
            text.detach()

    def _undecodable(self, number: int, error: UnicodeDecodeError) -> UserError:
        place, byte = Place(self.source.name, number), error.object[error.start]
        return UserError(
            what=(
                f"{place}: byte {error.start + 1} of the line, 0x{byte:02x}, is not {self.encoding.upper()}."
            ),
            why="The file was saved in another encoding.",
            fix="Western European files are mostly data.encoding=cp1252 or data.encoding=latin-1.",
        )

    def _utf_16(self) -> UserError:
        return UserError(
            what=f"{Place(self.source.name, 1)}: this file is UTF-16, not {self.encoding.upper()}.",
            why='Its first two bytes are the mark of UTF-16, which spreadsheets call "Unicode text".',
            fix="Add data.encoding=utf-16",
        )

    def _nul(self, number: int) -> UserError:
        return UserError(
            what=f"{Place(self.source.name, number)}: there is a NUL byte in this line.",
            why="Text has none: the file is damaged, binary, or UTF-16 without its mark.",
            fix=(
                "If it is UTF-16: data.encoding=utf-16-le. If it is damaged: tr -d '\\000' <"
                f" {self.source.name} > clean.csv"
            ),
        )

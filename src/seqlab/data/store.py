"""Rows of different lengths, kept flat: in memory, in memory-mapped files, and padded when a batch is made.

A `Store` is a folder of named fields, written chunk by chunk and mapped into memory when read, so that its
size is limited by the disk alone. Stores are cached under a fingerprint of the files and settings they were
made from.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from seqlab.errors import MachineError
from seqlab.seq import Nested, Seq, mask_of

FORMAT = 3
"""Number of the store's layout: a change makes old caches unused."""
CACHE_BYTES = 20 * 2**30


@dataclass(frozen=True)
class Ragged:
    """Rows of values, one after the other. Nested: rows of inner rows of values."""

    values: NDArray[Any]
    """N numbers, or N vectors, frames or pictures (N ...) of one shape."""
    offsets: NDArray[np.int64]
    """Row (or inner row) i is values[offsets[i] : offsets[i + 1]]."""
    outer: NDArray[np.int64] | None = None
    """Nested ones: example i has the inner rows outer[i] to outer[i + 1]."""

    @staticmethod
    def of(rows: Sequence[Sequence[Any]], dtype: Any) -> Ragged:
        offsets = offsets_of(np.fromiter(map(len, rows), np.int64, len(rows)))
        values = np.fromiter(itertools.chain.from_iterable(rows), dtype, int(offsets[-1]))
        return Ragged(values, offsets)

    @property
    def rows(self) -> int:
        """How many examples there are."""
        return len(self.offsets if self.outer is None else self.outer) - 1

    def sizes(self) -> NDArray[np.int64]:
        """How many values each example has, in all its inner rows."""
        return np.diff(self.offsets if self.outer is None else self.offsets[self.outer])

    def take(self, rows: NDArray[np.int64]) -> Ragged:
        """These examples, in this order."""
        rows = np.asarray(rows, np.int64)
        if self.outer is None:
            starts, lengths = self.offsets[rows], self.offsets[rows + 1] - self.offsets[rows]
            return Ragged(np.asarray(self.values[ranges(starts, lengths)]), offsets_of(lengths))
        counts = self.outer[rows + 1] - self.outer[rows]
        inner = Ragged(self.values, self.offsets).take(ranges(self.outer[rows], counts))
        return Ragged(inner.values, inner.offsets, offsets_of(counts))

    def row(self, number: int) -> list[Any]:
        """One example as a list, or a list of lists."""
        one = self.take(np.array([number]))
        parts = [
            one.values[start:end].tolist() for start, end in zip(one.offsets, one.offsets[1:], strict=False)
        ]
        return parts if self.outer is not None else parts[0]


def concatenate(parts: Sequence[Ragged]) -> Ragged:
    """The examples of all parts, one part after the other."""
    values = np.concatenate([part.values for part in parts])
    outer = (
        None
        if parts[0].outer is None
        else _joined_offsets([part.outer for part in parts if part.outer is not None])
    )
    return Ragged(values, _joined_offsets([part.offsets for part in parts]), outer)


def offsets_of(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """[2, 3] → [0, 2, 5]."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def ranges(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """starts [5, 9], lengths [2, 3] → [5, 6, 9, 10, 11]."""
    offsets = offsets_of(lengths)
    return np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)


def _joined_offsets(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    return offsets_of(np.concatenate([np.diff(part) for part in parts]))


def pad_rows(ragged: Ragged, rows: NDArray[np.int64]) -> Seq | Nested:
    """A batch of these examples: ids as int64, real numbers as float32, pictures as bytes."""
    some = ragged.take(rows)
    lengths = torch.from_numpy(np.diff(some.offsets))
    assert int(lengths.min()) > 0, "no row is empty"
    mask = mask_of(lengths)
    real = np.issubdtype(some.values.dtype, np.floating)
    shape = some.values.shape[1:]
    kind = np.float32 if real else np.uint8 if shape else np.int64
    kept = torch.from_numpy(np.ascontiguousarray(some.values, kind))
    values = torch.zeros((*mask.shape, *shape), dtype=kept.dtype)
    values[mask] = kept
    inner = Seq(values, mask)
    return inner if some.outer is None else Nested(inner, mask_of(torch.from_numpy(np.diff(some.outer))))


def marked(rows: Ragged, before: Sequence[int], after: Sequence[int]) -> Ragged:
    """The rows with these ids before and after each of them."""
    if not before and not after:
        return rows
    sizes = rows.sizes()
    offsets = offsets_of(sizes + len(before) + len(after))
    values = np.empty(offsets[-1], np.int64)
    inside = np.ones(len(values), bool)
    for place, number in enumerate(before):
        values[offsets[:-1] + place], inside[offsets[:-1] + place] = number, False
    for place, number in enumerate(reversed(after), 1):
        values[offsets[1:] - place], inside[offsets[1:] - place] = number, False
    values[inside] = rows.values
    return Ragged(values, offsets)


@dataclass(frozen=True)
class Store:
    """Examples ready to be batched: named fields (one Ragged each), named arrays (one number an example), and
    notes."""

    fields: dict[str, Ragged]
    arrays: dict[str, NDArray[Any]]
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return next(iter(self.fields.values())).rows

    def sizes(self) -> NDArray[np.int64]:
        """What each example weighs in a batch: the values of its first field, which every model reads."""
        return next(iter(self.fields.values())).sizes()

    @staticmethod
    def open(folder: Path) -> Store:
        """The store in a folder, mapped into memory."""
        told = json.loads((folder / "store.json").read_text(encoding="utf-8"))
        fields: dict[str, Ragged] = {}
        for name, kinds in told["fields"].items():
            parts = {part: _mapped(folder / f"{name}.{part}", kind) for part, kind in kinds.items()}
            values = parts["values"].reshape(-1, *told["shapes"].get(name, ()))
            fields[name] = Ragged(values, parts["offsets"], parts.get("outer"))
        arrays = {name: _mapped(folder / f"{name}.array", kind) for name, kind in told["arrays"].items()}
        return Store(fields, arrays, told["notes"])


def _mapped(path: Path, kind: str) -> NDArray[Any]:
    if path.stat().st_size == 0:
        return np.zeros(0, kind)
    return np.memmap(path, dtype=kind, mode="r")


class StoreWriter:
    """Writes a store chunk by chunk. The folder appears under its name when all is there, or not at all.

    with StoreWriter(folder) as writer:
        writer.append(fields, {"target": targets})
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.notes: dict[str, Any] = {}
        """Anything JSON can hold that belongs to the data; saved with it."""
        self._columns: dict[str, _Column] = {}
        self._ends: dict[str, int] = {}
        self._fields: dict[str, list[str]] = {}
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._arrays: list[str] = []

    def __enter__(self) -> StoreWriter:
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        self._temporary = Path(tempfile.mkdtemp(prefix=f".{self.folder.name}.", dir=self.folder.parent))
        return self

    def append(self, fields: Mapping[str, Ragged], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Examples to add. Every chunk has the same fields and arrays."""
        for name, ragged in fields.items():
            if name not in self._fields:
                self._fields[name] = ["values", "offsets"] + (["outer"] if ragged.outer is not None else [])
                if ragged.values.ndim > 1:
                    self._shapes[name] = ragged.values.shape[1:]
            self._column(f"{name}.values").append(ragged.values)
            self._append_offsets(f"{name}.offsets", ragged.offsets)
            if ragged.outer is not None:
                self._append_offsets(f"{name}.outer", ragged.outer)
        for name, array in arrays.items():
            if name not in self._arrays:
                self._arrays.append(name)
            self._column(f"{name}.array").append(array)

    def _append_offsets(self, name: str, offsets: NDArray[np.int64]) -> None:
        first = name not in self._ends
        end = self._ends.get(name, 0)
        self._column(name).append(np.asarray(offsets if first else offsets[1:] + end, np.int64), exact=True)
        self._ends[name] = end + int(offsets[-1])

    def _column(self, name: str) -> _Column:
        if name not in self._columns:
            self._columns[name] = _Column(self._temporary / name)
        return self._columns[name]

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            for column in self._columns.values():
                column.close()
            if kind is None:
                self._finish()
        finally:
            shutil.rmtree(self._temporary, ignore_errors=True)  # nothing is left there once it has its name

    def _finish(self) -> None:
        kinds = {name: column.kind.str for name, column in self._columns.items()}
        told = {
            "format": FORMAT,
            "fields": {
                name: {part: kinds[f"{name}.{part}"] for part in parts}
                for name, parts in self._fields.items()
            },
            "shapes": self._shapes,
            "arrays": {name: kinds[f"{name}.array"] for name in self._arrays},
            "notes": self.notes,
        }
        (self._temporary / "store.json").write_text(json.dumps(told), encoding="utf-8")
        with contextlib.suppress(OSError):
            self._temporary.rename(self.folder)
        if not (
            self.folder / "store.json"
        ).exists():  # another process may have been first: then its store is as good
            raise MachineError(
                what=f"{self.folder}: the store can't be given its name.",
                fix="Remove this folder and try again.",
            )


class _Column:
    """One growing file of numbers of one type: the smallest that fits what has come so far."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.kind = np.dtype(np.uint8)
        self.file: io.BufferedWriter = path.open("wb")

    def append(self, values: NDArray[Any], exact: bool = False) -> None:
        if exact or np.issubdtype(values.dtype, np.floating):
            self.kind = values.dtype
        else:
            low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
            bounds = {kind: np.iinfo(kind) for kind in (np.uint8, np.uint16, np.uint32, np.int64)}
            kind = np.dtype(
                next(kind for kind, bound in bounds.items() if bound.min <= low and high <= bound.max)
            )
            if kind.itemsize > self.kind.itemsize:
                self._widen(kind)
        self.file.write(np.ascontiguousarray(values, self.kind).data)

    def _widen(self, kind: np.dtype[Any]) -> None:
        """Write again what is there, in wider numbers."""
        self.file.close()
        narrow = self.path.with_name(self.path.name + ".narrow")
        self.path.rename(narrow)
        self.file = self.path.open("wb")
        with narrow.open("rb") as old:
            while chunk := old.read(2**22):
                self.file.write(np.frombuffer(chunk, self.kind).astype(kind).data)
        narrow.unlink()
        self.kind = kind

    def close(self) -> None:
        self.file.close()


# The cache --------------------------------------------------------------------------------------------------


def digest_of(path: Path) -> str:
    """Hash of the contents of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fingerprint(digests: Sequence[str], settings: Any) -> str:
    """A name for what comes from files with these hashes, under these settings (a plain tree)."""
    return hashlib.sha256(json.dumps([FORMAT, settings, list(digests)], sort_keys=True).encode()).hexdigest()[
        :32
    ]


def cache_folder() -> Path:
    """Where stores are kept: $SEQLAB_CACHE/stores, else ~/.cache/seqlab/stores."""
    return Path(os.environ.get("SEQLAB_CACHE") or Path.home() / ".cache" / "seqlab") / "stores"


def cached_store(name: str, write: Callable[[StoreWriter], None]) -> Store:
    """The store with this fingerprint, written first if it is not there. The oldest go when all take over 20
    GB."""
    folder = cache_folder() / name
    try:
        store = _found(folder)
        if store is None:
            with StoreWriter(folder) as writer:
                write(writer)
            store = Store.open(folder)
        os.utime(folder)
        forget_old(folder.parent, CACHE_BYTES)
        return store
    except OSError as error:
        raise MachineError(
            what=f"{folder}: the prepared data can't be written: {error.strerror or error}.",
            why="Texts are turned into numbers once and kept on disk, about 2 to 4 bytes a word.",
            fix="Free some space, or name another folder: SEQLAB_CACHE=/some/where seqlab ...",
        ) from error


def _found(folder: Path) -> Store | None:
    """The store in a folder; a damaged one is removed, as it can be written again."""
    try:
        return Store.open(folder) if folder.exists() else None
    except (OSError, ValueError, KeyError, TypeError):
        shutil.rmtree(folder)
        return None


def forget_old(folder: Path, most: int) -> None:
    """Remove the stores that were used longest ago, so that the rest takes at most so many bytes. The newest
    stays."""
    stores = sorted(
        (path for path in folder.iterdir() if (path / "store.json").exists()),
        key=lambda path: -path.stat().st_mtime,
    )
    total = 0
    for place, path in enumerate(stores):
        total += sum(file.stat().st_size for file in path.iterdir())
        if place and total > most:
            shutil.rmtree(path, ignore_errors=True)

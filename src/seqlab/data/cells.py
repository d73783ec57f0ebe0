"""The good rows of a table, kept on disk as they were read: a file is parsed once, however often its rows are
needed."""

from __future__ import annotations

import itertools
import tempfile
from array import array
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

CHUNK = 4096
"""Rows that are read back at a time, ..."""
CHUNK_BYTES = 2**25
"""... or fewer, once they have so many bytes: a row may hold a picture or a recording."""

Cells = Mapping[str, str]
"""What a row holds, by role."""


class KeptRows:
    """Rows of cells, in a file without a name: it is gone when this object is, or the process."""

    def __init__(self, folder: Path, roles: Sequence[str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.roles = tuple(roles)
        self._file = tempfile.TemporaryFile(dir=folder, buffering=2**20)  # noqa: SIM115 it lives as long as this
        self._sizes = array("I")
        """Characters of each cell, row after row."""
        self._bytes, self._rows = array("Q"), array("I")
        """Bytes and rows of each chunk."""

    def append(self, cells: Cells) -> None:
        texts = [cells.get(role, "") for role in self.roles]
        if not self._rows or self._rows[-1] == CHUNK or self._bytes[-1] >= CHUNK_BYTES:
            self._bytes.append(0)
            self._rows.append(0)
        self._sizes.extend(map(len, texts))
        self._rows[-1] += 1
        self._bytes[-1] += self._file.write("".join(texts).encode("utf-8", "surrogatepass"))

    def flush(self) -> None:
        """Write what is still in memory: a full disk is told here, not where rows are read back."""
        self._file.flush()

    def __len__(self) -> int:
        return len(self._sizes) // len(self.roles)

    def rows(self, chosen: np.ndarray | None = None) -> Iterator[Cells]:
        """The rows in order, or those of them that `chosen` (a bool for each) says."""
        width, start, first = len(self.roles), 0, 0
        for size, count in zip(self._bytes, self._rows, strict=True):
            sizes = self._sizes[width * first : width * (first + count)]
            self._file.seek(start)
            whole = self._file.read(size).decode("utf-8", "surrogatepass")
            start += size
            edges = itertools.accumulate(sizes, initial=0)
            texts = [whole[one:two] for one, two in itertools.pairwise(edges)]
            for row in range(len(sizes) // width):
                if chosen is None or chosen[first + row]:
                    yield dict(zip(self.roles, texts[width * row : width * (row + 1)], strict=True))
            first += count

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
"""Rows that are read back at a time."""

Cells = Mapping[str, str]
"""What a row holds, by role."""


class KeptRows:
    """Rows of cells, in a file without a name: it is gone when this object is, or the process."""

    def __init__(self, folder: Path, roles: Sequence[str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.roles = tuple(roles)
        self._file = tempfile.TemporaryFile(dir=folder, buffering=2**20)  # noqa: SIM115 it lives as long as this
        self._sizes = array("I")
        """Bytes of each cell, row after row."""

    def append(self, cells: Cells) -> None:
        for role in self.roles:
            text = cells.get(role, "").encode("utf-8", "surrogatepass")
            self._sizes.append(len(text))
            self._file.write(text)

    def flush(self) -> None:
        """Write what is still in memory: a full disk is told here, not where rows are read back."""
        self._file.flush()

    def __len__(self) -> int:
        return len(self._sizes) // len(self.roles)

    def rows(self, chosen: np.ndarray | None = None) -> Iterator[Cells]:
        """The rows in order, or those of them that `chosen` (a bool for each) says."""
        width, start = len(self.roles), 0
        for first in range(0, len(self), CHUNK):
            sizes = np.asarray(self._sizes[width * first : width * (first + CHUNK)], np.int64)
            self._file.seek(start)
            whole = self._file.read(int(sizes.sum()))
            start += len(whole)
            edges = [0, *np.cumsum(sizes).tolist()]
            cells = [
                whole[one:two].decode("utf-8", "surrogatepass") for one, two in itertools.pairwise(edges)
            ]
            for row in range(len(sizes) // width):
                if chosen is None or chosen[first + row]:
                    yield dict(zip(self.roles, cells[width * row : width * (row + 1)], strict=True))

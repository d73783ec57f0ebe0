"""Windows of stored series: steps that follow each other without a gap."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

from seqlab.data.batches import Rows
from seqlab.data.store import Store


@dataclass(frozen=True)
class Windows:
    """Windows of a store: which rows are seen, and which come after."""

    store: Store
    order: NDArray[np.int64]
    begins: NDArray[np.int64]
    """The place in `order` where each window begins."""
    counted: NDArray[np.bool_] | None = None
    """Those whose intervals are scored; None: all."""

    @staticmethod
    def of(store: Store, length: int) -> Windows:
        """All windows of so many steps that follow each other without a gap, series after series."""
        return Windows(store, *windows_of(store, length))

    def __len__(self) -> int:
        return len(self.begins)

    def some(self, most: int) -> Windows:
        """At most so many, evenly spread."""
        if len(self) <= most:
            return self
        return self.only(np.linspace(0, len(self) - 1, most).astype(np.int64))

    def only(self, rows: Rows) -> Windows:
        """These windows."""
        counted = None if self.counted is None else self.counted[rows]
        return replace(self, begins=self.begins[rows], counted=counted)

    @property
    def gap(self) -> tuple[int, int] | None:
        """The rows around the first step that is left out or comes twice, if there is one."""
        if "time" not in self.store.arrays:
            return None
        series, time = (np.asarray(self.store.arrays[name])[self.order] for name in ("series", "time"))
        wrong = np.flatnonzero((np.diff(series) == 0) & (np.diff(time.astype(np.float64)) != 1))
        return (int(self.order[wrong[0]]), int(self.order[wrong[0] + 1])) if len(wrong) else None

    @property
    def first_half(self) -> NDArray[np.bool_]:
        """Whether a window is in the first half of those of its series."""
        series = self.series(np.arange(len(self)))
        _, firsts, counts = np.unique(series, return_index=True, return_counts=True)
        places = np.arange(len(self)) - np.repeat(firsts, counts)
        return np.asarray(places < np.repeat((counts + 1) // 2, counts))

    def values(self, rows: Rows, start: int, count: int) -> Float[np.ndarray, "B T F"]:
        """`count` steps of these windows, from their step `start` on."""
        places = self.order[self.begins[rows][:, None] + np.arange(start, start + count)]
        return np.asarray(self.store.fields["values"].values[places], np.float32)

    def series(self, rows: Rows) -> Int[np.ndarray, " B"]:
        return np.asarray(self.store.arrays["series"])[self.order[self.begins[rows]]].astype(np.int64)


def windows_of(store: Store, length: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows of a store in the order of series and time, and the places in it where `length` of them follow
    each other without a gap."""
    series = np.asarray(store.arrays["series"])
    if "time" in store.arrays:
        time = np.asarray(store.arrays["time"])
        order = np.lexsort((time, series))
        joined = (np.diff(series[order]) == 0) & (np.diff(time[order]) == 1)
    else:
        order = np.argsort(series, kind="stable")
        joined = np.diff(series[order]) == 0
    whole = np.isfinite(np.asarray(store.fields["values"].values)[order]).all(axis=1)
    joined &= whole[1:] & whole[:-1]
    starts = np.concatenate([[0], np.flatnonzero(~joined) + 1, [len(order)]])
    begins = [np.arange(one, two - length + 1) for one, two in itertools.pairwise(starts.tolist())]
    return order, np.concatenate(begins)

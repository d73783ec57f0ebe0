"""Metrics of sequences of labels: `said` and `meant` are lists of arrays, a label or a number at each place.

An example is a whole sequence, so intervals come from resampled sentences: the words of one sentence are not
independent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Num

from seqlab.metrics import MAE, MSE, R2, Accuracy, MacroF1, Metric, share
from seqlab.spans import Scheme

TagRows = Sequence[np.ndarray]
"""T each."""


def offsets_of(rows: TagRows) -> Int[np.ndarray, " O"]:
    """Where each row begins among the places of all, and where the last one ends."""
    return np.cumsum([0, *map(len, rows)])


def by_row(
    count: Callable[[np.ndarray, np.ndarray], Num[np.ndarray, "N K"]], said: TagRows, meant: TagRows
) -> Num[np.ndarray, "B K"]:
    """The counts of the places of each row, added up."""
    flat = count(np.concatenate(said), np.concatenate(meant))
    counts: np.ndarray = np.add.reduceat(flat, offsets_of(meant)[:-1], axis=0)
    return counts


class TokenAccuracy(Accuracy):
    """The share of tokens with the right tag."""

    title, unit = "token accuracy", "share of tokens"

    def count(self, said: Any, meant: Any) -> Num[np.ndarray, "N K"]:
        return by_row(super().count, said, meant)


class TagMacroF1(MacroF1):
    """The mean of the tags' F1."""

    unit = "mean F1 of the tags"

    def count(self, said: Any, meant: Any) -> Num[np.ndarray, "N K"]:
        return by_row(super().count, said, meant)


class PlacesMSE(MSE):
    """The mean of the squared errors of all places."""

    def count(self, said: Any, meant: Any) -> Num[np.ndarray, "N K"]:
        return by_row(super().count, said, meant)


class PlacesMAE(MAE):
    """The mean size of the errors of all places."""

    def count(self, said: Any, meant: Any) -> Num[np.ndarray, "N K"]:
        return by_row(super().count, said, meant)


class PlacesR2(R2):
    """The share of the variance of all places that the answers explain."""

    def count(self, said: Any, meant: Any) -> Num[np.ndarray, "N K"]:
        return by_row(super().count, said, meant)


class AngleError(MAE):
    """The mean size of the difference of two angles of a place, the short way round."""

    name, title, unit = "angle_error", "mean absolute angular error", "degrees"
    watched = True

    def count(self, said: Any, meant: Any) -> Num[np.ndarray, "N K"]:
        return by_row(_angles, said, meant)


def _angles(said: np.ndarray, meant: np.ndarray) -> Num[np.ndarray, "N K"]:
    """The size of each difference in degrees, and 1."""
    error = np.abs((said.astype(np.float64) - meant + 180.0) % 360.0 - 180.0)
    return np.stack([error, np.ones(len(error))], axis=1)


# Spans ------------------------------------------------------------------------------------------------------


class _OfSpans(Metric):
    """Spans, right when start, end and type are. Counts: right, said, meant; of one type or of all."""

    unit = "share of spans"
    scale = "share"

    def __init__(self, scheme: Scheme, type: str | None = None) -> None:
        self.scheme, self.type = scheme, type

    def count(self, said: TagRows, meant: TagRows) -> Num[np.ndarray, "N K"]:
        offsets = offsets_of(meant)
        says, means = (self._keys(rows, offsets) for rows in (said, meant))
        right = means[np.isin(means, says)]  # a span occurs once on each side
        width = (len(self.scheme.types) + 1) * (int(offsets[-1]) + 1)  # of the keys of one start
        found = [
            np.bincount(np.searchsorted(offsets, keys // width, side="right") - 1, minlength=len(meant))
            for keys in (right, says, means)
        ]
        return np.stack(found, axis=1)

    def _keys(self, rows: TagRows, offsets: Int[np.ndarray, " O"]) -> Int[np.ndarray, " S"]:
        """A number for each span, made of start, end and type."""
        tags = np.concatenate(rows).astype(np.int64)
        starts, ends = self.scheme.bounds(tags, offsets)
        types = self.scheme.numbers[tags[starts]]
        if self.type is not None:
            kept = types == self.scheme.types.index(self.type)
            starts, ends, types = starts[kept], ends[kept], types[kept]
        keys: np.ndarray = (starts * (len(tags) + 1) + ends) * (len(self.scheme.types) + 1) + types
        return keys


class SpanPrecision(_OfSpans):
    """Of the spans that were said, the share that are right."""

    name, title, watched = "precision", "span precision", False

    def score(self, counts: Num[np.ndarray, "*S K"]) -> Float[np.ndarray, "*S"]:
        return share(counts[..., 0], counts[..., 1])


class SpanRecall(_OfSpans):
    """Of the spans that were meant, the share that were found."""

    name, title, watched = "recall", "span recall", False

    def score(self, counts: Num[np.ndarray, "*S K"]) -> Float[np.ndarray, "*S"]:
        return share(counts[..., 0], counts[..., 2])


class SpanF1(_OfSpans):
    """The harmonic mean of the precision and recall of spans, as conlleval counts them."""

    name, title = "f1", "span F1"

    def score(self, counts: Num[np.ndarray, "*S K"]) -> Float[np.ndarray, "*S"]:
        return share(2 * counts[..., 0], counts[..., 1] + counts[..., 2])

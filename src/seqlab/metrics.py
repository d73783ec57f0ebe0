"""How good answers are: counts that add up over examples, a score of the sums, and how sure we can be of it.

A metric first turns each example into a row of counts. Rows can be added over batches, files and processes in
any order, and only the sum is scored. The bootstrap is then one matrix product: how often each row was drawn,
times the rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal

import numpy as np
from jaxtyping import Float, Int, Num

GROUPS = 20_000
"""The bootstrap draws from at most so many rows; more examples are first added up, at random, into so many
groups."""


class Metric(ABC):
    """Counts for each example, and the score of their sum."""

    name: ClassVar[str]
    """As in `evaluate --json` and, after `valid_`, in metrics.jsonl."""
    title: ClassVar[str]
    """As a person writes it."""
    unit: ClassVar[str]
    better: ClassVar[Literal["higher", "lower"]] = "higher"
    scale: ClassVar[Literal["share", "hundred", "open"]] = "open"
    """From 0 to 1, from 0 to 100, or without an upper end."""
    summed: ClassVar[bool] = True
    """Whether the few lines at the end of a training tell it."""
    watched: ClassVar[bool] = True
    """Whether it is logged at each validation."""
    logged: ClassVar[str] = ""
    """What it is called in metrics.jsonl; empty: valid_ and its name."""

    @property
    def key(self) -> str:
        """Its key in metrics.jsonl."""
        return self.logged or f"valid_{self.name}"

    def signature(self, meant: Any) -> str:
        """What others need to know who want the same figure; empty where the name says it."""
        return ""

    @abstractmethod
    def count(self, said: Any, meant: Any) -> Num[np.ndarray, "N K"]:
        """One row of counts an example. Each metric says what an answer is to it: a class number, a number, a
        text."""

    @abstractmethod
    def score(self, counts: Num[np.ndarray, "*S K"]) -> Float[np.ndarray, "*S"]:
        """The score of summed counts, for each sum along the leading axes."""

    def __call__(self, said: Any, meant: Any) -> float:
        return float(self.score(self.count(said, meant).sum(axis=0)))


# Labels: `said` and `meant` are class numbers ---------------------------------------------------------------


class Accuracy(Metric):
    """The share of examples with the right label. Counts: right, all."""

    name, title, unit = "accuracy", "accuracy", "share of examples"
    scale = "share"

    def count(self, said: Num[np.ndarray, " N"], meant: Num[np.ndarray, " N"]) -> Num[np.ndarray, "N K"]:
        return np.stack([said == meant, np.ones(len(said), bool)], axis=1).astype(np.int64)

    def score(self, counts: Num[np.ndarray, "*S K"]) -> Float[np.ndarray, "*S"]:
        return share(counts[..., 0], counts[..., 1])


class MacroF1(Metric):
    """The mean of the classes' F1, every class counting the same however rare.

    A class that is neither said nor meant has no F1 and is left out of the mean, as scikit-learn does when it
    takes the labels from the data. Counts: right, said and meant for each class, so K = 3 C.
    """

    name, title, unit = "f1", "macro-F1", "mean F1 of the classes"
    scale = "share"

    def __init__(self, classes: int) -> None:
        self.classes = classes

    def count(self, said: Num[np.ndarray, " N"], meant: Num[np.ndarray, " N"]) -> Num[np.ndarray, "N K"]:
        each = np.arange(self.classes)
        says, means = said[:, None] == each, meant[:, None] == each  # N C
        return np.concatenate([says & means, says, means], axis=1).astype(np.int64)

    def score(self, counts: Num[np.ndarray, "*S K"]) -> Float[np.ndarray, "*S"]:
        right, said, meant = np.split(counts, 3, axis=-1)  # ... C each
        seen = (said + meant > 0).sum(axis=-1)
        return share(share(2 * right, said + meant).sum(axis=-1), seen)


class _OfOneClass(Metric):
    """About one class. Counts: right, said, meant."""

    unit = "share of examples"
    scale = "share"

    def __init__(self, which: int) -> None:
        self.which = which

    def count(self, said: Num[np.ndarray, " N"], meant: Num[np.ndarray, " N"]) -> Num[np.ndarray, "N K"]:
        says, means = said == self.which, meant == self.which
        return np.stack([says & means, says, means], axis=1).astype(np.int64)


class Precision(_OfOneClass):
    """Of those said to be of this class, the share that are."""

    name = title = "precision"

    def score(self, counts: Num[np.ndarray, "*S K"]) -> Float[np.ndarray, "*S"]:
        return share(counts[..., 0], counts[..., 1])


class Recall(_OfOneClass):
    """Of those that are of this class, the share that were found."""

    name = title = "recall"

    def score(self, counts: Num[np.ndarray, "*S K"]) -> Float[np.ndarray, "*S"]:
        return share(counts[..., 0], counts[..., 2])


class F1(_OfOneClass):
    """The harmonic mean of this class's precision and recall."""

    name, title = "f1", "F1"

    def score(self, counts: Num[np.ndarray, "*S K"]) -> Float[np.ndarray, "*S"]:
        return share(2 * counts[..., 0], counts[..., 1] + counts[..., 2])


def confusion(
    said: Num[np.ndarray, " N"], meant: Num[np.ndarray, " N"], classes: int
) -> Int[np.ndarray, "C C"]:
    """How often each class (rows: what was meant) was called each class (columns: what was said)."""
    cells = np.bincount(meant.astype(np.int64) * classes + said.astype(np.int64), minlength=classes * classes)
    return cells.reshape(classes, classes)


# Numbers ----------------------------------------------------------------------------------------------------


class MSE(Metric):
    """The mean of the squared errors. Counts: squared error, 1."""

    name, title, unit, better = "mse", "mean squared error", "squared units of the target", "lower"

    def count(self, said: Num[np.ndarray, " N"], meant: Num[np.ndarray, " N"]) -> Num[np.ndarray, "N K"]:
        error = said.astype(np.float64) - meant
        return np.stack([error**2, np.ones(len(error))], axis=1)

    def score(self, counts: Num[np.ndarray, "*S K"]) -> Float[np.ndarray, "*S"]:
        return share(counts[..., 0], counts[..., 1])


class MAE(Metric):
    """The mean size of the errors. Counts: size of the error, 1."""

    name, title, unit, better = "mae", "mean absolute error", "units of the target", "lower"
    watched = False

    def count(self, said: Num[np.ndarray, " N"], meant: Num[np.ndarray, " N"]) -> Num[np.ndarray, "N K"]:
        error = said.astype(np.float64) - meant
        return np.stack([np.abs(error), np.ones(len(error))], axis=1)

    def score(self, counts: Num[np.ndarray, "*S K"]) -> Float[np.ndarray, "*S"]:
        return share(counts[..., 0], counts[..., 1])


class R2(Metric):
    """The share of the targets' variance that the answers explain: 1 − squared errors / squared distances
    from the mean.

    Counts: squared error, y, y², 1, with y measured from `centre` so that large targets keep their digits.
    Targets that are all the same have no variance: 1 when every answer is right, else 0, as in scikit-learn.
    """

    name, title, unit = "r2", "R²", "share of the variance"
    scale = "share"
    watched = False

    def __init__(self, centre: float = 0.0) -> None:
        self.centre = centre

    def count(self, said: Num[np.ndarray, " N"], meant: Num[np.ndarray, " N"]) -> Num[np.ndarray, "N K"]:
        target = meant.astype(np.float64) - self.centre
        error = said.astype(np.float64) - meant
        return np.stack([error**2, target, target**2, np.ones(len(error))], axis=1)

    def score(self, counts: Num[np.ndarray, "*S K"]) -> Float[np.ndarray, "*S"]:
        wrong, total, squares, many = np.moveaxis(counts, -1, 0)
        spread = squares - total**2 / np.maximum(many, 1)
        spread = np.where(spread > 1e-12 * squares, spread, 0.0)  # what rounding leaves of nothing
        return np.asarray(np.where(spread > 0, 1 - share(wrong, spread), wrong == 0), dtype=np.float64)


# How sure ---------------------------------------------------------------------------------------------------


def bootstrap(
    metric: Metric,
    counts: Num[np.ndarray, "N K"],
    times: Int[np.ndarray, " N"] | None = None,
    *,
    seed: int = 0,
    samples: int = 1000,
    level: float = 0.95,
) -> tuple[float, float, float]:
    """The score, and the interval between the quantiles of the scores of resampled examples.

    `times` says how many examples have each row of counts; None: one each. Classification has few different
    rows (C² at most), so the sums are drawn from one multinomial, exactly, for any number of examples. Above
    `GROUPS` different rows, random groups of examples are resampled instead of examples: the same spread, as
    long as examples are independent, at a bounded cost. When every example is right, resampling can only say
    so again and the interval is a point.
    """
    assert len(counts) > 0, "nothing to score"
    value = float(metric.score(counts.sum(axis=0) if times is None else times @ counts))
    scores = metric.score(resampled(counts, times, seed=seed, samples=samples))
    low, high = np.quantile(scores, [(1 - level) / 2, (1 + level) / 2])
    return value, min(float(low), value), max(float(high), value)


def resampled(
    counts: Num[np.ndarray, "N K"],
    times: Int[np.ndarray, " N"] | None = None,
    *,
    seed: int = 0,
    samples: int = 1000,
) -> Float[np.ndarray, "S K"]:
    """The sums of the counts of resampled examples, as `bootstrap` draws them."""
    random = np.random.default_rng(seed)
    counts = counts.astype(np.float64)
    if times is not None:
        drawn = random.multinomial(times.sum(), times / times.sum(), size=samples)
        return np.asarray(drawn @ counts)
    if len(counts) > GROUPS:
        starts = np.linspace(0, len(counts), GROUPS, endpoint=False).astype(np.int64)
        counts = np.add.reduceat(counts[random.permutation(len(counts))], starts)
    size = len(counts)
    return np.stack(
        [np.bincount(random.integers(size, size=size), minlength=size) @ counts for _ in range(samples)]
    )


def share(part: np.ndarray | np.number, whole: np.ndarray | np.number) -> np.ndarray:
    """part / whole, and 0 of nothing."""
    return np.asarray(part / np.where(whole == 0, 1, whole), dtype=np.float64)

"""How good forecasts are: errors scaled and in the data's units, and whether intervals hold what came.

`said` and `meant` are `Forecasts`. Windows overlap, so those that begin within one horizon of each other are
counted together: the bootstrap draws such blocks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Bool, Float, Int, Num

from seqlab.metrics import Metric, share


@dataclass(frozen=True)
class Forecasts:
    """What is said of N windows, or what came: H steps of C targets."""

    scaled: Float[np.ndarray, "N H C"]
    """In standard deviations of the training rows, which is what models learn."""
    units: Float[np.ndarray, "N H C"]
    """As in the data."""
    moves: Float[np.ndarray, "N C"]
    """What MASE is measured by: mean absolute change over one period in the training rows."""
    low: Float[np.ndarray, "N H C"] | None = None
    high: Float[np.ndarray, "N H C"] | None = None
    """The interval, in units."""
    counted: Bool[np.ndarray, " N"] | None = None
    """Windows whose intervals are scored: none that the intervals were made from. None: all."""

    block: int | None = None
    """So many examples after each other are counted together; None: as many as there are steps, since windows
    overlap."""

    def __len__(self) -> int:
        return len(self.scaled)

    def within(self, low: Float[np.ndarray, "N H C"], high: Float[np.ndarray, "N H C"]) -> Forecasts:
        """The same with an interval."""
        return replace(self, low=low, high=high)


def conformal_quantiles(errors: Float[np.ndarray, "N H C"], coverage: float) -> Float[np.ndarray, "H C"]:
    """The ⌈(N+1)·coverage⌉-th smallest error of each step and target; the largest where there are too few.

    Split conformal prediction (Vovk et al. 2005): of N exchangeable windows and one more, the error of the
    new one is no larger with that probability.
    """
    rank = min(len(errors), math.ceil((len(errors) + 1) * coverage - 1e-9))
    return np.asarray(np.sort(errors, axis=0)[rank - 1])


class _OfForecasts(Metric):
    """Counts: what each number of a window adds, and how many numbers there are, for blocks of windows."""

    better: ClassVar[Literal["higher", "lower"]] = "lower"
    watched = False

    def count(self, said: Forecasts, meant: Forecasts) -> Num[np.ndarray, "N K"]:
        sums, many = self.added(said, meant)
        block = meant.block or max(1, meant.scaled.shape[1])
        starts = np.arange(0, len(meant), block)
        return np.add.reduceat(np.stack([sums, many], axis=1).astype(np.float64), starts, axis=0)

    def added(
        self, said: Forecasts, meant: Forecasts
    ) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"] | Int[np.ndarray, " N"]]:
        """For each window a sum, and over how many numbers."""
        each = self.each(said, meant)
        return each.sum(axis=(1, 2)), np.full(len(each), each[0].size)

    def each(self, said: Forecasts, meant: Forecasts) -> Float[np.ndarray, "N H C"]:
        """What each number adds."""
        raise NotImplementedError

    def score(self, counts: Num[np.ndarray, "*S K"]) -> Float[np.ndarray, "*S"]:
        return share(counts[..., 0], counts[..., 1])


class ScaledMSE(_OfForecasts):
    """The mean squared error of scaled values."""

    name, title, unit = "mse", "MSE", "variances of the training rows"
    watched = True

    def each(self, said: Forecasts, meant: Forecasts) -> Float[np.ndarray, "N H C"]:
        return np.asarray((said.scaled.astype(np.float64) - meant.scaled) ** 2)


class ScaledMAE(_OfForecasts):
    """The mean absolute error of scaled values."""

    name, title, unit = "mae", "MAE", "standard deviations of the training rows"
    watched = True

    def each(self, said: Forecasts, meant: Forecasts) -> Float[np.ndarray, "N H C"]:
        return np.asarray(np.abs(said.scaled.astype(np.float64) - meant.scaled))


class MASE(_OfForecasts):
    """Mean absolute scaled error (Hyndman and Koehler 2006): the error over the mean absolute change over one
    period in the training rows. Below 1 is better than repeating the last period was there."""

    name, title, unit = "mase", "MASE", "errors of repeating the last period in the training rows"

    def each(self, said: Forecasts, meant: Forecasts) -> Float[np.ndarray, "N H C"]:
        return np.asarray(np.abs(said.units - meant.units) / meant.moves[:, None])


class SMAPE(_OfForecasts):
    """Symmetric mean absolute percentage error, 200 |y − ŷ| / (|y| + |ŷ|), as in the M4 competition; 0 of
    two zeros."""

    name, title, unit = "smape", "sMAPE", "per cent, at most 200"
    summed = False

    def each(self, said: Forecasts, meant: Forecasts) -> Float[np.ndarray, "N H C"]:
        return np.asarray(
            200 * share(np.abs(said.units - meant.units), np.abs(said.units) + np.abs(meant.units))
        )


class UnitMAE(_OfForecasts):
    """The mean absolute error in the data's units, over all targets."""

    name, title, unit = "mae_units", "MAE in units", "units of the targets"
    summed = False

    def each(self, said: Forecasts, meant: Forecasts) -> Float[np.ndarray, "N H C"]:
        return np.asarray(np.abs(said.units - meant.units))


class UnitMSE(_OfForecasts):
    """The mean squared error in the data's units, over all targets."""

    name, title, unit = "mse_units", "MSE in units", "squared units of the targets"
    summed = False

    def each(self, said: Forecasts, meant: Forecasts) -> Float[np.ndarray, "N H C"]:
        return np.asarray((said.units - meant.units) ** 2)


class _OfIntervals(_OfForecasts):
    """About intervals: of the windows that they were not made from."""

    def added(
        self, said: Forecasts, meant: Forecasts
    ) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"] | Int[np.ndarray, " N"]]:
        sums, many = super().added(said, meant)
        if said.counted is None:
            return sums, many
        counted = np.asarray(said.counted)
        return np.where(counted, sums, 0.0), np.where(counted, many, 0)


class Coverage(_OfIntervals):
    """The share of what came that lies in its interval; as good as it is close to what was asked for."""

    name, title, unit = "coverage", "coverage", "share of what came in its interval"
    better: ClassVar[Literal["higher", "lower"]] = "higher"
    scale = "share"

    def each(self, said: Forecasts, meant: Forecasts) -> Float[np.ndarray, "N H C"]:
        assert said.low is not None and said.high is not None
        return np.asarray(((said.low <= meant.units) & (meant.units <= said.high)).astype(np.float64))


class Width(_OfIntervals):
    """The mean width of the intervals."""

    name, title, unit = "width", "width", "units of the targets"
    summed = False

    def each(self, said: Forecasts, meant: Forecasts) -> Float[np.ndarray, "N H C"]:
        assert said.low is not None and said.high is not None
        return np.asarray(said.high - said.low)


METRICS: tuple[type[_OfForecasts], ...] = (
    ScaledMSE, ScaledMAE, MASE, SMAPE, UnitMSE, UnitMAE, Coverage, Width,
)  # fmt: skip

"""The scores of forecasts are what their formulas say, written out here number by number."""

import numpy as np
import pytest

from seqlab.forecast_metrics import (
    MASE,
    METRICS,
    SMAPE,
    Coverage,
    Forecasts,
    ScaledMAE,
    ScaledMSE,
    UnitMAE,
    UnitMSE,
    Width,
    conformal_quantiles,
)

RANDOM = np.random.default_rng(0)
N, H, C = 13, 4, 2
SCALED, CAME = RANDOM.standard_normal((2, N, H, C)).astype(np.float32)
UNITS, UNITS_CAME = 10 + 3 * SCALED.astype(np.float64), 10 + 3 * CAME.astype(np.float64)
MOVES = RANDOM.uniform(1, 2, (N, C))
LOW, HIGH = UNITS - RANDOM.uniform(0, 4, (N, H, C)), UNITS + RANDOM.uniform(0, 4, (N, H, C))
SAID = Forecasts(SCALED, UNITS, MOVES, LOW, HIGH)
MEANT = Forecasts(CAME, UNITS_CAME, MOVES)


def over_all(of) -> float:
    """The mean of a formula over windows, steps and targets."""
    return sum(of(n, h, c) for n in range(N) for h in range(H) for c in range(C)) / (N * H * C)


FORMULAS = {
    ScaledMSE: lambda n, h, c: (float(SCALED[n, h, c]) - float(CAME[n, h, c])) ** 2,
    ScaledMAE: lambda n, h, c: abs(float(SCALED[n, h, c]) - float(CAME[n, h, c])),
    MASE: lambda n, h, c: abs(UNITS[n, h, c] - UNITS_CAME[n, h, c]) / MOVES[n, c],
    SMAPE: lambda n, h, c: (
        200 * abs(UNITS[n, h, c] - UNITS_CAME[n, h, c]) / (abs(UNITS[n, h, c]) + abs(UNITS_CAME[n, h, c]))
    ),
    UnitMSE: lambda n, h, c: (UNITS[n, h, c] - UNITS_CAME[n, h, c]) ** 2,
    UnitMAE: lambda n, h, c: abs(UNITS[n, h, c] - UNITS_CAME[n, h, c]),
    Coverage: lambda n, h, c: float(LOW[n, h, c] <= UNITS_CAME[n, h, c] <= HIGH[n, h, c]),
    Width: lambda n, h, c: HIGH[n, h, c] - LOW[n, h, c],
}


def test_every_metric_has_a_formula_here():
    assert set(FORMULAS) == set(METRICS)


@pytest.mark.parametrize("metric", FORMULAS)
def test_a_score_is_its_formula(metric):
    assert metric()(SAID, MEANT) == pytest.approx(over_all(FORMULAS[metric]), rel=1e-9)


def test_windows_that_overlap_are_drawn_together():
    """Of 13 windows of 4 steps there are 4 blocks, in the order of time."""
    counts = ScaledMAE().count(SAID, MEANT)
    assert counts[:, 1].tolist() == [4 * H * C] * 3 + [H * C]
    first = np.abs(SCALED[:4].astype(np.float64) - CAME[:4])
    assert counts[0, 0] == pytest.approx(first.sum(), rel=1e-9)


def test_windows_that_intervals_came_from_are_not_counted():
    later = np.arange(N) >= 6
    said = Forecasts(SCALED, UNITS, MOVES, LOW, HIGH, counted=later)
    held = ((LOW <= UNITS_CAME) & (UNITS_CAME <= HIGH))[6:]
    assert Coverage()(said, MEANT) == pytest.approx(held.mean())
    assert Width()(said, MEANT) == pytest.approx((HIGH - LOW)[6:].mean())
    assert ScaledMSE()(said, MEANT) == pytest.approx(ScaledMSE()(SAID, MEANT))


def test_two_zeros_differ_by_nothing():
    zeros = np.zeros((2, 1, 1))
    ones = Forecasts(zeros, zeros, np.ones((2, 1)))
    assert SMAPE()(ones, ones) == 0.0


def test_repeating_what_training_rows_did_has_a_mase_of_one():
    """A series that moves by 2 a step, told that it stays: the errors are 2, 4, 6, and the scale is 2."""
    came = np.array([2.0, 4.0, 6.0]).reshape(1, 3, 1)
    stays = Forecasts(0 * came, 0 * came, np.array([[2.0]]))
    assert MASE()(stays, Forecasts(came, came, np.array([[2.0]]))) == pytest.approx((1 + 2 + 3) / 3)


def test_split_conformal_by_hand():
    """Of 9 errors the ⌈10 · 0.9⌉ = 9th; of 19 the 18th; of 4 the ⌈4.5⌉ = 5th, not there: the largest.
    Of 9 at a half the 5th."""
    errors = np.array([0.3, 0.1, 0.9, 0.5, 0.7, 0.2, 0.8, 0.6, 0.4]).reshape(9, 1, 1)
    assert conformal_quantiles(errors, 0.9).tolist() == [[0.9]]
    assert conformal_quantiles(errors, 0.5).tolist() == [[0.5]]
    many = np.arange(1.0, 20.0)[::-1].reshape(19, 1, 1)
    assert conformal_quantiles(many, 0.9).tolist() == [[18.0]]
    assert conformal_quantiles(many[:4], 0.9).tolist() == [[19.0]]


def test_conformal_intervals_hold_as_often_as_they_say():
    """Each step and target by itself. With N = 99 the chance of the next one is 0.9 on average."""
    random = np.random.default_rng(1)
    held = []
    for _ in range(400):
        errors = np.abs(random.standard_cauchy((100, 2, 1)))
        held.append(errors[-1] <= conformal_quantiles(errors[:-1], 0.9))
    assert np.mean(held, axis=0) == pytest.approx(np.full((2, 1), 0.9), abs=0.05)

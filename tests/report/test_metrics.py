"""Scores agree with scikit-learn, counts add up, and intervals have the width that theory gives."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as reference

from seqlab.metrics import (
    F1,
    GROUPS,
    MAE,
    MSE,
    R2,
    Accuracy,
    MacroF1,
    Precision,
    Recall,
    bootstrap,
    confusion,
)

pairs = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=60)
numbers = st.lists(st.tuples(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3)), min_size=2, max_size=60)


def columns(rows):
    said, meant = zip(*rows, strict=True)
    return np.array(said), np.array(meant)


@given(pairs)
def test_label_scores_agree_with_scikit_learn(rows):
    said, meant = columns(rows)
    assert Accuracy()(said, meant) == pytest.approx(reference.accuracy_score(meant, said))
    assert MacroF1(5)(said, meant) == pytest.approx(
        reference.f1_score(meant, said, average="macro", zero_division=0)
    )
    each = reference.precision_recall_fscore_support(meant, said, labels=range(5), zero_division=0)
    for which in range(5):
        ours = [kind(which)(said, meant) for kind in (Precision, Recall, F1)]
        assert ours == pytest.approx([scores[which] for scores in each[:3]])


@given(pairs)
def test_the_confusion_matrix_agrees_with_scikit_learn(rows):
    said, meant = columns(rows)
    assert (confusion(said, meant, 5) == reference.confusion_matrix(meant, said, labels=range(5))).all()


@given(numbers)
def test_number_scores_agree_with_scikit_learn(rows):
    said, meant = columns(rows)
    assert MSE()(said, meant) == pytest.approx(reference.mean_squared_error(meant, said))
    assert MAE()(said, meant) == pytest.approx(reference.mean_absolute_error(meant, said))
    if np.ptp(meant) > 1e-3:
        assert R2()(said, meant) == pytest.approx(reference.r2_score(meant, said), rel=1e-6, abs=1e-6)


def test_r2_of_large_targets_keeps_its_digits_with_a_centre():
    random = np.random.default_rng(0)
    meant = 1e8 + random.normal(size=500)
    said = meant + 0.1 * random.normal(size=500)
    assert R2(centre=1e8)(said, meant) == pytest.approx(reference.r2_score(meant, said), abs=1e-6)


def test_r2_of_targets_that_are_all_the_same_is_that_of_scikit_learn():
    same = np.full(4, 2.5)
    assert R2()(same, same) == 1.0
    assert R2()(same + 1, same) == 0.0


@pytest.mark.parametrize("metric", [Accuracy(), MacroF1(3), F1(1)])
def test_counts_of_parts_add_up_to_the_counts_of_the_whole(metric):
    random = np.random.default_rng(0)
    said, meant = random.integers(0, 3, 100), random.integers(0, 3, 100)
    parts = sum(
        metric.count(said[piece], meant[piece]).sum(axis=0) for piece in np.array_split(np.arange(100), 7)
    )
    assert float(metric.score(parts)) == metric(said, meant)


@pytest.mark.parametrize("counted", [False, True], ids=["one row an example", "rows that occur many times"])
def test_the_interval_of_accuracy_has_the_width_of_the_binomial(counted):
    """The normal limit of the binomial: p ± 1.96 √(p(1 − p)/n)."""
    n, right = 2000, 1600
    said, meant = np.zeros(n, int), np.array([0] * right + [1] * (n - right))
    if counted:
        counts, times = Accuracy().count(np.array([0, 0]), np.array([0, 1])), np.array([right, n - right])
    else:
        counts, times = Accuracy().count(said, meant), None
    value, low, high = bootstrap(Accuracy(), counts, times, samples=4000)
    half = 1.96 * math.sqrt(0.8 * 0.2 / n)
    assert value == pytest.approx(0.8)
    assert high - low == pytest.approx(2 * half, rel=0.06)
    assert (low + high) / 2 == pytest.approx(0.8, abs=0.1 * half)


def test_many_examples_are_resampled_in_groups_with_the_same_spread():
    """The mean of n draws of a standard normal has a 95 % interval of ± 1.96/√n, also with sorted rows."""
    n = 3 * GROUPS + 17
    errors = np.sort(np.abs(np.random.default_rng(0).normal(size=n)))
    _, low, high = bootstrap(MAE(), MAE().count(errors, np.zeros(n)), samples=500)
    spread = errors.std() / math.sqrt(n)
    assert high - low == pytest.approx(2 * 1.96 * spread, rel=0.15)


def test_the_bootstrap_gives_the_same_interval_every_time():
    random = np.random.default_rng(1)
    counts = MSE().count(random.normal(size=50), random.normal(size=50))
    assert bootstrap(MSE(), counts) == bootstrap(MSE(), counts)
    assert bootstrap(MSE(), counts) != bootstrap(MSE(), counts, seed=1)


def test_scores_are_taken_along_leading_axes():
    """A stack of sums gives a stack of scores."""
    random = np.random.default_rng(0)
    for metric in (Accuracy(), MacroF1(3), R2()):
        counts = metric.count(random.integers(0, 3, 20), random.integers(0, 3, 20))
        sums = np.stack([counts[:7].sum(axis=0), counts[7:].sum(axis=0)])
        assert metric.score(sums).shape == (2,)
        assert metric.score(sums)[1] == metric.score(sums[1])

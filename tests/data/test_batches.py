"""Batches: every row once an epoch, within the budget, and the same ones from any position on."""

import itertools
import json
from dataclasses import asdict

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from seqlab.data.batches import Plan, Position, in_order, inputs
from seqlab.data.store import Ragged

SIZES = st.lists(st.integers(1, 300), min_size=1, max_size=80).map(np.array)


@given(SIZES, st.integers(1, 1000), st.integers(0, 5), st.none() | st.integers(1, 9))
@settings(deadline=None)
def test_every_row_comes_once_an_epoch_within_the_budget(sizes, budget, seed, most_rows):
    plan = Plan(sizes, budget, seed, most_rows)
    for batches in (plan.epoch(0), plan.epoch(1), in_order(sizes, budget, most_rows)):
        assert sorted(np.concatenate(batches)) == list(range(len(sizes)))
        for rows in batches:
            assert len(rows) == 1 or len(rows) * sizes[rows].max() <= budget
            assert most_rows is None or len(rows) <= most_rows


@given(SIZES, st.integers(1, 1000), st.integers(0, 5))
@settings(deadline=None)
def test_an_epoch_follows_from_seed_and_number_alone(sizes, budget, seed):
    one, two = Plan(sizes, budget, seed), Plan(sizes, budget, seed)
    two.epoch(0)

    assert [rows.tolist() for rows in one.epoch(3)] == [rows.tolist() for rows in two.epoch(3)]


@given(SIZES, st.integers(1, 1000), st.integers(0, 40))
@settings(deadline=None, max_examples=60)
def test_going_on_from_any_position_gives_the_rest(sizes, budget, steps):
    plan = Plan(sizes, budget, seed=1)
    whole = list(itertools.islice(plan.after(Position()), steps + 10))
    position = whole[steps - 1][0] if steps else Position()

    position = Position(**json.loads(json.dumps(asdict(position))))
    rest = list(itertools.islice(plan.after(position), 10))

    for (reached, rows), (reached_too, rows_too) in zip(whole[steps:], rest, strict=True):
        assert reached == reached_too and rows.tolist() == rows_too.tolist()


def test_epochs_differ_and_little_is_padded():
    sizes = np.random.default_rng(0).lognormal(5, 0.7, 20_000).astype(np.int64) + 1
    plan = Plan(sizes, 16_384, seed=0)
    first, second = plan.epoch(0), plan.epoch(1)

    padded = sum(len(rows) * sizes[rows].max() for rows in first)
    assert sizes.sum() / padded > 0.9
    assert {tuple(sorted(rows)) for rows in first}.isdisjoint(tuple(sorted(rows)) for rows in second)
    assert (
        len({len(rows) * int(sizes[rows].max()) > 8_000 for rows in first[:20]}) <= 2
    )  # order is shuffled, not by length
    assert np.abs(np.diff([sizes[rows].mean() for rows in first])).mean() > 20


def test_inputs_are_padded_field_by_field():
    fields = {
        "text": Ragged.of([[1, 2], [3]], np.int64),
        "weights": Ragged.of([[0.5, 0.5], [1.0]], np.float32),
    }

    batch = inputs(fields, np.array([1, 0]))

    assert batch["text"].values.tolist() == [[3, 0], [1, 2]]
    assert batch["weights"].values.tolist() == [[1.0, 0.0], [0.5, 0.5]]

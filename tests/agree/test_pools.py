"""Pools against hand calculation, and A5's penalties."""

import math
from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from seqlab.model import ModelConfig
from seqlab.objectives import CrossEntropy
from seqlab.outputs import (
    Attention,
    First,
    Last,
    Max,
    Mean,
    MeanMax,
    Pair,
    Structured,
    hop_cosine,
    hop_products,
    kl_penalty,
    overlap_penalty,
)
from seqlab.parts import Batch, Output, Pooled, Reply
from seqlab.seq import Seq
from seqlab.tasks.classify import Classify

X = Seq(
    torch.tensor([[[1.0, -4], [3, -2], [9, 9]], [[2, 0], [0, 6], [4, 3]]]),
    torch.tensor([[True, True, False], [True, True, True]]),
)


@pytest.mark.parametrize(
    "config, expected",
    [
        (Last(), [[3, -2], [4, 3]]),
        (First(), [[1, -4], [2, 0]]),
        (Mean(), [[2, -3], [2, 3]]),
        (Max(), [[3, -2], [4, 6]]),
        (MeanMax(), [[2, -3, 3, -2], [2, 3, 4, 6]]),
    ],
)
def test_plain_pools_by_hand(config, expected):
    assert config.build(2)(X).vector.tolist() == expected


def test_a_pair_is_told_by_its_means_their_difference_and_product():
    """Row 0 has one state in each text, row 1 two in the first; padding counts in neither."""
    x = replace(X, segments=torch.tensor([[0, 1, 1], [0, 0, 1]]))
    wanted = [[1, -4, 3, -2, 2, 2, 3, 8], [1, 3, 4, 3, 3, 0, 4, 9]]
    assert Pair().build(2)(x).vector.tolist() == wanted
    assert Pair().build(2)(X).vector.tolist() == [
        [2, -3, 0, 0, 2, 3, 0, 0],
        [2, 3, 0, 0, 2, 3, 0, 0],
    ]  # no second text


def test_last_takes_the_encoders_summary_where_there_is_one():
    summary = torch.tensor([[5.0, 6], [7, 8]])
    assert torch.equal(Last().build(2)(X.with_values(X.values, summary=summary)).vector, summary)


def test_attention_pooling_by_hand():
    """Scores v · tanh(W h + b): with W = [1 0], b = 0, v = 1 they are tanh of the first feature."""
    pool = Attention(hidden=1).build(2)
    with torch.no_grad():
        pool.hidden.weight.copy_(torch.tensor([[1.0, 0]]))
        pool.score.weight.fill_(1.0)
    first, second = math.exp(math.tanh(1)), math.exp(math.tanh(3))
    weights = torch.tensor([first, second, 0]) / (first + second)
    pooled = pool(X)
    assert_close(pooled.weights[0, 0], weights)
    assert_close(pooled.vector[0], weights @ X.values[0])


def test_one_hop_is_attention_pooling_without_bias():
    torch.manual_seed(0)
    one, plain = Structured(hops=1, hidden=5).build(2), Attention(hidden=5, bias=False).build(2)
    plain.load_state_dict(one.state_dict())
    assert_close(one(X).vector, plain(X).vector)
    assert_close(one(X).weights, plain(X).weights)


def test_structured_attention_is_its_formula():
    """A5: A = softmax(W_2 tanh(W_1 Hᵀ)), M = A H, for a row without padding."""
    torch.manual_seed(0)
    pool = Structured(hops=3, hidden=5).build(2)
    states = X.values[1]
    weights = (pool.score.weight @ torch.tanh(pool.hidden.weight @ states.T)).softmax(dim=-1)
    pooled = pool(X)
    assert_close(pooled.weights[1], weights)
    assert_close(pooled.vector[1], (weights @ states).flatten())


@pytest.mark.parametrize("hops", [1, 2, 5])
def test_the_overlap_penalty_is_zero_for_hops_apart_and_r_r_minus_one_for_hops_alike(hops):
    apart = torch.eye(7)[:hops].unsqueeze(0)
    alike = torch.eye(7)[:1].expand(1, hops, 7)
    assert overlap_penalty(torch.cat([apart, alike])).tolist() == [0, hops * (hops - 1)]


def test_overlap_of_hops_is_told_by_products_and_by_cosine():
    """Hand calculation. Alike and sharp: both 1. Apart: both 0. Alike and flat over 8 positions: products are
    8 · 1/64 = 1/8, but the cosine is 1. (1/2, 1/2, 0) and (0, 1/2, 1/2): 1/4 over √(1/2 · 1/2)."""
    eye, flat = torch.eye(8), torch.full((3, 8), 1 / 8)
    rows = torch.stack([eye[[2, 2, 2]], eye[:3], flat])
    assert_close(hop_products(rows), torch.tensor([1.0, 0, 1 / 8]))
    assert_close(hop_cosine(rows), torch.tensor([1.0, 0, 1]))
    half = torch.tensor([[[0.5, 0.5, 0], [0, 0.5, 0.5]]])
    assert_close(torch.cat([hop_products(half), hop_cosine(half)]), torch.tensor([0.25, 0.5]))
    assert [float(told(flat[None, :1])) for told in (hop_products, hop_cosine)] == [0, 0]  # one hop


def test_the_kl_penalty_is_minus_the_mean_divergence_between_hops():
    weights = torch.tensor([[[0.5, 0.5, 0], [0.25, 0.75, 0]], [[0.5, 0.5, 0], [0.5, 0.5, 0]]])
    there = 0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.75)
    back = 0.25 * math.log(0.25 / 0.5) + 0.75 * math.log(0.75 / 0.5)
    assert_close(kl_penalty(weights), torch.tensor([-(there + back) / 2, 0.0]))
    assert kl_penalty(weights[:, :1]).tolist() == [0, 0]


@pytest.mark.parametrize("kind, value", [("overlap", 2 * 0.25**2 + 2 * 0.5**2), ("kl", 0.0)])
def test_a_task_adds_its_penalty_to_the_loss_with_its_weight(kind, value):
    """Two rows by hand. (1/2 1/2 0) and (0 1/2 1/2): g_11 = g_22 = 1/2 and g_12 = 1/4, so ‖G − I‖² is
    2 · (1/2)² + 2 · (1/4)². Two hops on two positions: 0."""
    weights = torch.tensor([[[0.5, 0.5, 0], [0, 0.5, 0.5]], [[1.0, 0, 0], [0, 1, 0]]])
    model = ModelConfig(pool=Structured(hops=2))
    (one, first), (share, second) = Classify(penalty=0.3, penalty_kind=kind).objectives(model)
    assert (one, type(first), share) == (1.0, CrossEntropy, 0.3)
    output = Output({"row": Reply(torch.zeros(2, 2))}, pooled=Pooled(torch.zeros(2, 4), weights))
    term = second(output, Batch({}, torch.arange(2), {"row": torch.tensor([0, 1])}))
    assert term.count == 2
    if kind == "overlap":
        assert_close(term.total, torch.tensor(value))
    else:  # each of the two pairs of a row has one position that the other hop leaves out: 1e-8 there
        least = math.log(1e-8)
        flat = (0.5 * math.log(0.5) + 0.5 * least) - math.log(0.5)
        assert_close(term.total, torch.tensor(flat + least))
    assert len(Classify().objectives(model)) == 1

"""The chain of a CRF against all paths written out, and against pytorch-crf."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.testing import assert_close
from torchcrf import CRF

from seqlab.nn.chain import Chain, best_paths, log_partition, path_scores
from seqlab.outputs import Crf, Linear
from seqlab.parts import Facts, Grammar
from seqlab.seq import mask_of
from seqlab.spans import Scheme

SIZES = (3, 1, 5, 4)
LABELS = 4


def random_chain(labels: int, seed: int, dtype=torch.float64) -> Chain:
    draw = torch.Generator().manual_seed(seed)

    def numbers(*shape):
        return torch.randn(*shape, generator=draw, dtype=dtype).requires_grad_()

    return Chain(numbers(labels), numbers(labels, labels), numbers(labels))


def random_rows(sizes, labels: int, seed: int, dtype=torch.float64):
    """Emissions with other numbers at the padding, its mask, and labels."""
    draw = torch.Generator().manual_seed(seed)
    mask = mask_of(torch.tensor(sizes))
    emissions = torch.randn(*mask.shape, labels, generator=draw, dtype=dtype).requires_grad_()
    return emissions, mask, torch.randint(labels, mask.shape, generator=draw)


def score(emissions, path, chain):
    """By the formula, label by label."""
    total = chain.start[path[0]] + chain.end[path[-1]]
    total = total + sum(emissions[place, label] for place, label in enumerate(path))
    return total + sum(chain.step[one, two] for one, two in itertools.pairwise(path))


def all_paths(emissions, chain):
    """Every path of one row with its score."""
    paths = list(itertools.product(range(emissions.shape[1]), repeat=len(emissions)))
    return paths, torch.stack([score(emissions, path, chain) for path in paths])


@pytest.mark.parametrize("seed", range(5))
def test_partition_scores_and_best_paths_are_those_of_all_paths_written_out(seed):
    chain, (emissions, mask, labels) = random_chain(LABELS, seed), random_rows(SIZES, LABELS, seed)
    found = log_partition(emissions, mask, chain), path_scores(emissions, mask, labels, chain)
    best = best_paths(emissions, mask, chain)
    for row, size in enumerate(SIZES):
        paths, scores = all_paths(emissions[row, :size], chain)
        assert_close(found[0][row], scores.logsumexp(dim=0), atol=1e-6, rtol=0)
        told = score(emissions[row, :size], labels[row, :size].tolist(), chain)
        assert_close(found[1][row], told, atol=1e-6, rtol=0)
        assert tuple(best[row, :size].tolist()) == paths[int(scores.argmax())]
        assert not best[row, size:].any()


def test_gradients_are_those_of_all_paths_written_out():
    """Of the partition with respect to emissions, starts, steps and ends; exactly 0 at the padding."""
    chain, (emissions, mask, _) = random_chain(LABELS, 7), random_rows(SIZES, LABELS, 7)
    variables = [emissions, *chain]
    ours = torch.autograd.grad(log_partition(emissions, mask, chain).sum(), variables)
    total = torch.stack(
        [all_paths(emissions[row, :size], chain)[1].logsumexp(dim=0) for row, size in enumerate(SIZES)]
    ).sum()
    for mine, written in zip(ours, torch.autograd.grad(total, variables), strict=True):
        assert_close(mine, written, atol=1e-6, rtol=0)
    assert not ours[0][~mask].any()


@pytest.mark.parametrize("seed", range(5))
def test_loss_gradients_and_best_paths_are_those_of_pytorch_crf(seed):
    sizes, labels = (12, 1, 30, 7, 2), 9
    emissions, mask, wanted = random_rows(sizes, labels, seed, torch.float32)
    chain = random_chain(labels, seed, torch.float32)
    theirs = CRF(labels, batch_first=True)
    with torch.no_grad():
        theirs.start_transitions.copy_(chain.start)
        theirs.transitions.copy_(chain.step)
        theirs.end_transitions.copy_(chain.end)
    told = -theirs(emissions, wanted, mask=mask, reduction="none")
    nats = log_partition(emissions, mask, chain) - path_scores(emissions, mask, wanted, chain)
    assert_close(nats, told, atol=1e-4, rtol=1e-5)
    ours = torch.autograd.grad(nats.sum(), [emissions, *chain])
    weights = [theirs.start_transitions, theirs.transitions, theirs.end_transitions]
    for mine, other in zip(ours, torch.autograd.grad(told.sum(), [emissions, *weights]), strict=True):
        assert_close(mine, other, atol=1e-5, rtol=1e-5)
    best = best_paths(emissions, mask, chain)
    assert [row[:size].tolist() for row, size in zip(best, sizes, strict=True)] == theirs.decode(
        emissions, mask=mask
    )


# The head ---------------------------------------------------------------------------------------------------

TAGS = ("O", "B-A", "I-A", "B-B", "I-B")


def grammar(tags):
    scheme = Scheme(tags)
    follows = tuple(tuple(row) for row in scheme.follows.tolist())
    return Grammar(tuple((~scheme.continues).tolist()), tuple((~scheme.opens).tolist()), follows)


def head(config, tags=TAGS, seed=0):
    torch.manual_seed(seed)
    made = config.build_with(6, len(tags), Facts(symbols={}, grammar=grammar(tags)))
    for tensor in made.parameters():
        torch.nn.init.normal_(tensor)
    return made.eval()


@pytest.mark.parametrize(
    "config", [Linear(), Crf(), Crf(constrain=True)], ids=["linear", "crf", "constrained"]
)
def test_batch_mates_change_neither_what_is_said_nor_how_likely_it_is(config):
    made, draw = head(config), torch.Generator().manual_seed(1)
    states = [torch.randn(size, 6, generator=draw) for size in SIZES]
    wanted = [torch.tensor([0] * size) for size in SIZES]
    sizes = torch.tensor(SIZES)
    together = made(torch.cat(states))
    said, nats = together.said(sizes), together.surprise(torch.cat(wanted), sizes)
    for row, (state, labels) in enumerate(zip(states, wanted, strict=True)):
        alone = made(state)
        assert torch.equal(said.split(SIZES)[row], alone.said(sizes[row : row + 1]))
        assert_close(nats[row : row + 1], alone.surprise(labels, sizes[row : row + 1]), atol=1e-5, rtol=1e-5)


def test_a_linear_head_judges_each_place_by_itself():
    made, states = head(Linear()), torch.randn(9, 6)
    reply, labels = made(states), torch.arange(9) % len(TAGS)
    by_place = torch.nn.functional.cross_entropy(reply.scores, labels, reduction="none")
    assert_close(
        reply.surprise(labels, torch.tensor([4, 5])), torch.stack([by_place[:4].sum(), by_place[4:].sum()])
    )


@pytest.mark.parametrize("kind", ["BIO", "BIOES"])
def test_what_breaks_the_rules_has_no_probability_and_is_never_said(kind):
    """The probabilities of the paths that obey add up to 1; those that do not have 0."""
    tags = TAGS if kind == "BIO" else (*TAGS, "E-A", "S-A")
    made, scheme = head(Crf(constrain=True), tags), Scheme(tags)
    reply = made(3 * torch.randn(4, 6))
    paths = list(itertools.product(range(len(tags)), repeat=4))
    sizes = torch.tensor([4])
    chances = torch.stack([torch.exp(-reply.surprise(torch.tensor(path), sizes))[0] for path in paths])
    legal = torch.tensor([scheme.fault(path) is None for path in paths])
    assert 0 < int(legal.sum()) < len(paths)
    assert not chances[~legal].any()
    assert float(chances[legal].detach().sum()) == pytest.approx(1.0, abs=1e-5)
    assert paths.index(tuple(reply.said(sizes).tolist())) == int(chances.argmax())


def test_without_the_request_every_step_is_possible():
    made = head(Crf())
    assert made.forbidden is None and torch.equal(made.chain.step, made.step)

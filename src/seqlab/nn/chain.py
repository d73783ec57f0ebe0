"""Linear chains: sequences of labels scored by each label where it stands and by each two that follow.

A path y of a row has the score start[y₁] + Σ emission[t, y_t] + Σ step[y_{t-1}, y_t] + end[y_n], and the
probability exp(score) / Z, where Z is the sum over all Cⁿ paths (Lafferty et al. 2001). One loop over T
serves all rows of a batch; rows that have ended keep what they have.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


class Chain(NamedTuple):
    """What the labels of a path add to its score beside the emissions."""

    start: Float[Tensor, " C"]
    step: Float[Tensor, "C C"]
    """From the label of a row to that of a column."""
    end: Float[Tensor, " C"]


def log_partition(
    emissions: Float[Tensor, "B T C"], mask: Bool[Tensor, "B T"], chain: Chain
) -> Float[Tensor, " B"]:
    """log Z of each row: the forward algorithm, B C C at a time."""
    ahead = chain.start + emissions[:, 0]  # B C: log of the sum over all paths that end in each label
    for now, real in zip(emissions.unbind(1)[1:], mask.unbind(1)[1:], strict=True):
        longer = torch.logsumexp(ahead.unsqueeze(2) + chain.step, dim=1) + now
        ahead = torch.where(real.unsqueeze(1), longer, ahead)
    return torch.logsumexp(ahead + chain.end, dim=1)


def path_scores(
    emissions: Float[Tensor, "B T C"], mask: Bool[Tensor, "B T"], labels: Int[Tensor, "B T"], chain: Chain
) -> Float[Tensor, " B"]:
    """The score of one path a row; what `labels` has at the padding counts for nothing."""
    labels = labels * mask
    here = emissions.gather(2, labels.unsqueeze(2)).squeeze(2) * mask  # B T
    steps = chain.step[labels[:, :-1], labels[:, 1:]] * mask[:, 1:]
    last = labels.gather(1, mask.sum(dim=1, keepdim=True) - 1).squeeze(1)
    return chain.start[labels[:, 0]] + here.sum(dim=1) + steps.sum(dim=1) + chain.end[last]


def best_paths(
    emissions: Float[Tensor, "B T C"], mask: Bool[Tensor, "B T"], chain: Chain
) -> Int[Tensor, "B T"]:
    """The path of the highest score of each row (Viterbi), 0 at the padding."""
    best = chain.start + emissions[:, 0]  # B C: the best score of a path that ends in each label
    stay = torch.arange(best.shape[1], device=best.device).expand_as(best)
    came: list[Tensor] = []  # B C each: the label before
    for now, real in zip(emissions.unbind(1)[1:], mask.unbind(1)[1:], strict=True):
        longer, before = (best.unsqueeze(2) + chain.step).max(dim=1)
        best = torch.where(real.unsqueeze(1), longer + now, best)
        came.append(torch.where(real.unsqueeze(1), before, stay))
    path = [(best + chain.end).argmax(dim=1)]
    for before in reversed(came):  # at the padding the last label is handed on, and dropped below
        path.append(before.gather(1, path[-1].unsqueeze(1)).squeeze(1))
    return torch.stack(path[::-1], dim=1) * mask

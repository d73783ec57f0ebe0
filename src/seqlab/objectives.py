"""Terms of the loss. Each gives a sum and a count; the loop divides once all micro-batches are added up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from seqlab.nn.loss import sampled_cross_entropy
from seqlab.outputs.pools import kl_penalty, overlap_penalty
from seqlab.parts import Batch, Filling, Objective, Output, Term, Writing
from seqlab.seq import Seq


@dataclass(frozen=True)
class CrossEntropy(Objective):
    """−log p(class), with `smoothing` of the probability spread over all classes."""

    smoothing: float = 0.0
    name = "cross-entropy"

    def __call__(self, output: Output | Filling, batch: Batch) -> Term:
        assert batch.target is not None
        assert output.reply is not None
        total = functional.cross_entropy(output.reply.scores, batch.target, reduction="sum", label_smoothing=self.smoothing)
        return Term(total, self.count(batch))


@dataclass(frozen=True)
class SquaredError(Objective):
    """−log density of a Gaussian with unit variance, less its constant, times two."""

    name = "squared error"

    def __call__(self, output: Output, batch: Batch) -> Term:
        assert batch.target is not None
        total = functional.mse_loss(output.reply.scores.squeeze(-1), batch.target, reduction="sum")
        return Term(total, self.count(batch))


@dataclass(frozen=True)
class NextToken(Objective):
    """−log p(the id that comes next), summed over all ids to be written; `smoothing` is spread over the whole vocabulary."""

    smoothing: float = 0.0
    sampled: int | None = None
    """How many symbols of the vocabulary to compare with; all when None."""
    name = "next token"

    def __call__(self, output: Writing, batch: Batch) -> Term:
        words = output.vocabulary
        total = sampled_cross_entropy(output.states, words.weight, words.bias, output.targets, self.sampled, self.smoothing)
        return Term(total, self.count(batch))

    def count(self, batch: Batch) -> int:
        return 0 if batch.written is None else int(batch.written.mask[:, 1:].sum())


@dataclass(frozen=True)
class Fill(Objective):
    """−log p(the id that belongs there), summed over all positions that have an answer.

    Where both directions answer by themselves it is the mean of the two (in ELMo their sum), so that losses compare.
    """

    sampled: int | None = None
    """How many symbols of the vocabulary to compare with; all when None."""
    name = "fill"

    def __call__(self, output: Filling, batch: Batch) -> Term:
        words = output.vocabulary
        total = sampled_cross_entropy(output.vectors, words.weight, words.bias, output.answers, self.sampled)
        sides = len(output.answers) // max(1, self.count(batch)) or 1
        return Term(total / sides, self.count(batch))

    def count(self, batch: Batch) -> int:
        return 0 if batch.answers is None else len(batch.answers)


SHARPNESS = 20.0
"""By how much the score of a half rises when its cosine does by 1."""


@dataclass(frozen=True)
class Halves(Objective):
    """−log p(the second half of a text | its first half, among the second halves of the batch), and the other way round.

    A row may hold parts of several texts, of which the longest is halved. A half is the mean of the vectors that were read
    there, before the encoder, less its mean over all rows; p is the softmax of SHARPNESS · cosine. After Logeswaran and Lee
    2018, whose sentences find their neighbours among those of a batch by the states of an encoder. By the vectors themselves
    the words learn in what texts they occur (of one mood, on one subject), which a model that fills in words is slow to find
    out, since most words follow from those beside them.
    """

    between: int
    """The id that stands between two texts."""
    name = "halves"
    compares = True

    def __call__(self, output: Filling, batch: Batch) -> Term:
        text = batch.inputs["text"]
        assert isinstance(text, Seq)
        own = longest_part(text, self.between)
        early = own & (own.cumsum(dim=1) <= own.sum(dim=1, keepdim=True) // 2)                                 # B T
        first, second = (_direction(output.read, part) for part in (early, own & ~early))
        scores = SHARPNESS * first @ second.T                                                                  # B B
        own_half = torch.arange(len(scores), device=scores.device)
        there, back = (functional.cross_entropy(some, own_half, reduction="sum") for some in (scores, scores.T))
        return Term((there + back) / 2, self.count(batch))


def longest_part(text: Seq, between: int) -> Bool[Tensor, "B T"]:
    """Where the longest of the texts of each row is, the first of equals; `between` stands between them and in none."""
    mark = text.values == between
    number = mark.cumsum(dim=1)                                                  # of the text that a position is in
    real = text.mask & ~mark
    sizes = number.new_zeros(len(number), number.shape[1] + 1).scatter_add_(1, number, real.long())
    return real & (number == sizes.argmax(dim=1, keepdim=True))


def _direction(read: Seq, part: Bool[Tensor, "B T"]) -> Float[Tensor, "B D"]:
    """Where the mean over a part of each row lies, seen from the mean of all rows."""
    sums = torch.einsum("btd,bt->bd", read.values, part.to(read.values.dtype))
    means = sums / part.sum(dim=1, keepdim=True).clamp(min=1)
    return functional.normalize(means - means.mean(dim=0), dim=1, eps=1e-6)


PENALTIES: dict[str, Callable[[Tensor], Tensor]] = {"overlap": overlap_penalty, "kl": kl_penalty}


@dataclass(frozen=True)
class HopPenalty(Objective):
    """What makes the hops of structured attention look at different places (SPEC A5)."""

    penalty: str = "overlap"
    name = "penalty"

    def __call__(self, output: Output, batch: Batch) -> Term:
        weights = output.pooled.weights
        assert weights is not None, "the task allows a penalty only with a pool that has weights"
        return Term(PENALTIES[self.penalty](weights).sum(), self.count(batch))

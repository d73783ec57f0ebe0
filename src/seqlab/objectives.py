"""Terms of the loss. Each gives a sum and a count; the loop divides once all micro-batches are added up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from seqlab.nn.loss import sampled_cross_entropy
from seqlab.outputs.gaussian import GaussianReply
from seqlab.outputs.pools import kl_penalty, overlap_penalty
from seqlab.parts import Batch, Objective, Output, Places, Term, meant
from seqlab.seq import Seq


class _OverTargets(Objective):
    """A term with one example for each row, place, or id that is written."""

    def count(self, batch: Batch) -> int:
        target = batch.targets.get(self.reads)
        if isinstance(target, Seq):
            return int(target.mask[:, 1:].sum())
        return 0 if target is None else len(meant(target))


@dataclass(frozen=True)
class CrossEntropy(_OverTargets):
    """−log p(what is meant), summed; `smoothing` of the probability is spread over all classes or ids.

    Where both directions of reading answer by themselves it is the mean of the two (in ELMo their sum), so
    that losses compare.
    """

    reads: str = "row"
    smoothing: float = 0.0
    sampled: int | None = None
    """How many symbols of a vocabulary to compare with; all when None."""
    name = "cross-entropy"

    def __call__(self, output: Output, batch: Batch) -> Term:
        reply, wanted = output.answers[self.reads], meant(batch.targets[self.reads])
        if reply.weight is None:
            total = functional.cross_entropy(
                reply.scores, wanted, reduction="sum", label_smoothing=self.smoothing
            )
            return Term(total, self.count(batch))
        wanted = wanted.repeat(reply.directions) if reply.directions > 1 else wanted
        total = sampled_cross_entropy(
            reply.vectors, reply.weight, reply.bias, wanted, self.sampled, self.smoothing
        )
        return Term(total / reply.directions, self.count(batch))


@dataclass(frozen=True)
class Surprise(_OverTargets):
    """−log p(the labels of a row's places), as the head judges them: place by place, or as one sequence. It
    counts places, so that heads compare."""

    reads: str = "places"
    name = "surprise"

    def __call__(self, output: Output, batch: Batch) -> Term:
        target = batch.targets[self.reads]
        assert isinstance(target, Places) and target.sizes is not None
        nats = output.answers[self.reads].surprise(target.values, target.sizes)
        return Term(nats.sum(), self.count(batch))


@dataclass(frozen=True)
class SquaredError(_OverTargets):
    """−log density of a Gaussian with unit variance, less its constant, times two; the mean over the numbers
    of an example, where it has several."""

    reads: str = "row"
    name = "squared error"
    numbers = True

    def __call__(self, output: Output, batch: Batch) -> Term:
        scores, wanted = _numbers(output, batch, self.reads)
        return Term((scores - wanted).square().mean(dim=-1).sum(), self.count(batch))


@dataclass(frozen=True)
class GaussianNats(_OverTargets):
    """−log density of a Gaussian with a learned variance, less its constant; the mean over the numbers of an
    example."""

    reads: str = "row"
    name = "gaussian"
    numbers = True

    def __call__(self, output: Output, batch: Batch) -> Term:
        means, wanted = _numbers(output, batch, self.reads)
        reply = output.answers[self.reads]
        assert isinstance(reply, GaussianReply) and reply.log_variance is not None
        logs = reply.log_variance
        nats = (logs + (means - wanted).square() * torch.exp(-logs)) / 2
        return Term(nats.mean(dim=-1).sum(), self.count(batch))


def _numbers(output: Output, batch: Batch, reads: str) -> tuple[Float[Tensor, "N C"], Float[Tensor, "N C"]]:
    """What was said and what was meant, C numbers an example. What a decoder is fed may have more features
    than it says: what it is told of the future."""
    scores, wanted = output.answers[reads].scores, meant(batch.targets[reads])
    return scores, wanted[..., : scores.shape[-1]] if wanted.dim() > 1 else wanted.unsqueeze(-1)


SHARPNESS = 20.0
"""By how much the score of a half rises when its cosine does by 1."""


@dataclass(frozen=True)
class Halves(Objective):
    """−log p(the second half of a text | its first half, among the second halves of the batch), and the other
    way round.

    A row may hold parts of several texts, of which the longest is halved. A half is the mean of the vectors
    that were read there, before the encoder, less its mean over all rows; p is the softmax of SHARPNESS ·
    cosine. After Logeswaran and Lee 2018, whose sentences find their neighbours among those of a batch by the
    states of an encoder. By the vectors themselves the words learn in what texts they occur (of one mood, on
    one subject), which a model that fills in words is slow to find out, since most words follow from those
    beside them.
    """

    between: int
    """The id that stands between two texts."""
    reads: str = "places"
    name = "halves"
    compares = True

    def __call__(self, output: Output, batch: Batch) -> Term:
        text = batch.inputs["text"]
        assert isinstance(text, Seq) and output.read is not None
        own = longest_part(text, self.between)
        early = own & (own.cumsum(dim=1) <= own.sum(dim=1, keepdim=True) // 2)  # B T
        first, second = (_direction(output.read, part) for part in (early, own & ~early))
        scores = SHARPNESS * first @ second.T  # B B
        own_half = torch.arange(len(scores), device=scores.device)
        there, back = (
            functional.cross_entropy(some, own_half, reduction="sum") for some in (scores, scores.T)
        )
        return Term((there + back) / 2, self.count(batch))


def longest_part(text: Seq, between: int) -> Bool[Tensor, "B T"]:
    """Where the longest of the texts of each row is, the first of equals; `between` stands between them and
    in none."""
    mark = text.values == between
    number = mark.cumsum(dim=1)  # of the text that a position is in
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
    reads: str = "row"
    name = "penalty"

    def __call__(self, output: Output, batch: Batch) -> Term:
        weights = output.pooled.weights if output.pooled else None
        assert weights is not None, "the task allows a penalty only with a pool that has weights"
        return Term(PENALTIES[self.penalty](weights).sum(), self.count(batch))

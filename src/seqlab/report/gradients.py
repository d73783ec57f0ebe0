"""Gradient × input: what each piece adds to the score of the answer, to first order, for any model; exact for
a linear one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from seqlab.encoders.wrap import Unchanged
from seqlab.inputs.bag import BagInput
from seqlab.inputs.nested import Inner
from seqlab.model import Model
from seqlab.outputs.heads import DirectHead, LinearHead
from seqlab.parts import Batch, Input, Output
from seqlab.seq import Seq


def contributions(model: Model, batch: Batch, inner: bool = False) -> Float[np.ndarray, "N T"]:
    """The gradient of the answer's score with respect to each vector of the input, times that vector, summed
    over D.

    Signed: above zero speaks for the answer. A row an example; with `inner`, a row for each real inner
    sequence of a nested input, in reading order. Zero at the padding.
    """
    assert model.input is not None
    reader = innermost(model.input) if inner else model.input
    calls = _gradients(model, batch, reader)
    rows, most = sum(len(call.rows) for call in calls), max(call.seq.mask.shape[1] for call in calls)
    found = np.zeros((rows, most), dtype=np.float32)
    for call in calls:  # a nested input reads its rows in groups of like length
        shares = (call.gradient * call.seq.values).sum(dim=-1) * call.seq.mask  # G T
        found[call.rows.numpy(), : shares.shape[1]] = shares.detach().float().cpu().numpy()
    return found


def blank_contributions(model: Model, batch: Batch, wanted: int) -> Float[np.ndarray, " T"]:
    """What each piece of the one row of a batch adds to the score of the id `wanted` at its first place.

    The score is log p, of two directions the mean of both, so that scores that rise together change nothing.
    """

    def score(output: Output) -> Tensor:
        reply = output.answers["places"]
        assert reply.weight is not None
        sides = reply.vectors.chunk(reply.directions)
        logs = [
            functional.linear(side[:1], reply.weight, reply.bias).float().log_softmax(dim=-1)[0, wanted]
            for side in sides
        ]
        return torch.stack(logs).mean()

    assert model.input is not None
    [call] = _gradients(model, batch, model.input, score)
    shares = (call.gradient * call.seq.values).sum(dim=-1)[0]
    return shares.detach().float().cpu().numpy()


def place_contributions(
    model: Model, batch: Batch, score: Callable[[Output], Tensor]
) -> Float[np.ndarray, "N T"]:
    """What each position of the one row of a batch adds to each of the scores (N) of an output."""
    assert model.input is not None
    with _cut(model, model.input) as seen:
        scores = score(model(batch))
        [(_, leaf)] = seen
        rows = []
        for place, one in enumerate(scores.unbind()):
            [gradient] = torch.autograd.grad(one, leaf.values, retain_graph=place + 1 < len(scores))
            rows.append((gradient * leaf.values).sum(dim=-1)[0])
    return torch.stack(rows).detach().float().cpu().numpy()


def gram_contributions(model: Model, batch: Batch) -> Float[np.ndarray, " T"]:
    """What each n-gram of a bag adds to the answer's score: weight · (row · gradient). Exact when the model
    is linear."""
    assert isinstance(model.input, BagInput)
    grams, weights = batch.inputs["grams"], batch.inputs["weights"]
    assert isinstance(grams, Seq) and isinstance(weights, Seq)
    [call] = _gradients(model, batch, model.input)
    rows = model.input.embedding[grams.values[0]] @ call.gradient[0, 0]  # T
    return (rows * weights.zeroed[0]).detach().float().cpu().numpy()


def is_linear(model: Model) -> bool:
    """True when the scores are a linear function of the input's vectors, which have one slot."""
    head = isinstance(model.head, DirectHead) or (
        isinstance(model.head, LinearHead) and not len(model.head.hidden)
    )
    return isinstance(model.input, BagInput) and isinstance(model.encoder, Unchanged) and head


def answer_score(scores: Float[Tensor, "N C"]) -> Float[Tensor, ""]:
    """How far the answers' scores lie above the mean of all classes' scores, added over rows; for a number,
    the number.

    Softmax does not change when all scores rise together, so neither should an explanation.
    """
    if scores.shape[1] == 1:
        return scores.sum()
    return (scores.max(dim=1).values - scores.mean(dim=1)).sum()


def innermost(reader: Input) -> Input:
    """The input that reads the words of a document's sentences."""
    while isinstance(reader, Inner):
        reader = reader.inner
    return reader


@dataclass(frozen=True)
class _Call:
    """One call of an input: the numbers of its rows (G), what it gave (G T D), and the gradient with respect
    to that."""

    rows: Tensor
    seq: Seq
    gradient: Tensor


def _gradients(
    model: Model, batch: Batch, reader: Input, score: Callable[[Output], Tensor] | None = None
) -> list[_Call]:
    """Every call of `reader`, with the gradient of a score of the output: unless told, that of the
    answers."""
    with _cut(model, reader) as calls:
        output = model(batch)
        total = score(output) if score else answer_score(output.answers["row"].scores)
        gradients = torch.autograd.grad(total, [leaf.values for _, leaf in calls])
    return [_Call(rows, leaf, gradient) for (rows, leaf), gradient in zip(calls, gradients, strict=True)]


@contextmanager
def _cut(model: Model, reader: Input) -> Iterator[list[tuple[Tensor, Seq]]]:
    """Within, what `reader` gives is a leaf that gradients lead to; each call's rows and leaf are listed."""
    calls: list[tuple[Tensor, Seq]] = []

    def cut(_module: nn.Module, given: tuple[Batch], output: Seq) -> Seq:
        leaf = replace(output, values=output.values.detach().requires_grad_())
        calls.append((given[0].rows.cpu(), leaf))
        return leaf

    hook = reader.register_forward_hook(cut)
    model.eval()
    try:
        with (
            torch.enable_grad(),
            torch.backends.cudnn.flags(enabled=False),
        ):  # cuDNN's recurrent layers can't, outside training
            yield calls
    finally:
        hook.remove()

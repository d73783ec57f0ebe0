"""One example of which some pieces are faded: what a model then says. Attributions and deletion curves are
made of this function alone."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from seqlab.inputs.bag import BagInput
from seqlab.model import Model
from seqlab.parts import Batch, Output, Places, Target
from seqlab.report.gradients import innermost
from seqlab.seq import Nested, Seq

POSITIONS = 8192
"""Padded positions that are computed at once."""


class Followed(ABC):
    """What of the output for K copies of an example is followed, while pieces of it fade."""

    name: str
    """Of the probability, in words."""
    rows: int = 64
    """Copies at once, at the most."""

    @abstractmethod
    def score(self, output: Output) -> Float[Tensor, " K"]:
        """What attributions add up to: it does not saturate where the model is sure."""

    def probability(self, output: Output) -> Float[Tensor, " K"] | None:
        """What deletion curves draw; None where the answer has none."""
        return None


@dataclass(frozen=True)
class LabelFollowed(Followed):
    """A label: its score above the mean score of all labels, and its probability."""

    place: int
    name: str

    def score(self, output: Output) -> Tensor:
        scores = output.answers["row"].scores.float()
        return scores[:, self.place] - scores.mean(dim=1)

    def probability(self, output: Output) -> Tensor:
        return output.answers["row"].scores.float().softmax(dim=1)[:, self.place]


@dataclass(frozen=True)
class NumberFollowed(Followed):
    """A number, on the scale of the training rows. It has no probability."""

    name: str = "the number"

    def score(self, output: Output) -> Tensor:
        return output.answers["row"].scores.float()[:, 0]


class Faded:
    """The function from how much of each piece is kept (K P, from 0 to 1) to what the model says (K).

    The vector that the input gives for a piece is multiplied by its share: 1 leaves it, 0 makes it the zero
    vector, which stands for nothing, as in Sundararajan et al. 2017; positions and all other pieces stay
    where they are. Of a bag the weight of an n-gram is multiplied. `words`: the pieces are the words of a
    document's sentences, not the sentences.
    """

    def __init__(self, model: Model, batch: Batch, followed: Followed, words: bool = False) -> None:
        assert batch.size == 1 and model.input is not None, "one example at a time"
        self.model, self.batch, self.followed = model, batch, followed
        self.reader = innermost(model.input) if words else model.input
        self.grams = batch.inputs.get("grams")
        self.has_probability = False
        self.mask = self._mask()
        self.places = int(self.mask.sum())

    def scores(self, kept: Float[Tensor, "K P"]) -> Float[Tensor, " K"]:
        """The score, which gradients lead through."""
        return torch.cat([self.followed.score(output) for output in self._outputs(kept)])

    @torch.no_grad()
    def probabilities(self, kept: Float[Tensor, "K P"]) -> Float[np.ndarray, " K"]:
        found = [self.followed.probability(output) for output in self._outputs(kept)]
        return torch.cat([one for one in found if one is not None]).double().cpu().numpy()

    def in_rows(self, weights: Float[np.ndarray, " P"]) -> Float[np.ndarray, "N T"]:
        """A weight for each piece as rows of the input, zero at the padding."""
        rows = np.zeros(self.mask.shape, weights.dtype)
        rows[self.mask.numpy()] = weights
        return rows

    def _mask(self) -> Bool[Tensor, "N T"]:
        """Which positions of what is read are real: a row, or one for each sentence."""
        masks: list[tuple[Tensor, Tensor]] = []

        def note(rows: Tensor, given: Seq) -> None:
            masks.append((rows, given.mask.cpu()))

        self.model.eval()
        with _changed(self.reader, note), torch.no_grad():
            output = self.model(self.batch)
        self.has_probability = self.followed.probability(output) is not None
        if isinstance(self.grams, Seq):
            return self.grams.mask.cpu()
        longest = max(mask.shape[1] for _, mask in masks)
        found = torch.zeros(sum(len(rows) for rows, _ in masks), longest, dtype=torch.bool)
        for rows, mask in masks:
            found[rows, : mask.shape[1]] = mask
        return found

    def _outputs(self, kept: Float[Tensor, "K P"]) -> Iterator[Output]:
        at_once = max(1, min(self.followed.rows, POSITIONS // self.mask.numel()))
        for some in kept.split(at_once):
            with self._faded(some):
                yield self.model(copies(self.batch, len(some)))

    @contextmanager
    def _faded(self, kept: Float[Tensor, "K P"]) -> Iterator[None]:
        """Within, what the reader gives for K copies is multiplied by these shares."""
        sentences, longest = self.mask.shape
        real = self.mask.flatten().nonzero().squeeze(1)
        shares = kept.new_ones(len(kept), self.mask.numel()).index_copy(1, real, kept)
        rows_kept = shares.view(len(kept) * sentences, longest)

        def change(rows: Tensor, given: Seq) -> Seq:
            if isinstance(self.grams, Seq):
                return given.with_values(self._bag(rows_kept).unsqueeze(1))
            shares = rows_kept[rows, : given.mask.shape[1]].to(given.values)
            return replace(given, values=given.values * shares.unsqueeze(-1))

        self.model.eval()
        with _changed(self.reader, change), torch.backends.cudnn.flags(enabled=False):
            yield

    def _bag(self, kept: Float[Tensor, "K T"]) -> Float[Tensor, "K D"]:
        weights = self.batch.inputs["weights"]
        assert isinstance(self.reader, BagInput) and isinstance(self.grams, Seq) and isinstance(weights, Seq)
        vectors = self.reader.embedding[self.grams.values[0]]  # T D
        return (kept * weights.zeroed[0]) @ vectors


@contextmanager
def _changed(reader: nn.Module, change: Callable[[Tensor, Seq], Seq | None]) -> Iterator[None]:
    """Within, and in this thread, what `reader` gives is what `change` makes of it and of its rows."""
    mine = threading.get_ident()

    def hook(_module: nn.Module, given: tuple[Batch], output: Seq) -> Seq | None:
        return change(given[0].rows.cpu(), output) if threading.get_ident() == mine else None

    handle = reader.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def copies(batch: Batch, count: int) -> Batch:
    """The one example of a batch, so many times. What a row is compared with is left out."""
    inputs = {name: _copied(one, count) for name, one in batch.inputs.items()}
    width = next((one.mask.shape[1] for one in inputs.values()), 0)
    targets: dict[str, Target] = {}
    for name, target in batch.targets.items():
        if isinstance(target, Places):
            starts = torch.arange(count).repeat_interleave(len(target.positions)) * width
            positions = target.positions.cpu().repeat(count) + starts
            targets[name] = Places(positions, target.values.repeat(count))
        elif isinstance(target, Seq):
            targets[name] = _copied_seq(target, count)
    return Batch(inputs, torch.arange(count), targets).to(batch.rows.device)


def _copied(one: Seq | Nested, count: int) -> Seq | Nested:
    if isinstance(one, Nested):
        return Nested(_copied_seq(one.inner, count), one.mask.repeat(count, 1))
    return _copied_seq(one, count)


def _copied_seq(one: Seq, count: int) -> Seq:
    def times(tensor: Tensor) -> Tensor:
        return tensor.repeat(count, *[1] * (tensor.dim() - 1))

    segments = None if one.segments is None else times(one.segments)
    return replace(one, values=times(one.values), mask=times(one.mask), segments=segments)

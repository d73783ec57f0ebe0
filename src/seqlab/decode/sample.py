"""Sampling: temperature, the k likeliest, the likeliest that hold a share p; and text as it is
written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from seqlab.decode.choose import Best, Choose, Chosen
from seqlab.decode.limits import next_scores
from seqlab.decode.search import write
from seqlab.decode.settings import DecodeConfig, Hypothesis, SpecialIds
from seqlab.parts import Decoder
from seqlab.seq import Seq


def sample(
    decoder: Decoder,
    memory: Seq | None,
    opening: Int[Tensor, "B P"],
    *,
    config: DecodeConfig,
    special: SpecialIds,
    longest: Int[Tensor, " B"],
    numbers: Sequence[int],
) -> list[list[Hypothesis]]:
    """One text a row, each id drawn at random.

    `numbers` says which rows these are among all. The random state of a row comes from the seed and its
    number, so its text is the same in any batch and in any order.
    """
    draw = Draw(config, numbers, int(longest.max()))
    return write(decoder, memory, opening, config=config, special=special, longest=longest, choose=draw)


@torch.no_grad()
def stream(
    decoder: Decoder,
    memory: Seq | None,
    opening: Int[Tensor, "1 P"],
    *,
    config: DecodeConfig,
    special: SpecialIds,
    longest: int,
    number: int = 0,
) -> Iterator[int]:
    """The ids of one text, each as soon as it is written: what `sample` gives for row `number`, or what
    greedy search does."""
    assert config.beam == 1, "a beam does not know its first id before its last"
    choose = Draw(config, [number], longest) if config.sample else Best(1)
    history, rows, totals = opening, torch.zeros(1, dtype=torch.long), torch.zeros(1, 1)
    fed, state = opening, decoder.start(memory, 1)
    for step in range(longest):
        states, state = decoder.advance(fed, state)
        scores = next_scores(decoder.answer, states[:, -1], history, config, special)
        fed = choose(scores.unsqueeze(1), totals, rows, step).ids
        written = int(fed)
        if written == special.end:
            return
        yield written
        history = torch.cat([history, fed], dim=1)


class Draw(Choose):
    """Choose one continuation at random."""

    def __init__(self, config: DecodeConfig, numbers: Sequence[int], longest: int) -> None:
        self.config = config
        draws = [np.random.default_rng((config.seed, number)).random(longest) for number in numbers]
        self.draws = torch.from_numpy(np.stack(draws))  # B L, in [0, 1)

    def __call__(
        self, scores: Float[Tensor, "B W V"], totals: Float[Tensor, "B W"], rows: Int[Tensor, " B"], step: int
    ) -> Chosen:
        """The id at which the running sum of the probabilities passes the random number of this row and
        step."""
        scores = scores.squeeze(1)
        probabilities, ids = shortlist(scores, self.config)
        sums = probabilities.double().cumsum(dim=1)  # B M
        drawn = self.draws.to(scores.device)[rows, step].unsqueeze(1)
        place = torch.searchsorted(
            sums, drawn * sums[:, -1:], right=True
        )  # below the sum, and never at a weight of 0
        chosen = ids.gather(1, place)
        return Chosen(totals + scores.gather(1, chosen), torch.zeros_like(chosen), chosen)


def shortlist(
    scores: Float[Tensor, "B V"], config: DecodeConfig
) -> tuple[Float[Tensor, "B M"], Int[Tensor, "B M"]]:
    """The ids that may be drawn and what each weighs, from log-probabilities. The weights need not add up to
    1.

    In this order: divide by the temperature, keep the top_k likeliest, of these the fewest likeliest ids
    whose share of the probability is at least top_p (Holtzman et al. 2020); the rest weigh 0.
    """
    scores = scores / config.temperature
    if config.top_k is None and config.top_p == 1:
        return scores.softmax(dim=-1), torch.arange(scores.shape[1], device=scores.device).expand_as(scores)
    count = min(config.top_k or scores.shape[1], scores.shape[1])
    scores, ids = scores.topk(count, dim=-1) if config.top_k else scores.sort(dim=-1, descending=True)
    probabilities = scores.softmax(dim=-1)
    before = probabilities.double().cumsum(dim=-1) - probabilities.double()  # held by the likelier ones
    return probabilities.masked_fill(before >= config.top_p, 0.0), ids

"""What may be written next: banned ids, repeated runs, the price of repetition."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from seqlab.decode.settings import DecodeConfig, SpecialIds
from seqlab.decode.words import forbid_word_repeats
from seqlab.parts import Head


def next_scores(
    answer: Head,
    states: Float[Tensor, "N E"],
    history: Int[Tensor, "N P"],
    config: DecodeConfig,
    special: SpecialIds,
) -> Float[Tensor, "N V"]:
    """The log-probability of each next id after `history`, -inf where it may not be written.

    The softmax is over the whole vocabulary and is not taken anew after ids are ruled out: what a text scores
    does not depend on what else was allowed. The end is never ruled out or priced by repetition, so something
    can always be written.
    """
    scores: Tensor = answer(states).scores.log_softmax(dim=-1)
    if config.no_repeat or config.repetition_penalty > 1:
        assert special.end not in special.banned, (
            "with the end banned, no_repeat might leave nothing to write"
        )
        end = scores[:, special.end].clone()
        if config.repetition_penalty > 1:
            price_repetition(scores, history, config.repetition_penalty)
        if config.no_repeat:
            if special.words is None:
                forbid_repeats(scores, history, config.no_repeat)
            else:
                forbid_word_repeats(scores, history, config.no_repeat, special.words)
        scores[:, special.end] = end
    for banned in special.banned:
        scores[:, banned] = -torch.inf
    return scores


def price_repetition(scores: Float[Tensor, "N V"], history: Int[Tensor, "N P"], factor: float) -> None:
    """Multiply, in place, the log-probability of every id in `history`, once however often it stands there.

    Keskar et al. 2019 divide the logit, which raises it when it is negative. A log-probability never is above
    0, so multiplying it always lowers it, and a hypothesis still only loses by growing.
    """
    scores.scatter_(1, history, scores.gather(1, history) * factor)


def forbid_repeats(scores: Float[Tensor, "N V"], history: Int[Tensor, "N P"], size: int) -> None:
    """Set to -inf, in place, every id that would end a run of `size` ids which `history` has already."""
    if history.shape[1] < size:
        return
    runs = history.unfold(1, size, 1)  # N P-size+1 size
    begun = history[:, history.shape[1] - size + 1 :].unsqueeze(
        1
    )  # N 1 size-1: the run that is being written
    rows, places = (runs[..., :-1] == begun).all(dim=-1).nonzero(as_tuple=True)
    scores[rows, runs[rows, places, -1]] = -torch.inf

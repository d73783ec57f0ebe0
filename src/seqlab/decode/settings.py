"""How to decode, the special ids that decoding has to know, and what it finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Ge, Gt, Le
from jaxtyping import Int
from torch import Tensor

from seqlab.config import Count, NotNegative, Positive, PositiveFloat
from seqlab.decode.words import WordParts

Mass = Annotated[float, Gt(0), Le(1)]
Factor = Annotated[float, Ge(1)]


@dataclass(frozen=True, kw_only=True)
class DecodeConfig:
    """How a decoder writes: the likeliest text that a search finds, or one drawn at random."""

    beam: Positive = 1
    """Hypotheses that are kept side by side for each source; 1 is greedy."""
    length_penalty: NotNegative = 1.0
    """Hypotheses are compared by log p / length^length_penalty: 0 favours short ones, 1 takes the mean of an
    id."""
    n_best: Positive = 1
    """How many hypotheses to give back for each source, best first; at most `beam`."""
    sample: bool = False
    """Draw each id, or number, at random instead of searching."""
    temperature: PositiveFloat = 1.0
    """With sample: below 1 the likely ids become likelier, above 1 all become more alike."""
    top_k: Positive | None = None
    """With sample: draw from this many likeliest ids. Empty: from all."""
    top_p: Mass = 1.0
    """With sample: draw from the fewest likeliest ids that together have this probability (after top_k)."""
    seed: Count = 0
    """With sample: the seed of what is drawn. A row has its own random state, whatever else is in its
    batch."""
    no_repeat: Count = 0
    """Never write the same run of so many words twice: 1 is never the same word, 0 is off. Subwords are put
    together to words; where tokens are characters, it counts those. What is given before counts, too."""
    repetition_penalty: Factor = 1.0
    """The log-probability of ids that were written already is multiplied by this (Keskar et al. 2019); 1 is
    off."""
    longest: Positive | None = None
    """Most ids to write, EOS included. Empty: as longest_factor and longest_extra say."""
    longest_factor: NotNegative = 2.0
    """Most ids to write for each id of the source, ..."""
    longest_extra: Positive = 10
    """... and so many more."""
    ignore_end: Count = 0
    """After the end, write so many ids more, the likeliest one by one but never the end again, to see what
    the model still knew; 0 is off. They stand apart and are in no score."""
    workers: Positive | None = None
    """How many batches are decoded side by side, with one thread each. Empty: as many as torch has
    threads."""

    def __post_init__(self) -> None:
        if self.sample and self.beam > 1:
            raise ValueError(
                f"sample draws one text and does not go with beam: {self.beam}. Set sample: false to search."
            )
        if self.n_best > self.beam:
            raise ValueError(
                f"n_best is {self.n_best}, but a beam finds at most beam: {self.beam}. Set beam:"
                f" {self.n_best}."
            )

    def limits(self, sources: Int[Tensor, " B"]) -> Int[Tensor, " B"]:
        """Most ids to write for sources of these lengths."""
        if self.longest is not None:
            return torch.full_like(sources, self.longest)
        return (self.longest_factor * sources + self.longest_extra).long()


@dataclass(frozen=True, kw_only=True, eq=False)
class SpecialIds:
    """The ids that mean something to decoding; a tokenizer knows them."""

    start: int
    """Fed first."""
    end: int
    """Written last."""
    banned: tuple[int, ...] = ()
    """Never written: padding, the unknown, the start. With the end among them, every row is written to its
    limit."""
    words: WordParts | None = None
    """How ids make up words, where they are parts of words; else each counts by itself."""

    def opening(self, prefixes: Sequence[Sequence[int]]) -> Int[Tensor, "B P"]:
        """What each row is fed before it writes: the start, then the ids it must begin with (equally many in
        all rows)."""
        return torch.tensor([[self.start, *prefix] for prefix in prefixes])


@dataclass(frozen=True)
class Hypothesis:
    """One hypothesis."""

    ids: tuple[int, ...]
    """What was written, without what was given before it and without the end."""
    score: float
    """log p / length^length_penalty. The length counts the ids and the end, as log p does."""
    logp: float
    """Sum of the log-probabilities of ids and end, given what stood before them; a repetition penalty is in
    it, a temperature is not. Ids that may not be written keep their share of the probability."""
    finished: bool
    """False when the limit came before the end."""
    after: tuple[int, ...] = ()
    """What would come after the end, where decode.ignore_end asks for it."""

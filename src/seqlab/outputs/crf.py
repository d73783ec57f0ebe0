"""The head that labels the places of a row together: a linear-chain conditional random field."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from seqlab.nn.chain import Chain, best_paths, log_partition, path_scores
from seqlab.outputs.heads import Linear, LinearHead
from seqlab.parts import Cost, Facts, Grammar, Head, Reply
from seqlab.seq import mask_of

FORBIDDEN = -1e4
"""The score of what can't be: finite, so that gradients are, and exp of it is 0."""


@dataclass(frozen=True, kw_only=True)
class Crf(Linear, kind="crf"):
    """A linear layer, and a score for each two labels that follow each other: the labels of a row are one
    answer."""

    constrain: bool = False
    """Whether labels that can't follow each other have no probability: in BIO, O before I-PER. Tags that are
    no spans may all follow each other."""

    def build(self, width_in: int, outputs: int) -> CrfHead:
        return CrfHead(self, width_in, outputs)

    def build_with(self, width_in: int, outputs: int, facts: Facts) -> CrfHead:
        return CrfHead(self, width_in, outputs, facts.grammar if self.constrain else None)


@dataclass(frozen=True)
class ChainReply(Reply):
    """Emissions (N C) of all places, and the chain that joins those of a row."""

    chain: Chain | None = None

    def _padded(self, sizes: Int[Tensor, " B"]) -> tuple[Float[Tensor, "B T C"], Bool[Tensor, "B T"], Chain]:
        assert self.chain is not None
        mask = mask_of(sizes)
        places = mask.flatten().nonzero().squeeze(1)
        flat = self.vectors.new_zeros(mask.numel(), self.vectors.shape[1])
        return flat.index_copy(0, places, self.vectors).view(*mask.shape, -1), mask, self.chain

    def said(self, sizes: Int[Tensor, " B"]) -> Int[Tensor, " N"]:
        """The likeliest labels of each row, taken together."""
        emissions, mask, chain = self._padded(sizes)
        return best_paths(emissions, mask, chain)[mask]

    def surprise(self, labels: Int[Tensor, " N"], sizes: Int[Tensor, " B"]) -> Float[Tensor, " B"]:
        """−log p of the labels of each row as one path: log Z less its score."""
        emissions, mask, chain = self._padded(sizes)
        padded = torch.zeros_like(mask, dtype=torch.int64)
        padded[mask] = labels
        return log_partition(emissions, mask, chain) - path_scores(emissions, mask, padded, chain)


class CrfHead(Head):
    """States (N D) to emissions (N C), with a chain over the places of each row.

    As in Lafferty et al. 2001 and Lample et al. 2016, section 2.2; there the start and the end of a sentence
    are two more labels, here they are two vectors (C), which is the same. The scores begin at zero. With
    `constrain` those of a step that can't be are −10,000, whatever is learnt.
    """

    forbidden: Tensor | None

    def __init__(self, config: Crf, width_in: int, outputs: int, grammar: Grammar | None = None) -> None:
        super().__init__()
        self.emit = LinearHead(config, width_in, outputs)
        self.start = nn.Parameter(torch.zeros(outputs))
        self.step = nn.Parameter(torch.zeros(outputs, outputs))
        self.end = nn.Parameter(torch.zeros(outputs))
        allowed = [grammar.first, *grammar.follows, grammar.last] if grammar else None
        forbidden = None if allowed is None else ~torch.tensor(allowed)  # C+2 C
        self.register_buffer("forbidden", forbidden, persistent=False)  # it follows from the labels

    @property
    def chain(self) -> Chain:
        """The scores of starts, steps and ends."""
        if self.forbidden is None:
            return Chain(self.start, self.step, self.end)
        scores = torch.cat([self.start.unsqueeze(0), self.step, self.end.unsqueeze(0)])
        scores = scores.masked_fill(self.forbidden, FORBIDDEN)
        return Chain(scores[0], scores[1:-1], scores[-1])

    def forward(self, states: Float[Tensor, "N D"]) -> ChainReply:
        return ChainReply(self.emit(states).vectors, chain=self.chain)

    def costs(self, length: int) -> list[Cost]:
        labels = len(self.start)
        return [
            *(cost.below("emit") for cost in self.emit.costs(length)),
            Cost(
                name="chain",
                parameters=labels * labels + 2 * labels,
                parameters_formula="c² + 2c",
                work=length * labels * labels,
                work_formula="n·c²",
                sequential_steps=length,
                longest_path=length,
                memory=length * labels * labels,
            ),
        ]

"""Two stacks of recurrent layers, one from each end, that never mix: for ELMo and for the blank language
model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from seqlab.encoders.recurrent import Lstm, RecurrentConfig, RecurrentEncoder
from seqlab.errors import UserError
from seqlab.nn.layers import Dropout, listed
from seqlab.parts import Cost, Encoder, EncoderConfig
from seqlab.seq import Seq, reverse


@dataclass(frozen=True, kw_only=True)
class BothWays(EncoderConfig, kind="both-ways"):
    """One stack reads forward, one backward; their states stand side by side."""

    body: EncoderConfig = field(default_factory=Lstm)
    """One of the stacks: rnn, gru or lstm. Both are made so; each reads its own way, whatever the body
    says."""
    hides: bool = False
    """The state at a position knows what is before and after it, but not what stands there: what a language
    model needs."""
    mix: bool = False
    """The states are a learned mean of all layers (and of the input, where it is as wide), as in ELMo; else
    the last layer's."""

    def __post_init__(self) -> None:
        if not isinstance(self.body, RecurrentConfig):
            raise ValueError(f'the body of both-ways is rnn, gru or lstm, not "{self.body.kind}".')
        if self.hides and self.mix:
            raise ValueError("mix is for using a trained model, hides for training one; choose one of them.")

    def build(self, width_in: int) -> BothWaysEncoder:
        return BothWaysEncoder(self, width_in)

    def as_causal(self) -> BothWays:
        raise UserError(
            what='The body of a decoder is of kind "both-ways".',
            why="What is written later can't be read before it is there.",
            fix="Set model.decoder.body.kind=lstm.",
        )


class BothWaysEncoder(Encoder):
    """States (B T 2D) from vectors (B T D_in): [h→ ; h←].

    Unlike a bidirectional LSTM, whose layers read both directions of the one below, each direction reads only
    itself (Peters et al. 2018, without their characters, projections and residuals). So, where `hides` is
    set, the state at t is [h→[t-1] ; h←[t+1]] and no path leads from the input at t to it, however deep the
    stacks (SPEC R8). At the first and the last position a learned vector stands in for the state that is not
    there.
    """

    ahead: Sequence[RecurrentEncoder]
    back: Sequence[RecurrentEncoder]

    def __init__(self, config: BothWays, width_in: int) -> None:
        super().__init__()
        assert isinstance(config.body, RecurrentConfig)
        self.config = config
        one = replace(config.body, layers=1, directions="forward")
        widths = [width_in] + [one.width] * (config.body.layers - 1)
        self.width = 2 * one.width
        self.ahead = listed(one.build(width) for width in widths)
        self.back = listed(one.build(width) for width in widths)
        self.dropout = Dropout(config.body.dropout)
        self.edges = (
            nn.Parameter(torch.zeros(2, one.width)) if config.hides else None
        )  # before the first, after the last
        self.mixed = len(widths) + (width_in == one.width) if config.mix else 0
        self.weights = nn.Parameter(torch.zeros(self.mixed)) if config.mix else None
        self.scale = nn.Parameter(torch.ones(())) if config.mix else None

    def forward(self, x: Seq) -> Seq:
        turned = reverse(x)
        forward, backward = self._through(self.ahead, x), self._through(self.back, turned)
        if self.edges is not None:
            return x.with_values(
                _beside(_after(self.edges[0], forward[-1]), _after(self.edges[1], backward[-1]), turned)
            )
        if self.weights is None or self.scale is None:
            states = _beside(forward[-1], backward[-1], turned)
        else:
            layers = [_beside(one, two, turned) for one, two in zip(forward, backward, strict=True)]
            if self.mixed > len(layers):
                layers.insert(0, torch.cat([x.values, x.values], dim=-1))
            states = self.scale * torch.einsum(
                "l,lbtd->btd", self.weights.softmax(dim=0), torch.stack(layers)
            )
        width = self.width // 2
        last = states[torch.arange(x.rows, device=states.device), x.lengths - 1]
        return x.with_values(states, summary=torch.cat([last[:, :width], states[:, 0, width:]], dim=-1))

    def seeing(self, x: Seq) -> Seq:
        """The last layer's states (B T 2D) as they are where nothing is hidden: each knows its own word,
        too."""
        turned = reverse(x)
        return x.with_values(
            _beside(self._through(self.ahead, x)[-1], self._through(self.back, turned)[-1], turned)
        )

    def _through(self, stack: Iterable[RecurrentEncoder], x: Seq) -> list[Tensor]:
        """The states of every layer, each B T D."""
        found: list[Tensor] = []
        for number, layer in enumerate(stack):
            x = layer(x.with_values(self.dropout(x.values)) if number else x)
            found.append(x.values)
        return found

    def costs(self, length: int) -> list[Cost]:
        costs = []
        for name, stack in (("ahead", self.ahead), ("back", self.back)):
            for number, layer in enumerate(stack):
                costs += [replace(cost, name=f"{name}.{number}") for cost in layer.costs(length)]
        if self.edges is not None:
            costs.append(Cost(name="edges", parameters=self.width, parameters_formula="2d"))
        if self.weights is not None:
            costs.append(Cost(name="mix", parameters=self.mixed + 1, parameters_formula="layers + 1"))
        return costs


def _after(edge: Float[Tensor, " D"], states: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
    """The states one position later, with the edge at the first."""
    return torch.cat([edge.expand(len(states), 1, -1), states[:, :-1]], dim=1)


def _beside(
    forward: Float[Tensor, "B T D"], backward: Float[Tensor, "B T D"], turned: Seq
) -> Float[Tensor, "B T E"]:
    """Both directions side by side, the backward one turned to reading order."""
    return torch.cat([forward, reverse(turned.with_values(backward)).values], dim=-1)

"""The Transformer encoder: layers of self-attention and feed-forward, each with a residual and a norm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from seqlab.config import Positive, PositiveFloat, Probability
from seqlab.errors import UserError
from seqlab.nn.attention import Attention, Form
from seqlab.nn.layers import Activation, Dropout, FeedForward
from seqlab.nn.positions import PositionConfig, Rotary, RotaryPositions, Sinusoidal
from seqlab.parts import Cost, Encoder, EncoderConfig
from seqlab.seq import Seq


@dataclass(frozen=True, kw_only=True)
class Transformer(EncoderConfig, kind="transformer"):
    """Every position looks at every other one; as wide as its input."""

    layers: Positive = 2
    """How many layers."""
    heads: Positive = 4
    """Attention heads of a layer; they share its width out among them."""
    feed_forward: Positive | None = None
    """Width inside the feed-forward block; four times the width when empty."""
    activation: Activation = "relu"
    """Between the two halves of the feed-forward block."""
    norm: Literal["pre", "post"] = "pre"
    """Norm before each block (trains without care) or after each residual (as in the paper of 2017)."""
    epsilon: PositiveFloat = 1e-5
    """Added to the variance in every norm."""
    final_norm: bool | None = None
    """One more norm after the last layer; when empty, only with norm: pre."""
    embedding_norm: bool = False
    """A norm after the positions, before the first layer."""
    scale_embedding: bool = True
    """Multiply the input by √width before positions join it."""
    positions: PositionConfig = field(default_factory=Sinusoidal)
    """How positions are told apart: sinusoidal, learned, rotary or none."""
    biases: bool = True
    """Biases in all linear layers and norms."""
    dropout: Probability = 0.1
    """Chance of dropping a feature of the input and of each block's result while training."""
    local: Positive | None = None
    """Each position sees this many positions, itself included; all when empty."""
    merged_query_key: bool = False
    """One matrix a head in place of a query and a key matrix."""
    causal: bool = False
    """Position t sees positions up to t alone."""

    def __post_init__(self) -> None:
        if self.merged_query_key and isinstance(self.positions, Rotary):
            raise ValueError(
                "merged_query_key does not go with rotary positions, which turn queries and keys apart. "
                "Choose sinusoidal or learned positions, or merged_query_key: false."
            )

    def build(self, width_in: int) -> TransformerEncoder:
        return TransformerEncoder(self, width_in)


class TransformerLayer(nn.Module):
    """Self-attention, then feed-forward (B T D → B T D), each added to what came in."""

    def __init__(self, config: Transformer, width: int, rotary: RotaryPositions | None) -> None:
        super().__init__()
        form = replace(
            Form.standard(width, config.heads),
            biases=config.biases,
            output_bias=config.biases,
            merged=config.merged_query_key,
            causal=config.causal,
            local=config.local,
        )
        self.pre = config.norm == "pre"
        self.attention = Attention(form, rotary)
        self.feed_forward = FeedForward(width, config.feed_forward or 4 * width, config.activation, config.biases)
        self.attention_norm = nn.LayerNorm(width, config.epsilon, bias=config.biases)
        self.feed_forward_norm = nn.LayerNorm(width, config.epsilon, bias=config.biases)
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Float[Tensor, "B T D"], mask: Bool[Tensor, "B T"] | None) -> Float[Tensor, "B T D"]:
        if self.pre:
            x = x + self.dropout(self.attention(self.attention_norm(x), mask))
            x = x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))
        else:
            x = self.attention_norm(x + self.dropout(self.attention(x, mask)))
            x = self.feed_forward_norm(x + self.dropout(self.feed_forward(x)))
        return x


class TransformerEncoder(Encoder):
    """States (B T D) from vectors (B T D_in); D is D_in, plus the positions' width where they are concatenated.

    As Vaswani et al. 2017, with norms before the blocks by default (Xiong et al. 2020) and the results of the blocks
    scaled down by √(2·layers) at the start then, so that depth does not blow up the sum of residuals.
    Dropout acts on the input and on each block's result; not on attention weights nor inside the feed-forward block.
    """

    layers: Sequence[TransformerLayer]

    def __init__(self, config: Transformer, width_in: int) -> None:
        super().__init__()
        self.config = config
        self.positions = config.positions.build(width_in)
        self.width = width = self.positions.width
        _check_heads(config, width)
        self.causal = config.causal
        self.scale = width_in**0.5 if config.scale_embedding else 1.0
        norms = config.norm == "pre" if config.final_norm is None else config.final_norm
        rotary = self.positions if isinstance(self.positions, RotaryPositions) else None
        self.embedding_norm = nn.LayerNorm(width, config.epsilon, bias=config.biases) if config.embedding_norm else None
        layers = [TransformerLayer(config, width, rotary) for _ in range(config.layers)]
        self.layers = nn.ModuleList(layers)    # type: ignore[assignment]
        self.final_norm = nn.LayerNorm(width, config.epsilon, bias=config.biases) if norms else None
        self.dropout = Dropout(config.dropout)
        if config.norm == "pre":
            self._calm_residuals()

    @torch.no_grad()
    def _calm_residuals(self) -> None:
        for layer in self.layers:
            for output in (layer.attention.output, layer.feed_forward.output):
                assert isinstance(output, nn.Linear)
                output.weight.mul_((2 * len(self.layers)) ** -0.5)

    def forward(self, x: Seq) -> Seq:
        states = self.positions(x.values * self.scale)
        if self.embedding_norm is not None:
            states = self.embedding_norm(states)
        states = self.dropout(states)
        full = x.mask.device.type == "cpu" and bool(x.mask.all())    # elsewhere asking would wait for the device
        for layer in self.layers:
            states = layer(states, None if full else x.mask)
        if self.final_norm is not None:
            states = self.final_norm(states)
        return x.with_values(states)

    def costs(self, length: int) -> list[Cost]:
        norm = self.width * (1 + self.config.biases)
        formula = "2d" if self.config.biases else "d"
        costs = [self.positions.cost(length)]
        if self.embedding_norm is not None:
            costs.append(Cost(name="embedding_norm", parameters=norm, parameters_formula=formula))
        for number, layer in enumerate(self.layers):
            parts = [
                layer.attention.cost(length),
                layer.feed_forward.cost(length),
                Cost(name="norms", parameters=2 * norm, parameters_formula=f"2·{formula}", memory=2 * length * self.width),
            ]
            costs += [cost.below(f"layers.{number}") for cost in parts]
        if self.final_norm is not None:
            costs.append(Cost(name="final_norm", parameters=norm, parameters_formula=formula))
        return costs


def _check_heads(config: Transformer, width: int) -> None:
    even = isinstance(config.positions, Rotary)
    if width % config.heads or (even and width // config.heads % 2):
        raise UserError(
            what=f"transformer: heads is {config.heads}, but the width is {width}.",
            why=f"The heads share the width out among them in equal{', even' if even else ''} parts.",
            fix=f"Choose a number of heads that divides {width}, for instance heads=1, or another input width.",
        )

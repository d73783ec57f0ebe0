"""The Transformer encoder: layers of self-attention and feed-forward, each with a residual and a norm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from seqlab.config import Positive, PositiveFloat, Probability
from seqlab.errors import UserError
from seqlab.nn.attention import Form, MultiHeadAttention
from seqlab.nn.layers import Activation, Dropout, FeedForward, listed
from seqlab.nn.positions import PositionConfig, Rotary, RotaryPositions, Sinusoidal
from seqlab.parts import Cost, Encoder, EncoderConfig, State
from seqlab.seq import Seq


@dataclass(frozen=True, kw_only=True)
class Transformer(EncoderConfig, kind="transformer"):
    """Every position looks at every other one; as wide as its input."""

    layers: Positive = 2
    """How many layers."""
    heads: Positive = 4
    """Attention heads of a layer; they share its width out among them, unless key_width and value_width tell
    theirs."""
    key_width: Positive | None = None
    """Width of the queries and keys of one head; when empty its share, width / heads."""
    value_width: Positive | None = None
    """Width of the values of one head; when empty its share, width / heads."""
    scale_scores: bool = True
    """Divide attention scores by the root of the key width; a merged matrix has that in it."""
    output_projection: bool = True
    """Mix the heads by one more matrix; without it they are only put side by side."""
    feed_forward: Positive | None = None
    """Width inside the feed-forward block; four times the width when empty."""
    activation: Activation = "relu"
    """Between the two halves of the feed-forward block."""
    norm: Literal["pre", "post", "none"] = "pre"
    """Norm before each block (trains without care), after each residual (as in the paper of 2017), or none
    (to see why)."""
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
    """Probability of dropping a feature of the input and of each block's result while training."""
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
        if self.merged_query_key and self.key_width is not None:
            raise ValueError(
                "key_width does not go with merged_query_key, whose matrix is as wide as the states. "
                "Leave key_width empty, or choose merged_query_key: false."
            )

    def build(self, width_in: int) -> TransformerEncoder:
        return TransformerEncoder(self, width_in)

    def build_over(self, width_in: int, memory: int | None) -> TransformerEncoder:
        """With cross-attention to a memory of this width in every layer."""
        return TransformerEncoder(self, width_in, memory)

    def as_causal(self) -> Transformer:
        return replace(self, causal=True)

    def form(self, width: int) -> Form:
        """The shape of its attention, over states of this width."""
        return Form(
            width=width,
            memory=width,
            heads=self.heads,
            key=self.key_width or width // self.heads,
            value=self.value_width or width // self.heads,
            biases=self.biases,
            output_bias=self.biases,
            scale=self.scale_scores,
            output=self.output_projection,
        )


Past = tuple[Tensor, Tensor]
"""Keys and values (B H T U)."""
Block = Callable[[Tensor], Tensor]


class TransformerLayer(nn.Module):
    """Self-attention, where there is a memory cross-attention, then feed-forward (B T D → B T D), each added
    to what came in."""

    def __init__(
        self, config: Transformer, width: int, rotary: RotaryPositions | None, memory: int | None
    ) -> None:
        super().__init__()
        form = config.form(width)
        own = replace(form, merged=config.merged_query_key, causal=config.causal, local=config.local)
        self.pre = config.norm == "pre"
        self.attention = MultiHeadAttention(own, rotary)
        self.cross = MultiHeadAttention(replace(form, memory=memory)) if memory is not None else None
        self.feed_forward = FeedForward(
            width, config.feed_forward or 4 * width, config.activation, config.biases
        )
        normed = config.norm != "none"
        self.attention_norm = _norm(config, width) if normed else None
        self.cross_norm = _norm(config, width) if normed and memory is not None else None
        self.feed_forward_norm = _norm(config, width) if normed else None
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Float[Tensor, "B T D"], mask: Bool[Tensor, "B T"] | None) -> Float[Tensor, "B T D"]:
        x = self._add(x, self.attention_norm, lambda y: self.attention(y, mask))
        return self._add(x, self.feed_forward_norm, self.feed_forward)

    def extend(
        self,
        x: Float[Tensor, "B U D"],
        past: Past | None,
        before: int,
        memory: Past | None,
        mask: Bool[Tensor, "B T"] | None,
    ) -> tuple[Float[Tensor, "B U D"], Past]:
        """The next positions, after `before` ones that left `past`. `memory` holds its keys and values,
        `mask` what is real."""
        found: list[Past] = []

        def look_back(y: Tensor) -> Tensor:
            mixed, now = self.attention.extend(y, past, before)
            found.append(now)
            return mixed

        x = self._add(x, self.attention_norm, look_back)
        if self.cross is not None and memory is not None:
            cross = self.cross
            x = self._add(x, self.cross_norm, lambda y: cross.recall(y, *memory, mask))
        return self._add(x, self.feed_forward_norm, self.feed_forward), found[0]

    def _add(self, x: Tensor, norm: nn.LayerNorm | None, block: Block) -> Tensor:
        """What came in and what a block makes of it, with the norm, if there is one, before the block or
        after the sum."""
        added: Tensor = self.dropout(block(norm(x) if norm is not None and self.pre else x))
        summed: Tensor = x + added if norm is None or self.pre else norm(x + added)
        return summed


class TransformerEncoder(Encoder):
    """States (B T D) from vectors (B T D_in); D is D_in, plus the positions' width where they are
    concatenated.

    As Vaswani et al. 2017, with norms before the blocks by default (Xiong et al. 2020) and the results of the
    blocks scaled down by √(2·layers) at the start then, so that depth does not blow up the sum of residuals.
    Dropout acts on the input and on each block's result; not on attention weights nor inside the feed-forward
    block.

    With a memory it is the paper's decoder: every layer also looks at the memory. Then only `begin` and
    `extend` serve.
    """

    layers: Sequence[TransformerLayer]

    def __init__(self, config: Transformer, width_in: int, memory: int | None = None) -> None:
        super().__init__()
        self.config = config
        self.memory = memory
        self.positions = config.positions.build(width_in)
        self.width = width = self.positions.width
        _check_heads(config, width)
        self.causal = config.causal
        self.scale = width_in**0.5 if config.scale_embedding else 1.0
        norms = config.norm == "pre" if config.final_norm is None else config.final_norm
        rotary = self.positions if isinstance(self.positions, RotaryPositions) else None
        self.embedding_norm = _norm(config, width) if config.embedding_norm else None
        layers = [TransformerLayer(config, width, rotary, memory) for _ in range(config.layers)]
        self.layers = listed(layers)
        self.final_norm = _norm(config, width) if norms else None
        self.dropout = Dropout(config.dropout)
        if config.norm == "pre":
            self._calm_residuals()

    @torch.no_grad()
    def _calm_residuals(self) -> None:
        for layer in self.layers:
            looking = [one for one in (layer.attention, layer.cross) if one is not None]
            # Without an output projection what a block adds is as large as its values.
            last = [one.output if isinstance(one.output, nn.Linear) else one.value for one in looking]
            last.append(layer.feed_forward.output)
            for linear in last:
                linear.weight.mul_((len(last) * len(self.layers)) ** -0.5)

    def forward(self, x: Seq) -> Seq:
        assert self.memory is None, "a Transformer over a memory is advanced by `extend`"
        states = self._placed(x.values, 0)
        full = x.mask.device.type == "cpu" and bool(
            x.mask.all()
        )  # elsewhere asking would wait for the device
        for layer in self.layers:
            states = layer(states, None if full else x.mask)
        return x.with_values(states if self.final_norm is None else self.final_norm(states))

    def _placed(self, values: Tensor, before: int) -> Tensor:
        states = self.positions(values * self.scale, before)
        if self.embedding_norm is not None:
            states = self.embedding_norm(states)
        placed: Tensor = self.dropout(states)
        return placed

    def begin(self, rows: int, memory: Seq | None = None) -> State:
        assert (memory is None) == (self.memory is None), "built over a memory, or not"
        fixed: dict[str, Tensor] = {}
        if memory is not None:
            for number, layer in enumerate(self.layers):
                assert layer.cross is not None
                fixed[f"keys.{number}"], fixed[f"values.{number}"] = layer.cross.remember(memory.values)
            if memory.mask.device.type != "cpu" or not bool(memory.mask.all()):
                fixed["mask"] = memory.mask
        return State(fixed, {})

    def extend(self, values: Float[Tensor, "B U D"], state: State) -> tuple[Float[Tensor, "B U E"], State]:
        assert self.causal
        states = self._placed(values, state.done)
        fixed, moving = state.fixed, {}
        for number, layer in enumerate(self.layers):
            keys, stored = f"keys.{number}", f"values.{number}"
            past = (state.moving[keys], state.moving[stored]) if state.done else None
            memory = (fixed[keys], fixed[stored]) if self.memory is not None else None
            states, (moving[keys], moving[stored]) = layer.extend(
                states, past, state.done, memory, fixed.get("mask")
            )
        states = states if self.final_norm is None else self.final_norm(states)
        return states, State(fixed, moving, state.done + values.shape[1])

    def costs(self, length: int) -> list[Cost]:
        norm = self.width * (1 + self.config.biases)
        formula = "2d" if self.config.biases else "d"
        costs = [self.positions.cost(length)]
        if self.embedding_norm is not None:
            costs.append(Cost(name="embedding_norm", parameters=norm, parameters_formula=formula))
        for number, layer in enumerate(self.layers):
            count = 2 if layer.cross is None else 3
            norms = Cost(
                name="norms",
                parameters=count * norm,
                parameters_formula=f"{count}·{formula}",
                memory=count * length * self.width,
            )
            parts = [
                _both_products(layer.attention, length, "attention"),
                *([] if layer.cross is None else [_both_products(layer.cross, length, "cross")]),
                layer.feed_forward.cost(length),
                *([] if self.config.norm == "none" else [norms]),
            ]
            costs += [cost.below(f"layers.{number}") for cost in parts]
        if self.final_norm is not None:
            costs.append(Cost(name="final_norm", parameters=norm, parameters_formula=formula))
        return costs


def _both_products(attention: MultiHeadAttention, length: int, name: str) -> Cost:
    """Of attention: one of its products is the leading term, the other stands beside it."""
    form, cost = attention.form, attention.cost(length)
    over = min(form.local or length, length)
    scored = form.memory if form.merged else form.key
    both = length * over * form.heads * (scored + form.value)
    return replace(cost, name=name, over=over, mixing=both - cost.work)


def _norm(config: Transformer, width: int) -> nn.LayerNorm:
    return nn.LayerNorm(width, config.epsilon, bias=config.biases)


def _check_heads(config: Transformer, width: int) -> None:
    """That heads come out even: in their shares, in pairs that turn, and in what they add to the states."""
    even = isinstance(config.positions, Rotary)
    if width % config.heads and not (config.key_width and config.value_width):
        raise UserError(
            what=f"transformer: heads is {config.heads}, but the width is {width}.",
            why=f"The heads share the width out among them in equal{', even' if even else ''} parts.",
            fix=(
                f"Choose a number of heads that divides {width}, for instance heads=1, or another input"
                " width; or set both key_width and value_width."
            ),
        )
    form = config.form(width)
    if even and form.key % 2:
        told = f"heads is {config.heads}, but the width is {width}: keys are {form.key} wide"
        raise UserError(
            what=f"transformer: {f'key_width is {form.key}' if config.key_width else told}, and positions are"
            " rotary.",
            why="Rotary positions turn the features of keys in pairs, so their number has to be even.",
            fix="Choose an even key_width, another number of heads, or other positions.",
        )
    if not form.output and form.heads * form.value != width:
        raise UserError(
            what=(
                f"transformer: output_projection is false, and {form.heads} heads with values of width"
                f" {form.value} make {form.heads * form.value}, but the width is {width}."
            ),
            why="Without the projection the heads side by side are added to the states as they are.",
            fix=f"Leave value_width empty with a number of heads that divides {width}, or set"
            " output_projection=true.",
        )

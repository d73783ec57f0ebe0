"""Encoders made of other encoders: none at all, or several one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from seqlab.nn.layers import listed
from seqlab.parts import Cost, Encoder, EncoderConfig, State
from seqlab.seq import Seq


@dataclass(frozen=True, kw_only=True)
class NoEncoder(EncoderConfig, kind="none"):
    """The input as it is."""

    def build(self, width_in: int) -> Unchanged:
        return Unchanged(width_in)

    def as_causal(self) -> NoEncoder:
        return self


class Unchanged(Encoder):
    """What comes in goes out (B T D)."""

    causal = True

    def __init__(self, width_in: int) -> None:
        super().__init__()
        self.width = width_in

    def forward(self, x: Seq) -> Seq:
        return x

    def begin(self, rows: int, memory: Seq | None = None) -> State:
        return State({}, {})

    def extend(self, values: Float[Tensor, "B U D"], state: State) -> tuple[Float[Tensor, "B U E"], State]:
        return values, State(state.fixed, state.moving, state.done + values.shape[1])

    def costs(self, length: int) -> list[Cost]:
        return []


@dataclass(frozen=True, kw_only=True)
class Stack(EncoderConfig, kind="stack"):
    """Encoders one after the other."""

    encoders: tuple[EncoderConfig, ...]
    """From the first to the last, each with its own kind and settings."""

    def build(self, width_in: int) -> StackEncoder:
        return StackEncoder(self, width_in)

    def as_causal(self) -> Stack:
        return Stack(encoders=tuple(encoder.as_causal() for encoder in self.encoders))


class StackEncoder(Encoder):
    """Each encoder reads the states of the one before it."""

    encoders: Sequence[Encoder]

    def __init__(self, config: Stack, width_in: int) -> None:
        super().__init__()
        self.width = width_in
        encoders = []
        for each in config.encoders:
            encoders.append(each.build(self.width))
            self.width = encoders[-1].width
        self.encoders = listed(encoders)
        self.causal = all(encoder.causal for encoder in encoders)
        self.keeps_length = all(encoder.keeps_length for encoder in encoders)

    def forward(self, x: Seq) -> Seq:
        for encoder in self.encoders:
            x = encoder(x)
        return x

    def begin(self, rows: int, memory: Seq | None = None) -> State:
        begun = [encoder.begin(rows) for encoder in self.encoders]
        return State(
            {},
            {f"{n}.{name}": tensor for n, state in enumerate(begun) for name, tensor in state.moving.items()},
        )

    def extend(self, values: Float[Tensor, "B U D"], state: State) -> tuple[Float[Tensor, "B U E"], State]:
        moving: dict[str, Tensor] = {}
        for number, encoder in enumerate(self.encoders):
            values, inner = encoder.extend(values, state.below(f"{number}"))
            moving |= {f"{number}.{name}": tensor for name, tensor in inner.moving.items()}
        return values, State(state.fixed, moving, state.done + values.shape[1])

    def length_after(self, length: int) -> int:
        for encoder in self.encoders:
            length = encoder.length_after(length)
        return length

    def costs(self, length: int) -> list[Cost]:
        costs = []
        for number, encoder in enumerate(self.encoders):
            costs += [cost.below(f"encoders.{number}") for cost in encoder.costs(length)]
            length = encoder.length_after(length)
        return costs

"""The roles: what a model is made of. Read this file first.

A model is read → encode → answer: an Input turns a batch into a `Seq`, an Encoder turns a `Seq` into a `Seq`,
a Pool and a Head turn it into a Reply. Each role has a family of settings (`InputConfig`, ...), whose classes live
beside the modules they build. A part never sees another part's settings, the vocabulary, the device or the rank.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from seqlab.config import Variant
from seqlab.seq import Nested, Seq

# What flows ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Batch:
    """Examples made ready for a model."""

    inputs: dict[str, Seq | Nested]
    """By field name: "text", "characters", "grams", ..."""
    target: Tensor | None
    """B: class numbers or real numbers; None when there is nothing to compare with."""
    rows: Tensor
    """B: which examples these are."""

    @property
    def size(self) -> int:
        return len(self.rows)

    def to(self, device: torch.device) -> Batch:
        inputs = {name: field.to(device) for name, field in self.inputs.items()}
        return Batch(inputs, None if self.target is None else self.target.to(device), self.rows)


@dataclass(frozen=True)
class Pooled:
    """One vector a row, and the weights that made it."""

    vector: Float[Tensor, "B D"]
    weights: Float[Tensor, "B R T"] | None = None


@dataclass(frozen=True)
class Reply:
    """What a head says: a score for each class, or the one number of a regression."""

    scores: Float[Tensor, "N C"]


@dataclass(frozen=True)
class Output:
    """All that a model computed for a batch."""

    states: Seq
    pooled: Pooled
    reply: Reply


@dataclass(frozen=True)
class Term:
    """A sum over examples and how many there were. Divided only after all micro-batches and processes are added up."""

    total: Float[Tensor, ""]
    count: int


@dataclass(frozen=True)
class Cost:
    """What one layer costs for a sequence of n positions, by formula."""

    name: str
    parameters: int
    """By formula; the tests compare it with what is really there."""
    parameters_formula: str
    work: int = 0
    """Multiply-adds of the leading term (SPEC M1)."""
    work_formula: str = ""
    projections: int = 0
    """Multiply-adds of the projections beside the leading term."""
    sequential_steps: int = 1
    longest_path: int = 1
    memory: int = 0
    """Numbers kept for the backward pass, leading terms."""

    def below(self, name: str) -> Cost:
        """The same cost, named as a part of `name`."""
        return replace(self, name=f"{name}.{self.name}" if self.name else name)


@dataclass(frozen=True)
class Facts:
    """What only data can tell, as far as the parts need it."""

    symbols: dict[str, int]
    """How many different ids each field has: {"text": 30000, "characters": 120}."""
    outputs: int
    """How many numbers a head gives: classes, or 1."""
    segments: int = 1
    """2 when an example is a pair of texts."""


# The roles -----------------------------------------------------------------------------------------------------


class Part(nn.Module, ABC):
    """Anything a model is built from."""

    @abstractmethod
    def costs(self, length: int) -> list[Cost]:
        """One entry a layer, for a sequence of `length` positions. Their parameters add up to the real count."""

    def length_after(self, length: int) -> int:
        """How many positions come out when `length` go in."""
        return length


class Input(Part):
    """Turns a batch into a Seq of vectors (B T width)."""

    width: int

    @abstractmethod
    def forward(self, batch: Batch) -> Seq: ...


class Encoder(Part):
    """Turns a Seq of vectors (B T width_in) into a Seq of vectors (B T' width)."""

    width: int
    causal: bool = False
    """True when position t depends on positions up to t alone."""
    keeps_length: bool = True

    @abstractmethod
    def forward(self, x: Seq) -> Seq: ...


class Pool(Part):
    """Turns the states of a row into one vector. `context` (B C) is something else to look at, where a pool can."""

    width: int

    @abstractmethod
    def forward(self, x: Seq, context: Tensor | None = None) -> Pooled: ...


class Head(Part):
    """Turns states (N D) into a Reply. The model pools, or selects the positions with a target, first."""

    @abstractmethod
    def forward(self, states: Float[Tensor, "N D"]) -> Reply: ...


class Objective(ABC):
    """One term of the loss. Its count comes from the batch alone."""

    name: ClassVar[str]

    @abstractmethod
    def __call__(self, output: Output, batch: Batch) -> Term: ...


# Their settings ------------------------------------------------------------------------------------------------


class InputConfig(Variant):
    """Settings of an input."""

    reads: ClassVar[str] = "tokens"
    """What an example has to be: tokens, sentences, characters or grams (see data/fields.py)."""

    @abstractmethod
    def build(self, facts: Facts) -> Input: ...


class EncoderConfig(Variant):
    """Settings of an encoder."""

    @abstractmethod
    def build(self, width_in: int) -> Encoder: ...


class PoolConfig(Variant):
    """Settings of a pool."""

    @abstractmethod
    def build(self, width_in: int, context: int = 0) -> Pool:
        """`context` is the width of the vector given to `forward` beside the states; 0 for none."""


class HeadConfig(Variant):
    """Settings of a head."""

    @abstractmethod
    def build(self, width_in: int, outputs: int) -> Head: ...


# Looking inside ------------------------------------------------------------------------------------------------


class Attends(nn.Module):
    """Mixin of every module with attention weights: `tape` is an empty slot that `record` fills.

    Empty → the fused kernel. Filled → exact weights (B H Q K) are appended, outputs the same to 1e-5.
    """

    def __init__(self) -> None:
        super().__init__()
        self.tape: list[Tensor] | None = None


class record:
    """`with record(model) as maps:` collects the attention of every module by its name in the model.

    maps["encoder.layers.0.attention"] is a list, one tensor (B H Q K) for each call of that module.
    """

    def __init__(self, model: nn.Module) -> None:
        self.modules = {name: module for name, module in model.named_modules() if isinstance(module, Attends)}

    def __enter__(self) -> dict[str, list[Tensor]]:
        for module in self.modules.values():
            module.tape = []
        return {name: module.tape for name, module in self.modules.items() if module.tape is not None}

    def __exit__(self, *_: object) -> None:
        for module in self.modules.values():
            module.tape = None

"""The roles: what a model is made of. Read this file first.

A model is read → encode → answer: an Input turns a batch into a `Seq`, an Encoder turns a `Seq` into a `Seq`,
and either a Pool and a Head turn it into a Reply, or a Decoder writes a sequence of its own while it reads it. Each
role has a family of settings (`InputConfig`, ...), whose classes live beside the modules they build. A part never sees
another part's settings, the vocabulary, the device or the rank.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
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
    written: Seq | None = None
    """B U+1: ids that a decoder learns to write, from the mark of the start on. It is fed all but the last of them."""
    follows: bool = False
    """True when each row goes on where the same row of the batch before it ended."""
    places: Tensor | None = None
    """N: positions with an answer of their own, as numbers b·T + t of the field "text"; ..."""
    answers: Tensor | None = None
    """... N: the ids that belong there."""

    @property
    def size(self) -> int:
        return len(self.rows)

    def to(self, device: torch.device) -> Batch:
        return replace(
            self,
            inputs={name: field.to(device) for name, field in self.inputs.items()},
            target=None if self.target is None else self.target.to(device),
            written=None if self.written is None else self.written.to(device),
            places=None if self.places is None else self.places.to(device),
            answers=None if self.answers is None else self.answers.to(device),
        )


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
    """All that a model with a pool and a head computed for a batch."""

    states: Seq
    pooled: Pooled
    reply: Reply


@dataclass(frozen=True)
class Writing:
    """What a model with a decoder computed for a batch, at every position that has an id to be written."""

    states: Float[Tensor, "N E"]
    targets: Int[Tensor, " N"]
    vocabulary: nn.Linear
    """E → V: the scores are vocabulary(states). The objective takes them in chunks, so that they are never there at once."""
    state: State
    """The decoder after the last position, for batches that go on from here."""


@dataclass(frozen=True)
class Filling:
    """What a model with a head at positions computed for a batch, at every position that has an answer."""

    read: Seq
    """The vectors of what was read (B T D), before the encoder."""
    states: Seq
    vectors: Float[Tensor, "M E"]
    """One for each of the N places; two where both directions answer by themselves, first those of the one, then the other."""
    answers: Int[Tensor, " M"]
    vocabulary: nn.Linear
    """E → V: the scores are vocabulary(vectors), taken in chunks."""
    reply: Reply | None = None
    """What it says of each row as a whole, where it was asked for that, too."""


@dataclass(frozen=True)
class State:
    """What a decoder or a causal encoder remembers between two calls. Every tensor has the rows first.

    Advancing by a + b positions equals advancing by a and then by b. Beam search knows nothing else of a decoder.
    """

    fixed: dict[str, Tensor]
    """What stays as it was at the start: keys and values of the memory, its mask."""
    moving: dict[str, Tensor]
    """What every call replaces: recurrent states, keys and values of the positions so far."""
    done: int = 0
    """Positions so far, the same for all rows."""

    def widen(self, times: int) -> State:
        """Each row `times` times, one copy after the other: B rows become B·times."""
        def wide(some: dict[str, Tensor]) -> dict[str, Tensor]:
            return {name: tensor.repeat_interleave(times, dim=0) for name, tensor in some.items()}

        return State(wide(self.fixed), wide(self.moving), self.done)

    def pick(self, rows: Int[Tensor, " M"], same_memory: bool = False) -> State:
        """These rows, in this order. same_memory: each new row has the memory of the row it replaces, which then stays."""
        fixed = self.fixed if same_memory else {name: tensor.index_select(0, rows) for name, tensor in self.fixed.items()}
        return State(fixed, {name: tensor.index_select(0, rows) for name, tensor in self.moving.items()}, self.done)

    def below(self, name: str) -> State:
        """The state of a part: what is called `name.…`, without that."""
        def inner(some: dict[str, Tensor]) -> dict[str, Tensor]:
            return {key[len(name) + 1 :]: tensor for key, tensor in some.items() if key.startswith(f"{name}.")}

        return State(inner(self.fixed), inner(self.moving), self.done)

    def detach(self) -> State:
        """The same numbers, without what made them."""
        def cut(some: dict[str, Tensor]) -> dict[str, Tensor]:
            return {name: tensor.detach() for name, tensor in some.items()}

        return State(cut(self.fixed), cut(self.moving), self.done)


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
    joint: bool = False
    """True when what is read and what is written have one vocabulary."""


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

    def begin(self, rows: int, memory: Seq | None = None) -> State:
        """Before the first position. Causal encoders have this; `memory` is for those that look at one themselves."""
        raise NotImplementedError(f"{type(self).__name__} is not causal")

    def extend(self, values: Float[Tensor, "B U D"], state: State) -> tuple[Float[Tensor, "B U E"], State]:
        """The next positions: what `forward` gives at them, from the state that the positions before them left."""
        raise NotImplementedError(f"{type(self).__name__} is not causal")


class Pool(Part):
    """Turns the states of a row into one vector. `context` (B C) is something else to look at, where a pool can."""

    width: int

    @abstractmethod
    def forward(self, x: Seq, context: Tensor | None = None) -> Pooled: ...


class Head(Part):
    """Turns states (N D) into a Reply. The model pools, or selects the positions with a target, first."""

    @abstractmethod
    def forward(self, states: Float[Tensor, "N D"]) -> Reply: ...


class Decoder(Part):
    """Writes a sequence of its own, id by id, while it reads a memory: T slots, one slot, or none (a language model).

    Teacher forcing is `advance` over all ids, decoding is `advance` by one, a prompt is `advance` by many. The scores of
    the next id are `vocabulary(states)`. The first id it is fed is the mark of the start.
    """

    vocabulary: nn.Linear
    """E → V; its weight may be the embedding's."""

    @abstractmethod
    def start(self, memory: Seq | None, rows: int) -> State:
        """Before the first id. `rows` matters where there is no memory to count them by."""

    @abstractmethod
    def advance(self, fed: Int[Tensor, "B U"], state: State) -> tuple[Float[Tensor, "B U E"], State]:
        """Feed the next ids; the states after each, and where it then stands."""


class Objective(ABC):
    """One term of the loss. Its count comes from the batch alone."""

    name: ClassVar[str]
    compares: ClassVar[bool] = False
    """Whether the rows of a batch are compared with one another, so that workers can't share them out."""

    @abstractmethod
    def __call__(self, output: Any, batch: Batch) -> Term:
        """`output` is the model's Output, its Writing or its Filling."""

    def count(self, batch: Batch) -> int:
        """How many examples a batch has for this term: its rows, unless told otherwise."""
        return batch.size


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

    @abstractmethod
    def as_causal(self) -> EncoderConfig:
        """The same encoder as the body of a decoder; a UserError where it can't be causal."""


class PoolConfig(Variant):
    """Settings of a pool."""

    @abstractmethod
    def build(self, width_in: int, context: int = 0) -> Pool:
        """`context` is the width of the vector given to `forward` beside the states; 0 for none."""


class HeadConfig(Variant):
    """Settings of a head."""

    @abstractmethod
    def build(self, width_in: int, outputs: int) -> Head: ...


class DecoderConfig(Variant):
    """Settings of a decoder."""

    @abstractmethod
    def build(self, memory: int | None, symbols: int) -> Decoder:
        """`memory` is the width of what it reads; None: there is nothing to read. `symbols` is how many ids it can write."""


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

"""The roles: what a model is made of. Read this file first.

A model is read → encode → answer: an Input turns a batch into a `Seq`, an Encoder turns a `Seq` into a `Seq`,
and answers come from a Pool and a Head ("row"), a Head at positions ("places"), or a Decoder ("written").
Each role has a family of settings (`InputConfig`, ...), whose classes live beside the modules they build. A
part never sees another part's settings, the vocabulary, the device or the rank.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from seqlab.config import Variant
from seqlab.seq import Nested, Seq

# What flows -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Places:
    """What belongs at some positions of a batch."""

    positions: Int[Tensor, " N"]
    """Which ones, as b·T + t of the rows that are read."""
    values: Tensor
    """N ...: the ids, class numbers or real numbers there."""
    sizes: Int[Tensor, " B"] | None = None
    """How many each row has, where they are in the order of the rows: then those of a row are a sequence."""

    def to(self, device: torch.device) -> Places:
        sizes = None if self.sizes is None else self.sizes.to(device)
        return Places(self.positions.to(device), self.values.to(device), sizes)


Target = Tensor | Places | Seq
"""What an answer is compared with: a number for each row (B), `Places`, or a written sequence (ids B U+1,
from BOS on)."""


@dataclass(frozen=True)
class Batch:
    """Examples made ready for a model."""

    inputs: dict[str, Seq | Nested]
    """By field name: "text", "characters", "grams", ..."""
    rows: Tensor
    """B: which examples these are."""
    targets: dict[str, Target] = field(default_factory=dict)
    """By the name of the answer: "row", "places", "written". Empty when there is nothing to compare with."""
    follows: bool = False
    """True when each row goes on where the same row of the batch before it ended."""

    @property
    def size(self) -> int:
        return len(self.rows)

    @property
    def text(self) -> Seq:
        """What is read of the field "text", where it is not nested."""
        text = self.inputs["text"]
        assert isinstance(text, Seq)
        return text

    @property
    def places(self) -> Places:
        """The target of the answer "places"."""
        target = self.targets["places"]
        assert isinstance(target, Places)
        return target

    @property
    def written(self) -> Seq:
        """The target of the answer "written": ids B U+1. A decoder is fed all but the last of them."""
        target = self.targets["written"]
        assert isinstance(target, Seq)
        return target

    def to(self, device: torch.device) -> Batch:
        return replace(
            self,
            inputs={name: one.to(device) for name, one in self.inputs.items()},
            targets={name: target.to(device) for name, target in self.targets.items()},
        )


def meant(target: Target) -> Tensor:
    """What a model has to say, one after the other: a value for each row, place, or id that is written."""
    if isinstance(target, Places):
        return target.values
    if isinstance(target, Tensor):
        return target
    ids, mask = target.values[:, 1:], target.mask[:, 1:]
    return ids.flatten(0, 1) if mask.device.type == "cpu" and bool(mask.all()) else ids[mask]


@dataclass(frozen=True)
class Pooled:
    """One vector a row, and the weights that made it."""

    vector: Float[Tensor, "B D"]
    weights: Float[Tensor, "B R T"] | None = None


@dataclass(frozen=True)
class Reply:
    """What a head says of N rows, places or written ids: vectors, and the matrix that scores them.

    The scores over a large vocabulary are not made before they are asked for: losses and likelihoods take the
    vectors in chunks. Without a matrix the vectors are the scores.
    """

    vectors: Float[Tensor, "M E"]
    weight: Float[Tensor, "C E"] | None = None
    bias: Float[Tensor, " C"] | None = None
    directions: int = 1
    """2 where both directions of reading answer by themselves: then M = 2N, the forward answers first."""

    @property
    def scores(self) -> Float[Tensor, "N C"]:
        """A score for each class or id, or the one number of a regression; of two directions the sum of both
        log-probabilities: what both together hold likely."""
        if self.weight is None:
            return self.vectors
        scores: Tensor = functional.linear(self.vectors, self.weight, self.bias)
        if self.directions == 1:
            return scores
        ahead, back = scores.log_softmax(dim=-1).chunk(2)
        return ahead + back

    def said(self, sizes: Int[Tensor, " B"]) -> Int[Tensor, " N"]:
        """The labels of rows of so many places each: at each place the one of the highest score."""
        return self.scores.argmax(dim=-1)

    def surprise(self, labels: Int[Tensor, " N"], sizes: Int[Tensor, " B"]) -> Float[Tensor, " B"]:
        """−log p of the labels of each row of places: the sum over its places, each judged by itself."""
        nats = functional.cross_entropy(self.scores, labels, reduction="none")
        rows = torch.repeat_interleave(torch.arange(len(sizes), device=nats.device), sizes)
        return nats.new_zeros(len(sizes)).index_add(0, rows, nats)


@dataclass(frozen=True)
class Output:
    """All that a model computed for a batch."""

    answers: dict[str, Reply]
    """By name: "row", "places", "written"; those that the model has and the batch asks for."""
    read: Seq | None = None
    """The vectors of what was read (B T D), before the encoder."""
    states: Seq | None = None
    pooled: Pooled | None = None
    state: State | None = None
    """The decoder after the last position, for batches that go on from here."""


@dataclass(frozen=True)
class State:
    """What a decoder or a causal encoder remembers between two calls. Every tensor has the rows first.

    Advancing by a + b positions equals advancing by a and then by b. Beam search knows nothing else of a
    decoder.
    """

    fixed: dict[str, Tensor]
    """What stays as it was at the start: keys and values of the memory, its mask."""
    moving: dict[str, Tensor]
    """What every call replaces: recurrent states, keys and values of the positions so far."""
    done: int = 0
    """Positions so far, the same for all rows."""

    def pick(self, rows: Int[Tensor, " M"], same_memory: bool = False) -> State:
        """These rows, in this order. same_memory: each new row has the memory of the row it replaces, which
        then stays."""
        fixed = (
            self.fixed
            if same_memory
            else {name: tensor.index_select(0, rows) for name, tensor in self.fixed.items()}
        )
        return State(
            fixed, {name: tensor.index_select(0, rows) for name, tensor in self.moving.items()}, self.done
        )

    def below(self, name: str) -> State:
        """The state of a part: what is called `name.…`, without that."""

        def inner(some: dict[str, Tensor]) -> dict[str, Tensor]:
            return {
                key[len(name) + 1 :]: tensor for key, tensor in some.items() if key.startswith(f"{name}.")
            }

        return State(inner(self.fixed), inner(self.moving), self.done)

    def detach(self) -> State:
        """The same numbers, without what made them."""

        def cut(some: dict[str, Tensor]) -> dict[str, Tensor]:
            return {name: tensor.detach() for name, tensor in some.items()}

        return State(cut(self.fixed), cut(self.moving), self.done)


@dataclass(frozen=True)
class Term:
    """A sum over examples and how many there were. Divided only after all micro-batches and processes are
    added up."""

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
    mixing: int = 0
    """Multiply-adds beside both: the second product of attention, of weights and values."""
    over: int = 0
    """Positions that one query of attention weighs against each other, or that are summed up; 0: none."""
    sequential_steps: int = 1
    longest_path: int = 1
    memory: int = 0
    """Numbers kept for the backward pass, leading terms."""

    def below(self, name: str) -> Cost:
        """The same cost, named as a part of `name`."""
        return replace(self, name=f"{name}.{self.name}" if self.name else name)


@dataclass(frozen=True)
class Grammar:
    """Which sequences of C labels there can be, as bools."""

    first: tuple[bool, ...]
    """C: which may be the first of a row."""
    last: tuple[bool, ...]
    """C: which may be the last."""
    follows: tuple[tuple[bool, ...], ...]
    """C C: whether the second label may stand right after the first one."""


@dataclass(frozen=True)
class Facts:
    """What only data can tell, as far as the parts need it."""

    symbols: dict[str, int]
    """How many different ids each field has: {"text": 30000, "characters": 120}."""
    outputs: dict[str, int] = field(default_factory=dict)
    """How many numbers the heads of the answers "row" and "places" give: classes, ids, or 1."""
    segments: int = 1
    """2 when an example is a pair of texts."""
    joint: bool = False
    """True when what is read and what is written have one vocabulary."""
    grammar: Grammar | None = None
    """Which labels of "places" may follow one another, where not all may."""
    features: dict[str, int] = field(default_factory=dict)
    """How wide the vectors of each real-valued field are: {"values": 7}. "written": numbers a decoder writes
    at each step; "beside": numbers that it is told of each step before it answers."""
    window: int = 0
    """Steps of every example, where all have as many."""
    channels: int = 1
    """Into how many equal groups the numbers of the answer "row" fall: one for each forecast series."""

    @property
    def written(self) -> int | Numbers:
        """What a decoder writes: ids of so many symbols, or numbers."""
        if "written" in self.features:
            return Numbers(self.features["written"], self.features.get("beside", 0))
        return self.symbols["written"]


@dataclass(frozen=True)
class Numbers:
    """What a decoder writes, where that is no id but a vector of numbers at each step."""

    written: int
    beside: int = 0
    """Numbers that it is told of each step before it answers: what is known of the future."""


# The roles --------------------------------------------------------------------------------------------------


class Part(nn.Module, ABC):
    """Anything a model is built from."""

    @abstractmethod
    def costs(self, length: int) -> list[Cost]:
        """One entry a layer, for a sequence of `length` positions. Their parameters add up to the real
        count."""

    def length_after(self, length: int) -> int:
        """How many positions come out when `length` go in."""
        return length


class Input(Part):
    """Turns a batch into a Seq of vectors (B T width)."""

    width: int

    @abstractmethod
    def forward(self, batch: Batch) -> Seq: ...

    @abstractmethod
    def imagined(self, rows: int, length: int) -> dict[str, Seq | Nested]:
        """What so many rows of `length` positions would look like, by field, every position real: to measure
        with, and to say what shape is read."""


class Encoder(Part):
    """Turns a Seq of vectors (B T width_in) into a Seq of vectors (B T' width)."""

    width: int
    causal: bool = False
    """True when position t depends on positions up to t alone."""
    keeps_length: bool = True

    @abstractmethod
    def forward(self, x: Seq) -> Seq: ...

    def begin(self, rows: int, memory: Seq | None = None) -> State:
        """Before the first position. Causal encoders have this; `memory` is for those that look at one
        themselves."""
        raise NotImplementedError(f"{type(self).__name__} is not causal")

    def extend(self, values: Float[Tensor, "B U D"], state: State) -> tuple[Float[Tensor, "B U E"], State]:
        """The next positions: what `forward` gives at them, from the state that the positions before them
        left."""
        raise NotImplementedError(f"{type(self).__name__} is not causal")


class Pool(Part):
    """Turns the states of a row into one vector."""

    width: int

    @abstractmethod
    def forward(self, x: Seq) -> Pooled: ...


class Head(Part):
    """Turns states (N D) into a Reply, which decides what is said and how likely it is. The model pools, or
    selects the positions with a target, first."""

    @abstractmethod
    def forward(self, states: Float[Tensor, "N D"]) -> Reply: ...


class Decoder(Part):
    """Writes a sequence of its own, step by step, while it reads a memory: T slots, one slot, or none (a
    language model).

    Teacher forcing is `advance` over all positions, decoding is `advance` by one, a prompt is `advance` by
    many. What comes next is said by `answer(states)`. Where ids are written, the first one it is fed is
    [BOS].
    """

    @property
    @abstractmethod
    def answer(self) -> Head:
        """States (N E) to what comes next: a score for each id of a vocabulary, or numbers."""

    @abstractmethod
    def start(self, memory: Seq | None, rows: int) -> State:
        """Before the first id. `rows` matters where there is no memory to count them by."""

    @abstractmethod
    def advance(self, fed: Tensor, state: State) -> tuple[Float[Tensor, "B U E"], State]:
        """Feed what comes next, ids (B U) or values (B U F); the states after each, and where it then
        stands."""


class Objective(ABC):
    """One term of the loss, about the answer of the model that it `reads`. Its count comes from the batch
    alone."""

    name: ClassVar[str]
    reads: str
    numbers: ClassVar[bool] = False
    """Whether what is meant are real numbers, not ids or classes."""
    compares: ClassVar[bool] = False
    """Whether the rows of a batch are compared with one another, so that workers can't share them out."""

    @abstractmethod
    def __call__(self, output: Output, batch: Batch) -> Term: ...

    def count(self, batch: Batch) -> int:
        """How many examples a batch has for this term: its rows, unless told otherwise."""
        return batch.size


# Their settings ---------------------------------------------------------------------------------------------


class InputConfig(Variant):
    """Settings of an input."""

    reads: ClassVar[str] = "tokens"
    """What an example has to be: tokens, sentences, characters or grams (see data/readings.py), or values."""

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
    def build(self, width_in: int) -> Pool: ...


class HeadConfig(Variant):
    """Settings of a head."""

    @abstractmethod
    def build(self, width_in: int, outputs: int) -> Head: ...

    def build_with(self, width_in: int, outputs: int, facts: Facts) -> Head:
        """The same, for heads that need to know more of the data."""
        return self.build(width_in, outputs)


class DecoderConfig(Variant):
    """Settings of a decoder."""

    @abstractmethod
    def build(self, memory: int | None, written: int | Numbers) -> Decoder:
        """`memory` is the width of what it reads; None: there is nothing to read. `written` is how many ids
        it can write, or what numbers."""


# Looking inside ---------------------------------------------------------------------------------------------


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

"""The decoder that is a causal encoder and a vocabulary: language models of every kind, and the Transformer
decoder."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from seqlab.config import Positive, Probability
from seqlab.encoders.transformer import Transformer
from seqlab.errors import UserError
from seqlab.nn.layers import Dropout, start_linear
from seqlab.outputs.gaussian import GaussianHead
from seqlab.outputs.heads import Linear
from seqlab.outputs.vocabulary import Symbols
from seqlab.parts import Cost, Decoder, DecoderConfig, EncoderConfig, Head, Numbers, State
from seqlab.seq import Seq


@dataclass(frozen=True, kw_only=True)
class WrittenConfig(DecoderConfig):
    """What all decoders have in common: how they read what they have written, and how they answer."""

    width: Positive = 128
    """Width of the vectors of what has been written."""
    tied: bool = True
    """The vocabulary's matrix is that of the vectors, so that a symbol is said as it is read."""
    bias: bool = False
    """A bias for each symbol of the vocabulary."""
    dropout: Probability = 0.0
    """Probability of dropping a feature of such a vector while training."""
    output_dropout: Probability = 0.0
    """Probability of dropping a feature of what the vocabulary reads while training."""
    variance: Literal["unit", "learned"] = "unit"
    """Where numbers are written: whether each has a variance that is learned, too, or a variance of 1."""


@dataclass(frozen=True, kw_only=True)
class Causal(WrittenConfig, kind="causal"):
    """A causal encoder over what has been written. A Transformer also attends to the memory, in every
    layer."""

    body: EncoderConfig = field(default_factory=Transformer)
    """The encoder: transformer, lstm, gru, rnn, conv or a stack of them. It reads from left to right,
    whatever it says."""

    def build(self, memory: int | None, written: int | Numbers) -> CausalDecoder:
        return CausalDecoder(self, memory, written)


class WritingDecoder(Decoder):
    """What decoders have in common: the vectors of what has been written, and how they answer.

    Ids have a vector each, and a vocabulary, which may be theirs, answers. Numbers go through a linear layer,
    and normal distributions answer.
    """

    embedding: nn.Embedding | nn.Linear

    def __init__(self, config: WrittenConfig, written: int | Numbers) -> None:
        super().__init__()
        self.config, self.written = config, written
        if isinstance(written, Numbers):
            self.embedding = nn.Linear(written.written + written.beside, config.width)
            start_linear(self.embedding)
        else:
            self.embedding = nn.Embedding(written, config.width)
            nn.init.normal_(self.embedding.weight, std=config.width**-0.5)
        self.dropout = Dropout(config.dropout)
        self.output_dropout = Dropout(config.output_dropout)

    def answer_from(self, width: int) -> None:
        """Build what answers from states of this width."""
        config = self.config
        assert isinstance(config, WrittenConfig)
        if isinstance(self.written, Numbers):
            self.numbers = GaussianHead(Linear(), width, self.written.written, config.variance == "learned")
            return
        symbols = self.written
        self.vocabulary = Symbols(config.width if config.tied else width, symbols, bias=config.bias)
        if config.tied:
            self.vocabulary.weight = self.embedding.weight
        else:
            nn.init.normal_(self.vocabulary.weight, std=width**-0.5)
        if config.bias:
            nn.init.zeros_(self.vocabulary.bias)

    @property
    def tied(self) -> bool:
        """Whether a symbol is said as it is read."""
        return self.config.tied and not isinstance(self.written, Numbers)

    @property
    def table(self) -> nn.Embedding | None:
        """The vectors of ids."""
        return self.embedding if isinstance(self.embedding, nn.Embedding) else None

    @property
    def answer(self) -> Head:
        return self.numbers if isinstance(self.written, Numbers) else self.vocabulary

    def answer_costs(self, length: int) -> list[Cost]:
        """Of reading what has been written, and of answering."""
        if isinstance(self.embedding, nn.Linear):
            read = linear_cost("embedding", self.embedding, length)
            said = self.numbers.costs(length)
            return [read, *(cost.below("numbers") for cost in said)]
        config, symbols = self.config, self.embedding.num_embeddings
        width, reads = config.width, self.vocabulary.in_features
        own = 0 if config.tied else symbols * reads
        formula = ("the embedding's" if config.tied else "V·d") + (" + V" if config.bias else "")
        return [
            Cost(name="embedding", parameters=symbols * width, parameters_formula="V·d", memory=length),
            Cost(
                name="vocabulary",
                parameters=own + config.bias * symbols,
                parameters_formula=formula,
                work=length * reads * symbols,
                work_formula="n·d·V",
                memory=length * reads,
            ),
        ]


class CausalDecoder(WritingDecoder):
    """Ids (B U), or numbers (B U F), to states (B U E): embedding → body → vocabulary, or normal
    distributions.

    Without a memory it is a language model, and its `body` is an ordinary causal encoder (SPEC T4). With one,
    the body is a Transformer whose layers attend to the memory (Vaswani et al. 2017). A body of another width
    than the vectors is brought to theirs by a linear layer where the vocabulary is tied.
    """

    def __init__(self, config: Causal, memory: int | None, written: int | Numbers) -> None:
        super().__init__(config, written)
        body = config.body.as_causal()
        if isinstance(body, Transformer):
            self.body = body.build_over(config.width, memory)
        elif memory is None:
            self.body = body.build(config.width)  # type: ignore[assignment]
        else:
            raise UserError(
                what=(
                    f'model.decoder.kind is "causal" and its body is "{body.kind}", but there is something to'
                    " read."
                ),
                why="Only a Transformer body looks at what the encoder has read by itself.",
                fix="Set model.decoder.kind=attending, or model.decoder.body.kind=transformer.",
            )
        between = self.tied and self.body.width != config.width
        self.project = nn.Linear(self.body.width, config.width) if between else nn.Identity()
        if isinstance(self.project, nn.Linear):
            start_linear(self.project)
        self.answer_from(self.body.width)

    def start(self, memory: Seq | None, rows: int) -> State:
        return self.body.begin(rows if memory is None else memory.rows, memory)

    def advance(self, fed: Tensor, state: State) -> tuple[Float[Tensor, "B U E"], State]:
        states, state = self.body.extend(self.dropout(self.embedding(fed)), state)
        return self.output_dropout(self.project(states)), state

    def costs(self, length: int) -> list[Cost]:
        embedding, *answer = self.answer_costs(length)
        costs = [embedding, *(cost.below("body") for cost in self.body.costs(length))]
        if isinstance(self.project, nn.Linear):
            costs.append(linear_cost("project", self.project, length))
        return [*costs, *answer]


def linear_cost(name: str, layer: nn.Linear, length: int) -> Cost:
    """Of one linear layer at every position."""
    bias = layer.bias is not None
    return Cost(
        name=name,
        parameters=layer.in_features * layer.out_features + bias * layer.out_features,
        parameters_formula="d·d'" + (" + d'" if bias else ""),
        work=length * layer.in_features * layer.out_features,
        work_formula="n·d·d'",
        memory=length * layer.in_features,
    )


def summary_of(memory: Seq) -> Float[Tensor, "B M"]:
    """One vector for a memory: its last state where it has one, else the mean of its slots."""
    if memory.summary is not None:
        return memory.summary
    return memory.zeroed.sum(dim=1) / memory.lengths.unsqueeze(1).to(memory.values.dtype)


def side_by_side(parts: list[Tensor]) -> Tensor:
    """Features side by side."""
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)

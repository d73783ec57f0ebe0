"""The task `generate`: a language model, which predicts the next character, word or subword of a text, and so
can write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from seqlab import rules
from seqlab.answers.answer import Answer, Known
from seqlab.answers.continuation import ContinuationAnswer
from seqlab.baselines.baseline import Baseline
from seqlab.baselines.grams import TextGrams
from seqlab.config import Positive, Probability, Tree, dump
from seqlab.data.numbers import SeriesTable
from seqlab.data.read import DataConfig, Table
from seqlab.encoders import Transformer
from seqlab.encoders.recurrent import RecurrentConfig
from seqlab.errors import UserError
from seqlab.fields.field import Field, GivenField
from seqlab.fields.label import GivenLabelField
from seqlab.fields.running import Flow, WrittenRunningField, flow_of
from seqlab.fields.vector import VectorField
from seqlab.model import ModelConfig
from seqlab.objectives import CrossEntropy
from seqlab.parts import Facts
from seqlab.report.words import SURPRISING, Words, WorstTable
from seqlab.tasks import generate_presets
from seqlab.tasks.task import TaskConfig, TrainedRun, Weighted

BY = {"characters": "character by character", "words": "word by word"}
"""How a language model writes, by the kind of its tokens; of other kinds, piece by piece."""


@dataclass(frozen=True, kw_only=True)
class Generate(TaskConfig, kind="generate"):
    """A language model of characters, words or subwords."""

    flow: Flow | None = None
    """text: all files are one running text, line ends included. rows: each row, or line, is a text of its
    own, with a beginning and an end. Empty: text for .txt files, rows for tables."""
    given: Literal["label", "vector"] | None = None
    """What each text is written for: label, the column of that name; or vector, numbers in columns or in a
    list. Then every row is a text of its own."""
    context: Positive = 256
    """Ids that are seen at once in training: the length of a block or, with `carry`, of a step through the
    text."""
    carry: bool | None = None
    """Read the text in order and take the state along from step to step. Empty: yes where the model is
    recurrent."""
    stride: Positive | None = None
    """How far the window moves when a text longer than the context is scored; empty: half the context."""
    smoothing: Probability = 0.0
    """Share of the target probability that is spread over the whole vocabulary."""
    sampled: Positive | None = None
    """Symbols that the loss compares each next one with while training, an estimate for vocabularies of tens
    of thousands;
    empty: all of them."""

    example: ClassVar[str] = "the"
    data_example: ClassVar[str] = "book.txt"
    default: ClassVar[str] = "lstm"
    published: ClassVar = generate_presets.PUBLISHED_GPT
    passes: ClassVar = (
        (2_000, 40),
        (10_000, 25),
        (50_000, 15),
        (200_000, 8),
        (1_000_000, 3),
        (rules.ENDLESS, 1),
    )
    presets = staticmethod(generate_presets.presets)
    readable: ClassVar = ("text", "label", "vector")
    choice: ClassVar[str] = "given"

    def __post_init__(self) -> None:
        if self.stride is not None and self.stride > self.context:
            raise ValueError(
                f"stride: {self.stride} is more than context: {self.context}; ids in between would not be"
                " scored."
            )

    def fields(self, data: DataConfig, learnt: Mapping[str, Any] | None = None) -> list[Field]:
        flow = flow_of(self.flow, data, learnt)
        if self.given is None:
            return [WrittenRunningField(flow, self.context)]
        beside, table = {"label": (GivenLabelField, Table), "vector": (VectorField, SeriesTable)}[self.given]
        return [WrittenRunningField(flow, self.context, table), beside()]

    def refuse(self, data: DataConfig) -> None:
        super().refuse(data)
        if self.given is not None and flow_of(self.flow, data) == "text":
            raise UserError(
                what=f"task.given is {self.given}, but {data.train[0]} is one running text.",
                why=f"Each text has a {self.given} of its own: a row of a table holds both.",
                fix=f"Give a table: text,{'label' if self.given == 'label' else 'x1,x2,...'}",
            )

    def answer(self, known: Known) -> Answer:
        text, *beside = known.fields
        assert isinstance(text, WrittenRunningField)
        given = next((field for field in beside if isinstance(field, GivenField)), None)
        carries = self.carries(known.model)
        return ContinuationAnswer(known, text, self.context, self.stride, carries, self.sampled, given)

    def carries(self, model: ModelConfig) -> bool:
        if self.given is not None:
            return False
        return isinstance(model.body, RecurrentConfig) if self.carry is None else self.carry

    def baselines(self) -> Sequence[type[Baseline]]:
        return (TextGrams,)

    def imagined(self, symbols: int, outputs: int) -> Facts:
        return Facts(symbols={"written": symbols, "label": outputs}, features={"values": 2})

    def objectives(self, model: ModelConfig) -> Weighted:
        if self.given is not None:
            self._refuse_unread(self.given, model)
        elif model.decoder is None or model.input is not None:
            raise UserError(
                what=(
                    "model.decoder is empty."
                    if model.input is None
                    else f'model.input is of kind "{model.input.kind}".'
                ),
                why=(
                    "A language model is a decoder alone: it goes on with what it has written, and reads"
                    " nothing else."
                ),
                fix=(
                    "Choose --model lstm; or set model.decoder.kind=causal, and leave input, encoder, pool"
                    " and head empty."
                ),
            )
        if self.carry and isinstance(model.body, Transformer):
            raise UserError(
                what='task.carry is true, but model.decoder.body.kind is "transformer".',
                why="What a Transformer would carry along grows with every id.",
                fix="Set task.carry=false, or model.decoder.body.kind=lstm.",
            )
        limit = model.learned_positions
        if limit is not None and self.context > limit:
            raise UserError(
                what=f"task.context is {self.context}, but the model learns {limit} positions.",
                why="Every id of a block has a position of its own.",
                fix=f"Set model.decoder.body.positions.length={self.context}, or task.context={limit}.",
            )
        return [(1.0, CrossEntropy("written", self.smoothing, self.sampled))]

    @staticmethod
    def _refuse_unread(given: str, model: ModelConfig) -> None:
        wanted = {"label": "label", "vector": "vectors"}[given]
        found = None if model.input is None else model.input.kind
        if model.decoder is None or found != wanted:
            raise UserError(
                what=f"task.given is {given}, but model.input is {found or 'empty'}."
                if model.decoder
                else "model.decoder is empty.",
                why=f"The {given} is one slot for a decoder to look at; an input of kind {wanted} reads it.",
                fix=f"Choose --model lstm; or set model.input.kind={wanted} and model.encoder.kind=none.",
            )

    @classmethod
    def adopt(cls, source: TrainedRun, parts: str) -> Tree:
        if not source.writes or source.reads:
            raise UserError(
                what=f"{source.folder} can't write by itself.",
                why=(
                    "It fills in or repairs a text that it reads; a language model only knows what came"
                    " before."
                ),
                fix="Pretrain one that can: seqlab train pretrain texts.txt --model gpt",
            )
        tree = {"input": None, "encoder": None, "pool": None, "head": None, "places": None}
        seen = source.settings.task.seen
        context = {} if seen is None else {"context": seen}
        return {"model": tree | {"decoder": dump(source.model.decoder)}, "task": context}

    def words(self, answer: Answer) -> Words:
        by = BY.get(answer.known.data.tokens.kind, "piece by piece")
        given = f" {answer.ask}" if self.given else ""
        named = f', given="{answer.ask.removeprefix("--given ")}"' if self.given else ""
        return Words(
            purpose=f"writes a text for a {self.given}, {by}" if self.given else f"continues a text, {by}",
            counted="characters",
            scored="lines",
            worst=WorstTable("What surprised it most", ("line", "bits per character"), SURPRISING, digits=2),
            shell=(
                f'seqlab predict . "how it begins"{given}',
                f'seqlab predict . "how it begins"{given} decode.temperature=0.5 decode.seed=1',
                f"seqlab evaluate . more.{'csv' if given else 'txt'}",
            ),
            python=(
                f'run.predict(["how it begins"]{named})[0].text',
                f'run.score_texts(["a text of yours"]{named})    # log p of each',
            ),
            limits=(
                "What it writes is likely, not true: it knows how texts go on, not what is the case.",
                "It can repeat passages of its training text word for word.",
            ),
        )

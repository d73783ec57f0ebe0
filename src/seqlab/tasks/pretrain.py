"""The task `pretrain`: a model learns from text alone, to be put under another task later (or to be asked itself)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from torch import nn

from seqlab import __version__
from seqlab.config import NotNegative, Positive, PositiveFloat, Share, dump
from seqlab.data.batches import Plan
from seqlab.data.corrupt import Noise
from seqlab.data.documents import documents, encode_documents
from seqlab.data.read import DataConfig, Table
from seqlab.data.store import Ragged, Store, StoreWriter, cache_folder, cached_store, fingerprint
from seqlab.data.text import SEP, Tokenizer
from seqlab.encoders import BothWays
from seqlab.errors import UserError
from seqlab.folder import TOKENIZER
from seqlab.metrics import Metric
from seqlab.model import Model, ModelConfig
from seqlab.objectives import CrossEntropy, Halves
from seqlab.outputs import Vocabulary
from seqlab.parts import Batch, Facts
from seqlab.tasks.exercises import (
    Blanks,
    Continue,
    Everywhere,
    Exercise,
    Noises,
    PairedBlanks,
    Pieces,
    Repair,
)
from seqlab.tasks.ngrams import NGrams
from seqlab.tasks.rules import ENDLESS
from seqlab.tasks.tally import foreseen, scored, sentence_units
from seqlab.tasks.task import (
    NO_CHANCE,
    Chance,
    Checked,
    Prepared,
    TaskConfig,
    TaskFacts,
    Weighted,
    chunks,
    facts_of,
    good_rows,
    kept_or_learnt,
    splits,
)
from seqlab.tasks.text_files import Flow, TextFiles, load_tokenizer
from seqlab.text_metrics import (
    BitsPerCharacter,
    HiddenAccuracy,
    HiddenLoss,
    NextAccuracy,
    PerplexityPerWord,
    PiecePerplexity,
    PseudoBitsPerCharacter,
    PseudoPerplexityPerWord,
    PseudoPiecePerplexity,
    WrittenAccuracy,
    WrittenLoss,
    units_of,
)

Objective = Literal["causal", "masked", "masked+next", "blank", "both-ways", "denoise"]
EXERCISES: dict[str, type[Exercise]] = {
    "causal": Continue, "masked": Blanks, "masked+next": PairedBlanks, "blank": Everywhere, "both-ways": Everywhere,
    "denoise": Repair,
}
EVERYWHERE = ("causal", "blank", "both-ways")
"""Objectives in which every piece of a text is foreseen, so that whole texts have a probability, or something like one."""
CHUNK = 1024
"""Documents that are tokenized together."""
CHECKED = 65_536
"""Ids of the validation text that are scored while training and for the report; `seqlab evaluate` scores a whole text."""
GRAMS = 3
"""How long the n-grams of the baseline are."""


@dataclass(frozen=True, kw_only=True)
class Pretrain(TaskConfig, kind="pretrain"):
    """Learning from text without labels."""

    objective: Objective = "masked"
    """What is learnt: causal (what comes next), masked (BERT's blanks), masked+next (and whether two segments follow each
    other), blank (each word from all around it), both-ways (from each side apart, as ELMo), denoise (repair, as BART)."""
    flow: Flow | None = None
    """text: all files are one running text, in which a blank line ends a document. rows: each row, or line, is a document.
    Empty: text for .txt files, rows for tables."""
    context: Positive = 128
    """Ids that are seen at once, marks included."""
    masking: Share = 0.15
    """Share of the pieces that are hidden: of masked, what has to be found; of denoise, what noise takes away."""
    whole_words: bool = False
    """Mask all pieces of a word, or none."""
    next_weight: NotNegative = 1.0
    """Weight of the question whether two segments follow each other."""
    halves_weight: NotNegative = 0.0
    """Weight of the question which second half of a text belongs to which first half, among those of the batch: from it words
    learn the company of whole texts. For masked, blank and both-ways."""
    noises: tuple[Noise, ...] = ("infill", "permute")
    """What spoils a text for denoise: infill (spans become one mask), mask (single pieces), delete, permute (sentences)."""
    span: PositiveFloat = 3.0
    """Mean length of the spans of infill."""
    sampled: Positive | None = None
    """Pieces that the loss compares each answer with while training, an estimate; empty: all of the vocabulary."""

    example: ClassVar[str] = "the [MASK] was"
    """Of a causal run, a beginning instead (`PretrainRun.example`)."""
    passes: ClassVar = ((2_000, 40), (10_000, 20), (100_000, 10), (1_000_000, 4), (ENDLESS, 1))
    data_example: ClassVar[str] = "texts.txt"
    stretch: ClassVar[float] = 8.0    # rows may be sentences or books, so their number says little

    def __post_init__(self) -> None:
        if self.context < 8:
            raise ValueError(f"context: {self.context} is too short; give at least 8.")
        if self.halves_weight and self.objective not in ("masked", "blank", "both-ways"):
            raise ValueError(f"halves_weight: {self.objective} does not ask which halves belong together; set it to 0.")
        if self.objective == "denoise" and not self.noises:
            raise ValueError("noises is empty; denoise needs at least one, for instance noises: [infill].")

    def look(self, data: DataConfig, keep_all_faults: bool = False) -> PretrainFiles:
        return PretrainFiles(self, data, self.flow, keep_all_faults)

    def facts(self, tree: dict[str, Any]) -> PretrainFacts:
        return facts_of(PretrainFacts, tree)

    def imagined(self, symbols: int, outputs: int) -> Facts:
        return self.parts(symbols)

    def parts(self, symbols: int) -> Facts:
        """What the parts of a model need to know when there are so many symbols."""
        both = self.objective == "masked+next"
        outputs = {"places": symbols} | ({"row": 2} if both else {})
        return Facts(symbols={"text": symbols, "written": symbols}, outputs=outputs, segments=2 if both else 1, joint=True)

    def exercise(self, text: Ragged, pieces: Pieces) -> Exercise:
        noises = Noises(self.masking, self.whole_words, self.noises, self.span)
        return EXERCISES[self.objective](text, pieces, self.context, noises)

    def objectives(self, model: ModelConfig) -> Weighted:
        wanted = {
            "causal": "a decoder alone (--model gpt)", "denoise": "an input, an encoder and a decoder (--model bart)",
            "masked+next": "places, a pool and a head (--model bert)", "masked": "places (--model roberta)",
            "blank": "places over an encoder of kind both-ways (--model blank-bilstm)",
            "both-ways": "places over an encoder of kind both-ways (--model elmo)",
        }[self.objective]
        writes, fills = model.decoder is not None, model.places is not None
        fits = {
            "causal": writes and model.input is None, "denoise": writes and model.input is not None,
            "masked+next": fills and model.head is not None,
        }.get(self.objective, fills and model.head is None)
        if not fits:
            raise UserError(
                what=f'task.objective is "{self.objective}", which this model can\'t learn.',
                why=f"It needs {wanted}.",
                fix="Choose that --model, or another task.objective.",
            )
        if self.objective in ("blank", "both-ways"):
            self._refuse_seeing(model)
        if writes:
            return [(1.0, CrossEntropy("written", sampled=self.sampled))]
        more: Weighted = [(self.next_weight, CrossEntropy())] if self.objective == "masked+next" else []
        if self.halves_weight:
            more.append((self.halves_weight, Halves(SEP)))
        return [(1.0, CrossEntropy("places", sampled=self.sampled)), *more]

    def _refuse_seeing(self, model: ModelConfig) -> None:
        """A model that sees the word it has to find learns nothing."""
        encoder, places = model.encoder, model.places
        if not (isinstance(encoder, BothWays) and encoder.hides):
            raise UserError(
                what=f'task.objective is "{self.objective}", but model.encoder shows each position its own word.',
                why="A model that is shown the answer learns to copy it.",
                fix="Set model.encoder.kind=both-ways and model.encoder.hides=true; or task.objective=masked.",
            )
        if isinstance(places, Vocabulary) and places.halves != (self.objective == "both-ways"):
            raise UserError(
                what=f'task.objective is "{self.objective}", but model.places.halves is {str(places.halves).lower()}.',
                why="both-ways: each direction answers by itself. blank: they answer together.",
                fix=f"Set model.places.halves={'true' if self.objective == 'both-ways' else 'false'}.",
            )

    @property
    def metrics(self) -> list[Metric]:
        """What is scored, the deciding metric first."""
        if self.objective == "causal":
            return [PiecePerplexity(), BitsPerCharacter(), PerplexityPerWord()]
        if self.objective in EVERYWHERE:
            return [PseudoPiecePerplexity(), PseudoBitsPerCharacter(), PseudoPerplexityPerWord()]
        if self.objective == "denoise":
            return [WrittenLoss(), WrittenAccuracy()]
        return [HiddenLoss(), HiddenAccuracy(), *([NextAccuracy()] if self.objective == "masked+next" else [])]


@dataclass(frozen=True, kw_only=True)
class PretrainFacts(TaskFacts):
    """What the training data decided; saved as facts.json."""

    task: ClassVar[str] = "pretrain"
    objective: Objective
    flow: Flow
    ids: dict[str, int] = field(default_factory=dict)
    """By split: pieces of text, marks between documents included."""
    characters: dict[str, int] = field(default_factory=dict)

    @property
    def parts(self) -> Facts:
        return Pretrain(objective=self.objective).parts(self.symbols["text"])

    @property
    def amount(self) -> str:
        return f"{self.characters['train']:,} characters ({self.ids['train']:,} pieces) to learn from"


# From files to stores --------------------------------------------------------------------------------------------


class PretrainFiles(TextFiles):
    """The files of a run, looked at once."""

    task: Pretrain
    cuts = False

    def prepare(self, data: DataConfig, model: ModelConfig) -> PretrainPrepared:
        files = [path for table in self.tables.values() for source in table.sources for path in source.paths]
        told = dump(data) | {split: len(table.sources) for split, table in self.tables.items()}    # names may change
        mark = fingerprint(files, {"version": __version__, "task": "pretrain", "data": told, "flow": self.flow})
        tokenizer = kept_or_learnt(
            cache_folder().parent / "readings" / mark, load_tokenizer, lambda folder: self.train_tokenizer(data.tokens, folder)
        )
        running = self.flow == "text"
        stores = {
            split: cached_store(f"{mark}-{split}", partial(_write, table=table, chosen=chosen, how=tokenizer, running=running))
            for split, table, chosen in splits(self.tables, self.survey.held)
        }
        facts = PretrainFacts(
            columns=dict(self.tables["train"].found), symbols={"text": tokenizer.size}, fingerprint=mark, warnings=self.warnings,
            objective=self.task.objective, flow=self.flow, words=float(self.task.context),
            rows={split: store.rows for split, store in stores.items()},
            ids={split: len(store.fields["text"].values) for split, store in stores.items()},
            characters={split: store.notes["characters"] for split, store in stores.items()},
        )
        for split, count in facts.ids.items():
            if count < self.task.context:
                raise UserError(
                    what=f"{split}: the text has {count:,} pieces, but task.context is {self.task.context}.",
                    why="At least one stretch of that length is needed.",
                    fix=f"Give more text, or set task.context={max(8, count // 4)}.",
                )
        return PretrainPrepared(self.task, facts, tokenizer, stores)


def _write(writer: StoreWriter, table: Table, chosen: np.ndarray | None, how: Tokenizer, running: bool) -> None:
    writer.notes["characters"] = 0
    texts = documents((row.cells["text"] for row in good_rows(table, chosen)), running)
    for some in chunks(texts, CHUNK):
        rows, sentences = encode_documents(how, some)
        units = units_of(sentences)
        writer.append({"text": rows}, {"characters": units[:, 0], "words": units[:, 1]})
        writer.notes["characters"] += int(units[:, 0].sum())


# Learning --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PretrainPrepared(Prepared):
    """Data made ready: what it decided, how text is cut, and the stores by split."""

    task: Pretrain
    facts: PretrainFacts
    tokenizer: Tokenizer
    stores: dict[str, Store]

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder / TOKENIZER)

    @cached_property
    def pieces(self) -> Pieces:
        return Pieces.of(self.tokenizer)

    @cached_property
    def training(self) -> Exercise:
        return self.task.exercise(self.stores["train"].fields["text"], self.pieces)

    def plan(self, batch_tokens: int, seed: int) -> Plan:
        return self.training.plan(batch_tokens, seed)

    def load(self, rows: np.ndarray, chance: Chance = NO_CHANCE) -> Batch:
        return self.training.batch(rows, chance)

    def checked(self, split: str) -> tuple[Exercise, np.ndarray, np.ndarray]:
        """The exercise on a split, where its sentences begin, and their characters and words (N 2)."""
        store = self.stores[split]
        return self.task.exercise(store.fields["text"], self.pieces), store.fields["text"].offsets, sentence_units(store)

    def validate(self, model: nn.Module, device: str) -> Checked:
        assert isinstance(model, Model)
        exercise, offsets, units = self.checked("valid")
        tally = scored(model, exercise, CHECKED)
        said, meant = tally.for_metrics(offsets, units)
        scores = {f"valid_{metric.name}": metric(said, meant) for metric in self.task.metrics}
        return Checked(-tally.loss, tally.loss, scores | {"valid_loss": tally.loss})

    def learn_baseline(self, folder: Path) -> str:
        ngrams = NGrams.train(self.stores["train"].fields["text"].values, self.facts.symbols["text"], GRAMS)
        ngrams.save(folder)
        exercise, offsets, units = self.checked("valid")
        metric = self.task.metrics[0]
        value = metric(*foreseen(ngrams, exercise, CHECKED).for_metrics(offsets, units))
        return f"Baseline {ngrams.order}-gram: valid {metric.title} {value:.4g}"


# Other texts ------------------------------------------------------------------------------------------------------


def encode_texts(tokenizer: Tokenizer, texts: Sequence[str]) -> tuple[Ragged, np.ndarray]:
    """Documents that are at hand, nested; and the characters and words of their sentences (N 2)."""
    rows, sentences = encode_documents(tokenizer, list(texts))
    return rows, units_of(sentences)


def read_documents(table: Table, running: bool) -> Iterator[str]:
    """The documents of a file."""
    yield from documents((row.cells["text"] for row in table.rows()), running)

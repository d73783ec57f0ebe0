"""The task `generate`: a language model, which foresees the next character, word or subword of a text, and so can write."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import nn

from seqlab import __version__
from seqlab.config import Positive, Probability, dump
from seqlab.data.batches import Plan
from seqlab.data.read import DataConfig, Table
from seqlab.data.store import (
    Ragged,
    Store,
    StoreWriter,
    cache_folder,
    cached_store,
    fingerprint,
    marked,
    offsets_of,
    pad,
    ranges,
)
from seqlab.data.stream import FOLLOWS, START, Blocks, Streams, encode_pieces, keeps_lines, opening_of, stretches
from seqlab.data.text import BOS, EOS, UNK, Characters, Tokenizer, TokensConfig, Words
from seqlab.decode import DecodeConfig
from seqlab.encoders.recurrent import RecurrentConfig
from seqlab.encoders.transformer import Transformer
from seqlab.errors import UserError
from seqlab.folder import TOKENIZER
from seqlab.likelihood import decoder_of, grows, row_nats, stream_nats, sums
from seqlab.metrics import Metric
from seqlab.model import Model, ModelConfig
from seqlab.nn.positions import Learned
from seqlab.objectives import CrossEntropy
from seqlab.parts import Batch, EncoderConfig, Facts
from seqlab.seq import Seq
from seqlab.tasks.continuing import Pen
from seqlab.tasks.ngrams import NGrams
from seqlab.tasks.rules import ENDLESS
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
    raw_text,
    splits,
)
from seqlab.tasks.text_files import Flow, TextFiles, load_tokenizer
from seqlab.text_metrics import BitsPerCharacter, PerplexityPerWord, PerplexityPerWordOrEnd, units_of

Unit = Literal["character", "word", "subword"]
CHUNK = 4096
"""Lines that are tokenized together."""
CHECKED = 131_072
"""Ids of the validation text that are scored while training and for the report; `seqlab evaluate` scores a whole text."""
SAMPLED = {"character": 80, "word": 20, "subword": 25}
"""Ids of the sample that is shown at a validation."""
ORDERS = {"character": 6, "word": 3, "subword": 3}
"""How long the n-grams of the baseline are."""


@dataclass(frozen=True, kw_only=True)
class Generate(TaskConfig, kind="generate"):
    """A language model of characters, words or subwords."""

    flow: Flow | None = None
    """text: all files are one running text, line ends included. rows: each row, or line, is a text of its own, with a
    beginning and an end. Empty: text for .txt files, rows for tables."""
    context: Positive = 256
    """Ids that are seen at once in training: the length of a block or, with `carry`, of a step through the text."""
    carry: bool | None = None
    """Read the text in order and take the state along from step to step. Empty: yes where the model is recurrent."""
    stride: Positive | None = None
    """How far the window moves when a text longer than the context is scored; empty: half the context."""
    smoothing: Probability = 0.0
    """Share of the target probability that is spread over the whole vocabulary."""
    sampled: Positive | None = None
    """Symbols that the loss compares each next one with while training, an estimate for vocabularies of tens of thousands;
    empty: all of them."""

    example: ClassVar[str] = "the"
    passes: ClassVar = ((2_000, 40), (10_000, 25), (50_000, 15), (200_000, 8), (1_000_000, 3), (ENDLESS, 1))
    data_example: ClassVar[str] = "book.txt"

    def __post_init__(self) -> None:
        if self.stride is not None and self.stride > self.context:
            raise ValueError(f"stride: {self.stride} is more than context: {self.context}; ids in between would not be scored.")

    def look(self, data: DataConfig, keep_all_faults: bool = False) -> GenerateFiles:
        return GenerateFiles(self, data, self.flow, keep_all_faults)

    def facts(self, tree: dict[str, Any]) -> GenerateFacts:
        return facts_of(GenerateFacts, tree)

    def imagined(self, symbols: int, outputs: int) -> Facts:
        return Facts(symbols={"written": symbols})

    def objectives(self, model: ModelConfig) -> Weighted:
        if model.decoder is None or model.input is not None:
            raise UserError(
                what="model.decoder is empty." if model.input is None else f'model.input is of kind "{model.input.kind}".',
                why="A language model is a decoder alone: it goes on with what it has written, and reads nothing else.",
                fix="Choose --model lstm; or set model.decoder.kind=causal, and leave input, encoder, pool and head empty.",
            )
        if self.carry and isinstance(body_of(model), Transformer):
            raise UserError(
                what='task.carry is true, but model.decoder.body.kind is "transformer".',
                why="What a Transformer would carry along grows with every id.",
                fix="Set task.carry=false, or model.decoder.body.kind=lstm.",
            )
        limit = learned_positions(model)
        if limit is not None and self.context > limit:
            raise UserError(
                what=f"task.context is {self.context}, but the model learns {limit} positions.",
                why="Every id of a block has a position of its own.",
                fix=f"Set model.decoder.body.positions.length={self.context}, or task.context={limit}.",
            )
        return [(1.0, CrossEntropy("written", self.smoothing, self.sampled))]

    def carries(self, model: ModelConfig) -> bool:
        return isinstance(body_of(model), RecurrentConfig) if self.carry is None else self.carry


def body_of(model: ModelConfig) -> EncoderConfig | None:
    """What reads the ids inside the decoder."""
    return getattr(model.decoder, "body", None)


def learned_positions(model: ModelConfig) -> int | None:
    """How many positions there are, where they are learned."""
    positions = getattr(body_of(model), "positions", None)
    return positions.length if isinstance(positions, Learned) else None


@dataclass(frozen=True, kw_only=True)
class GenerateFacts(TaskFacts):
    """What the training data decided; saved as facts.json."""

    task: ClassVar[str] = "generate"
    flow: Flow
    unit: Unit
    """What an id stands for."""
    line_ends: bool
    """Whether the ends of lines are among the ids, so that they can be foreseen and written."""
    spaced: bool
    """Whether spaces can be told from the ids; words that were cut at marks have lost them."""
    opening: int
    """The id that stands before the first one of a text."""
    longest: int
    """Ids of the longest row; of running text, those that are seen at once."""
    ids: dict[str, int] = field(default_factory=dict)
    """By split: ids that have to be foreseen."""
    characters: dict[str, int] = field(default_factory=dict)
    word_counts: dict[str, int] = field(default_factory=dict)
    """By split: words, as perplexity counts them."""

    @property
    def parts(self) -> Facts:
        return Facts(symbols=self.symbols)

    @property
    def amount(self) -> str:
        return f"{self.characters['train']:,} characters to learn from"

    @property
    def metrics(self) -> list[Metric]:
        """What is scored, the deciding metric first."""
        if self.unit == "word":
            if self.spaced:
                return [PerplexityPerWordOrEnd(), BitsPerCharacter()]
            return [PerplexityPerPieceOrEnd() if self.line_ends else PerplexityPerPiece()]
        return [BitsPerCharacter(), PerplexityPerWordOrEnd()]


class PerplexityPerPiece(PerplexityPerWord):
    """exp(nats / ids) of a model of words that neither sees nor writes spaces and line ends."""

    unit = "perplexity per word or mark, unknown words as one"


class PerplexityPerPieceOrEnd(PerplexityPerPiece):
    """The same where each row has an end that is foreseen, too."""

    unit = "perplexity per word, mark or end of a row, unknown words as one"


def unit_of(tokens: TokensConfig) -> Unit:
    return "character" if isinstance(tokens, Characters) else "word" if isinstance(tokens, Words) else "subword"


# From files to stores --------------------------------------------------------------------------------------------


class GenerateFiles(TextFiles):
    """The files of a run, looked at once."""

    task: Generate

    def prepare(self, data: DataConfig, model: ModelConfig) -> GeneratePrepared:
        held = self.survey.held
        files = [path for table in self.tables.values() for source in table.sources for path in source.paths]
        told = dump(data) | {split: len(table.sources) for split, table in self.tables.items()}    # names may change
        limit = learned_positions(model)
        most = data.length if limit is None else min(data.length, limit - 1)
        tree = {"version": __version__, "task": "generate", "data": told, "flow": self.flow, "most": most}
        mark = fingerprint(files, tree)
        tokenizer = kept_or_learnt(
            cache_folder().parent / "readings" / mark, load_tokenizer, lambda folder: self.train_tokenizer(data.tokens, folder)
        )
        how = Reading(tokenizer, self.flow, unit_of(data.tokens), most)
        stores = {
            split: cached_store(f"{mark}-{split}", partial(_write, table=table, chosen=chosen, how=how, keep=split != "train"))
            for split, table, chosen in splits(self.tables, held)
        }
        return GeneratePrepared(self.task, self._facts(how, stores, mark), tokenizer, stores, self.task.carries(model))

    def _facts(self, how: Reading, stores: dict[str, Store], mark: str) -> GenerateFacts:
        sizes = {split: store.fields["written"].sizes() for split, store in stores.items()}
        longest = self.task.context if self.flow == "text" else max(int(some.max()) for some in sizes.values())
        notes = {split: store.notes for split, store in stores.items()}
        return GenerateFacts(
            columns=dict(self.tables["train"].found), symbols={"written": how.tokenizer.size}, fingerprint=mark,
            rows={split: store.rows for split, store in stores.items()}, words=float(min(longest, self.task.context)),
            cut={split: note["cut"] for split, note in notes.items()}, warnings=(*self.warnings, *_told(how, notes)),
            flow=self.flow, unit=how.unit, line_ends=how.line_ends, spaced=how.spaced, opening=how.opening, longest=longest,
            ids={split: note["ids"] for split, note in notes.items()},
            characters={split: note["characters"] for split, note in notes.items()},
            word_counts={split: note["words"] for split, note in notes.items()},
        )


def _told(how: Reading, notes: dict[str, dict[str, int]]) -> Iterator[str]:
    """What a person should know about texts as numbers."""
    for split, note in notes.items():
        if note["unknown"] and split != "train":
            share = 100 * note["unknown"] / note["ids"]
            yield f"{split}: {share:.2g} % of the {how.unit}s are not in the vocabulary and count as one, [UNK]."
        if note["cut"]:
            yield f"{split}: {note['cut']:,} texts have more than {how.most} {how.unit}s (data.length) and lose their end."
        if note["ids"] > CHECKED and split != "train":
            yield f"{split}: its first {CHECKED:,} {how.unit}s are scored here; seqlab evaluate scores all {note['ids']:,}."


@dataclass(frozen=True)
class Reading:
    """How texts become ids, and how much of text there is in them."""

    tokenizer: Tokenizer
    flow: Flow
    unit: Unit
    most: int
    """Ids of a row, at most."""

    @cached_property
    def line_ends(self) -> bool:
        return self.flow == "rows" or self.spaced

    @cached_property
    def spaced(self) -> bool:
        return keeps_lines(self.tokenizer)

    @cached_property
    def opening(self) -> int:
        return BOS if self.flow == "rows" else opening_of(self.tokenizer)

    def encode(self, texts: Sequence[str]) -> tuple[Ragged, np.ndarray, int]:
        """Ids of lines of running text, or of rows with their marks; characters and words of each (N 2); how many were cut."""
        if self.flow == "text":
            rows = encode_pieces(self.tokenizer, texts)
            return rows, self._units(texts, rows.sizes()), 0
        rows = self.tokenizer.encode(texts)
        sizes = rows.sizes()
        long = np.flatnonzero(sizes > self.most)
        kept = np.minimum(sizes, self.most)
        rows = Ragged(rows.values[ranges(rows.offsets[:-1], kept)], offsets_of(kept))
        whole = list(texts)
        for row in long.tolist():
            whole[row] = self.tokenizer.decode(rows.row(row))
        return marked(rows, (BOS,), (EOS,)), self._units(whole, kept) + 1, len(long)    # the end counts as one more of each

    def _units(self, texts: Sequence[str], sizes: np.ndarray) -> np.ndarray:
        units = units_of(texts, line_ends=self.line_ends and self.flow == "text")
        if self.unit == "word" and not (self.flow == "text" and self.line_ends):
            units[:, 1] = sizes
        return units


def _write(writer: StoreWriter, table: Table, chosen: np.ndarray | None, how: Reading, keep: bool) -> None:
    notes = writer.notes
    notes |= {"ids": 0, "characters": 0, "words": 0, "unknown": 0, "cut": 0}
    for rows in chunks(good_rows(table, chosen), CHUNK):
        texts = [row.cells["text"] for row in rows]
        ids, units, cut = how.encode(texts)
        fields = {"written": ids} | ({"raw": raw_text(texts, sys.maxsize)} if keep else {})
        writer.append(fields, {"characters": units[:, 0], "words": units[:, 1]})
        marks = int((ids.values == BOS).sum()) if how.flow == "rows" else 0
        found = (len(ids.values) - marks, *units.sum(axis=0).tolist(), int((ids.values == UNK).sum()), cut)
        for name, count in zip(("ids", "characters", "words", "unknown", "cut"), found, strict=True):
            notes[name] += count


# Learning --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GeneratePrepared(Prepared):
    """Data made ready: what it decided, how text is cut, and the stores by split."""

    task: Generate
    facts: GenerateFacts
    tokenizer: Tokenizer
    stores: dict[str, Store]
    carries: bool

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder / TOKENIZER)

    def plan(self, batch_tokens: int, seed: int) -> Plan:
        written = self.stores["train"].fields["written"]
        if self.facts.flow == "rows":
            return Plan(written.sizes(), batch_tokens, seed)
        kind = Streams if self.carries else Blocks
        return kind(len(written.values), self.task.context, batch_tokens // self.task.context, seed)

    def load(self, rows: np.ndarray, chance: Chance = NO_CHANCE) -> Batch:
        written = self.stores["train"].fields["written"]
        if self.facts.flow == "rows":
            some = pad(written, rows)
            assert isinstance(some, Seq)
            return Batch({}, torch.from_numpy(rows), {"written": some})
        ids = torch.from_numpy(stretches(written.values, rows, self.facts.opening))
        whole = torch.ones(ids.shape, dtype=torch.bool)
        target = Seq(ids, whole)
        return Batch({}, torch.from_numpy(rows[:, START]), {"written": target}, follows=bool(rows[0, FOLLOWS]))

    def validate(self, model: nn.Module, device: str) -> Checked:
        assert isinstance(model, Model)
        written, units = checked_part(self.stores["valid"])
        nats = sums(all_nats(model, written, self.facts, self.task), written.offsets)
        loss = float(nats.sum() / foreseen(written, self.facts))
        scores = {f"valid_{metric.name}": metric(nats, units) for metric in self.facts.metrics}
        score = -next(iter(scores.values()))
        return Checked(score, loss, {"valid_loss": loss, **scores})

    def sample(self, model: nn.Module, how: DecodeConfig) -> str:
        """A few words out of nothing, with the same chance each time."""
        assert isinstance(model, Model)
        pen, most = pen_for(model, self.facts, self.task), SAMPLED[self.facts.unit]
        ids = pen.write([[]], how, min(most, how.longest or most))[0]
        return " ".join(self.tokenizer.decode(ids).split())

    def learn_baseline(self, folder: Path) -> str:
        facts = self.facts
        ngrams = NGrams.train(self.stores["train"].fields["written"].values, facts.symbols["written"], ORDERS[facts.unit])
        ngrams.save(folder)
        written, units = checked_part(self.stores["valid"])
        metric = facts.metrics[0]
        value = metric(sums(gram_nats(ngrams, written, facts), written.offsets), units)
        return f"Baseline {ngrams.order}-gram: valid {metric.title} {value:.4g}"


def checked_part(store: Store) -> tuple[Ragged, np.ndarray]:
    """The first lines or rows of a split, as many as are scored while training; and their characters and words (N 2)."""
    written = store.fields["written"]
    rows = max(1, int(np.searchsorted(written.offsets, CHECKED, side="right")) - 1)
    units = np.stack([store.arrays["characters"][:rows], store.arrays["words"][:rows]], axis=1).astype(np.int64)
    return Ragged(np.asarray(written.values[: written.offsets[rows]], np.int64), written.offsets[: rows + 1]), units


def all_nats(model: Model, written: Ragged, facts: GenerateFacts, task: Generate) -> np.ndarray:
    """−log p of each id, the mark of the start having none."""
    if facts.flow == "rows":
        return row_nats(model, written)
    return stream_nats(model, written.values, facts.opening, task.context, task.stride)


def gram_nats(ngrams: NGrams, written: Ragged, facts: GenerateFacts) -> np.ndarray:
    """The same by n-grams."""
    nats = ngrams.nats(written.values)
    return np.where(written.values == BOS, 0.0, nats) if facts.flow == "rows" else nats


def foreseen(written: Ragged, facts: GenerateFacts) -> int:
    """Ids that have to be foreseen: all but the marks of the start."""
    return len(written.values) - (written.rows if facts.flow == "rows" else 0)


def pen_for(model: Model, facts: GenerateFacts, task: Generate) -> Pen:
    """The model, ready to write."""
    model.eval()
    rows = facts.flow == "rows"
    window = (facts.longest if rows else task.context) if grows(decoder_of(model)) else None
    return Pen(model, facts.opening, endless=not rows, window=window)

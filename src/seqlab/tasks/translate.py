"""The task `translate`: a text for a text. From one language to another, from spelling to sound, from question to answer."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor, nn

from seqlab import __version__
from seqlab.config import Probability, dump
from seqlab.data.batches import Plan, in_order
from seqlab.data.pairs import PairSurvey, survey_pairs
from seqlab.data.read import DataConfig, Role, Table
from seqlab.data.store import Ragged, Store, StoreWriter, cache_folder, cached_store, fingerprint, marked, pad
from seqlab.data.survey import Problem, held_out
from seqlab.data.text import BOS, CLS, EOS, MASK, PAD, SEP, UNK, Characters, Tokenizer, TokensConfig, Words
from seqlab.decode import DecodeConfig, Found, Marks, by_length, decode, decode_all
from seqlab.errors import UserError
from seqlab.folder import TOKENIZER
from seqlab.inference import predicted
from seqlab.metrics import Metric
from seqlab.model import Model, ModelConfig
from seqlab.objectives import CrossEntropy
from seqlab.parts import Batch, Facts
from seqlab.seq import Seq
from seqlab.tasks import word_table
from seqlab.tasks.rules import ENDLESS
from seqlab.tasks.task import (
    NO_CHANCE,
    Chance,
    Checked,
    Files,
    Prepared,
    Size,
    TaskConfig,
    TaskFacts,
    Weighted,
    chunks,
    facts_of,
    good_rows,
    kept_or_learnt,
    raw_text,
    splits,
    texts_of,
)
from seqlab.tasks.word_table import WordTable
from seqlab.text_metrics import Bleu, Chrf, SequenceErrorRate, TokenErrorRate

SOURCE = Role(
    "source",
    ("source", "src", "text", "en", "english", "input", "question", "word", "sentence", "source_text", "src_text"),
    in_order=True,
)
TARGET = Role(
    "target",
    ("target", "tgt", "translation", "fr", "french", "de", "german", "es", "spanish", "it", "italian", "output", "answer",
     "pronunciation", "target_text", "tgt_text"),
    in_order=True,
)    # fmt: skip

WRITTEN = "tokenizer.written.json"
MARKS = Marks(start=BOS, end=EOS, banned=(PAD, UNK, SEP, CLS, MASK, BOS))
CHUNK = 4096
"""Rows that are tokenized together."""
INFERENCE_TOKENS = 8192
"""Padded tokens in a batch when nothing has to be kept for a backward pass."""
TRANSLATED = 1000
"""Validation items that are translated while training, at most; the loss is over all of them."""


@dataclass(frozen=True, kw_only=True)
class Translate(TaskConfig, kind="translate"):
    """A text for a text."""

    smoothing: Probability = 0.1
    """Share of the target probability that is spread over the whole vocabulary."""
    joint: bool | None = None
    """One vocabulary for both sides; empty: unless data.target_tokens says how the written side is cut."""
    open_ends: Probability = 0.05
    """Share of the sources, others in every epoch, that are learnt without the full stop at their end: many people type none."""
    metric: Literal["bleu", "chrf", "errors"] = "bleu"
    """What decides which weights are best. errors: wrong tokens between spaces, for targets such as sounds."""

    example: ClassVar[str] = "I am a student"
    passes: ClassVar = ((3_000, 60), (10_000, 40), (50_000, 20), (200_000, 10), (1_000_000, 4), (ENDLESS, 2))
    data_example: ClassVar[str] = "train.en,train.fr"
    stretch: ClassVar[float] = 6.0    # dropout grows with the passes

    def look(self, data: DataConfig, keep_all_faults: bool = False) -> TranslateFiles:
        self.refuse_two_cuts(data)
        return TranslateFiles(self, data, keep_all_faults)

    def facts(self, tree: dict[str, Any]) -> TranslateFacts:
        return facts_of(TranslateFacts, tree)

    def imagined(self, symbols: int, outputs: int) -> Facts:
        return Facts(symbols={"text": symbols, "written": symbols}, joint=self.joint is not False)

    def objectives(self, model: ModelConfig) -> Weighted:
        if model.decoder is None:
            raise UserError(
                what="model.decoder is empty.",
                why="translate writes a text, and what writes is a decoder; a pool and a head give one answer a row.",
                fix="Set model.decoder.kind=causal and leave model.pool and model.head empty, or choose --model transformer",
            )
        if model.input is None or model.input.reads != "tokens":
            raise UserError(
                what=f"model.input is {'empty' if model.input is None else f'of kind {model.input.kind}'}.",
                why="translate reads the pieces of a text, one after the other.",
                fix="Set model.input.kind=tokens.",
            )
        return [(1.0, CrossEntropy("written", self.smoothing))]

    def is_joint(self, data: DataConfig) -> bool:
        return data.target_tokens is None if self.joint is None else self.joint

    def refuse_two_cuts(self, data: DataConfig) -> None:
        if self.joint and data.target_tokens is not None:
            raise UserError(
                what=f'task.joint is true, but data.target_tokens.kind is "{data.target_tokens.kind}".',
                why="One vocabulary for both sides cuts both in one way.",
                fix="Leave data.target_tokens empty, or set task.joint=false.",
            )

    @property
    def metrics(self) -> list[Metric]:
        """What is scored, the deciding metric first."""
        if self.metric == "errors":
            return [TokenErrorRate(), SequenceErrorRate()]
        first: list[Metric] = [Bleu(), Chrf()]
        return [*(first if self.metric == "bleu" else reversed(first)), SequenceErrorRate()]

    def table_kinds(self, data: DataConfig) -> tuple[word_table.Kind, word_table.Kind]:
        """How the baseline cuts the two sides."""
        return _table_kind(data.tokens), _table_kind(data.target_tokens or data.tokens)


def _table_kind(tokens: TokensConfig) -> word_table.Kind:
    if isinstance(tokens, Characters):
        return "characters"
    return "symbols" if isinstance(tokens, Words) and tokens.split == "spaces" else "words"


@dataclass(frozen=True, kw_only=True)
class TranslateFacts(TaskFacts):
    """What the training data decided; saved as facts.json."""

    task: ClassVar[str] = "translate"
    joint: bool = True
    """Whether both sides have one vocabulary."""
    ratio: float = 1.0
    """Median of written pieces for each piece that is read; a search may write so much more than usual."""
    longest: dict[str, int] = field(default_factory=dict)
    """Pieces of the longest text that was trained on, by side."""
    example: str = ""
    """A source to try the model on."""

    @property
    def parts(self) -> Facts:
        return Facts(symbols=self.symbols, joint=self.joint)


# Both sides as numbers -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tongues:
    """How the side that is read and the side that is written are cut: by one tokenizer, or by two."""

    source: Tokenizer
    target: Tokenizer

    @property
    def symbols(self) -> dict[str, int]:
        return {"text": self.source.size, "written": self.target.size}

    @staticmethod
    def train(pairs: Callable[[], Iterable[tuple[str, str]]], data: DataConfig, joint: bool) -> Tongues:
        if joint:
            both = data.tokens.train(text for pair in pairs() for text in pair)
            return Tongues(both, both)
        target = data.target_tokens or data.tokens
        return Tongues(data.tokens.train(one for one, _ in pairs()), target.train(two for _, two in pairs()))

    def read(self, texts: Sequence[str]) -> Ragged:
        """Ids of sources, each with the mark of the end after it."""
        return marked(self.source.encode(texts), (), (EOS,))

    def write(self, texts: Sequence[str]) -> Ragged:
        """Ids of targets, from the mark of the start to that of the end."""
        return marked(self.target.encode(texts), (BOS,), (EOS,))

    def saved(self, folder: Path) -> Tongues:
        self.source.save(folder / TOKENIZER)
        if self.target is not self.source:
            self.target.save(folder / WRITTEN)
        return self

    @staticmethod
    def load(folder: Path, joint: bool) -> Tongues:
        source = Tokenizer.load(folder / TOKENIZER)
        return Tongues(source, source if joint else Tokenizer.load(folder / WRITTEN))


# From files to stores --------------------------------------------------------------------------------------------


class TranslateFiles(Files):
    """The files of a run, looked at once: enough to decide on sizes before anything is written."""

    def __init__(self, task: Translate, data: DataConfig, keep_all_faults: bool = False) -> None:
        self.task: Translate = task
        self.data = data
        names = {"train": data.train, "valid": data.valid, "test": data.test}
        self.tables = {split: Table(files, data, (SOURCE, TARGET)) for split, files in names.items() if files}
        self.survey: PairSurvey = survey_pairs(self.tables, keep_all_faults)
        self.characters = self.survey.train.characters

    def problems(self) -> list[Problem]:
        return self.survey.problems()

    def lines(self) -> list[str]:
        columns = ", ".join(f'{role} is column "{column}"' for role, column in self.tables["train"].found.items())
        return [*([] if self.tables["train"].sources[0].sides else [f"columns: {columns}"]), *self.survey.lines()]

    @property
    def size(self) -> Size:
        train = self.survey.train
        words = float(train.words[:, 0].mean()) if train.rows else 1.0    # of what is read
        return Size(rows=train.rows, words=words, characters=train.characters)

    def prepare(self, data: DataConfig, model: ModelConfig) -> TranslatePrepared:
        train, joint = self.survey.train, self.task.is_joint(data)
        held = held_out(train.hashes) if "valid" not in self.tables else np.zeros(train.rows, dtype=bool)
        files = [path for table in self.tables.values() for source in table.sources for path in source.paths]
        told = dump(data) | {split: len(table.sources) for split, table in self.tables.items()}    # names may change
        mark = fingerprint(files, {"version": __version__, "task": "translate", "data": told, "joint": joint})

        pairs = partial(self._pairs, ~held)
        tongues = kept_or_learnt(
            cache_folder().parent / "readings" / mark,
            lambda folder: Tongues.load(folder, joint),
            lambda folder: Tongues.train(pairs, data, joint).saved(folder),
        )
        stores: dict[str, Store] = {}
        for split, table, chosen in splits(self.tables, held):
            most = data.length if split == "train" else None
            write = partial(_write, table=table, chosen=chosen, tongues=tongues, most=most)
            stores[split] = cached_store(f"{mark}-{split}", write)
        return TranslatePrepared(self.task, data, self._facts(stores, tongues, mark, joint, data.length), tongues, stores, pairs)

    def _facts(self, stores: dict[str, Store], tongues: Tongues, mark: str, joint: bool, most: int) -> TranslateFacts:
        store = stores["train"]
        cut = {"train": store.notes["cut"]}
        if not store.rows:
            raise UserError(
                what=f"All {cut['train']:,} training pairs are longer than data.length={most}.",
                why="Pairs with more pieces on either side are not trained on, so nothing is left.",
                fix=f"Set data.length to more than {most}; the lengths are told by: seqlab check translate",
            )
        read, written = store.fields["text"].sizes() - 1, store.fields["written"].sizes() - 2    # without the marks
        more = f"{cut['train']:,} training pairs have more than {most} pieces on a side (data.length) and are not trained on."
        return TranslateFacts(
            columns=dict(self.tables["train"].found), symbols=tongues.symbols, fingerprint=mark, joint=joint, cut=cut,
            rows={split: store.rows for split, store in stores.items()}, words=self.size.words,
            warnings=(*self.warnings, more) if cut["train"] else self.warnings,
            ratio=float(np.median(written / read)), longest={"text": int(read.max()), "written": int(written.max())},
            example=_short(texts_of(stores["valid"].fields["raw"])),
        )

    def _pairs(self, chosen: np.ndarray) -> Iterator[tuple[str, str]]:
        for row in good_rows(self.tables["train"], chosen):
            yield row.cells["source"], row.cells["target"]


def _short(texts: Sequence[str]) -> str:
    """One of about 40 characters that can stand between quotes on a command line."""
    plain = [text.strip() for text in texts if not set(text) & set('"$`\\!\t')]
    return min(plain, key=lambda text: abs(len(text) - 40), default="")


def _write(writer: StoreWriter, table: Table, chosen: np.ndarray | None, tongues: Tongues, most: int | None) -> None:
    """Numbers for the rows. Training rows with more pieces than `most` are left out; others keep their texts, to be scored."""
    writer.notes["cut"] = 0
    for rows in chunks(good_rows(table, chosen), CHUNK):
        sources, targets = ([row.cells[side] for row in rows] for side in ("source", "target"))
        fields = {"text": tongues.read(sources), "written": tongues.write(targets)}
        if most is None:
            fields |= {"raw": raw_text(sources, sys.maxsize), "raw_target": raw_text(targets, sys.maxsize)}
        else:
            fits = (fields["text"].sizes() <= most + 1) & (fields["written"].sizes() <= most + 2)
            fields = {name: ragged.take(np.flatnonzero(fits)) for name, ragged in fields.items()}
            writer.notes["cut"] += int((~fits).sum())
        writer.append(fields, {})


# Learning --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Items:
    """What is scored: different sources, each with all targets that its rows have."""

    rows: np.ndarray
    """Of each item the row of the store where its source stands first."""
    sources: list[str]
    references: list[list[str]]

    @staticmethod
    def of(pairs: Iterable[tuple[str, str]]) -> Items:
        """Pairs whose sources are equal, but for white space around them, are one item."""
        found: dict[str, tuple[int, str, list[str]]] = {}
        for row, (source, target) in enumerate(pairs):
            found.setdefault(source.strip(), (row, source, []))[2].append(target)
        rows, sources, references = zip(*found.values(), strict=True) if found else ((), (), ())
        return Items(np.array(rows, np.int64), list(sources), list(references))

    def some(self, most: int) -> Items:
        """At most so many of them, evenly spread."""
        places = np.unique(np.linspace(0, len(self.rows) - 1, min(most, len(self.rows))).round().astype(np.int64))
        chosen = places.tolist()
        return Items(self.rows[places], [self.sources[one] for one in chosen], [self.references[one] for one in chosen])


def items_of(store: Store) -> Items:
    """The items of a split that kept its texts."""
    return Items.of(zip(texts_of(store.fields["raw"]), texts_of(store.fields["raw_target"]), strict=True))


@dataclass(frozen=True)
class TranslatePrepared(Prepared):
    """Data made ready: what it decided, how both sides are cut, and the stores by split."""

    task: Translate
    data: DataConfig
    facts: TranslateFacts
    tongues: Tongues
    stores: dict[str, Store]
    pairs: Callable[[], Iterator[tuple[str, str]]]
    """The training pairs as they are written, read anew at each call."""

    def save(self, folder: Path) -> None:
        self.tongues.saved(folder)

    def plan(self, batch_tokens: int, seed: int) -> Plan:
        fields = self.stores["train"].fields
        return Plan(fields["written"].sizes(), batch_tokens, seed, beside=fields["text"].sizes())

    @cached_property
    def stop(self) -> int:
        """The id of a full stop in sources; [UNK] where none occurs."""
        return self.tongues.source.ids(["."])[0]

    def load(self, rows: np.ndarray, chance: Chance = NO_CHANCE) -> Batch:
        batch = make_batch(self.stores["train"].fields, rows)
        if not self.task.open_ends or self.stop == UNK:
            return batch
        chosen = drawn(*chance, self.stores["train"].rows)[rows] < self.task.open_ends
        read = batch.inputs["text"]
        assert isinstance(read, Seq)
        return replace(batch, inputs={"text": without_stop(read, self.stop, torch.from_numpy(chosen))})

    @cached_property
    def items(self) -> Items:
        """What is translated at a validation."""
        return items_of(self.stores["valid"]).some(TRANSLATED)

    def validate(self, model: nn.Module, device: str) -> Checked:
        assert isinstance(model, Model)
        items, store = self.items, self.stores["valid"]
        loss = nats(model, store.fields)
        found = search_all(model, store.fields["text"].take(items.rows), DecodeConfig(), self.facts, device)
        said = [self.tongues.target.decode(best[0].ids) for best in found]
        scores = {VALID[metric.name]: metric(said, items.references) for metric in self.task.metrics if metric.name in VALID}
        main = self.task.metrics[0]
        score = scores[VALID[main.name]] * (1 if main.better == "higher" else -1)
        shown = int(np.argmin([abs(len(source) - 40) for source in items.sources]))    # a short one, always the same
        return Checked(score, loss, {"valid_loss": loss, **scores}, f"{items.sources[shown].strip()} => {said[shown]}")

    def learn_baseline(self, folder: Path) -> str:
        """A table that says of each word, letter or symbol what it most often becomes."""
        one, two = self.task.table_kinds(self.data)
        table = WordTable.train((word_table.cut(source, one), word_table.cut(target, two)) for source, target in self.pairs())
        table.save(folder)
        said = translate_by_table(table, self.items.sources, (one, two))
        metric = self.task.metrics[0]
        return f"Baseline word table: valid {metric.title} {metric(said, self.items.references):.3g}"


VALID = {"bleu": "valid_bleu", "chrf": "valid_chrf", "token_error_rate": "valid_errors"}
"""How the metrics that are watched are called in metrics.jsonl."""


def translate_by_table(
    table: WordTable, sources: Sequence[str], kinds: tuple[word_table.Kind, word_table.Kind]
) -> list[str]:
    """What the baseline writes."""
    return [word_table.join(table.translate(word_table.cut(source, kinds[0])), kinds[1]) for source in sources]


# Writing ---------------------------------------------------------------------------------------------------------


def make_batch(fields: dict[str, Ragged], rows: np.ndarray) -> Batch:
    """The examples `rows` as padded tensors; without "written" there is nothing to compare with."""
    read = pad(fields["text"], rows)
    written = pad(fields["written"], rows) if "written" in fields else None
    assert isinstance(read, Seq) and (written is None or isinstance(written, Seq))
    return Batch({"text": read}, torch.from_numpy(rows), {} if written is None else {"written": written})


@lru_cache(maxsize=2)
def drawn(seed: int, epoch: int, rows: int) -> np.ndarray:
    """A number from 0 to 1 for each row, which follows from seed and epoch alone."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, epoch, rows]))).random(rows)


def without_stop(read: Seq, stop: int, chosen: Bool[Tensor, " B"]) -> Seq:
    """The chosen rows without the full stop before their mark of the end, where there is one and something before it."""
    end = read.lengths - 1
    before = (end - 1).clamp(min=0)
    rows = torch.nonzero(chosen & (end > 1) & (read.values[torch.arange(read.rows), before] == stop)).flatten()
    values, mask = read.values.clone(), read.mask.clone()
    values[rows, before[rows]], values[rows, end[rows]], mask[rows, end[rows]] = EOS, PAD, False
    return Seq(values, mask)


def nats(model: Model, fields: dict[str, Ragged]) -> float:
    """−log p of the targets, per id that is written, the mark of the end included."""
    loss = CrossEntropy("written")
    groups = in_order(np.maximum(fields["text"].sizes(), fields["written"].sizes()), INFERENCE_TOKENS)
    terms = [term for _, term in predicted(model, groups, lambda rows: make_batch(fields, rows), loss)]
    return sum(float(term.total) for term in terms) / sum(term.count for term in terms)


def search_all(
    model: Model, sources: Ragged, config: DecodeConfig, facts: TranslateFacts, device: str = "cpu"
) -> list[list[Found]]:
    """The n best that decoding finds for each source, in order."""
    model.eval()
    place = torch.device(device)

    def one(rows: Sequence[int]) -> list[list[Found]]:
        batch = make_batch({"text": sources}, np.array(rows)).to(place)
        read = batch.inputs["text"]
        assert isinstance(read, Seq)
        opening = MARKS.opening([[]] * len(rows)).to(place)
        longest = limits(read.lengths, config, facts)
        assert model.decoder is not None
        return decode(
            model.decoder, model.encoded(batch)[1], opening, config=config, marks=MARKS, longest=longest, numbers=list(rows)
        )

    return decode_all(by_length(sources.sizes().tolist()), one, config.workers if device == "cpu" else 1)


def limits(lengths: torch.Tensor, config: DecodeConfig, facts: TranslateFacts) -> torch.Tensor:
    """Most ids to write for sources of these lengths (B): where targets are usually longer than sources, the more."""
    return replace(config, longest_factor=config.longest_factor * max(1.0, facts.ratio)).limits(lengths)

"""The task `classify`: one label, or one number, for a text or a pair of texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from seqlab import __version__
from seqlab.config import NotNegative, Probability, dump
from seqlab.data.batches import Plan, in_order
from seqlab.data.fields import Reading, reading
from seqlab.data.read import DataConfig, Role, Row, Table
from seqlab.data.store import Ragged, Store, StoreWriter, cache_folder, cached_store, fingerprint, pad
from seqlab.data.survey import Problem, Survey, held_out, survey
from seqlab.errors import UserError
from seqlab.inference import by_row, predicted
from seqlab.metrics import Accuracy, MacroF1
from seqlab.model import ModelConfig
from seqlab.objectives import CrossEntropy, HopPenalty, SquaredError
from seqlab.parts import Batch, Facts, Objective, Output
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
    same_columns,
    splits,
)

TEXT = Role("text", ("text", "sentence", "review", "content", "document", "comment", "question", "body", "message"), True)
TEXT2 = Role("text2", ("text2", "sentence2", "hypothesis"), False)
LABEL = Role("label", ("label", "class", "category", "sentiment", "target", "topic", "rating", "score", "y"), True)


def roles(*, labelled: bool, pair: bool = False, number: bool = False) -> list[Role]:
    """The columns that a table has to have."""
    return [TEXT, TEXT2._replace(required=pair), LABEL._replace(required=labelled, number=number)]


CHUNK = 4096
"""Rows that are tokenized together."""
INFERENCE_TOKENS = 16_384
"""Padded tokens in a batch when nothing has to be kept for a backward pass."""


@dataclass(frozen=True, kw_only=True)
class Classify(TaskConfig, kind="classify"):
    """A label (or a number) for a text, or for a pair of texts."""

    target: Literal["label", "number"] = "label"
    """What to predict: one of several labels, or a number (regression)."""
    smoothing: Probability = 0.0
    """Share of the target probability that is spread over all labels."""
    penalty: NotNegative = 0.0
    """Weight of the term that keeps the hops of structured attention apart."""
    penalty_kind: Literal["overlap", "kl"] = "overlap"
    """overlap: ‖AAᵀ − I‖². kl: divergence between hops; costlier and less stable."""

    example: ClassVar[str] = "worth every minute"
    passes: ClassVar = ((3_000, 30), (10_000, 20), (50_000, 12), (200_000, 6), (1_000_000, 3), (ENDLESS, 1))
    data_example: ClassVar[str] = "reviews.csv"

    def look(self, data: DataConfig, keep_all_faults: bool = False) -> ClassifyFiles:
        return ClassifyFiles(self, data, keep_all_faults)

    def facts(self, tree: dict[str, Any]) -> ClassifyFacts:
        return facts_of(ClassifyFacts, tree)

    def imagined(self, symbols: int, outputs: int) -> Facts:
        return Facts(symbols={field: symbols for field in ("text", "characters", "grams")}, outputs={"row": outputs})

    def objectives(self, model: ModelConfig) -> Weighted:
        if model.pool is None or model.head is None:
            raise UserError(
                what="The model has no pool or no head.",
                why="classify gives one answer a row: the states are pooled, and a head answers.",
                fix="Set model.pool.kind=mean and model.head.kind=linear.",
            )
        first: Objective = SquaredError() if self.target == "number" else CrossEntropy(smoothing=self.smoothing)
        terms = [(1.0, first)]
        if self.penalty > 0:
            if model.pool.kind != "structured":
                raise UserError(
                    what=f'task.penalty is {self.penalty:g} but model.pool.kind is "{model.pool.kind}".',
                    why="The penalty keeps the hops of structured attention apart; this pool has no hops.",
                    fix="Set model.pool.kind=structured or task.penalty=0.",
                )
            terms.append((self.penalty, HopPenalty(self.penalty_kind)))
        return terms


@dataclass(frozen=True, kw_only=True)
class ClassifyFacts(TaskFacts):
    """What the training data decided; saved as facts.json."""

    task: ClassVar[str] = "classify"
    target: str
    labels: tuple[str, ...] = ()
    """In the order of the model's scores; empty for numbers."""
    label_counts: tuple[int, ...] = ()
    """Training rows of each label."""
    mean: float = 0.0
    spread: float = 1.0
    """Numbers are learnt as (number − mean) / spread."""
    pair: bool = False

    @property
    def parts(self) -> Facts:
        outputs = 1 if self.target == "number" else len(self.labels)
        return Facts(symbols=self.symbols, outputs={"row": outputs}, segments=2 if self.pair else 1)


@dataclass(frozen=True)
class ClassifyPrepared(Prepared):
    """Data made ready: what it decided, how texts are read, and the stores by split."""

    facts: ClassifyFacts
    reading: Reading
    stores: dict[str, Store]

    def save(self, folder: Path) -> None:
        self.reading.save(folder)

    def plan(self, batch_tokens: int, seed: int) -> Plan:
        return Plan(sizes(self.stores["train"].fields), batch_tokens, seed)

    @cached_property
    def _target(self) -> np.ndarray:
        return target_of(self.stores["train"])

    def load(self, rows: np.ndarray, chance: Chance = NO_CHANCE) -> Batch:
        return make_batch(self.stores["train"].fields, self._target, rows)

    def validate(self, model: nn.Module, device: str) -> Checked:
        store, facts = self.stores["valid"], self.facts
        meant, said = target_of(store), scores(model, store.fields)
        if facts.target == "number":
            loss = float(np.mean((said[:, 0].astype(np.float64) - meant) ** 2))
            error = loss * facts.spread**2
            return Checked(-error, loss, {"valid_loss": loss, "valid_mse": error})
        shares = probabilities(said)
        loss = float(-np.log(np.maximum(shares[np.arange(len(meant)), meant], 1e-12)).mean())
        chosen = shares.argmax(axis=1)
        accuracy, f1 = Accuracy()(chosen, meant), MacroF1(len(facts.labels))(chosen, meant)
        return Checked(accuracy, loss, {"valid_loss": loss, "valid_accuracy": accuracy, "valid_f1": f1})


# From files to stores --------------------------------------------------------------------------------------------


class ClassifyFiles(Files):
    """The files of a run, looked at once: enough to decide on sizes before anything is written."""

    def __init__(self, task: Classify, data: DataConfig, keep_all_faults: bool = False) -> None:
        self.task, self.data = task, data
        names = {"train": data.train, "valid": data.valid, "test": data.test}
        wanted = roles(labelled=True, number=task.target == "number")
        self.tables: dict[str, Table] = {}
        for split, files in names.items():
            if files:
                like_train = data if split == "train" else same_columns(data, self.tables["train"].found)
                self.tables[split] = Table(files, like_train, wanted)
        self.survey: Survey = survey(self.tables, target=task.target, keep_all_faults=keep_all_faults)
        self.characters = self.survey.train.characters

    @property
    def target(self) -> str:
        assert isinstance(self.task, Classify)
        return self.task.target

    def problems(self) -> list[Problem]:
        return self.survey.problems()

    def lines(self) -> list[str]:
        columns = ", ".join(f'{role} is column "{column}"' for role, column in self.tables["train"].found.items())
        return [f"columns: {columns}", *self.survey.lines()]

    @property
    def size(self) -> Size:
        train = self.survey.train
        return Size(rows=train.rows, words=float(train.words.mean()) if train.rows else 1.0, characters=train.characters)

    def prepare(self, data: DataConfig, model: ModelConfig) -> ClassifyPrepared:
        assert model.input is not None
        train = self.survey.train
        labels = train.labels if self.target == "label" else None
        held = held_out(train.hashes, labels=labels) if "valid" not in self.tables else np.zeros(train.rows, dtype=bool)
        facts = self._facts(held)
        files = [source.path for table in self.tables.values() for source in table.sources]
        told = dump(data) | {split: len(table.sources) for split, table in self.tables.items()}    # names may change
        tree = {"version": __version__, "data": told, "target": self.target, "labels": facts.labels}
        mark = fingerprint(files, tree | {"reads": model.input.reads})

        new = new_reading(data, model, facts)
        how = kept_or_learnt(
            cache_folder().parent / "readings" / mark, new.load, lambda folder: new.train(self._texts(~held)).saved(folder)
        )
        stores: dict[str, Store] = {}
        for split, table, chosen in splits(self.tables, held):
            write = partial(self._write, table=table, chosen=chosen, facts=facts, how=how, keep_text=split != "train")
            stores[split] = cached_store(f"{mark}-{split}", write)
        rows = {split: store.rows for split, store in stores.items()}
        cut = {split: store.notes["cut"] for split, store in stores.items()}
        whole = replace(facts, symbols=how.symbols, rows=rows, cut=cut, fingerprint=mark, warnings=self.warnings)
        return ClassifyPrepared(whole, how, stores)

    def _facts(self, held: np.ndarray) -> ClassifyFacts:
        train = self.survey.train
        columns = dict(self.tables["train"].found)
        facts = ClassifyFacts(target=self.target, pair="text2" in columns, columns=columns, words=self.size.words)
        if self.target == "number":
            numbers = train.numbers[~held]
            return replace(facts, mean=float(numbers.mean()), spread=float(numbers.std()) or 1.0)
        counts = np.bincount(train.labels[~held], minlength=len(self.survey.labels))
        return replace(facts, labels=tuple(self.survey.labels), label_counts=tuple(counts.tolist()))

    def _texts(self, chosen: np.ndarray) -> Iterator[str | tuple[str, str]]:
        pair = "text2" in self.tables["train"].found
        for row in good_rows(self.tables["train"], chosen):
            yield (row.cells["text"], row.cells["text2"]) if pair else row.cells["text"]

    def _write(
        self, writer: StoreWriter, table: Table, chosen: np.ndarray | None, facts: ClassifyFacts, how: Reading, keep_text: bool
    ) -> None:
        for rows in chunks(good_rows(table, chosen), CHUNK):
            encoded = how.encode([row.cells["text"] for row in rows], _second(rows, facts))
            fields = dict(encoded.fields)
            if keep_text:    # the report shows the texts that went wrong
                fields["raw"] = raw_text([row.cells["text"] for row in rows])
            writer.append(fields, {"target": targets(rows, facts)})
            writer.notes["cut"] = writer.notes.get("cut", 0) + encoded.cut


def new_reading(data: DataConfig, model: ModelConfig, facts: ClassifyFacts) -> Reading:
    """How texts are read for this model; yet to be trained or loaded."""
    assert model.input is not None
    return reading(model.input.reads, data, pair=facts.pair, outputs=max(1, len(facts.labels)))


def targets(rows: Sequence[Row], facts: ClassifyFacts) -> np.ndarray:
    """Class numbers, or standardised numbers."""
    if facts.target == "number":
        numbers = np.array([float(row.cells["label"]) for row in rows], dtype=np.float64)
        return ((numbers - facts.mean) / facts.spread).astype(np.float32)
    known = {label: place for place, label in enumerate(facts.labels)}
    for row in rows:
        if row.cells["label"] not in known:
            raise UserError(
                what=f'{row.place}: the label "{row.cells["label"]}" does not occur in the training data.',
                why=f"The model knows {len(known)} labels: {', '.join(list(known)[:8])}{', ...' if len(known) > 8 else ''}.",
                fix="Correct the label, remove the row, or train on data that has it.",
            )
    return np.array([known[row.cells["label"]] for row in rows], dtype=np.int64)


def _second(rows: Sequence[Row], facts: ClassifyFacts) -> list[str] | None:
    return [row.cells.get("text2", "") for row in rows] if facts.pair else None


# Learning and answering ------------------------------------------------------------------------------------------


def make_batch(fields: dict[str, Ragged], target: np.ndarray | None, rows: np.ndarray) -> Batch:
    """The examples `rows` as padded tensors."""
    inputs = {name: pad(field, rows) for name, field in fields.items() if name != "raw"}
    chosen = None if target is None else torch.from_numpy(target[rows])
    return Batch(inputs, torch.from_numpy(rows), {} if chosen is None else {"row": chosen})


def target_of(store: Store) -> np.ndarray:
    """The targets of a store: class numbers, or standardised numbers."""
    kept = np.asarray(store.arrays["target"])
    return kept.astype(np.float32 if kept.dtype.kind == "f" else np.int64)


def sizes(fields: dict[str, Ragged]) -> np.ndarray:
    """How much work each example is: its tokens, at the innermost level."""
    return next(field for name, field in fields.items() if name != "raw").sizes()


def scores(model: nn.Module, fields: dict[str, Ragged]) -> np.ndarray:
    """The model's scores (N C) for all examples, in their order."""
    return _for_all(model, fields, lambda output: output.answers["row"].scores)


def vectors(model: nn.Module, fields: dict[str, Ragged]) -> np.ndarray:
    """What the head reads: one pooled vector an example (N D), in their order."""
    return _for_all(model, fields, _pooled_vector)


def _pooled_vector(output: Output) -> Tensor:
    assert output.pooled is not None
    return output.pooled.vector


def _for_all(model: nn.Module, fields: dict[str, Ragged], wanted: Callable[[Output], Tensor]) -> np.ndarray:
    """One row for each example."""
    groups = in_order(sizes(fields), INFERENCE_TOKENS)
    made = predicted(
        model, groups, lambda rows: make_batch(fields, None, rows), lambda output, _: wanted(output).float().cpu().numpy()
    )
    return by_row(made)


def probabilities(scores: np.ndarray) -> np.ndarray:
    """Softmax over the last axis, in double precision."""
    shifted = np.exp(scores.astype(np.float64) - scores.max(axis=-1, keepdims=True))
    shares: np.ndarray = shifted / shifted.sum(axis=-1, keepdims=True)
    return shares

"""The task `classify`: one label, or one number, for a text or a pair of texts."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from seqlab import __version__
from seqlab.config import NotNegative, Probability, dump
from seqlab.data.batches import in_order
from seqlab.data.fields import Reading, reading
from seqlab.data.read import Bad, DataConfig, Role, Row, Table
from seqlab.data.store import Ragged, Store, StoreWriter, cache_folder, cached_store, fingerprint, pad
from seqlab.data.survey import Survey, held_out, survey
from seqlab.errors import UserError
from seqlab.files import folder_beside
from seqlab.model import ModelConfig
from seqlab.objectives import CrossEntropy, HopPenalty, SquaredError
from seqlab.parts import Batch, Facts, Objective, Output
from seqlab.tasks.task import Size, TaskConfig

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


@dataclass(frozen=True, kw_only=True)
class ClassifyFacts:
    """What the training data decided; saved as facts.json."""

    target: str
    labels: tuple[str, ...] = ()
    """In the order of the model's scores; empty for numbers."""
    label_counts: tuple[int, ...] = ()
    """Training rows of each label."""
    mean: float = 0.0
    spread: float = 1.0
    """Numbers are learnt as (number − mean) / spread."""
    pair: bool = False
    columns: dict[str, str] = field(default_factory=dict)
    symbols: dict[str, int] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    words: float = 0.0
    cut: dict[str, int] = field(default_factory=dict)
    """Texts that were longer than data.length and lost their middle, by split."""
    fingerprint: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def parts(self) -> Facts:
        outputs = 1 if self.target == "number" else len(self.labels)
        return Facts(symbols=self.symbols, outputs=outputs, segments=2 if self.pair else 1)

    def to_json(self) -> dict[str, Any]:
        return {"task": "classify", **asdict(self)}

    @staticmethod
    def from_json(tree: dict[str, Any]) -> ClassifyFacts:
        known: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in tree.items()}
        known.pop("task", None)
        return ClassifyFacts(**known)


@dataclass(frozen=True)
class Prepared:
    """Data made ready: what it decided, how texts are read, and the stores by split."""

    facts: ClassifyFacts
    reading: Reading
    stores: dict[str, Store]


# From files to stores --------------------------------------------------------------------------------------------


class Files:
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

    def refuse_faults(self) -> None:
        """Stop with everything that is wrong."""
        problems = [problem for problem in self.survey.problems() if problem.severity == "error"]
        if len(problems) == 1:
            raise UserError(what=str(problems[0]), why="Training on it would mislead.", fix=problems[0].fix)
        if problems:
            shown = [f"- {problem} {problem.fix}" for problem in problems[:8]]
            more = [f"- and {len(problems) - len(shown)} more"] if len(problems) > len(shown) else []
            raise UserError(
                what=f"{len(problems)} things in the data are wrong.",
                why="\n".join(shown + more),
                fix=f"See all of them with: seqlab check classify {' '.join(self.data.train)}",
            )

    @property
    def size(self) -> Size:
        """Rows and words of the training data (before anything is held out)."""
        train = self.survey.train
        return Size(rows=train.rows, words=float(train.words.mean()) if train.rows else 1.0)

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(str(problem) for problem in self.survey.problems() if problem.severity == "warning")

    def prepare(self, model: ModelConfig) -> Prepared:
        """Train the tokenizer and write the stores, or find them ready from an earlier run."""
        train = self.survey.train
        labels = train.labels if self.task.target == "label" else None
        held = held_out(train.hashes, labels=labels) if "valid" not in self.tables else np.zeros(train.rows, dtype=bool)
        facts = self._facts(held)
        files = [source.path for table in self.tables.values() for source in table.sources]
        data = dump(self.data) | {split: len(table.sources) for split, table in self.tables.items()}    # names may change
        tree = {"version": __version__, "data": data, "target": self.task.target, "labels": facts.labels}
        mark = fingerprint(files, tree | {"reads": model.input.reads})

        how = self._reading(cache_folder().parent / "readings" / mark, new_reading(self.data, model, facts), ~held)
        stores: dict[str, Store] = {}
        for split, table, chosen in self._splits(held):
            write = partial(self._write, table=table, chosen=chosen, facts=facts, how=how, keep_text=split != "train")
            stores[split] = cached_store(f"{mark}-{split}", write)
        rows = {split: store.rows for split, store in stores.items()}
        cut = {split: store.notes["cut"] for split, store in stores.items()}
        whole = replace(facts, symbols=how.symbols, rows=rows, cut=cut, fingerprint=mark, warnings=self.warnings)
        return Prepared(whole, how, stores)

    def _reading(self, saved: Path, new: Reading, chosen: np.ndarray) -> Reading:
        """How texts are read: as an earlier run with the same data did, or learnt from the chosen rows."""
        if saved.exists():
            try:
                return new.load(saved)
            except UserError:    # damaged, but it can be learnt again
                shutil.rmtree(saved)
        with folder_beside(saved) as beside:
            new.train(self._texts(chosen)).save(beside)
        return new

    def _facts(self, held: np.ndarray) -> ClassifyFacts:
        train = self.survey.train
        columns = dict(self.tables["train"].found)
        facts = ClassifyFacts(target=self.task.target, pair="text2" in columns, columns=columns, words=self.size.words)
        if self.task.target == "number":
            numbers = train.numbers[~held]
            return replace(facts, mean=float(numbers.mean()), spread=float(numbers.std()) or 1.0)
        counts = np.bincount(train.labels[~held], minlength=len(self.survey.labels))
        return replace(facts, labels=tuple(self.survey.labels), label_counts=tuple(counts.tolist()))

    def _splits(self, held: np.ndarray) -> Iterator[tuple[str, Table, np.ndarray | None]]:
        """Each split with its table and the rows of it that belong to the split (None: all)."""
        holds = bool(held.any())
        for split, table in self.tables.items():
            yield split, table, ~held if split == "train" and holds else None
        if holds:
            yield "valid", self.tables["train"], held

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
    return reading(model.input.reads, data, pair=facts.pair, outputs=max(1, len(facts.labels)))


def same_columns(data: DataConfig, found: dict[str, str]) -> DataConfig:
    """Columns without names are guessed from their content: what was found in the training files holds for the others."""
    nameless = all(column.isdigit() for column in found.values())
    return replace(data, columns={**found, **data.columns}) if nameless else data


def good_rows(table: Table, chosen: np.ndarray | None) -> Iterator[Row]:
    """The rows without a fault, in order; `chosen` says by number which of them to give."""
    good = (row for row in table if not isinstance(row, Bad))
    return (row for number, row in enumerate(good) if chosen is None or chosen[number])


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


def raw_text(texts: list[str], most: int = 2000) -> Ragged:
    """The beginnings of texts as bytes, to be shown later."""
    encoded = [text[:most].encode() for text in texts]
    offsets = np.concatenate([[0], np.cumsum([len(text) for text in encoded])]).astype(np.int64)
    return Ragged(np.frombuffer(b"".join(encoded), dtype=np.uint8), offsets)


def chunks(rows: Iterable[Row], size: int) -> Iterator[list[Row]]:
    chunk: list[Row] = []
    for row in rows:
        chunk.append(row)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _second(rows: Sequence[Row], facts: ClassifyFacts) -> list[str] | None:
    return [row.cells.get("text2", "") for row in rows] if facts.pair else None


# Learning and answering ------------------------------------------------------------------------------------------


def objectives(task: Classify, model: ModelConfig) -> list[tuple[float, Objective]]:
    first: Objective = SquaredError() if task.target == "number" else CrossEntropy(task.smoothing)
    terms = [(1.0, first)]
    if task.penalty > 0:
        if model.pool.kind != "structured":
            raise UserError(
                what=f'task.penalty is {task.penalty:g} but model.pool.kind is "{model.pool.kind}".',
                why="The penalty keeps the hops of structured attention apart; this pool has no hops.",
                fix="Set model.pool.kind=structured or task.penalty=0.",
            )
        terms.append((task.penalty, HopPenalty(task.penalty_kind)))
    return terms


def make_batch(fields: dict[str, Ragged], target: np.ndarray | None, rows: np.ndarray) -> Batch:
    """The examples `rows` as padded tensors."""
    inputs = {name: pad(field, rows) for name, field in fields.items() if name != "raw"}
    chosen = None if target is None else torch.from_numpy(target[rows])
    return Batch(inputs, chosen, torch.from_numpy(rows))


def target_of(store: Store) -> np.ndarray:
    """The targets of a store: class numbers, or standardised numbers."""
    kept = np.asarray(store.arrays["target"])
    return kept.astype(np.float32 if kept.dtype.kind == "f" else np.int64)


def sizes(fields: dict[str, Ragged]) -> np.ndarray:
    """How much work each example is: its tokens, at the innermost level."""
    return next(field for name, field in fields.items() if name != "raw").sizes()


def scores(model: nn.Module, fields: dict[str, Ragged], device: str = "cpu") -> np.ndarray:
    """The model's scores (N C) for all examples, in their order."""
    return _for_all(model, fields, device, lambda output: output.reply.scores)


def vectors(model: nn.Module, fields: dict[str, Ragged], device: str = "cpu") -> np.ndarray:
    """What the head reads: one pooled vector an example (N D), in their order."""
    return _for_all(model, fields, device, lambda output: output.pooled.vector)


@torch.no_grad()
def _for_all(model: nn.Module, fields: dict[str, Ragged], device: str, wanted: Callable[[Output], Tensor]) -> np.ndarray:
    """One row for each example, computed in batches of like length."""
    model.eval()
    order: list[np.ndarray] = []
    found: list[np.ndarray] = []
    for rows in in_order(sizes(fields), INFERENCE_TOKENS):
        order.append(rows)
        found.append(wanted(model(make_batch(fields, None, rows).to(torch.device(device)))).float().cpu().numpy())
    together = np.concatenate(found)
    answers = np.empty_like(together)
    answers[np.concatenate(order)] = together
    return answers


def probabilities(scores: np.ndarray) -> np.ndarray:
    """Softmax over the last axis, in double precision."""
    shifted = np.exp(scores.astype(np.float64) - scores.max(axis=-1, keepdims=True))
    shares: np.ndarray = shifted / shifted.sum(axis=-1, keepdims=True)
    return shares

"""What a task is: it turns files into examples, says what to learn and how well it went.

Its settings are the way in: `settings.task.look(data)` looks at the files, `files.prepare(...)` makes them ready,
and what is prepared gives the training loop its plan, its batches and its validation. What a finished run can do
(predict, evaluate, explain) stands in `seqlab/uses`, because it draws and scores, too.
"""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
from torch import nn

from seqlab.config import Variant
from seqlab.data.batches import Plan
from seqlab.data.read import Bad, DataConfig, Row, Table
from seqlab.data.store import Ragged, Store
from seqlab.data.survey import Problem
from seqlab.decode import DecodeConfig
from seqlab.errors import UserError
from seqlab.files import folder_beside
from seqlab.model import ModelConfig
from seqlab.parts import Batch, Facts, Objective
from seqlab.tasks import rules

Weighted = list[tuple[float, Objective]]
Item = TypeVar("Item")
Chance = tuple[int, int]
"""The seed of the run and the epoch: all that chance follows from, beside the row itself."""
NO_CHANCE: Chance = (0, 0)


@dataclass(frozen=True)
class Size:
    """How much data there is and how long it may be trained on, as far as a sound recipe depends on it."""

    rows: int = 20_000
    words: float = 100.0
    """Mean number of words in a text."""
    characters: int = 2_000_000
    """Of all texts together."""
    minutes: float | None = None
    """The budget, where it is in minutes."""
    speed: float | None = None
    """Characters of these texts that a second of training leads through, where that was measured."""

    @property
    def planned(self) -> float:
        """Minutes to plan for."""
        return self.minutes or rules.MINUTES

    @property
    def passes(self) -> float | None:
        """How often the minutes lead through the texts, where that is known."""
        if self.minutes is None or self.speed is None:
            return None
        return 60 * self.minutes * self.speed / max(1, self.characters)


@dataclass(frozen=True)
class Checked:
    """What a validation found. `score` is the task's own metric, turned so that higher is better."""

    score: float
    loss: float
    """Decides between equal scores, which small validation sets often give."""
    numbers: dict[str, float]
    sample: str = ""
    """A few words written by the model (`Prepared.sample`)."""


class TaskConfig(Variant):
    """Settings of a task; each kind stands beside the code that does it."""

    example: ClassVar[str] = "a text of yours"
    """Something to paste after a run."""
    data_example: ClassVar[str] = "data.csv"
    """A name for a user's file, in advice."""
    passes: ClassVar[rules.Steps[float]]
    """Passes over the data for up to so many rows."""
    stretch: ClassVar[float] = 2.0
    """So many times its usual passes over the data are made at the most, where the budget is in minutes."""

    @abstractmethod
    def look(self, data: DataConfig, keep_all_faults: bool = False) -> Files:
        """Read the files once: enough to find faults and to decide on sizes before anything is written."""

    @abstractmethod
    def objectives(self, model: ModelConfig) -> Weighted:
        """The terms of the loss; a UserError where task and model contradict each other."""

    @abstractmethod
    def facts(self, tree: dict[str, Any]) -> TaskFacts:
        """facts.json as it was saved."""

    @abstractmethod
    def imagined(self, symbols: int, outputs: int) -> Facts:
        """What the data would have decided, for `inspect` without data."""

    def epochs(self, rows: int) -> float:
        """Passes over the data after which more would mostly memorise it."""
        return rules.epochs(self.passes, rows)


@dataclass(frozen=True, kw_only=True)
class TaskFacts(ABC):
    """What the training data decided; saved as facts.json."""

    task: ClassVar[str]
    columns: dict[str, str] = field(default_factory=dict)
    symbols: dict[str, int] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    words: float = 0.0
    cut: dict[str, int] = field(default_factory=dict)
    """Texts that were too long and lost something, by split."""
    fingerprint: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def amount(self) -> str:
        """How much there is to learn from, in words."""
        return f"{self.rows['train']:,} training rows"

    @property
    @abstractmethod
    def parts(self) -> Facts:
        """As far as the parts of a model need it."""

    def to_json(self) -> dict[str, Any]:
        return {"task": self.task, **asdict(self)}


FactsKind = TypeVar("FactsKind", bound=TaskFacts)


def facts_of(kind: type[FactsKind], tree: dict[str, Any]) -> FactsKind:
    """facts.json as it was saved."""
    known: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in tree.items()}
    known.pop("task", None)
    return kind(**known)


class Files(ABC):
    """The files of a run, looked at once."""

    task: TaskConfig
    data: DataConfig
    characters: int
    """Of the training texts."""

    @property
    @abstractmethod
    def size(self) -> Size:
        """Of the training data, before anything is held out."""

    @abstractmethod
    def problems(self) -> list[Problem]: ...

    @abstractmethod
    def lines(self) -> list[str]:
        """What `seqlab check` prints."""

    @abstractmethod
    def prepare(self, data: DataConfig, model: ModelConfig) -> Prepared:
        """Train the tokenizer and write the stores, or find them ready from an earlier run."""

    @property
    def faulty(self) -> bool:
        return any(problem.severity == "error" for problem in self.problems())

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(str(problem) for problem in self.problems() if problem.severity == "warning")

    def refuse_faults(self) -> None:
        """Stop with everything that is wrong."""
        problems = [problem for problem in self.problems() if problem.severity == "error"]
        if len(problems) == 1:
            raise UserError(what=str(problems[0]), why="Training on it would mislead.", fix=problems[0].fix)
        if problems:
            shown = [f"- {problem} {problem.fix}" for problem in problems[:8]]
            more = [f"- and {len(problems) - len(shown)} more"] if len(problems) > len(shown) else []
            raise UserError(
                what=f"{len(problems)} things in the data are wrong.",
                why="\n".join(shown + more),
                fix=f"See all of them with: seqlab check {self.task.kind} {' '.join(self.data.train)}",
            )


class Prepared(ABC):
    """Data made ready: what it decided, how texts are read, and the stores by split."""

    facts: TaskFacts
    stores: dict[str, Store]

    @abstractmethod
    def save(self, folder: Path) -> None:
        """What is needed to read texts as these were read: the tokenizers."""

    @abstractmethod
    def plan(self, batch_tokens: int, seed: int) -> Plan:
        """Which training rows go together, epoch after epoch."""

    @abstractmethod
    def load(self, rows: np.ndarray, chance: Chance = NO_CHANCE) -> Batch:
        """These training rows as a batch; `chance` decides what each pass over the data sees otherwise."""

    @abstractmethod
    def validate(self, model: nn.Module, device: str) -> Checked:
        """Score a model on the validation rows."""

    def sample(self, model: nn.Module, how: DecodeConfig) -> str:
        """A few words written as `how` says, to watch a model learn; empty where a task shows none."""
        return ""

    def learn_baseline(self, folder: Path) -> str:
        """Learn the simple baseline and save it in this new folder, where it needs no training loop; how good it is, in words."""
        return ""


# What several tasks share --------------------------------------------------------------------------------------


def same_columns(data: DataConfig, found: dict[str, str]) -> DataConfig:
    """Columns without names are guessed from their content: what was found in the training files holds for the others."""
    nameless = all(column.isdigit() for column in found.values())
    return replace(data, columns={**found, **data.columns}) if nameless else data


def good_rows(table: Table, chosen: np.ndarray | None) -> Iterator[Row]:
    """The rows without a fault, in order; `chosen` says by number which of them to give."""
    good = (row for row in table if not isinstance(row, Bad))
    return (row for number, row in enumerate(good) if chosen is None or chosen[number])


def chunks(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Lists of `size` items, the last one shorter."""
    chunk: list[Item] = []
    for item in items:
        chunk.append(item)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def splits(tables: dict[str, Table], held: np.ndarray) -> Iterator[tuple[str, Table, np.ndarray | None]]:
    """Each split with its table and the rows of it that belong to the split (None: all). `held` rows of train are valid's."""
    holds = bool(held.any())
    for split, table in tables.items():
        yield split, table, ~held if split == "train" and holds else None
    if holds:
        yield "valid", tables["train"], held


def kept_or_learnt(saved: Path, load: Callable[[Path], Item], learn: Callable[[Path], Item]) -> Item:
    """What an earlier run with the same data left in this folder; else learnt anew and left there."""
    if saved.exists():
        try:
            return load(saved)
        except UserError:    # damaged, but it can be learnt again
            shutil.rmtree(saved)
    with folder_beside(saved) as beside:
        return learn(beside)


def raw_text(texts: Sequence[str], most: int = 2000) -> Ragged:
    """The beginnings of texts as bytes, to be shown later."""
    encoded = [text[:most].encode() for text in texts]
    offsets = np.concatenate([[0], np.cumsum([len(text) for text in encoded])]).astype(np.int64)
    return Ragged(np.frombuffer(b"".join(encoded), dtype=np.uint8), offsets)


def texts_of(raw: Ragged, rows: np.ndarray | None = None) -> list[str]:
    """Texts that were kept by `raw_text`: these rows, or all."""
    some = raw.take(np.arange(raw.rows) if rows is None else np.asarray(rows))
    whole = some.values.tobytes()
    return [whole[start:end].decode("utf-8", "ignore") for start, end in zip(some.offsets, some.offsets[1:], strict=False)]

"""What a task is: the fields that are read and answered, what is learnt, and the words for it. Read this file
first.

A task is a declaration. What every task needs is written once: files are looked at and made ready in
prepare.py, a run predicts, evaluates and explains in run.py, and the report lays out what the task's words
say.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, runtime_checkable

from seqlab import rules
from seqlab.answers.answer import Answer, Known
from seqlab.baselines.baseline import Baseline
from seqlab.config import Tree, Variant
from seqlab.data.read import DataConfig
from seqlab.errors import UserError
from seqlab.fields.field import Field
from seqlab.inputs import Tokens
from seqlab.model import ModelConfig
from seqlab.parts import EncoderConfig, Facts, Objective
from seqlab.report.published import Published
from seqlab.report.words import Words

Weighted = list[tuple[float, Objective]]


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
    reads: str = "text"
    """What is read: text, values, ..."""
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


@runtime_checkable
class TrainedRun(Protocol):
    """A trained run whose body is put under another task."""

    folder: Any
    settings: Any
    reads: bool
    """Whether it has an input and an encoder."""
    writes: bool
    """Whether it has a decoder."""

    @property
    def model(self) -> ModelConfig: ...

    def reader(self) -> tuple[Tokens, EncoderConfig]:
        """What reads; a decoder alone reads what it has written."""

    def longest(self, encoder: EncoderConfig) -> int:
        """Tokens of a text that it can read under another task."""


class TaskConfig(Variant):
    """Settings of a task."""

    example: ClassVar[str] = "a text of yours"
    """Something to paste after a run."""
    data_example: ClassVar[str] = "data.csv"
    """A name for a user's file, in advice."""
    default: ClassVar[str]
    """The preset that is trained where none is named."""
    instead: ClassVar[Mapping[str, str]] = {}
    """Another such preset for some settings: {"task.target=number": "bilstm"}."""
    published: ClassVar[Mapping[str, Published]] = {}
    """Presets of published models, with what is known of them."""
    passes: ClassVar[rules.Steps[float]]
    """Passes over the data for up to so many rows."""
    stretch: ClassVar[float] = rules.STRETCH
    """So many times its usual passes over the data are made at the most, where the budget is in minutes."""
    readable: ClassVar[tuple[str, ...]] = ("text",)
    """What it can read; where there are several, a setting says which."""
    choice: ClassVar[str] = "reads"
    """The setting that says what is read."""
    goes_on: ClassVar[bool] = False
    """Whether a body that is put under it brings all of its model and its task along, to go on learning the
    same."""

    @staticmethod
    @abstractmethod
    def presets(size: Size) -> dict[str, Tree]:
        """Settings trees by name, fitted to the size of the data and the budget."""

    @classmethod
    def tables(cls, size: Size) -> dict[str, dict[str, Tree]]:
        """The presets by what they read."""
        return {reads: cls.presets(replace(size, reads=reads)) for reads in cls.readable}

    @abstractmethod
    def fields(self, data: DataConfig, learnt: Mapping[str, Any] | None = None) -> list[Field]:
        """What an example holds; the first field is what it is read from. Fields learn in this order.

        `learnt` are the facts of a run; None where there are none yet.
        """

    @abstractmethod
    def answer(self, known: Known) -> Answer:
        """What is said of an example, from fields that `fields` made."""

    @abstractmethod
    def objectives(self, model: ModelConfig) -> Weighted:
        """The terms of the loss; a UserError where task and model contradict each other."""

    @abstractmethod
    def imagined(self, symbols: int, outputs: int) -> Facts:
        """What the data would have decided, for `inspect` without data."""

    @abstractmethod
    def words(self, answer: Answer) -> Words:
        """What a report calls the things of a run."""

    def carries(self, model: ModelConfig) -> bool:
        """Whether rows of the next batch go on with the state of this one's."""
        return False

    def baselines(self) -> Sequence[type[Baseline]]:
        """What stands beside the model, the weakest first."""
        return ()

    splits: ClassVar[bool] = False
    """Whether its data is in the order of time, so that data.split can cut it up."""

    def refuse(self, data: DataConfig) -> None:
        """A UserError where the settings of task and data contradict each other."""
        if data.split and not self.splits:
            raise UserError(
                what=f"data.split={','.join(data.split)} is for series over time, not for {self.kind}.",
                why="Its rows are in no order of time: a tenth of them is held out, always the same.",
                fix="Leave it out, or give files of their own with --valid and --test.",
            )

    @classmethod
    def adopt(cls, source: TrainedRun, parts: str) -> Tree:
        """The settings with which the body of a trained run is put under this task (`parts`: what of it is to
        be taken)."""
        raise UserError(
            what=f"--from can't be used with {cls.kind}.",
            why="The task has no place for a body.",
            fix="Leave --from out.",
        )

    @property
    def around(self) -> str:
        """What stood around a text that its models read, as data.marks calls it: it comes along where a body
        goes."""
        return "none"

    @property
    def asked(self) -> float:
        """Share of the positions that have an answer in training, where each may have one."""
        return 1.0

    @property
    def seen(self) -> int | None:
        """Tokens that are seen at once; None: as many as data.length keeps."""
        return None

    def epochs(self, rows: int) -> float:
        """Passes over the data after which more would mostly memorise it."""
        return rules.epochs(self.passes, rows)

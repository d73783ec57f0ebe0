"""What a baseline is: something simple that answers the same examples, to stand beside every score."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from seqlab.answers.answer import Answer, Judged
from seqlab.config import Tree
from seqlab.data.cells import Cells
from seqlab.data.store import Store


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """What a baseline learns from: the rows that are prepared already."""

    task: Tree
    """Settings of the task."""
    answer: Answer
    stores: Mapping[str, Store]
    rows: Callable[[], Iterator[Cells]]
    """The training rows as they were written, from the beginning at each call."""
    all_rows: int
    """Rows of the training files, those that are held out among them."""
    seed: int
    epochs: float
    """Passes over the training rows after which more would mostly memorise them."""
    characters: int
    """Of the training texts."""
    minutes: float | None
    """Budget of the model itself, where it is in minutes."""
    say: Callable[[str], None]


class Baseline(ABC):
    """Something simple. One that learns leaves files in a folder of its own."""

    does: ClassVar[str] = ""
    """What it does, where its name does not say it."""
    learns: ClassVar[bool] = True
    """Whether it has to learn from the training rows; others know enough from the facts."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    @property
    @abstractmethod
    def name(self) -> str:
        """As a report calls it."""

    @classmethod
    def learn(cls, lesson: Lesson, folder: Path) -> Baseline | None:
        """Learn and save in the folder; None where it is not worth it."""
        return cls(lesson.answer)

    @classmethod
    def load(cls, answer: Any, folder: Path) -> Baseline | None:
        """What was learnt in an earlier process; None where nothing was."""
        return cls(answer)

    @abstractmethod
    def judge(self, part: Any) -> Judged:
        """What it says of the part of a store that a model is judged on (`Answer.part`)."""


def learnt_line(baseline: Baseline, lesson: Lesson) -> str:
    """How good it is on the validation rows, in words."""
    metric = lesson.answer.metrics[0]
    judged = baseline.judge(lesson.answer.part(lesson.stores["valid"], "watched"))
    return f"Baseline {baseline.name}: valid {metric.title} {metric(judged.said, judged.meant):.4g}"

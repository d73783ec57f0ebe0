"""What an answer is: how a model is asked, how its answers are learnt, scored, explained and printed.

A task joins fields by an answer. The model has the same name for it: "row", "places" or "written".
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np

from seqlab.data.batches import FIXED, Plan, Rows, Seeds
from seqlab.data.cells import Cells
from seqlab.data.read import DataConfig, Row
from seqlab.data.store import Store
from seqlab.decode import DecodeConfig
from seqlab.errors import UserError
from seqlab.fields.field import DataFacts, Field, Given, ReadField
from seqlab.metrics import Metric
from seqlab.model import Model, ModelConfig
from seqlab.parts import Batch, Facts
from seqlab.report.evaluate import Score, Scores
from seqlab.report.explanation import Explanation
from seqlab.report.words import Example
from seqlab.training.validation import Validation

Extent = Literal["watched", "reported", "whole"]
"""How much of a data set is scored: as little as tells something while training, what the report scores, or
all of it."""


@dataclass(frozen=True)
class Known:
    """Everything that is known of a run but its weights."""

    data: DataConfig
    model: ModelConfig
    decode: DecodeConfig
    facts: DataFacts
    fields: tuple[Field, ...]
    """The first is what an example is read from."""

    @property
    def reads(self) -> ReadField:
        first = self.fields[0]
        assert isinstance(first, ReadField)
        return first


@runtime_checkable
class Prediction(Protocol):
    """What a model says of one input."""

    def to_json(self) -> dict[str, Any]:
        """As promised for `predict --json`."""

    def shown(self) -> str:
        """In a line on a terminal."""

    def columns(self) -> dict[str, Any]:
        """The columns that it adds to a table."""


@dataclass(frozen=True)
class TextScore:
    """How well a model predicts one text."""

    perplexity: float
    """exp of the mean nats of a token."""
    bits_per_character: float
    kind: Literal["perplexity", "pseudo-perplexity"]
    """pseudo-perplexity: each token is predicted from both sides, so that the product is no probability of
    the text."""

    @classmethod
    def of(cls, nats: float, tokens: int, characters: int, pseudo: bool = False) -> TextScore:
        bits = nats / math.log(2) / max(1, characters)
        return cls(
            math.exp(min(700.0, nats / max(1, tokens))), bits, "pseudo-perplexity" if pseudo else "perplexity"
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "perplexity": round(self.perplexity, 6),
            "bits_per_character": round(self.bits_per_character, 6),
            "kind": self.kind,
        }

    def shown(self) -> str:
        return f"{self.kind} {self.perplexity:.4g}\t{self.bits_per_character:.3f} bits per character"

    def columns(self) -> dict[str, Any]:
        return {self.kind.replace("-", "_"): self.perplexity, "bits_per_character": self.bits_per_character}


class Exercise(ABC):
    """The rows of a store as batches to learn from."""

    @abstractmethod
    def plan(self, budget: int, seed: int) -> Plan:
        """Which rows go together, epoch after epoch: `budget` padded positions in a batch."""

    @abstractmethod
    def batch(self, rows: Rows, seeds: Seeds = FIXED) -> Batch:
        """These rows of the plan; `seeds` decide what each pass over the data sees otherwise."""


@dataclass(frozen=True)
class Judged:
    """What was said of some examples, and what was meant, as the metrics take them."""

    said: Any
    meant: Any
    loss: float = math.nan
    """Decides between equal scores, which small validation sets often give."""
    score: float | None = None
    """Decides which weights are best, the higher the better; None: the first metric does."""
    detail: Any = None
    """More of what the model said, for those who show its mistakes."""


@dataclass(frozen=True)
class Findings:
    """What the end of a training session found out about a model."""

    worst: Sequence[Example] = ()
    """Where it went most wrong."""
    maps: Sequence[Explanation] = ()
    pictures: Sequence[str] = ()
    """HTML of what is drawn of some examples."""
    samples: Sequence[str] = ()
    """What it wrote, with nothing to compare with."""
    by_length: Mapping[str, Scores] | None = None
    """The same scores for shorter and longer inputs apart."""


class Answer(ABC):
    """One answer of a model: to the fields of a task, under the settings of a run."""

    echoes: ClassVar[bool] = False
    """Whether an answer is shown beside the text it is for; a text that was written stands alone."""
    together: ClassVar[int] = 2048
    """Rows of a file that are answered at a time."""
    joins: ClassVar[bool] = True
    """Whether a tab in what a user types joins two texts."""
    begins: ClassVar[bool] = False
    """Whether it can answer to nothing, and write its answer piece by piece."""

    def __init__(self, known: Known) -> None:
        self.known, self.facts, self.reads = known, known.facts, known.reads

    @property
    @abstractmethod
    def metrics(self) -> list[Metric]:
        """What is scored, the deciding metric first."""

    @property
    @abstractmethod
    def parts(self) -> Facts:
        """What the data decided, as far as the parts of a model need it."""

    @property
    @abstractmethod
    def example(self) -> str:
        """Something to ask, or empty where the task's own will do."""

    @property
    def ask(self) -> str:
        """What to type after `seqlab predict RUN`; empty: an example, in quotes."""
        return ""

    @property
    def beside(self) -> str:
        """What to type beside every text that is asked about, with a space before it; empty: nothing."""
        return ""

    # Learning and scoring -----------------------------------------------------------------------------------

    @abstractmethod
    def exercise(self, store: Store) -> Exercise:
        """The rows of a store as batches to learn from."""

    def part(self, store: Store, extent: Extent) -> Any:
        """What of a store is scored. Baselines are scored on the same."""
        return store

    @abstractmethod
    def judge(self, model: Model, part: Any, extent: Extent, how: DecodeConfig) -> Judged:
        """What the model says of it, where it decodes, as `how` says; the loss is needed of what is watched
        alone."""

    def validation(self, judged: Judged) -> Validation:
        """What is logged of a validation, and what decides which weights are best."""
        main, *_ = metrics = self.metrics
        numbers = {metric.key: metric(judged.said, judged.meant) for metric in metrics if metric.watched}
        score = (
            numbers[main.key] * (1 if main.better == "higher" else -1)
            if judged.score is None
            else judged.score
        )
        return Validation(score, judged.loss, {"valid_loss": judged.loss, **numbers})

    def scores(self, said: Any, meant: Any, metrics: Sequence[Metric]) -> Scores:
        """What was said against what was meant."""
        return Scores(
            task=self.facts.task,
            metrics={metric.name: Score.of(metric, metric.count(said, meant)) for metric in metrics},
            examples=len(meant),
            signatures={metric.name: signed for metric in metrics if (signed := metric.signature(meant))},
        )

    @abstractmethod
    def findings(self, model: Model, store: Store, part: Any, judged: Judged) -> Findings:
        """What the report shows beside the scores."""

    def sample(self, model: Model, part: Any, judged: Judged, how: DecodeConfig) -> str:
        """A few words to watch a model learn by; empty where there are none."""
        return ""

    def settle(self, model: Model, stores: Mapping[str, Store], folder: Path) -> None:
        """Learn what only the trained model tells, and save it in the run folder."""

    def load(self, folder: Path) -> None:
        """What `settle` saved."""

    # Asking -------------------------------------------------------------------------------------------------

    def asked_of(self, cells: Cells) -> Given:
        """What a row asks, as a user would give it."""
        return self.reads.text_of(cells)

    def joined(self, texts: Sequence[Given], given: Any) -> Sequence[Given]:
        """The texts with what is given beside them (None: nothing)."""
        if given is None:
            return texts
        raise self._cannot(
            "reads nothing beside what it is asked", "Nothing was given in training.", "Leave --given out."
        )

    @abstractmethod
    def predict(self, model: Model, given: Sequence[Given], how: DecodeConfig) -> Sequence[Prediction]:
        """One prediction for each input, in order."""

    @abstractmethod
    def explain(
        self, model: Model, given: Given, how: DecodeConfig, target: str | None = None
    ) -> Explanation:
        """Where the model looked. `target` is explained instead of what the model would write."""

    def rows(
        self, model: Model, rows: Iterable[Row], how: DecodeConfig
    ) -> Iterator[tuple[Row, Prediction]] | None:
        """The rows of an answer to a whole table; None where each row has an answer of its own."""
        return None

    def draw(self, model: Model, rows: Iterable[Row], how: DecodeConfig, path: Path) -> None:
        """The answer to a table as a picture, .html or .png."""
        raise self._cannot(
            "draws no pictures of its answers", "They are text.", "Write a table: --output answers.csv"
        )

    def stream(self, model: Model, given: Given, how: DecodeConfig) -> Iterator[str]:
        """What it writes, piece by piece."""
        raise self._cannot("writes no text piece by piece", "Its answers come whole.", "Use predict.")

    def embed(self, model: Model, given: Sequence[Given]) -> Sequence[Prediction]:
        """The vector of each input."""
        raise self._cannot(
            "gives no vectors",
            "A vector stands between a pool and a head, and this model has neither.",
            "Leave --embed out.",
        )

    def score(self, model: Model, given: Sequence[Given]) -> list[TextScore]:
        """How likely each text is."""
        raise self._cannot(
            "does not say how likely a text is",
            "Only a language model does: one that learnt from text alone.",
            "Leave --score out.",
        )

    def score_texts(self, model: Model, given: Sequence[Given]) -> list[float]:
        """log p of each text, in nats."""
        raise self._cannot("does not say how likely a text is", "Only a language model does.", "Use predict.")

    def score_pairs(self, model: Model, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """log p of each target, given its source."""
        raise self._cannot(
            "does not say how likely one text is for another", "Only what writes a text does.", "Use predict."
        )

    def _cannot(self, what: str, why: str, fix: str) -> UserError:
        return UserError(what=f"This is a run of {self.facts.task}, which {what}.", why=why, fix=fix)

    # What several answers share -----------------------------------------------------------------------------

    def read(self, given: Sequence[Given]) -> Store:
        """What a user gave, as numbers."""
        cells = [self.reads.cells_of(one) for one in given]
        return Store(self.reads.encode(cells, None, keep=False).values, {})

    def signed(self, scores: Scores, sampled: int | None) -> Scores:
        """The scores; that training sampled from the vocabulary (task.sampled) stands by the first metric."""
        symbols = max(self.facts.symbols.values())
        if sampled is None or sampled >= symbols:
            return scores
        told = f"trained against {sampled:,} sampled symbols a step; scored against all {symbols:,}"
        return replace(scores, signatures={scores.main: told})


def near(sizes: np.ndarray, usual: float = 60, count: int = 2) -> np.ndarray:
    """Rows of middling size, to be shown."""
    order: np.ndarray = np.argsort(np.abs(sizes - min(usual, np.median(sizes))), kind="stable")[:count]
    return order


def refuse_empty(texts: Sequence[str]) -> None:
    if any(not text.strip() for text in texts):
        raise UserError(
            what="A text is empty.",
            why="There is nothing to read in it.",
            fix='Give a text, such as "the time"',
        )

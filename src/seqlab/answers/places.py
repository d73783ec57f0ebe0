"""An answer at each word: a tag, a number or an angle."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from seqlab.answers.answer import Answer, Exercise, Extent, Findings, Judged, Known, near
from seqlab.data.batches import FIXED, Plan, Rows, Seeds, in_order
from seqlab.data.store import Ragged, Store, pad_rows
from seqlab.decode import DecodeConfig
from seqlab.fields.field import Given
from seqlab.fields.numbers import NumbersField
from seqlab.fields.tags import TagsField
from seqlab.fields.words import WordsField
from seqlab.inference import predicted
from seqlab.metrics import F1, Metric, confusion
from seqlab.model import Model
from seqlab.objectives import SquaredError, Surprise
from seqlab.parts import Batch, Facts, Objective, Output, Places, Reply
from seqlab.report.attention import explain_places
from seqlab.report.evaluate import ClassScores, Score, Scores, score_classes
from seqlab.report.explanation import Explanation
from seqlab.report.words import Example, Piece
from seqlab.seq import Nested, Seq
from seqlab.span_metrics import (
    AngleError,
    PlacesMAE,
    PlacesMSE,
    PlacesR2,
    SpanF1,
    SpanPrecision,
    SpanRecall,
    TagMacroF1,
    TokenAccuracy,
    by_row,
)
from seqlab.spans import Span

INFERENCE_TOKENS = 16_384
"""Padded positions in a batch when nothing has to be kept for a backward pass."""
WORST = 12

PlaceField = TypeVar("PlaceField", TagsField, NumbersField)


@dataclass(frozen=True)
class PlacePrediction:
    """What a model says of one input: a tag for each word, or a number."""

    tokens: tuple[str, ...]
    tags: tuple[str, ...] = ()
    values: tuple[float, ...] = ()
    spans: tuple[Span, ...] | None = None
    """None where tags are no spans."""
    offsets: tuple[tuple[int, int], ...] | None = None
    """Where each word stands in the text that was given; None where words were given."""
    text: str = ""

    def to_json(self) -> dict[str, Any]:
        tree: dict[str, Any] = {"tokens": list(self.tokens)}
        tree |= {"values": self._rounded} if self.values else {"tags": list(self.tags)}
        if self.offsets is not None:
            tree["offsets"] = [list(one) for one in self.offsets]
        if self.spans is not None:
            tree["spans"] = [
                {"start": start, "end": end, "type": type, "text": self.text_of(start, end)}
                for start, end, type in self.spans
            ]
        return tree

    @property
    def _rounded(self) -> list[float]:
        """The numbers to seven digits: models compute no more of them."""
        return [float(f"{value:.7g}") for value in self.values]

    def text_of(self, start: int, end: int) -> str:
        """The words of a span as they were given."""
        if self.offsets is None:
            return " ".join(self.tokens[start:end])
        return self.text[self.offsets[start][0] : self.offsets[end - 1][1]]

    def shown(self) -> str:
        said = self.tags or [f"{value:.4g}" for value in self.values]
        return " ".join(f"{word}/{one}" for word, one in zip(self.tokens, said, strict=True))

    def columns(self) -> dict[str, Any]:
        words = {} if self.offsets is None else {"tokens": list(self.tokens)}
        return words | (
            {"predicted_values": self._rounded} if self.values else {"predicted_tags": list(self.tags)}
        )


class PlacesExercise(Exercise):
    """Rows of words and what belongs to each word; rows of like length together."""

    def __init__(self, store: Store, names: Sequence[str], targets: np.ndarray | None = None) -> None:
        """`targets`: what belongs to each word, for all rows one after the other (N ...)."""
        self.store, self.names, self.targets = store, names, targets
        self.first = store.fields.get("first")
        """Where each word begins among the positions of its row; None: each is one position."""
        self.offsets = np.asarray((store.fields["text"] if self.first is None else self.first).offsets)
        """Where the words of each row begin among those of all."""
        self.counts = np.diff(self.offsets)

    def plan(self, budget: int, seed: int) -> Plan:
        return Plan(self.store.sizes(), budget, seed)

    def batch(self, rows: Rows, seeds: Seeds = FIXED) -> Batch:
        inputs = {name: pad_rows(self.store.fields[name], rows) for name in self.names}
        width = _width(inputs["text"])
        counts = self.counts[rows]
        starts = np.repeat(width * np.arange(len(rows)), counts)
        if self.first is not None:
            within = self.first.take(rows).values.astype(np.int64)
        else:
            within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        if self.targets is None:
            values: Tensor = torch.zeros(len(starts), dtype=torch.int64)
        else:
            values = torch.from_numpy(Ragged(self.targets, self.offsets).take(rows).values)
        places = Places(torch.from_numpy(starts + within), values, torch.from_numpy(counts))
        return Batch(inputs, torch.from_numpy(rows), {"places": places})


def _width(text: Seq | Nested) -> int:
    return text.mask.shape[1]


class PlacesAnswer(Answer, Generic[PlaceField]):
    """One answer a word, from a head at places."""

    joins = False
    target: PlaceField

    def __init__(self, known: Known, words: WordsField, target: PlaceField) -> None:
        super().__init__(known)
        self.words, self.target = words, target

    @property
    def parts(self) -> Facts:
        return Facts(symbols=self.facts.symbols, outputs={"places": self.target.outputs})

    @property
    def example(self) -> str:
        return ""

    def exercise(self, store: Store) -> PlacesExercise:
        return PlacesExercise(store, self.words.names, self.targets(store))

    @abstractmethod
    def targets(self, store: Store) -> np.ndarray:
        """What belongs to each word, as a head is compared with it (N ...)."""

    @abstractmethod
    def meant(self, store: Store) -> list[np.ndarray]:
        """The same as metrics take it, row by row."""

    @abstractmethod
    def said(self, reply: Reply, sizes: Int[Tensor, " B"]) -> np.ndarray:
        """What a reply says of rows of so many words, as metrics take it (N)."""

    @abstractmethod
    def nats(self, output: Output, batch: Batch) -> float:
        """The loss of a batch, summed over its words."""

    @abstractmethod
    def objective(self) -> Objective:
        """What is learnt."""

    # Asking -------------------------------------------------------------------------------------------------

    def outputs(self, model: Model, exercise: PlacesExercise) -> tuple[list[np.ndarray], float]:
        """What the model says of each row, in their order; and the mean loss of a word, where targets are
        known."""
        total, words = 0.0, 0
        answers: list[np.ndarray] = [np.empty(0)] * exercise.store.rows

        def wanted(output: Output, batch: Batch) -> tuple[np.ndarray, float]:
            sizes = batch.places.sizes
            assert sizes is not None
            loss = 0.0 if exercise.targets is None else self.nats(output, batch)
            return self.said(output.answers["places"], sizes), loss

        groups = in_order(exercise.store.sizes(), INFERENCE_TOKENS)
        for rows, (said, loss) in predicted(model, groups, exercise.batch, wanted):
            total, words = total + loss, words + len(said)
            for row, part in zip(
                rows.tolist(), np.split(said, np.cumsum(exercise.counts[rows])[:-1]), strict=True
            ):
                answers[row] = part
        return answers, total / max(1, words)

    def judge(self, model: Model, part: Store, extent: Extent, how: DecodeConfig) -> Judged:
        said, loss = self.outputs(model, self.exercise(part))
        return Judged(said, self.meant(part), loss)

    def predict(self, model: Model, given: Sequence[Given], how: DecodeConfig) -> list[PlacePrediction]:
        if not given:
            return []
        said, _ = self.outputs(model, PlacesExercise(self.read(given), self.words.names))
        return [self._predicted(*one) for one in zip(given, said, strict=True)]

    def _predicted(self, given: Given, said: np.ndarray) -> PlacePrediction:
        offsets = self.words.offsets(given)
        words = tuple(self.words.row_words(given))
        text = given if isinstance(given, str) else ""
        return self.prediction(words, said, None if offsets is None else tuple(offsets), text)

    @abstractmethod
    def prediction(
        self,
        words: tuple[str, ...],
        said: np.ndarray,
        offsets: tuple[tuple[int, int], ...] | None = None,
        text: str = "",
    ) -> PlacePrediction:
        """What is said of these words, for a person."""

    @abstractmethod
    def scored(self, reply: Reply, said: np.ndarray) -> Tensor:
        """The score of what is said of each word (N), to be explained."""

    def explain(
        self, model: Model, given: Given, how: DecodeConfig, target: str | None = None
    ) -> Explanation:
        exercise = PlacesExercise(self.read([given]), self.words.names)
        [said], _ = self.outputs(model, exercise)
        prediction = self._predicted(given, said)
        tags = prediction.tags or tuple(f"{value:.4g}" for value in prediction.values)
        return explain_places(
            model,
            exercise.batch(np.array([0])),
            text=self.words.shown(given),
            pieces=self.words.pieces(given)[0],
            words=prediction.tokens,
            said=tags,
            score=lambda output: self.scored(output.answers["places"], said),
        )

    def findings(self, model: Model, store: Store, part: Store, judged: Judged) -> Findings:
        rows = self.telling(judged)
        shown = rows[near(store.sizes()[rows])]
        maps = [self.explain(model, row, self.known.decode) for row in self.words.texts(store, shown)]
        return Findings(self.worst(store, judged), maps)

    def telling(self, judged: Judged) -> NDArray[np.int64]:
        """Rows whose answers say something, to be explained."""
        return np.arange(len(judged.meant))

    @abstractmethod
    def worst(self, store: Store, judged: Judged) -> list[Example]:
        """Where it went most wrong."""


class TagsAnswer(PlacesAnswer[TagsField]):
    """One of several tags for each word."""

    @property
    def tags(self) -> tuple[str, ...]:
        return self.target.facts.tags

    @property
    def parts(self) -> Facts:
        return Facts(
            symbols=self.facts.symbols, outputs={"places": self.target.outputs}, grammar=self.target.grammar
        )

    @property
    def metrics(self) -> list[Metric]:
        """Of spans first their F1; of other tags the share that is right."""
        if scheme := self.target.scheme:
            return [SpanF1(scheme), SpanPrecision(scheme), SpanRecall(scheme), TokenAccuracy()]
        return [TokenAccuracy(), TagMacroF1(len(self.tags))]

    def targets(self, store: Store) -> np.ndarray:
        return np.asarray(store.fields["tags"].values, np.int64)

    def meant(self, store: Store) -> list[np.ndarray]:
        tags = store.fields["tags"]
        return np.split(np.asarray(tags.values, np.int64), tags.offsets[1:-1])

    def said(self, reply: Reply, sizes: Int[Tensor, " B"]) -> np.ndarray:
        return reply.said(sizes).cpu().numpy()

    def nats(self, output: Output, batch: Batch) -> float:
        return float(self.objective()(output, batch).total)

    def objective(self) -> Surprise:
        return Surprise()

    def prediction(
        self,
        words: tuple[str, ...],
        said: np.ndarray,
        offsets: tuple[tuple[int, int], ...] | None = None,
        text: str = "",
    ) -> PlacePrediction:
        scheme = self.target.scheme
        spans = None if scheme is None else tuple(scheme.spans(said))
        tags = tuple(self.tags[tag] for tag in said.tolist())
        return PlacePrediction(words, tags, spans=spans, offsets=offsets, text=text)

    def scored(self, reply: Reply, said: np.ndarray) -> Tensor:
        scores = reply.scores
        chosen = scores.gather(1, torch.from_numpy(said).to(scores.device).unsqueeze(1)).squeeze(1)
        return chosen - scores.mean(dim=1)

    def scores(self, said: Any, meant: Any, metrics: Sequence[Metric]) -> Scores:
        """What was said against what was meant, with the scores of each type of span, or of each tag."""
        flat_said, flat_meant = np.concatenate(said), np.concatenate(meant)
        matrix = confusion(flat_said, flat_meant, len(self.tags))
        return Scores(
            task=self.facts.task,
            metrics={metric.name: Score.of(metric, metric.count(said, meant)) for metric in metrics},
            examples=len(meant),
            labels=self.tags,
            per_class=self._classes(said, meant),
            confusion=matrix,
        )

    def _classes(self, said: Any, meant: Any) -> tuple[ClassScores, ...]:
        """The scores of each type of span, or of each tag."""
        if scheme := self.target.scheme:
            return score_classes(
                scheme.types, [SpanF1(scheme, type).count(said, meant) for type in scheme.types]
            )
        places = range(len(self.tags))
        return score_classes(self.tags, [by_row(F1(place).count, said, meant) for place in places])

    def telling(self, judged: Judged) -> NDArray[np.int64]:
        """Those with a span that was said, if there are some."""
        if (scheme := self.target.scheme) is None:
            return super().telling(judged)
        found = np.flatnonzero([bool((scheme.letters[row] > 0).any()) for row in judged.said])
        return found if len(found) else super().telling(judged)

    def worst(self, store: Store, judged: Judged) -> list[Example]:
        """The rows with the most wrong tags."""
        wrong = np.array(
            [int((one != other).sum()) for one, other in zip(judged.said, judged.meant, strict=True)]
        )
        rows = np.argsort(-wrong, kind="stable")[: min(WORST, int((wrong > 0).sum()))]
        examples = []
        for row, words in zip(rows.tolist(), self.words.texts(store, rows), strict=True):
            said, meant = (
                [self.tags[tag] for tag in some[row].tolist()] for some in (judged.said, judged.meant)
            )
            pieces = tuple(Piece(*one) for one in zip(words, meant, said, strict=True))
            examples.append(Example(text=" ".join(words), pieces=pieces, score=float(wrong[row])))
        return examples


class NumbersAnswer(PlacesAnswer[NumbersField]):
    """A number for each word, or an angle."""

    @property
    def metrics(self) -> list[Metric]:
        if self.target.angles:
            return [AngleError()]
        return [PlacesMSE(), PlacesMAE(), PlacesR2(self.target.facts.mean)]

    def targets(self, store: Store) -> np.ndarray:
        return self.target.targets(np.asarray(store.fields["values"].values, np.float32))

    def meant(self, store: Store) -> list[np.ndarray]:
        values = store.fields["values"]
        return np.split(self.target.as_written(np.asarray(values.values)), values.offsets[1:-1])

    def said(self, reply: Reply, sizes: Int[Tensor, " B"]) -> np.ndarray:
        return self.target.in_units(reply.scores.float().cpu().numpy())

    def nats(self, output: Output, batch: Batch) -> float:
        return float(self.objective()(output, batch).total)

    def objective(self) -> SquaredError:
        return SquaredError("places")

    def prediction(
        self,
        words: tuple[str, ...],
        said: np.ndarray,
        offsets: tuple[tuple[int, int], ...] | None = None,
        text: str = "",
    ) -> PlacePrediction:
        return PlacePrediction(words, values=tuple(said.tolist()), offsets=offsets, text=text)

    def scored(self, reply: Reply, said: np.ndarray) -> Tensor:
        """The number itself; of an angle, in degrees."""
        scores = reply.scores
        return torch.rad2deg(torch.atan2(scores[:, 0], scores[:, 1])) if self.target.angles else scores[:, 0]

    def worst(self, store: Store, judged: Judged) -> list[Example]:
        """The rows with the largest mean errors."""
        main = self.metrics[-1 if self.target.angles else 1]
        counts = main.count(judged.said, judged.meant)
        error = counts[:, 0] / counts[:, 1]
        rows = np.argsort(-error, kind="stable")[:WORST]
        examples = []
        for row, words in zip(rows.tolist(), self.words.texts(store, rows), strict=True):
            meant, said = ([f"{value:.4g}" for value in some[row]] for some in (judged.meant, judged.said))
            pieces = tuple(Piece(*one) for one in zip(words, meant, said, strict=True))
            examples.append(Example(text=" ".join(words), pieces=pieces, score=float(error[row])))
        return examples

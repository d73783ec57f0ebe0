"""One answer for each row: a label, or a number."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np
import torch

from seqlab.answers.answer import Answer, Exercise, Extent, Findings, Judged, Known, near
from seqlab.data.batches import FIXED, Plan, Rows, Seeds, in_order
from seqlab.data.store import Store, pad_rows
from seqlab.decode import DecodeConfig
from seqlab.fields.field import Given, ReadField
from seqlab.fields.label import LabelField
from seqlab.fields.number import NumberField
from seqlab.inference import by_row, predicted
from seqlab.metrics import MAE, MSE, R2, Accuracy, MacroF1, Metric
from seqlab.model import Model
from seqlab.objectives import CrossEntropy, SquaredError
from seqlab.parts import Batch, Facts, Objective, Output
from seqlab.report.attention import explain
from seqlab.report.evaluate import Scores, score_labels
from seqlab.report.explanation import Explanation
from seqlab.report.words import Example

INFERENCE_TOKENS = 16_384
"""Padded tokens in a batch when nothing has to be kept for a backward pass."""
WORST = 12

RowField = TypeVar("RowField", LabelField, NumberField)


@dataclass(frozen=True)
class RowPrediction:
    """What a model says of one input: a label with all labels' probabilities, or a number."""

    label: str | None = None
    scores: dict[str, float] | None = None
    value: float | None = None

    def to_json(self) -> dict[str, Any]:
        return {"value": self.value} if self.label is None else {"label": self.label, "scores": self.scores}

    def shown(self) -> str:
        return f"{self.value:.4g}" if self.label is None else f"{self.label}\t{self._score:.3f}"

    def columns(self) -> dict[str, Any]:
        if self.label is None:
            return {"predicted_value": self.value}
        return {"predicted_label": self.label, "predicted_score": self._score}

    @property
    def _score(self) -> float:
        assert self.scores is not None and self.label is not None
        return self.scores[self.label]


@dataclass(frozen=True)
class Embedding:
    """What a model makes of one input before it answers."""

    vector: tuple[float, ...]

    def to_json(self) -> dict[str, Any]:
        return {"vector": list(self.vector)}

    def shown(self) -> str:
        return " ".join(f"{number:.4g}" for number in self.vector)

    def columns(self) -> dict[str, Any]:
        return self.to_json()


def row_batch(store: Store, names: Sequence[str], rows: Rows, targets: np.ndarray | None = None) -> Batch:
    """These rows as padded tensors."""
    inputs = {name: pad_rows(store.fields[name], rows) for name in names if name in store.fields}
    return Batch(
        inputs, torch.from_numpy(rows), {} if targets is None else {"row": torch.from_numpy(targets[rows])}
    )


def targets_of(store: Store) -> np.ndarray:
    """Class numbers, or numbers on the scale of the training rows."""
    kept = np.asarray(store.arrays["target"])
    return kept.astype(np.float32 if kept.dtype.kind == "f" else np.int64)


class RowExercise(Exercise):
    """Rows and their targets, those of like length together."""

    def __init__(self, store: Store, reads: ReadField) -> None:
        self.store, self.reads, self.targets = store, reads, targets_of(store)

    def plan(self, budget: int, seed: int) -> Plan:
        return Plan(self.store.sizes(), budget, seed)

    def batch(self, rows: Rows, seeds: Seeds = FIXED) -> Batch:
        batch = row_batch(self.store, self.reads.names, rows, self.targets)
        return replace(batch, inputs=self.reads.varied(batch.inputs, rows, seeds))


class RowAnswer(Answer, Generic[RowField]):
    """One answer a row, from a pool and a head."""

    echoes = True
    target: RowField

    def __init__(self, known: Known, target: RowField, metrics: Sequence[Metric] = ()) -> None:
        """`metrics`: other ones than usual, the deciding one first."""
        super().__init__(known)
        self.target, self._metrics = target, list(metrics)

    @property
    def parts(self) -> Facts:
        return Facts(
            symbols=self.facts.symbols,
            outputs={"row": self.target.outputs},
            segments=self.reads.segments,
            features=self.reads.features,
        )

    @property
    def example(self) -> str:
        return self.reads.example

    def exercise(self, store: Store) -> RowExercise:
        return RowExercise(store, self.reads)

    def outputs(self, model: Model, store: Store) -> np.ndarray:
        """The model's scores (N C) for all rows, in their order."""
        return self._for_all(
            model, store, lambda output, _: output.answers["row"].scores.float().cpu().numpy()
        )

    def _for_all(self, model: Model, store: Store, wanted: Any) -> np.ndarray:
        names, groups = self.reads.names, in_order(store.sizes(), INFERENCE_TOKENS)
        return by_row(predicted(model, groups, lambda rows: row_batch(store, names, rows), wanted))

    def embed(self, model: Model, given: Sequence[Given]) -> list[Embedding]:
        """The pooled vector of each input, which the head reads: what is alike to the model lies close
        together."""
        return (
            [Embedding(tuple(row.tolist())) for row in self._for_all(model, self.read(given), _pooled)]
            if given
            else []
        )

    def predict(self, model: Model, given: Sequence[Given], how: DecodeConfig) -> list[RowPrediction]:
        return [self.prediction(row) for row in self.outputs(model, self.read(given))] if given else []

    @abstractmethod
    def objective(self, smoothing: float = 0.0) -> Objective:
        """What is learnt."""

    @abstractmethod
    def prediction(self, scores: np.ndarray) -> RowPrediction:
        """What the model's scores (C) of one row say."""

    def explain(
        self, model: Model, given: Given, how: DecodeConfig, target: str | None = None
    ) -> Explanation:
        store = self.read([given])
        batch = row_batch(store, self.reads.names, np.array([0]))
        rows = self.reads.pieces(given)
        pieces = rows[0] if rows and not self.reads.nested else rows
        said = self.prediction(self.outputs(model, store)[0]).to_json()
        text, picture = self.reads.shown(given), self.reads.picture(given)
        return explain(model, batch, text=text, pieces=pieces, said=said, picture=picture)

    def findings(self, model: Model, store: Store, part: Store, judged: Judged) -> Findings:
        maps = []
        if self.reads.segments == 1:
            shown = self.reads.texts(store, near(store.sizes()))
            maps = [self.explain(model, text, self.known.decode) for text in shown]
        return Findings(self.worst(store, judged), maps)

    @abstractmethod
    def worst(self, store: Store, judged: Judged) -> list[Example]:
        """Where it went most wrong."""

    def shown(self, store: Store, rows: np.ndarray) -> list[tuple[str, np.ndarray | None]]:
        """Rows as lines of a report, of pairs the first text; and as pictures, where they are such."""
        texts = self.reads.texts(store, rows)
        return [(self.reads.brief(text), self.reads.picture(text)) for text in texts]


def _pooled(output: Output, batch: Batch) -> np.ndarray:
    assert output.pooled is not None
    return output.pooled.vector.float().cpu().numpy()


class LabelAnswer(RowAnswer[LabelField]):
    """One of several labels."""

    @property
    def labels(self) -> tuple[str, ...]:
        return self.target.facts.labels

    @property
    def metrics(self) -> list[Metric]:
        return self._metrics or [Accuracy(), MacroF1(len(self.labels))]

    def judge(self, model: Model, part: Store, extent: Extent, how: DecodeConfig) -> Judged:
        shares, meant = probabilities(self.outputs(model, part)), targets_of(part)
        loss = float(-np.log(np.maximum(shares[np.arange(len(meant)), meant], 1e-12)).mean())
        return Judged(shares.argmax(axis=1), meant, loss, detail=shares)

    def objective(self, smoothing: float = 0.0) -> CrossEntropy:
        return CrossEntropy(smoothing=smoothing)

    def scores(self, said: np.ndarray, meant: np.ndarray, metrics: Sequence[Metric]) -> Scores:
        return score_labels(said, meant, self.labels, metrics, self.facts.task)

    def prediction(self, scores: np.ndarray) -> RowPrediction:
        shares = probabilities(scores)
        return RowPrediction(
            label=self.labels[int(shares.argmax())],
            scores={label: round(float(share), 6) for label, share in zip(self.labels, shares, strict=True)},
        )

    def worst(self, store: Store, judged: Judged) -> list[Example]:
        """The mistakes the model was surest of."""
        shares, chosen, meant = judged.detail, judged.said, judged.meant
        sure = np.where(chosen == meant, -1.0, shares.max(axis=1))
        rows = np.argsort(-sure, kind="stable")[: min(WORST, int((sure >= 0).sum()))]
        return [
            Example(
                text=text,
                picture=picture,
                meant=self.labels[meant[row]],
                said=self.labels[chosen[row]],
                score=float(sure[row]),
            )
            for (text, picture), row in zip(self.shown(store, rows), rows, strict=True)
        ]


class NumberAnswer(RowAnswer[NumberField]):
    """A number."""

    @property
    def metrics(self) -> list[Metric]:
        return self._metrics or [MSE(), MAE(), R2(self.target.facts.mean)]

    def judge(self, model: Model, part: Store, extent: Extent, how: DecodeConfig) -> Judged:
        said, meant = self.outputs(model, part)[:, 0], targets_of(part)
        loss = float(np.mean((said.astype(np.float64) - meant) ** 2))
        score = None if self._metrics else -loss * self.target.facts.spread**2
        return Judged(
            self.target.in_units(said), self.target.in_units(meant), loss, score, detail=(said, meant)
        )

    def objective(self, smoothing: float = 0.0) -> SquaredError:
        return SquaredError()

    def prediction(self, scores: np.ndarray) -> RowPrediction:
        return RowPrediction(value=float(scores[0]) * self.target.facts.spread + self.target.facts.mean)

    def worst(self, store: Store, judged: Judged) -> list[Example]:
        """The largest errors."""
        said, meant = judged.detail
        error = np.abs(said - meant) * self.target.facts.spread
        rows = np.argsort(-error, kind="stable")[:WORST]
        told = [[f"{value:.4g}" for value in (judged.meant[row], judged.said[row])] for row in rows]
        return [
            Example(text=text, picture=picture, meant=right, said=wrong, score=float(error[row]))
            for (text, picture), row, (right, wrong) in zip(self.shown(store, rows), rows, told, strict=True)
        ]


def probabilities(scores: np.ndarray) -> np.ndarray:
    """Softmax over the last axis, in double precision."""
    shifted = np.exp(scores.astype(np.float64) - scores.max(axis=-1, keepdims=True))
    shares: np.ndarray = shifted / shifted.sum(axis=-1, keepdims=True)
    return shares

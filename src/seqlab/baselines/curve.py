"""What numbers written from a vector have to be better than: the mean curve, and least squares."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

from seqlab.answers.answer import Judged
from seqlab.answers.curve import CurveAnswer
from seqlab.baselines.baseline import Baseline, Lesson
from seqlab.data.store import Store

RIDGE = 1e-4


class CurveBaseline(Baseline):
    """Linear in what it reads of the vector."""

    answer: CurveAnswer
    file = ""

    def __init__(self, answer: CurveAnswer, weights: np.ndarray) -> None:
        super().__init__(answer)
        self.weights = weights

    @classmethod
    def reads(cls, store: Store) -> np.ndarray:
        """The numbers that it is linear in (N K), a 1 among them."""
        return np.ones((store.rows, 1))

    @classmethod
    def learn(cls, lesson: Lesson, folder: Path) -> Baseline | None:
        answer, train = lesson.answer, lesson.stores["train"]
        assert isinstance(answer, CurveAnswer)
        read, came = cls.reads(train), answer.meant(train).scaled
        square = read.T @ read
        pull = RIDGE * np.trace(square) / len(square) * np.eye(len(square))
        weights = np.linalg.solve(square + pull, read.T @ came.reshape(len(came), -1)).astype(np.float32)
        save_file({"weights": weights}, folder / cls.file)
        return cls(answer, weights)

    @classmethod
    def load(cls, answer: CurveAnswer, folder: Path) -> Baseline | None:
        path = folder / cls.file
        return cls(answer, load_file(path)["weights"]) if path.exists() else None

    def judge(self, part: Store) -> Judged:
        meant = self.answer.meant(part)
        said = (self.reads(part) @ self.weights).reshape(meant.scaled.shape).astype(np.float32)
        return Judged(self.answer.forecasts(said), meant)


class MeanCurve(CurveBaseline):
    """The mean of the training rows, whatever the vector."""

    name, file = "mean curve", "mean_curve.safetensors"


class LinearCurve(CurveBaseline):
    """Each number of each step is linear in the vector, by least squares."""

    name, file = "linear", "linear_curve.safetensors"
    does = "is linear in the vector, by least squares"

    @classmethod
    def reads(cls, store: Store) -> np.ndarray:
        vectors = np.asarray(store.fields["values"].values, np.float64)
        return np.concatenate([vectors, np.ones((store.rows, 1))], axis=1)

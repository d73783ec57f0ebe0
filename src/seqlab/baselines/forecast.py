"""What a forecast has to be better than: the last value, the last season, and least squares."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np
from safetensors.numpy import load_file, save_file

from seqlab.answers.answer import Judged
from seqlab.answers.forecasting import ForecastAnswer
from seqlab.baselines.baseline import Baseline, Lesson
from seqlab.data.windows import Windows

MOST = 20_000
"""Windows that least squares are learnt from, at the most."""
RIDGE = 1e-3
"""Times the mean of the diagonal is added to it: steps of a window are nearly collinear."""


class ForecastBaseline(Baseline):
    """Its intervals come from its own errors on the validation windows, as the model's do."""

    answer: ForecastAnswer
    name: ClassVar[str]  # type: ignore[misc]
    file: ClassVar[str]

    def __init__(self, answer: ForecastAnswer, learnt: dict[str, np.ndarray]) -> None:
        super().__init__(answer)
        self.learnt = learnt

    @classmethod
    def learn(cls, lesson: Lesson, folder: Path) -> Baseline | None:
        answer = lesson.answer
        assert isinstance(answer, ForecastAnswer)
        if why_not := cls.why_not(answer):
            lesson.say(f"Baseline {cls.name}: left out, {why_not}")
            return None
        baseline = cls(answer, cls.weights(answer, lesson))
        windows = answer.calibration(lesson.stores)
        said = answer.forecasts(baseline.scaled(windows), windows)
        baseline.learnt["quantiles"] = answer.quantiles_of(said, answer.meant(windows))
        save_file(baseline.learnt, folder / cls.file)
        return baseline

    @classmethod
    def load(cls, answer: ForecastAnswer, folder: Path) -> Baseline | None:
        return cls(answer, load_file(folder / cls.file)) if (folder / cls.file).exists() else None

    @classmethod
    def why_not(cls, answer: ForecastAnswer) -> str:
        """Why it has nothing to say of these series, if so."""
        return ""

    @classmethod
    def weights(cls, answer: ForecastAnswer, lesson: Lesson) -> dict[str, np.ndarray]:
        """What is learnt from the training windows."""
        return {}

    def scaled(self, windows: Windows) -> np.ndarray:
        """Its scaled forecasts (N H C)."""
        raise NotImplementedError

    def judge(self, part: Windows) -> Judged:
        said = self.answer.forecasts(self.scaled(part), part)
        return Judged(
            self.answer.with_interval(said, part, self.learnt.get("quantiles")), self.answer.meant(part)
        )

    def past(self, windows: Windows) -> np.ndarray:
        """The targets of the windows (N T C)."""
        return windows.values(np.arange(len(windows)), 0, self.answer.how.window)[..., : self.answer.targets]


class Repeat(ForecastBaseline):
    """The last value, again and again."""

    name, does, file = "repeat", "says the last value again", "repeat.safetensors"

    def scaled(self, windows: Windows) -> np.ndarray:
        return self.past(windows)[:, -1:].repeat(self.answer.how.horizon, axis=1)


class SeasonalRepeat(ForecastBaseline):
    """What was one period ago."""

    name, file = "seasonal repeat", "seasonal.safetensors"
    does = "says what was one period earlier"

    @classmethod
    def why_not(cls, answer: ForecastAnswer) -> str:
        period, window = answer.field.facts.period, answer.how.window
        if period == 1:
            return "no season was found"
        return f"task.window={window} is less than the period of {period} steps" if period > window else ""

    def scaled(self, windows: Windows) -> np.ndarray:
        period, horizon = self.answer.field.facts.period, self.answer.how.horizon
        return self.past(windows)[:, -period:][:, np.arange(horizon) % period]


class LeastSquares(ForecastBaseline):
    """A matrix for each target, from its own window to its next steps, by least squares with a little
    ridge."""

    name, file = "least squares", "linear.safetensors"
    does = "is linear in the window of each target, by least squares"

    @classmethod
    def weights(cls, answer: ForecastAnswer, lesson: Lesson) -> dict[str, np.ndarray]:
        windows = Windows.of(lesson.stores["train"], answer.how.window + answer.how.horizon).some(MOST)
        every = np.arange(len(windows))
        past = windows.values(every, 0, answer.how.window)[..., : answer.targets].astype(np.float64)
        came = windows.values(every, answer.how.window, answer.how.horizon)[..., : answer.targets]
        found = []
        for target in range(answer.targets):
            read = np.concatenate([past[..., target], np.ones((len(past), 1))], axis=1)
            square = read.T @ read
            pull = RIDGE * np.trace(square) / len(square) * np.eye(len(square))
            found.append(np.linalg.solve(square + pull, read.T @ came[..., target]))
        return {"weights": np.stack(found).astype(np.float32)}  # C T+1 H

    def scaled(self, windows: Windows) -> np.ndarray:
        weights = self.learnt["weights"]
        said = np.einsum("ntc,cth->nhc", self.past(windows), weights[:, :-1]) + weights[:, -1].T
        return np.asarray(said, np.float32)

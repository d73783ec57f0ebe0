"""What both ways to forecast share: how windows are learnt from and scored, and intervals made."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from seqlab.answers.answer import Answer, Exercise, Extent, Findings, Judged, Known
from seqlab.answers.forecast_pictures import ForecastPictures
from seqlab.answers.forecast_predictions import Options, SeriesForecast, StepForecast
from seqlab.answers.series_ends import SeriesEnds, refuse_gap
from seqlab.data.batches import FIXED, Plan, Rows, Seeds
from seqlab.data.files import Place
from seqlab.data.read import Row
from seqlab.data.store import Store
from seqlab.data.windows import Windows
from seqlab.decode import DecodeConfig
from seqlab.errors import UserError
from seqlab.fields.field import Given
from seqlab.fields.series import SeriesField
from seqlab.files import write_json
from seqlab.forecast_metrics import METRICS, Forecasts, conformal_quantiles
from seqlab.metrics import Metric
from seqlab.model import Model
from seqlab.parts import Batch
from seqlab.report.explanation import Explanation
from seqlab.report.forecast import explained, save
from seqlab.seq import Seq

INTERVALS = "intervals.json"
NUMBERS_AT_ONCE = 400_000
"""Numbers of windows that are read in one batch where nothing is kept for a backward pass."""
WATCHED = 1000
"""Windows that are scored at each validation, evenly spread."""


class WindowExercise(Exercise):
    """All windows of the training rows, in another order each epoch."""

    def __init__(self, answer: ForecastAnswer, windows: Windows) -> None:
        self.answer, self.windows = answer, windows

    def plan(self, budget: int, seed: int) -> Plan:
        return Plan(np.full(len(self.windows), self.answer.how.window), budget, seed)

    def batch(self, rows: Rows, seeds: Seeds = FIXED) -> Batch:
        return self.answer.batch(self.windows, rows)


class ForecastAnswer(Answer):
    """Numbers of the next steps, with intervals that validation residuals tell, or the model itself."""

    echoes = False
    joins = False

    def __init__(self, known: Known, how: Options) -> None:
        super().__init__(known)
        field = known.fields[0]
        assert isinstance(field, SeriesField)
        self.field, self.how = field, how
        self.quantiles: Float[np.ndarray, "H C"] | None = None
        """Of the absolute scaled errors on windows that were not trained on."""
        self.from_half = False
        """Whether there is no test: then intervals come from the first half of the validation windows."""

    @property
    def targets(self) -> int:
        return len(self.field.facts.targets)

    @property
    def metrics(self) -> list[Metric]:
        return [kind() for kind in METRICS]

    @property
    def example(self) -> str:
        return ""

    @property
    def ask(self) -> str:
        return "--input past.csv"

    @property
    @abstractmethod
    def steps(self) -> int:
        """Steps that the model reads."""

    @abstractmethod
    def batch(self, windows: Windows, rows: Rows) -> Batch:
        """These windows as tensors."""

    @abstractmethod
    def means(self, model: Model, windows: Windows) -> Float[np.ndarray, "N H C"]:
        """The scaled forecasts."""

    @abstractmethod
    def drawn(self, model: Model, windows: Windows, seed: int) -> Float[np.ndarray, "N H C"]:
        """One scaled future of each window, drawn at random; a UserError where there is nothing to draw
        from."""

    @abstractmethod
    def spread(self, model: Model, windows: Windows) -> tuple[np.ndarray, np.ndarray] | None:
        """The scaled interval (N H C each) that the model itself says; None where it learned no variance."""

    # Levels -------------------------------------------------------------------------------------------------

    def levels(self, past: Float[np.ndarray, "B T F"]) -> Float[np.ndarray, "B 1 C"]:
        """What windows are read and forecast relative to."""
        own = past[..., : self.targets]
        if self.how.level == "last":
            return own[:, -1:]
        if self.how.level == "mean":
            return np.asarray(own.mean(axis=1, keepdims=True))
        return np.zeros_like(own[:, :1])

    def levels_of(self, windows: Windows) -> Float[np.ndarray, "N 1 C"]:
        return self.levels(windows.values(np.arange(len(windows)), 0, self.how.window))

    # Learning and scoring -----------------------------------------------------------------------------------

    def exercise(self, store: Store) -> WindowExercise:
        return WindowExercise(self, self.windows(store))

    def windows(self, store: Store) -> Windows:
        """All windows with the steps after them; a UserError where there are none or one is broken."""
        windows = Windows.of(store, self.how.window + self.how.horizon)
        refuse_gap(self.field, windows)
        if not len(windows):
            raise UserError(
                what=f"No {self.how.window + self.how.horizon} steps follow each other without a gap.",
                why="An example takes task.window steps and the task.horizon steps after them.",
                fix="Give longer series, or fill in the gaps.",
            )
        return windows

    def part(self, store: Store, extent: Extent) -> Windows:
        """All windows. Where intervals come from these same rows, those of the second half are scored."""
        windows = self.windows(store)
        if extent == "reported" and self.from_half:
            return replace(windows, counted=~windows.first_half)
        return windows.some(WATCHED) if extent == "watched" else windows

    def meant(self, windows: Windows) -> Forecasts:
        """What came."""
        rows = np.arange(len(windows))
        return self.forecasts(
            windows.values(rows, self.how.window, self.how.horizon)[..., : self.targets], windows
        )

    def forecasts(self, scaled: np.ndarray, windows: Windows) -> Forecasts:
        """Scaled forecasts with what belongs to them."""
        series = windows.series(np.arange(len(windows)))
        moves = np.array(self.field.facts.moves)[series]
        return Forecasts(scaled, self.field.in_units(scaled, series), moves, counted=windows.counted)

    def judge(self, model: Model, part: Windows, extent: Extent, how: DecodeConfig) -> Judged:
        said, meant = self.forecasts(self.means(model, part), part), self.meant(part)
        loss = float(((said.scaled.astype(np.float64) - meant.scaled) ** 2).mean())
        if extent == "watched":
            return Judged(said, meant, loss)
        own = self.spread(model, part) if self.how.intervals == "learned" else None
        return Judged(self.with_interval(said, part, self.quantiles, own), meant, loss)

    def with_interval(
        self, said: Forecasts, windows: Windows, quantiles: np.ndarray | None,
        own: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> Forecasts:  # fmt: skip
        """Forecasts with the interval of the model, or of so much on both sides."""
        series = windows.series(np.arange(len(windows)))
        if own is None:
            wide = np.zeros_like(said.scaled[0]) if quantiles is None else quantiles
            own = said.scaled - wide, said.scaled + wide
        low, high = (self.field.in_units(side, series) for side in own)
        return said.within(low, high)

    def quantiles_of(self, said: Forecasts, meant: Forecasts) -> Float[np.ndarray, "H C"]:
        """How far intervals reach to both sides."""
        errors = np.abs(said.scaled.astype(np.float64) - meant.scaled)
        return conformal_quantiles(errors, self.how.coverage)

    def calibration(self, stores: Mapping[str, Store]) -> Windows:
        """The validation windows that intervals are made from: with no test to score, the first half of each
        series."""
        windows = self.part(stores["valid"], "whole")
        return windows if "test" in stores else windows.only(np.flatnonzero(windows.first_half))

    def settle(self, model: Model, stores: Mapping[str, Store], folder: Path) -> None:
        windows = self.calibration(stores)
        self.quantiles = self.quantiles_of(
            self.forecasts(self.means(model, windows), windows), self.meant(windows)
        )
        self.from_half = "test" not in stores
        tree = {"coverage": self.how.coverage, "windows": len(windows), "half": self.from_half}
        write_json(folder / INTERVALS, tree | {"scaled_errors": self.quantiles.tolist()})

    def load(self, folder: Path) -> None:
        if (folder / INTERVALS).exists():
            tree = json.loads((folder / INTERVALS).read_text(encoding="utf-8"))
            self.quantiles, self.from_half = np.array(tree["scaled_errors"]), bool(tree["half"])

    # Asking -------------------------------------------------------------------------------------------------

    @property
    def ends(self) -> SeriesEnds:
        """Reads what forecasts are made from."""
        return SeriesEnds(self.field, self.how.window, self.how.horizon)

    def forecast(self, model: Model, windows: Windows, how: DecodeConfig | None = None) -> Forecasts:
        """The forecasts of windows, with intervals; with decode.sample one drawn future of each."""
        found = self.drawn(model, windows, how.seed) if how and how.sample else self.means(model, windows)
        said = self.forecasts(found, windows)
        own = self.spread(model, windows) if self.how.intervals == "learned" else None
        return self.with_interval(said, windows, self.quantiles, own)

    def predict(self, model: Model, given: Sequence[Given], how: DecodeConfig) -> list[SeriesForecast]:
        if not given:
            return []
        said = self.forecast(model, self.ends.typed(given), how)
        assert said.low is not None and said.high is not None
        sides = zip(*(side.tolist() for side in (said.units, said.low, said.high)), strict=True)
        return [SeriesForecast(*(tuple(tuple(step) for step in side) for side in one)) for one in sides]

    def rows(
        self, model: Model, rows: Iterable[Row], how: DecodeConfig
    ) -> Iterator[tuple[Row, StepForecast]]:
        """From the end of each series of a table, the next steps with their times: a row each."""
        ends, facts = self.ends.of_table(rows), self.field.facts
        said = self.forecast(model, ends.windows, how)
        assert said.low is not None and said.high is not None
        for place, number in enumerate(ends.series.tolist()):
            for step in range(self.how.horizon):
                cells: dict[str, Any] = {}
                if facts.series_column:
                    cells[facts.series_column] = facts.series[number]
                cells |= {facts.time_column or "step": ends.time(facts, place, step + 1) or step + 1}
                for column, name in enumerate(facts.targets):
                    cells[name] = float(said.units[place, step, column])
                    cells[f"{name}_low"] = float(said.low[place, step, column])
                    cells[f"{name}_high"] = float(said.high[place, step, column])
                yield Row(Place("", step + 1), {}, {}), StepForecast(cells)

    def draw(self, model: Model, rows: Iterable[Row], how: DecodeConfig, path: Path) -> None:
        """The forecast from the end of each series of a table, and the end itself."""
        ends = self.ends.of_table(rows)
        said = self.forecast(model, ends.windows, how)
        save(self.pictures.of_ends(ends, said), path)

    # Looking inside -----------------------------------------------------------------------------------------

    def explain(
        self, model: Model, given: Given, how: DecodeConfig, target: str | None = None
    ) -> Explanation:
        """What each step of the window adds to the mean of the forecast: gradient × input."""
        windows = self.ends.typed([given])
        said = self.forecast(model, windows)
        values = windows.values(np.array([0]), 0, self.how.window)
        units = self.field.in_units(values[..., : self.targets], np.zeros(1, np.int64))
        return explained(self.influence(model, windows), units[0], said.units[0], self.field.facts.targets)

    def influence(self, model: Model, windows: Windows) -> Float[np.ndarray, " T"]:
        """Gradient × input of the sum of the forecasts, for each step of the first window."""
        batch = self.batch(windows, np.array([0]))
        read = batch.inputs["values"]
        assert isinstance(read, Seq)
        values = read.values.clone().requires_grad_()
        model.eval()
        with torch.enable_grad():
            moved = replace(batch, inputs={**batch.inputs, "values": replace(read, values=values)})
            total = self.total(model, moved)
            [gradient] = torch.autograd.grad(total, [values])
        shares = (gradient * values).sum(dim=-1)[0, : self.how.window]
        return shares.detach().float().numpy()

    def total(self, model: Model, batch: Batch) -> Tensor:
        """The sum of the scaled forecasts of a batch."""
        [reply] = model(batch).answers.values()
        total: Tensor = reply.scores.sum()
        return total

    def findings(self, model: Model, store: Store, part: Windows, judged: Judged) -> Findings:
        return self.pictures.findings(part, judged.said, judged.meant)

    @property
    def pictures(self) -> ForecastPictures:
        """Draws what is forecast."""
        return ForecastPictures(self.field, self.how.window, self.how.horizon, self.how.coverage)

    def groups(self, windows: Windows) -> list[Rows]:
        size = max(1, NUMBERS_AT_ONCE // (self.steps * self.field_width))
        return [np.arange(start, min(start + size, len(windows))) for start in range(0, len(windows), size)]

    @property
    def field_width(self) -> int:
        return len(self.field.facts.columns) + 1

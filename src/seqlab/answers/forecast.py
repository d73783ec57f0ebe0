"""The next steps of a series: all at once from the window's states, or step by step by a decoder of numbers."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from seqlab.answers.answer import Answer, Exercise, Extent, Findings, Judged, Known
from seqlab.data.batches import FIXED, Plan, Rows, Seeds
from seqlab.data.files import Place
from seqlab.data.numbers import read_numbers
from seqlab.data.read import Row
from seqlab.data.store import Ragged, Store
from seqlab.data.times import seconds_of
from seqlab.decode import DecodeConfig
from seqlab.errors import UserError
from seqlab.fields.field import Given
from seqlab.fields.series import SeriesField, windows_of
from seqlab.files import write_json
from seqlab.forecast_metrics import METRICS, Forecasts
from seqlab.inference import by_row, computed, predicted
from seqlab.metrics import Metric
from seqlab.model import Model
from seqlab.outputs import GaussianReply
from seqlab.parts import Batch, Facts, Output, State
from seqlab.report.attention import Explanation
from seqlab.report.forecast import Curves, explained, save
from seqlab.report.words import Example
from seqlab.seq import Nested, Seq

INTERVALS = "intervals.json"
NUMBERS_AT_ONCE = 400_000
"""Numbers of windows that are read in one batch where nothing is kept for a backward pass."""
WATCHED, WORST, DRAWN = 1000, 6, 4


@dataclass(frozen=True)
class Options:
    """How a series is forecast, as the task's settings say."""

    window: int
    horizon: int
    level: str
    """What each window is read relative to: none, mean or last."""
    coverage: float
    """Share of what comes that intervals are to hold."""
    intervals: str
    """conformal, or learned."""
    trajectories: int


@dataclass(frozen=True)
class Windows:
    """Windows of a store: which rows are seen, and which come after."""

    store: Store
    order: NDArray[np.int64]
    begins: NDArray[np.int64]
    """The place in `order` where each window begins."""
    counted: NDArray[np.bool_] | None = None

    @staticmethod
    def of(store: Store, length: int) -> Windows:
        return Windows(store, *windows_of(store, length))

    def __len__(self) -> int:
        return len(self.begins)

    def some(self, most: int) -> Windows:
        """At most so many, evenly spread."""
        if len(self) <= most:
            return self
        return replace(self, begins=self.begins[np.linspace(0, len(self) - 1, most).astype(np.int64)])

    def values(self, rows: Rows, start: int, count: int) -> Float[np.ndarray, "B T F"]:
        """`count` steps of these windows, from their step `start` on."""
        places = self.order[self.begins[rows][:, None] + np.arange(start, start + count)]
        return np.asarray(self.store.fields["values"].values[places], np.float32)

    def series(self, rows: Rows) -> Int[np.ndarray, " B"]:
        return np.asarray(self.store.arrays["series"])[self.order[self.begins[rows]]]


@dataclass(frozen=True)
class Forecast:
    """The next steps of one series, in the data's units."""

    values: tuple[tuple[float, ...], ...]
    """H steps of C targets."""
    low: tuple[tuple[float, ...], ...] = ()
    high: tuple[tuple[float, ...], ...] = ()

    def to_json(self) -> dict[str, Any]:
        tree: dict[str, Any] = {"values": _plain(self.values)}
        return tree | ({"low": _plain(self.low), "high": _plain(self.high)} if self.low else {})

    def shown(self) -> str:
        steps = [" ".join(f"{number:.5g}" for number in step) for step in self.values]
        return ", ".join(steps)

    def columns(self) -> dict[str, Any]:
        return {"forecast": self.shown()}


@dataclass(frozen=True)
class StepForecast:
    """One step of a forecast: a row of a table."""

    cells: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        return dict(self.cells)

    def shown(self) -> str:
        return "\t".join(
            f"{cell:.6g}" if isinstance(cell, float) else str(cell) for cell in self.cells.values()
        )

    def columns(self) -> dict[str, Any]:
        return {
            name: round(cell, 6) if isinstance(cell, float) else cell for name, cell in self.cells.items()
        }


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
        """Whether the intervals were made from the first half of the validation windows, as there is no test."""

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
    def batch(self, windows: Windows, rows: Rows, known: Float[np.ndarray, "B H F"] | None = None) -> Batch:
        """These windows as tensors; `known` are the numbers of the future, where they are not in the store."""

    @abstractmethod
    def means(self, model: Model, windows: Windows) -> Float[np.ndarray, "N H C"]:
        """The scaled forecasts."""

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

    # Learning and scoring -----------------------------------------------------------------------------------

    def exercise(self, store: Store) -> WindowExercise:
        windows = Windows.of(store, self.how.window + self.how.horizon)
        if not len(windows):
            raise UserError(
                what=f"No {self.how.window + self.how.horizon} steps follow each other without a gap.",
                why="An example takes task.window steps and the task.horizon steps after them.",
                fix="Set a shorter task.window or task.horizon, or fill in the gaps.",
            )
        return WindowExercise(self, windows)

    def part(self, store: Store, extent: Extent) -> Windows:
        """All windows. Where intervals come from these same rows, the second half has theirs scored."""
        windows = Windows.of(store, self.how.window + self.how.horizon)
        if not len(windows):
            raise UserError(
                what=f"There are no {self.how.window + self.how.horizon} steps in a row to score.",
                why="A forecast is scored where task.window steps are followed by task.horizon more.",
                fix="Give longer series.",
            )
        if extent == "reported" and self.from_half:
            return replace(windows, counted=np.arange(len(windows)) >= len(windows) // 2)
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
        """The ⌈(n+1)(coverage)⌉-th smallest absolute error of each step and target (split conformal; Vovk et al.
        2005): of n exchangeable windows and one more, the new one's lies below it with that probability."""
        errors = np.sort(np.abs(said.scaled.astype(np.float64) - meant.scaled), axis=0)
        rank = int(np.ceil((len(errors) + 1) * self.how.coverage)) - 1
        return np.asarray(errors[min(rank, len(errors) - 1)])

    def calibration(self, stores: Mapping[str, Store]) -> Windows:
        """The validation windows that intervals are made from: with no test to score, their first half."""
        windows = self.part(stores["valid"], "whole")
        return (
            windows
            if "test" in stores
            else replace(windows, begins=windows.begins[: max(1, len(windows) // 2)])
        )

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

    def given(self, given: Sequence[Given]) -> Windows:
        """The ends of series that a user typed or gave."""
        facts = self.field.facts
        if len(facts.series) > 1 or facts.future:
            raise UserError(
                what="This model forecasts several series, or needs to know the future of some columns.",
                why="Numbers alone do not say of which series they are, or what is known of the future.",
                fix="Give a file with the same columns as the training data: --input FILE",
            )
        ends = []
        for one in given:
            try:
                numbers = read_numbers(one)
            except ValueError as error:
                raise UserError(
                    what=f"This is no series of numbers: {error}.",
                    why="The model reads numbers, one row a step.",
                    fix='Write them with commas between them: "0.1, 0.4, 0.3"; in Python, give a list.',
                ) from None
            if numbers.shape[1] != len(facts.columns):
                raise UserError(
                    what=f"Each step has {numbers.shape[1]} numbers, and the model reads {len(facts.columns)}.",
                    why=f"It learnt from the columns {', '.join(facts.columns)}.",
                    fix="Give these, in this order.",
                )
            ends.append(self._end(numbers))
        return self._windows(np.stack(ends), np.zeros(len(ends), np.int64), None)

    def _end(self, numbers: np.ndarray, name: str = "") -> np.ndarray:
        """The last window of a series."""
        of = f' of "{name}"' if name else ""
        if len(numbers) < self.how.window:
            raise UserError(
                what=f"There are {len(numbers):,} steps{of}, but the model reads {self.how.window} (task.window).",
                why="It learnt to forecast from windows of that length.",
                fix="Give more of the past.",
            )
        end = numbers[-self.how.window :]
        if not np.isfinite(end).all():
            raise UserError(
                what=f"There is a gap in the last {self.how.window} steps{of}.",
                why="The forecast is made from them.",
                fix="Fill in what is missing.",
            )
        return end

    def _windows(self, past: np.ndarray, series: np.ndarray, future: np.ndarray | None) -> Windows:
        """Windows (N T F, in units) with the known numbers of the future (N H F), or none, as a store of their
        own."""
        facts, steps = self.field.facts, self.how.window + self.how.horizon
        whole = np.zeros((len(past), steps, past.shape[2]))
        whole[:, : self.how.window] = past
        if future is not None:
            whole[:, self.how.window :] = future
        mean, spread = (np.array(one)[series][:, None] for one in (facts.means, facts.spreads))
        scaled = ((whole - mean) / spread).astype(np.float32).reshape(-1, past.shape[2])
        rows = np.arange(len(scaled))
        store = Store(
            {"values": Ragged(scaled, np.arange(len(scaled) + 1))}, {"series": np.repeat(series, steps)}
        )
        return Windows(store, rows, np.arange(len(past)) * steps)

    def forecast(self, model: Model, windows: Windows) -> Forecasts:
        said = self.forecasts(self.means(model, windows), windows)
        own = self.spread(model, windows) if self.how.intervals == "learned" else None
        return self.with_interval(said, windows, self.quantiles, own)

    def predict(self, model: Model, given: Sequence[Given], how: DecodeConfig) -> list[Forecast]:
        if not given:
            return []
        said = self.forecast(model, self.given(given))
        assert said.low is not None and said.high is not None
        sides = zip(*(side.tolist() for side in (said.units, said.low, said.high)), strict=True)
        return [Forecast(*(tuple(tuple(step) for step in side) for side in one)) for one in sides]

    def rows(
        self, model: Model, rows: Iterable[Row], how: DecodeConfig
    ) -> Iterator[tuple[Row, StepForecast]]:
        """From the end of each series of a table, the next steps with their times: a row each."""
        facts, names = self.field.facts, self.field.facts.targets
        pasts, futures, last = self._ends(rows)
        windows = self._windows(np.stack(list(pasts.values())), np.array(list(pasts)), futures)
        said = self.forecast(model, windows)
        assert said.low is not None and said.high is not None
        for place, number in enumerate(pasts):
            for step in range(self.how.horizon):
                cells: dict[str, Any] = (
                    {facts.series_column: facts.series[number]} if facts.series_column else {}
                )
                if facts.time_column:
                    cells[facts.time_column] = facts.step.written(facts.step.after(last[number], step + 1))
                else:
                    cells["step"] = step + 1
                for column, name in enumerate(names):
                    cells[name] = float(said.units[place, step, column])
                    cells[f"{name}_low"] = float(said.low[place, step, column])
                    cells[f"{name}_high"] = float(said.high[place, step, column])
                yield Row(Place("", step + 1), {}, {}), StepForecast(cells)

    def _ends(self, rows: Iterable[Row]) -> tuple[dict[int, np.ndarray], np.ndarray | None, dict[int, float]]:
        """The last window of each series of a table, what it tells of the future, and the last times.

        Rows whose targets are empty tell what is known of the future.
        """
        facts = self.field.facts
        numbers = {name: number for number, name in enumerate(facts.series)}
        seen: dict[int, list[list[float]]] = {}
        times: dict[int, list[float]] = {}
        for row in rows:
            name = row.cells.get("series", "")
            if name not in numbers:
                raise UserError(
                    what=f'{row.place}: the series "{name}" was not in the training data.',
                    why="Each series is forecast on a scale that was learnt from it.",
                    fix="Train on it, too, or leave it out.",
                )
            cells = [row.cells[column].strip() for column in facts.columns]
            seen.setdefault(numbers[name], []).append(
                [float(cell) if cell else float("nan") for cell in cells]
            )
            time = seconds_of(row.cells["time"], facts.step.style) if facts.time_column else None
            times.setdefault(numbers[name], []).append(
                float(len(seen[numbers[name]])) if time is None else time
            )
        pasts, futures, last = {}, [], {}
        for number, steps in seen.items():
            order = np.argsort(times[number], kind="stable")
            whole, when = np.array(steps)[order], np.array(times[number])[order]
            told = ~np.isnan(whole[:, : self.targets]).all(axis=1)
            end = int(np.flatnonzero(told)[-1]) + 1 if told.any() else 0
            pasts[number], last[number] = self._end(whole[:end], facts.series[number]), float(when[end - 1])
            if facts.future:
                after = whole[end : end + self.how.horizon]
                known = after[:, len(facts.targets) + len(facts.past) :]
                if len(after) < self.how.horizon or not np.isfinite(known).all():
                    raise UserError(
                        what=f"{len(after)} rows follow the last known {facts.targets[0]}, and"
                        f" {self.how.horizon} are needed.",
                        why=f"The model is told {', '.join(facts.future)} of each step that it forecasts"
                        " (task.future).",
                        fix="Add rows with these columns filled in and the targets left empty.",
                    )
                futures.append(np.nan_to_num(after))
        if not pasts:
            raise UserError(what="There is no row to forecast from.", fix="Give the past of the series.")
        return pasts, np.stack(futures) if futures else None, last

    # Looking inside -----------------------------------------------------------------------------------------

    def explain(
        self, model: Model, given: Given, how: DecodeConfig, target: str | None = None
    ) -> Explanation:
        """What each step of the window adds to the mean of the forecast: gradient × input."""
        windows = self.given([given])
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
        said, meant = judged.said, judged.meant
        errors = ((said.scaled - meant.scaled) ** 2).mean(axis=(1, 2))
        apart = np.arange(0, len(part), max(1, self.how.horizon))  # windows that do not overlap
        worst = apart[np.argsort(-errors[apart], kind="stable")[:WORST]]
        shown = np.unique(np.linspace(0, len(part) - 1, min(DRAWN, len(part))).astype(np.int64))
        return Findings(
            worst=[Example(text=self._when(part, row), score=float(errors[row])) for row in worst.tolist()],
            pictures=[self.curves(part, row, said, meant).html() for row in shown.tolist()],
        )

    def _when(self, part: Windows, row: int) -> str:
        """Where a forecast begins."""
        facts = self.field.facts
        first = part.order[part.begins[row] + self.how.window]
        name = facts.series[int(part.store.arrays["series"][first])]
        if not facts.time_column:
            return f"{name} step {int(first) + 1}".strip()
        steps = int(part.store.arrays["time"][first])
        return f"{name} {facts.step.written(facts.step.after(facts.origin, steps))}".strip()

    def curves(self, part: Windows, row: int, said: Forecasts, meant: Forecasts | None) -> Curves:
        """A window and its forecast, to be drawn."""
        series = part.series(np.array([row]))
        past = self.field.in_units(
            part.values(np.array([row]), 0, self.how.window)[..., : self.targets], series
        )
        assert said.low is not None and said.high is not None
        return Curves(
            title=self._when(part, row), names=self.field.facts.targets, past=past[0], said=said.units[row],
            low=said.low[row], high=said.high[row], came=None if meant is None else meant.units[row],
            coverage=self.how.coverage,
        )  # fmt: skip

    def picture(self, model: Model, rows: Iterable[Row]) -> list[Curves]:
        """The forecast from the end of each series of a table, to be drawn."""
        pasts, futures, last = self._ends(rows)
        windows = self._windows(np.stack(list(pasts.values())), np.array(list(pasts)), futures)
        said = self.forecast(model, windows)
        facts = self.field.facts
        found = []
        for place, number in enumerate(pasts):
            when = facts.step.written(facts.step.after(last[number], 1)) if facts.time_column else ""
            curves = self.curves(windows, place, said, None)
            found.append(
                replace(curves, title=f"{facts.series[number]} from {when}".strip() if when else "forecast")
            )
        return found

    def draw(self, model: Model, rows: Iterable[Row], how: DecodeConfig, path: Path) -> None:
        save(self.picture(model, rows), path)

    def _groups(self, windows: Windows) -> list[Rows]:
        size = max(1, NUMBERS_AT_ONCE // (self.steps * self.field_width))
        return [np.arange(start, min(start + size, len(windows))) for start in range(0, len(windows), size)]

    @property
    def field_width(self) -> int:
        return len(self.field.facts.columns) + 1


class DirectForecast(ForecastAnswer):
    """All H·C numbers at once, from a pool and a head over the window's states."""

    @property
    def steps(self) -> int:
        return self.how.window + (self.how.horizon if self.field.facts.future else 0)

    @property
    def parts(self) -> Facts:
        facts = self.field.facts
        return Facts(
            symbols={}, outputs={"row": self.how.horizon * self.targets}, channels=self.targets, window=self.steps,
            features={"values": len(facts.columns) + bool(facts.future)},
        )  # fmt: skip

    def batch(self, windows: Windows, rows: Rows, known: np.ndarray | None = None) -> Batch:
        """The window (B T F); where something is known of the future, its steps follow with zeros for what is
        not known, and a feature that tells them apart."""
        how, facts = self.how, self.field.facts
        past = windows.values(rows, 0, how.window)
        future = windows.values(rows, how.window, how.horizon)
        level = self.levels(past)
        target = future[..., : self.targets] - level
        read = past.copy()
        read[..., : self.targets] -= level
        if facts.future:
            after = future.copy()
            after[..., : len(facts.targets) + len(facts.past)] = 0
            read = np.concatenate([read, after], axis=1)
            told = np.zeros((*read.shape[:2], 1), np.float32)
            told[:, how.window :] = 1
            read = np.concatenate([read, told], axis=2)
        mask = torch.ones(read.shape[:2], dtype=torch.bool)
        inputs: dict[str, Seq | Nested] = {"values": Seq(torch.from_numpy(read), mask)}
        return Batch(inputs, torch.from_numpy(rows), {"row": torch.from_numpy(target.reshape(len(rows), -1))})

    def means(self, model: Model, windows: Windows) -> np.ndarray:
        return self._with_level(
            self._all(model, windows, lambda output, _: _numpy(output.answers["row"].scores)), windows
        )

    def spread(self, model: Model, windows: Windows) -> tuple[np.ndarray, np.ndarray] | None:
        def both(output: Output, _: Batch) -> np.ndarray:
            reply = output.answers["row"]
            assert isinstance(reply, GaussianReply) and reply.log_variance is not None
            return np.stack([_numpy(reply.scores), _numpy(torch.exp(reply.log_variance / 2))], axis=1)

        found = self._all(model, windows, both)
        mean, deviation = (self._shaped(found[:, place]) for place in (0, 1))
        mean = mean + self._levels(windows)
        reach = normal_quantile((1 + self.how.coverage) / 2) * deviation
        return mean - reach, mean + reach

    def _all(self, model: Model, windows: Windows, wanted: Any) -> np.ndarray:
        return by_row(predicted(model, self._groups(windows), lambda rows: self.batch(windows, rows), wanted))

    def _shaped(self, flat: np.ndarray) -> np.ndarray:
        return flat.reshape(len(flat), self.how.horizon, self.targets)

    def _levels(self, windows: Windows) -> np.ndarray:
        return self.levels(windows.values(np.arange(len(windows)), 0, self.how.window))

    def _with_level(self, flat: np.ndarray, windows: Windows) -> np.ndarray:
        return np.asarray(self._shaped(flat) + self._levels(windows))


class StepsForecast(ForecastAnswer):
    """One step after the other: a decoder is fed the numbers of the step before, its own once they are its
    own, and what is known of the step to come (SPEC R3 and R6 with real numbers)."""

    @property
    def steps(self) -> int:
        return self.how.window

    @property
    def parts(self) -> Facts:
        facts = self.field.facts
        features = {"values": len(facts.columns), "written": self.targets, "beside": len(facts.future)}
        return Facts(symbols={}, features=features, window=self.steps)

    def batch(self, windows: Windows, rows: Rows, known: np.ndarray | None = None) -> Batch:
        """The window (B T F) is read; what is written begins with its last step: y_t beside what is known of
        step t+1 (B H+1 C+K)."""
        how = self.how
        whole = windows.values(rows, 0, how.window + how.horizon)
        level = self.levels(whole[:, : how.window])
        whole[..., : self.targets] -= level
        past = whole[:, : how.window]
        beside = whole[:, how.window :, len(self.field.facts.columns) - len(self.field.facts.future) :]
        beside = np.concatenate([beside, np.zeros_like(beside[:, :1])], axis=1)
        written = np.concatenate([whole[:, how.window - 1 :, : self.targets], beside], axis=2)
        seqs = [
            Seq(torch.from_numpy(one), torch.ones(one.shape[:2], dtype=torch.bool)) for one in (past, written)
        ]
        inputs: dict[str, Seq | Nested] = {"values": seqs[0]}
        return Batch(inputs, torch.from_numpy(rows), {"written": seqs[1]})

    def means(self, model: Model, windows: Windows) -> np.ndarray:
        groups = self._groups(windows)
        found = computed(
            model,
            groups,
            lambda rows: self.batch(windows, rows),
            lambda batch: _numpy(self.rollout(model, batch)),
        )
        return np.asarray(by_row(found) + self._levels(windows))

    def _levels(self, windows: Windows) -> np.ndarray:
        return self.levels(windows.values(np.arange(len(windows)), 0, self.how.window))

    def rollout(
        self, model: Model, batch: Batch, noise: Float[Tensor, "S H C"] | None = None
    ) -> Float[Tensor, "N H C"]:
        """What the decoder writes when it is fed its own means; or, with noise (in standard deviations), what it
        draws: S trajectories for each row, one after the other."""
        decoder = model.decoder
        assert decoder is not None
        _, memory = model.encoded(batch)
        told = batch.written.values
        state: State = decoder.start(memory, batch.size)
        if noise is not None:
            rows = torch.arange(batch.size, device=told.device).repeat_interleave(len(noise))
            state, told, noise = state.pick(rows), told.index_select(0, rows), noise.repeat(batch.size, 1, 1)
        said, found = told[:, 0, : self.targets], []
        for step in range(self.how.horizon):
            fed = torch.cat([said, told[:, step, self.targets :]], dim=-1).unsqueeze(1)
            states, state = decoder.advance(fed, state)
            reply = decoder.answer(states.squeeze(1))
            said = reply.scores
            if noise is not None:
                assert isinstance(reply, GaussianReply)
                logs = torch.zeros_like(said) if reply.log_variance is None else reply.log_variance
                said = said + torch.exp(logs / 2) * noise[:, step]
            found.append(said)
        return torch.stack(found, dim=1)

    def trajectories(self, model: Model, windows: Windows) -> Float[np.ndarray, "N S H C"]:
        """Drawn futures of each window, scaled. All windows share the noise, so none depends on another."""
        shape = (self.how.trajectories, self.how.horizon, self.targets)
        noise = torch.randn(shape, generator=torch.Generator().manual_seed(0))

        def drawn(batch: Batch) -> np.ndarray:
            return _numpy(self.rollout(model, batch, noise.to(batch.rows.device))).reshape(batch.size, *shape)

        size = max(1, len(self._groups(windows)[0]) // max(1, self.how.trajectories // 4))
        groups = [np.arange(start, min(start + size, len(windows))) for start in range(0, len(windows), size)]
        found = by_row(computed(model, groups, lambda rows: self.batch(windows, rows), drawn))
        return np.asarray(found + self._levels(windows)[:, None])

    def spread(self, model: Model, windows: Windows) -> tuple[np.ndarray, np.ndarray] | None:
        """Quantiles of drawn trajectories."""
        low, high = [], []
        for some in np.array_split(np.arange(len(windows)), max(1, len(windows) // 500)):
            paths = self.trajectories(model, replace(windows, begins=windows.begins[some]))
            sides = np.quantile(paths, [(1 - self.how.coverage) / 2, (1 + self.how.coverage) / 2], axis=1)
            low.append(sides[0])
            high.append(sides[1])
        return np.concatenate(low), np.concatenate(high)

    def total(self, model: Model, batch: Batch) -> Tensor:
        return self.rollout(model, batch).sum()


def normal_quantile(share: float) -> float:
    """The number below which a standard normal variable lies with this probability."""
    return float(torch.special.ndtri(torch.tensor(share, dtype=torch.float64)))


def _numpy(tensor: Tensor) -> np.ndarray:
    return np.asarray(tensor.detach().float().cpu().numpy())


def _plain(steps: Sequence[Sequence[float]]) -> list[Any]:
    """Steps as JSON has them: plain numbers where each has one."""
    rounded = [[round(number, 6) for number in step] for step in steps]
    return [step[0] for step in rounded] if all(len(step) == 1 for step in rounded) else rounded

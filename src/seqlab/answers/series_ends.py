"""The ends of series that a user gave or that stand in a table: what the next steps are forecast from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from seqlab.data.files import Place
from seqlab.data.numbers import read_numbers
from seqlab.data.read import Row
from seqlab.data.store import Ragged, Store
from seqlab.data.times import seconds_of
from seqlab.data.windows import Windows
from seqlab.errors import UserError
from seqlab.fields.field import Given
from seqlab.fields.series import SeriesFacts, SeriesField, number_or_gap, unknown_series


@dataclass(frozen=True)
class Ends:
    """The last window of each of N series, and what is known of the steps after it."""

    windows: Windows
    series: Int[np.ndarray, " N"]
    last: Float[np.ndarray, " N"]
    """The time of the last step of each."""

    def time(self, facts: SeriesFacts, place: int, steps: int) -> str:
        """The time so many steps after the end of a series, as it is written; empty where there are none."""
        return facts.step.written(facts.step.after(self.last[place], steps)) if facts.time_column else ""


@dataclass(frozen=True)
class SeriesEnds:
    """Reads ends: windows of so many steps, and of so many after them where something is known of these."""

    field: SeriesField
    window: int
    horizon: int

    def typed(self, given: Sequence[Given]) -> Windows:
        """Of series that a user typed or gave in Python, in the data's units."""
        facts = self.field.facts
        if len(facts.series) > 1 or facts.future:
            raise UserError(
                what="This model forecasts several series, or needs to know the future of some columns.",
                why="Numbers alone do not say of which series they are, or what is known of the future.",
                fix="Give a file with the same columns as the training data: --input FILE",
            )
        ends = np.stack([self._last(self._numbers(one)) for one in given])
        return self._stored(ends, np.zeros(len(ends), np.int64), None)

    def _numbers(self, given: Given) -> Float[np.ndarray, "T F"]:
        columns = self.field.facts.columns
        try:
            numbers = read_numbers(given)
        except ValueError as error:
            raise UserError(
                what=f"This is no series of numbers: {error}.",
                why="The model reads numbers, one row a step.",
                fix='Write them with commas between them: "0.1, 0.4, 0.3"; in Python, give a list.',
            ) from None
        if numbers.shape[1] != len(columns):
            raise UserError(
                what=f"Each step has {numbers.shape[1]} numbers; the model reads {len(columns)}.",
                why=f"It learnt from the columns {', '.join(columns)}.",
                fix="Give these, in this order.",
            )
        return numbers

    def of_table(self, rows: Iterable[Row]) -> Ends:
        """Of each series of a table. Rows whose targets are all empty come after the end: they tell what is
        known of the future."""
        facts = self.field.facts
        numbers = {name: number for number, name in enumerate(facts.series)}
        seen: dict[int, list[tuple[Place, float, list[float]]]] = {}
        for row in rows:
            name = row.cells.get("series", "")
            if name not in numbers:
                raise unknown_series(f"{row.place}: ", name)
            steps = seen.setdefault(numbers[name], [])
            time = seconds_of(row.cells["time"], facts.step.style) if facts.time_column else None
            cells = [number_or_gap(row.cells[column]) for column in facts.columns]
            steps.append((row.place, float(len(steps)) if time is None else time, cells))
        if not seen:
            raise UserError(
                what="There is no row to forecast from.",
                why="The next steps are forecast from those before them.",
                fix="Give the past of the series.",
            )
        found = [self._end_of(facts.series[number], steps) for number, steps in seen.items()]
        series = np.array(list(seen), np.int64)
        future = np.stack([after for _, after, _ in found]) if facts.future else None
        windows = self._stored(np.stack([end for end, _, _ in found]), series, future)
        return Ends(windows, series, np.array([last for _, _, last in found]))

    def _end_of(
        self, name: str, steps: Sequence[tuple[Place, float, list[float]]]
    ) -> tuple[Float[np.ndarray, "T F"], Float[np.ndarray, "H F"], float]:
        """The last window of a series, what is known of the steps after it, and the time of its last step."""
        ordered = sorted(steps, key=lambda step: step[1])
        places = [place for place, _, _ in ordered]
        times = np.array([time for _, time, _ in ordered])
        values = np.array([cells for _, _, cells in ordered])
        told = ~np.isnan(values[:, : len(self.field.facts.targets)]).all(axis=1)
        end = int(np.flatnonzero(told)[-1]) + 1 if told.any() else 0
        last = self._last(values[:end], name, places[:end])
        ahead = slice(end, end + self.horizon) if self.field.facts.future else slice(end, end)
        self._refuse_gaps(times[end - self.window : ahead.stop], places[end - self.window : ahead.stop], name)
        return last, self._known(values[ahead], places[end - 1]), float(times[end - 1])

    def _last(
        self, numbers: Float[np.ndarray, "S F"], name: str = "", places: Sequence[Place] = ()
    ) -> Float[np.ndarray, "T F"]:
        """The last window of a series, which is whole."""
        of = f' of the series "{name}"' if name else ""
        where = f"{places[-1]}: " if places else ""
        if len(numbers) < self.window:
            raise UserError(
                what=f"{where}there are {len(numbers):,} steps{of}; the model reads {self.window}.",
                why=f"It learnt to forecast from windows of that length (task.window={self.window}).",
                fix="Give more of the past.",
            )
        end = numbers[-self.window :]
        gaps = np.flatnonzero(~np.isfinite(end).all(axis=1))
        if len(gaps):
            where = f"{places[len(numbers) - self.window + int(gaps[0])]}: " if places else ""
            raise UserError(
                what=f"{where}a number is missing in the last {self.window} steps{of}.",
                why="The forecast is made from them.",
                fix="Fill in what is missing.",
            )
        return end

    def _refuse_gaps(self, times: Float[np.ndarray, " T"], places: Sequence[Place], name: str) -> None:
        """Steps that come twice, or are left out, where each is one after the one before it."""
        step = self.field.facts.step
        wrong = np.flatnonzero(np.abs(np.diff(step.index(times)) - 1) > 1e-6)
        if not self.field.facts.time_column or not len(wrong):
            return
        before, after = (step.written(times[wrong[0] + one]) for one in (0, 1))
        of = f' of the series "{name}"' if name else ""
        raise UserError(
            what=f"{places[wrong[0] + 1]}: after {before}{of} comes {after}, and not one {step} later."
            if before != after
            else f"{places[wrong[0] + 1]}: the time {after}{of} comes twice.",
            why=f"The forecast is made from the last {self.window} steps, one after the other.",
            fix="Fill in what is missing, and leave each time once.",
        )

    def _known(self, after: Float[np.ndarray, "S F"], end: Place) -> Float[np.ndarray, "H F"]:
        """The steps after the end, as far as they are known."""
        facts = self.field.facts
        known = after[:, len(facts.columns) - len(facts.future) :]
        if facts.future and (len(after) < self.horizon or not np.isfinite(known).all()):
            whole = int(np.isfinite(known).all(axis=1).sum())
            raise UserError(
                what=f"{end}: {facts.targets[0]} ends here, and {whole} complete rows follow it;"
                f" {self.horizon} are needed.",
                why=f"The model is told of each step that it forecasts: {', '.join(facts.future)}.",
                fix="Add rows with these columns filled in and the targets left empty.",
            )
        return np.asarray(np.nan_to_num(after))

    def _stored(
        self,
        past: Float[np.ndarray, "N T F"],
        series: Int[np.ndarray, " N"],
        future: Float[np.ndarray, "N H F"] | None,
    ) -> Windows:
        """Windows in the data's units, and what is known of the future, as a store of their own."""
        facts, steps = self.field.facts, self.window + self.horizon
        whole = np.zeros((len(past), steps, past.shape[2]))
        whole[:, : self.window] = past
        if future is not None:
            whole[:, self.window :] = future
        mean, spread = (np.array(one)[series][:, None] for one in (facts.means, facts.spreads))
        scaled = ((whole - mean) / spread).astype(np.float32).reshape(-1, past.shape[2])
        values = Ragged(scaled, np.arange(len(scaled) + 1))
        store = Store({"values": values}, {"series": np.repeat(series, steps)})
        return Windows(store, np.arange(len(scaled)), np.arange(len(past)) * steps)


def refuse_gap(field: SeriesField, windows: Windows) -> None:
    """A UserError where a stored step is left out or comes twice, unless gaps only break windows."""
    if field.gaps == "break" or windows.gap is None:
        return
    facts = field.facts
    steps = [round(float(windows.store.arrays["time"][row])) for row in windows.gap]
    before, after = (facts.step.written(facts.step.after(facts.origin, step)) for step in steps)
    raise UserError(
        what=f"After {before} comes {after}, and not one {facts.step} later.",
        why="The model was trained where no step is left out (task.gaps=stop).",
        fix="Fill in what is missing, leave each time once, or train with task.gaps=break.",
    )

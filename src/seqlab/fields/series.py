"""Series over time that are forecast: a row a step, in columns side by side or one below the other."""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

from seqlab.data.cells import Cells
from seqlab.data.files import Place
from seqlab.data.numbers import is_number
from seqlab.data.read import DataConfig, Role, Table
from seqlab.data.store import Ragged
from seqlab.data.survey import Look, Problem, Split, Splits, first_of, text_hash
from seqlab.data.times import Step, period_of, seconds_of, step_of, style_of
from seqlab.errors import UserError, did_you_mean
from seqlab.fields.field import DataFacts, Encoded, Given, ReadField

TIME = ("time", "t", "date", "ds", "timestamp", "datetime", "month", "day", "hour", "year", "week")
SERIES = ("unique_id", "series_id", "item_id", "series")
LOOKED_AT = 50
SHARE = 0.1
"""Of each series, what is held out at its end where nothing else is told."""
Gaps = Literal["stop", "break"]


@dataclass(frozen=True)
class SeriesFacts:
    time_column: str = ""
    series_column: str = ""
    targets: tuple[str, ...] = ()
    past: tuple[str, ...] = ()
    future: tuple[str, ...] = ()
    step: Step = Step()
    """The distance from each row to the next."""
    origin: float = 0.0
    """The first time of all, from which steps are counted."""
    series: tuple[str, ...] = ()
    """Names of the series; one without a name where the table has no column for them."""
    means: tuple[tuple[float, ...], ...] = ()
    spreads: tuple[tuple[float, ...], ...] = ()
    """Of each series and column (targets, past, future) over the training rows."""
    period: int = 1
    """Steps after which the series come again; 1: never."""
    moves: tuple[tuple[float, ...], ...] = ()
    """Mean absolute change over one period of each series and target in the training rows: MASE is
    measured by it."""

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.targets, *self.past, *self.future)


class SeriesLook(Look):
    """All times and numbers of a data set."""

    def __init__(self, facts: SeriesFacts, names: dict[str, int]) -> None:
        self.facts, self.names = facts, names
        self._series, self._times = array("q"), array("d")
        self._numbers = [array("d") for _ in facts.columns]

    def see(self, cells: Cells, mark: int) -> None:
        name = cells.get("series", "")
        self._series.append(self.names.setdefault(name, len(self.names)))
        time = seconds_of(cells["time"], self.facts.step.style) if "time" in cells else None
        self._times.append(len(self._times) if time is None else time)
        for column, numbers in zip(self.facts.columns, self._numbers, strict=True):
            numbers.append(number_or_gap(cells[column]))
        self.characters += len(self._numbers)

    # Asked for when all rows have been seen; there may be thousands of series, so each is made once.

    @cached_property
    def series(self) -> NDArray[np.int64]:
        return np.array(self._series, np.int64)

    @cached_property
    def times(self) -> NDArray[np.float64]:
        return np.array(self._times, np.float64)

    @cached_property
    def numbers(self) -> NDArray[np.float64]:
        """Rows × columns; NaN where a cell is empty."""
        return np.array([np.array(one) for one in self._numbers]).T

    @cached_property
    def rows(self) -> dict[int, NDArray[np.int64]]:
        """The rows of each series that has some, as they stand in the data."""
        order = np.argsort(self.series, kind="stable")
        numbers, starts = np.unique(self.series[order], return_index=True)
        return dict(zip(numbers.tolist(), np.split(order, starts[1:]), strict=False))


class SeriesField(ReadField):
    """Series with regular steps, whole. `window` steps are seen to say the next `horizon`.

    Validation and test rows that are cut off the end of the training file are stored with the `window` steps
    before them, which are read and never forecast.
    """

    name = "series"
    kind = "values"
    noun = "series"
    yours = "0.1, 0.4, 0.3"
    names = ("values",)
    Facts = SeriesFacts
    facts: SeriesFacts

    def __init__(
        self, window: int, horizon: int, targets: tuple[str, ...], past: tuple[str, ...],
        future: tuple[str, ...], gaps: Gaps, learnt: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self.window, self.horizon, self.gaps = window, horizon, gaps
        self.told = (targets, past, future)
        self.facts = SeriesFacts()
        self._names: dict[str, int] = {}
        self._split: tuple[str, ...] = ()

    # Columns ------------------------------------------------------------------------------------------------

    def roles(self, found: Mapping[str, str] | None = None) -> list[Role]:
        return []

    def open(self, names: Sequence[str], data: DataConfig, roles: Sequence[Role]) -> Table:
        self._split = data.split
        if not self.facts.targets:
            self.facts = self._found(names, data)
        return self._table(names, data, whole=self.gaps == "stop")

    def asked(self, names: Sequence[str], data: DataConfig, roles: Sequence[Role]) -> Table:
        """The targets of steps that are to be forecast are empty."""
        return self._table(names, data, whole=False)

    def _table(self, names: Sequence[str], data: DataConfig, whole: bool) -> Table:
        """Rows with these very columns. whole: no number may be missing."""
        roles = self._roles(whole)
        return Table(names, replace(data, columns={role.name: role.usual[0] for role in roles}), roles)

    def _roles(self, whole: bool) -> list[Role]:
        facts = self.facts
        roles = [Role("time", (facts.time_column,), check=self._no_time)] if facts.time_column else []
        roles += [Role("series", (facts.series_column,))] if facts.series_column else []
        return roles + [
            Role(
                column, (column,), required=whole, number=whole, check=None if whole else _gap_allowed(column)
            )
            for column in facts.columns
        ]

    def _no_time(self, cells: Mapping[str, str]) -> tuple[str, str] | None:
        if seconds_of(cells["time"], self.facts.step.style) is not None:
            return None
        how = "a number" if self.facts.step.style == "number" else f"written as {self.facts.step.style}"
        return f'the time "{cells["time"][:40]}" is not {how}.', "Write all times in one way."

    def _found(self, names: Sequence[str], data: DataConfig) -> SeriesFacts:
        """Which columns of the first file are times, names and numbers."""
        table = Table(names, replace(data, columns={}), [])
        rows = [row.record for row in itertools.islice(table.rows(), LOOKED_AT)]
        if data.header is None and _named_above(rows):
            table = Table(names, replace(data, columns={}, header=True), [])
            rows = [row.record for row in itertools.islice(table.rows(), LOOKED_AT)]
        columns = list(rows[0]) if rows else []
        file = table.sources[0].name
        series = _column(file, "series", data.columns, columns, SERIES)
        time = _column(file, "time", data.columns, columns, TIME)
        if not time:
            plain = [column for column in columns if column != series]
            time = next((one for one in plain if all(_is_date(row[one]) for row in rows)), "")
            if not time and not series and plain and _counts(row[plain[0]] for row in rows):
                time = plain[0]
        style = style_of(rows[0][time]) if time else None
        if time and style is None:
            raise UserError(
                what=f'{file}: the time "{rows[0][time][:40]}" in the column "{time}" is not understood.',
                why="Times tell whether a step is missing, and what the forecast is for.",
                fix="Write them as 2024-03-01 or 2024-03-01 12:00:00, or as whole numbers.",
            )
        targets, past, future = self._numeric(
            file, rows, [c for c in columns if c not in (time, series)], series
        )
        return SeriesFacts(time, series, targets, past, future, Step(style=style or "number"))

    def _numeric(
        self, file: str, rows: Sequence[Mapping[str, str]], columns: Sequence[str], series: str
    ) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        """Targets, past and future columns."""
        for column in itertools.chain(*self.told):
            if column not in columns:
                raise UserError(
                    what=f'{file}: there is no column "{column}".{did_you_mean(column, columns)}',
                    why=f"The columns are: {', '.join(columns[:30])}",
                    fix="Mend task.targets, task.past or task.future.",
                )
        targets, past, future = self.told
        if not targets:
            free = [c for c in columns if c not in (*past, *future)]
            numeric = [c for c in free if sum(is_number(row[c]) for row in rows) > len(rows) / 2]
            targets = ("y",) if series and "y" in numeric else tuple(numeric)
        if not targets:
            raise UserError(
                what=f"{file}: no column holds numbers.",
                why="A forecast is of numbers, one row a step.",
                fix="Name the column: task.targets=...",
            )
        return targets, past, future

    # What is there ------------------------------------------------------------------------------------------

    @property
    def counted(self) -> str:
        return "steps"

    def mark(self, cells: Cells) -> int:
        return text_hash(cells["time"], cells.get("series", "")) if "time" in cells else 0

    def look(self, split: str) -> SeriesLook:
        return SeriesLook(self.facts, self._names)

    def words(self, split: Split) -> float:
        return float(self.window)

    def parts(self, splits: Splits, strata: NDArray[np.int64] | None) -> dict[str, NDArray[np.bool_]]:
        """The end of each series is held out: a tenth, or what data.split says."""
        train = first_of(splits)
        look: SeriesLook = train.looks[self.name]
        wanted = [name for name in ("valid", "test") if name not in splits]
        if not train.rows or not (self._split or "valid" in wanted):
            return {"train": np.ones(train.rows, bool)}
        edges = self._edges(look)
        parts = {name: np.zeros(train.rows, bool) for name in ("train", *wanted)}
        for rows in look.rows.values():
            order = rows[np.argsort(look.times[rows], kind="stable")]
            bounds = edges(look.times[order])
            for name, (start, end) in zip(
                ("train", "valid", "test"), itertools.pairwise(bounds), strict=False
            ):
                if name in parts and end > start:
                    before = 0 if name == "train" else self.window
                    parts[name][order[max(0, start - before) : end]] = True
        return {name: mask for name, mask in parts.items() if name == "train" or mask.any()}

    def _edges(self, look: SeriesLook) -> Any:
        """Gives, for the times of a series, the rows at which train, valid and test begin, and where all
        ends."""
        told = list(self._split)
        if not told:
            return lambda times: [0, len(times) - max(1, round(SHARE * len(times))), len(times)]
        if all(is_number(one) and 0 < float(one) < 1 for one in told):
            shares = np.array([float(one) for one in told])
            if len(told) not in (2, 3) or abs(shares.sum() - 1) > 1e-6:
                raise UserError(
                    what=f"data.split={','.join(told)}: these are not two or three shares that add up to 1.",
                    why="They say how much is for training, validation and test, in the order of time.",
                    fix="For instance: data.split=0.7,0.1,0.2",
                )
            sums = np.concatenate([[0.0], np.cumsum(shares)])
            return lambda times: [round(share * len(times)) for share in sums.tolist()]
        style = self.facts.step.style
        days = [seconds_of(one, style) if style == "number" else _any_time(one) for one in told]
        if len(told) not in (1, 2, 3) or any(day is None for day in days) or days != sorted(days):  # type: ignore[type-var]
            raise UserError(
                what=f"data.split={','.join(told)}: these are neither shares nor times in order.",
                why="Times say when validation begins, when the test begins, and when it ends.",
                fix="For instance: data.split=2017-06-26,2017-10-24 or data.split=0.7,0.1,0.2",
            )
        open_end = len(told) < 3
        return lambda times: [
            0,
            *np.searchsorted(times, np.array(days, float)).tolist(),
            *([len(times)] if open_end else []),
        ]

    def too_few(self, splits: Splits, strata: NDArray[np.int64] | None) -> Iterator[Problem]:
        least = self.window + self.horizon
        for name, split in splits.items():
            look: SeriesLook = split.looks[self.name]
            masks = self.parts(splits, strata) if name == first_of(splits).name else {}
            step = self._step(first_of(splits).looks[self.name])
            for part, chosen in (masks or {name: np.ones(split.rows, bool)}).items():
                longest = self._longest(look, np.flatnonzero(chosen), step)
                where = split.place(0) if split.rows else None
                if max(longest, default=0) < least:
                    yield Problem(
                        "error",
                        f"{part}: the longest series{' without a gap' if self.gaps == 'break' else ''} has"
                        f" {max(longest, default=0):,} steps, but one example takes {least:,}:"
                        f" task.window={self.window} and task.horizon={self.horizon}.",
                        where,
                        "Give longer series, or a shorter window or horizon"
                        + (", or another data.split." if part != name else "."),
                    )
                elif short := sum(one < least for one in longest):
                    yield Problem(
                        "warning",
                        f"{part}: {short:,} of {len(longest):,} series are left out: an example takes"
                        f" {least:,} steps{' without a gap' if self.gaps == 'break' else ''}.",
                        where,
                        "A shorter window or horizon would leave out fewer.",
                    )

    def _longest(self, look: SeriesLook, rows: NDArray[np.int64], step: Step) -> list[int]:
        """Of each series that has some of these rows, the most of them that follow each other; without a gap,
        where gaps are no error anyway."""
        if not len(rows):
            return []
        order = rows[np.lexsort((look.times[rows], look.series[rows]))]
        joined = np.diff(look.series[order]) == 0
        if self.gaps == "break":
            whole = np.asarray(np.isfinite(look.numbers[order]).all(axis=1))
            joined &= whole[1:] & whole[:-1]
            if self.facts.time_column:
                joined &= np.abs(np.diff(step.index(look.times[order])) - 1) < 1e-6
        starts = np.concatenate([[0], np.flatnonzero(~joined) + 1])
        sizes = np.diff(np.append(starts, len(order)))
        series = look.series[order][starts]
        return [int(sizes[series == number].max()) for number in np.unique(series)]

    def problems(self, splits: Splits) -> Iterator[Problem]:
        known = set(first_of(splits).looks[self.name].series.tolist())
        for split in splits.values():
            look: SeriesLook = split.looks[self.name]
            if not split.rows:
                continue
            step = self._step(first_of(splits).looks[self.name])
            names = list(self._names)
            for number, rows in look.rows.items():
                name = names[number]
                of = f' of the series "{name}"' if name else ""
                if number not in known:
                    yield Problem(
                        "error", f'{split.name}: the series "{name}" is not in the training data.',
                        split.place(int(rows[0])),
                        "Each series is learnt on a scale of its own: train on it, too.",
                    )  # fmt: skip
                yield from self._times(split, look, rows, of, step)
            yield from self._constant(split, look)

    def _times(
        self, split: Split, look: SeriesLook, rows: NDArray[np.int64], of: str, step: Step
    ) -> Iterator[Problem]:
        """Times that are out of order, come again, or leave something out."""
        if not self.facts.time_column:
            return
        written = look.times[rows]
        moves = np.diff(step.index(written))
        for wrong, what, fix in (
            (np.diff(written) == 0, "comes twice", "Remove one of the two rows, or name the column that tells"
             " series apart: data.columns.series=..."),
            (np.diff(written) < 0, "stands after a later one", "Sort the rows of each series by time."),
        ):  # fmt: skip
            for place in np.flatnonzero(wrong)[:1].tolist():
                row = int(rows[place + 1])
                told = f"the time {self.facts.step.written(written[place + 1])}{of} {what}."
                yield Problem("error", told, split.place(row), fix)
        gaps = np.flatnonzero((moves > 0) & (np.abs(moves - 1) > 1e-6))
        if len(gaps) and (moves > 0).all():
            row, many = int(rows[gaps[0] + 1]), len(gaps)
            missing = f"{moves[gaps[0]] - 1:g}" if moves[gaps[0]] > 1 else "less than one"
            told = (
                f"after {self.facts.step.written(written[gaps[0]])}{of} comes"
                f" {self.facts.step.written(written[gaps[0] + 1])}: {missing}"
                f" {f'step of a {step} is' if missing == '1' else f'steps of a {step} are'} left out"
            )
            more = f", and there are {many - 1:,} more such gaps." if many > 1 else "."
            yield Problem(
                "error" if self.gaps == "stop" else "note", f"{split.name}: {told}{more}", split.place(row),
                "Fill in the missing rows; or with task.gaps=break no window reaches over a gap.",
            )  # fmt: skip

    def _constant(self, split: Split, look: SeriesLook) -> Iterator[Problem]:
        if split.name != "train":
            return
        for place, column in enumerate(self.facts.targets):
            numbers = look.numbers[:, place]
            told = numbers[np.isfinite(numbers)]
            if not len(told) or told.max() == told.min():
                same = f"the value {told[0]:g} at every step" if len(told) else "no number"
                yield Problem(
                    "error", f'"{column}" has {same}.', split.place(0),
                    "There is nothing to forecast: leave it out of task.targets.",
                )  # fmt: skip
            elif still := [
                number for number, rows in look.rows.items() if len(set(numbers[rows].tolist())) == 1
            ]:
                name = list(self._names)[still[0]]
                yield Problem(
                    "warning", f'"{column}" never changes in {len(still):,} of {len(look.rows):,} series, the'
                    f' first of which is "{name}".', split.place(int(look.rows[still[0]][0])),
                    "There is nothing to forecast of them: leave them out.",
                )  # fmt: skip

    def leaks(self, splits: Splits) -> Iterator[Problem]:
        if self.facts.time_column:
            yield from super().leaks(splits)

    def found_lines(self, found: Mapping[str, str]) -> list[str]:
        facts = self.facts
        parts = [f'time is column "{facts.time_column}"' if facts.time_column else "no times: rows are steps"]
        parts += [f'series are told apart by "{facts.series_column}"'] if facts.series_column else []
        for name, columns in (("targets", facts.targets), ("past", facts.past), ("future", facts.future)):
            if columns:
                parts.append(f"{name}: {', '.join(columns[:12])}{' ...' if len(columns) > 12 else ''}")
        return ["columns: " + "; ".join(parts)]

    def lines(self, split: Split) -> list[str]:
        look: SeriesLook = split.looks[self.name]
        step = self._step(look)
        written = self.facts.step.written
        count = len(look.rows)
        series = f"{count:,} series, " if self.facts.series_column else ""
        lines = [
            f"  {series}from {written(look.times.min())} to {written(look.times.max())}, step: {step}"
            if self.facts.time_column
            else f"  {series}{split.rows:,} steps"
        ]
        for column, numbers in list(zip(self.facts.columns, look.numbers.T, strict=True))[:12]:
            low, half, high = np.nanquantile(numbers, [0, 0.5, 1])
            lines.append(f"  {column}: from {low:.6g} to {high:.6g}, half up to {half:.6g}")
        return lines

    def held_line(self, splits: Splits) -> list[str]:
        """What is held out of the training file."""
        train = first_of(splits)
        look: SeriesLook = train.looks[self.name]
        lines = []
        for name, mask in self.parts(splits, None).items():
            if name != "train" and self.facts.time_column:
                own = [np.sort(look.times[rows[mask[rows]]]) for rows in look.rows.values()]
                first = min(times[min(self.window, len(times) - 1)] for times in own if len(times))
                lines.append(f"{name}: held out from {self.facts.step.written(first)} on")
        return lines

    # Learning -----------------------------------------------------------------------------------------------

    def _step(self, look: SeriesLook) -> Step:
        if not self.facts.time_column:
            return Step()
        first = look.rows[int(look.series[0])]
        return step_of(look.times[first], self.facts.step.style)

    def settle(self, splits: Splits, chosen: NDArray[np.bool_]) -> None:
        look: SeriesLook = first_of(splits).looks[self.name]
        step = self._step(look)
        names = tuple(name for name, number in self._names.items() if number in look.rows)
        targets = len(self.facts.targets)
        rows = [look.rows[self._names[name]] for name in names]
        series = [look.numbers[some[chosen[some]]] for some in rows]
        period = period_of([one[:, place] for one in series for place in range(targets)], step)
        with np.errstate(all="ignore"):
            means = [np.nan_to_num(np.nanmean(one, axis=0)) for one in series]
            spreads = [np.nan_to_num(np.nanstd(one, axis=0)) for one in series]
            moves = [_moves(one[:, :targets], period) for one in series]
        self.facts = replace(
            self.facts, step=step, origin=float(look.times.min()), series=names, period=period,
            means=tuple(tuple(one.tolist()) for one in means),
            spreads=tuple(tuple(np.where(one > 1e-12, one, 1.0).tolist()) for one in spreads),
            moves=tuple(tuple(one.tolist()) for one in moves),
        )  # fmt: skip

    def settings(self) -> Mapping[str, Any]:
        return {
            "window": self.window, "gaps": self.gaps, "columns": self.facts.columns, "split": self._split,
            "scale": [self.facts.means, self.facts.spreads],
        }  # fmt: skip

    def length(self, facts: DataFacts) -> float:
        return float(self.window)

    def amount(self, facts: DataFacts) -> str:
        return f"{facts.rows['train']:,} training steps"

    # Numbers ------------------------------------------------------------------------------------------------

    def encode(self, rows: Sequence[Cells], places: Sequence[Place] | None, keep: bool) -> Encoded:
        facts = self.facts
        numbers = {name: number for number, name in enumerate(facts.series)}
        for row, cells in enumerate(rows):
            if cells.get("series", "") not in numbers:
                raise unknown_series(f"{places[row]}: " if places else "", cells.get("series", ""))
        series = np.array([numbers[cells.get("series", "")] for cells in rows], np.int64)
        values = np.array(
            [[number_or_gap(cells[column]) for column in facts.columns] for cells in rows], np.float64
        )
        scaled = ((values - np.array(facts.means)[series]) / np.array(facts.spreads)[series]).astype(
            np.float32
        )
        arrays: dict[str, NDArray[Any]] = {"series": series}
        if facts.time_column:
            times = np.array([seconds_of(cells["time"], facts.step.style) for cells in rows], np.float64)
            arrays["time"] = np.rint(facts.step.index(times) - facts.step.index(np.array([facts.origin])))
        return Encoded({"values": Ragged(scaled, np.arange(len(rows) + 1))}, arrays)

    def cells_of(self, given: Given) -> Cells:
        raise AssertionError("windows are read by their answer")

    def text_of(self, cells: Cells) -> Given:
        return ""

    def in_units(
        self, values: Float[np.ndarray, "N *S C"], series: Int[np.ndarray, " N"]
    ) -> Float[np.ndarray, "N *S C"]:
        """Scaled targets of these series as they stand in the data."""
        shape = (len(series), *[1] * (values.ndim - 2), len(self.facts.targets))
        places = slice(0, len(self.facts.targets))
        mean = np.array(self.facts.means)[series, places].reshape(shape)
        spread = np.array(self.facts.spreads)[series, places].reshape(shape)
        return np.asarray(values * spread + mean, np.float64)


def _moves(numbers: NDArray[np.float64], period: int) -> NDArray[np.float64]:
    """Mean absolute change over a period, by column; 1 where nothing moves."""
    moved = (
        np.abs(numbers[period:] - numbers[:-period])
        if len(numbers) > period
        else np.ones((1, numbers.shape[1]))
    )
    mean = np.nan_to_num(np.nanmean(moved, axis=0), nan=1.0)
    return np.where(mean > 0, mean, 1.0)


def _column(
    file: str, role: str, told: Mapping[str, str], columns: Sequence[str], usual: Sequence[str]
) -> str:
    """The column that the user has told, or one of a usual name."""
    if name := told.get(role):
        if name not in columns:
            raise UserError(
                what=f'{file}: there is no column "{name}".{did_you_mean(name, columns)}',
                why=f"The columns are: {', '.join(columns[:30])}",
                fix=f"Mend data.columns.{role}.",
            )
        return name
    by_name = {column.lower(): column for column in columns}
    return next((by_name[name] for name in usual if name in by_name), "")


def _named_above(rows: Sequence[Mapping[str, str]]) -> bool:
    """Whether the first row names the columns: a word stands over numbers, of which some may be missing."""
    if len(rows) < 2 or list(rows[0]) != [str(place) for place in range(1, len(rows[0]) + 1)]:
        return False
    first, *rest = rows
    words = [column for column, cell in first.items() if cell.strip() and not _is_number_or_gap(cell)]
    return any(sum(is_number(row[column]) for row in rest) > len(rest) / 2 for column in words)


def _is_number_or_gap(cell: str) -> bool:
    return not cell.strip() or is_number(cell) or cell.strip().lower() in ("nan", "na", "null")


def _is_date(cell: str) -> bool:
    return style_of(cell) not in (None, "number")


def _counts(cells: Iterable[str]) -> bool:
    """Whether these are numbers that rise by the same amount from each to the next."""
    numbers = [float(cell) if is_number(cell) else float("nan") for cell in cells]
    moves = np.diff(numbers)
    return len(moves) > 1 and bool((moves > 0).all() and np.allclose(moves, moves[0]))


def _any_time(cell: str) -> float | None:
    style = style_of(cell)
    return None if style in (None, "number") else seconds_of(cell, str(style))


def _gap_allowed(column: str) -> Any:
    def check(cells: Mapping[str, str]) -> tuple[str, str] | None:
        if _is_number_or_gap(cells[column]):
            return None
        return (
            f'the {column} "{cells[column][:40]}" is not a number.',
            "Write a plain number, or leave the cell empty.",
        )

    return check


def number_or_gap(cell: str) -> float:
    """The number in a cell; NaN where there is none."""
    return float(cell) if is_number(cell) else float("nan")


def unknown_series(where: str, name: str) -> UserError:
    """Of a series that was not trained on."""
    return UserError(
        what=f'{where}the series "{name}" was not in the training data.',
        why="Each series is forecast on a scale that was learnt from it.",
        fix="Train on it, too, or leave it out.",
    )

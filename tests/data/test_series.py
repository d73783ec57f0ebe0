"""Series become windows that never reach over a gap, another series, or from training into what is scored."""

from __future__ import annotations

import dataclasses

import made_series
import numpy as np
import pytest

from seqlab.answers.forecasting import ForecastAnswer
from seqlab.baselines.baseline import Lesson
from seqlab.baselines.forecast import LeastSquares, Repeat, SeasonalRepeat
from seqlab.data.seasons import AHEAD, days_of_sales, write_sales
from seqlab.data.store import Ragged, Store
from seqlab.data.windows import Windows, windows_of
from seqlab.settings import TrainRequest
from seqlab.tasks.prepare import Files, Prepared

WINDOW, HORIZON = 14, 5


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("SEQLAB_CACHE", str(tmp_path_factory.mktemp("cache")))


def prepared(path, preset="linear", **settings) -> Prepared:
    told = {"data.train": (str(path),), "task.window": WINDOW, "task.horizon": HORIZON}
    told |= {name.replace("__", "."): value for name, value in settings.items()}
    chosen = TrainRequest(task="forecast", preset=preset, overrides=told).settings()
    files = Files(chosen.task, chosen.data)
    files.refuse_faults()
    return files.prepare(chosen.data, chosen.model, chosen.decode)


def store(values, series=None, time=None) -> Store:
    values = np.asarray(values, np.float32)
    arrays = {"series": np.zeros(len(values), np.int64) if series is None else np.array(series)}
    if time is not None:
        arrays["time"] = np.array(time, np.float64)
    return Store({"values": Ragged(values[:, None], np.arange(len(values) + 1))}, arrays)


# Windows ----------------------------------------------------------------------------------------------------


def seen(kept: Store, length: int) -> list[list[float]]:
    windows = Windows.of(kept, length)
    return windows.values(np.arange(len(windows)), 0, length)[..., 0].tolist()


def test_windows_are_all_runs_of_steps():
    assert seen(store([1, 2, 3, 4]), 3) == [[1, 2, 3], [2, 3, 4]]
    assert seen(store([1, 2]), 3) == []


def test_windows_never_reach_over_a_missing_step():
    assert seen(store([1, 2, 3, 4, 5], time=[0, 1, 3, 4, 5]), 2) == [[1, 2], [3, 4], [4, 5]]
    assert seen(store([1, 2, 2, 3], time=[0, 1, 1, 2]), 2) == [[1, 2], [2, 3]]  # a time that comes twice


def test_windows_never_reach_over_a_missing_number():
    assert seen(store([1, np.nan, 3, 4, np.nan]), 2) == [[3, 4]]


def test_windows_never_reach_over_another_series():
    """Also where rows of several series take turns, or times are out of order."""
    assert seen(store([1, 10, 2, 20, 3], series=[0, 1, 0, 1, 0]), 2) == [[1, 2], [2, 3], [10, 20]]
    kept = store([3, 1, 2, 20, 10], series=[0, 0, 0, 1, 1], time=[2, 0, 1, 1, 0])
    assert seen(kept, 2) == [[1, 2], [2, 3], [10, 20]]
    kept = store([1, 2, 3, 4], series=[0, 0, 1, 1], time=[0, 1, 2, 3])  # one goes on where the other ends
    assert seen(kept, 2) == [[1, 2], [3, 4]]


def test_the_first_half_is_that_of_each_series():
    windows = Windows.of(store(range(9), series=[0] * 5 + [1] * 4), 2)
    assert windows.first_half.tolist() == [True, True, False, False, True, True, False]
    assert windows.only(np.array([1, 6])).series(np.array([0, 1])).tolist() == [0, 1]


# What is held out -------------------------------------------------------------------------------------------


def forecast_rows(kept: Store) -> set[tuple[int, int]]:
    """The steps that are forecast from some window, as (series, time)."""
    windows = Windows.of(kept, WINDOW + HORIZON)
    steps = np.arange(WINDOW, WINDOW + HORIZON)
    rows = windows.order[windows.begins[:, None] + steps].ravel()
    series, time = (np.asarray(kept.arrays[name])[rows] for name in ("series", "time"))
    return set(zip(series.tolist(), time.tolist(), strict=True))


def rows_of(kept: Store) -> set[tuple[int, int]]:
    return set(zip(*(np.asarray(kept.arrays[name]).tolist() for name in ("series", "time")), strict=True))


SPLITS = {
    "a tenth": {},
    "two shares": {"data__split": ("0.8", "0.2")},
    "three shares": {"data__split": ("0.6", "0.2", "0.2")},
    "dates": {"data__split": ("2023-04-01", "2023-05-01")},
    "dates to an end": {"data__split": ("2023-04-01", "2023-04-21", "2023-05-11")},
    "one date": {"data__split": ("2023-05-01",)},
}


@pytest.mark.parametrize("name", SPLITS)
@pytest.mark.parametrize("make", [made_series.dated, made_series.long], ids=["one", "several"])
def test_what_is_scored_never_lies_in_training(name, make, tmp_path):
    path = made_series.written(tmp_path / "series.csv", make(160))
    ready = prepared(path, **SPLITS[name])
    trained, scored = rows_of(ready.stores["train"]), set()
    assert len(ready.stores) == (3 if name in ("three shares", "dates", "dates to an end") else 2)
    for split, kept in ready.stores.items():
        if split != "train":
            targets = forecast_rows(kept)
            assert targets and not targets & trained and not targets & scored
            scored |= targets
    if name == "a tenth":
        assert len(scored) == 16 * len(ready.answer.field.facts.series)
    if name == "dates":  # days since the first of January
        assert min(time for _, time in scored) == 31 + 28 + 31


@pytest.mark.parametrize("split", ["valid", "test"])
def test_files_of_their_own_are_scored_on_their_own_rows(split, tmp_path):
    path = made_series.written(tmp_path / "series.csv", made_series.dated(100))
    later = made_series.dated(160).splitlines(keepends=True)
    more = made_series.written(tmp_path / "more.csv", "".join([later[0], *later[101:]]))
    ready = prepared(path, **{f"data__{split}": (str(more),)})
    targets = forecast_rows(ready.stores[split])
    assert len(targets) == 60 - WINDOW and not targets & rows_of(ready.stores["train"])


def test_the_scale_is_that_of_the_training_rows_alone(tmp_path):
    """Other numbers in the rows that are held out change nothing of what is learnt."""
    text = made_series.dated(160)
    lines = text.splitlines(keepends=True)
    lines[130:] = [line.rstrip("\n").replace(",", ",9") + "\n" for line in lines[130:]]
    split = {"data__split": ("0.6", "0.2", "0.2")}
    one = prepared(made_series.written(tmp_path / "one.csv", text), **split).answer.field.facts
    two = prepared(made_series.written(tmp_path / "two.csv", "".join(lines)), **split).answer.field.facts
    assert dataclasses.asdict(one) == dataclasses.asdict(two)
    columns = np.array([[float(cell) for cell in line.split(",")[1:]] for line in text.splitlines()[1:97]])
    assert np.array(one.means[0]) == pytest.approx(columns.mean(axis=0))
    assert np.array(one.spreads[0]) == pytest.approx(columns.std(axis=0))
    assert one.period == 7
    assert np.array(one.moves[0]) == pytest.approx(np.abs(columns[7:] - columns[:-7]).mean(axis=0))


def test_each_series_has_a_scale_of_its_own(tmp_path):
    ready = prepared(made_series.written(tmp_path / "series.csv", made_series.long(160)))
    facts, kept = ready.answer.field.facts, ready.stores["train"]
    values, series = np.asarray(kept.fields["values"].values), np.asarray(kept.arrays["series"])
    for number, name in enumerate(facts.series):
        own = values[series == number]
        assert float(own.mean()) == pytest.approx(0, abs=1e-4)
        assert float(own.std()) == pytest.approx(1, abs=1e-4), name
    back = ready.answer.field.in_units(values[:, None], series.astype(np.int64))[:, 0, 0]
    lines = [line.split(",") for line in made_series.long(160).splitlines()[1:]]
    first = [float(cells[2]) for cells in lines if cells[0] == facts.series[0]][:144]
    assert back[series == 0].tolist() == pytest.approx(first, rel=1e-5)


# Levels and baselines ---------------------------------------------------------------------------------------


@pytest.fixture
def ready(tmp_path) -> Prepared:
    return prepared(made_series.written(tmp_path / "series.csv", made_series.dated(160)))


def test_levels_are_the_mean_or_the_last_step(tmp_path):
    path = made_series.written(tmp_path / "series.csv", made_series.dated(160))
    for level in ("none", "mean", "last"):
        answer = prepared(path, preset="gru", task__level=level, task__past=("visitors",)).answer
        past = np.random.default_rng(0).standard_normal((4, WINDOW, 3)).astype(np.float32)
        mean = past[..., :2].sum(axis=1, keepdims=True) / WINDOW
        meant = {"none": 0 * mean, "mean": mean, "last": past[:, WINDOW - 1 : WINDOW, :2]}
        assert answer.levels(past) == pytest.approx(meant[level], abs=1e-6)


@pytest.mark.parametrize("preset", ["gru", "lstm-steps"])
@pytest.mark.parametrize("level", ["none", "mean", "last"])
def test_a_batch_is_read_and_compared_relative_to_its_level(preset, level, tmp_path):
    path = made_series.written(tmp_path / "series.csv", made_series.dated(160))
    ready = prepared(
        path, preset=preset, task__level=level, task__targets=("sales",), task__past=("visitors",)
    )
    windows, rows = Windows.of(ready.stores["train"], WINDOW + HORIZON), np.array([3, 0])
    batch = ready.answer.batch(windows, rows)
    whole = windows.values(rows, 0, WINDOW + HORIZON)
    own = ready.answer.levels(whole[:, :WINDOW])[..., 0]
    read = batch.inputs["values"].values.numpy()
    assert read[..., 0] == pytest.approx(whole[:, :WINDOW, 0] - own, abs=1e-6)
    assert read[..., 1] == pytest.approx(whole[:, :WINDOW, 1], abs=1e-6)  # not forecast, so as it is
    came = whole[:, WINDOW:, 0] - own
    if preset == "gru":
        assert batch.targets["row"].numpy() == pytest.approx(came, abs=1e-6)
    else:
        assert batch.written.values[:, 1:, 0].numpy() == pytest.approx(came, abs=1e-6)
        assert batch.written.values[:, 0, 0].numpy() == pytest.approx(
            whole[:, WINDOW - 1, 0] - own[:, 0], abs=1e-6
        )


def lesson(ready: Prepared) -> Lesson:
    return Lesson(
        task={}, answer=ready.answer, stores=ready.stores, rows=iter, all_rows=0, seed=0, epochs=1.0,
        characters=0, minutes=None, say=print,
    )  # fmt: skip


def answer_of(ready: Prepared) -> ForecastAnswer:
    assert isinstance(ready.answer, ForecastAnswer)
    return ready.answer


def test_repeat_says_the_last_step_and_seasonal_repeat_the_last_period(ready, tmp_path):
    windows = ready.answer.part(ready.stores["valid"], "whole")
    past = windows.values(np.arange(len(windows)), 0, WINDOW)
    said = {kind: kind.learn(lesson(ready), tmp_path).scaled(windows) for kind in (Repeat, SeasonalRepeat)}
    for step in range(HORIZON):
        assert (said[Repeat][:, step] == past[:, WINDOW - 1]).all()
        assert (said[SeasonalRepeat][:, step] == past[:, WINDOW - 7 + step]).all()
    again = SeasonalRepeat.load(ready.answer, tmp_path)
    assert (again.scaled(windows) == said[SeasonalRepeat]).all()


def test_a_horizon_of_more_than_a_period_begins_it_again(tmp_path):
    path = made_series.written(tmp_path / "series.csv", made_series.dated(200))
    ready = prepared(path, task__horizon=9)
    windows = ready.answer.part(ready.stores["valid"], "whole")
    said = SeasonalRepeat(ready.answer, {}).scaled(windows)
    assert (said[:, 7:] == said[:, :2]).all()


def test_least_squares_are_those_of_numpy(ready, tmp_path):
    """With the ridge as rows of their own, the root of it in each."""
    found = LeastSquares.learn(lesson(ready), tmp_path)
    windows = Windows.of(ready.stores["train"], WINDOW + HORIZON)
    whole = windows.values(np.arange(len(windows)), 0, WINDOW + HORIZON).astype(np.float64)
    for target in range(3):
        read = np.concatenate([whole[:, :WINDOW, target], np.ones((len(whole), 1))], axis=1)
        ridge = 1e-3 * np.trace(read.T @ read) / (WINDOW + 1)
        read_more = np.concatenate([read, ridge**0.5 * np.eye(WINDOW + 1)])
        came_more = np.concatenate([whole[:, WINDOW:, target], np.zeros((WINDOW + 1, HORIZON))])
        weights, *_ = np.linalg.lstsq(read_more, came_more, rcond=None)
        assert found.learnt["weights"][target] == pytest.approx(weights, abs=1e-5)
        assert found.scaled(windows)[..., target] == pytest.approx(read @ weights, abs=1e-4)


def test_a_baseline_has_intervals_of_its_own_errors(tmp_path):
    path = made_series.written(tmp_path / "series.csv", made_series.dated(200))
    ready = prepared(path, data__split=("0.5", "0.3", "0.2"))
    found = Repeat.learn(lesson(ready), tmp_path)
    windows = ready.answer.part(ready.stores["valid"], "whole")
    errors = np.abs(found.scaled(windows) - windows.values(np.arange(len(windows)), WINDOW, HORIZON))
    rank = int(np.ceil((len(windows) + 1) * 0.9))
    assert found.learnt["quantiles"] == pytest.approx(np.sort(errors, axis=0)[rank - 1], abs=1e-6)
    judged = found.judge(ready.answer.part(ready.stores["test"], "reported"))
    facts = ready.answer.field.facts
    wide = 2 * found.learnt["quantiles"] * np.array(facts.spreads[0])
    assert judged.said.high - judged.said.low == pytest.approx(np.broadcast_to(wide, judged.said.low.shape))


def test_the_order_of_windows_of_is_that_of_series_and_time():
    order, begins = windows_of(store([1, 2, 3], series=[1, 0, 1], time=[5, 0, 4]), 2)
    assert order.tolist() == [1, 2, 0] and begins.tolist() == [1]


def test_the_shop_of_the_demo_is_the_same_each_time_and_its_coming_days_are_not_told(tmp_path):
    known, coming = write_sales(tmp_path)
    again, _ = write_sales(tmp_path / "again")
    assert known.read_bytes() == again.read_bytes()
    days, rows = days_of_sales(), coming.read_text().splitlines()[1:]
    assert [row.split(",")[0] for row in rows[-AHEAD:]] == [day for day, _, _ in days[-AHEAD:]]
    assert all(row.split(",")[1] == "" for row in rows[-AHEAD:]) and "" not in rows[0].split(",")
    assert known.read_text().splitlines()[-1] == rows[-AHEAD - 1]

"""Times are read, counted in regular steps and written as they were; periods are found."""

import numpy as np
import pytest

from seqlab.data.times import Step, period_of, seconds_of, step_of, style_of

SERIES = {
    "second": ["2024-02-28 23:59:59", "2024-02-29 00:00:00", "2024-02-29 00:00:01"],
    "15 minutes": ["2024-02-28 23:45", "2024-02-29 00:00", "2024-02-29 00:15"],
    "hour": ["2024-02-28T22:00:00", "2024-02-28T23:00:00", "2024-02-29T00:00:00"],
    "day": ["28.02.2024", "29.02.2024", "01.03.2024"],
    "2 days": ["2024-02-28T00:00:00Z", "2024-03-01T00:00:00Z", "2024-03-03T00:00:00Z"],
    "6 hours": ["2024-02-29 12:00:00+00:00", "2024-02-29 18:00:00+00:00", "2024-03-01 00:00:00+00:00"],
    "week": ["2023/12/25", "2024/01/01", "2024/01/08"],
    "month": ["2023-11", "2023-12", "2024-01", "2024-02", "2024-03"],
    "quarter": ["2023-10-01", "2024-01-01", "2024-04-01", "2024-07-01"],
    "year": ["20211231", "20221231", "20231231", "20241231"],
    "2 months": ["2023-11-15", "2024-01-15", "2024-03-15"],
    "1": ["7", "8", "9"],
    "0.25": ["0.5", "0.75", "1"],
}


@pytest.mark.parametrize("name", SERIES)
def test_times_are_counted_in_steps_and_written_as_they_were(name):
    cells = SERIES[name]
    style = style_of(cells[0])
    times = np.array([seconds_of(cell, style) for cell in cells])
    step = step_of(times, style)
    assert str(step) == name
    assert np.diff(step.index(times)).tolist() == pytest.approx([1.0] * (len(cells) - 1))
    for count, cell in enumerate(cells):
        assert step.written(step.after(times[0], count)) == cell
    assert step.written(step.after(times[-1], 1 - len(cells))) == cells[0]


def test_the_last_days_of_months_are_a_month_apart():
    cells = ["2023-11-30", "2023-12-31", "2024-01-31", "2024-02-29", "2024-03-31"]
    times = np.array([seconds_of(cell, "%Y-%m-%d") for cell in cells])
    step = step_of(times, "%Y-%m-%d")
    assert str(step) == "month" and np.diff(step.index(times)).tolist() == [1, 1, 1, 1]
    assert [step.written(step.after(times[0], n)) for n in range(5)] == cells
    assert step.written(step.after(times[1], 2)) == "2024-02-29"


def test_the_commonest_distance_is_the_step():
    cells = ["2024-01-01", "2024-01-02", "2024-01-03", "2024-01-07", "2024-01-08"]
    times = np.array([seconds_of(cell, "%Y-%m-%d") for cell in cells])
    step = step_of(times, "%Y-%m-%d")
    assert str(step) == "day" and step.index(times - times[0]).tolist() == [0, 1, 2, 6, 7]


@pytest.mark.parametrize(
    ("cell", "style"),
    [
        ("2024-03-01", "%Y-%m-%d"),
        ("2024-03-01T12:30", "%Y-%m-%dT%H:%M"),
        ("20240301", "%Y%m%d"),
        ("2024", "number"),
        ("1e3", "number"),
        ("March", None),
        ("2024-02-30", None),
        ("", None),
    ],
)
def test_the_way_a_time_is_written_is_recognised(cell, style):
    assert style_of(cell) == style


HOURLY, DAILY, NUMBERS = Step("%Y", "seconds", 3600.0), Step("%Y", "seconds", 86_400.0), Step()


def noisy(period: int, steps: int, trend: float = 0.0, noise: float = 0.3) -> np.ndarray:
    t = np.arange(steps)
    return (
        np.sin(2 * np.pi * t / period) + trend * t + noise * np.random.default_rng(0).standard_normal(steps)
    )


@pytest.mark.parametrize("period", [3, 7, 12, 24, 50])
def test_a_period_is_found(period):
    assert period_of([noisy(period, 20 * period + 100)], NUMBERS) == period
    assert period_of([noisy(period, 20 * period + 100, trend=0.1)], NUMBERS) == period
    walk = np.random.default_rng(1).standard_normal(20 * period + 100).cumsum()
    assert period_of([3 * noisy(period, 20 * period + 100) + walk / 2], NUMBERS) == period


def test_the_period_of_the_calendar_wins_where_it_is_about_as_good():
    assert period_of([noisy(24, 600)], HOURLY) == 24
    assert period_of([noisy(7, 300)], DAILY) == 7
    assert period_of([noisy(10, 300)], DAILY) == 10  # it is clearly better


def test_of_few_periods_the_calendar_tells_which_to_look_for():
    years = [noisy(12, 48, noise=0.5)]
    assert period_of(years, Step("%Y-%m", "months", 1.0)) == 12
    assert period_of(years, NUMBERS) == 1


@pytest.mark.parametrize(
    "series",
    [
        np.random.default_rng(1).standard_normal(500),
        np.random.default_rng(1).standard_normal(500).cumsum(),
        1e6 + np.arange(200.0),
        np.ones(100),
        np.arange(4.0),
    ],
    ids=["noise", "random walk", "trend", "constant", "short"],
)
def test_what_has_no_season_has_the_period_1(series):
    assert period_of([series], NUMBERS) == 1


def test_several_series_are_asked_together():
    assert period_of([noisy(12, 60, noise=0.8), noisy(12, 300)], NUMBERS) == 12

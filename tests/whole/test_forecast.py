"""forecast from the command line: what it writes, what it draws, and what it refuses."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import made_series
import pytest

SETTINGS = ["task.window=14", "task.horizon=5"]
QUICK = ["--steps", "4", "training.baseline=false", "training.batch_tokens=512"]


def days_and(values) -> str:
    return made_series.table(["date", "sales"], [made_series.days(len(values)), values])


def changed(text: str, line: int, new: str | None) -> str:
    """A table with another line (the first is 1), or without it."""
    lines = text.splitlines(keepends=True)
    lines[line - 1 : line] = [] if new is None else [new + "\n"]
    return "".join(lines)


WHOLE = made_series.table(["date", "sales"], [made_series.days(120), made_series.season(120)])
DAYS = made_series.days(120)
LONG = made_series.long(60)
FAULTS = {
    "no number": (changed(WHOLE, 40, f"{DAYS[38]},many"), [], ":40", 'the sales "many" is not a number'),
    "not a number": (changed(WHOLE, 40, f"{DAYS[38]},nan"), [], ":40", 'the sales "nan" is not a number'),
    "infinite": (changed(WHOLE, 40, f"{DAYS[38]},inf"), [], ":40", 'the sales "inf" is not a number'),
    "empty": (changed(WHOLE, 40, f"{DAYS[38]},"), [], ":40", "the sales is empty"),
    "no number among gaps": (
        changed(WHOLE, 40, f"{DAYS[38]},many"),
        ["task.gaps=break"],
        ":40",
        "is not a number",
    ),
    "no time": (changed(WHOLE, 40, "soon,3"), [], ":40", 'the time "soon" is not written as %Y-%m-%d'),
    "a step left out": (changed(WHOLE, 40, None), [], ":40", "1 step of a day is left out"),
    "a time twice": (changed(WHOLE, 40, f"{DAYS[37]},3"), [], ":40", "2023-02-07 comes twice"),
    "out of order": (
        changed(changed(WHOLE, 40, f"{DAYS[39]},3"), 41, f"{DAYS[38]},3"),
        [],
        ":41",
        "2023-02-08 stands after a later one",
    ),
    "too short": (days_and(made_series.season(19)), [], "series.csv", "one example takes 19"),
    "too short where gaps are": (
        "".join(changed(WHOLE, 40, None).splitlines(keepends=True)[:59]),
        ["task.gaps=break", "task.window=30"],
        "series.csv",
        "the longest series without a gap has",
    ),
    "constant": (days_and([7] * 120), [], "series.csv", '"sales" has the value 7 at every step'),
    "no column of numbers": (
        made_series.table(["date", "town"], [DAYS, ["Rome"] * 120]), [], "series.csv", "no column holds"
    ),
    "an unknown column": (WHOLE, ["task.targets=sale"], "series.csv", 'no column "sale". Did you mean'),
    "an unknown known column": (WHOLE, ["task.future=holiday"], "series.csv", 'no column "holiday"'),
    "an unknown time": (WHOLE, ["data.columns.time=day"], "series.csv", 'no column "day"'),
    "times that are none": (
        made_series.table(["time", "y"], [["one", "two", "three"] * 40, range(120)]),
        [],
        "series.csv",
        'the time "one" in the column "time" is not understood',
    ),
    "shares of more than all": (WHOLE, ["data.split=0.7,0.2,0.2"], "data.split=0.7,0.2,0.2", "add up to 1"),
    "one share": (WHOLE, ["data.split=0.7"], "data.split=0.7", "add up to 1"),
    "times in no order": (
        WHOLE, ["data.split=2023-03-01,2023-02-01"], "data.split=2023-03-01,2023-02-01", "nor times in order"
    ),
    "words for a split": (WHOLE, ["data.split=later"], "data.split=later", "neither shares nor times"),
    "a split with no room": (WHOLE, ["data.split=0.1,0.8,0.1"], "series.csv", "train: the longest series"),
    "a split at the end of time": (
        WHOLE, ["data.split=2023-04-29"], "series.csv", "valid: the longest series has 16 steps"
    ),
    "a split beside a file": (WHOLE, ["data.split=0.8,0.2", "--valid", "series.csv"], "data.split", "stands"),
}  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", FAULTS)
def test_what_is_wrong_is_told_and_nothing_is_half_written(name, folder, seqlab):
    text, settings, where, what = FAULTS[name]
    made_series.written(folder / "series.csv", text)
    words = ["forecast", "series.csv", *SETTINGS, *settings]
    code, out, err = seqlab("train", *words, *QUICK, "--out", "run")
    assert code == 2 and where in err and what in err, err
    assert "Traceback" not in err and out == ""
    assert sorted(path.name for path in folder.iterdir()) == ["series.csv"]
    code, out, err = seqlab("check", *words)
    assert code == 2 and what in out + err, out + err


def test_a_series_that_training_never_saw_is_told(folder, seqlab):
    made_series.written(folder / "series.csv", made_series.long(60, ["north", "south"]))
    made_series.written(folder / "more.csv", made_series.long(60, ["west"]))
    words = ["train", "forecast", "series.csv", *SETTINGS, *QUICK, "--out", "run"]
    code, _, err = seqlab(*words, "--valid", "more.csv")
    assert code == 2 and 'more.csv:2: valid: the series "west" is not in the training data' in err
    assert not (folder / "run").exists()


def test_a_series_that_never_changes_among_others_is_told(folder, seqlab):
    still = "".join(f"east,{day},7\n" for day in made_series.days(60))
    made_series.written(folder / "series.csv", made_series.long(60, ["north", "south"]) + still)
    code, out, _ = seqlab("check", "forecast", "series.csv", *SETTINGS)
    assert (
        code == 0
        and 'series.csv:122: "y" never changes in 1 of 3 series, the first of which is "east"' in out
    )


def test_times_of_parquet_are_times(folder, seqlab):
    """Columns of dates, not of texts: the forecast is that of the same table as text."""
    import pyarrow.csv
    import pyarrow.parquet

    path = made_series.written(folder / "series.csv", made_series.long(60))
    read = pyarrow.csv.read_csv(path)
    assert str(read.schema.field("ds").type).startswith("date")
    pyarrow.parquet.write_table(read, folder / "series.parquet")
    answers = []
    for ending in ("csv", "parquet"):
        words = ["forecast", f"series.{ending}", *SETTINGS, *QUICK, "training.threads=1"]
        code, _, err = seqlab("train", *words, "--out", ending)
        assert code == 0, err
        code, out, err = seqlab("predict", ending, "--input", f"series.{ending}", "--json")
        assert code == 0, err
        answers.append([json.loads(line) for line in out.splitlines()])
    assert answers[0] == answers[1] and answers[0][0]["ds"] == made_series.days(1, begin=60)[0]


@pytest.mark.parametrize(
    ("values", "window", "told"),
    [
        (made_series.season(120), 5, "task.window=5 is less than the period of 7 steps"),
        (made_series.autoregression(120).tolist(), 14, "no season was found"),
    ],
)
def test_a_season_that_can_not_be_repeated_is_told(values, window, told, folder, seqlab):
    made_series.written(folder / "series.csv", made_series.table(["y"], [values]))
    words = ["forecast", "series.csv", f"task.window={window}", "task.horizon=2", "--steps", "2"]
    code, out, err = seqlab("train", *words, "--out", "run")
    assert code == 0 and f"Baseline seasonal repeat: left out, {told}" in err, err
    assert "seasonal repeat" not in out and "least squares" in out


def test_a_gap_breaks_windows_where_it_may(folder, seqlab):
    """An empty cell, a word for it, and a missing row."""
    text = changed(changed(changed(WHOLE, 90, None), 60, f"{DAYS[58]},NA"), 30, f"{DAYS[28]},")
    made_series.written(folder / "series.csv", text)
    words = ["forecast", "series.csv", *SETTINGS, "task.gaps=break", "data.split=0.8,0.2"]
    code, _, err = seqlab("train", *words, *QUICK, "--out", "run")
    assert code == 0, err
    code, out, _ = seqlab("check", *words)
    assert code == 0 and "1 step of a day is left out" in out


# Of a run ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Runs of one series, of several, and of one that is told of holidays."""
    from seqlab import session

    made = tmp_path_factory.mktemp("runs")
    tables = {"one": WHOLE, "several": LONG, "known": made_series.dated(120)}
    more = {"known": {"task.targets": ("sales",), "task.future": ("holiday",)}}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEQLAB_CACHE", str(made / "cache"))
        for name, text in tables.items():
            path = made_series.written(made / f"{name}.csv", text)
            settings = {"task.window": 14, "task.horizon": 5, "training.batch_tokens": 512}
            settings |= more.get(name, {})
            session.train("forecast", str(path), steps=4, out=made / name, settings=settings, quiet=True)
    return made


def cut(text: str, steps: int) -> str:
    return "".join(text.splitlines(keepends=True)[: steps + 1])


ASKED = {
    "a gap": ("one", changed(WHOLE, 115, None), ":115", "after 2023-04-23 comes 2023-04-25"),
    "a time twice": ("one", changed(WHOLE, 115, f"{DAYS[112]},3"), ":115", "2023-04-23 comes twice"),
    "a number missing": ("one", changed(WHOLE, 115, f"{DAYS[113]},"), ":115", "a number is missing"),
    "no number": ("one", changed(WHOLE, 115, f"{DAYS[113]},x"), ":115", '"x" is not a number'),
    "too short": ("one", cut(WHOLE, 13), ":14", "there are 13 steps; the model reads 14"),
    "other columns": ("one", WHOLE.replace("sales", "sold"), "asked.csv", 'no column "sales"'),
    "no time": ("one", changed(WHOLE, 50, "soon,3"), ":50", 'the time "soon"'),
    "an unknown series": ("several", LONG.replace("south", "east"), ":62", 'the series "east" was not'),
    "too little is known": ("known", made_series.dated(60, ahead=4), ":57", "4 complete rows follow it"),
    "nothing is known": ("known", made_series.dated(60), ":61", "0 complete rows follow it; 5 are needed"),
    "a column is missing": (
        "known", made_series.dated(60, ahead=5).replace("holiday", "feast"), "asked.csv", 'column "holiday"'
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ASKED)
def test_what_can_not_be_forecast_from_is_told_with_its_line(name, trained, folder, seqlab):
    run, text, where, what = ASKED[name]
    made_series.written(folder / "asked.csv", text)
    code, out, err = seqlab("predict", trained / run, "--input", "asked.csv", "--output", "answers.csv")
    assert code == 2 and where in err and what in err, err
    assert out == "" and not (folder / "answers.csv").exists()


@pytest.mark.parametrize("verb", ["predict", "evaluate"])
@pytest.mark.parametrize(
    "setting", ["task.horizon=24", "task.window=9", "model.head.kind=linear", "training.seed=7"]
)
def test_another_setting_than_was_trained_with_is_refused(verb, setting, trained, folder, seqlab):
    made_series.written(folder / "asked.csv", WHOLE)
    words = ["--input", "asked.csv", "--output", "answers.csv"] if verb == "predict" else ["asked.csv"]
    code, out, err = seqlab(verb, trained / "one", *words, setting)
    key, _, value = setting.partition("=")
    assert code == 2 and out == "" and not (folder / "answers.csv").exists()
    assert f"{key} is {value}, but the run was trained with" in err


def test_a_setting_as_it_was_trained_with_is_no_fault(trained, folder, seqlab):
    made_series.written(folder / "asked.csv", WHOLE)
    code, _, err = seqlab("predict", trained / "one", "--input", "asked.csv", "task.horizon=5")
    assert code == 0, err


@pytest.mark.parametrize("typed", ["1, 2, x", "1, 2, 3", ""])
def test_numbers_that_are_typed_are_checked(typed, trained, seqlab):
    code, out, err = seqlab("predict", trained / "one", typed)
    assert code == 2 and out == "" and len(err.splitlines()) >= 3, err


def test_numbers_alone_do_not_say_of_which_series_they_are(trained, seqlab):
    for name in ("several", "known"):
        code, _, err = seqlab("predict", trained / name, ", ".join(["1"] * 14))
        assert code == 2 and "--input FILE" in err


def test_a_gap_in_what_is_scored_is_told(trained, folder, seqlab):
    for text, after in ((changed(WHOLE, 70, None), "2023-03-11"), (WHOLE + f"{DAYS[-1]},3\n", "2023-04-30")):
        made_series.written(folder / "more.csv", text)
        code, out, err = seqlab("evaluate", trained / "one", "more.csv")
        assert code == 2 and out == "" and f"comes {after}, and not one day later" in err, err


# What is written --------------------------------------------------------------------------------------------


def test_the_next_steps_are_written_with_their_times(trained, folder, seqlab):
    made_series.written(folder / "asked.csv", cut(WHOLE, 50))
    for option in ("--output", "--out"):
        code, out, err = seqlab("predict", trained / "one", "--input", "asked.csv", option, "answers.csv")
        assert code == 0 and "5 answers in answers.csv" in out, err
    rows = list(csv.DictReader((folder / "answers.csv").open()))
    assert [row["date"] for row in rows] == made_series.days(5, begin=50)
    assert all(float(row["sales_low"]) < float(row["sales"]) < float(row["sales_high"]) for row in rows)
    code, out, err = seqlab("predict", trained / "one", "--input", "asked.csv", "--output", "answers.jsonl")
    objects = [json.loads(line) for line in (folder / "answers.jsonl").read_text().splitlines()]
    assert [{name: str(cell) for name, cell in one.items()} for one in objects] == rows
    typed = ", ".join(str(one) for one in made_series.season(50))
    code, out, err = seqlab("predict", trained / "one", typed, "--json")
    assert json.loads(out)["values"] == pytest.approx([one["sales"] for one in objects], rel=1e-5)


def test_of_several_series_each_has_its_steps(trained, folder, seqlab):
    """As many as are asked for, from the end of each; rows of them may take turns."""
    lines = LONG.splitlines(keepends=True)
    order = sorted(range(1, len(lines)), key=lambda place: (lines[place].split(",")[1], -place))
    made_series.written(folder / "asked.csv", "".join([lines[0], *(lines[place] for place in order)]))
    seqlab("predict", trained / "several", "--input", "asked.csv", "--output", "mixed.csv")
    made_series.written(folder / "alone.csv", made_series.long(60, ["south"]))
    seqlab("predict", trained / "several", "--input", "alone.csv", "--output", "answers.csv")
    mixed = list(csv.DictReader((folder / "mixed.csv").open()))
    assert len(mixed) == 15 and {row["unique_id"] for row in mixed} == {"north", "south", "west"}
    alone = list(csv.DictReader((folder / "answers.csv").open()))
    south = [row for row in mixed if row["unique_id"] == "south"]
    for one, two in zip(alone, south, strict=True):
        assert one["ds"] == two["ds"] and float(one["y"]) == pytest.approx(float(two["y"]), rel=1e-5)


def test_what_is_known_of_the_future_is_read(trained, folder, seqlab):
    text = made_series.dated(60, ahead=5)
    other = "".join(line.replace(",,0", ",,1") for line in text.splitlines(keepends=True))
    answers = []
    for table in (text, other):
        made_series.written(folder / "asked.csv", table)
        code, out, err = seqlab("predict", trained / "known", "--input", "asked.csv", "--json")
        assert code == 0, err
        answers.append([json.loads(line) for line in out.splitlines()])
    assert [one["date"] for one in answers[0]] == made_series.days(5, begin=55)
    assert answers[0] != answers[1]


@pytest.mark.parametrize("ending", ["html", "png"])
@pytest.mark.parametrize("name", ["one", "several", "known"])
def test_forecasts_are_drawn(ending, name, trained, folder, seqlab):
    text = {"one": WHOLE, "several": LONG, "known": made_series.dated(60, ahead=5)}[name]
    made_series.written(folder / "asked.csv", text)
    code, out, err = seqlab("predict", trained / name, "--input", "asked.csv", "--output", f"drawn.{ending}")
    assert code == 0 and out == f"Drawn in drawn.{ending}\n", err
    assert err.endswith(" --input asked.csv --output answers.csv\n")
    drawn = (folder / f"drawn.{ending}").read_bytes()
    if ending == "png":
        assert drawn.startswith(b"\x89PNG")
    else:
        page = drawn.decode()
        assert page.count('class="band"') == (3 if name == "several" else 1)
        assert "90 % interval" in page


def test_the_report_draws_windows_with_what_came(trained):
    page = (trained / "several" / "report.html").read_text()
    assert page.count('class="came"') == 4 and "Where it was furthest off" in page
    scores = json.loads((trained / "several" / "scores.json").read_text())
    assert set(scores["baselines"]) == {"repeat", "seasonal repeat", "least squares"}


def test_the_settings_file_of_the_documents_trains(folder, seqlab):
    document = (Path(__file__).resolve().parents[2] / "docs" / "forecast.md").read_text(encoding="utf-8")
    [text] = re.findall(r"```yaml\n(.*?)```", document, flags=re.DOTALL)
    made_series.written(folder / "forecast.yaml", text)
    made_series.written(folder / "sales.csv", made_series.dated(300))
    code, out, err = seqlab("train", "forecast.yaml", "--steps", "20", "--out", "run")
    assert code == 0 and "seasonal repeat" in out, err
    config = (folder / "run" / "config.yaml").read_text()
    assert "horizon: 14" in config and "- holiday" in config


@pytest.mark.parametrize("words", ["classify reviews.csv", "translate reviews.csv", "generate reviews.csv"])
def test_only_series_over_time_are_cut_up(words, folder, seqlab):
    made_series.written(folder / "reviews.csv", "text,label\n" + "good film,yes\nbad film,no\n" * 40)
    code, _, err = seqlab("train", *words.split(), "data.split=0.8,0.2", "--out", "run")
    assert code == 2 and "data.split=0.8,0.2 is for series over time" in err
    assert not (folder / "run").exists()

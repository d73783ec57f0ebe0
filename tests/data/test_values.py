"""Rows that hold a series of numbers each: in a cell, over columns, or in a file of its own; and what may be
wrong with them."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

import seqlab as library
from seqlab.data.kinds import kind_of
from seqlab.data.numbers import SeriesTable, numbers_of
from seqlab.data.read import DataConfig, Role
from seqlab.errors import UserError
from seqlab.fields.values import VALUES

READABLE = ("text", "image", "sound", "values")
SERIES = [[[0.5], [1.5], [-2.0]], [[3.0], [4.25]], [[-1.0], [0.0], [1.0], [2.0]]]
TWO = [[[0.5, 1.0], [1.5, 2.0]], [[3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]]


def rows_of(series) -> list[str]:
    return [",".join(map(str, step)) for step in series]


def in_cells(folder: Path, series) -> Path:
    lines = [" ".join(str(step[0]) for step in one) + ",yes" for one in series]
    return write(folder / "rows.csv", ["values,label", *lines])


def in_lists(folder: Path, series) -> Path:
    return write(folder / "rows.jsonl", [json.dumps({"series": one, "label": "yes"}) for one in series])


def over_columns(folder: Path, series) -> Path:
    widest = max(map(len, series))
    cells = [[str(step[0]) for step in one] + [""] * (widest - len(one)) for one in series]
    header = [f"x{number}" for number in range(widest)]
    return write(folder / "rows.csv", [",".join([*row, label]) for row, label in zip(
        [header, *cells], ["label", *["yes"] * len(cells)], strict=True)])  # fmt: skip


def in_files(folder: Path, series) -> Path:
    """With names above the columns of one of them, and without."""
    for number, one in enumerate(series):
        above = [",".join("ab"[: len(one[0])])] if number == 1 else []
        write(folder / f"{number}.csv", [*above, *rows_of(one)])
    return write(folder / "rows.csv", ["file,label", *(f"{number}.csv,yes" for number in range(len(series)))])


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def read(path: Path) -> list[list[list[float]]]:
    assert kind_of([str(path)], {}, READABLE) == "values"
    table = SeriesTable([str(path)], DataConfig(), [VALUES, Role("label", ("label",))])
    return [numbers_of(row.cells["values"]).tolist() for row in table.rows()]


@pytest.mark.parametrize("layout", [in_cells, in_lists, over_columns, in_files])
def test_a_series_is_the_same_wherever_it_stands(layout, tmp_path):
    assert read(layout(tmp_path, SERIES)) == SERIES


@pytest.mark.parametrize("layout", [in_lists, in_files])
def test_a_step_may_have_several_numbers(layout, tmp_path):
    assert read(layout(tmp_path, TWO)) == TWO


FAULTS = {
    "no number": ("1.csv", ["1", "2", "x"], '1.csv:3: "x" is not a number'),
    "a gap": ("1.csv", ["x,y", "1,2", "1,"], "1.csv:3: a number is missing"),
    "no end": ("1.csv", ["1", "inf"], '1.csv:2: "inf" is not a number'),
    "another width": ("1.csv", ["1,2", "3"], "1.csv:2: this step has 1 numbers, but the first one 2"),
    "nothing": ("1.csv", [], "1.csv has no numbers"),
    "no file": ("other.csv", [], "there is no file"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_is_wrong_with_a_file_is_told_with_its_line(name, tmp_path):
    """Of the file, and of the row that names it."""
    file, lines, told = FAULTS[name]
    table = in_files(tmp_path, SERIES)
    (tmp_path / "1.csv").unlink()
    write(tmp_path / file, lines)
    with pytest.raises(UserError) as error:
        read(table)
    assert f"{table}:3: " in error.value.what and told in error.value.what, error.value.what


def test_classify_learns_from_files_and_answers_for_one(tmp_path, monkeypatch):
    monkeypatch.setenv("SEQLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    draw = np.random.default_rng(0)
    lines = ["file,label"]
    for number in range(60):
        speed, phase = (0.3, 1.5)[number % 2], draw.uniform(0, 6)
        write(tmp_path / f"{number}.csv", [f"{math.sin(phase + speed * t):.4f}" for t in range(20)])
        lines.append(f"{number}.csv,{('slow', 'fast')[number % 2]}")
    settings = {
        "model.input.width": 8,
        "model.encoder.width": 8,
        "training.threads": 1,
        "training.rate": 0.01,
    }
    run = library.train(
        "classify", str(write(tmp_path / "rows.csv", lines)), model="cnn", steps=150, out=tmp_path / "run",
        settings=settings, quiet=True,
    )  # fmt: skip
    scores = run.evaluate("rows.csv").metrics
    assert scores["accuracy"].value > 0.8
    numbers = [float(line) for line in (tmp_path / "4.csv").read_text().splitlines()]
    assert run.predict("4.csv") == run.predict([numbers])[0]
    with pytest.raises(UserError, match=r"none\.csv"):
        run.predict("none.csv")

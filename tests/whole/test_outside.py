"""A task from outside: a file of at most 60 lines, and every verb knows it."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from made import write_table

OUTSIDE = Path(__file__).parents[1] / "outside"
PARTS = ["ba", "no", "ti", "lu", "me", "ka", "so", "pi"]


def words(count: int, seed: int) -> list[tuple[str, str]]:
    draw = random.Random(seed)
    rows = [draw.choices(PARTS, k=draw.randint(1, 5)) for _ in range(count)]
    return [("".join(parts), str(len(parts))) for parts in rows]


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """What each command says, by its name."""
    folder = tmp_path_factory.mktemp("outside")
    header = ("word", "syllables")
    train = str(write_table(folder / "words.csv", words(400, 0), header))
    test = str(write_table(folder / "test.csv", words(100, 1), header))
    bad = str(write_table(folder / "bad.csv", [*words(40, 2), ("banana", "many")], header))
    new = folder / "new.csv"
    new.write_text("word\nbanana\nlumekasopi\n")
    column, run = "data.columns.text=word", str(folder / "run")
    commands = {
        "check": ["check", "syllables", train, column],
        "faulty": ["check", "syllables", bad, column],
        "init": ["init", "syllables"],
        "train": [
            "train",
            "syllables",
            train,
            "--test",
            test,
            "--steps",
            "300",
            "--out",
            run,
            column,
            "training.rate=0.01",
        ],
        "resume": ["train", "--resume", run],
        "predict": ["predict", run, "banana", "batino"],
        "json": ["predict", run, "banana", "--json"],
        "file": ["predict", run, "--input", str(new), "--output", str(folder / "answers.csv")],
        "evaluate": ["evaluate", run, test, "--json"],
        "explain": ["explain", run, "banana", "--out", str(folder / "map.json")],
        "inspect": ["inspect", run, "--json"],
        "preset": ["inspect", "gru", "--task", "syllables"],
        "unknown": ["train", "syllabels", train],
    }
    done = subprocess.run(
        [sys.executable, "drive.py"],
        cwd=OUTSIDE,
        input=json.dumps(list(commands.values())),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return {"folder": folder, **dict(zip(commands, json.loads(done.stdout), strict=True))}


def test_the_file_is_short():
    lines = (OUTSIDE / "syllables.py").read_text().splitlines()
    assert len([line for line in lines if line]) <= 60


def test_every_verb_ends_well(said):
    codes = {name: one["code"] for name, one in said.items() if name != "folder"}
    assert codes == {name: 2 if name in ("faulty", "unknown") else 0 for name in codes}, said


def test_data_is_looked_at_and_faults_have_their_line(said):
    assert "400 rows" in said["check"]["out"] and "numbers: from 1 to 5" in said["check"]["out"]
    assert 'bad.csv:42: the syllables "many" is not a number' in said["faulty"]["out"]
    assert 'Did you mean "syllables"?' in said["unknown"]["err"]
    assert "kind: syllables" in said["init"]["out"]


def test_it_is_trained_scored_beside_its_baseline_and_asked(said):
    assert "exactly right" in said["train"]["out"] and "vowels" in said["train"]["out"]
    assert "was finished already" in said["resume"]["err"]
    scores = json.loads(said["evaluate"]["out"])
    assert scores["task"] == "syllables" and scores["examples"] == 100
    assert scores["baselines"]["vowels"]["exact"]["value"] == 1.0  # each syllable has one vowel
    assert scores["metrics"]["exact"]["value"] > 0.5
    assert scores["metrics"]["mae"]["value"] < scores["baselines"]["training mean"]["mae"]["value"]
    assert json.loads(said["json"]["out"])["value"] == pytest.approx(3, abs=1)
    assert len(said["predict"]["out"].splitlines()) == 2
    answers = (said["folder"] / "answers.csv").read_text().splitlines()
    assert answers[0] == "word,predicted_value" and len(answers) == 3


def test_it_is_explained_inspected_and_reported(said):
    run, shown = said["folder"] / "run", json.loads((said["folder"] / "map.json").read_text())
    assert shown["maps"][0]["pieces"] == list("banana")
    told = json.loads(said["inspect"]["out"])["parameters"]
    assert told["total"] == told["formula_total"] > 0
    assert "counts the syllables of a word" in (run / "report.html").read_text()
    card = (run / "README.md").read_text()
    assert "counts the syllables of a word" in card and "vowels" in card

"""`seqlab demo`: a first model on built-in data, in a few minutes and without a download."""

from __future__ import annotations

import csv
import shutil
import sys
import time
from pathlib import Path

from seqlab.data.builtin import write_stress_tables
from seqlab.data.store import cache_folder
from seqlab.errors import UserError
from seqlab.finish import summary
from seqlab.session import train_anew
from seqlab.settings import Wishes
from seqlab.training.progress import Progress, duration
from seqlab.uses.classify import ClassifyRun

MINUTES = 3.0
SHOWN = 10
"""Worked examples to print."""
KNOWN = """
about above adventure again alone animal another apartment around balloon banana beautiful because begin behind
between bicycle butter camera candle carpet chocolate city computer country danger december decision delicious dinner
direction elephant energy family favorite february flower forget forgotten garden guitar history holiday hotel hundred
idea important january kitchen language library machine magazine medicine memory metal million minute monday morning
mountain music national october office orange paper people perfect photograph piano picture planet potato present
president question rabbit receive remember river robot saturday science september seven silver sister station student
summer sunday surprise table telephone thousand tomato tomorrow travel tuesday umbrella university vacation village
water wednesday weekend winter wonderful yellow yesterday
"""
"""Words that a reader can judge; those of them that are in the test part are shown."""


def run_demo(task: str, started: float) -> None:
    """Train on a word's spelling → its stress pattern, and show what was learnt."""
    if task != "classify":
        raise UserError(what=f'There is no demo "{task}".', why="The built-in data serves classify.", fix="Write: seqlab demo")
    print("English words and their stress: from the spelling, say which syllables are stressed (1 main, 2 second, 0 none).")
    train, valid, test = write_stress_tables(cache_folder().parent / "builtin")
    overrides = {
        "data.train": (str(train),), "data.valid": (str(valid),), "data.test": (str(test),), "data.tokens.kind": "characters",
        "training.minutes": MINUTES,
    }
    wishes = Wishes(task="classify", preset="bilstm", overrides=overrides, where="demo")
    run = train_anew(wishes, _free(Path("runs/demo-stress")), Progress(), started)
    print(summary(run))
    print("\nWords that were not in the training data:")
    with test.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    known = set(KNOWN.split())
    some = [row for row in rows if row["text"] in known][:SHOWN]
    assert isinstance(run, ClassifyRun)
    for row, answer in zip(some, run.predict([row["text"] for row in some]), strict=True):
        mark = "right" if answer.label == row["label"] else f"wrong, it is {row['label']}"
        print(f"  {row['text']:<16} {answer.label:<8} {mark}")
    print(f"\nDone in {duration(time.monotonic() - started)}. The report: {run.folder / 'report.html'}")
    command = "seqlab" if shutil.which("seqlab") else sys.argv[0]
    print(f"Next: {command} predict {run.folder} seqlab")
    print(f"      {command} explain {run.folder} photography --out map.html")


def _free(folder: Path) -> Path:
    number, free = 2, folder
    while free.exists():
        free, number = folder.with_name(f"{folder.name}-{number}"), number + 1
    return free

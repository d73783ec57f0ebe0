"""Test accuracy of the presets on real data sets, with default settings and a budget in minutes.

python benchmarks/accuracy.py [imdb|ag_news|sst|trec ...]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

DATA = Path(os.environ.get("SEQLAB_DATA", "../shared/data"))
SEQLAB = str(Path(sys.executable).with_name("seqlab"))
PLANS: dict[str, tuple[tuple[str, str, str], list[str], list[tuple[str, float]]]] = {
    "imdb": (
        ("train", "val", "test"),
        [],
        [("bow", 1), ("cnn", 10), ("bilstm", 10), ("self-attentive", 10), ("han", 10), ("transformer", 10)],
    ),
    "ag_news": (("train", "val", "test"), [], [("bow", 0.5), ("cnn", 2), ("bilstm", 2)]),
    "sst": (
        ("sst2_train", "sst2_dev", "sst2_test"),
        [],
        [("bow", 0.5), ("cnn", 2), ("bilstm", 2), ("self-attentive", 2)],
    ),
    "sst_phrases": (
        ("sst2_phrases_train", "sst2_dev", "sst2_test"),
        [],
        [("bow", 0.5), ("cnn", 4), ("bilstm", 4)],
    ),
    "trec": (("train", "", "test"), ["data.columns.label=coarse"], [("bow", 0.5), ("cnn", 2), ("bilstm", 2)]),
}


def seqlab(*words: object) -> str:
    done = subprocess.run([SEQLAB, *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def measure(name: str, model: str, minutes: float, run: Path) -> str:
    """Train, score on the test file, ask for the two worked sentences: one line of the table."""
    splits, settings, _ = PLANS[name]
    folder = DATA / name.removesuffix("_phrases")
    train, valid, test = [folder / f"{split}.tsv.gz" for split in splits]
    held = ["--valid", valid] if splits[1] else []
    began = time.monotonic()
    seqlab("train", "classify", train, *held, "--model", model, "--minutes", minutes, "--out", run, *settings)
    took = time.monotonic() - began
    score = json.loads(seqlab("evaluate", run, test, "--json"))["metrics"]["accuracy"]
    said = seqlab("predict", run, "this movie is so great", "this movie is so bad").splitlines()
    answers = " / ".join(line.split("\t")[0] for line in said) if name.startswith(("imdb", "sst")) else ""
    interval = f"({score['low']:.4f} to {score['high']:.4f})"
    return f"{name:12} {model:15} {minutes:4g} min  {score['value']:.4f} {interval}  {took:4.0f} s  {answers}"


def main(names: list[str]) -> None:
    for name in names or list(PLANS):
        for model, minutes in PLANS[name][2]:
            with tempfile.TemporaryDirectory() as folder:
                print(measure(name, model, minutes, Path(folder) / "run"), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

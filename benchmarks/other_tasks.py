"""Test scores of tag, forecast, caption and of recordings on real data sets, with default settings.

python benchmarks/other_tasks.py [ewt|wikigold|wnut17|etth1|fsdd|spelling|flickr8k|emoji ...]
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

DATA = Path(os.environ.get("SEQLAB_DATA", "../shared/data")).resolve()
SEQLAB = str(Path(sys.executable).with_name("seqlab"))
DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
MONTHS = 20
"""Of 30 days, of ETTh1: twelve to learn from, four to validate on and four to test on, as is customary."""


@dataclass(frozen=True)
class Trial:
    """One data set, the models that learn from it, and what is said to `seqlab train`."""

    task: str
    data: str
    models: tuple[str, ...]
    words: tuple[str, ...]
    minutes: float | None = None
    """None: the passes that the task takes by itself."""
    seeds: int = 1


def conll(folder: str, *models: str, minutes: float | None = None, seeds: int = 1) -> Trial:
    words = ("--valid", f"{folder}/dev.conll.gz", "--test", f"{folder}/test.conll.gz")
    return Trial("tag", f"{folder}/train.conll.gz", models, words, minutes, seeds)


FLICKR = (
    "data.images=flickr8k/train_images_96.zip",
    *("--test", "flickr8k/dev_captions.jsonl.gz", "data.test_images=flickr8k/dev_images_96.zip"),
)
EMOJI = (
    *("data.images=emoji_captions/train.npz", "data.columns.caption=caption_en"),
    *("--test", "emoji_captions/val.jsonl.gz", "data.test_images=emoji_captions/val.npz"),
)
WINDOW = ("task.window=96", "task.horizon=96", "data.split=0.6,0.2,0.2")
SPELLING = ("--test", "spelled-test.npz")
TRIALS = {
    "ewt": conll("ud_english_ewt", "bilstm", minutes=10),
    "wikigold": conll("wikigold", "bilstm", "bilstm-crf", seeds=3),
    "wnut17": conll("wnut17", "bilstm", "bilstm-crf", seeds=3),
    "etth1": Trial(
        "forecast", "etth1.csv", ("linear", "rnn", "gru", "lstm", "cnn", "transformer"), WINDOW, 4
    ),
    "fsdd": Trial(
        "classify", "fsdd/train.npz", ("cnn",), ("--test", "fsdd/test.npz", "data.columns.label=digit"), 10
    ),
    "spelling": Trial(
        "translate", "spelled-train.npz", ("lstm-attention",), ("--test", "spelled-test.npz"), 10
    ),
    "flickr8k": Trial(
        "caption",
        "flickr8k/train_captions.jsonl.gz",
        ("cnn-lstm", "cnn-lstm-attention", "cnn-transformer"),
        FLICKR,
        30,
    ),
    "emoji": Trial("caption", "emoji_captions/train.jsonl.gz", ("cnn-lstm-attention",), EMOJI, 10),
}


def spell(folder: Path) -> None:
    """The spoken digits with their names in letters, to be written down from the sound."""
    for split in ("train", "test"):
        clips = np.load(DATA / "fsdd" / f"{split}.npz")
        text = np.array([DIGITS[digit] for digit in clips["digit"]])
        np.savez(
            folder / f"spelled-{split}.npz",
            audio=clips["audio"],
            offsets=clips["offsets"],
            rate=clips["rate"],
            text=text,
        )


def cut(folder: Path) -> None:
    """The months of ETTh1 that are used."""
    with gzip.open(DATA / "ett/ETTh1.csv.gz", "rt") as file:
        lines = file.readlines()
    (folder / "etth1.csv").write_text("".join(lines[: 1 + MONTHS * 30 * 24]))


def placed(word: str, own: Path) -> str:
    """A word with the file that it names in its folder."""
    key, is_setting, name = word.rpartition("=")
    for folder in (DATA, own):
        if (folder / name).is_file():
            return f"{key}{is_setting}{folder / name}"
    return word


def measure(name: str, trial: Trial, model: str, seed: int, own: Path) -> str:
    """Train and score: one line of the table."""
    run = own / f"{name}-{model}-{seed}"
    words = [placed(word, own) for word in (trial.data, *trial.words)]
    budget = ["--minutes", str(trial.minutes)] if trial.minutes else []
    began = time.monotonic()
    command = ["train", trial.task, *words, "--model", model, "--seed", str(seed), "--out", str(run), *budget]
    done = subprocess.run([SEQLAB, *command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    metrics = json.loads((run / "scores.json").read_text())["metrics"]
    told = [f"{key} {m['value']:.4g} ({m['low']:.4g} to {m['high']:.4g})" for key, m in metrics.items()]
    return f"{name:10} {model:18} seed {seed}  {time.monotonic() - began:4.0f} s  {', '.join(told)}"


def main(names: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        spell(Path(folder))
        cut(Path(folder))
        for name in names or list(TRIALS):
            for seed in range(TRIALS[name].seeds):
                for model in TRIALS[name].models:
                    print(measure(name, TRIALS[name], model, seed, Path(folder)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

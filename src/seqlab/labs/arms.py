"""Arms of a lab: what it compares, each trained with every seed, side by side in processes of their own."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from seqlab.files import write_text
from seqlab.labs.frame import Work
from seqlab.labs.options import READING
from seqlab.labs.trials import Trial, train_each
from seqlab.run import Run, load


class ArmOf(NamedTuple):
    """One training."""

    overrides: Mapping[str, Any]
    """Data, model and training."""
    preset: str = ""
    task: str = "classify"
    like: str = ""
    """A run whose architecture and tokenizer it has, with weights of its own."""


def train_arms(
    work: Work, names: Iterable[str], arm_of: Callable[[str, int], ArmOf], seeds: int | None = None
) -> dict[str, tuple[Run, ...]]:
    """A run for each name and seed (those of the lab); those that are there are not trained again."""
    seeds = seeds or work.seeds
    alike = {"training.baseline": False, "training.threads": 1}
    settings = {key: value for key, value in work.settings.items() if not key.startswith(READING)}
    trials = {}
    for seed in range(seeds):
        for name in names:
            arm, folder = arm_of(name, seed), arm_folder(work, name, seed)
            told = {**alike, "training.seed": seed, **arm.overrides, **settings}
            trials[name, seed] = Trial(str(folder), told, arm.preset, arm.like, arm.task)
    at_once = 1 if "training.threads" in settings else torch.get_num_threads()
    for (name, seed), far in train_each(trials, at_once):
        work.progress.say(f"{name}, seed {seed}   {far}")
    return {
        name: tuple(load(arm_folder(work, name, seed)) for seed in range(seeds))
        for name in dict.fromkeys(name for name, _ in trials)
    }


def arm_folder(work: Work, name: str, seed: int) -> Path:
    return work.folder / "trials" / f"{name.replace(' ', '-').replace(',', '')}-{seed}"


def write_rows(path: Path, rows: Iterable[Sequence[str]], header: Sequence[str] = ("text", "label")) -> str:
    """A table of a lab's own rows, unless it is there."""
    if not path.exists():
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([header, *rows])
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text.getvalue())
    return str(path)

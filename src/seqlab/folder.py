"""The run folder, which is the product: the names of its files, and what is told of a folder that is none."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from seqlab import config
from seqlab.config import Tree
from seqlab.errors import UserError

CONFIG, FACTS, TOKENIZER, WEIGHTS = "config.yaml", "facts.json", "tokenizer.json", "model.safetensors"
METRICS, BASELINE = "metrics.jsonl", "baseline"
FORMAT = 2
"""Of a run folder, in its facts.json. A folder without it is of format 1: there a decoder alone sampled at a
temperature of 0.8 where config.yaml has sample: false and temperature: 1.0. Since 2 config.yaml says what
happens."""
SCORES = "scores.json"
"""Written last: where it is, the run is finished."""
START = "start.safetensors"
"""In a run folder while it is trained: the weights it starts from, named as in its own model."""


def read_part(path: Path) -> dict[str, Any]:
    """A JSON or YAML file of a run."""
    if not path.parent.is_dir():
        raise UserError(
            what=f"There is no run folder {path.parent}.",
            why="A run is the folder that `seqlab train` left behind.",
            fix="Look for it with: ls runs",
        )
    if not path.exists():
        raise UserError(
            what=f"{path} is missing.",
            why=f"Without it {path.parent} is not a whole run folder.",
            fix="Name the folder that `seqlab train` printed, or copy the whole folder again.",
        )
    try:
        text = path.read_text(encoding="utf-8")
        tree = json.loads(text) if path.suffix == ".json" else config.read_yaml(text, str(path))
    except (OSError, ValueError) as error:
        raise damaged(path, str(error)) from None
    if not isinstance(tree, dict):
        raise damaged(path, "it does not hold a mapping")
    return tree


def damaged(path: Path, how: str) -> UserError:
    fix = "Copy the whole run folder again, or train anew."
    return UserError(what=f"{path} is damaged: {how}.", why="The run can't be used without it.", fix=fix)


def stored_tree(folder: Path) -> Tree:
    """The settings of a run that was started."""
    if (folder / CONFIG).exists():
        return config.read_file(folder / CONFIG)
    raise UserError(
        what=f"{folder} is not a run folder: {CONFIG} is missing.",
        why="Only a run that `seqlab train` has started can be resumed.",
        fix=(
            "Name the folder that `seqlab train` printed, for instance: seqlab train --resume"
            " runs/reviews-bilstm"
        ),
    )


def refuse_taken(folder: Path) -> Path:
    """A folder that was asked for, unless it is there or can't be made."""
    if blocking := [parent for parent in folder.parents if parent.is_file()]:
        raise UserError(
            what=f"{folder} can't be made: {blocking[0]} is a file.",
            why="A run is a folder, and a folder can't be inside a file.",
            fix="Choose another --out, for instance: --out runs/mine",
        )
    if folder.exists():
        raise UserError(
            what=f"{folder} is there already.",
            why="An existing folder is never overwritten.",
            fix=f"Choose another --out, or go on with: seqlab train --resume {folder}",
        )
    return folder


def free_names(data: Sequence[str], model: str) -> Iterator[Path]:
    """runs/<data>-<model>, then runs/<data>-<model>-2, and so on: those that are not there."""
    stem = Path(data[0]).name.split(".")[0].strip("-*?[]") or "data"
    parent = Path(data[0]).parent.name
    told = stem not in ("train", "training", "data") or parent in ("", ".", "..")
    name = f"{stem}-{model}" if told else f"{parent}-{stem}-{model}"
    for number in itertools.count(1):
        folder = Path("runs") / (name if number == 1 else f"{name}-{number}")
        if not folder.exists():
            yield folder

"""The way back to a trained model: `seqlab.load("runs/reviews")`."""

from __future__ import annotations

from pathlib import Path

from seqlab.uses.classify import ClassifyRun
from seqlab.uses.generate import GenerateRun
from seqlab.uses.pretrain import PretrainRun
from seqlab.uses.run import Run, read_facts, read_settings
from seqlab.uses.translate import TranslateRun

RUNS: dict[str, type[Run]] = {
    "classify": ClassifyRun, "translate": TranslateRun, "generate": GenerateRun, "pretrain": PretrainRun,
}    # fmt: skip
"""What can be done with a run, by its task."""


def load(folder: str | Path) -> Run:
    """The run in a folder."""
    folder = Path(folder)
    settings = read_settings(folder)
    return RUNS[settings.task.kind](folder, settings, read_facts(folder, settings.task))

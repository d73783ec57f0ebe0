"""What `inspect` says: the costs of runs, presets and settings files, at one length or over a range."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from seqlab.config import build, dump, override
from seqlab.errors import UserError
from seqlab.folder import CONFIG
from seqlab.model import Model, sketch
from seqlab.parts import Facts
from seqlab.probe import Probe, probe
from seqlab.report.beside import SideBySide
from seqlab.report.cost import Inspection, inspect_model, measure
from seqlab.report.cost_page import PageModel, write_page
from seqlab.report.growth import Growth
from seqlab.report.lengths import Sweep, known_positions, layer_crossings, model_crossings, width_of
from seqlab.report.published import Published
from seqlab.request import known_model, of_model, task_of
from seqlab.run import load
from seqlab.settings import Settings, TrainRequest, task_classes
from seqlab.tasks import DEFAULT
from seqlab.tasks.task import Size

SYMBOLS, CLASSES = 30_000, 2
"""Of a vocabulary and of labels, where nobody tells."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What `inspect` is asked for."""

    names: Sequence[str]
    task: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    lengths: tuple[int, ...] = (128,)
    vocabulary: int | None = None
    classes: int | None = None
    tokens: int = 0
    growth: bool = False
    probe: bool = False
    out: str = ""
    as_json: bool = False


@dataclass(frozen=True)
class Subject:
    """One model that is inspected, without memory for its weights."""

    name: str
    settings: Settings
    facts: Facts
    model: Model
    published: Published | None
    rows: int | None = None
    """Training rows, of a run."""
    on_disk: int | None = None

    def at(self, length: int, tokens: int) -> Inspection:
        """Its costs."""
        return inspect_model(
            self.model,
            length,
            tokens,
            name=self.name,
            task=self.settings.task.kind,
            published=self.published,
            moments=2 if self.settings.training.optimiser == "adamw" else 0,
            on_disk=self.on_disk,
        )


def inspect_asked(asked: Asked) -> None:
    """Print what is asked for, and write the page."""
    for option, value in (("vocabulary", asked.vocabulary), ("classes", asked.classes)):
        if value is not None and value < 1:
            fix = f"For instance: --{option} 2"
            raise UserError(what=f"--{option} is {value}.", why="There is at least one of them.", fix=fix)
    subjects = [subject_of(name, asked) for name in dict.fromkeys(asked.names)]
    found = [subject.at(asked.lengths[0], asked.tokens) for subject in subjects]
    sweep = sweep_of(subjects, asked) if len(asked.lengths) > 1 else None
    probes = [
        probe(subject.settings, subject.facts, one, subject.rows or Size().rows)
        for subject, one in zip(subjects, found, strict=True)
        if asked.probe
    ]
    growth = measure() if asked.growth else []
    if asked.as_json:
        print(json.dumps(_json(found, probes, sweep, growth)))
    else:
        print(_text(subjects, found, probes, sweep))
        if growth:
            print("\n".join(map(str, growth)))
    if asked.out:
        shown = [
            PageModel(one, subject.model, subject.facts, probes[number].lines() if probes else ())
            for number, (subject, one) in enumerate(zip(subjects, found, strict=True))
        ]
        write_page(Path(asked.out), shown, sweep)
        print(f"Drawn in {asked.out}", file=sys.stderr)
    _say_next(subjects[0], asked.out)


def subject_of(name: str, asked: Asked) -> Subject:
    """A run, a preset or a settings file, with settings on top."""
    if (Path(name) / CONFIG).exists():
        run = load(name)
        changed = override(dump(run.settings), asked.settings, Settings)
        settings, facts = build(Settings, changed, name), run.answer.parts
        on_disk = sum(file.stat().st_size for file in Path(name).rglob("*") if file.is_file())
        return Subject(
            name, settings, facts, sketch(settings.model, facts), None, run.facts.rows["train"], on_disk
        )
    classes = task_classes()
    presets = {task: set().union(*kind.tables(Size()).values()) for task, kind in classes.items()}
    if not asked.task:
        known_model(name, presets)
    task = asked.task or task_of(name, presets, DEFAULT.kind)
    settings = TrainRequest.of(of_model(name, task, asked.settings)).settings()
    published = settings.task.published.get(name)
    symbols = asked.vocabulary or (published.symbols if published else SYMBOLS)
    facts = settings.task.imagined(symbols, asked.classes or CLASSES)
    same = published if published and not asked.settings and not asked.vocabulary else None
    return Subject(name, settings, facts, sketch(settings.model, facts), same)


def sweep_of(subjects: Sequence[Subject], asked: Asked) -> Sweep:
    """Costs at every length, and where one kind of layer overtakes another."""
    lines = too_short(subjects, asked.lengths[-1])
    widths = dict.fromkeys(width for subject in subjects if (width := width_of(subject.model)))
    for width in widths:
        lines += layer_crossings(width)
    lines += model_crossings({subject.name: subject.model for subject in subjects})
    found = [[subject.at(length, asked.tokens) for length in asked.lengths] for subject in subjects]
    return Sweep([subject.name for subject in subjects], asked.lengths, found, lines)


def too_short(subjects: Sequence[Subject], length: int) -> list[str]:
    """Of models whose learned positions end before that length."""
    return [
        f"{subject.name} has {known:,} learned positions: what stands here of longer texts is what a longer"
        " table would cost."
        for subject in subjects
        if (known := known_positions(subject.model)) and known < length
    ]


def _text(
    subjects: Sequence[Subject], found: Sequence[Inspection], probes: Sequence[Probe], sweep: Sweep | None
) -> str:
    measured = [line for one in probes for line in one.lines()]
    notes = too_short(subjects, found[0].length)
    if sweep is not None:
        return "\n".join([str(sweep), *measured])
    if len(subjects) == 1:
        return "\n".join([str(found[0]), *notes, *measured])
    return "\n\n".join([str(SideBySide(found, [one.facts() for one in probes])), *notes])


def _json(
    found: Sequence[Inspection], probes: Sequence[Probe], sweep: Sweep | None, growth: Sequence[Growth]
) -> dict[str, Any]:
    trees = [one.to_json() for one in found]
    for tree, measured in zip(trees, probes, strict=False):
        tree["probe"] = measured.to_json()
    whole: dict[str, Any] = trees[0] if len(trees) == 1 else {"models": trees}
    if sweep is not None:
        whole["sweep"] = sweep.to_json()
    if growth:
        whole["growth"] = [one.to_json() for one in growth]
    return whole


def _say_next(subject: Subject, out: str) -> None:
    task = subject.settings.task.kind
    if out:
        told = f"open {out} in a browser"
    elif (Path(subject.name) / CONFIG).exists():
        told = f"seqlab evaluate {subject.name} DATA"
    elif Path(subject.name).exists():
        told = f"seqlab train {subject.name}"
    else:
        told = f"seqlab train {task} DATA --model {subject.name}"
    print(f"Next: {told}", file=sys.stderr)

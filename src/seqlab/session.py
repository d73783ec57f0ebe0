"""A training session from files to report: read, plan, train the baseline and the model, write everything down."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from seqlab import config
from seqlab.data.batches import Plan
from seqlab.errors import Stopped, UserError
from seqlab.files import alone_in, disk_trouble, new_folder
from seqlab.finish import finish
from seqlab.folder import BASELINE, SCORES, START, free_names, refuse_taken, stored_tree
from seqlab.model import Model, count_parameters, sketch
from seqlab.report.evaluate import duration
from seqlab.request import refuse_no_data
from seqlab.run import load
from seqlab.settings import Settings, Wishes, completed, planned
from seqlab.tasks.task import Checked, Files, Prepared, Size, TaskFacts
from seqlab.training.budget import Budget
from seqlab.training.layering import Layering
from seqlab.training.loop import Counters, Training
from seqlab.training.progress import Progress, thousands
from seqlab.training.speed import batches_a_second, probe_seconds
from seqlab.transfer import Source, put_in, save_start
from seqlab.uses.run import Run, read_facts, read_settings, write_run

BASELINE_SHARE = 0.1
"""Of a budget in minutes, what the baseline may take at the most."""


GRAMS_A_SECOND = 4_000_000
"""Characters that become n-grams in a second, about."""


def train(
    task: str,
    data: str | Sequence[str],
    *,
    valid: str | Sequence[str] = (),
    test: str | Sequence[str] = (),
    model: str = "",
    minutes: float | None = None,
    epochs: float | None = None,
    steps: int | None = None,
    seed: int = 0,
    start: str | Path = "",
    out: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    quiet: bool = False,
) -> Run:
    """Train a model on files and give back its run. `settings` are dotted keys: {"model.encoder.width": 64}.

    `start` is the folder of a trained run whose body is put under this task.
    """
    overrides: dict[str, Any] = {"data.train": _names(data), "training.seed": seed}
    overrides |= {"transfer.start": str(start)} if start else {}
    overrides |= {f"data.{split}": _names(names) for split, names in (("valid", valid), ("test", test)) if names}
    budget = {"minutes": minutes, "epochs": epochs, "steps": steps}
    overrides |= {f"training.{key}": value for key, value in budget.items() if value is not None}
    wishes = Wishes(task=task, preset=model, overrides=overrides | dict(settings or {}))
    return train_anew(wishes, out, Progress(quiet=quiet), time.monotonic())


def train_anew(wishes: Wishes, out: str | Path | None, progress: Progress, started: float) -> Run:
    """A new run. Its name is taken before the data is read; nothing stays where settings or data are bad."""
    source = source_of(wishes)
    wishes = replace(wishes, adapt=source.adapt) if source else wishes
    first = wishes.settings()
    refuse_no_data(first.data.train, "train", first.task.kind, first.task.data_example)
    names: Iterable[Path] = free_names(first.data.train, wishes.model_name(first))
    if out is not None:
        names = [refuse_taken(Path(out))]
    first.task.objectives(first.model)    # refuses settings that contradict each other
    refuse_missing_device(first.training.device)
    with new_folder(names) as (folder, beside):    # taken first, so that a second process is refused at once
        files = _looked_at(first, progress)
        size = replace(files.size, minutes=first.training.minutes, speed=first.training.speed)
        settings = completed(wishes.settings(size), size)
        prepared = files.prepare(settings.data, settings.model)
        settings = _with_budget(settings, prepared)
        refuse_too_little(settings, prepared.facts, started)
        model = sketch(settings.model, prepared.facts.parts)    # refuses parts that do not fit together
        taken = source.taken(model, settings) if source else {}
        Layering.of(model, taken, settings.transfer)    # refuses what leaves nothing to learn
        if wishes.depend_on_speed(size):
            speed = measured(settings, prepared, taken, size, folder)
            size = replace(size, speed=speed)
            epochs = f"{size.passes or 0.0:.2g} epochs at the most"
            progress.say(f"Measured: {thousands(speed)} characters a second, so {epochs}")
            settings = completed(wishes.settings(size), size)
        with disk_trouble(f"{folder} could not be saved"):
            write_run(beside, settings, prepared)
            if source:
                save_start(taken, beside)
                count = sum(tensor.numel() for tensor in taken.values())
                progress.say(f"From {source.folder}: {count:,} weights, the rest is new")
    return Session(folder, settings, prepared, files, progress, started).run()


def measured(
    settings: Settings, prepared: Prepared, taken: Collection[str], size: Size, folder: Path
) -> float:
    """Characters that a second of training leads through, by real steps of a model that is thrown away."""
    training = settings.training
    threads = torch.get_num_threads()
    torch.set_num_threads(training.threads or threads)
    try:
        with torch.random.fork_rng(devices=[]):
            model = Model(settings.model, prepared.facts.parts)
            layering = Layering.of(model, taken, settings.transfer)
            trainer = Training(
                model.to(training.device), settings.task.objectives(settings.model), training,
                make_plan(settings, prepared), load=prepared.load, validate=lambda _: Checked(0.0, 0.0, {}),
                budget=Budget(steps=sys.maxsize), folder=folder, progress=Progress(quiet=True),
                layering=layering,
            )
            batches = batches_a_second(trainer, probe_seconds(size.planned))
    finally:
        torch.set_num_threads(threads)
    return float(f"{size.characters * batches / trainer.epoch_batches:.4g}")


def source_of(wishes: Wishes) -> Source | None:
    """The run to start from, where one is named."""
    return Source(wishes.start) if wishes.start else None


def resume(folder: Path, progress: Progress, started: float) -> Run:
    """Go on exactly where a stopped run was."""
    stored_tree(folder)    # refuses a folder that is none
    settings = read_settings(folder)
    facts = read_facts(folder, settings.task)
    if (folder / SCORES).exists():
        progress.say(f"{folder} was finished already; nothing is left to do.")
        return load(folder)
    files = _looked_at(settings, progress)
    prepared = files.prepare(settings.data, settings.model)
    if prepared.facts.fingerprint != facts.fingerprint:
        raise UserError(
            what=f"The data of {folder} has changed since the run was started.",
            why="Going on with other rows would not be the same run.",
            fix="Put the files back as they were, or start a new run.",
        )
    return Session(folder, settings, prepared, files, progress, started).run(resumed=True)


class Session:
    """One process's work on a run folder."""

    def __init__(
        self, folder: Path, settings: Settings, prepared: Prepared, files: Files, progress: Progress, started: float
    ) -> None:
        self.folder, self.settings, self.prepared, self.files = folder, settings, prepared, files
        self.progress, self.started = progress, started

    def run(self, resumed: bool = False) -> Run:
        with alone_in(self.folder):
            return self.trained(resumed)

    def trained(self, resumed: bool) -> Run:
        training = self.settings.training
        if training.threads:
            torch.set_num_threads(training.threads)
        if training.baseline and not (self.folder / BASELINE).exists():
            self.learn_baseline()
        counters = self.fit(resumed, reserve_for(self.prepared.facts))
        (self.folder / START).unlink(missing_ok=True)
        return finish(self.folder, self.prepared, self.files, counters.step, self.started)

    def fit(self, resumed: bool, reserve: float) -> Counters:
        """Train the model itself. With a budget in minutes, `reserve` seconds are kept for what comes after."""
        settings, prepared = self.settings, self.prepared
        training = settings.training
        torch.manual_seed(training.seed)
        model = Model(settings.model, prepared.facts.parts)
        layering = Layering.of(model, put_in(model, self.folder), settings.transfer)
        model.to(training.device)
        self.progress.say(
            f"{count_parameters(model):,} parameters, {prepared.facts.amount}, "
            f"{_counted(torch.get_num_threads(), 'thread')}. Everything goes to {self.folder}"
        )
        plan = make_plan(settings, prepared)
        rows = prepared.facts.rows
        epochs = settings.task.stretch * settings.task.epochs(rows["train"])
        most = training.steps or int(epochs * len(plan.epoch(0)) / training.accumulate)
        scorings = 1.2 + rows.get("test", rows["valid"]) / rows["valid"]
        budget = Budget(steps=max(1, most), minutes=training.minutes, started=self.started, reserve=reserve, scorings=scorings)
        trainer = Training(
            model, settings.task.objectives(settings.model), training, plan,
            load=prepared.load, validate=self.validated,
            budget=budget, folder=self.folder, progress=self.progress, layering=layering,
        )
        if resumed:
            trainer.resume()
        return trainer.run()

    def validated(self, model: nn.Module) -> Checked:
        """What a validation finds, and something that the model writes as config.yaml says."""
        found = self.prepared.validate(model, self.settings.training.device)
        return replace(found, sample=self.prepared.sample(model, self.settings.decode))

    def learn_baseline(self) -> None:
        """Something simple learnt from the same rows, to stand beside the model."""
        folder = self.folder / f".{BASELINE}.part"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        began = time.monotonic()
        said = self.prepared.learn_baseline(folder)
        if not said and self.worth_a_bag():
            said = self.train_bag(folder)
        if said:
            folder.rename(self.folder / BASELINE)
            self.progress.say(f"{said}, in {duration(time.monotonic() - began)}")
        else:
            folder.rmdir()

    def worth_a_bag(self) -> bool:
        """Unless the model itself is one, or it would eat up the minutes before the first step."""
        training, reads = self.settings.training, self.settings.model.input
        if self.settings.task.kind != "classify" or reads is None or reads.kind == "bag":
            return False
        seconds = self.files.characters / GRAMS_A_SECOND
        if training.minutes is None or seconds < BASELINE_SHARE * 60.0 * training.minutes:
            return True
        self.progress.say(f"The baseline bow is left out: reading this much text for it would take about {duration(seconds)}.")
        return False

    def train_bag(self, folder: Path) -> str:
        """A bag of words on the same rows, into a run folder of its own."""
        minutes = self.settings.training.minutes
        overrides = {f"data.{key}": value for key, value in config.dump(self.settings.data).items()}
        overrides |= {f"task.{key}": value for key, value in config.dump(self.settings.task).items() if key == "target"}
        overrides |= {"training.seed": self.settings.training.seed}
        wishes = Wishes(task="classify", preset="bow", overrides=overrides)
        settings = completed(wishes.settings(self.files.size), self.files.size)
        prepared = self.files.prepare(settings.data, settings.model)
        settings = _with_budget(settings, prepared)
        write_run(folder, settings, prepared)
        session = Session(folder, settings, prepared, self.files, Progress(quiet=True), time.monotonic())
        if minutes is not None:
            training = replace(settings.training, steps=None, minutes=BASELINE_SHARE * minutes)
            session.settings = replace(settings, training=training)
        try:
            counters = session.fit(resumed=False, reserve=0.0)
        except Stopped as stop:
            fix = f"Start it with: seqlab train --resume {self.folder}"
            raise Stopped(stop.exit_code - 128, "Stopped before training began.", fix=fix) from None
        shutil.rmtree(folder / "resume")
        score = abs(counters.best_score or 0.0)
        name = "squared error" if overrides["task.target"] == "number" else "accuracy"
        return f"Baseline bow: valid {name} {score:.4f}"


def reserve_for(facts: TaskFacts) -> float:
    """Seconds that scoring and the report will take; the training loop adds what a validation takes."""
    return 3.0 + sum(count for split, count in facts.rows.items() if split != "train") / 2500.0


def refuse_too_little(settings: Settings, facts: TaskFacts, started: float) -> None:
    """Reading took its time: is enough of the minutes left to train, validate once and report?"""
    minutes = settings.training.minutes
    if minutes is None:
        return
    share = BASELINE_SHARE if settings.training.baseline else 0.0
    used, after = time.monotonic() - started, reserve_for(facts)
    if 60.0 * minutes * (1 - share) < used + after + 2.0:
        raise UserError(
            what=f"training.minutes is {minutes:g}, which is too little for this data.",
            why=f"Reading it took {used:.0f} s, and validation and the report will take about {after:.0f} s.",
            fix=f"Give at least --minutes {((used + after + 2.0) / (1 - share) + 15.0) / 60.0:.1f}",
        )


def refuse_missing_device(device: str) -> None:
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise UserError(
            what=f'training.device is "{device}", which this machine does not have.',
            why=str(error).splitlines()[0],
            fix="Leave --device out to compute on the CPU.",
        ) from None


def _looked_at(settings: Settings, progress: Progress) -> Files:
    progress.say(f"Reading {', '.join(settings.data.train)}")
    files = settings.task.look(settings.data)
    files.refuse_faults()
    for warning in files.warnings:
        progress.say(f"Warning: {warning}")
    return files


def _with_budget(settings: Settings, prepared: Prepared) -> Settings:
    return planned(settings, prepared.facts.rows["train"], len(make_plan(settings, prepared).epoch(0)))


def make_plan(settings: Settings, prepared: Prepared) -> Plan:
    assert settings.training.batch_tokens is not None
    return prepared.plan(settings.training.batch_tokens, settings.training.seed)


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _names(data: str | Sequence[str]) -> tuple[str, ...]:
    return (data,) if isinstance(data, str) else tuple(str(name) for name in data)

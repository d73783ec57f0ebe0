"""A training session from files to report: read, plan, train the baseline and the model, write everything
down."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from seqlab.baselines.bag import SHARE
from seqlab.baselines.baseline import Lesson, learnt_line
from seqlab.config import dump
from seqlab.data.batches import Plan
from seqlab.errors import Stopped, UserError
from seqlab.fields.field import DataFacts
from seqlab.files import alone_in, disk_trouble, new_folder, write_json, write_text
from seqlab.folder import (
    BASELINE,
    CONFIG,
    FACTS,
    SCORES,
    START,
    free_names,
    read_part,
    refuse_taken,
    stored_tree,
)
from seqlab.microscope import REPORTED, gradients_on
from seqlab.model import Model, count_parameters, sketch
from seqlab.report.card import model_card
from seqlab.report.cost import inspect_model
from seqlab.report.evaluate import Score, aligned, duration
from seqlab.report.page import Report, write_report
from seqlab.request import refuse_no_data
from seqlab.run import Run, load, read_facts, read_settings, write_run
from seqlab.settings import Settings, TrainRequest, completed, planned
from seqlab.tasks.prepare import Files, Prepared
from seqlab.tasks.task import Size
from seqlab.training.budget import Budget
from seqlab.training.layer_rates import LayerRates
from seqlab.training.loop import Counters, Training
from seqlab.training.progress import Progress, thousands
from seqlab.training.speed import batches_a_second, probe_seconds
from seqlab.training.validation import Validation
from seqlab.transfer import PretrainedRun, put_in, save_start


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
    overrides |= {
        f"data.{split}": _names(names) for split, names in (("valid", valid), ("test", test)) if names
    }
    budget = {"minutes": minutes, "epochs": epochs, "steps": steps}
    overrides |= {f"training.{key}": value for key, value in budget.items() if value is not None}
    wishes = TrainRequest(task=task, preset=model, overrides=overrides | dict(settings or {}))
    return train_anew(wishes, out, Progress(quiet=quiet), time.monotonic())


def train_anew(wishes: TrainRequest, out: str | Path | None, progress: Progress, started: float) -> Run:
    """A new run. Its name is taken before the data is read; nothing stays where settings or data are bad."""
    source = source_of(wishes)
    wishes = replace(wishes, adapt=source.adapt) if source else wishes
    first = wishes.settings()
    refuse_no_data(first.data.train, "train", first.task.kind, first.task.data_example)
    names: Iterable[Path] = free_names(first.data.train, wishes.model_name(first))
    if out is not None:
        names = [refuse_taken(Path(out))]
    first.task.objectives(first.model)  # refuses settings that contradict each other
    refuse_missing_device(first.training.device)
    with new_folder(names) as (folder, beside):  # taken first, so that a second process is refused at once
        files = _looked_at(first, progress)
        size = replace(files.size, minutes=first.training.minutes, speed=first.training.speed)
        settings = completed(wishes.settings(size), size)
        prepared = files.prepare(settings.data, settings.model, settings.decode)
        settings = _with_budget(settings, prepared)
        refuse_too_little(settings, prepared.facts, started)
        model = sketch(settings.model, prepared.answer.parts)  # refuses parts that do not fit together
        taken = source.taken(model, settings) if source else {}
        LayerRates.of(model, taken, settings.transfer)  # refuses what leaves nothing to learn
        if wishes.depend_on_speed(size):
            speed = measured(settings, prepared, taken, size, folder)
            size = replace(size, speed=speed)
            epochs = f"{size.passes or 0.0:.2g} epochs at the most"
            progress.say(f"Measured: {thousands(speed)} characters a second, so {epochs}")
            settings = completed(wishes.settings(size), size)
            prepared = replace(prepared, known=replace(prepared.known, model=settings.model))
        with disk_trouble(f"{folder} could not be saved"):
            write_run(beside, settings, prepared)
            if source:
                save_start(taken, beside)
                count = sum(tensor.numel() for tensor in taken.values())
                progress.say(f"From {source.folder}: {count:,} weights, the rest is new")
    return Session(folder, settings, prepared, progress, started).run()


def measured(
    settings: Settings, prepared: Prepared, taken: Collection[str], size: Size, folder: Path
) -> float:
    """Characters that a second of training leads through, by real steps of a model that is thrown away."""
    training = settings.training
    threads = torch.get_num_threads()
    torch.set_num_threads(training.threads or threads)
    try:
        with torch.random.fork_rng(devices=[]):
            model = Model(settings.model, prepared.answer.parts)
            trainer = Training(
                model.to(training.device),
                settings.task.objectives(settings.model),
                training,
                make_plan(settings, prepared),
                load=prepared.load,
                validate=lambda _: Validation(0.0, 0.0, {}),
                budget=Budget(steps=sys.maxsize),
                folder=folder,
                progress=Progress(quiet=True),
                layer_rates=LayerRates.of(model, taken, settings.transfer),
            )
            batches = batches_a_second(trainer, probe_seconds(size.planned))
    finally:
        torch.set_num_threads(threads)
    return float(f"{size.characters * batches / trainer.epoch_batches:.4g}")


def source_of(wishes: TrainRequest) -> PretrainedRun | None:
    """The run to start from, where one is named."""
    return PretrainedRun(wishes.start) if wishes.start else None


def resume(folder: Path, progress: Progress, started: float) -> Run:
    """Go on exactly where a stopped run was."""
    stored_tree(folder)  # refuses a folder that is none
    settings = read_settings(folder)
    facts = read_facts(folder, settings.task)
    if (folder / SCORES).exists():
        progress.say(f"{folder} was finished already; nothing is left to do.")
        return load(folder)
    files = _looked_at(settings, progress)
    prepared = files.prepare(settings.data, settings.model, settings.decode)
    if "format" not in read_part(folder / FACTS):
        raise UserError(
            what=(
                f"{folder} was started with an earlier version of seqlab, which prepared data in another way."
            ),
            why="Its state can't be gone on with exactly.",
            fix="Finish it with that version, or start a new run; a finished one can be used as it is.",
        )
    if prepared.facts.fingerprint != facts.fingerprint:
        raise UserError(
            what=f"The data of {folder} has changed since the run was started.",
            why="Going on with other rows would not be the same run.",
            fix="Put the files back as they were, or start a new run.",
        )
    return Session(folder, settings, prepared, progress, started).run(resumed=True)


class Session:
    """One process's work on a run folder."""

    def __init__(
        self, folder: Path, settings: Settings, prepared: Prepared, progress: Progress, started: float
    ) -> None:
        self.folder, self.settings, self.prepared = folder, settings, prepared
        self.progress, self.started = progress, started

    def run(self, resumed: bool = False) -> Run:
        with alone_in(self.folder):
            training = self.settings.training
            if training.threads:
                torch.set_num_threads(training.threads)
            if training.baseline and not (self.folder / BASELINE).exists():
                self.learn_baselines()
            counters = self.fit(resumed)
            (self.folder / START).unlink(missing_ok=True)
            return self.finish(counters.step)

    def fit(self, resumed: bool) -> Counters:
        """Train the model itself."""
        settings, prepared = self.settings, self.prepared
        training, facts = settings.training, prepared.facts
        torch.manual_seed(training.seed)
        model = Model(settings.model, prepared.answer.parts)
        layer_rates = LayerRates.of(model, put_in(model, self.folder), settings.transfer)
        model.to(training.device)
        self.progress.say(
            f"{count_parameters(model):,} parameters, {prepared.known.reads.amount(facts)}, "
            f"{_counted(torch.get_num_threads(), 'thread')}. Everything goes to {self.folder}"
        )
        trainer = Training(
            model,
            settings.task.objectives(settings.model),
            training,
            make_plan(settings, prepared),
            load=prepared.load,
            validate=self.validate,
            budget=self.budget(),
            folder=self.folder,
            progress=self.progress,
            layer_rates=layer_rates,
        )
        if resumed:
            trainer.resume()
        return trainer.run()

    def budget(self) -> Budget:
        """How long to train; of a budget in minutes, some is kept for what comes after."""
        training, rows = self.settings.training, self.prepared.facts.rows
        epochs = self.settings.task.stretch * self.settings.task.epochs(rows["train"])
        batches = len(make_plan(self.settings, self.prepared).epoch(0))
        most = training.steps or int(epochs * batches / training.accumulate)
        scorings = 1.2 + rows.get("test", rows["valid"]) / rows["valid"]
        return Budget(
            steps=max(1, most),
            minutes=training.minutes,
            started=self.started,
            reserve=reserve_for(self.prepared.facts),
            scorings=scorings,
        )

    def validate(self, model: nn.Module) -> Validation:
        assert isinstance(model, Model)
        return self.prepared.validate(model)

    def learn_baselines(self) -> None:
        """Something simple learnt from the same rows, to stand beside the model."""
        prepared, settings, files = self.prepared, self.settings, self.prepared.files
        folder = self.folder / f".{BASELINE}.part"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        lesson = Lesson(
            task=dump(settings.task),
            answer=prepared.answer,
            stores=prepared.stores,
            rows=partial(files.rows, "train"),
            all_rows=files.train.rows,
            seed=settings.training.seed,
            epochs=settings.task.epochs(prepared.facts.rows["train"]),
            characters=files.characters,
            minutes=settings.training.minutes,
            say=self.progress.say,
        )
        try:
            for kind in settings.task.baselines():
                began = time.monotonic()
                learnt = kind.learn(lesson, folder) if kind.learns else None
                if learnt is not None:
                    took = duration(time.monotonic() - began)
                    self.progress.say(f"{learnt_line(learnt, lesson)}, in {took}")
        except Stopped as stop:
            fix = f"Start it with: seqlab train --resume {self.folder}"
            raise Stopped(stop.exit_code - 128, "Stopped before training began.", fix=fix) from None
        if any(folder.iterdir()):
            folder.rename(self.folder / BASELINE)
        else:
            folder.rmdir()

    def finish(self, steps: int) -> Run:
        """Score the best weights on the test rows (without them on the validation rows) and write everything
        down."""
        run, stores = load(self.folder), self.prepared.stores
        run.answer.settle(run.model, stores, self.folder)
        split = "test" if "test" in stores else "valid"
        scores, found = run.findings(stores[split])
        facts = self.prepared.facts
        report = Report(
            title=self.folder.name,
            words=run.task.words(run.answer),
            settings_text=(self.folder / CONFIG).read_text(encoding="utf-8"),
            scores=scores,
            split=split,
            metrics=run.history(),
            keys={metric.name: metric.key for metric in run.answer.metrics},
            worst=found.worst,
            maps=found.maps,
            pictures=found.pictures,
            samples=found.samples,
            by_length=found.by_length or {},
            does={baseline.name: baseline.does for baseline in run.baselines},
            inspection=inspect_model(run.model, int(min(run.settings.data.length, max(8, facts.words)))),
            gradients=gradients_on(run, stores[split], REPORTED).to_html(),
            rows=run.reads.amounts(facts),
            notes=facts.warnings,
            seconds=time.monotonic() - self.started,
            steps=steps,
        )
        write_report(self.folder / "report.html", report)
        write_text(self.folder / "README.md", model_card(report))
        by_length = {
            name: {"examples": one.examples, **one.to_json()["metrics"]}
            for name, one in report.by_length.items()
        }
        tree = {"split": split, **scores.to_json(), "verdicts": report.verdicts}
        write_json(self.folder / SCORES, tree | {"by_length": by_length} if by_length else tree)
        return run


def summary(run: Run) -> str:
    """The scores of a finished run beside its baselines, in a few lines."""
    tree = json.loads((run.folder / SCORES).read_text(encoding="utf-8"))
    everyone = {"this model": tree["metrics"], **tree.get("baselines", {})}
    metrics = [metric for metric in run.answer.metrics if metric.summed]
    words = run.task.words(run.answer)
    what = words.summed or words.scored
    rows = [(f"{tree['split']} ({tree['examples']:,} {what})", *(metric.title for metric in metrics))]
    for who, found in everyone.items():
        scores = [Score.of_json(metric, found[metric.name]) for metric in metrics]
        rows.append((who, *(f"{score.shown}  ({score.interval})" for score in scores)))
    return "\n".join([aligned(rows, left=range(len(rows[0]))), *tree["verdicts"]])


def reserve_for(facts: DataFacts) -> float:
    """Seconds that scoring and the report will take; the training loop adds what a validation takes."""
    return 3.0 + sum(count for split, count in facts.rows.items() if split != "train") / 2500.0


def refuse_too_little(settings: Settings, facts: DataFacts, started: float) -> None:
    """Reading took its time: is enough of the minutes left to train, validate once and report?"""
    minutes = settings.training.minutes
    if minutes is None:
        return
    share = SHARE if settings.training.baseline else 0.0
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
    files = Files(settings.task, settings.data)
    files.refuse_faults()
    for warning in files.warnings:
        progress.say(f"Warning: {warning}")
    return files


def _with_budget(settings: Settings, prepared: Prepared) -> Settings:
    return planned(settings, prepared.facts.rows["train"], len(make_plan(settings, prepared).epoch(0)))


def make_plan(settings: Settings, prepared: Prepared) -> Plan:
    """Which training rows go together; made once for each size of batch."""
    assert settings.training.batch_tokens is not None
    return prepared.plan(settings.training.batch_tokens, settings.training.seed)


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _names(data: str | Sequence[str]) -> tuple[str, ...]:
    return (data,) if isinstance(data, str) else tuple(str(name) for name in data)

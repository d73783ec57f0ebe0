"""How fast the machine learns: measured where the budget is in minutes, kept in config.yaml, of no other
effect."""

from __future__ import annotations

import itertools
import os
import signal
from dataclasses import replace

import pytest
import torch

import seqlab as package
from seqlab import session
from seqlab.config import dump, read_file
from seqlab.errors import Stopped
from seqlab.settings import TrainRequest, task_classes
from seqlab.tasks.prepare import Files
from seqlab.tasks.task import Size
from seqlab.training import speed
from seqlab.training.loop import TrainConfig, Training
from seqlab.training.progress import Progress
from seqlab.training.workers import Workers

SMALL = {
    "model.decoder.width": 16, "model.decoder.body.width": 16, "model.decoder.body.layers": 1,
    "task.context": 16, "training.baseline": False, "training.threads": 1, "training.validations": 2,
}  # fmt: skip
LEARNING = [
    ("translate", "transformer"),
    ("translate", "lstm"),
    ("generate", "lstm"),
    ("generate", "transformer"),
]
LEARNING += [("pretrain", "blank-bilstm")]


@pytest.fixture
def book(tmp_path):
    path = tmp_path / "book.txt"
    path.write_text("the cat sat on the mat.\nthe dog sat on the hat.\n" * 100)
    return str(path)


@pytest.fixture
def measured(monkeypatch):
    """The speeds that were measured; runs end without scores and a report."""
    found: list[float] = []
    measure = session.measured

    def noted(*given) -> float:
        found.append(measure(*given))
        return found[-1]

    monkeypatch.setattr(session, "measured", noted)
    monkeypatch.setattr(session.Session, "finish", lambda self, steps: package.load(self.folder))
    return found


def train(book, folder, **budget):
    return package.train("generate", book, model="gru", out=folder, settings=SMALL, quiet=True, **budget)


def presets(task, size):
    return task_classes()[task].presets(size)


def dropouts(tree) -> list[float]:
    """Every dropout in a tree of settings."""
    if not isinstance(tree, dict):
        return []
    here = [value for key, value in tree.items() if key.endswith("dropout")]
    return here + [value for below in tree.values() for value in dropouts(below)]


@pytest.mark.parametrize(("task", "preset"), LEARNING)
def test_a_faster_machine_never_drops_less(task, preset):
    sizes = [Size(minutes=10.0, speed=10.0**power) for power in range(1, 9)]
    found = [dropouts(presets(task, size)[preset]) for size in sizes]
    for slow, fast in itertools.pairwise(found):
        assert all(one <= two for one, two in zip(slow, fast, strict=True))
    assert found[0] != found[-1]
    assert Size(minutes=10.0, speed=50.0, characters=1000).passes == 30.0


@pytest.mark.parametrize("task", task_classes())
def test_without_minutes_the_speed_decides_nothing(task):
    assert presets(task, Size(speed=1e9)) == presets(task, Size())
    assert Size(minutes=1.0).passes is None


def test_a_run_by_minutes_keeps_its_speed_and_never_measures_again(book, measured, tmp_path, monkeypatch):
    """Stopped and resumed, and begun anew from its config.yaml."""
    inner = Training.take_step

    def stop_at_three(self):
        if self.folder.exists() and self.counters.step == 3:  # while it is measured there is no folder
            os.kill(os.getpid(), signal.SIGTERM)
        inner(self)

    monkeypatch.setattr(Training, "take_step", stop_at_three)
    with pytest.raises(Stopped):
        train(book, tmp_path / "run", minutes=0.2)
    before = (tmp_path / "run" / "config.yaml").read_bytes()
    monkeypatch.setattr(Training, "take_step", inner)
    resumed = session.resume(tmp_path / "run", Progress(quiet=True), session.time.monotonic())

    assert [resumed.settings.training.speed] == measured and measured[0] > 0
    assert (tmp_path / "run" / "config.yaml").read_bytes() == before
    monkeypatch.setattr(session.Session, "run", lambda self: package.load(self.folder))
    wishes = TrainRequest(tree=read_file(tmp_path / "run" / "config.yaml"))
    again = session.train_anew(wishes, tmp_path / "again", Progress(quiet=True), session.time.monotonic())
    assert again.settings == resumed.settings and len(measured) == 1


def test_a_speed_that_is_given_is_not_measured(book, measured, tmp_path, monkeypatch):
    monkeypatch.setattr(session.Session, "run", lambda self: package.load(self.folder))
    settings = SMALL | {"training.speed": 1e9}
    run = package.train("generate", book, minutes=5.0, out=tmp_path / "run", settings=settings, quiet=True)
    given = run.settings
    assert given.training.speed == 1e9 and given.model.decoder.dropout == 0.3 and not measured


def test_measuring_leaves_nothing_behind(book, measured, tmp_path, monkeypatch):
    """Neither in the weights of a run by steps, which is not measured by itself, nor in the random state."""
    plain = train(book, tmp_path / "plain", steps=4)
    assert plain.settings.training.speed is None and not measured

    monkeypatch.setattr(TrainRequest, "depend_on_speed", lambda *_: True)
    probed = train(book, tmp_path / "probed", steps=4)
    assert measured and probed.settings.training.speed == measured[0]
    assert replace(probed.settings, training=plain.settings.training) == plain.settings
    weights = [(run.folder / "model.safetensors").read_bytes() for run in (plain, probed)]
    assert weights[0] == weights[1]

    settings, size = plain.settings, Size(minutes=0.1)
    prepared = Files(settings.task, settings.data).prepare(settings.data, settings.model, settings.decode)
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    session.measured(settings, prepared, (), size, tmp_path / "nowhere")
    assert torch.equal(torch.get_rng_state(), state) and torch.get_num_threads() == threads
    assert not (tmp_path / "nowhere").exists()


def test_what_depends_on_no_speed_is_not_measured():
    minutes = Size(minutes=5.0)
    assert not TrainRequest(task="classify").depend_on_speed(minutes)
    assert not TrainRequest(task="pretrain", preset="roberta").depend_on_speed(minutes)
    assert not TrainRequest(tree=dump(TrainRequest(task="generate").settings())).depend_on_speed(minutes)
    assert TrainRequest(task="generate").depend_on_speed(minutes)
    told = {f"model.decoder.{name}": 0.2 for name in ("dropout", "output_dropout", "body.dropout")}
    assert not TrainRequest(task="generate", overrides=told).depend_on_speed(minutes)


def test_the_speed_is_that_of_the_steps(monkeypatch):
    """By a clock that goes on by a second at each look: each step and each look between takes one."""
    clock = iter(range(1000))
    monkeypatch.setattr(speed.time, "monotonic", lambda: next(clock))
    trainer = Steps()

    assert speed.batches_a_second(trainer, seconds=6.0) == pytest.approx(
        3 * 4 / 5
    )  # at 1, 2, 3 and 4 below 6 − 1
    assert trainer.taken == 5
    assert speed.batches_a_second(trainer, seconds=1.0) == 3.0  # the first step alone


class Steps(Training):
    """A training that only counts its steps."""

    def __init__(self):
        self.taken, self.config = 0, TrainConfig(accumulate=3)
        self.workers = Workers(torch.nn.Identity(), workers=1, seed=0)

    def take_step(self):
        self.taken += 1

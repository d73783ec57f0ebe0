"""The loop by itself: schedule, accumulation, averaging, faulty steps, the best weights, patience and the
clock."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from made import SMALL
from safetensors.torch import load_file
from torch import nn

import seqlab as seqlab_package
from seqlab.data.batches import Plan
from seqlab.errors import MachineError
from seqlab.model import ModelConfig
from seqlab.outputs import Structured
from seqlab.parts import Batch, Objective, Output, Reply, State, Term
from seqlab.seq import Seq
from seqlab.tasks.classify import Classify
from seqlab.training import budget as budget_module
from seqlab.training import loop as loop_module
from seqlab.training.budget import Budget
from seqlab.training.loop import TrainConfig, Training
from seqlab.training.optim import Average, rate_factor
from seqlab.training.progress import Progress
from seqlab.training.validation import Validation

ROWS, FEATURES = 64, 3


class Line(nn.Module):
    """Scores (B 1) = features (B 3) · weights + bias: small enough to check by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(FEATURES, 1)

    def forward(self, batch: Batch, carried: State | None = None) -> Output:
        features = batch.inputs["features"]
        assert isinstance(features, Seq)
        return Output({"row": Reply(self.linear(features.values[:, 0]))})


class Error(Objective):
    """Squared error; at the calls in `faulty` it is not a number."""

    name, reads = "error", "row"

    def __init__(self, faulty: range | tuple[int, ...] = ()) -> None:
        self.faulty, self.calls = faulty, 0

    def __call__(self, output: Output, batch: Batch) -> Term:
        total = (output.answers["row"].scores.squeeze(-1) - batch.targets["row"]).square().sum()
        self.calls += 1
        return Term(total * math.nan if self.calls in self.faulty else total, batch.size)


def load(rows: np.ndarray, chance: tuple[int, int] = (0, 0)) -> Batch:
    """Example n has three features and a target that follow from n."""
    number = torch.from_numpy(rows).float().unsqueeze(1)
    features = torch.cat([torch.sin(number), torch.cos(number), torch.sin(3 * number)], dim=1)  # B 3
    mask = torch.ones(len(rows), 1, dtype=torch.bool)
    target = features @ torch.tensor([1.0, -2.0, 0.5])
    return Batch({"features": Seq(features.unsqueeze(1), mask)}, torch.from_numpy(rows), {"row": target})


def trainer(
    folder,
    config=None,
    *,
    model=None,
    objective=None,
    objectives=None,
    validate=None,
    batch=16,
    steps=20,
    budget=None,
    **more,
) -> Training:
    torch.manual_seed(0)
    config = config or TrainConfig(
        **{"steps": steps, "rate": 0.05, "weight_decay": 0.01, "batch_tokens": batch} | more
    )
    score = validate or (lambda model: Validation(0.0, 1.0, {"valid_loss": 1.0}))
    return Training(
        model or Line(),
        objectives or [(1.0, objective or Error())],
        config,
        Plan(np.ones(ROWS, np.int64), batch, seed=0),
        load,
        score,
        budget or Budget(steps=steps),
        folder,
        Progress(quiet=True),
    )


def gradient(model: nn.Module) -> torch.Tensor:
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


def logged(folder) -> list[dict]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


# The rate and the weights -----------------------------------------------------------------------------------


@pytest.mark.parametrize("decay", ["linear", "cosine"])
def test_the_rate_rises_to_its_full_height_and_falls_to_a_hundredth(decay):
    assert rate_factor(0.0, 0.1, decay) == pytest.approx(0.01 / 1.01)
    assert rate_factor(0.1, 0.1, decay) == pytest.approx(1.0)
    assert rate_factor(1.0, 0.1, decay) == pytest.approx(0.01)
    assert rate_factor(0.55, 0.1, decay) == pytest.approx(0.505)  # half-way down, both are half-way
    up = [rate_factor(share, 0.1, decay) for share in np.linspace(0.0, 0.1, 20)]
    down = [rate_factor(share, 0.1, decay) for share in np.linspace(0.1, 1.0, 20)]
    assert up == sorted(up) and down == sorted(down, reverse=True)


def test_without_decay_the_rate_stays_up():
    assert rate_factor(0.1, 0.1, "none") == rate_factor(1.0, 0.1, "none") == 1.0
    assert (
        rate_factor(0.0, 0.0, "none") == 1.0 and rate_factor(1.0, 1.0, "linear") == 1.0
    )  # no warm-up, nothing else


def test_a_run_walks_the_whole_schedule(tmp_path):
    """The first step has the lowest rate of the warm-up; the last one is a step away from the end."""
    training = trainer(tmp_path, steps=20, warmup=0.1, validations=20, patience=50)
    training.run()
    rates = [row["rate"] for row in logged(tmp_path)]
    wanted = [0.05 * rate_factor(step / 20, 0.1, "linear") for step in range(20)]
    assert rates == pytest.approx(wanted)


@pytest.mark.parametrize("rows", [8, 5])
def test_two_half_batches_give_the_gradient_of_the_whole(rows, tmp_path, monkeypatch):
    """Also when the halves are not equal: sums are divided by the count of all (here 16 = rows + rest)."""
    gradients = []
    whole = np.arange(16)
    for parts in ([whole], [whole[:rows], whole[rows:]]):
        training = trainer(tmp_path, accumulate=len(parts), clip=1e9)
        monkeypatch.setattr(training, "next_rows", lambda count, parts=parts: ((0, part) for part in parts))
        monkeypatch.setattr(
            training.optimiser, "step", lambda model=training.model: gradients.append(gradient(model))
        )
        training.take_step()
    torch.testing.assert_close(*gradients, atol=1e-6, rtol=1e-6)


def test_sgd_moves_weights_against_their_gradient_and_pulls_matrices_to_zero(tmp_path, monkeypatch):
    """By hand: w ← w − rate (gradient + 0.1 w), with the gradient of a mean of squares; vectors are not
    pulled."""
    training = trainer(tmp_path, optimiser="sgd", rate=0.5, weight_decay=0.1, warmup=0.0, clip=1e9)
    monkeypatch.setattr(training, "next_rows", lambda count: iter([(0, np.arange(16))]))
    batch = load(np.arange(16))
    features = batch.inputs["features"].values[:, 0]
    weights, bias = (parameter.detach().clone() for parameter in training.model.parameters())
    errors = 2 * (features @ weights[0] + bias - batch.targets["row"])
    wanted = [
        weights - 0.5 * ((errors.unsqueeze(1) * features).mean(dim=0) + 0.1 * weights),
        bias - 0.5 * errors.mean(),
    ]
    training.take_step()
    torch.testing.assert_close(list(training.model.parameters()), wanted)


class Hops(nn.Module):
    """Structured attention over four vectors of each row, and two classes."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = Structured(hops=2, hidden=4).build(FEATURES)
        self.head = nn.Linear(2 * FEATURES, 2)

    def forward(self, batch: Batch, carried: State | None = None) -> Output:
        pooled = self.pool(batch.inputs["features"])
        return Output({"row": Reply(self.head(pooled.vector))}, pooled=pooled)


def hop_rows(rows: np.ndarray, chance: tuple[int, int] = (0, 0)) -> Batch:
    generator = torch.Generator().manual_seed(5)
    values = torch.randn(ROWS, 4, FEATURES, generator=generator)[rows]
    target = {"row": torch.from_numpy(rows % 2)}
    features = Seq(values, torch.ones(values.shape[:2], dtype=torch.bool))
    return Batch({"features": features}, torch.from_numpy(rows), target)


@pytest.mark.parametrize("parts", [[16], [11, 5]])
@pytest.mark.parametrize("penalty", [0.0, 0.7])
def test_a_step_goes_down_the_cross_entropy_and_the_penalty_on_hops(parts, penalty, tmp_path, monkeypatch):
    """w ← w − rate · the gradient of mean cross-entropy + penalty · mean ‖AAᵀ − I‖², written out for the rows
    of the whole batch, whatever its parts."""
    torch.manual_seed(0)
    objectives = Classify(penalty=penalty).objectives(ModelConfig(pool=Structured(hops=2)))
    config = {"optimiser": "sgd", "rate": 0.5, "weight_decay": 0.0, "warmup": 0.0, "clip": 1e9}
    training = trainer(tmp_path, accumulate=len(parts), **config, model=Hops(), objectives=objectives)
    training.load = hop_rows
    rows = np.split(np.arange(16), np.cumsum(parts)[:-1])
    monkeypatch.setattr(training, "next_rows", lambda count: iter([(0, part) for part in rows]))

    model, batch = training.model, hop_rows(np.arange(16))
    before = [parameter.detach().clone() for parameter in model.parameters()]
    states = batch.inputs["features"].values
    loss = torch.zeros(())
    for row in range(16):
        inner = torch.tanh(states[row] @ model.pool.hidden.weight.T)
        a = (inner @ model.pool.score.weight.T).softmax(dim=0).T  # hops by positions
        shares = model.head((a @ states[row]).flatten()).softmax(dim=0)
        distance = (a @ a.T - torch.eye(2)).square().sum()
        loss = loss - shares[row % 2].log() / 16 + penalty * distance / 16
    slopes = torch.autograd.grad(loss, list(model.parameters()))
    wanted = [tensor - 0.5 * slope for tensor, slope in zip(before, slopes, strict=True)]
    training.take_step()
    torch.testing.assert_close([tensor.detach() for tensor in model.parameters()], wanted)


def test_an_sgd_run_that_was_stopped_goes_on_bit_for_bit(tmp_path):
    """It has no memory but the weights; what AdamW keeps is tested in test_resume.py."""
    whole = trainer(tmp_path / "whole", optimiser="sgd", patience=50, save_seconds=1e9)
    whole.run()
    begun = trainer(tmp_path / "begun", optimiser="sgd", patience=50, save_seconds=1e9)
    for _ in range(7):
        begun.take_step()
    begun.save()
    resumed = trainer(tmp_path / "begun", optimiser="sgd", patience=50, save_seconds=1e9)
    resumed.resume()
    assert resumed.counters.step == 7
    resumed.run()
    for one, two in zip(whole.model.parameters(), resumed.model.parameters(), strict=True):
        assert torch.equal(one, two)


def test_the_gradient_is_the_mean_over_examples(tmp_path, monkeypatch):
    """By hand: d/dw of the mean of (w·x + b − y)² is the mean of 2 (w·x + b − y) x."""
    training = trainer(tmp_path, clip=1e9)
    batch = load(np.arange(16))
    features = batch.inputs["features"].values[:, 0]
    weights, bias = (parameter.detach().clone() for parameter in training.model.parameters())
    wanted = (2 * (features @ weights[0] + bias - batch.targets["row"]).unsqueeze(1) * features).mean(dim=0)
    monkeypatch.setattr(training, "next_rows", lambda count: iter([(0, np.arange(16))]))
    seen = []
    monkeypatch.setattr(training.optimiser, "step", lambda: seen.append(gradient(training.model)))
    training.take_step()
    torch.testing.assert_close(seen[0][:FEATURES], wanted)


def test_a_long_gradient_is_shortened(tmp_path, monkeypatch):
    training = trainer(tmp_path, clip=1e-3)
    norms = []
    monkeypatch.setattr(
        training.optimiser, "step", lambda: norms.append(gradient(training.model).norm().item())
    )
    training.take_step()
    assert norms[0] == pytest.approx(1e-3, rel=1e-3)


def test_averaged_weights_follow_their_formula():
    """average += (weights − average) / (1 + share · step); by hand for weights 1, 2, 3, ... and share 0.5."""
    model = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(model.weight)
    average, plain = Average(model, 0.5), Average(model, 0.0)
    by_hand = 0.0
    for step in range(1, 8):
        nn.init.constant_(model.weight, float(step))
        average.update(model, step)
        plain.update(model, step)
        by_hand += (step - by_hand) / (1 + 0.5 * step)
        assert average.model.weight.item() == pytest.approx(by_hand)
        assert plain.model.weight.item() == step, "no averaging: the newest weights"
    assert not average.model.weight.requires_grad and not average.model.training


# Faulty steps -----------------------------------------------------------------------------------------------


def test_a_faulty_step_is_left_out_and_counted(tmp_path):
    """The weights after it are those before it, and the run still takes all its steps."""
    training = trainer(tmp_path, objective=Error(faulty=(3, 4, 9)), validations=4)
    for call in range(1, 11):
        weights = training.model.linear.weight.detach().clone()
        training.take_step()
        assert torch.equal(weights, training.model.linear.weight) == (call in (3, 4, 9))
    assert training.counters.skipped == 3 and training.counters.step == 7
    assert all(torch.isfinite(parameter).all() for parameter in training.average.model.parameters())
    counters = training.run()
    assert counters.step == 20 and counters.skipped == 3 and logged(tmp_path)[-1]["skipped"] == 3


def test_five_faulty_steps_in_a_row_go_back_to_the_last_good_state_at_half_the_rate(tmp_path):
    """Validated at steps 4, 8, ...; steps 11 to 15 are faulty: back to step 8, from where all is well
    again."""
    training = trainer(tmp_path, objective=Error(faulty=range(11, 16)), validations=5, steps=20, patience=50)
    counters = training.run()
    assert (counters.step, counters.retreats, counters.rate_scale, counters.skipped) == (20, 1, 0.5, 5)
    rows = logged(tmp_path)
    assert [row["step"] for row in rows] == [4, 8, 12, 16, 20], "each step is logged once"
    assert rows[-1]["rate"] == pytest.approx(0.5 * 0.05 * rate_factor(19 / 20, 0.05, "linear"))
    assert [row["skipped"] for row in rows] == [0, 0, 5, 5, 5]


def test_the_way_back_does_not_depend_on_when_the_state_was_saved(tmp_path):
    """Saves come by the clock; with a retreat, too, the same steps give the same weights."""
    weights = []
    for name, seconds in (("often", 1e-9), ("never", 1e9)):
        (tmp_path / name).mkdir()
        faulty = Error(faulty=range(11, 16))
        training = trainer(
            tmp_path / name, objective=faulty, validations=5, save_seconds=seconds, patience=50
        )
        training.run()
        weights.append(training.model.linear.weight.detach().clone())
    assert torch.equal(*weights)


def test_after_three_ways_back_training_ends(tmp_path):
    training = trainer(tmp_path, objective=Error(faulty=range(11, 1000)), validations=5)
    with pytest.raises(MachineError) as told:
        training.run()
    assert (
        training.counters.retreats == 3
        and training.counters.rate_scale == 0.125
        and training.counters.skipped == 20
    )
    assert (
        "diverged" in told.value.what
        and "20 times" in told.value.what
        and "training.rate=0.005" in told.value.fix
    )
    assert [row["step"] for row in logged(tmp_path)] == [4, 8]


def test_weights_that_answer_with_no_number_are_never_the_best(tmp_path):
    """A validation that is not finite neither wins nor blocks the next one; metrics.jsonl stays JSON."""
    said = iter([(math.nan, math.nan), (0.3, math.nan), (0.2, 0.5), (math.nan, math.nan), (0.1, 0.4)])

    def validate(model):
        score, loss = next(said)
        return Validation(score, loss, {"valid_loss": loss})

    counters = trainer(tmp_path, validate=validate, validations=5).run()
    assert counters.best_score == 0.2 and counters.best_step == 12
    text = (tmp_path / "metrics.jsonl").read_text()
    assert "NaN" not in text and [row["valid_loss"] for row in logged(tmp_path)] == [
        None,
        None,
        0.5,
        None,
        0.4,
    ]


def test_a_run_without_one_finite_validation_has_diverged(tmp_path):
    validate = lambda model: Validation(math.nan, math.nan, {"valid_loss": math.nan})  # noqa: E731
    with pytest.raises(MachineError, match="diverged"):
        trainer(tmp_path, validate=validate).run()
    assert not (tmp_path / "model.safetensors").exists()


def test_a_rate_beyond_all_bounds_ends_with_exit_3(seqlab, reviews, tmp_path):
    words = [
        "--model",
        "transformer",
        "--steps",
        200,
        "--out",
        tmp_path / "run",
        *SMALL,
        "training.rate=1e30",
    ]
    code, _, err = seqlab("train", "classify", reviews, *words)
    assert code == 3, err
    assert "diverged" in err and "training.rate=1e+29" in err and "Traceback" not in err


# The best weights, patience, the disk -----------------------------------------------------------------------


def test_the_kept_weights_are_those_that_validated_best(tmp_path):
    """By the score; between equal scores by the loss. They are the averaged ones."""
    said = [(0.1, 1.0), (0.7, 0.9), (0.7, 0.4), (0.7, 0.6), (0.6, 0.1)]
    seen = []

    def validate(model):
        seen.append({name: tensor.clone() for name, tensor in model.state_dict().items()})
        score, loss = said[len(seen) - 1]
        return Validation(score, loss, {"valid_loss": loss})

    counters = trainer(tmp_path, validate=validate, validations=5).run()
    assert (counters.best_score, counters.best_loss, counters.best_step) == (0.7, 0.4, 12)
    kept = load_file(tmp_path / "model.safetensors")
    assert all(torch.equal(kept[name], seen[2][name]) for name in kept)


def test_patience_ends_a_run_that_gets_no_better(tmp_path):
    said = iter([0.1, 0.5, 0.4, 0.3, 0.2, 0.9])
    counters = trainer(
        tmp_path,
        validate=lambda model: Validation(next(said), 1.0, {"valid_loss": 1.0}),
        validations=10,
        patience=3,
    ).run()
    assert counters.step == 10 and counters.best_score == 0.5 and len(logged(tmp_path)) == 5


@pytest.mark.parametrize("steps, validations", [(3, 10), (7, 10), (20, 3), (1, 1)])
def test_the_last_step_is_always_validated(steps, validations, tmp_path):
    trainer(tmp_path, steps=steps, validations=validations, patience=50).run()
    rows = [row["step"] for row in logged(tmp_path)]
    assert rows[-1] == steps and len(rows) == min(steps, validations) and len(set(rows)) == len(rows)


def test_a_full_disk_while_logging_is_told(tmp_path):
    """/dev/full is a disk without a free byte. The state from before is still there."""
    (tmp_path / "metrics.jsonl").symlink_to("/dev/full")
    with pytest.raises(MachineError, match=r"metrics.jsonl could not be written: No space left"):
        trainer(tmp_path).run()
    (tmp_path / "metrics.jsonl").unlink()
    again = trainer(tmp_path, patience=50)
    again.resume()
    assert again.run().step == 20


# The clock --------------------------------------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch):
    """A clock that only moves when told to."""
    fake = SimpleNamespace(now=1000.0, monotonic=lambda: fake.now)
    monkeypatch.setattr(budget_module, "time", fake)
    monkeypatch.setattr(loop_module, "time", fake)
    return fake


def slow_training(
    folder, clock, *, minutes, step_seconds, validation_seconds=2.0, reserve=5.0, used=0.0, **more
) -> Training:
    """Each step and each validation takes its time."""

    def validate(model):
        clock.now += validation_seconds
        return Validation(0.0, 1.0, {"valid_loss": 1.0})

    config = TrainConfig(minutes=minutes, rate=0.05, weight_decay=0.01, batch_tokens=16, patience=50, **more)
    budget = Budget(steps=1_000_000, minutes=minutes, started=clock.now - used, reserve=reserve)
    training = trainer(folder, config, validate=validate, budget=budget)
    step = training.take_step

    def take_step():
        clock.now += step_seconds
        step()

    training.take_step = take_step
    return training


@pytest.mark.parametrize("step_seconds, used", [(0.1, 0.0), (0.5, 12.0)])
def test_minutes_are_kept(step_seconds, used, tmp_path, clock):
    """From the start of the process, with what reading took, to the last validation; the rest of the reserve
    is for the report, and grows with what a validation is seen to take."""
    start = clock.now - used
    training = slow_training(tmp_path, clock, minutes=1.0, step_seconds=step_seconds, used=used)
    training.run()
    left, reserve = 60.0 - (clock.now - start), training.budget.reserve
    assert reserve > 5.0 and reserve - 2.0 - step_seconds - 1e-6 <= left <= reserve, (
        "one validation comes after the last step"
    )
    rows = logged(tmp_path)
    assert len(rows) >= 2 and rows[-1]["step"] == training.counters.step
    assert rows[-1]["rate"] < 0.05 * 0.06, "the schedule is fitted to the clock"


def test_what_is_left_of_the_minutes_counts_on_resume(tmp_path, clock):
    """Stopped after 30 of 60 seconds; whatever time passed between, the second session gets the other 30."""
    training = slow_training(tmp_path, clock, minutes=1.0, step_seconds=0.1)
    step = training.take_step

    def stop_half_way():
        step()
        if training.budget.seconds() >= 30.0:
            raise KeyboardInterrupt

    training.take_step = stop_half_way
    with pytest.raises(KeyboardInterrupt):
        training.run()
    training.save()
    clock.now += 5000.0
    began = clock.now
    again = slow_training(tmp_path, clock, minutes=1.0, step_seconds=0.1)
    again.resume()
    assert again.budget.reserve == training.budget.reserve
    again.run()
    assert 21.0 <= clock.now - began <= 27.0
    rates = [row["rate"] for row in logged(tmp_path)]
    assert rates[1:] == sorted(rates[1:], reverse=True) and rates[-1] < 0.05 * 0.06, (
        "the schedule goes on where it was"
    )


def test_an_estimate_of_the_time_left(tmp_path, clock, monkeypatch, capsys):
    """Ten steps of 2 seconds: after the fourth there are 12 seconds to go."""
    training = trainer(tmp_path, steps=10, patience=50)
    step = training.take_step

    def take_step():
        clock.now += 2.0
        step()

    monkeypatch.setattr(training, "take_step", take_step)
    monkeypatch.setattr(training, "progress", Progress(every=0.0))
    training.run()
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("step      4")]
    assert lines and all("12 s left" in line for line in lines)


def test_steps_alone_decide_without_minutes(clock):
    budget = Budget(steps=10, started=clock.now)
    clock.now += 1e6
    assert budget.progress(5) == 0.5 and budget.progress(20) == 1.0
    assert replace(budget, minutes=1.0).progress(5) == 1.0


def test_too_few_minutes_are_refused_with_how_many_it_takes(seqlab, reviews, tmp_path):
    code, _, err = seqlab(
        "train", "classify", reviews, "--minutes", "0.01", "--out", tmp_path / "run", *SMALL
    )
    assert code == 2 and "too little" in err and "Give at least --minutes" in err
    assert not (tmp_path / "run").exists()


def test_the_python_call_works_whatever_was_imported_before():
    assert callable(seqlab_package.load) and callable(seqlab_package.train)

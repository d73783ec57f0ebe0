"""Several workers share a step: the gradient is that of one, random states can be restored, and a resumed run
ends the same."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

from seqlab import session
from seqlab.decoders import Causal
from seqlab.encoders import Transformer
from seqlab.errors import Stopped
from seqlab.model import Model, ModelConfig
from seqlab.objectives import CrossEntropy
from seqlab.parts import Batch, Facts
from seqlab.seq import Seq, mask_of
from seqlab.settings import TrainRequest, completed
from seqlab.tasks.task import Size
from seqlab.training import loop as loop_module
from seqlab.training.progress import Progress
from seqlab.training.workers import WORKER_TOKENS, Workers

LENGTHS = (9, 4, 2, 7, 5)


def language_model(dropout: float) -> Model:
    torch.manual_seed(0)
    body = Transformer(layers=2, heads=2, feed_forward=12, dropout=dropout)
    config = ModelConfig(input=None, encoder=None, pool=None, head=None, decoder=Causal(width=8, body=body))
    return Model(config, Facts(symbols={"written": 11}))


def load(rows: np.ndarray) -> Batch:
    lengths = torch.tensor([LENGTHS[row] for row in rows])
    ids = torch.stack([(torch.arange(9) * (row + 2)) % 11 for row in rows.tolist()])
    mask = mask_of(lengths)
    return Batch({}, torch.from_numpy(rows), {"written": Seq(ids[:, : mask.shape[1]], mask)})


def gradients(count: int, dropout: float = 0.0, steps: int = 1) -> list[torch.Tensor]:
    """Of the last of some steps, in each of which all rows are shared out."""
    model = language_model(dropout)
    workers = Workers(model, count, seed=3)
    workers.train()

    def one(replica: nn.Module, batch: Batch) -> float:
        total = CrossEntropy("written")(replica(batch), batch).total
        total.backward()
        return float(total.detach())

    with workers.at_work():
        for _ in range(steps):
            model.zero_grad()
            workers.work([load(part) for part in workers.parts(np.arange(5))], one)
    return [parameter.grad.clone() for parameter in model.parameters()]


@pytest.mark.parametrize("workers", [2, 3, 8])
def test_the_gradient_does_not_depend_on_the_number_of_workers(workers):
    """Also when there are more workers than rows."""
    for mine, theirs in zip(gradients(workers), gradients(1), strict=True):
        assert_close(mine, theirs, atol=1e-5, rtol=1e-5)


def test_chance_is_the_same_every_time_and_differs_between_steps():
    first, again, later = gradients(2, 0.3), gradients(2, 0.3), gradients(2, 0.3, steps=2)
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(first, again, strict=True))
    assert not all(torch.equal(mine, theirs) for mine, theirs in zip(first, later, strict=True))


def test_workers_have_different_random_states():
    workers = Workers(language_model(0.3), 2, seed=0)
    states = workers.random_states()
    assert len(states) == 2 and not torch.equal(states["random.0"], states["random.1"])


def test_the_weights_of_all_replicas_are_one_memory():
    workers = Workers(language_model(0.0), 3, seed=0)
    with torch.no_grad():
        next(workers.model.parameters()).fill_(7.0)
    for replica in workers.replicas:
        assert (next(replica.parameters()) == 7).all()
        assert replica.decoder.vocabulary.weight is replica.decoder.embedding.weight  # type: ignore[union-attr]


def test_threads_are_given_back():
    before = torch.get_num_threads()
    workers = Workers(language_model(0.0), 2, seed=0)
    with workers.at_work():
        assert torch.get_num_threads() == 1
        with workers.resting():
            assert torch.get_num_threads() == before
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before


def workers_of(preset: str, threads: int, tokens: int, task: str = "translate") -> int | None:
    keys = {"training.threads": threads, "training.batch_tokens": tokens}
    return completed(
        TrainRequest(task=task, preset=preset, overrides=keys).settings(), Size()
    ).training.workers


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_every_thread_is_a_worker_where_batches_are_large_enough(threads):
    enough = threads * WORKER_TOKENS
    assert workers_of("lstm-attention", threads, enough) == threads
    assert workers_of("lstm-attention", threads, enough - 1) == 1
    assert workers_of("transformer", threads, enough - 1) == threads
    assert workers_of("bilstm", threads, enough, "classify") == threads
    assert workers_of("bow", threads, enough, "classify") == 1
    assert workers_of("lstm", threads, enough, "generate") == 1  # which carries state from step to step
    assert workers_of("transformer", threads, enough, "generate") == threads


def test_a_run_of_two_threads_has_two_workers_and_keeps_them_when_resumed(tmp_path, monkeypatch):
    """What was chosen stands in config.yaml, and a process with other threads goes on with it, bit for
    bit."""
    monkeypatch.setenv("SEQLAB_CACHE", str(tmp_path / "cache"))
    before = torch.get_num_threads()
    (tmp_path / "pairs.tsv").write_text(
        "".join(f"{n} {n % 7} {n % 3}\t{n % 3} {n % 7} {n}\n" for n in range(300))
    )
    sizes = {"input.width": 8, "encoder.width": 8, "decoder.width": 8, "decoder.body.width": 8}
    settings = {f"model.{name}": width for name, width in sizes.items()} | {"training.baseline": False}
    settings |= {"training.threads": 2, "training.batch_tokens": 2 * WORKER_TOKENS, "training.validations": 2}
    wishes = {"model": "lstm-attention", "steps": 12, "settings": settings, "quiet": True}
    taken, counts = loop_module.Training.take_step, []

    def noted(self: loop_module.Training) -> None:
        counts.append((self.workers.count, self.counters.step))
        if len(counts) == 20:  # in the second run
            self.save()
            raise Stopped(15, "stopped", fix="")
        taken(self)

    monkeypatch.setattr(loop_module.Training, "take_step", noted)
    try:
        session.train("translate", str(tmp_path / "pairs.tsv"), out=tmp_path / "whole", **wishes)
        with pytest.raises(Stopped):
            session.train("translate", str(tmp_path / "pairs.tsv"), out=tmp_path / "part", **wishes)
        torch.set_num_threads(1)
        session.resume(tmp_path / "part", Progress(quiet=True), 0.0)
    finally:
        torch.set_num_threads(before)
    assert "workers: 2" in (tmp_path / "part" / "config.yaml").read_text()
    assert counts[-1] == (2, 11) and {workers for workers, _ in counts} == {2}
    whole, part = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "part"))
    assert whole == part


def test_a_run_of_two_workers_stopped_and_resumed_ends_bit_for_bit_the_same(tmp_path, monkeypatch):
    monkeypatch.setenv("SEQLAB_CACHE", str(tmp_path / "cache"))
    rows = "\n".join(f"{n} {n % 7} {n % 3}\t{n % 3} {n % 7} {n}" for n in range(300))
    (tmp_path / "pairs.tsv").write_text(rows + "\n")
    settings = {
        "training.workers": 2,
        "training.baseline": False,
        "model.input.width": 16,
        "model.decoder.width": 16,
        "model.encoder": {"kind": "transformer", "layers": 1, "heads": 2, "dropout": 0.2},
        "training.batch_tokens": 128,
        "model.decoder.body": {"kind": "transformer", "layers": 1, "heads": 2, "dropout": 0.2},
        "training.validations": 2,
    }

    def train(name: str) -> None:
        session.train(
            "translate",
            str(tmp_path / "pairs.tsv"),
            steps=30,
            out=tmp_path / name,
            settings=settings,
            quiet=True,
        )

    train("whole")
    with monkeypatch.context() as patch:
        taken = loop_module.Training.take_step

        def stop(self: loop_module.Training) -> None:
            if self.counters.step == 13:
                self.save()
                raise Stopped(15, "stopped", fix="")
            taken(self)

        patch.setattr(loop_module.Training, "take_step", stop)
        with pytest.raises(Stopped):
            train("part")
    session.resume(tmp_path / "part", Progress(quiet=True), 0.0)
    whole, part = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "part"))
    assert whole == part

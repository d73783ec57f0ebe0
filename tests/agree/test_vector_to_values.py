"""A sequence of numbers from a vector (SPEC R3): the vector is read at every step beside the last value."""

import json
import math
import random

import pytest
import torch
from torch.testing import assert_close

import seqlab
from seqlab.decode.numbers import write_numbers
from seqlab.decoders import Attending
from seqlab.encoders import Rnn
from seqlab.parts import Numbers
from seqlab.seq import Seq

VECTOR, WIDTH, STEPS = 3, 5, 6


def made(variance="unit", beside=0):
    torch.manual_seed(2)
    config = Attending(attend="none", context="every-step", width=4, body=Rnn(width=WIDTH), variance=variance)
    decoder = config.build(VECTOR, Numbers(written=2, beside=beside)).eval()
    for tensor in decoder.parameters():
        torch.nn.init.normal_(tensor, std=0.4)
    return decoder


def memory(rows=2):
    return Seq(
        torch.randn(rows, 1, VECTOR, generator=torch.Generator().manual_seed(1)), torch.ones(rows, 1) > 0
    )


def test_numbers_are_written_as_the_formula_says():
    """h_t = tanh(W [e(y_{t-1}); x] + V h_{t-1} + b), y_t = M W_c h_t + m; h_0 follows from the vector."""
    decoder, slots = made(), memory()
    written = write_numbers(decoder, decoder.start(slots, 2), torch.zeros(2, 2), STEPS)

    cell, x = decoder.body.ahead[0], slots.values[:, 0]
    state, said = torch.tanh(decoder.bridge(x)), torch.zeros(2, 2)
    for step in range(STEPS):
        read = torch.cat([decoder.embedding.weight @ said.T + decoder.embedding.bias[:, None], x.T])
        state = torch.tanh(
            cell.weight_ih_l0 @ read
            + cell.bias_ih_l0[:, None]
            + cell.weight_hh_l0 @ state.T
            + cell.bias_hh_l0[:, None]
        ).T
        said = decoder.numbers.mean(state @ decoder.combine.weight.T).scores
        assert_close(written[:, step], said, atol=1e-5, rtol=1e-5)


def test_the_vector_is_seen_at_every_step():
    """The last value changes with the vector even where the first state is that of another one."""
    decoder, slots = made(), memory()
    other = decoder.start(Seq(slots.values.flip(0), slots.mask), 2)
    mixed = decoder.start(slots, 2)
    swapped = type(mixed)(other.fixed, mixed.moving)
    fed = torch.zeros(2, STEPS, 2)
    same, changed = (decoder.advance(fed, state)[0] for state in (mixed, swapped))
    assert ((same - changed).abs().amax(dim=2) > 1e-4).all()


def test_without_noise_a_draw_is_the_mean_and_rows_do_not_depend_on_each_other():
    decoder, slots = made("learned", beside=1), memory()
    beside = torch.randn(2, STEPS, 1, generator=torch.Generator().manual_seed(3))
    first = torch.ones(2, 2)
    mean = write_numbers(decoder, decoder.start(slots, 2), first, STEPS, beside)
    still = write_numbers(
        decoder, decoder.start(slots, 2), first, STEPS, beside, noise=torch.zeros(3, STEPS, 2)
    )
    assert_close(still.view(2, 3, STEPS, 2), mean.unsqueeze(1).expand(-1, 3, -1, -1), atol=1e-5, rtol=1e-5)
    alone = Seq(slots.values[1:], slots.mask[1:])
    one = write_numbers(decoder, decoder.start(alone, 1), first[1:], STEPS, beside[1:])
    assert_close(one[0], mean[1], atol=1e-5, rtol=1e-5)


@pytest.fixture
def curves(tmp_path, monkeypatch):
    monkeypatch.setenv("SEQLAB_CACHE", str(tmp_path / "cache"))
    draw = random.Random(0)
    rows = []
    for _ in range(400):
        size, speed = draw.uniform(0.5, 2), draw.uniform(0.3, 0.8)
        values = [round(size * math.sin(speed * step), 4) for step in range(8)]
        rows.append({"vector": [round(size, 4), round(speed, 4)], "values": values})
    path = tmp_path / "curves.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_curve_is_written_from_its_parameters(curves, tmp_path):
    """size · sin(speed · t), which is not linear in its parameters: reached 0.001 of the variance."""
    small = {"training.threads": 1, "model.decoder.body.width": 48, "model.decoder.width": 16}
    run = seqlab.train("forecast", str(curves), steps=400, out=tmp_path / "run", settings=small, quiet=True)
    scores = json.loads((run.folder / "scores.json").read_text())
    assert run.task.reads == "vector"
    assert scores["metrics"]["mse"]["value"] < 0.05 < scores["baselines"]["linear"]["mse"]["value"]
    values = run.predict("1.0, 0.5").values
    assert len(values) == 8 and abs(values[3][0] - math.sin(1.5)) < 0.3
    again = seqlab.load(run.folder).predict([[1.0, 0.5], [2.0, 0.3]])
    assert_close(torch.tensor(again[0].values), torch.tensor(values), atol=1e-5, rtol=1e-5)


def test_faults_are_told_with_their_line(curves, tmp_path):
    lines = curves.read_text().splitlines()
    for number, row, told in (
        (3, {"vector": [1.0, "x"], "values": [1] * 8}, 'number 2 "x" is not a number'),
        (4, {"vector": [1.0, 2.0], "values": [1] * 7}, "7 steps of 1 here, but 8 of 1"),
        (5, {"vector": [1.0], "values": [1] * 8}, "the vector has 1 numbers, but 2"),
    ):
        broken = [*lines[: number - 1], json.dumps(row), *lines[number:]]
        curves.write_text("\n".join(broken) + "\n")
        with pytest.raises(seqlab.errors.UserError) as error:
            seqlab.train("forecast", str(curves), steps=2, out=tmp_path / "bad", quiet=True)
        assert f"{curves}:{number}" in error.value.what and told in error.value.what
        assert not (tmp_path / "bad").exists()

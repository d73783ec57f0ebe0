"""Heads and decoders that answer with numbers, against torch.distributions, a plain loop and exact means."""

from __future__ import annotations

from dataclasses import replace

import made_series
import numpy as np
import pytest
import torch
from torch.distributions import Normal
from torch.testing import assert_close

from seqlab import session
from seqlab.data.windows import Windows
from seqlab.errors import UserError
from seqlab.objectives import GaussianNats, SquaredError
from seqlab.outputs import Channels, Gaussian, GaussianReply
from seqlab.parts import Batch, Facts, Output, Reply
from seqlab.seq import Seq, mask_of
from seqlab.settings import TrainRequest
from seqlab.training.progress import Progress

TORCH = torch.Generator().manual_seed(0)


def test_gaussian_nats_are_those_of_torch_distributions():
    """But for the constant, ln(2π) / 2."""
    mean, logs, came = torch.randn(3, 6, 4, generator=TORCH)
    term = GaussianNats()(
        Output({"row": GaussianReply(mean, log_variance=logs)}), Batch({}, torch.arange(6), {"row": came})
    )
    nats = -Normal(mean, torch.exp(logs / 2)).log_prob(came) - np.log(2 * np.pi) / 2
    assert_close(term.total, nats.mean(dim=1).sum())
    assert term.count == 6


def test_gaussian_nats_of_what_is_written_leave_out_padding_and_what_is_told_beside():
    """Two rows of two and four steps; of three features that are fed two are said."""
    written = torch.randn(2, 5, 3, generator=TORCH)
    mask = mask_of(torch.tensor([3, 5]))
    mean, logs = torch.randn(2, 6, 2, generator=TORCH)
    batch = Batch({}, torch.arange(2), {"written": Seq(written, mask)})
    term = GaussianNats("written")(Output({"written": GaussianReply(mean, log_variance=logs)}), batch)
    came = torch.cat([written[0, 1:3, :2], written[1, 1:5, :2]])
    nats = -Normal(mean, torch.exp(logs / 2)).log_prob(came) - np.log(2 * np.pi) / 2
    assert_close(term.total / term.count, nats.mean())


def test_of_unit_variance_nats_are_half_the_squared_error():
    mean, came = torch.randn(2, 5, 3, generator=TORCH)
    batch = Batch({}, torch.arange(5), {"row": came})
    nats = GaussianNats()(Output({"row": GaussianReply(mean, log_variance=torch.zeros(5, 3))}), batch)
    square = SquaredError()(Output({"row": Reply(mean)}), batch)
    assert_close(nats.total, square.total / 2)


def test_a_gaussian_head_begins_with_unit_variance_and_keeps_it_in_bounds():
    head = Gaussian().build(5, 3)
    states = torch.randn(4, 5, generator=TORCH)
    assert torch.equal(head(states).log_variance, torch.zeros(4, 3))
    with torch.no_grad():
        head.spread.weight.fill_(1e6)
    assert head(states).log_variance.min() >= -14 and head(states).log_variance.max() <= 7


@pytest.mark.parametrize("features", [2, 3])
def test_channels_are_a_matrix_for_each_channel(features):
    """y[n, h, c] = Σ_t W_c[t, h] x[n, t, c] + Σ_t,f W_c[T + ..., h] x[n, t, f] + b_c[h], one by one."""
    steps, channels, horizon, rows = 4, 2, 3, 5
    facts = Facts(symbols={}, features={"values": features}, window=steps, channels=channels)
    head = Channels().build_with(steps * features, horizon * channels, facts)
    with torch.no_grad():
        head.weight.normal_(generator=TORCH)
        head.bias.normal_(generator=TORCH)
    x = torch.randn(rows, steps, features, generator=TORCH)
    said = head(x.reshape(rows, -1)).scores.reshape(rows, horizon, channels)
    for n in range(rows):
        for c in range(channels):
            others = [x[n, t, f] for t in range(steps) for f in range(channels, features)]
            read = torch.stack([x[n, t, c] for t in range(steps)] + others)
            for h in range(horizon):
                meant = sum(read[i] * head.weight[c, i, h] for i in range(len(read))) + head.bias[c, h]
                assert_close(said[n, h, c], meant, atol=1e-5, rtol=1e-5)


def test_channels_begin_with_the_mean_of_the_window():
    facts = Facts(symbols={}, features={"values": 1}, window=4, channels=1)
    x = torch.randn(3, 4, generator=TORCH)
    assert_close(Channels().build_with(4, 2, facts)(x).scores, x.mean(dim=1, keepdim=True).expand(3, 2))


# Trajectories -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A step-by-step forecast of sales, told of holidays."""
    folder = tmp_path_factory.mktemp("steps")
    path = made_series.written(folder / "series.csv", made_series.dated(160))
    settings = {
        "data.train": (str(path),), "task.window": 8, "task.horizon": 4, "task.targets": ("sales",),
        "task.future": ("holiday",), "task.trajectories": 2000, "task.intervals": "learned",
        "model.input.width": 8, "model.encoder.width": 8, "model.decoder.width": 8,
        "model.decoder.body.width": 8, "training.steps": 30, "training.batch_tokens": 256,
    }  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEQLAB_CACHE", str(folder / "cache"))
        request = TrainRequest(task="forecast", preset="lstm-steps", overrides=settings)
        yield session.train_anew(request, folder / "run", Progress(quiet=True), 0.0), path


def windows_of(run, path) -> Windows:
    with run.stored(str(path), None) as store:
        windows = run.answer.part(store, "whole")
        fields = {name: replace(one, values=np.array(one.values)) for name, one in store.fields.items()}
        arrays = {name: np.array(one) for name, one in store.arrays.items()}
    return replace(windows, store=replace(store, fields=fields, arrays=arrays)).some(12)


def test_a_rollout_is_a_plain_loop_over_steps(run):
    """Fed the last value with the first step's holiday, then its own means with the holidays that come."""
    run, path = run
    windows, rows = windows_of(run, path), np.arange(12)
    values = torch.from_numpy(windows.values(rows, 0, 12))
    decoder, batch = run.model.decoder, run.answer.batch(windows, rows)
    with torch.no_grad():
        states = run.model.encoder(run.model.input(batch))
        state, said, found = decoder.start(states, 12), values[:, 7, :1], []
        for step in range(4):
            fed = torch.cat([said, values[:, 8 + step, 1:]], dim=1)
            hidden, state = decoder.advance(fed.unsqueeze(1), state)
            said = decoder.answer(hidden[:, 0]).scores
            found.append(said)
    assert run.answer.means(run.model, windows) == pytest.approx(torch.stack(found, dim=1).numpy(), abs=1e-5)


def linear_decoder(run, monkeypatch, slope: float, variance: float) -> None:
    """Make the decoder say slope · (what it was fed), with this variance, whatever it has read."""

    def advance(fed, state):
        return fed[..., :1], state

    def answer(states):
        return GaussianReply(slope * states, log_variance=torch.full_like(states, float(np.log(variance))))

    monkeypatch.setattr(run.model.decoder, "advance", advance)
    monkeypatch.setattr(type(run.model.decoder), "answer", property(lambda _: answer))


def test_the_mean_of_many_draws_of_a_linear_decoder_is_its_rollout(run, monkeypatch):
    """x_{h} = a x_{h-1} + s ε: the mean is a^h x_0, the variance s² (1 + a² + ... + a^{2(h-1)})."""
    run, path = run
    windows = windows_of(run, path)
    linear_decoder(run, monkeypatch, slope=0.8, variance=0.25)
    rollout = run.answer.means(run.model, windows)
    last = windows.values(np.arange(12), 7, 1)[..., :1]
    assert rollout == pytest.approx(last * 0.8 ** np.arange(1, 5)[None, :, None], abs=1e-5)
    drawn = run.answer.trajectories(run.model, windows)
    assert drawn.shape == (12, 2000, 4, 1)
    assert drawn.mean(axis=1) == pytest.approx(rollout, abs=0.06)  # over three standard errors
    variance = 0.25 * np.cumsum(0.64 ** np.arange(4))
    assert drawn.var(axis=1)[0, :, 0] == pytest.approx(variance, rel=0.15)
    low, high = run.answer.spread(run.model, windows)
    meant = Normal(0, 1).icdf(torch.tensor(0.95)).item() * variance**0.5
    assert (high - low)[0, :, 0] == pytest.approx(2 * meant, rel=0.1)


def test_batch_mates_change_no_trajectory(run):
    run, path = run
    windows = windows_of(run, path)
    together = run.answer.trajectories(run.model, windows)
    for row in (0, 7):
        alone = run.answer.trajectories(run.model, windows.only(np.array([row])))
        assert alone[0] == pytest.approx(together[row], abs=1e-5)


def test_a_future_is_drawn_on_request(run, monkeypatch):
    """With decode.sample each seed gives a trajectory, the same one again; its differences from one step to
    the next are those of the process, x_h = a x_{h-1} + s ε, with the ε of that seed."""
    run, path = run
    windows = windows_of(run, path)
    linear_decoder(run, monkeypatch, slope=0.8, variance=0.25)
    futures = {}
    for seed in (1, 2, 1):
        how = run.decoding({"decode.sample": True, "decode.seed": seed})
        drawn = run.answer.forecast(run.model, windows, how).scaled
        before = np.concatenate([windows.values(np.arange(12), 7, 1)[..., :1], drawn[:, :-1]], axis=1)
        noise = torch.randn(1, 4, 1, generator=torch.Generator().manual_seed(seed)).numpy()
        assert drawn - 0.8 * before == pytest.approx(np.broadcast_to(0.5 * noise, drawn.shape), abs=1e-5)
        assert np.array_equal(futures.setdefault(seed, drawn), drawn)
    assert not np.allclose(futures[1], futures[2])


def test_what_says_no_variances_draws_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("SEQLAB_CACHE", str(tmp_path / "cache"))
    path = made_series.written(tmp_path / "series.csv", made_series.plain(60))
    for preset, more in (("linear", {}), ("lstm-steps", {"model.decoder.variance": "unit"})):
        settings = {
            "data.train": (str(path),),
            "task.window": 8,
            "task.horizon": 4,
            "training.steps": 1,
        } | more
        request = TrainRequest(task="forecast", preset=preset, overrides=settings)
        run = session.train_anew(request, tmp_path / preset, Progress(quiet=True), 0.0)
        with pytest.raises(UserError, match="can't draw numbers"):
            run.predict([made_series.season(20)], {"decode.sample": True})


def test_learned_intervals_of_a_head_are_normal_quantiles(tmp_path, monkeypatch):
    monkeypatch.setenv("SEQLAB_CACHE", str(tmp_path / "cache"))
    path = made_series.written(tmp_path / "series.csv", made_series.plain(120))
    settings = {
        "data.train": (str(path),), "task.window": 8, "task.horizon": 4, "task.intervals": "learned",
        "task.coverage": 0.8, "model.head.kind": "gaussian", "model.input.width": 8,
        "model.encoder.width": 8, "training.steps": 10, "training.baseline": False,
    }  # fmt: skip
    request = TrainRequest(task="forecast", preset="gru", overrides=settings)
    run = session.train_anew(request, tmp_path / "run", Progress(quiet=True), 0.0)
    past = made_series.season(20)
    answer = run.predict([past])[0]
    windows = run.answer.ends.typed([past])
    reply = run.model(run.answer.batch(windows, np.array([0]))).answers["row"]
    spread = run.answer.field.facts.spreads[0][0]
    reach = Normal(0.0, 1.0).icdf(torch.tensor(0.9)).item() * torch.exp(reply.log_variance / 2) * spread
    low, values, high = (np.array(side)[:, 0] for side in (answer.low, answer.values, answer.high))
    assert high - values == pytest.approx(reach[0].detach().numpy(), rel=1e-3)
    assert values - low == pytest.approx(reach[0].detach().numpy(), rel=1e-3)

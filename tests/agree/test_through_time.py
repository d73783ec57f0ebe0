"""Norms of Jacobians through time agree with autograd through torch's own layers, and with powers of W."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from seqlab.decoders import Causal
from seqlab.encoders import Gru, Lstm, Rnn
from seqlab.microscope import gradient_of_last
from seqlab.model import Model, ModelConfig
from seqlab.nn.attention import Form, MultiHeadAttention
from seqlab.nn.positions import Rotary
from seqlab.objectives import CrossEntropy
from seqlab.parts import Batch, Facts
from seqlab.report.through_time import Flow, attention_norms, lags_up_to, recurrent_norms, step
from seqlab.seq import pad


def linear_cell(matrix: torch.Tensor) -> nn.RNNBase:
    """h_t = W h_{t−1} + U x_t."""
    cell = nn.RNN(3, len(matrix), batch_first=True)
    cell.nonlinearity = "linear"
    with torch.no_grad():
        cell.weight_hh_l0.copy_(matrix)
    return cell


def test_a_linear_rnn_has_the_norms_of_the_powers_of_its_matrix():
    """SPEC R7: ‖∂h_T/∂h_t‖ = ‖W^(T−t)‖, by repeated multiplication in numpy's order, to 1e-5."""
    torch.manual_seed(0)
    matrix = torch.randn(6, 6) / 6**0.5
    lags = tuple(range(1, 20))
    norms, _ = recurrent_norms(linear_cell(matrix), torch.randn(2, 20, 3), lags)
    for place, lag in enumerate(lags):
        wanted = torch.linalg.matrix_norm(torch.linalg.matrix_power(matrix.double(), lag), 2)
        assert norms[:, place].tolist() == pytest.approx([float(wanted)] * 2, rel=1e-5)


CELLS = [Rnn(width=5), Rnn(width=5, activation="relu"), Gru(width=5), Lstm(width=5)]


@pytest.mark.parametrize(
    "config", CELLS, ids=lambda config: f"{config.kind}-{getattr(config, 'activation', '')}"
)
def test_the_jacobian_of_the_whole_state_is_that_of_autograd_through_torchs_own_layer(config):
    torch.manual_seed(1)
    cell = config.cell(4).double()
    for weight in cell.parameters():
        nn.init.normal_(weight, std=0.6)
    inputs = torch.randn(1, 9, 4, dtype=torch.float64)
    begun = torch.randn(1, 10 if config.kind == "lstm" else 5, dtype=torch.float64) / 2

    def after(state: torch.Tensor, count: int) -> torch.Tensor:
        """The whole state after the last `count` vectors, by torch's layer."""
        given = state.view(1, -1)
        h, c = given[None, :, :5].contiguous(), given[None, :, 5:].contiguous()
        _, last = cell(inputs[:, 9 - count :], (h, c) if config.kind == "lstm" else h)
        return torch.cat([one.flatten() for one in last]) if config.kind == "lstm" else last.flatten()

    norms, gates = recurrent_norms(cell, inputs, (1, 4, 9), begun)
    states = [begun]
    for vector in inputs.unbind(dim=1):
        states.append(step(cell, vector, states[-1]).after)
    for place, lag in enumerate((1, 4, 9)):
        whole = torch.autograd.functional.jacobian(lambda s, n=lag: after(s, n), states[9 - lag].flatten())
        assert float(norms[0, place]) == pytest.approx(float(torch.linalg.matrix_norm(whole, 2)), rel=1e-9)
    assert all(((value >= 0) & (value <= 1)).all() for value in gates.values())


FORMS = {
    "heads": Form.standard(8, 2),
    "plain": Form(width=8, memory=8, heads=2, key=3, value=5, output=False, scale=False),
    "merged": Form(width=8, memory=8, heads=2, key=4, value=4, merged=True),
    "local": Form(width=8, memory=8, heads=2, key=4, value=4, causal=True, local=5),
    "rotary": Form.standard(8, 2),
}


@pytest.mark.parametrize("name", FORMS)
def test_the_jacobian_of_self_attention_is_that_of_autograd(name):
    torch.manual_seed(2)
    rotary = Rotary().build(8) if name == "rotary" else None
    attention = MultiHeadAttention(FORMS[name], rotary).double()
    inputs = torch.randn(2, 7, 8, dtype=torch.float64) * 2
    norms = attention_norms(attention, inputs, (1, 3, 6, 9))
    for row in range(2):
        whole = torch.autograd.functional.jacobian(lambda x: attention(x[None])[0, -1], inputs[row])  # E T D
        for place, lag in enumerate((1, 3, 6)):
            wanted = float(torch.linalg.matrix_norm(whole[:, 6 - lag], 2))
            assert float(norms[row, place]) == pytest.approx(wanted, rel=1e-6, abs=1e-12)
    assert norms[:, 3].isnan().all() and attention.tape is None


def test_effective_memory_is_the_lag_up_to_which_a_tenth_is_left():
    """0.5^(k−1) is above 0.1 up to k = 4 (0.125); a gradient that rises again later was lost all the same."""
    falling = Flow(tuple(range(1, 9)), tuple(0.5 ** (lag - 1) for lag in range(1, 9)))
    assert (falling.memory, falling.lasts) == (4, False) and falling.rate == pytest.approx(0.5)
    assert Flow((1, 2, 3, 4), (1.0, 0.05, 3.0, 3.0)).memory == 1
    level = Flow((1, 2, 4, 8), (2.0, 2.0, 2.0, 2.0))
    assert level.memory == 8 and level.lasts and level.rate == pytest.approx(1.0)
    assert (
        lags_up_to(20) == (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20)
        and lags_up_to(3) == (1, 2, 3)
        and lags_up_to(0) == ()
    )


def test_the_full_gradient_of_the_last_batch_is_that_of_one_long_batch():
    """By autograd through the whole text at once; cut off, that of a state which is only numbers."""
    torch.manual_seed(3)
    config = ModelConfig(
        input=None, encoder=None, pool=None, head=None, decoder=Causal(width=6, body=Lstm(width=5))
    )
    model = Model(config, Facts(symbols={"written": 9})).eval()
    ids = torch.randint(9, (1, 13))
    batches = [
        Batch({}, torch.zeros(1), {"written": pad([ids[0, start : start + 5]])}, follows=start > 0)
        for start in (0, 4, 8)
    ]
    objectives = [(1.0, CrossEntropy("written"))]
    decoder, weights = model.decoder, list(model.parameters())
    states, _ = decoder.advance(ids[:, :-1], decoder.start(None, 1))
    loss = nn.functional.cross_entropy(decoder.answer(states[0, 8:]).scores, ids[0, 9:])
    wanted = torch.cat([one.flatten() for one in torch.autograd.grad(loss, weights)])
    full, cut = (gradient_of_last(model, batches, objectives, cuts) for cuts in (False, True))
    torch.testing.assert_close(full, wanted, atol=1e-6, rtol=1e-4)

    _, before = decoder.advance(ids[:, :8], decoder.start(None, 1))
    states, _ = decoder.advance(ids[:, 8:-1], before.detach())
    loss = nn.functional.cross_entropy(decoder.answer(states[0]).scores, ids[0, 9:])
    wanted = torch.cat([one.flatten() for one in torch.autograd.grad(loss, weights)])
    torch.testing.assert_close(cut, wanted, atol=1e-6, rtol=1e-4)
    assert not torch.allclose(full, cut, atol=1e-4)

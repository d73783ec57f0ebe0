"""Our recurrent encoders against torch's on packed sequences, R1's worked numbers, R10's mix of layers."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.testing import assert_close

from seqlab.encoders import BothWays, Gru, Lstm, Rnn
from seqlab.outputs import Linear
from seqlab.seq import Seq, mask_of

KINDS = {
    "rnn tanh": (Rnn(width=5), nn.RNN),
    "rnn relu": (
        Rnn(width=5, activation="relu"),
        lambda *args, **more: nn.RNN(*args, nonlinearity="relu", **more),
    ),
    "gru": (Gru(width=5), nn.GRU),
    "lstm": (Lstm(width=5), nn.LSTM),
}
LENGTHS = torch.tensor([4, 9, 1, 6])


def copied(encoder, theirs):
    """torch's layer with our weights: layer l forward is _l{l}, backward _l{l}_reverse."""
    with torch.no_grad():
        for cells, ending in ((encoder.ahead, ""), (encoder.back, "_reverse")):
            for layer, cell in enumerate(cells):
                for name, tensor in cell.named_parameters():
                    getattr(theirs, name.replace("_l0", f"_l{layer}{ending}")).copy_(tensor)
    return theirs


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_padded_batches_give_the_states_of_packed_ones(kind, layers, both):
    torch.manual_seed(0)
    config, make = KINDS[kind]
    settings = {"width": 5, "layers": layers, "directions": "both" if both else "forward"}
    if isinstance(config, Rnn):
        settings["activation"] = config.activation
    encoder = type(config)(**settings).build(3)
    theirs = copied(encoder, make(3, 5, num_layers=layers, bidirectional=both, batch_first=True))
    x = Seq(torch.randn(4, 9, 3), mask_of(LENGTHS))

    ours = encoder(x)
    packed, final = theirs(pack_padded_sequence(x.values, LENGTHS, batch_first=True, enforce_sorted=False))
    states, _ = pad_packed_sequence(packed, batch_first=True)
    final = final[0] if isinstance(final, tuple) else final  # an LSTM's h, without its c
    ends = torch.cat([final[-2], final[-1]], dim=-1) if both else final[-1]

    assert_close(ours.zeroed, states, atol=1e-5, rtol=1e-5)
    assert_close(ours.summary, ends, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_backward_is_forward_on_each_row_turned_round(kind, layers):
    torch.manual_seed(0)
    cls = type(KINDS[kind][0])
    encoder = cls(width=5, layers=layers, directions="backward").build(3)
    forward = cls(width=5, layers=layers).build(3)
    for mine, theirs in zip(forward.ahead, encoder.back, strict=True):
        mine.load_state_dict(theirs.state_dict())
    x = Seq(torch.randn(4, 9, 3), mask_of(LENGTHS))
    states = encoder(x)
    for row, length in enumerate(LENGTHS.tolist()):
        turned = x.values[row : row + 1, :length].flip(1)
        plain = forward(Seq(turned, torch.ones(1, length, dtype=torch.bool)))
        assert_close(states.values[row, :length], plain.values[0].flip(0), atol=1e-5, rtol=1e-5)
        assert_close(states.summary[row], plain.summary[0], atol=1e-5, rtol=1e-5)


def test_the_worked_step_of_a_relu_network():
    """R1: h = [1,0,0], x = [1,0] gives h = [1,0,0] and o = 1. The same x brings the zero state to [1,0,0]
    before."""
    encoder = Rnn(width=3, activation="relu").build(2)
    head = Linear(bias=False).build(3, 1)
    with torch.no_grad():
        [cell] = encoder.ahead
        cell.weight_ih_l0.copy_(torch.tensor([[1.0, 0], [0, 1], [-1, 0]]))
        cell.weight_hh_l0.copy_(torch.tensor([[0.0, 1, 0], [0, 0, 1], [1, 0, 0]]))
        head.output.weight.copy_(torch.tensor([[1.0, 0, -1]]))
    states = encoder(Seq(torch.tensor([[[1.0, 0], [1, 0]]]), torch.ones(1, 2, dtype=torch.bool)))
    assert states.values[0].tolist() == [[1, 0, 0], [1, 0, 0]]
    assert head(states.summary).scores.tolist() == [[1]]


def test_an_lstm_starts_with_open_forget_gates_and_orthogonal_states():
    [cell] = Lstm(width=4).build(3).ahead
    assert (cell.bias_ih_l0 + cell.bias_hh_l0).tolist() == [0] * 4 + [1] * 4 + [0] * 8
    for gate in cell.weight_hh_l0.split(4):
        assert_close(gate @ gate.T, torch.eye(4))


@pytest.mark.parametrize("width", [5, 3])
def test_elmos_mix_is_a_softmax_of_learned_weights_times_a_learned_scale(width):
    """R10: γ Σ_l s_l h_l with s = softmax(w). Where states are as wide as the input, [x ; x] is a layer, too.
    A layer of a stack is one cell that reads the layer below in its own direction."""
    torch.manual_seed(0)
    encoder = BothWays(body=Lstm(width=width, layers=2), mix=True).build(5)
    drawn = torch.tensor([0.3, -1.2, 2.0])[: 3 if width == 5 else 2]
    encoder.weights.data.copy_(drawn)
    encoder.scale.data.fill_(1.7)
    x = torch.randn(1, 6, 5)
    layers = [torch.cat([x, x], dim=-1)] if width == 5 else []
    forward, backward = x, x.flip(1)
    for ahead, back in zip(encoder.ahead, encoder.back, strict=True):
        forward, backward = ahead.ahead[0](forward)[0], back.ahead[0](backward)[0]
        layers.append(torch.cat([forward, backward.flip(1)], dim=-1))
    shares = drawn.exp() / drawn.exp().sum()
    expected = 1.7 * sum(share * layer for share, layer in zip(shares, layers, strict=True))
    states = encoder(Seq(x, torch.ones(1, 6, dtype=torch.bool)))
    assert_close(states.values, expected)
    ends = torch.cat([expected[:, -1, :width], expected[:, 0, width:]], dim=-1)
    assert_close(states.summary, ends)

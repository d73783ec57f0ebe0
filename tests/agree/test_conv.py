"""The convolutional encoder against its equation."""

import pytest
import torch
from torch.testing import assert_close

from seqlab.encoders import Conv, NoEncoder, Rnn
from seqlab.seq import Seq, mask_of

LENGTHS = [7, 4, 1]


def by_hand(encoder, x):
    """C1, position by position: a row ends where it ends, and outside there is nothing."""
    config, rows = encoder.config, []
    first = -(config.kernel - 1) if config.causal else -((config.kernel - 1) // 2)
    for row, length in enumerate(LENGTHS):
        states = x.values[row, :length]
        for layer in encoder.layers:
            found = []
            for place in range(-(-len(states) // config.stride)):
                total = layer.bias.clone()
                for tap in range(config.kernel):
                    read = config.stride * place + first + tap
                    if 0 <= read < len(states):
                        total = total + layer.weight[:, :, tap] @ states[read]
                found.append(torch.relu(total))
            states = torch.stack(found)
        rows.append(states)
    return rows


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("kernel", [1, 2, 3, 4])
def test_it_computes_its_equation(kernel, stride, causal):
    torch.manual_seed(0)
    encoder = Conv(width=5, layers=2, kernel=kernel, stride=stride, causal=causal).build(3)
    for layer in encoder.layers:
        torch.nn.init.normal_(layer.bias)  # so that padding would be noticed after the first layer
    x = Seq(torch.randn(3, 7, 3), mask_of(torch.tensor(LENGTHS)))
    states = encoder(x)
    for row, expected in enumerate(by_hand(encoder, x)):
        assert int(states.lengths[row]) == len(expected)
        assert_close(states.values[row, : len(expected)], expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("layers, kernel", [(1, 3), (3, 3), (2, 4)])
def test_the_reach_is_one_more_than_layers_times_kernel_less_one(layers, kernel):
    """C1: 1 + L(k-1) positions at stride 1, seen as inputs with a gradient."""
    torch.manual_seed(0)
    encoder = Conv(width=5, layers=layers, kernel=kernel, activation="tanh").build(3)
    values = torch.randn(1, 30, 3, requires_grad=True)
    encoder(Seq(values, torch.ones(1, 30, dtype=torch.bool))).values[0, 15].sum().backward()
    assert int(values.grad[0].any(dim=-1).sum()) == 1 + layers * (kernel - 1)


def test_costs_are_those_of_the_classic_table():
    """M1 with n = 100, d = 6: convolution k·n·d² in one step, path n/k; recurrent n·d² in n steps, path n."""
    [conv] = Conv(width=6, kernel=4).build(6).costs(100)
    assert (conv.work, conv.sequential_steps, conv.longest_path) == (4 * 100 * 36, 1, 25)
    [recurrent] = Rnn(width=6).build(6).costs(100)
    assert (recurrent.work, recurrent.sequential_steps, recurrent.longest_path) == (100 * 36, 100, 100)
    assert NoEncoder().build(6).costs(100) == []

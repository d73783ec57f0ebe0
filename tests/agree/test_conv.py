"""The convolutional encoder against its equation."""

import math

import pytest
import torch
from torch.testing import assert_close

from seqlab.encoders import Conv, NoEncoder, Rnn
from seqlab.seq import Seq, mask_of

LENGTHS = [7, 4, 1]


def by_hand(encoder, x):
    """C1, position by position: a row ends where it ends, and outside there is nothing. Without causality the
    taps are at t - ⌊k/2⌋ ... t + ⌈k/2⌉ - 1, the dilation of layer l is k^l where it grows."""
    config, rows = encoder.config, []
    first = -(config.kernel - 1) if config.causal else -math.floor(config.kernel / 2)
    assert config.causal or first + config.kernel - 1 == math.ceil(config.kernel / 2) - 1
    for row, length in enumerate(LENGTHS):
        states = x.values[row, :length]
        for number, layer in enumerate(encoder.layers):
            apart = config.kernel**number if config.dilation == "growing" else 1
            found = []
            for place in range(-(-len(states) // config.stride)):
                total = layer.bias.clone()
                for tap in range(config.kernel):
                    read = config.stride * place + apart * (first + tap)
                    if 0 <= read < len(states):
                        total = total + layer.weight[:, :, tap] @ states[read]
                found.append(torch.relu(total))
            states = torch.stack(found)
        rows.append(states)
    return rows


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("kernel, dilation", [(1, "none"), (2, "none"), (3, "none"), (4, "none"),
                                              (1, "growing"), (2, "growing"), (3, "growing")])  # fmt: skip
def test_it_computes_its_equation(kernel, dilation, stride, causal):
    torch.manual_seed(0)
    layers = 3 if dilation == "growing" else 2
    config = Conv(width=5, layers=layers, kernel=kernel, stride=stride, causal=causal, dilation=dilation)
    encoder = config.build(3)
    for layer in encoder.layers:
        torch.nn.init.normal_(layer.bias)  # so that padding would be noticed after the first layer
    x = Seq(torch.randn(3, 7, 3), mask_of(torch.tensor(LENGTHS)))
    states = encoder(x)
    for row, expected in enumerate(by_hand(encoder, x)):
        assert int(states.lengths[row]) == len(expected)
        assert_close(states.values[row, : len(expected)], expected, atol=1e-5, rtol=1e-5)


def seen(place, length=100, **settings):
    """The input positions that the state at a place has a gradient from."""
    torch.manual_seed(0)
    encoder = Conv(width=5, activation="tanh", **settings).build(3)
    values = torch.randn(1, length, 3, requires_grad=True)
    encoder(Seq(values, torch.ones(1, length, dtype=torch.bool))).values[0, place].sum().backward()
    return values.grad[0].any(dim=-1).nonzero().flatten().tolist()


@pytest.mark.parametrize("layers, kernel", [(1, 3), (3, 3), (2, 4)])
def test_the_reach_is_one_more_than_layers_times_kernel_less_one(layers, kernel):
    """C1: 1 + L(k-1) positions at stride 1."""
    assert len(seen(50, layers=layers, kernel=kernel)) == 1 + layers * (kernel - 1)


@pytest.mark.parametrize("layers, reach", [(1, 3), (2, 7), (3, 15), (4, 31)])
def test_the_reach_grows_as_two_to_the_layers_at_stride_two(layers, reach):
    """C1 with kernel 3: 2^(L+1) - 1 positions, as many before 2^L·t as after it."""
    middle, side = 3 * 2**layers, reach // 2
    assert seen(3, layers=layers, kernel=3, stride=2) == [*range(middle - side, middle + side + 1)]


@pytest.mark.parametrize("layers, kernel", [(1, 3), (2, 3), (4, 3), (3, 2), (3, 4)])
def test_the_reach_is_kernel_to_the_layers_where_dilation_grows(layers, kernel):
    """All of the positions within: M1's log_k n layers see n positions. Causal, t is the last of them."""
    reach = kernel**layers
    whole = seen(150, 300, layers=layers, kernel=kernel, dilation="growing")
    assert whole == [*range(whole[0], whole[0] + reach)] and 150 in whole
    before = seen(280, 300, layers=layers, kernel=kernel, dilation="growing", causal=True)
    assert before == [*range(281 - reach, 281)]


@pytest.mark.parametrize("kernel, before, after", [(1, 0, 0), (2, 1, 0), (3, 1, 1), (4, 2, 1), (6, 3, 2)])
def test_an_even_kernel_sees_one_more_position_before_than_after(kernel, before, after):
    """t - ⌊k/2⌋ ... t + ⌈k/2⌉ - 1, counted by hand."""
    assert seen(50, kernel=kernel) == [*range(50 - before, 50 + after + 1)]


def test_costs_are_those_of_the_classic_table():
    """M1 with n = 100, d = 6: convolution k·n·d² in one step, path n/k; recurrent n·d² in n steps, path n."""
    [conv] = Conv(width=6, kernel=4).build(6).costs(100)
    assert (conv.work, conv.sequential_steps, conv.longest_path) == (4 * 100 * 36, 1, 25)
    for length, layers in ((2, 1), (4, 1), (5, 2), (16, 2), (100, 4), (256, 4), (257, 5)):  # log_4 n
        [dilated] = Conv(width=6, kernel=4, dilation="growing").build(6).costs(length)
        assert (dilated.work, dilated.sequential_steps) == (4 * length * 36, 1)
        assert dilated.longest_path == layers
    [recurrent] = Rnn(width=6).build(6).costs(100)
    assert (recurrent.work, recurrent.sequential_steps, recurrent.longest_path) == (100 * 36, 100, 100)
    assert NoEncoder().build(6).costs(100) == []

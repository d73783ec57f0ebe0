"""Dropout, activations."""

import pytest
import torch
from torch.testing import assert_close

from seqlab.nn.layers import Dropout


@pytest.mark.parametrize("chance", [0.001, 0.1, 0.5, 0.9])
def test_dropout_drops_its_share_and_keeps_the_mean(chance):
    torch.manual_seed(0)
    x = torch.ones(1000, 300, requires_grad=True)
    y = Dropout(chance)(x)
    dropped = float((y == 0).float().mean())
    spread = (chance * (1 - chance) / x.numel()) ** 0.5
    assert abs(dropped - chance) < 1 / 256 + 5 * spread
    kept = y[y != 0]
    assert (kept == kept[0]).all()
    share = 1 / kept[0].item()  # exactly what is kept on average
    assert abs(1 - dropped - share) < 5 * spread + 1e-4
    y.sum().backward()
    assert_close(x.grad, y.detach())  # of ones: the mask itself


def test_dropout_is_drawn_from_the_global_generator_and_does_nothing_when_evaluating():
    x = torch.ones(37, 3)
    dropout = Dropout(0.5)
    torch.manual_seed(1)
    first = dropout(x)
    state = torch.get_rng_state()
    second = dropout(x)
    torch.set_rng_state(state)
    assert torch.equal(dropout(x), second) and not torch.equal(first, second)
    assert dropout.eval()(x) is x


def test_each_element_has_its_own_fate():
    """All eight bytes of a random word are as random as the first: columns drop alike and apart."""
    torch.manual_seed(0)
    kept = (Dropout(0.5)(torch.ones(20_000, 8)) != 0).float()
    assert_close(kept.mean(dim=0), torch.full((8,), 0.5), atol=0.02, rtol=0)
    assert (torch.corrcoef(kept.T) - torch.eye(8)).abs().max() < 0.03

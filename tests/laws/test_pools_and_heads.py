"""What holds for every pool and every head."""

import pytest
import torch
from torch.testing import assert_close
from variants import HEADS, LENGTHS, POOLS, WIDTH, alone, vectors, weighted_sum

from seqlab.errors import UserError
from seqlab.outputs import Attention, Direct
from seqlab.outputs.gaussian import GaussianReply
from seqlab.outputs.pools import AttentionPool
from seqlab.parts import HeadConfig, Pool, PoolConfig, record

EVERY_POOL = pytest.mark.parametrize("name", POOLS)
EVERY_HEAD = pytest.mark.parametrize("name", HEADS)


def build(name: str) -> Pool:
    torch.manual_seed(0)
    return POOLS[name].build(WIDTH).eval()


def test_every_registered_pool_and_head_is_tested():
    assert {config.kind for config in POOLS.values()} == set(PoolConfig.kinds)
    assert {config.kind for config in HEADS.values()} == set(HeadConfig.kinds)


@EVERY_POOL
def test_padding_and_batch_mates_never_change_a_vector(name):
    pool, x = build(name), vectors()
    together = pool(x)
    assert together.vector.shape == (len(LENGTHS), pool.width)
    for row in range(len(LENGTHS)):
        assert_close(together.vector[row], pool(alone(x, row)).vector[0], atol=1e-5, rtol=1e-5)


@EVERY_POOL
def test_weights_are_a_mean_over_real_positions_and_are_what_is_recorded(name):
    pool, x = build(name), vectors()
    with record(pool) as maps:
        weights = pool(x).weights
    if weights is None:
        assert not maps
        return
    assert_close(weights.sum(dim=-1), torch.ones(weights.shape[:2]))
    assert not weights.masked_select(~x.mask.unsqueeze(1)).any()
    [recorded] = maps[""]
    assert_close(recorded, weights.unsqueeze(2).detach())  # B R 1 T


@EVERY_POOL
def test_every_parameter_of_a_pool_gets_a_gradient_and_is_counted(name):
    pool = build(name)
    inputs = vectors()
    inputs.values.requires_grad_()
    weighted_sum(pool(inputs).vector).backward()
    assert inputs.values.grad is not None and not inputs.values.grad[~inputs.mask].any()
    for parameter, tensor in pool.named_parameters():
        assert tensor.grad is not None and tensor.grad.abs().max() > 1e-7, parameter
    with torch.device("meta"):
        empty = POOLS[name].build(WIDTH)
    assert sum(cost.parameters for cost in pool.costs(20)) == sum(
        tensor.numel() for tensor in empty.parameters()
    )


def test_a_context_changes_the_weights_of_an_attention_pool():
    torch.manual_seed(0)
    pool, x = AttentionPool(Attention(hidden=6), WIDTH, context=3), vectors()
    scored, contexts = pool.hidden(x.values), torch.randn(2, len(LENGTHS), 3)
    first, second = (pool.weigh(x.values, scored, x.mask, context).weights for context in contexts)
    assert not torch.allclose(first, second)
    assert sum(cost.parameters for cost in pool.costs(20)) == sum(
        tensor.numel() for tensor in pool.parameters()
    )


@EVERY_HEAD
def test_every_parameter_of_a_head_gets_a_gradient_and_is_counted(name):
    torch.manual_seed(0)
    head = HEADS[name].build(3, 3)
    reply = head(torch.randn(5, 3))
    assert reply.scores.shape == (5, 3)
    logs = reply.log_variance if isinstance(reply, GaussianReply) else torch.zeros(())
    nats = reply.surprise(torch.tensor([0, 2, 1, 1, 0]), torch.tensor([3, 2]))
    (weighted_sum(reply.scores) + weighted_sum(logs) + nats.sum()).backward()
    for parameter, tensor in head.named_parameters():
        assert tensor.grad is not None and tensor.grad.abs().max() > 1e-7, parameter
    assert sum(cost.parameters for cost in head.costs(1)) == sum(
        tensor.numel() for tensor in head.parameters()
    )


def test_a_direct_head_of_another_size_is_refused_with_a_way_out():
    with pytest.raises(UserError, match="needs 3 features") as error:
        Direct().build(8, 3)
    assert "head.kind=linear" in error.value.fix

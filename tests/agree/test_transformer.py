"""The Transformer encoder against torch's, T1's positions and T3's counts."""

import math

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from seqlab.encoders import Transformer
from seqlab.errors import UserError
from seqlab.nn.positions import Learned, NoPositions, Rotary, Sinusoidal, sinusoids
from seqlab.seq import Seq, mask_of


def copied(encoder, theirs):
    """torch's encoder with our weights."""
    with torch.no_grad():
        for mine, layer in zip(encoder.layers, theirs.layers, strict=True):
            asked = (mine.attention.query, mine.attention.key, mine.attention.value)
            layer.self_attn.in_proj_weight.copy_(torch.cat([part.weight for part in asked]))
            layer.self_attn.in_proj_bias.copy_(torch.cat([part.bias for part in asked]))
            layer.self_attn.out_proj.load_state_dict(mine.attention.output.state_dict())
            layer.linear1.load_state_dict(mine.feed_forward.hidden.state_dict())
            layer.linear2.load_state_dict(mine.feed_forward.output.state_dict())
            layer.norm1.load_state_dict(mine.attention_norm.state_dict())
            layer.norm2.load_state_dict(mine.feed_forward_norm.state_dict())
        if encoder.final_norm is not None:
            theirs.norm.load_state_dict(encoder.final_norm.state_dict())
    return theirs


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("norm, activation", [("pre", "relu"), ("post", "gelu")])
def test_it_equals_torchs_encoder_with_the_same_weights(norm, activation, causal):
    torch.manual_seed(0)
    config = Transformer(
        layers=3, heads=4, feed_forward=24, norm=norm, activation=activation, causal=causal,
        positions=NoPositions(), scale_embedding=False, dropout=0.0,
    )  # fmt: skip
    encoder = config.build(16)
    for name, tensor in encoder.named_parameters():
        if name.endswith("bias"):
            nn.init.normal_(tensor, std=0.3)  # zeros would hide a bias in the wrong place
    layer = nn.TransformerEncoderLayer(
        16, 4, 24, dropout=0.0, activation=activation, norm_first=norm == "pre", batch_first=True
    )
    final = nn.LayerNorm(16) if norm == "pre" else None
    theirs = copied(encoder, nn.TransformerEncoder(layer, 3, norm=final, enable_nested_tensor=False))
    x = Seq(torch.randn(3, 9, 16), mask_of(torch.tensor([9, 4, 1])))
    triangle = torch.ones(9, 9, dtype=torch.bool).triu(1) if causal else None

    expected = theirs(x.values, mask=triangle, src_key_padding_mask=~x.mask)

    assert_close(encoder(x).values[x.mask], expected[x.mask], atol=1e-5, rtol=1e-5)


def test_sinusoids_are_those_of_the_worked_table():
    """T1 with N = 100, d = 4, positions 0 to 3, to two places."""
    table = [[0, 1, 0, 1], [0.84, 0.54, 0.10, 1.00], [0.91, -0.42, 0.20, 0.98], [0.14, -0.99, 0.30, 0.96]]
    assert_close(sinusoids(4, 4, base=100), torch.tensor(table, dtype=torch.float64), atol=0.005, rtol=0)
    built = Sinusoidal(base=100).build(4)
    assert_close(built(torch.zeros(1, 4, 4))[0], torch.tensor(table), atol=0.005, rtol=0)


@pytest.mark.parametrize("step", [1, 3, 10])
def test_a_step_in_position_is_a_rotation_that_depends_on_the_step_alone(step):
    """T1: PE(pos + k) = R(k) PE(pos), with R(k) made of 2×2 rotations by k / N^(2j/d)."""
    width, table = 8, sinusoids(50, 8)
    turn = torch.zeros(width, width, dtype=torch.float64)
    for pair in range(width // 2):
        angle = step / 10_000 ** (2 * pair / width)
        block = torch.tensor([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
        turn[2 * pair : 2 * pair + 2, 2 * pair : 2 * pair + 2] = block
    assert_close(table[step:], table[:-step] @ turn.T, atol=1e-6, rtol=0)


def test_an_offset_moves_the_positions_and_longer_inputs_extend_the_table():
    moved = Sinusoidal(offset=2).build(6)
    short, long = moved(torch.zeros(1, 3, 6)), moved(torch.zeros(1, 9, 6))
    assert_close(long[:, :3], short)
    assert_close(long[0], sinusoids(11, 6)[2:].float())
    assert not moved.state_dict() and not list(moved.parameters())


def test_positions_are_added_or_put_beside_the_vectors():
    x = torch.randn(2, 5, 6)
    for config in (Sinusoidal(mode="concatenate", width=4), Learned(mode="concatenate", width=4)):
        positions = config.build(6)
        assert positions.width == 10
        assert_close(positions(x)[..., :6], x)
    assert_close(Sinusoidal(mode="concatenate", width=3).build(6)(x)[0, :, 6:], sinusoids(5, 3).float())


def test_learned_positions_start_at_their_offset_and_end_with_their_table():
    positions = Learned(length=4, offset=2).build(6)
    assert_close(positions(torch.zeros(1, 4, 6))[0], positions.table[2:])
    with pytest.raises(UserError, match="5 positions, but the model has learned 4"):
        positions(torch.zeros(1, 5, 6))


def test_rotary_scores_depend_on_the_distance_alone_and_lengths_are_kept():
    torch.manual_seed(0)
    rotary = Rotary().build(8)
    query, key = torch.randn(8), torch.randn(8)
    queries, keys = (rotary.turn(one.expand(1, 1, 20, 8)) for one in (query, key))
    scores = (queries @ keys.transpose(2, 3))[0, 0]
    for distance in (-5, 0, 7):
        along = scores.diagonal(distance)
        assert_close(along, along[0].expand_as(along), atol=1e-4, rtol=0)
    assert not torch.allclose(scores[0, 0], scores[0, 5])
    assert_close(queries.norm(dim=-1), query.norm().expand(1, 1, 20))
    assert_close(queries[0, 0, 0], query)


def test_without_positions_a_permutation_of_the_inputs_permutes_the_states():
    torch.manual_seed(0)
    encoder = Transformer(heads=2, positions=NoPositions()).build(8).eval()
    x, order = Seq(torch.randn(1, 7, 8), torch.ones(1, 7, dtype=torch.bool)), torch.randperm(7)
    assert_close(
        encoder(Seq(x.values[:, order], x.mask)).values, encoder(x).values[:, order], atol=1e-5, rtol=1e-5
    )
    knowing = Transformer(heads=2).build(8).eval()
    assert not torch.allclose(
        knowing(Seq(x.values[:, order], x.mask)).values, knowing(x).values[:, order], atol=1e-3
    )


def test_a_layer_of_the_worked_model_has_242_000_parameters():
    """T3: width 200, feed-forward 200, post-norm, biases: attention 160,800 + feed-forward 80,400 + norms
    800."""
    with torch.device("meta"):
        encoder = Transformer(layers=4, heads=4, feed_forward=200, norm="post").build(200)
    costs = {cost.name: cost.parameters for cost in encoder.costs(50)}
    for layer in range(4):
        parts = [costs[f"layers.{layer}.{part}"] for part in ("attention", "feed_forward", "norms")]
        assert parts == [160_800, 80_400, 800]
    assert sum(costs.values()) == sum(tensor.numel() for tensor in encoder.parameters()) == 968_000


def test_heads_that_do_not_divide_the_width_are_refused_with_a_way_out():
    with pytest.raises(UserError, match="heads is 3, but the width is 8") as error:
        Transformer(heads=3).build(8)
    assert "divides 8" in error.value.fix
    with pytest.raises(UserError, match="heads is 4, but the width is 12") as error:
        Transformer(heads=4, positions=Rotary()).build(12)
    assert "even" in error.value.why

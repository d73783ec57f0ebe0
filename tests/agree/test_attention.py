"""Attention against torch's, and the worked numbers of A1, A3 and A4."""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close
from torch.utils.flop_counter import FlopCounterMode

from seqlab.config import build
from seqlab.encoders import Transformer
from seqlab.errors import UserError
from seqlab.nn.attention import Form, MultiHeadAttention, masked_softmax, merge_query_key, separate
from seqlab.nn.positions import Rotary
from seqlab.parts import EncoderConfig, record
from seqlab.seq import mask_of

STANDARD = Form.standard(12, 3)


def recorded(attention, *given, **more):
    with record(attention) as maps:
        result = attention(*given, **more)
    return result, maps[""][0]


def projected(attention, x):
    """Queries, keys and values (B H T U)."""
    return (
        layer(x).unflatten(-1, (3, -1)).transpose(1, 2)
        for layer in (attention.query, attention.key, attention.value)
    )


def random_biases(attention):
    """Biases start at zero, which would hide them."""
    for name, tensor in attention.named_parameters():
        if name.endswith("bias"):
            nn.init.normal_(tensor)
    return attention


def test_the_worked_example_of_three_positions():
    """A1: q = (-1,1,0,1), scores (-1,1,-1)/2, z = (2e^{-1/2}, e^{1/2}) / (2e^{-1/2} + e^{1/2})."""
    attention = MultiHeadAttention(
        Form(width=3, memory=4, heads=1, key=4, value=2, biases=False, output=False)
    )
    with torch.no_grad():
        attention.query.weight.copy_(torch.tensor([[0.0, 1, 0], [1, 0, 0], [0, 0, 1], [1, 0, -1]]))
        attention.key.weight.copy_(torch.eye(4))
        attention.value.weight.copy_(torch.tensor([[1.0, 0, 0, 0], [0, 1, 1, 0]]))
    y, x = torch.tensor([[[1.0, -1, 0]]]), torch.eye(4)[[0, 1, 0]].unsqueeze(0)
    # The spec's matrix gives q[0] = y[1] = -1 and q[1] = y[0] = 1.
    assert attention.query(y).flatten().tolist() == [-1, 1, 0, 1]
    low, high = math.exp(-0.5), math.exp(0.5)
    z = torch.tensor([2 * low, high]) / (2 * low + high)
    assert_close(attention(y, memory=x).flatten(), z)
    result, weights = recorded(attention, y, memory=x)
    assert_close(result.flatten(), z)
    assert_close(weights.flatten(), torch.tensor([low, high, low]) / (2 * low + high))


@pytest.mark.parametrize("memory_width", [12, 7])
def test_it_equals_torchs_multihead_attention(memory_width):
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(12, 3, kdim=memory_width, vdim=memory_width, batch_first=True)
    nn.init.normal_(theirs.in_proj_bias)
    nn.init.normal_(theirs.out_proj.bias)
    ours = MultiHeadAttention(replace(STANDARD, memory=memory_width))
    weights = (
        theirs.in_proj_weight.chunk(3)
        if memory_width == 12
        else (theirs.q_proj_weight, theirs.k_proj_weight, theirs.v_proj_weight)
    )
    with torch.no_grad():
        biases = theirs.in_proj_bias.chunk(3)
        for layer, weight, bias in zip((ours.query, ours.key, ours.value), weights, biases, strict=True):
            layer.weight.copy_(weight)
            layer.bias.copy_(bias)
        ours.output.load_state_dict(theirs.out_proj.state_dict())
    x, memory, mask = torch.randn(2, 5, 12), torch.randn(2, 8, memory_width), mask_of(torch.tensor([8, 3]))
    expected, maps = theirs(x, memory, memory, key_padding_mask=~mask, average_attn_weights=False)
    assert_close(ours(x, mask, memory), expected, atol=1e-5, rtol=1e-5)
    result, weights = recorded(ours, x, mask, memory)
    assert_close(result, expected, atol=1e-5, rtol=1e-5)
    assert_close(weights, maps, atol=1e-5, rtol=1e-5)


def test_many_narrow_heads_have_as_many_parameters_as_one_wide_head():
    """A2: h heads of width d/h, and one head of width d."""
    one, many = (MultiHeadAttention(Form.standard(12, heads)) for heads in (1, 4))
    assert one.cost(10).parameters == many.cost(10).parameters == 4 * 12 * 12 + 4 * 12


def test_the_plain_form_has_neither_scale_nor_output_projection():
    torch.manual_seed(0)
    attention = MultiHeadAttention(replace(STANDARD, scale=False, output=False, value=5))
    x = torch.randn(2, 6, 12)
    query, key, value = projected(attention, x)
    expected = ((query @ key.transpose(2, 3)).softmax(-1) @ value).transpose(1, 2).reshape(2, 6, 15)
    assert_close(attention(x), expected, atol=1e-5, rtol=1e-5)
    assert sum(tensor.numel() for tensor in attention.parameters()) == attention.cost(6).parameters


def by_loops(attention, x, memory, causal=False):
    """A1 and A2, number by number: for each row, position and head softmax(q · k · factor) over what is seen,
    the mean of values, heads side by side, and the projection where there is one."""
    form, rows = attention.form, []

    def of(layer, vector, head, width):
        found = layer.weight @ vector + (0 if layer.bias is None else layer.bias)
        return found[head * width : (head + 1) * width]

    for asking, read in zip(x, memory, strict=True):
        states = []
        for place, vector in enumerate(asking):
            mixed = []
            for head in range(form.heads):
                q = of(attention.query, vector, head, form.key)
                scores = []
                for slot in read[: place + 1 if causal else None]:
                    score = sum(
                        a * b for a, b in zip(q, of(attention.key, slot, head, form.key), strict=True)
                    )
                    scores.append(score / math.sqrt(form.key) if form.scale else score)
                total = sum(score.exp() for score in scores)
                shares = [score.exp() / total for score in scores]
                values = [of(attention.value, slot, head, form.value) for slot in read]
                mixed.append(sum(share * value for share, value in zip(shares, values, strict=False)))
            state = torch.cat(mixed)
            states.append(attention.output.weight @ state + attention.output.bias if form.output else state)
        rows.append(torch.stack(states))
    return torch.stack(rows)


WIDTHS = {"own": {}, "wide keys": {"key": 7, "value": 2}, "wide values": {"key": 1, "value": 6}}


@pytest.mark.parametrize("widths", WIDTHS)
@pytest.mark.parametrize("output", [True, False])
@pytest.mark.parametrize("scale", [True, False])
def test_every_form_is_its_equation(scale, output, widths):
    """Fused and recorded, to itself, causal, and over a memory of another width, with formula and count."""
    torch.manual_seed(0)
    form = replace(STANDARD, scale=scale, output=output, **WIDTHS[widths])
    x, memory = torch.randn(2, 4, 12), torch.randn(2, 5, 7)
    for changed, read in (({}, None), ({"causal": True}, None), ({"memory": 7}, memory)):
        attention = random_biases(MultiHeadAttention(replace(form, **changed)))
        expected = by_loops(attention, x, x if read is None else read, "causal" in changed)
        result, weights = recorded(attention, x, memory=read)
        assert_close(attention(x, memory=read), expected, atol=1e-5, rtol=1e-5)
        assert_close(result, expected, atol=1e-5, rtol=1e-5)
        assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
        cost = attention.cost(6)
        assert cost.parameters == sum(tensor.numel() for tensor in attention.parameters())
        h, u, v, d, m = 3, attention.form.key, attention.form.value, 12, 7 if changed.get("memory") else 12
        terms = {"4d²": 4 * d * d, "hu·2d": 2 * h * u * d, "hv·2d": 2 * h * v * d, "hv·d": h * v * d}
        terms |= {"hu·(d + m)": h * u * (d + m), "hv·(d + m)": h * v * (d + m), "hv·m": h * v * m}
        biases = 2 * h * u + h * v + (12 if output else 0)
        formula = cost.parameters_formula.removesuffix(" + biases").replace(" + hv", "|hv").split("|")
        assert sum(terms[term] for term in formula) + biases == cost.parameters
        assert cost.work == 6 * 6 * h * (u + v) // 2
        assert cost.work_formula == ("n²d" if h * (u + v) == 2 * d else "n²h(u + v)/2")


def test_a_transformer_has_the_attention_that_its_settings_tell_also_over_a_memory():
    told = {"key_width": 3, "value_width": 5, "scale_scores": False, "biases": False}
    [layer] = Transformer(layers=1, heads=2, causal=True, **told).build_over(8, 6).layers
    own = Form(width=8, memory=8, heads=2, key=3, value=5, biases=False, output_bias=False, scale=False)
    assert layer.attention.form == replace(own, causal=True)
    assert layer.cross.form == replace(own, memory=6)
    [layer] = Transformer(layers=1, heads=2, output_projection=False).build_over(8, 6).layers
    plain = replace(Form.standard(8, 2), output=False)
    assert (layer.attention.form, layer.cross.form) == (plain, replace(plain, memory=6))
    [layer] = (
        Transformer(layers=1, heads=3, key_width=2, value_width=4).build(8).layers
    )  # 3 need not divide 8
    assert layer.attention.form == Form(width=8, memory=8, heads=3, key=2, value=4)


@pytest.mark.parametrize(
    "told, match",
    [
        ({"heads": 3, "key_width": 2}, "heads is 3, but the width is 8"),
        ({"heads": 2, "key_width": 3, "positions": Rotary()}, "key_width is 3, and positions are rotary"),
        ({"heads": 2, "value_width": 5, "output_projection": False}, "make 10, but the width is 8"),
    ],
)
def test_widths_that_do_not_go_together_are_refused_with_a_way_out(told, match):
    with pytest.raises(UserError, match=match) as error:
        Transformer(**told).build(8)
    assert error.value.why and error.value.fix


def test_causal_weights_on_the_future_are_exactly_zero():
    torch.manual_seed(0)
    _, weights = recorded(MultiHeadAttention(replace(STANDARD, causal=True)), torch.randn(2, 9, 12))
    assert not weights.triu(diagonal=1).any()
    assert_close(weights.sum(-1), torch.ones(2, 3, 9))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("reach", [1, 2, 3, 16, 17, 60])
def test_local_attention_in_blocks_equals_full_attention_under_a_band(reach, causal):
    """A3: r positions, itself included; causal the last r, else (r-1)//2 to the left and r//2 to the
    right."""
    torch.manual_seed(0)
    attention = MultiHeadAttention(replace(STANDARD, local=reach, causal=causal))
    x, mask = torch.randn(2, 45, 12), mask_of(torch.tensor([45, 20]))
    ahead = torch.arange(45) - torch.arange(45).unsqueeze(1)  # key minus query
    left, right = (reach - 1, 0) if causal else ((reach - 1) // 2, reach // 2)
    band = (ahead >= -left) & (ahead <= right)
    assert causal or int(band[22].sum()) == min(reach, 45)
    query, key, value = projected(attention, x)
    mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=band & mask[:, None, None])
    expected = attention.output(mixed.transpose(1, 2).flatten(2))

    result, weights = recorded(attention, x, mask)
    assert_close(attention(x, mask)[mask], expected[mask], atol=1e-5, rtol=1e-5)
    assert_close(result[mask], expected[mask], atol=1e-5, rtol=1e-5)
    assert weights.shape == (2, 3, 45, 45)
    assert not weights.masked_select(~(band & mask[:, None, None])).any()
    assert_close(weights.sum(-1).transpose(1, 2)[mask], torch.ones(65, 3))


def test_the_work_of_local_attention_grows_with_the_length_and_not_with_its_square():
    def products(length, local):
        attention = MultiHeadAttention(replace(STANDARD, local=local))
        with FlopCounterMode(display=False) as whole:
            recorded(attention, torch.randn(1, length, 12))
        projections = 4 * 2 * length * 12 * 12
        return whole.get_total_flops() - projections

    assert products(1024, 16) == 2 * products(512, 16)
    assert products(1024, None) == 4 * products(512, None) == 2 * 2 * 1024 * 1024 * 12


def test_a_row_with_nothing_to_attend_to_gets_zeros_and_no_nan():
    torch.manual_seed(0)
    attention = MultiHeadAttention(replace(STANDARD, output_bias=False, biases=False))
    x, mask = torch.randn(2, 4, 12, requires_grad=True), torch.tensor([[True] * 4, [False] * 4])
    fused = attention(x, mask)
    seen, weights = recorded(attention, x, mask)
    assert not fused[1].any() and not seen[1].any() and not weights[1].any()
    (fused.square().sum() + seen.square().sum()).backward()
    assert torch.isfinite(x.grad).all()
    scores = torch.zeros(2, 3, requires_grad=True)
    masked_softmax(scores, torch.tensor([[False] * 3, [True, False, True]])).square().sum().backward()
    assert torch.isfinite(scores.grad).all()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("biases", [True, False])
def test_a_merged_query_key_matrix_attends_the_same_and_can_be_taken_apart_again(biases, scale, causal):
    """A4, both conversions; the merged matrix of a head has rank 4 = key width, so the way back is exact."""
    torch.manual_seed(0)
    plain = random_biases(MultiHeadAttention(replace(STANDARD, biases=biases, scale=scale, causal=causal)))
    x, mask = torch.randn(2, 6, 12), mask_of(torch.tensor([6, 4]))
    expected, maps = recorded(plain, x, mask)
    merged = merge_query_key(plain)
    again = separate(merged)
    for attention in (merged, again):
        assert_close(attention(x, mask)[mask], expected[mask], atol=1e-5, rtol=1e-5)
        result, weights = recorded(attention, x, mask)
        assert_close(result, expected, atol=1e-5, rtol=1e-5)
        assert_close(weights, maps, atol=1e-5, rtol=1e-5)
        assert attention.cost(6).parameters == sum(tensor.numel() for tensor in attention.parameters())
    factor = 1 / math.sqrt(4) if scale else 1.0
    first = merged.query.weight[:12].T  # W̃ of the first head: from x to memory
    assert_close(first, factor * plain.query.weight[:4].T @ plain.key.weight[:4])


def test_merged_cross_attention_keeps_its_widths():
    torch.manual_seed(0)
    plain = random_biases(MultiHeadAttention(replace(STANDARD, memory=7)))
    x, memory = torch.randn(2, 5, 12), torch.randn(2, 8, 7)
    for attention in (merge_query_key(plain), separate(merge_query_key(plain))):
        assert_close(attention(x, memory=memory), plain(x, memory=memory), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("key, cheaper", [(2, "separate"), (4, "neither"), (6, "merged")])
def test_merging_saves_parameters_when_keys_are_wider_than_half_the_width(key, cheaper):
    """A4: 2·I·J a head against J², equal at I = J/2; here J = 8."""
    form = Form(width=8, memory=8, heads=1, key=key, value=8, biases=False)
    apart, merged = (
        MultiHeadAttention(replace(form, merged=merged)).cost(5).parameters for merged in (False, True)
    )
    assert apart - merged == 2 * key * 8 - 8 * 8
    assert cheaper == ("neither" if apart == merged else "separate" if apart < merged else "merged")


def test_merging_is_refused_with_rotary_positions():
    rotary = Rotary().build(12)
    with pytest.raises(ValueError, match="rotary"):
        MultiHeadAttention(replace(STANDARD, merged=True), rotary)
    with pytest.raises(ValueError, match="rotary"):
        merge_query_key(MultiHeadAttention(STANDARD, rotary))
    with pytest.raises(UserError, match="rotary"):
        build(EncoderConfig, {"kind": "transformer", "merged_query_key": True, "positions": "rotary"}, "here")
    Transformer(merged_query_key=True)
    with pytest.raises(ValueError, match="key_width"):
        Transformer(merged_query_key=True, key_width=4)


@pytest.mark.parametrize("local, work, path", [(None, 100 * 100 * 12, 1), (5, 5 * 100 * 12, 20)])
def test_costs_are_those_of_the_classic_table(local, work, path):
    """M1: n²d and one step; with r neighbours rnd and a path of n/r; projections 4nd² apart."""
    cost = MultiHeadAttention(replace(STANDARD, local=local)).cost(100)
    assert (cost.work, cost.sequential_steps, cost.longest_path) == (work, 1, path)
    assert cost.projections == 4 * 100 * 12 * 12

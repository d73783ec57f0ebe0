"""What holds for every encoder."""

import pytest
import torch
from torch.testing import assert_close
from variants import ENCODERS, LENGTHS, WIDTH, alone, vectors, weighted_sum

from seqlab.parts import Attends, Encoder, EncoderConfig, record
from seqlab.seq import Seq


def build(name: str) -> Encoder:
    torch.manual_seed(0)
    return ENCODERS[name].build(WIDTH).eval()


EVERY = pytest.mark.parametrize("name", ENCODERS)
CAUSAL = [name for name in ENCODERS if build(name).causal]
ATTENDING = [
    name for name in ENCODERS if any(isinstance(module, Attends) for module in build(name).modules())
]
SEEING = [name for name in ENCODERS if not build(name).causal and build(name).keeps_length]


def test_every_registered_encoder_is_tested():
    assert {config.kind for config in ENCODERS.values()} == set(EncoderConfig.kinds)


@EVERY
def test_padding_and_batch_mates_never_change_a_state(name):
    """A row alone and the same row beside others, with rubbish at its padding, is encoded to the same
    states."""
    encoder, x = build(name), vectors()
    together = encoder(x)
    for row in range(len(LENGTHS)):
        single = encoder(alone(x, row))
        beside = alone(together, row)
        assert_close(beside.values, single.values, atol=1e-5, rtol=1e-5)
        if single.summary is not None:
            assert_close(beside.summary, single.summary, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", CAUSAL)
def test_a_causal_encoder_never_sees_the_future(name):
    """Other vectors after position t leave the states up to t as they were, exactly."""
    encoder = build(name)
    x, other = vectors((40, 40)), vectors((40, 40), seed=1)
    for place in (0, 9, 17):
        changed = x.values.clone()
        changed[:, place + 1 :] = other.values[:, place + 1 :]
        before, after = encoder(x).values, encoder(Seq(changed, x.mask)).values
        assert torch.equal(before[:, : place + 1], after[:, : place + 1])
        assert not torch.equal(before[:, place + 1 :], after[:, place + 1 :])


@pytest.mark.parametrize("name", CAUSAL)
@pytest.mark.parametrize("parts", [(40,), (1, 39), (20, 20), (3, 1, 1, 30, 5)])
def test_extending_bit_by_bit_equals_encoding_at_once(name, parts):
    """Whatever the steps, a causal encoder gives the states that `forward` gives."""
    encoder, x = build(name), vectors((40, 40))
    state, found = encoder.begin(2), []
    for part in x.values.split(list(parts), dim=1):
        states, state = encoder.extend(part, state)
        found.append(states)
    assert state.done == 40
    assert_close(torch.cat(found, dim=1), encoder(x).values, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", SEEING)
def test_an_encoder_that_is_not_causal_does_see_the_future(name):
    """So the flag is not merely cautious."""
    encoder, x = build(name), vectors((12,))
    changed = vectors((12,), seed=1).values
    changed[:, 0] = x.values[:, 0]
    assert not torch.allclose(encoder(x).values[:, 0], encoder(Seq(changed, x.mask)).values[:, 0])


@EVERY
def test_every_parameter_gets_a_gradient(name):
    """A key bias is exempt: softmax cancels it."""
    encoder, x = build(name), vectors()
    x.values.requires_grad_()
    weighted_sum(encoder(x).zeroed).backward()
    assert not x.values.grad[~x.mask].any(), "padding has no influence"
    for parameter, tensor in encoder.named_parameters():
        assert tensor.grad is not None and torch.isfinite(tensor.grad).all(), parameter
        assert parameter.endswith("key.bias") or tensor.grad.abs().max() > 1e-7, parameter


@EVERY
def test_the_formula_counts_every_parameter(name):
    """On the meta device: counting needs no memory."""
    with torch.device("meta"):
        encoder = ENCODERS[name].build(WIDTH)
    assert sum(cost.parameters for cost in encoder.costs(20)) == sum(
        tensor.numel() for tensor in encoder.parameters()
    )
    assert all(tensor.device.type == "meta" for tensor in encoder.parameters())


@EVERY
def test_shapes_are_as_announced(name):
    encoder, x = build(name), vectors()
    states = encoder(x)
    assert states.values.shape == (len(LENGTHS), encoder.length_after(max(LENGTHS)), encoder.width)
    assert states.lengths.tolist() == [encoder.length_after(length) for length in LENGTHS]
    assert encoder.keeps_length == (encoder.length_after(40) == 40)


def test_who_attends_is_known():
    """The Transformers at least, alone and in a stack."""
    assert {"stack causal", *(name for name in ENCODERS if name.startswith("transformer"))} <= set(ATTENDING)


@pytest.mark.parametrize("name", ATTENDING)
def test_recorded_attention_gives_the_same_states(name):
    encoder, x = build(name), vectors()
    plain = encoder(x)
    with record(encoder) as maps:
        seen = encoder(x)
    assert_close(alone(plain, 0).values, alone(seen, 0).values, atol=1e-5, rtol=1e-5)
    assert_close(plain.zeroed, seen.zeroed, atol=1e-5, rtol=1e-5)
    for [weights] in maps.values():
        assert weights.shape == (len(LENGTHS), 2, max(LENGTHS), max(LENGTHS))
        total = weights.sum(dim=-1)
        real = x.mask.unsqueeze(1).expand_as(total)
        assert_close(total[real], torch.ones_like(total[real]))
        assert not weights.transpose(1, 3)[~x.mask].any(), "weight on padding"

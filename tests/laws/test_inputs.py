"""What holds for every input."""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close
from variants import FACTS, INPUTS, alone, batch, documents, weighted_sum

from seqlab.parts import Attends, Input, InputConfig, record

EVERY = pytest.mark.parametrize("name", INPUTS)


def build(name: str) -> Input:
    torch.manual_seed(0)
    made = INPUTS[name].build(FACTS).eval()
    for tensor in made.parameters():
        if not tensor.any():
            torch.nn.init.normal_(tensor)  # a linear bag starts at zero, which would prove nothing
    return made


ATTENDING = [name for name in INPUTS if any(isinstance(module, Attends) for module in build(name).modules())]


def test_every_registered_input_is_tested():
    assert {config.kind for config in INPUTS.values()} == set(InputConfig.kinds)


@EVERY
def test_padding_and_batch_mates_never_change_a_vector(name):
    """Also when inner sequences are sorted into other groups."""
    read, rows = build(name), documents()
    together = read(batch(INPUTS[name], rows))
    assert together.values.shape == (len(rows), together.mask.shape[1], read.width)
    for row, document in enumerate(rows):
        single = read(batch(INPUTS[name], [document]))
        assert_close(alone(together, row).values, single.values, atol=1e-5, rtol=1e-5)
        if single.summary is not None:
            assert_close(alone(together, row).summary, single.summary, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", [name for name in INPUTS if any(True for _ in build(name).parameters())])
def test_every_parameter_gets_a_gradient(name):
    read = build(name)
    weighted_sum(read(batch(INPUTS[name], documents())).zeroed).backward()
    for parameter, tensor in read.named_parameters():
        assert tensor.grad is not None and torch.isfinite(tensor.grad).all(), parameter
        assert parameter.endswith("key.bias") or tensor.grad.abs().max() > 1e-7, parameter


@EVERY
def test_the_formula_counts_every_parameter(name):
    for facts in (FACTS, replace(FACTS, segments=2)):
        with torch.device("meta"):
            read = INPUTS[name].build(facts)
        assert sum(cost.parameters for cost in read.costs(20)) == sum(
            tensor.numel() for tensor in read.parameters()
        )


@EVERY
def test_as_many_positions_come_out_as_announced(name):
    """A document of 16 words stands for four sentences of four words each."""
    read, reads = build(name), INPUTS[name].reads
    rows = [[[1, 2, 3, 4]] * 4] if reads == "sentences" else [[[1]] * 16]
    assert read(batch(INPUTS[name], rows)).mask.shape == (1, read.length_after(16))


def test_who_attends_is_known():
    """At least what reads inner sequences with attention in the pool or in the encoder."""
    assert {"nested", "nested transformer", "nested-context", "nested-context forward"} <= set(ATTENDING)


@pytest.mark.parametrize("name", ATTENDING)
def test_recorded_attention_gives_the_same_vectors_in_reading_order(name):
    """One map for each inner sequence: its weights end where that sequence ends."""
    read, rows = build(name), documents()
    given = batch(INPUTS[name], rows)
    plain = read(given)
    with record(read) as maps:
        seen = read(given)
    assert_close(plain.zeroed, seen.zeroed, atol=1e-5, rtol=1e-5)
    lengths = torch.tensor([read.encoder.length_after(len(inner)) for row in rows for inner in row])
    for [weights] in maps.values():
        assert ((weights > 0).any(dim=(1, 2)).sum(dim=-1) == lengths).all()


def test_a_segment_moves_every_vector_of_its_tokens_alike():
    torch.manual_seed(0)
    config = INPUTS["tokens"]
    read = config.build(replace(FACTS, segments=2))
    given = batch(config, documents())
    moved = read(given).values - read.embedding(given.inputs["text"].values)
    assert_close(moved, read.segments(given.inputs["segments"].values))


def test_word_dropout_drops_whole_words_and_keeps_the_mean():
    torch.manual_seed(0)
    config = replace(INPUTS["tokens"], word_dropout=0.25)
    read, given = config.build(FACTS).train(), batch(config, documents(count=40))
    kept = read(given).values / read.embedding(given.inputs["text"].values)
    assert_close(kept, kept[..., :1].expand_as(kept))  # all features of a word share one fate
    assert_close(kept, torch.where(kept == 0, 0.0, 1 / 0.75))
    assert abs(kept.mean().item() - 1) < 0.1

"""What holds for every decoder, with a memory of many slots, of one, or of none."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close
from variants import LANGUAGE, SYMBOLS, WIDTH, WRITERS, vectors, weighted_sum

from seqlab.encoders import Stack, Transformer
from seqlab.parts import Attends, Decoder, DecoderConfig, State, record
from seqlab.seq import Seq

SLOTS = {"many": (4, 1, 9), "one": (1, 1, 1), "none": None}
CASES = [(name, slots) for name in WRITERS for slots in SLOTS] + [(name, "none") for name in LANGUAGE]
EVERY = pytest.mark.parametrize(("name", "slots"), CASES)
READING = [case for case in CASES if case[1] != "none"]


def build(name: str, slots: str) -> Decoder:
    torch.manual_seed(0)
    config = (WRITERS | LANGUAGE)[name]
    return config.build(None if slots == "none" else WIDTH, SYMBOLS).eval()


ATTENDING = [case for case in CASES if any(isinstance(module, Attends) for module in build(*case).modules())]


def memory(slots: str, summary: bool = True) -> Seq | None:
    lengths = SLOTS[slots]
    if lengths is None:
        return None
    found = vectors(lengths)
    return Seq(found.values, found.mask, summary=vectors((1, 1, 1), seed=3).values[:, 0] if summary else None)


def ids(length: int = 12, rows: int = 3, seed: int = 1) -> Tensor:
    return torch.randint(0, SYMBOLS, (rows, length), generator=torch.Generator().manual_seed(seed))


def row_of(seq: Seq | None, row: int) -> Seq | None:
    if seq is None:
        return None
    length = int(seq.lengths[row])
    summary = None if seq.summary is None else seq.summary[row : row + 1]
    return Seq(seq.values[row : row + 1, :length], seq.mask[row : row + 1, :length], summary=summary)


def assert_near(a: Tensor, b: Tensor) -> None:
    assert_close(a, b, atol=1e-5, rtol=1e-5)


def assert_same_state(a: State, b: State) -> None:
    assert a.done == b.done and set(a.moving) == set(b.moving) and set(a.fixed) == set(b.fixed)
    for mine, theirs in ((a.moving, b.moving), (a.fixed, b.fixed)):
        for key in mine:
            assert_close(mine[key], theirs[key], atol=1e-5, rtol=1e-5)


def test_every_registered_decoder_is_tested():
    assert {config.kind for config in WRITERS.values()} == set(DecoderConfig.kinds)


@EVERY
@pytest.mark.parametrize("parts", [(1, 11), (5, 7), (1,) * 12])
def test_advancing_bit_by_bit_equals_advancing_at_once(name, slots, parts):
    decoder, fed = build(name, slots), ids()
    whole, end = decoder.advance(fed, decoder.start(memory(slots), 3))
    state, found = decoder.start(memory(slots), 3), []
    for part in fed.split(list(parts), dim=1):
        states, state = decoder.advance(part, state)
        found.append(states)
    assert_near(torch.cat(found, dim=1), whole)
    assert_same_state(state, end)


@EVERY
def test_what_comes_later_never_changes_what_was_said(name, slots):
    decoder, fed = build(name, slots), ids()
    changed = fed.clone()
    changed[:, 6:] = (changed[:, 6:] + 1) % SYMBOLS
    before, _ = decoder.advance(fed, decoder.start(memory(slots), 3))
    after, _ = decoder.advance(changed, decoder.start(memory(slots), 3))
    assert torch.equal(before[:, :6], after[:, :6])
    assert not torch.equal(before[:, 6:], after[:, 6:])


@EVERY
def test_picking_rows_commutes_with_advancing(name, slots):
    decoder, fed, rows = build(name, slots), ids(), torch.tensor([2, 0, 0])
    _, state = decoder.advance(fed[:, :5], decoder.start(memory(slots), 3))
    late, end = decoder.advance(fed[:, 5:], state)
    picked, picked_end = decoder.advance(fed[rows, 5:], state.pick(rows))
    assert_near(picked, late[rows])
    assert_same_state(picked_end, end.pick(rows))


@EVERY
@pytest.mark.parametrize("summary", [True, False])
def test_padding_and_batch_mates_never_change_an_answer(name, slots, summary):
    """A row alone, and beside others whose memory is longer."""
    decoder, fed, read = build(name, slots), ids(), memory(slots, summary)
    together, _ = decoder.advance(fed, decoder.start(read, 3))
    for row in range(3):
        single, _ = decoder.advance(fed[row : row + 1], decoder.start(row_of(read, row), 1))
        assert_near(single[0], together[row])


@pytest.mark.parametrize(("name", "slots"), READING)
def test_the_memory_is_read(name, slots):
    """Another memory, another answer."""
    decoder, fed, read = build(name, slots), ids(), memory(slots)
    assert read is not None and read.summary is not None
    other = Seq(read.values + 1, read.mask, summary=read.summary + 1)
    before, _ = decoder.advance(fed, decoder.start(read, 3))
    after, _ = decoder.advance(fed, decoder.start(other, 3))
    assert not torch.allclose(before[:, -1], after[:, -1])


def test_who_attends_is_known():
    """A body with a Transformer, to what is written; and to the memory every decoder that is not told not
    to."""
    for name, slots in CASES:
        config = (WRITERS | LANGUAGE)[name]
        crossing = slots != "none" and getattr(config, "attend", "inside") != "none"
        assert ((name, slots) in ATTENDING) == (crossing or isinstance(config.body, Transformer | Stack)), (
            name,
            slots,
        )


@pytest.mark.parametrize(("name", "slots"), ATTENDING)
def test_recording_changes_no_answer_and_weights_add_up(name, slots):
    decoder, fed, read = build(name, slots), ids(), memory(slots)
    plain, _ = decoder.advance(fed, decoder.start(read, 3))
    with record(decoder) as maps:
        recorded, _ = decoder.advance(fed, decoder.start(read, 3))
    assert_near(recorded, plain)
    for tape in maps.values():
        assert tape
        for weights in tape:
            assert_near(weights.sum(dim=-1), torch.ones(weights.shape[:-1]))
    if read is not None:
        crossing = [tape for key, tape in maps.items() if "cross" in key or key == "look"]
        assert crossing
        for tape in crossing:
            assert not any(weights.masked_select(~read.mask[:, None, None]).any() for weights in tape)


@EVERY
def test_every_parameter_gets_a_gradient(name, slots):
    """A key bias is exempt: softmax cancels it. So is what looks, where there is one slot to look at: its
    weight is 1."""
    decoder, fed, read = build(name, slots), ids(), memory(slots)
    states, _ = decoder.advance(fed, decoder.start(read, 3))
    weighted_sum(decoder.answer(states.flatten(0, 1)).scores).backward()
    for parameter, tensor in decoder.named_parameters():
        assert tensor.grad is not None and torch.isfinite(tensor.grad).all(), parameter
        idle = parameter.endswith("key.bias") or (
            slots == "one" and ("cross" in parameter or parameter.startswith("look"))
        )
        assert idle or tensor.grad.abs().max() > 1e-7, parameter


@EVERY
def test_the_formula_counts_every_parameter(name, slots):
    with torch.device("meta"):
        decoder = (WRITERS | LANGUAGE)[name].build(None if slots == "none" else WIDTH, SYMBOLS)
    assert sum(cost.parameters for cost in decoder.costs(20)) == sum(
        tensor.numel() for tensor in decoder.parameters()
    )

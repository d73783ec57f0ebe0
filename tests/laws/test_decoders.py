"""What holds for every decoder, with a memory of many slots, of one, or of none."""

from collections import Counter

import pytest
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.testing import assert_close
from torch.utils._pytree import tree_leaves
from variants import LANGUAGE, SYMBOLS, WIDTH, WRITERS, attending, causal, small, vectors, weighted_sum

from seqlab.decoders import Attending, MemoryAttention
from seqlab.encoders import Conv, Gru, Lstm, Rnn, Stack, Transformer
from seqlab.outputs import GaussianReply
from seqlab.parts import Attends, Decoder, DecoderConfig, Numbers, Reply, State, record
from seqlab.seq import Seq

SLOTS = {"many": (4, 1, 9), "one": (1, 1, 1), "none": None}
NUMBERS: dict[str, DecoderConfig] = {
    "numbers transformer": causal(small(layers=2), variance="learned"),
    "numbers transformer local": causal(small(local=3)),
    "numbers lstm none": attending(Lstm(width=5), attend="none", variance="learned"),
    "numbers gru none every step": attending(Gru(width=5), attend="none", context="every-step"),
    "numbers lstm late": attending(Lstm(width=5, layers=2), output_dropout=0.2, variance="learned"),
    "numbers rnn feeding": attending(Rnn(width=5), feeding=True),
    "numbers gru early": attending(Gru(width=5), attend="early", variance="learned"),
    "numbers conv none": attending(Conv(width=6, layers=2), attend="none"),
}
"""Decoders that write two numbers a step, and are told of one more."""
NUMBERS_ALONE: dict[str, DecoderConfig] = {
    "numbers causal lstm": causal(Lstm(width=5), variance="learned"),
    "numbers causal conv": causal(Conv(width=6, layers=2)),
}
ALL = WRITERS | LANGUAGE | NUMBERS | NUMBERS_ALONE
CASES = [(name, slots) for name in WRITERS | NUMBERS for slots in SLOTS]
CASES += [(name, "none") for name in LANGUAGE | NUMBERS_ALONE]
EVERY = pytest.mark.parametrize(("name", "slots"), CASES)
READING = [case for case in CASES if case[1] != "none"]


def build(name: str, slots: str) -> Decoder:
    torch.manual_seed(0)
    return ALL[name].build(None if slots == "none" else WIDTH, written(name)).eval()


def written(name: str) -> int | Numbers:
    return Numbers(2, beside=1) if name in NUMBERS | NUMBERS_ALONE else SYMBOLS


ATTENDING = [case for case in CASES if any(isinstance(module, Attends) for module in build(*case).modules())]


def memory(slots: str, summary: bool = True) -> Seq | None:
    lengths = SLOTS[slots]
    if lengths is None:
        return None
    found = vectors(lengths)
    return Seq(found.values, found.mask, summary=vectors((1, 1, 1), seed=3).values[:, 0] if summary else None)


def feed(name: str, length: int = 12, rows: int = 3, seed: int = 1) -> Tensor:
    """Ids, or numbers."""
    generator, what = torch.Generator().manual_seed(seed), written(name)
    if isinstance(what, Numbers):
        return torch.randn(rows, length, what.written + what.beside, generator=generator)
    return torch.randint(0, what, (rows, length), generator=generator)


def said(reply: Reply) -> Tensor:
    """All that an answer says."""
    if isinstance(reply, GaussianReply) and reply.log_variance is not None:
        return torch.cat([reply.scores, reply.log_variance], dim=-1)
    return reply.scores


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
    decoder, fed = build(name, slots), feed(name)
    whole, end = decoder.advance(fed, decoder.start(memory(slots), 3))
    state, found = decoder.start(memory(slots), 3), []
    for part in fed.split(list(parts), dim=1):
        states, state = decoder.advance(part, state)
        found.append(states)
    assert_near(torch.cat(found, dim=1), whole)
    assert_same_state(state, end)


@EVERY
def test_what_comes_later_never_changes_what_was_said(name, slots):
    decoder, fed = build(name, slots), feed(name)
    changed = fed.clone()
    changed[:, 6:] = (changed[:, 6:] + 1) % SYMBOLS if fed.dim() == 2 else changed[:, 6:] + 1
    before, _ = decoder.advance(fed, decoder.start(memory(slots), 3))
    after, _ = decoder.advance(changed, decoder.start(memory(slots), 3))
    assert torch.equal(before[:, :6], after[:, :6])
    assert not torch.equal(before[:, 6:], after[:, 6:])


@pytest.mark.parametrize(("name", "slots"), [case for case in CASES if case[0] in NUMBERS | NUMBERS_ALONE])
def test_all_numbers_that_are_fed_are_read(name, slots):
    """The first ones, too, unlike BOS; and what is told beside them."""
    decoder, fed = build(name, slots), feed(name)
    before, _ = decoder.advance(fed, decoder.start(memory(slots), 3))
    for feature in range(fed.shape[2]):
        changed = fed.clone()
        changed[:, 0, feature] += 1
        after, _ = decoder.advance(changed, decoder.start(memory(slots), 3))
        assert not torch.allclose(before[:, 0], after[:, 0])


@EVERY
def test_picking_rows_commutes_with_advancing(name, slots):
    decoder, fed, rows = build(name, slots), feed(name), torch.tensor([2, 0, 0])
    _, state = decoder.advance(fed[:, :5], decoder.start(memory(slots), 3))
    late, end = decoder.advance(fed[:, 5:], state)
    picked, picked_end = decoder.advance(fed[rows, 5:], state.pick(rows))
    assert_near(picked, late[rows])
    assert_same_state(picked_end, end.pick(rows))


@EVERY
@pytest.mark.parametrize("summary", [True, False])
def test_padding_and_batch_mates_never_change_an_answer(name, slots, summary):
    """A row alone, and beside others whose memory is longer."""
    decoder, fed, read = build(name, slots), feed(name), memory(slots, summary)
    together, _ = decoder.advance(fed, decoder.start(read, 3))
    for row in range(3):
        single, _ = decoder.advance(fed[row : row + 1], decoder.start(row_of(read, row), 1))
        assert_near(single[0], together[row])


@pytest.mark.parametrize(("name", "slots"), READING)
def test_the_memory_is_read(name, slots):
    """Another memory, another answer."""
    decoder, fed, read = build(name, slots), feed(name), memory(slots)
    assert read is not None and read.summary is not None
    other = Seq(read.values + 1, read.mask, summary=read.summary + 1)
    before, _ = decoder.advance(fed, decoder.start(read, 3))
    after, _ = decoder.advance(fed, decoder.start(other, 3))
    assert not torch.allclose(before[:, -1], after[:, -1])


def test_who_attends_is_known():
    """A body with a Transformer, to what is written; and to the memory every decoder that is not told not
    to."""
    for name, slots in CASES:
        config = ALL[name]
        crossing = slots != "none" and getattr(config, "attend", "inside") != "none"
        assert ((name, slots) in ATTENDING) == (crossing or isinstance(config.body, Transformer | Stack)), (
            name,
            slots,
        )


@pytest.mark.parametrize(("name", "slots"), ATTENDING)
def test_recording_changes_no_answer_and_weights_add_up(name, slots):
    decoder, fed, read = build(name, slots), feed(name), memory(slots)
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
    decoder, fed, read = build(name, slots), feed(name), memory(slots)
    states, _ = decoder.advance(fed, decoder.start(read, 3))
    weighted_sum(said(decoder.answer(states.flatten(0, 1)))).backward()
    for parameter, tensor in decoder.named_parameters():
        assert tensor.grad is not None and torch.isfinite(tensor.grad).all(), parameter
        idle = parameter.endswith("key.bias") or (
            slots == "one" and ("cross" in parameter or parameter.startswith("look"))
        )
        assert idle or tensor.grad.abs().max() > 1e-7, parameter


@EVERY
def test_the_formula_counts_every_parameter(name, slots):
    with torch.device("meta"):
        decoder = ALL[name].build(None if slots == "none" else WIDTH, written(name))
    assert sum(cost.parameters for cost in decoder.costs(20)) == sum(
        tensor.numel() for tensor in decoder.parameters()
    )


# Steps ------------------------------------------------------------------------------------------------------


class Uses(TorchFunctionMode):
    """How often each parameter is computed with, one after the other: once for each call, and in a recurrent
    layer once for each position of the call."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[int] = Counter()

    def __torch_function__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        recurrent = function.__name__ in ("lstm", "gru", "rnn_tanh", "rnn_relu")
        used = {id(one) for one in tree_leaves((args, kwargs)) if isinstance(one, nn.Parameter)}
        if function.__name__ not in ("__get__", "new_zeros"):  # asks for its shape or kind, not its numbers
            self.counts.update({one: args[0].shape[1] if recurrent else 1 for one in used})
        return result


def steps_taken(decoder: Decoder, fed: Tensor, read: Seq | None) -> dict[str, int]:
    """By the name of a cost, the turns that teacher forcing really takes, for what has parameters or looks at
    the memory."""
    looks = [0]
    for module in decoder.modules():
        if isinstance(module, MemoryAttention):
            module.register_forward_hook(lambda *_: looks.__setitem__(0, looks[0] + 1))
    with Uses() as reading:
        states, _ = decoder.advance(fed, decoder.start(read, len(fed)))
    with Uses() as saying:
        decoder.answer(states.flatten(0, 1)).scores.sum()
    found = {"look": looks[0]}
    for cost in decoder.costs(fed.shape[1]):
        uses = saying if cost.name.split(".")[0] in ("vocabulary", "numbers") else reading
        names = cost.name.replace("norms", "feed_forward_norm")
        own = [uses.counts[id(one)] for name, one in decoder.named_parameters() if name.startswith(names)]
        if own and cost.name != "look":
            found[cost.name] = max(own)
    return found


@EVERY
def test_steps_are_the_turns_that_the_code_takes(name, slots):
    decoder, fed = build(name, slots), feed(name)
    taken = steps_taken(decoder, fed, memory(slots))
    told = {cost.name: cost.sequential_steps for cost in decoder.costs(12)}
    assert {one: told.get(one, 0) for one in taken} == taken
    assert {cost.name for cost in decoder.costs(12) if cost.parameters} <= set(taken)


@pytest.mark.parametrize(
    ("how", "body", "look", "combine"),
    [
        ({"attend": "none"}, 12, None, 1),
        ({"attend": "late"}, 12, 1, 1),
        ({"attend": "late", "feeding": True}, 12, 12, 12),
        ({"attend": "early"}, 11, 11, 12),  # the first word comes from h[0]: SPEC R9
    ],
)
def test_a_loop_takes_a_step_for_each_turn_in_all_its_parts(how, body, look, combine):
    """Counted by hand for 12 ids."""
    costs = Attending(width=6, body=Gru(width=5), **how).build(WIDTH, SYMBOLS).costs(12)
    steps = {cost.name: cost.sequential_steps for cost in costs}
    assert (steps["body.ahead.0"], steps.get("look"), steps["combine"]) == (body, look, combine)
    assert steps["embedding"] == steps["vocabulary"] == steps["bridge"] == 1

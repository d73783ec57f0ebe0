"""How surprised a language model is: −log p, in nats, of every id of a text, given the ids before it.

Text longer than what a model sees at once is scored in one of two ways. A model whose state stays of one size (recurrent,
convolutional) reads on with the state it has. One whose state grows with every id (a Transformer) sees a window that
slides over the text: each id is scored once, with at least context − stride ids before it wherever there are so many.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from seqlab.data.batches import in_order
from seqlab.data.store import Ragged, pad
from seqlab.model import Model, device_of
from seqlab.parts import Batch, Decoder, Reply, meant
from seqlab.seq import Seq

TOKENS = 16_384
"""Padded ids in a batch."""
SCORES = 8_000_000
"""Scores over the vocabulary that are there at once."""
STREAMS = 16
"""Places from which a long text is read at the same time, ..."""
SHORTEST = 4_096
"""... if each has at least so many ids; ..."""
WARM = 512
"""... a reader that begins inside the text first reads so many ids before its place, to have a state."""
CHUNK = 256
"""Ids by which a reader advances at once."""

Nats = Float[np.ndarray, " T"]


def grows(decoder: Decoder) -> bool:
    """Whether the state is larger after two ids than after one, so that text can't be read on for ever."""
    device = device_of(decoder)
    fed = torch.zeros(1, 1, dtype=torch.long, device=device)
    with torch.no_grad():
        _, one = decoder.advance(fed, decoder.start(None, 1))
        _, two = decoder.advance(fed, one)
    return any(one.moving[name].shape != tensor.shape for name, tensor in two.moving.items())


@torch.no_grad()
def stream_nats(model: Model, ids: Int[np.ndarray, " T"], opening: int, context: int, stride: int | None = None) -> Nats:
    """−log p of each id of a running text; `opening` stands before the first. `stride` is half the context unless told."""
    model.eval()
    decoder = decoder_of(model)
    before = np.concatenate([[opening], ids[:-1]]).astype(np.int64)                # fed at the place of each id
    if not grows(decoder):
        return _read_on(decoder, before, ids.astype(np.int64))
    stride = min(stride or max(1, context // 2), context)
    return _slide(decoder, before, ids.astype(np.int64), min(context, len(ids)), stride)


def _read_on(decoder: Decoder, before: Int[np.ndarray, " T"], ids: Int[np.ndarray, " T"]) -> Nats:
    """Readers side by side. Reader r has the ids from r·stretch on; all but the first score them after WARM ids alone."""
    readers = max(1, min(STREAMS, len(ids) // SHORTEST))
    warm = 0 if readers == 1 else WARM
    stretch = -(-(len(ids) - warm) // readers)
    places = stretch * np.arange(readers)[:, None] + np.arange(stretch + warm)     # R L
    places = np.minimum(places, len(ids) - 1)                                      # the last reader may come to the end early
    found: list[np.ndarray] = []
    state = decoder.start(None, readers)
    for start in range(0, stretch + warm, CHUNK):
        some = places[:, start : start + CHUNK]
        states, state = decoder.advance(_on(decoder, before[some]), state)
        nats = nats_of(decoder.answer(states.flatten(0, 1)), _on(decoder, ids[some].ravel()))
        found.append(nats.reshape(some.shape))
    first, *others = np.concatenate(found, axis=1)                                 # each has stretch + warm ids
    return np.concatenate([first, *(other[warm:] for other in others)])[: len(ids)]


def _slide(decoder: Decoder, before: Int[np.ndarray, " T"], ids: Int[np.ndarray, " T"], window: int, stride: int) -> Nats:
    """Windows of equal length; the first scores all its ids, each other one those that no window before it had."""
    starts = [*range(0, len(ids) - window, stride), len(ids) - window]
    nats = np.empty(len(ids))
    done = 0
    for some in np.array_split(np.array(starts), -(-len(starts) * window // TOKENS)):
        places = some[:, None] + np.arange(window)                                 # N W
        states, _ = decoder.advance(_on(decoder, before[places]), decoder.start(None, len(some)))
        for row, start in enumerate(some.tolist()):
            new = slice(done - start, window)
            nats[done : start + window] = nats_of(decoder.answer(states[row, new]), _on(decoder, ids[done : start + window]))
            done = start + window
    return nats


@torch.no_grad()
def row_nats(model: Model, rows: Ragged) -> Nats:
    """−log p of each id of rows that begin with the mark of the start, which has 0; in the order of `rows.values`."""
    model.eval()
    nats = np.zeros(len(rows.values))
    for some in in_order(rows.sizes(), TOKENS):
        written = pad(rows, some)
        assert isinstance(written, Seq)
        batch = Batch({}, torch.from_numpy(some), {"written": written}).to(device_of(model))
        found = nats_of(model(batch).answers["written"], meant(batch.written))
        ends = np.cumsum(written.lengths.numpy() - 1)
        for row, part in zip(some.tolist(), np.split(found, ends[:-1]), strict=True):
            nats[rows.offsets[row] + 1 : rows.offsets[row + 1]] = part
    return nats


def decoder_of(model: Model) -> Decoder:
    assert model.decoder is not None
    return model.decoder


def nats_of(reply: Reply, meant: Int[Tensor, " N"]) -> Float[np.ndarray, " N"]:
    """−log p of each id that was meant, the scores of a part of the positions at a time."""
    assert reply.weight is not None
    rows = max(1, SCORES // len(reply.weight))
    parts = [
        functional.cross_entropy(functional.linear(some, reply.weight, reply.bias).float(), ids, reduction="none")
        for some, ids in zip(reply.vectors.split(rows), meant.split(rows), strict=True)
    ]
    return torch.cat(parts).double().cpu().numpy()


def sums(nats: Nats, offsets: Int[np.ndarray, " O"]) -> Float[np.ndarray, " N"]:
    """The nats of each row, or line; an empty one has 0."""
    total = np.concatenate([[0.0], np.cumsum(nats)])
    each: np.ndarray = total[offsets[1:]] - total[offsets[:-1]]
    return each


def _on(decoder: Decoder, numbers: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(numbers)).to(device_of(decoder))

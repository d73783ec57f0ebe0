"""How likely a model holds what is meant: −log p of each id, in nats. Everything but training asks here.

Text longer than what a language model sees at once is scored in one of two ways. A model whose state stays of
one size (recurrent, convolutional) reads on with the state it has. One whose state grows with every id (a
Transformer) sees a window that slides over the text: each id is scored once, with at least context − stride
ids before it wherever there are so many.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from seqlab.data.batches import in_order
from seqlab.data.store import Ragged, pad_rows
from seqlab.inference import predicted
from seqlab.model import Model, device_of
from seqlab.parts import Batch, Decoder, Output, Reply, meant
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


class TokenScores(NamedTuple):
    """What a model makes of ids that are known."""

    nats: Nats
    """−log p of each; of two directions of reading, the mean of both."""
    hits: Bool[np.ndarray, " T"]
    """Whether it was held likeliest, by both directions together."""


@torch.no_grad()
def judge(reply: Reply, ids: Int[Tensor, " T"]) -> TokenScores:
    """−log p of each id, and whether it is the likeliest."""
    parts = [
        (-_of(logs, some) / reply.directions, logs.argmax(dim=-1) == some)
        for some, logs in _log_probabilities(reply, ids)
    ]
    if not parts:
        return TokenScores(np.zeros(0), np.zeros(0, bool))
    nats, hits = (torch.cat(some) for some in zip(*parts, strict=True))
    return TokenScores(nats.double().cpu().numpy(), hits.cpu().numpy())


@torch.no_grad()
def token_nats(reply: Reply, ids: Int[Tensor, " T"]) -> Nats:
    """−log p of each id."""
    parts = [-_of(logs, some) / reply.directions for some, logs in _log_probabilities(reply, ids)]
    return torch.cat(parts).double().cpu().numpy() if parts else np.zeros(0)


def _log_probabilities(
    reply: Reply, ids: Int[Tensor, " T"]
) -> Iterator[tuple[Int[Tensor, " n"], Float[Tensor, "n V"]]]:
    """Some of the ids at a time, with the log-probabilities of the whole vocabulary there; of two directions,
    their sum."""
    step = max(1, SCORES // (reply.vectors.shape[-1] if reply.weight is None else len(reply.weight)))
    sides = reply.vectors.split(max(1, len(ids)))
    for start in range(0, len(ids), step):
        parts = [replace(reply, vectors=side[start : start + step], directions=1).scores for side in sides]
        yield (
            ids[start : start + step],
            torch.stack([part.float().log_softmax(dim=-1) for part in parts]).sum(dim=0),
        )


def _of(logs: Float[Tensor, "n V"], ids: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
    return logs.gather(1, ids.unsqueeze(1)).squeeze(1)


def grows(decoder: Decoder, memory: Seq | None = None) -> bool:
    """Whether the state is larger after two ids than after one, so that text can't be read on for ever.
    `memory` is what it looks at, of one row or several."""
    device = device_of(decoder)
    rows = 1 if memory is None else memory.rows
    fed = torch.zeros(rows, 1, dtype=torch.long, device=device)
    with torch.no_grad():
        _, one = decoder.advance(fed, decoder.start(memory, rows))
        _, two = decoder.advance(fed, one)
    return any(one.moving[name].shape != tensor.shape for name, tensor in two.moving.items())


# Running text -----------------------------------------------------------------------------------------------


@torch.no_grad()
def stream_nats(
    model: Model, ids: Int[np.ndarray, " T"], opening: int, context: int, stride: int | None = None
) -> Nats:
    """−log p of each id of a running text; `opening` stands before the first. `stride` is half the context
    unless told."""
    model.eval()
    decoder = decoder_of(model)
    before = np.concatenate([[opening], ids[:-1]]).astype(np.int64)  # fed at the place of each id
    if not grows(decoder):
        return _read_on(decoder, before, ids.astype(np.int64))
    stride = min(stride or max(1, context // 2), context)
    return _slide(decoder, before, ids.astype(np.int64), min(context, len(ids)), stride)


def _read_on(decoder: Decoder, before: Int[np.ndarray, " T"], ids: Int[np.ndarray, " T"]) -> Nats:
    """Readers side by side. Reader r has the ids from r·stretch on; all but the first score them after WARM
    ids alone."""
    readers = max(1, min(STREAMS, len(ids) // SHORTEST))
    warm = 0 if readers == 1 else WARM
    stretch = -(-(len(ids) - warm) // readers)
    places = stretch * np.arange(readers)[:, None] + np.arange(stretch + warm)  # R L
    places = np.minimum(places, len(ids) - 1)  # the last reader may come to the end early
    found: list[np.ndarray] = []
    state = decoder.start(None, readers)
    for start in range(0, stretch + warm, CHUNK):
        some = places[:, start : start + CHUNK]
        states, state = decoder.advance(_on(decoder, before[some]), state)
        nats = token_nats(decoder.answer(states.flatten(0, 1)), _on(decoder, ids[some].ravel()))
        found.append(nats.reshape(some.shape))
    first, *others = np.concatenate(found, axis=1)  # each has stretch + warm ids
    return np.concatenate([first, *(other[warm:] for other in others)])[: len(ids)]


def _slide(
    decoder: Decoder, before: Int[np.ndarray, " T"], ids: Int[np.ndarray, " T"], window: int, stride: int
) -> Nats:
    """Windows of equal length; the first scores all its ids, each other one those that no window before it
    had."""
    starts = [*range(0, len(ids) - window, stride), len(ids) - window]
    nats = np.empty(len(ids))
    done = 0
    for some in np.array_split(np.array(starts), -(-len(starts) * window // TOKENS)):
        places = some[:, None] + np.arange(window)  # N W
        states, _ = decoder.advance(_on(decoder, before[places]), decoder.start(None, len(some)))
        for row, start in enumerate(some.tolist()):
            new = slice(done - start, window)
            nats[done : start + window] = token_nats(
                decoder.answer(states[row, new]), _on(decoder, ids[done : start + window])
            )
            done = start + window
    return nats


# Rows -------------------------------------------------------------------------------------------------------


def row_nats(model: Model, rows: Ragged, read: Mapping[str, Ragged] | None = None) -> Nats:
    """−log p of each id of rows that begin with BOS, which has 0; in the order of `rows.values`.

    `read` is what the model reads beside each row, by the names of its inputs.
    """
    nats = np.zeros(len(rows.values))

    def batch_of(some: np.ndarray) -> Batch:
        written = pad_rows(rows, some)
        assert isinstance(written, Seq)
        inputs = {name: pad_rows(one, some) for name, one in (read or {}).items()}
        return Batch(inputs, torch.from_numpy(some), {"written": written})

    for some, (found, lengths) in predicted(model, in_order(rows.sizes(), TOKENS), batch_of, written_nats):
        for row, part in zip(some.tolist(), np.split(found, np.cumsum(lengths)[:-1]), strict=True):
            nats[rows.offsets[row] + 1 : rows.offsets[row + 1]] = part
    return nats


def written_nats(output: Output, batch: Batch) -> tuple[Nats, Int[np.ndarray, " B"]]:
    """−log p of all ids that are written in a batch, row after row, and how many each row has."""
    nats = token_nats(output.answers["written"], meant(batch.written))
    return nats, batch.written.lengths.cpu().numpy() - 1


def log_probabilities(
    decoder: Decoder, memory: Seq | None, written: Seq, given: int = 1
) -> Float[np.ndarray, " B"]:
    """log p of each row of `written` (B U+1 ids, from BOS to EOS), after its first `given` ids, which do not
    count."""
    with torch.no_grad():
        states, _ = decoder.advance(written.values[:, :-1], decoder.start(memory, written.rows))
    asked = written.mask[:, given:]
    nats = token_nats(decoder.answer(states[:, given - 1 :][asked]), written.values[:, given:][asked])
    return -sums(nats, np.concatenate([[0], asked.sum(dim=1).cumsum(dim=0).cpu().numpy()]))


def decoder_of(model: Model) -> Decoder:
    assert model.decoder is not None
    return model.decoder


def sums(nats: Nats, offsets: Int[np.ndarray, " O"]) -> Float[np.ndarray, " N"]:
    """The nats of each row, or line; an empty one has 0."""
    total = np.concatenate([[0.0], np.cumsum(nats)])
    each: np.ndarray = total[offsets[1:]] - total[offsets[:-1]]
    return each


def _on(decoder: Decoder, numbers: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(numbers)).to(device_of(decoder))

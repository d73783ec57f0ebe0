"""How a decoder writes for what is read: batches of like length, searched or sampled side by side."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np
import torch

from seqlab.data.batches import Rows
from seqlab.data.subwords import subwords_of
from seqlab.data.tokenizers import BOS, CLS, EOS, MASK, PAD, SEP, SPECIAL, UNK, Tokenizer
from seqlab.decode import DecodeConfig, Hypothesis, SpecialIds, WordParts, by_length, decode, decode_all
from seqlab.likelihood import decoder_of
from seqlab.model import Model, device_of
from seqlab.parts import Batch

NEVER = (PAD, UNK, SEP, CLS, MASK, BOS)
"""Ids that are never written."""

Lengths = Callable[[torch.Tensor], torch.Tensor]
"""How many ids to write at the most, for sources of so many positions (B)."""


def word_parts_of(tokenizer: Tokenizer, how: DecodeConfig) -> WordParts | None:
    """How ids make up words, where decoding asks for it and they are no words themselves."""
    return _word_parts(tokenizer) if how.no_repeat else None


@functools.lru_cache(maxsize=16)
def _word_parts(tokenizer: Tokenizer) -> WordParts | None:
    found = subwords_of(tokenizer)
    return None if found is None else WordParts(*found)


def search_all(
    model: Model,
    tokenizer: Tokenizer,
    sizes: np.ndarray,
    batch_of: Callable[[Rows], Batch],
    how: DecodeConfig,
    longest: Lengths,
) -> list[list[Hypothesis]]:
    """The n best that decoding finds for each source, in order. `sizes` are what the sources weigh in a
    batch; the tokenizer is that of what is written."""
    model.eval()
    device = device_of(model)
    special = SpecialIds(start=BOS, end=EOS, banned=NEVER, words=word_parts_of(tokenizer, how))

    def one(rows: Sequence[int]) -> list[list[Hypothesis]]:
        batch = batch_of(np.array(rows)).to(device)
        memory = model.encoded(batch)[1]
        opening = special.opening([[]] * len(rows)).to(device)
        read = next(iter(batch.inputs.values()))
        most = longest(read.mask.sum(dim=1))
        return decode(
            decoder_of(model), memory, opening, config=how, special=special, longest=most, numbers=list(rows)
        )

    return decode_all(by_length(sizes.tolist()), one, how.workers if device.type == "cpu" else 1)


def written_tokens(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    """What each id adds to the text. Of several that make up one sign (bytes of a rare one) the last shows
    it."""
    tokens: list[str] = []
    before = ""
    for place, number in enumerate(ids, 1):
        now = tokenizer.decode(ids[:place]).rstrip("\ufffd")  # a sign that is not whole yet
        tokens.append(SPECIAL[number] if number < len(SPECIAL) else now[len(before) :])
        before = now
    return tokens

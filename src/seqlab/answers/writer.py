"""How a language model goes on: from ids that are given to ids that it writes, as long as is asked for.

A model whose state grows (a Transformer) has seen no more than its context in training. When its window is
full, it begins anew with the last three quarters of it; so it also does with a prompt that is longer than the
window.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from seqlab.answers.searching import NEVER, word_parts_of
from seqlab.data.tokenizers import EOS, SPECIAL, Tokenizer
from seqlab.decode import DecodeConfig, Hypothesis, SpecialIds, decode, decode_all, stream
from seqlab.likelihood import decoder_of
from seqlab.model import Model, device_of
from seqlab.seq import Seq

LONGEST = {"character": 400, "word": 100, "subword": 120}
"""Ids that are written unless told."""
ROWS = 64
"""Texts that are continued together."""
STEP = 1_000_003
"""Between the seeds before and after a window is begun anew: far more than there are texts."""


@dataclass(frozen=True)
class Generated:
    """A prompt and how the model goes on."""

    text: str
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"text": self.text} | ({"note": self.note} if self.note else {})

    def shown(self) -> str:
        return self.text

    def columns(self) -> dict[str, Any]:
        return {"generated": self.text}


@dataclass(frozen=True)
class Writer:
    """What writes, and within which bounds."""

    model: Model
    tokenizer: Tokenizer
    start: int
    """What is fed before the first id."""
    endless: bool
    """Running text has no end; a row has."""
    window: int | None
    """Ids that the model can look back on; None: any number."""
    memory: Seq | None = None
    """What it reads beside the prompts, a row for each; None: nothing."""

    def read(self, rows: Sequence[int]) -> Seq | None:
        """What it reads beside these prompts."""
        if self.memory is None:
            return None
        some = torch.tensor(rows, device=self.memory.mask.device)
        return Seq(self.memory.values[some], self.memory.mask[some])

    def special(self, config: DecodeConfig) -> SpecialIds:
        """With repetition ruled out or priced, the end stays possible: at last there may be nothing else to
        write."""
        free = config.no_repeat or config.repetition_penalty > 1
        return SpecialIds(
            start=self.start,
            end=EOS,
            banned=(*NEVER, EOS) if self.endless and not free else NEVER,
            words=word_parts_of(self.tokenizer, config),
        )

    def opened(self, prompt: Sequence[int]) -> list[int]:
        return [
            self.start,
            *(number for number in prompt if number >= len(SPECIAL)),
        ]  # the unknown is passed over

    def seen(self, ids: list[int]) -> list[int]:
        """What of these ids can be fed with room left to go on."""
        return ids if self.window is None or len(ids) < self.window else ids[-max(1, 3 * self.window // 4) :]

    def room(self, ids: list[int], left: int) -> int:
        """How many ids can be written after these before the window is full."""
        return left if self.window is None else max(1, min(left, self.window - len(ids)))

    def write(self, prompts: Sequence[Sequence[int]], config: DecodeConfig, longest: int) -> list[list[int]]:
        """The ids that follow each prompt."""
        histories = [self.opened(prompt) for prompt in prompts]
        begun = [len(history) for history in histories]
        left = {row: longest for row in range(len(prompts))}
        part = 0
        while left:
            found = self._part(
                [histories[row] for row in left],
                list(left.values()),
                config,
                [row + STEP * part for row in left],
            )
            for row, one in zip(list(left), found, strict=True):
                histories[row] += one.ids
                if config.ignore_end and one.finished:
                    histories[row] += (EOS, *one.after)
                left[row] -= len(one.ids)
                if one.finished or left[row] == 0:
                    del left[row]
            part += 1
        return [history[begin:] for history, begin in zip(histories, begun, strict=True)]

    def _part(
        self, histories: list[list[int]], left: list[int], config: DecodeConfig, numbers: list[int]
    ) -> list[Hypothesis]:
        """What is written after each history before its window is full; those with equally much to read go
        together."""
        fed = [self.seen(history) for history in histories]
        room = [self.room(ids, most) for ids, most in zip(fed, left, strict=True)]
        device = device_of(self.model)

        def one(batch: Sequence[int]) -> list[Hypothesis]:
            opening = torch.tensor([fed[place] for place in batch], device=device)
            limits = torch.tensor([room[place] for place in batch], device=device)
            some = [numbers[place] for place in batch]
            special, decoder = self.special(config), decoder_of(self.model)
            memory = self.read([number % STEP for number in some])
            found = decode(
                decoder, memory, opening, config=config, special=special, longest=limits, numbers=some
            )
            return [best[0] for best in found]

        return decode_all(_alike(fed), one, config.workers if device.type == "cpu" else 1)

    def stream(self, prompt: Sequence[int], config: DecodeConfig, longest: int) -> Iterator[int]:
        """The same ids as `write` gives for a prompt alone, each as soon as it is there."""
        history = self.opened(prompt)
        part, left = 0, longest
        device = device_of(self.model)
        while left > 0:
            fed = self.seen(history)
            room, written = self.room(fed, left), 0
            opening = torch.tensor([fed], device=device)
            for number in stream(
                decoder_of(self.model),
                self.memory,
                opening,
                config=config,
                special=self.special(config),
                longest=room,
                number=STEP * part,
            ):
                history.append(number)
                written += 1
                yield number
            if written < room:  # it wrote the end
                return
            left, part = left - written, part + 1


def _alike(fed: Sequence[Sequence[int]]) -> list[list[int]]:
    """Places in batches of equal length."""
    batches: list[list[int]] = []
    for place in sorted(range(len(fed)), key=lambda place: -len(fed[place])):
        if not batches or len(batches[-1]) == ROWS or len(fed[batches[-1][0]]) != len(fed[place]):
            batches.append([])
        batches[-1].append(place)
    return batches


def text_after(tokenizer: Tokenizer, given: Sequence[int], more: Sequence[int]) -> str:
    """The text of ids that follow others: what stands between depends on both. What comes after an end is set
    apart."""
    if EOS in more:
        end = list(more).index(EOS)
        told = tokenizer.decode(more[end + 1 :]).strip()
        return f"{text_after(tokenizer, given, more[:end])} {SPECIAL[EOS]} {told}"
    return tokenizer.decode([*given, *more])[len(tokenizer.decode(given)) :]

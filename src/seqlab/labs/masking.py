"""The lab `masking` (SPEC A3): what breaks without the causal mask. The training loss falls, writing fails.

A language model of letters learns words twice from the same weights: as usual, and with every position seeing
the whole word, the letter that it has to predict included.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from seqlab.answers.exercises import padded
from seqlab.data.builtin import entries
from seqlab.data.read import DataConfig, Table
from seqlab.data.tokenizers import BOS, EOS, SPECIAL
from seqlab.decode import DecodeConfig, sample
from seqlab.decoders import Causal, CausalDecoder
from seqlab.encoders.transformer import Transformer, TransformerEncoder
from seqlab.errors import UserError
from seqlab.fields.text import TEXT
from seqlab.labs.frame import Finding, Work, lab
from seqlab.labs.lab import ResultTable, Spread
from seqlab.labs.loops import Numbers, fit, is_sure, line_of, measured, places_of, smoothed, told_sure
from seqlab.labs.pairs import SPECIAL_IDS
from seqlab.labs.picture import Panel
from seqlab.seq import Seq

STEPS = (400, 4000)
"""Quick and whole."""
LONGEST, WIDTH, AT_ONCE, HELD_OUT, MOST, WRITTEN, POINTS = 14, 64, 64, 500, 20_000, 200, 40
"""Letters of the longest word; width; words of a step, to test on, in all, to write; points of a curve."""
MASKED, OPEN = "with the mask", "without it"


def words_of_files(data: Sequence[str]) -> list[str]:
    """Different words of two to LONGEST letters, shuffled: those of the files, or of a dictionary."""
    rows = Table(data, DataConfig(), (TEXT,), any_ending=True).rows() if data else ()
    texts = (row.cells["text"] for row in rows) if data else (word for word, _ in entries())
    words = (word for text in texts for word in text.split())
    found = sorted({word for word in words if 2 <= len(word) <= LONGEST})
    if len(found) < 4 * HELD_OUT:
        raise UserError(
            what=f"{', '.join(data)}: there are only {len(found):,} different words.",
            why=f"This lab keeps {HELD_OUT} to test on and learns to write such words from the others.",
            fix="Give more text, or leave --data out.",
        )
    return [found[place] for place in np.random.default_rng(0).permutation(len(found))]


class Speller(nn.Module):
    """A causal Transformer over letters, whose mask can be taken away."""

    def __init__(self, symbols: int) -> None:
        super().__init__()
        body = Transformer(layers=2, heads=4, feed_forward=2 * WIDTH, dropout=0.0)
        self.decoder: CausalDecoder = Causal(width=WIDTH, body=body).build(None, symbols)

    def loss(self, words: Seq, masked: bool) -> Tensor:
        """−log p of a letter; each position sees those up to it, or all."""
        body = self.decoder.body
        assert isinstance(body, TransformerEncoder)
        for layer in body.layers:
            layer.attention.form = replace(layer.attention.form, causal=masked)
        fed = Seq(self.decoder.embedding(words.values[:, :-1]), words.mask[:, 1:])
        scores = self.decoder.answer(body(fed).values[fed.mask]).scores
        return nn.functional.cross_entropy(scores, words.values[:, 1:][fed.mask])

    def write(self, count: int, seed: int) -> list[tuple[int, ...]]:
        """Words drawn letter by letter: there is nothing after a letter that could be seen."""
        body = self.decoder.body
        assert isinstance(body, TransformerEncoder)
        for layer in body.layers:
            layer.attention.form = replace(layer.attention.form, causal=True)
        longest, opening = torch.full((count,), 2 * LONGEST), SPECIAL_IDS.opening([[]] * count)
        how = DecodeConfig(sample=True, seed=seed)
        found = sample(
            self.decoder,
            None,
            opening,
            config=how,
            special=SPECIAL_IDS,
            longest=longest,
            numbers=range(count),
        )
        return [best[0].ids for best in found]


def measure(masked: bool, seed: int, steps: int, data: Sequence[str]) -> Numbers:
    """The loss by step, on held-out words with and without the future, and what is written."""
    words = words_of_files(data)
    letters = sorted({letter for word in words for letter in word})
    number = {letter: len(SPECIAL) + place for place, letter in enumerate(letters)}
    ids = [np.array([BOS, *(number[letter] for letter in word), EOS]) for word in words[:MOST]]
    held, learnt = padded(ids[:HELD_OUT]), ids[HELD_OUT:MOST]
    torch.manual_seed(seed)
    model, random = Speller(len(SPECIAL) + len(letters)), np.random.default_rng(seed)

    def loss_of(step: int) -> Tensor:
        return model.loss(padded([learnt[row] for row in random.integers(0, len(learnt), AT_ONCE)]), masked)

    losses = fit(model, steps, loss_of, rate=3e-3)
    with torch.no_grad():
        tested = {name: float(model.loss(held, one)) for name, one in (("whole", False), ("past", True))}
    said = ["".join(letters[one - len(SPECIAL)] for one in some) for some in model.write(WRITTEN, seed)]
    known, triples = set(words), {triple for word in words[HELD_OUT:MOST] for triple in triples_of(word)}
    return {
        "losses": losses,
        "as_trained": tested["past" if masked else "whole"],
        "as_written": tested["past"],
        "real": sum(word in known for word in said) / len(said),
        "said": said[:8],
        "possible": sum(is_possible(word, triples) for word in said) / len(said),
    }


def is_possible(word: str, triples: set[str]) -> bool:
    """Whether all runs of three letters are known; a word without letters is none."""
    return bool(word) and triples_of(word) <= triples


def triples_of(word: str) -> set[str]:
    """Three neighbouring letters each, ^ and $ being the ends."""
    whole = f"^{word}$"
    return {whole[place : place + 3] for place in range(len(whole) - 2)}


def study(work: Work) -> Finding:
    """Both arms with each seed, from the same weights and words."""
    words_of_files(work.data)  # what can't be read is told before anything is trained
    steps, seeds = work.of(*STEPS), range(work.seeds)
    arms = {MASKED: True, OPEN: False}
    cases: dict[str, dict[str, Any]] = {
        f"{'masked' if masked else 'open'}-{seed}": {
            "masked": masked,
            "seed": seed,
            "steps": steps,
            "data": list(work.data),
        }
        for seed in seeds
        for masked in arms.values()
    }
    every = list(measured(work, "masking", cases).values())
    found = {MASKED: every[::2], OPEN: every[1::2]}
    keys = ("as_trained", "as_written", "possible", "real")
    spreads = {
        arm: {key: Spread(tuple(one[key] for one in some)) for key in keys} for arm, some in found.items()
    }
    rows = tuple((arm, *(str(spreads[arm][key]) for key in keys)) for arm in arms)
    said = tuple((arm, " ".join(word or "(nothing)" for word in found[arm][0]["said"])) for arm in arms)
    header = ("trained", "loss as trained", "loss as it writes", "possible words", "real words")
    lines = tuple(
        line_of(arm, places_of(steps, POINTS), [smoothed(one["losses"], POINTS) for one in found[arm]])
        for arm in arms
    )
    return Finding(
        title="Without the causal mask",
        verdict=verdict(spreads),
        tables=(
            ResultTable(
                f"{HELD_OUT} held-out words and {WRITTEN} that were written, {work.seeds} seeds", header, rows
            ),
            ResultTable("The first words that were written", ("trained", "words"), said),
        ),
        panels=(Panel("Training loss", "step", "nats a letter", lines),),
        numbers={arm: {key: one.to_json() for key, one in some.items()} for arm, some in spreads.items()},
        notes=(
            f"A Transformer of two layers, {WIDTH} wide, {steps:,} steps of {AT_ONCE} words. Both arms of"
            " a seed begin with the same weights and read the same words.",
            "Losses are nats a letter, [EOS] included. As trained: each position sees what it saw in"
            " training. As it writes: each position sees those up to it, because what comes next is not"
            " there yet.",
            "A written word is possible when all its runs of three letters occur in training words, and"
            " real when it is a word of the data, learnt or held out. ± is one standard deviation.",
        ),
    )


def verdict(spreads: Mapping[str, Mapping[str, Spread]]) -> str:
    """What the numbers say of the loss and of writing."""
    mask, none = spreads[MASKED], spreads[OPEN]
    loss, words = none["as_trained"].minus(mask["as_trained"]), none["possible"].minus(mask["possible"])
    falls, fails = is_sure(loss) and loss.mean < 0, is_sure(words) and words.mean < 0
    known = {
        (True, True): "Without the mask the loss falls lower and writing fails: the loss no longer says what"
        " the model can do, because each position sees the letter that it has to predict.",
        (True, False): "Without the mask the loss falls lower, but writing does not fail here.",
        (False, True): "Without the mask writing fails, but the loss does not fall lower here.",
        (False, False): "Taking the mask away changes neither the loss nor writing for certain.",
    }
    return "\n".join(
        [
            known[falls, fails],
            f"As trained: {none['as_trained'].mean:.3f} nats a letter without the mask,"
            f" {mask['as_trained'].mean:.3f} with it ({told_sure(loss)}). As it writes:"
            f" {none['as_written'].mean:.3f} and {mask['as_written'].mean:.3f}.",
            f"Of the written words {none['possible'].mean:.0%} are possible without the mask and"
            f" {mask['possible'].mean:.0%} with it ({told_sure(words)}).",
        ]
    )


run = lab("masking", study, seeds=(3, 5), own_data=True)

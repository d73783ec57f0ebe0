"""A table that says for each token what it most often becomes: what a translator has to beat.

The table is learnt by IBM model 1 (Brown et al. 1993): every token of the target comes from one token of the
source, or from nothing, and expectation-maximisation finds which. Where we differ: tokens at similar places
of their sentences are likelier partners, with the fixed strength of fast_align (Dyer et al. 2013), which
helps letters to find their sounds. Reading it, each source token is replaced by its likeliest target token,
or by nothing, in the order of the source. Unknown tokens are copied.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from seqlab.data.tokenizers import WORD
from seqlab.errors import UserError
from seqlab.files import write_json

SENTENCES = 50_000
"""Pairs that are learnt from, at most: a random sample of all."""
CELLS = 8_000_000
"""Combinations of a source and a target token, over all sentence pairs, that are held in memory at most."""
LONGEST = 200
"""Pairs with a longer side are left out."""
ROUNDS = 6
NOTHING = 0.08
"""Probability that a target token comes from no source token, before anything is known of it."""
NEARNESS = 4.0
"""A partner at the other end of the sentence is exp(−4) times as likely as one at the same place."""
FILE = "word_table.json"

SentencePair = tuple[Sequence[str], Sequence[str]]
TokenUnit = Literal["words", "characters", "symbols"]
"""How text is cut: into words and marks, into characters, or at white space."""


@dataclass(frozen=True)
class WordTable:
    """What each token becomes: one other token, or none (None)."""

    table: dict[str, str | None]

    @staticmethod
    def train(pairs: Iterable[SentencePair]) -> WordTable:
        """Learn from pairs of source and target tokens. Without a single usable pair the table is empty and
        copies."""
        some = _sample(pairs)
        if not some:
            return WordTable({})
        cells = TokenPairs.of(some)
        probabilities, _ = learn(cells)
        return WordTable(cells.best(probabilities))

    def translate(self, tokens: Sequence[str]) -> list[str]:
        """What the tokens become, one by one."""
        return [word for token in tokens if (word := self.table.get(token, token)) is not None]

    def save(self, folder: Path) -> None:
        write_json(folder / FILE, self.table)

    @staticmethod
    def load(folder: Path) -> WordTable:
        path = folder / FILE
        try:
            table = json.loads(path.read_text(encoding="utf-8"))
            return WordTable({token: None if word is None else str(word) for token, word in table.items()})
        except (OSError, ValueError, AttributeError) as error:
            raise UserError(
                what=f"{path}: the word table can't be read: {error}.",
                why="It is what the translator of this run is compared with.",
                fix="Copy the whole run folder again, or train it again.",
            ) from None


# Text -------------------------------------------------------------------------------------------------------

_WORD = re.compile(WORD["marks"])
_CLOSES, _OPENS, _BINDS = frozenset(",.;:!?)]}%…"), frozenset("([{"), frozenset("'’-")


def split_tokens(text: str, kind: TokenUnit) -> list[str]:
    """The tokens of a text."""
    if kind == "words":
        return _WORD.findall(text)
    return list(text) if kind == "characters" else text.split()


def join(tokens: Sequence[str], kind: TokenUnit) -> str:
    """The text of tokens. Among words, marks stand as in print: none has a space where it closes, opens or
    binds."""
    if kind != "words":
        return ("" if kind == "characters" else " ").join(tokens)
    text = ""
    for last, token in zip(["", *tokens], tokens, strict=False):
        bound = token in _CLOSES | _BINDS or last in _OPENS | _BINDS or last.endswith(("'", "’"))
        text += token if bound or not text else " " + token
    return text


# Learning ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TokenPairs:
    """Every combination of a source token, or nothing, with a target token of the same pair of sentences.

    The cells of one target token stand together, nothing first. Cells with the same two tokens share one
    entry.
    """

    sources: list[str]
    """Their numbers begin with 1; 0 is nothing."""
    targets: list[str]
    entry: Int[np.ndarray, " X"]
    """Which entry of the table each cell belongs to."""
    weight: Float[np.ndarray, " X"]
    """Probability of the cell before anything is known of the tokens: adds up to 1 over the cells of a target
    token."""
    starts: Int[np.ndarray, " U"]
    """The first cell of each target token."""
    pair: Int[np.ndarray, " E"]
    """Source number · number of targets + target number of each entry, sorted."""
    seen: Int[np.ndarray, " S"]
    """How often each source number occurs."""

    @staticmethod
    def of(pairs: Sequence[SentencePair]) -> TokenPairs:
        sources, source = _numbered([first for first, _ in pairs])
        targets, target = _numbered([second for _, second in pairs])
        heights = np.array([len(first) for first, _ in pairs], np.int64)
        widths = np.array([len(second) for _, second in pairs], np.int64)
        row = np.repeat(np.arange(len(pairs)), widths)  # the pair that each target token is in
        column = np.arange(len(target)) - _before(widths)[row]  # its place there
        sizes = heights[row] + 1
        starts = _before(sizes)
        place = np.arange(int(sizes.sum())) - np.repeat(starts, sizes)  # 0: nothing, i: the i-th source token
        token = np.repeat(_before(heights)[row] - 1, sizes) + place  # which of all source tokens
        number = np.where(place == 0, 0, source[token] + 1)
        pair, entry = np.unique(number * len(targets) + np.repeat(target, sizes), return_inverse=True)
        apart = (place - 0.5) / np.repeat(heights[row], sizes) - np.repeat(
            (column + 0.5) / widths[row], sizes
        )
        near = np.where(place == 0, 0.0, np.exp(-NEARNESS * np.abs(apart)))
        near *= (1 - NOTHING) / np.repeat(np.add.reduceat(near, starts), sizes)
        weight = np.where(place == 0, NOTHING, near)
        return TokenPairs(sources, targets, entry, weight, starts, pair, np.bincount(source + 1))

    @property
    def sizes(self) -> Int[np.ndarray, " U"]:
        return np.diff(self.starts, append=len(self.entry))

    def best(self, probabilities: Float[np.ndarray, " E"]) -> dict[str, str | None]:
        """What each source token becomes: its likeliest target token, or nothing for those that `_silent`
        names."""
        number, target = np.divmod(self.pair, len(self.targets))
        order = np.lexsort([target, -probabilities, number])  # ties go to the token that sorts first
        likeliest = order[np.searchsorted(number[order], np.arange(1, len(self.seen)))]
        silent = self._silent(probabilities, likeliest)
        return {
            token: None if mute else self.targets[target[entry]]
            for token, entry, mute in zip(self.sources, likeliest, silent, strict=True)
        }

    def _silent(
        self, probabilities: Float[np.ndarray, " E"], likeliest: Int[np.ndarray, " R"]
    ) -> Bool[np.ndarray, " R"]:
        """Which source tokens become nothing more often than their likeliest target token.

        Only where sources are longer than targets, as letters are than sounds: the surest ones, until the
        lengths agree.
        """
        seen = self.seen[1:]
        expected, _ = expect(self, probabilities)
        partners = np.bincount(self.pair // len(self.targets), expected)[1:] / seen  # of each occurrence
        gain = (
            1 - partners - partners * probabilities[likeliest]
        )  # probability of nothing over that of the token
        order = np.argsort(-gain, kind="stable")
        fits = np.cumsum(seen[order]) <= seen.sum() - len(self.starts)
        silent = np.zeros(len(seen), bool)
        silent[order] = fits & (gain[order] > 0)
        return silent


def expect(
    cells: TokenPairs, probabilities: Float[np.ndarray, " E"]
) -> tuple[Float[np.ndarray, " E"], float]:
    """How often each entry is used if the table is right, and the log-likelihood of all target tokens."""
    joint = cells.weight * probabilities[cells.entry]
    whole = np.add.reduceat(joint, cells.starts)  # of each target token
    joint /= np.repeat(whole, cells.sizes)
    return np.bincount(cells.entry, joint, len(cells.pair)), float(np.log(whole).sum())


def learn(cells: TokenPairs, rounds: int = ROUNDS) -> tuple[Float[np.ndarray, " E"], list[float]]:
    """p(target token | source token) of each entry, and the log-likelihood before each round, which never
    falls."""
    number = cells.pair // len(cells.targets)
    probabilities = 1 / np.bincount(number)[number]
    history = []
    for _ in range(rounds):
        expected, likelihood = expect(cells, probabilities)
        probabilities = expected / np.bincount(number, expected)[number]
        history.append(likelihood)
    return probabilities, history


def _sample(pairs: Iterable[SentencePair]) -> list[SentencePair]:
    """A random sample of the pairs, always the same, as large as memory allows."""
    draw, seen = random.Random(0), 0
    kept: list[SentencePair] = []
    for pair in pairs:
        if not 0 < len(pair[0]) <= LONGEST or not 0 < len(pair[1]) <= LONGEST:
            continue
        seen += 1
        if len(kept) < SENTENCES:
            kept.append(pair)
        elif (place := draw.randrange(seen)) < SENTENCES:
            kept[place] = pair
    draw.shuffle(kept)
    cells = np.cumsum([(len(first) + 1) * len(second) for first, second in kept])
    return kept[: max(1, int(np.searchsorted(cells, CELLS, side="right")))]


def _numbered(rows: Sequence[Sequence[str]]) -> tuple[list[str], Int[np.ndarray, " T"]]:
    """The different tokens, sorted, and the number of every token in order."""
    flat = [token for row in rows for token in row]
    known = sorted(set(flat))
    numbers = {token: number for number, token in enumerate(known)}
    return known, np.array([numbers[token] for token in flat], np.int64)


def _before(sizes: Int[np.ndarray, " R"]) -> Int[np.ndarray, " R"]:
    """How much stands before each part of these sizes."""
    return np.asarray(np.cumsum(sizes) - sizes)

"""An n-gram language model: what a neural one has to beat. Interpolated modified Kneser-Ney (Chen and Goodman
1999).

    p_n(id | n−1 ids before) = discounted share of this n-gram + left-over weight · p_{n−1}(id | n−2 ids
    before)

and p_0 is uniform over all symbols, so that every id is possible and the probabilities add up to 1. Orders
below the highest count the different ids that an n-gram follows, not how often it stands there.

An n-gram is known by one exact number, nothing is hashed: its place among the sorted (n−1)-grams for all its
ids but the last, times the number of symbols, plus its last id. Looking up a text is one binary search an
order for all positions.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int, Integer
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from seqlab.errors import UserError
from seqlab.files import write_json, written_beside

LARGEST = 3_000_000
"""Ids that are learnt from, at most: the last ones."""
WEIGHTS, FACTS = "ngrams.safetensors", "ngrams.json"


@dataclass(frozen=True)
class _Order:
    """All n-grams of one length."""

    keys: Int[np.ndarray, " G"]
    """The number of each n-gram, sorted."""
    counts: Int[np.ndarray, " G"]
    """How often it stands there, or how many different ids it follows."""
    share: Float[np.ndarray, " G"]
    """What it has of the probability of its context, after the discount."""
    rest: Float[np.ndarray, " P"]
    """For each (n−1)-gram as a context: the weight left over for shorter contexts. 1 for those that nothing
    follows."""

    @staticmethod
    def of(keys: Int[np.ndarray, " G"], counts: Int[np.ndarray, " G"], symbols: int, contexts: int) -> _Order:
        context = keys // symbols
        total = np.bincount(context, counts, contexts)
        discount = np.minimum(_discounts(counts)[np.minimum(counts, 3)], counts)
        taken = np.bincount(context, discount, contexts)
        whole = np.maximum(total, 1)
        return _Order(
            keys, counts, (counts - discount) / whole[context], np.where(total > 0, taken / whole, 1.0)
        )

    def find(self, wanted: Int[np.ndarray, " T"]) -> Int[np.ndarray, " T"]:
        """The place of each n-gram, −1 for those never seen."""
        places = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        return np.where(self.keys[places] == wanted, places, -1)


class NGrams:
    """Counts of the n-grams up to `order` ids long, and the probabilities they give."""

    def __init__(self, symbols: int, orders: list[_Order]) -> None:
        self.symbols, self.orders = symbols, orders

    @property
    def order(self) -> int:
        return len(self.orders)

    @staticmethod
    def train(ids: Integer[np.ndarray, " T"], symbols: int, order: int) -> NGrams:
        """Learn from a text of ids below `symbols`; 5 suits characters, 3 words and subwords."""
        assert len(ids) > 0 and order > 0 and ids.max() < symbols
        ids = ids[-LARGEST:].astype(np.int64)
        tables: list[tuple[np.ndarray, np.ndarray]] = []
        places = np.zeros(
            len(ids) + 1, np.int64
        )  # of the (n−1)-gram before each id; the empty one has the place 0
        for _ in range(min(order, len(ids))):
            below = places[1:]  # of the (n−1)-gram that ends at each id, which each n-gram ends in
            ids = ids[-(len(places) - 1) :]
            keys, first, places, counts = np.unique(
                places[:-1] * symbols + ids, return_index=True, return_inverse=True, return_counts=True
            )
            if tables:
                kinds = np.bincount(
                    below[first], minlength=len(tables[-1][0])
                )  # different ids before each (n−1)-gram
                tables[-1] = (tables[-1][0], kinds)
            tables.append((keys, counts))
        return NGrams._of(tables, symbols)

    @staticmethod
    def _of(tables: list[tuple[np.ndarray, np.ndarray]], symbols: int) -> NGrams:
        contexts = [1, *(len(keys) for keys, _ in tables)]
        return NGrams(
            symbols, [_Order.of(*table, symbols, many) for table, many in zip(tables, contexts, strict=False)]
        )

    def nats(self, ids: Integer[np.ndarray, " T"]) -> Float[np.ndarray, " T"]:
        """−log p of each id after the ids before it; the first ones have shorter contexts."""
        ids = ids.astype(np.int64)
        probability = np.full(len(ids), 1 / self.symbols)
        context = np.zeros(
            len(ids), np.int64
        )  # place of the (n−1)-gram before each id, −1 when unseen or cut off
        for table in self.orders:
            known = context >= 0
            place = np.where(known, table.find(context * self.symbols + ids), -1)
            seen = np.where(place >= 0, table.share[place], 0.0)
            probability = seen + np.where(known, table.rest[context], 1.0) * probability
            context = np.concatenate([[-1], place[:-1]])[: len(ids)]
        return np.asarray(-np.log(probability))

    def guesses(self, ids: Integer[np.ndarray, " T"]) -> Int[np.ndarray, " T"]:
        """The likeliest id at each place after the ids before it; the first ones have shorter contexts."""
        ids = ids.astype(np.int64)
        guessed = np.zeros(len(ids), np.int64)
        context = np.zeros(len(ids), np.int64)
        for table, best in zip(self.orders, self._best, strict=True):
            known = context >= 0
            guessed = np.where(known, best[context], guessed)
            place = np.where(known, table.find(context * self.symbols + ids), -1)
            context = np.concatenate([[-1], place[:-1]])[: len(ids)]
        return guessed

    @cached_property
    def _best(self) -> list[Int[np.ndarray, " P"]]:
        """By order: the likeliest id after each context.

        It is among the ids that were seen after the context, or it is the likeliest after the context without
        its first
        id: all other ids have but a fixed share of what they have there, so no table over the vocabulary is
        needed.
        """
        found: list[np.ndarray] = []
        probabilities = np.full(1, 1 / self.symbols)  # of the n-grams one shorter than those of a table
        guess, most = np.zeros(1, np.int64), probabilities  # of their contexts
        shorter = np.zeros(1, np.int64)  # for each context of a table: its place without the first id
        for number, table in enumerate(self.orders):
            context, last = np.divmod(table.keys, self.symbols)
            if number == 0:
                ends = np.zeros(len(last), np.int64)  # all are the empty n-gram, then one id
            else:
                ends = self.orders[number - 1].find(shorter[context] * self.symbols + last)
            probabilities = table.share + table.rest[context] * probabilities[ends]
            order = np.lexsort((last, -probabilities, context))  # the likeliest of each context first
            places, first = np.unique(context[order], return_index=True)
            below, rest = guess[shorter], table.rest * most[shorter]
            guess, most = below.copy(), rest.copy()
            top = order[first]
            better = probabilities[top] >= rest[places]
            guess[places[better]], most[places[better]] = last[top[better]], probabilities[top[better]]
            found.append(guess)
            shorter = ends  # an n-gram is a context of the next table
        return found

    def save(self, folder: Path) -> None:
        """Keys and counts; all else follows from them."""
        tensors = {f"keys.{n}": table.keys for n, table in enumerate(self.orders)}
        tensors |= {f"counts.{n}": table.counts.astype(np.int32) for n, table in enumerate(self.orders)}
        with written_beside(folder / WEIGHTS) as beside:
            save_file(tensors, beside)
        write_json(folder / FACTS, {"symbols": self.symbols, "order": self.order})

    @staticmethod
    def load(folder: Path) -> NGrams:
        try:
            facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
            saved = load_file(folder / WEIGHTS)
            tables = [(saved[f"keys.{n}"], saved[f"counts.{n}"]) for n in range(facts["order"])]
            return NGrams._of(tables, facts["symbols"])
        except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
            raise UserError(
                what=f"{folder}: the n-gram model can't be read: {error}.",
                why="It is what the language model of this run is compared with.",
                fix="Copy the whole run folder again, or train it again.",
            ) from None


def _discounts(counts: Int[np.ndarray, " G"]) -> Float[np.ndarray, " 4"]:
    """What n-grams seen 0, 1, 2 and at least 3 times give away, from how many are seen 1, 2, 3 and 4 times.

    Chen and Goodman 1999, equation 17. Where data are too few or too odd for the formula, all give away ¾.
    """
    seen = np.bincount(counts, minlength=5)[1:5].astype(np.float64)
    if seen.min() > 0:
        steady = seen[0] / (seen[0] + 2 * seen[1])
        times = np.arange(1, 4)
        amounts = times - (times + 1) * steady * seen[1:] / seen[:-1]
        if amounts.min() > 0:
            return np.array([0.0, *amounts])
    return np.array([0.0, 0.75, 0.75, 0.75])

"""A text written for what is read: from one language to another, from spelling to sound, from question to
answer."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool

from seqlab.answers.answer import Answer, Exercise, Extent, Findings, Judged, Known, near
from seqlab.answers.searching import search_all, written_tokens
from seqlab.data.batches import FIXED, Plan, Rows, Seeds, in_order
from seqlab.data.store import Ragged, Store, offsets_of, pad_rows
from seqlab.data.tokenizers import BOS, EOS, PAD
from seqlab.decode import DecodeConfig, Hypothesis
from seqlab.fields.field import Given
from seqlab.fields.source import SourceField
from seqlab.fields.target import TargetField
from seqlab.inference import by_row, predicted
from seqlab.likelihood import sums, written_nats
from seqlab.metrics import Metric
from seqlab.model import Model
from seqlab.objectives import CrossEntropy
from seqlab.parts import Batch, Facts
from seqlab.report.alignment import align, looks
from seqlab.report.attention import Explanation
from seqlab.report.evaluate import Scores, score_by_length
from seqlab.report.words import Example
from seqlab.seq import Nested, Seq
from seqlab.text_metrics import Chrf

INFERENCE_TOKENS = 8192
"""Padded tokens in a batch when nothing has to be kept for a backward pass."""
WATCHED = 1000
"""Validation items that are written for while training, at most; the loss is over all of them."""
WORST = 12


@dataclass(frozen=True)
class Written:
    """What a model wrote for one input."""

    text: str
    score: float
    """log p divided by the length, as decode.length_penalty has it: 0 is certain."""
    others: tuple[Written, ...] = ()
    """The next best, where decode.n_best asks for them."""

    def to_json(self) -> dict[str, Any]:
        tree: dict[str, Any] = {"text": self.text, "score": round(self.score, 6)}
        return tree | {"others": [other.to_json() for other in self.others]} if self.others else tree

    def shown(self) -> str:
        return "\t".join([self.text, *(other.text for other in self.others)])

    def columns(self) -> dict[str, Any]:
        columns: dict[str, Any] = {"translation": self.text, "translation_score": round(self.score, 6)}
        return columns | {f"translation_{place}": other.text for place, other in enumerate(self.others, 2)}


@dataclass(frozen=True)
class Items:
    """What is scored: different sources, each with all targets that its rows have."""

    store: Store
    rows: Rows
    """Of each item the row of the store where its source stands first."""
    sources: list[str]
    references: list[list[str]]

    @staticmethod
    def of(store: Store, pairs: Iterable[tuple[str, str]]) -> Items:
        """Pairs whose sources are equal, but for white space around them, are one item."""
        found: dict[str, tuple[int, str, list[str]]] = {}
        for row, (source, target) in enumerate(pairs):
            found.setdefault(source.strip(), (row, source, []))[2].append(target)
        rows, sources, references = zip(*found.values(), strict=True) if found else ((), (), ())
        return Items(store, np.array(rows, np.int64), list(sources), list(references))

    def some(self, most: int) -> Items:
        """At most so many of them, evenly spread."""
        places = np.unique(
            np.linspace(0, len(self.rows) - 1, min(most, len(self.rows))).round().astype(np.int64)
        )
        chosen = places.tolist()
        references = [self.references[one] for one in chosen]
        return Items(self.store, self.rows[places], [self.sources[one] for one in chosen], references)


def written_batch(fields: Mapping[str, Ragged], names: Sequence[str], rows: Rows) -> Batch:
    """These rows as padded tensors; without "written" there is nothing to compare with."""
    inputs = {name: pad_rows(fields[name], rows) for name in names if name in fields}
    written = pad_rows(fields["written"], rows) if "written" in fields else None
    assert not isinstance(written, Nested)
    return Batch(inputs, torch.from_numpy(rows), {} if written is None else {"written": written})


class PairExercise(Exercise):
    """Sources and targets. Some sources, others in every epoch, lose the full stop at their end: many people
    type none."""

    def __init__(self, store: Store, names: Sequence[str], open_ends: float, full_stop: int | None) -> None:
        self.store, self.names, self.open_ends, self.full_stop = store, names, open_ends, full_stop

    def plan(self, budget: int, seed: int) -> Plan:
        fields = self.store.fields
        return Plan(fields["written"].sizes(), budget, seed, beside=self.store.sizes())

    def batch(self, rows: Rows, seeds: Seeds = FIXED) -> Batch:
        batch = written_batch(self.store.fields, self.names, rows)
        if not self.open_ends or self.full_stop is None:
            return batch
        chosen = drawn(*seeds, self.store.rows)[rows] < self.open_ends
        read = batch.inputs["text"]
        assert isinstance(read, Seq)
        return replace(batch, inputs={"text": without_stop(read, self.full_stop, torch.from_numpy(chosen))})


class WrittenAnswer(Answer):
    """A text, written by a decoder that reads what an input and an encoder made of the source."""

    def __init__(
        self,
        known: Known,
        source: SourceField,
        target: TargetField,
        metrics: list[Metric],
        open_ends: float = 0.0,
    ) -> None:
        super().__init__(known)
        self.source, self.target, self._metrics, self.open_ends = source, target, metrics, open_ends

    @property
    def metrics(self) -> list[Metric]:
        return self._metrics

    @property
    def parts(self) -> Facts:
        return Facts(symbols=self.facts.symbols, joint=self.target.facts.joint)

    @property
    def example(self) -> str:
        return self.source.facts.example

    # Learning and scoring -----------------------------------------------------------------------------------

    def exercise(self, store: Store) -> PairExercise:
        return PairExercise(store, self.source.reading.names, self.open_ends, self.source.full_stop)

    def part(self, store: Store, extent: Extent) -> Items:
        sources = [str(text) for text in self.source.texts(store)]
        items = Items.of(store, zip(sources, self.target.texts(store), strict=True))
        return items.some(WATCHED) if extent == "watched" else items

    def judge(self, model: Model, part: Items, extent: Extent, how: DecodeConfig) -> Judged:
        if extent == "watched":  # greedily, whatever decode says: it is the quickest
            loss, how = self.loss(model, part.store), DecodeConfig()
        else:
            loss = float("nan")
        found = self._search(model, self._taken(part), how, warn=extent == "whole")
        return Judged([self.target.tokenizer.decode(best[0].ids) for best in found], part.references, loss)

    def _taken(self, items: Items) -> Store:
        """The sources of items."""
        fields = items.store.fields
        return Store(
            {name: fields[name].take(items.rows) for name in self.source.reading.names if name in fields}, {}
        )

    def loss(self, model: Model, store: Store) -> float:
        """−log p of the targets, for each id that is written, [EOS] included."""
        fields, cross_entropy = store.fields, CrossEntropy("written")
        groups = in_order(np.maximum(store.sizes(), fields["written"].sizes()), INFERENCE_TOKENS)
        batch_of = partial(written_batch, fields, self.source.reading.names)
        terms = [term for _, term in predicted(model, groups, batch_of, cross_entropy)]
        return sum(float(term.total) for term in terms) / sum(term.count for term in terms)

    def _search(
        self, model: Model, store: Store, how: DecodeConfig, warn: bool = False
    ) -> list[list[Hypothesis]]:
        if warn:
            self._warn_of_long(store)
        names = self.source.reading.names
        ratio = replace(how, longest_factor=how.longest_factor * max(1.0, self.target.facts.ratio))
        return search_all(
            model, store.sizes(), partial(written_batch, store.fields, names), how, ratio.limits
        )

    def _warn_of_long(self, store: Store) -> None:
        """Sources longer than any that was trained on are written for all the same."""
        sizes, known = store.sizes() - 1, self.target.facts.longest["text"]
        if many := int((sizes > known).sum()):
            print(
                f"Warning: {many:,} of {len(sizes):,} texts are longer than any in the training data"
                f" ({int(sizes.max()):,} pieces against {known:,}). Translations of such texts are often"
                " poor: give their sentences one by one.",
                file=sys.stderr,
            )

    def sample(self, model: Model, part: Items, judged: Judged, how: DecodeConfig) -> str:
        """A short source of those that were judged, always the same, and what was written for it."""
        sources = part.sources
        shown = int(np.argmin([abs(len(source) - 40) for source in sources]))
        return f"{sources[shown].strip()} => {judged.said[shown]}"

    # Asking -------------------------------------------------------------------------------------------------

    def predict(self, model: Model, given: Sequence[Given], how: DecodeConfig) -> list[Written]:
        made: list[Written] = []
        decode = self.target.tokenizer.decode
        for found in self._search(model, self.read(given), how, warn=True) if given else ():
            best, *others = [Written(decode(one.ids), one.score) for one in found]
            made.append(replace(best, others=tuple(others)))
        return made

    def score_pairs(self, model: Model, pairs: Sequence[tuple[str, str]]) -> list[float]:
        if not pairs:
            return []
        read = self.read([one for one, _ in pairs])
        fields = {**read.fields, "written": self.target.ids([two for _, two in pairs])}
        groups = in_order(np.maximum(read.sizes(), fields["written"].sizes()), INFERENCE_TOKENS)
        found = predicted(
            model, groups, partial(written_batch, fields, self.source.reading.names), written_nats
        )
        summed = ((rows, sums(nats, offsets_of(lengths))) for rows, (nats, lengths) in found)
        return [-float(nats) for nats in by_row(summed)]

    def explain(
        self, model: Model, given: Given, how: DecodeConfig, target: str | None = None
    ) -> Explanation:
        """Where the model looked while it wrote its translation, or `target` instead (also the second of a
        pair)."""
        source, target = given if isinstance(given, tuple) else (given, target)
        read = self.read([source])
        if target is None:
            [[best, *_]] = self._search(model, read, how)
            ids = [*best.ids, EOS] if best.finished else list(best.ids)
        else:
            ids = self.target.ids([target]).row(0)[1:]
        fields = {**read.fields, "written": Ragged.of([[BOS, *ids]], np.int64)}
        batch = written_batch(fields, self.source.reading.names, np.array([0]))
        tokenizer = self.target.tokenizer
        return align(
            model,
            batch,
            text=source,
            said=tokenizer.decode(ids),
            read=self.source.pieces(source)[0],
            written=written_tokens(tokenizer, ids),
        )

    # For the report -----------------------------------------------------------------------------------------

    def findings(self, model: Model, store: Store, part: Items, judged: Judged) -> Findings:
        lengths = np.array([len(source.split()) for source in part.sources])
        main = self.metrics[0]
        buckets = score_by_length(main, judged.said, part.references, lengths)
        by_length = {
            _words(one.shortest, one.longest): Scores(metrics={main.name: one.score}, examples=one.examples)
            for one in buckets
        }
        maps = []
        if looks(model):
            sizes = np.array([len(source) for source in part.sources])
            maps = [self.explain(model, part.sources[row], self.known.decode) for row in near(sizes).tolist()]
        return Findings(
            self._worst(part, judged.said), maps, by_length=by_length if len(buckets) > 1 else None
        )

    def _worst(self, items: Items, said: Sequence[str]) -> list[Example]:
        """The translations that have least in common with their references, by chrF of each sentence."""
        metric = Chrf()
        likeness = metric.score(metric.count(said, items.references))
        return [
            Example(
                text=items.sources[row],
                meant=items.references[row][0],
                said=said[row],
                score=float(likeness[row]),
            )
            for row in np.argsort(likeness, kind="stable")[:WORST].tolist()
            if said[row] not in items.references[row]
        ]


@lru_cache(maxsize=2)
def drawn(seed: int, epoch: int, rows: int) -> np.ndarray:
    """A number from 0 to 1 for each row, which follows from seed and epoch alone."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, epoch, rows]))).random(rows)


def without_stop(read: Seq, stop: int, chosen: Bool[torch.Tensor, " B"]) -> Seq:
    """The chosen rows without the full stop before their [EOS], where there is one and something before
    it."""
    end = read.lengths - 1
    before = (end - 1).clamp(min=0)
    rows = torch.nonzero(
        chosen & (end > 1) & (read.values[torch.arange(read.rows), before] == stop)
    ).flatten()
    values, mask = read.values.clone(), read.mask.clone()
    values[rows, before[rows]], values[rows, end[rows]], mask[rows, end[rows]] = EOS, PAD, False
    return Seq(values, mask)


def _words(shortest: int, longest: int) -> str:
    return (
        f"{shortest} to {longest} words"
        if shortest < longest
        else f"{shortest} word{'' if shortest == 1 else 's'}"
    )

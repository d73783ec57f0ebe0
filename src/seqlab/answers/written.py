"""A text written for what is read: from one language to another, from spelling to sound, from question to
answer."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterable, Mapping, Sequence
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
from seqlab.data.tokenizers import BOS, EOS, PAD, SPECIAL
from seqlab.decode import DecodeConfig, Hypothesis
from seqlab.fields.field import Given, ReadField
from seqlab.fields.target import TargetField
from seqlab.inference import by_row, predicted
from seqlab.likelihood import sums, written_nats
from seqlab.metrics import Metric
from seqlab.model import Model
from seqlab.objectives import CrossEntropy
from seqlab.parts import Batch, Facts
from seqlab.report.alignment import align, looks
from seqlab.report.evaluate import Scores, score_by_length
from seqlab.report.explanation import Explanation
from seqlab.report.words import Example
from seqlab.seq import Seq
from seqlab.text_metrics import Chrf

INFERENCE_TOKENS = 8192
"""Padded tokens in a batch when nothing has to be kept for a backward pass."""
WATCHED = 1000
"""Validation items that are written for while training, at most; the loss is over all of them."""
WORST = 12
SHOWN = 3
"""References of one source that are shown."""


@dataclass(frozen=True)
class Written:
    """What a model wrote for one input."""

    text: str
    score: float
    """log p divided by the length, as decode.length_penalty has it: 0 is certain."""
    others: tuple[Written, ...] = ()
    """The next best, where decode.n_best asks for them."""
    called: str = "translation"
    """The column of a table that holds it."""
    after: str | None = None
    """What would come after the end; None: decode.ignore_end does not ask for it."""

    def to_json(self) -> dict[str, Any]:
        tree: dict[str, Any] = {"text": self.text, "score": round(self.score, 6)}
        tree |= {} if self.after is None else {"after_end": self.after}
        return tree | {"others": [other.to_json() for other in self.others]} if self.others else tree

    def shown(self) -> str:
        return "\t".join(one.whole() for one in (self, *self.others))

    def whole(self) -> str:
        """The text and, behind [EOS], what would come after it."""
        return f"{self.text} {SPECIAL[EOS]} {self.after}" if self.after else self.text

    def columns(self) -> dict[str, Any]:
        name = self.called
        columns: dict[str, Any] = {name: self.text, f"{name}_score": round(self.score, 6)}
        columns |= {} if self.after is None else {f"{name}_after_end": self.after}
        return columns | {f"{name}_{place}": other.text for place, other in enumerate(self.others, 2)}


@dataclass(frozen=True)
class Items:
    """What is scored: different sources, each with all targets that its rows have."""

    store: Store
    rows: Rows
    """Of each item the row of the store where its source stands first."""
    sources: list[Given]
    references: list[list[str]]

    @staticmethod
    def of(
        store: Store, sources: Iterable[tuple[Hashable, Given]], targets: Iterable[Sequence[str]]
    ) -> Items:
        """Sources with equal keys are one item, with the targets of all of them."""
        found: dict[Hashable, tuple[int, Given, list[str]]] = {}
        for row, ((key, source), references) in enumerate(zip(sources, targets, strict=True)):
            found.setdefault(key, (row, source, []))[2].extend(references)
        rows, firsts, references = zip(*found.values(), strict=True) if found else ((), (), ())
        return Items(store, np.array(rows, np.int64), list(firsts), list(references))

    def some(self, most: int) -> Items:
        """At most so many of them, evenly spread."""
        places = np.unique(
            np.linspace(0, len(self.rows) - 1, min(most, len(self.rows))).round().astype(np.int64)
        )
        chosen = places.tolist()
        references = [self.references[one] for one in chosen]
        return Items(self.store, self.rows[places], [self.sources[one] for one in chosen], references)


class Pairs:
    """Each source with each of its targets: what is learnt from, and what a loss is over."""

    def __init__(self, fields: Mapping[str, Ragged], names: Sequence[str]) -> None:
        """`names` are the fields that a model reads. "written" is nested where a source may have several."""
        written = fields["written"]
        self.read = {name: fields[name] for name in names if name in fields}
        self.written = Ragged(written.values, written.offsets)
        counts = np.ones(written.rows, np.int64) if written.outer is None else np.diff(written.outer)
        self.owners = np.repeat(np.arange(written.rows), counts)
        """Of each pair the row of its source."""
        self.sizes = next(iter(self.read.values())).sizes()[self.owners]
        """What the source of each pair weighs in a batch."""

    def batch(self, pairs: Rows) -> Batch:
        """These pairs as padded tensors."""
        inputs = {name: pad_rows(ragged, self.owners[pairs]) for name, ragged in self.read.items()}
        written = pad_rows(self.written, pairs)
        assert isinstance(written, Seq)
        return Batch(inputs, torch.from_numpy(pairs), {"written": written})

    def in_order(self) -> list[Rows]:
        """Batches of pairs of like length."""
        return in_order(np.maximum(self.sizes, self.written.sizes()), INFERENCE_TOKENS)


def read_batch(fields: Mapping[str, Ragged], names: Sequence[str], rows: Rows) -> Batch:
    """The sources of these rows, with nothing to compare with."""
    inputs = {name: pad_rows(fields[name], rows) for name in names if name in fields}
    return Batch(inputs, torch.from_numpy(rows))


class PairExercise(Exercise):
    """Sources and targets. Some sources, others in every epoch, lose the full stop at their end: many people
    type none."""

    def __init__(self, store: Store, source: ReadField, open_ends: float) -> None:
        self.source, self.open_ends, self.full_stop = source, open_ends, source.full_stop
        self.pairs = Pairs(store.fields, source.names)

    def plan(self, budget: int, seed: int) -> Plan:
        return Plan(self.pairs.written.sizes(), budget, seed, beside=self.pairs.sizes)

    def batch(self, rows: Rows, seeds: Seeds = FIXED) -> Batch:
        batch, stop = self.pairs.batch(rows), self.full_stop
        inputs = self.source.varied(batch.inputs, rows, seeds)
        if self.open_ends and stop is not None:
            chosen = drawn(*seeds, len(self.pairs.owners))[rows] < self.open_ends
            read = inputs["text"]
            assert isinstance(read, Seq)
            inputs = {"text": without_stop(read, stop, torch.from_numpy(chosen))}
        return replace(batch, inputs=inputs)


class WrittenAnswer(Answer):
    """A text, written by a decoder that reads what an input and an encoder made of the source."""

    def __init__(
        self,
        known: Known,
        source: ReadField,
        target: TargetField,
        metrics: list[Metric],
        open_ends: float = 0.0,
        called: str = "translation",
    ) -> None:
        """`called` is the column of a table that holds what was written."""
        super().__init__(known)
        self.source, self.target, self._metrics, self.open_ends = source, target, metrics, open_ends
        self.called = called

    @property
    def metrics(self) -> list[Metric]:
        return self._metrics

    @property
    def parts(self) -> Facts:
        joint = self.target.facts.joint
        return Facts(symbols=self.facts.symbols, joint=joint, features=self.source.features)

    @property
    def example(self) -> str:
        return self.source.example

    # Learning and scoring -----------------------------------------------------------------------------------

    def exercise(self, store: Store) -> PairExercise:
        return PairExercise(store, self.source, self.open_ends)

    def part(self, store: Store, extent: Extent) -> Items:
        field, sources = self.source, self.source.texts(store)
        keyed = ((field.mark(field.cells_of(source)), source) for source in sources)
        items = Items.of(store, keyed, self.target.texts(store))
        return items.some(WATCHED) if extent == "watched" else items

    def judge(self, model: Model, part: Items, extent: Extent, how: DecodeConfig) -> Judged:
        if extent == "watched":  # greedily, whatever decode says: it is the quickest
            loss, how = self.loss(model, part.store), DecodeConfig()
        else:
            loss, how = float("nan"), replace(how, ignore_end=0)
        found = self._search(model, self._taken(part), how, warn=extent == "whole")
        return Judged([self.target.tokenizer.decode(best[0].ids) for best in found], part.references, loss)

    def _taken(self, items: Items) -> Store:
        """The sources of items."""
        fields = items.store.fields
        return Store(
            {name: fields[name].take(items.rows) for name in self.source.names if name in fields}, {}
        )

    def loss(self, model: Model, store: Store) -> float:
        """−log p of the targets, for each id that is written, [EOS] included."""
        pairs = Pairs(store.fields, self.source.names)
        terms = [term for _, term in predicted(model, pairs.in_order(), pairs.batch, CrossEntropy("written"))]
        return sum(float(term.total) for term in terms) / sum(term.count for term in terms)

    def _search(
        self, model: Model, store: Store, how: DecodeConfig, warn: bool = False
    ) -> list[list[Hypothesis]]:
        if warn and self.source.lengths_tell:
            self._warn_of_long(store)
        batch_of = partial(read_batch, store.fields, self.source.names)
        longest = partial(self._limits, how)
        return search_all(model, self.target.tokenizer, store.sizes(), batch_of, how, longest)

    def _limits(self, how: DecodeConfig, sources: torch.Tensor) -> torch.Tensor:
        """How many ids to write at the most, for sources of so many positions (B)."""
        facts = self.target.facts
        if self.source.lengths_tell or how.longest is not None:
            return replace(how, longest_factor=how.longest_factor * max(1.0, facts.ratio)).limits(sources)
        return torch.full_like(sources, 2 * facts.longest.get("written", 0) + how.longest_extra)

    def _warn_of_long(self, store: Store) -> None:
        """Sources longer than any that was trained on are written for all the same."""
        text = "text" in store.fields
        sizes, known = store.sizes() - text, self.target.facts.longest["text"]  # a text without its [EOS]
        if many := int((sizes > known).sum()):
            print(
                f"Warning: {many:,} of {len(sizes):,} {self.source.noun}s are longer than any in the training"
                f" data ({int(sizes.max()):,} {'pieces' if text else 'positions'} against {known:,}). What is"
                " written for such ones is often poor: give their parts one by one.",
                file=sys.stderr,
            )

    def sample(self, model: Model, part: Items, judged: Judged, how: DecodeConfig) -> str:
        """A short source of those that were judged, always the same, and what was written for it."""
        sources = [self.source.brief(source) for source in part.sources]
        shown = int(np.argmin([abs(len(source) - 40) for source in sources]))
        return f"{sources[shown].strip()} => {judged.said[shown]}"

    # Asking -------------------------------------------------------------------------------------------------

    def predict(self, model: Model, given: Sequence[Given], how: DecodeConfig) -> list[Written]:
        made: list[Written] = []
        tokenizer = self.target.tokenizer
        for found in self._search(model, self.read(given), how, warn=True) if given else ():
            best, *others = [
                Written(
                    tokenizer.decode(one.ids),
                    one.score,
                    called=self.called,
                    after=tokenizer.decode(one.after).strip() if how.ignore_end else None,
                )
                for one in found
            ]
            made.append(replace(best, others=tuple(others)))
        return made

    def score_pairs(self, model: Model, pairs: Sequence[tuple[str, str]]) -> list[float]:
        if not pairs:
            return []
        read = self.read([one for one, _ in pairs])
        fields = {**read.fields, "written": self.target.ids([two for _, two in pairs])}
        made = Pairs(fields, self.source.names)
        found = predicted(model, made.in_order(), made.batch, written_nats)
        summed = ((rows, sums(nats, offsets_of(lengths))) for rows, (nats, lengths) in found)
        return [-float(nats) for nats in by_row(summed)]

    def explain(
        self, model: Model, given: Given, how: DecodeConfig, target: str | None = None
    ) -> Explanation:
        """Where the model looked while it wrote its translation, or `target` instead (also the second of a
        pair)."""
        pair = isinstance(given, tuple) and isinstance(given[1], str)
        source, target = given if pair else (given, target)
        read = self.read([source])
        if target is None:
            [[best, *_]] = self._search(model, read, how)
            ids = [*best.ids, EOS] if best.finished else list(best.ids)
        else:
            ids = self.target.ids([target]).row(0)[1:]
        fields = {**read.fields, "written": Ragged.of([[BOS, *ids]], np.int64)}
        batch = Pairs(fields, self.source.names).batch(np.array([0]))
        tokenizer, pieces = self.target.tokenizer, self.source.pieces(source)
        return align(
            model,
            batch,
            text=self.source.shown(source),
            said=tokenizer.decode(ids),
            read=pieces[0] if pieces else (),
            written=written_tokens(tokenizer, ids),
            picture=self.source.picture(source),
        )

    # For the report -----------------------------------------------------------------------------------------

    def findings(self, model: Model, store: Store, part: Items, judged: Judged) -> Findings:
        main, buckets = self.metrics[0], []
        if self.source.lengths_tell:
            lengths = np.array([len(source.split()) for source in part.sources])
            buckets = score_by_length(main, judged.said, part.references, lengths)
        by_length = {
            _words(one.shortest, one.longest): Scores(metrics={main.name: one.score}, examples=one.examples)
            for one in buckets
        }
        maps = []
        if looks(model):
            sizes = np.array([len(self.source.brief(source)) for source in part.sources])
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
                text=self.source.brief(items.sources[row]),
                picture=self.source.picture(items.sources[row]),
                meant=" / ".join(items.references[row][:SHOWN]),
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

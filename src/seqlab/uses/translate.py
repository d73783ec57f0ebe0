"""What a run of `translate` can do: write a text for a text, score itself, show what it looked at while it wrote."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from seqlab.data.batches import in_order
from seqlab.data.read import Role, Table
from seqlab.data.store import Ragged, offsets_of
from seqlab.data.text import BOS, EOS, SPECIAL, Tokenizer
from seqlab.decode import DecodeConfig, Found
from seqlab.errors import UserError
from seqlab.folder import BASELINE
from seqlab.inference import by_row, predicted
from seqlab.likelihood import sums, written_nats
from seqlab.report.alignment import align, looks
from seqlab.report.attention import Explanation
from seqlab.report.evaluate import Scores, evaluate_texts, score_by_length
from seqlab.report.page import Example
from seqlab.settings import Settings
from seqlab.tasks import translate
from seqlab.tasks.task import Files, Prepared, TaskFacts
from seqlab.tasks.translate import SOURCE, TARGET, Items, Tongues, Translate, TranslateFacts, TranslatePrepared
from seqlab.tasks.word_table import FILE, WordTable
from seqlab.text_metrics import Chrf
from seqlab.uses.run import Findings, Run, Text, one_or_many


@dataclass(frozen=True)
class Translation:
    """What a model wrote for one text."""

    text: str
    score: float
    """log p divided by the length, as decode.length_penalty has it: 0 is certain."""
    others: tuple[Translation, ...] = ()
    """The next best, where decode.n_best asks for them."""

    def to_json(self) -> dict[str, Any]:
        tree: dict[str, Any] = {"text": self.text, "score": round(self.score, 6)}
        return tree | {"others": [other.to_json() for other in self.others]} if self.others else tree

    def shown(self) -> str:
        return "\t".join([self.text, *(other.text for other in self.others)])

    def columns(self) -> dict[str, Any]:
        columns: dict[str, Any] = {"translation": self.text, "translation_score": round(self.score, 6)}
        return columns | {f"translation_{place}": other.text for place, other in enumerate(self.others, 2)}


class TranslateRun(Run):
    """A trained translator."""

    facts: TranslateFacts

    def __init__(self, folder: Path, settings: Settings, facts: TaskFacts) -> None:
        super().__init__(folder, settings, facts)
        self.tongues = Tongues.load(folder, self.facts.joint)
        self.refuse_other_symbols(self.tongues.symbols)

    @property
    def task(self) -> Translate:
        assert isinstance(self.settings.task, Translate)
        return self.settings.task

    @cached_property
    def baseline(self) -> WordTable | None:
        """The word table that was learnt beside this model."""
        folder = self.folder / BASELINE
        return WordTable.load(folder) if (folder / FILE).exists() else None

    @property
    def example(self) -> str:
        return self.facts.example or self.task.example

    def roles(self, labelled: bool) -> list[Role]:
        return [SOURCE, TARGET] if labelled else [SOURCE]

    def table(self, data: str | Sequence[str], settings: Mapping[str, Any] | None = None, *, labelled: bool) -> Table:
        """Only columns that are asked for need be there: a file to translate may have sources alone."""
        told, roles = self.data_with(settings), self.roles(labelled)
        columns = {role.name: told.columns[role.name] for role in roles if role.name in told.columns}
        names = [data] if isinstance(data, str) else list(data)
        return Table(names, replace(told, columns=columns), roles, any_ending=not labelled)    # test.en is lines to translate

    # Writing -------------------------------------------------------------------------------------------------------

    @one_or_many
    def predict(self, texts: Sequence[Text], settings: Mapping[str, Any] | None = None) -> list[Translation]:
        """One translation a text, in order."""
        target = self.tongues.target
        made: list[Translation] = []
        how = self.decoding(settings)
        for found in self._search(self._read(_single(texts)), how) if texts else ():
            best, *others = [Translation(target.decode(one.ids), one.score) for one in found]
            made.append(replace(best, others=tuple(others)))
        return made

    @one_or_many
    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """log p of each target, given its source."""
        if not pairs:
            return []
        fields = {"text": self._read([one for one, _ in pairs]), "written": self.tongues.write([two for _, two in pairs])}
        groups = in_order(np.maximum(fields["text"].sizes(), fields["written"].sizes()), translate.INFERENCE_TOKENS)
        found = predicted(self.model, groups, lambda rows: translate.make_batch(fields, rows), written_nats)
        summed = ((rows, sums(nats, offsets_of(lengths))) for rows, (nats, lengths) in found)
        return [-float(nats) for nats in by_row(summed)]

    def _search(self, sources: Ragged, how: DecodeConfig) -> list[list[Found]]:
        return translate.search_all(self.model, sources, how, self.facts)

    def _read(self, texts: Sequence[str]) -> Ragged:
        """Ids of sources; a warning where some are longer than any that was trained on. They are translated whole."""
        ids = self.tongues.read(texts)
        most, known = int(ids.sizes().max()) - 1, self.facts.longest["text"]
        if most > known:
            many = int((ids.sizes() - 1 > known).sum())
            print(
                f"Warning: {many:,} of {len(texts):,} texts are longer than any in the training data ({most:,} pieces against "
                f"{known:,}). Translations of such texts are often poor: give their sentences one by one.",
                file=sys.stderr,
            )
        return ids

    # Scoring -------------------------------------------------------------------------------------------------------

    def evaluate(self, data: str | Sequence[str], settings: Mapping[str, Any] | None = None) -> Scores:
        """Every metric of the task, with its interval and the baselines beside it. Rows with equal sources are one item."""
        items = Items.of((row.cells["source"], row.cells["target"]) for row in self.rows(data, settings, labelled=True))
        if not items.sources:
            raise UserError(
                what=f"{data if isinstance(data, str) else ' '.join(data)}: there is no row to score.",
                why="The file is empty, or every row was left out as faulty (data.on_bad=skip).",
                fix="See the faults with: seqlab check translate FILE",
            )
        began = time.monotonic()
        said = self._said(self._read(items.sources), self.decoding(settings))
        return self.scored(items, said, time.monotonic() - began)

    def scored(self, items: Items, said: Sequence[str], seconds: float) -> Scores:
        """Scores of what was written for these items, beside the sources as they are and the word table."""
        simple = {"copy": items.sources}
        if self.baseline is not None:
            kinds = self.task.table_kinds(self.settings.data)
            simple["word table"] = translate.translate_by_table(self.baseline, items.sources, kinds)
        beside = {name: evaluate_texts(texts, items.references, self.task.metrics) for name, texts in simple.items()}
        return evaluate_texts(said, items.references, self.task.metrics, seconds=seconds, baselines=beside)

    def _said(self, sources: Ragged, how: DecodeConfig) -> list[str]:
        return [self.tongues.target.decode(found[0].ids) for found in self._search(sources, how)]

    # Looking inside ------------------------------------------------------------------------------------------------

    def explain(self, text: Text, target: str | None = None) -> Explanation:
        """Where the model looked while it wrote its translation, or `target` instead (also the second of a pair of texts)."""
        source, target = text if isinstance(text, tuple) else (text, target)
        read = self.tongues.read([source])
        if target is None:
            [[best, *_]] = self._search(read, self.settings.decode)
            ids = [*best.ids, EOS] if best.finished else list(best.ids)
        else:
            ids = self.tongues.write([target]).row(0)[1:]
        fields = {"text": read, "written": Ragged.of([[BOS, *ids]], np.int64)}
        return align(
            self.model, translate.make_batch(fields, np.array([0])), text=source, said=self.tongues.target.decode(ids),
            read=[*self.tongues.source.pieces(source), SPECIAL[EOS]], written=written_pieces(self.tongues.target, ids),
        )

    # For the report ------------------------------------------------------------------------------------------------

    def findings(self, prepared: Prepared, files: Files, split: str) -> Findings:
        assert isinstance(prepared, TranslatePrepared)
        store = prepared.stores[split]
        items = translate.items_of(store)
        began = time.monotonic()
        said = self._said(store.fields["text"].take(items.rows), self.settings.decode)
        scores = self.scored(items, said, time.monotonic() - began)
        lengths = np.array([len(source.split()) for source in items.sources])
        buckets = score_by_length(self.task.metrics[0], said, items.references, lengths)
        by_length = {
            _words(one.shortest, one.longest): Scores(task="translate", metrics={scores.main: one.score}, examples=one.examples)
            for one in buckets
        }
        return Findings(scores, self._worst(items, said), self._maps(items), by_length=by_length if len(buckets) > 1 else None)

    def _worst(self, items: Items, said: Sequence[str], most: int = 12) -> list[Example]:
        """The translations that have least in common with their references, by chrF of each sentence."""
        metric = Chrf()
        likeness = metric.score(metric.count(said, items.references))
        return [
            Example(text=items.sources[row], meant=items.references[row][0], said=said[row], score=float(likeness[row]))
            for row in np.argsort(likeness, kind="stable")[:most].tolist()
            if said[row] not in items.references[row]
        ]

    def _maps(self, items: Items, count: int = 2) -> list[Explanation]:
        """Alignments of some sources of middling length, where the model has attention."""
        if not looks(self.model):
            return []
        sizes = np.array([len(source) for source in items.sources])
        near = np.argsort(np.abs(sizes - min(60, np.median(sizes))), kind="stable")[:count]
        return [self.explain(items.sources[row]) for row in near.tolist()]


def written_pieces(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    """What each id adds to the text. Of several that make up one sign (bytes of a rare one) the last shows it."""
    pieces: list[str] = []
    before = ""
    for place, number in enumerate(ids, 1):
        now = tokenizer.decode(ids[:place]).rstrip("\ufffd")    # a sign that is not whole yet
        pieces.append(SPECIAL[number] if number < len(SPECIAL) else now[len(before) :])
        before = now
    return pieces


def _single(texts: Sequence[Text]) -> list[str]:
    for text in texts:
        if isinstance(text, tuple):
            raise UserError(
                what="This model translates single texts, but there is a tab in one.",
                why="A tab joins two texts.",
                fix="Leave the second text out. To see how a given translation is aligned: seqlab explain RUN with both.",
            )
    return [text for text in texts if isinstance(text, str)]


def _words(shortest: int, longest: int) -> str:
    return f"{shortest} to {longest} words" if shortest < longest else f"{shortest} word{'' if shortest == 1 else 's'}"

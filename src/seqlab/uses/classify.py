"""What a run of `classify` can do: label or rate texts, score itself, show what it looked at."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from seqlab.data.read import Role, Row
from seqlab.data.store import Ragged, Store
from seqlab.errors import UserError
from seqlab.folder import BASELINE, WEIGHTS
from seqlab.report.attention import Explanation, explain
from seqlab.report.evaluate import Scores, evaluate_labels, evaluate_numbers, majority, training_mean
from seqlab.report.page import Example
from seqlab.settings import Settings
from seqlab.tasks import classify
from seqlab.tasks.classify import ClassifyFacts, ClassifyFiles
from seqlab.tasks.task import Files, Prepared, TaskFacts, chunks, texts_of
from seqlab.uses.run import Findings, Run, Text, one_or_many, read_facts, read_settings


@dataclass(frozen=True)
class Prediction:
    """What a model says of one text: a label with all labels' probabilities, or a number."""

    label: str | None = None
    scores: dict[str, float] | None = None
    value: float | None = None

    def to_json(self) -> dict[str, Any]:
        return {"value": self.value} if self.label is None else {"label": self.label, "scores": self.scores}

    def shown(self) -> str:
        return f"{self.value:.4g}" if self.label is None else f"{self.label}\t{self._score:.3f}"

    def columns(self) -> dict[str, Any]:
        if self.label is None:
            return {"predicted_value": self.value}
        return {"predicted_label": self.label, "predicted_score": self._score}

    @property
    def _score(self) -> float:
        assert self.scores is not None and self.label is not None
        return self.scores[self.label]


@dataclass(frozen=True)
class Embedding:
    """What a model makes of one text before it answers."""

    vector: tuple[float, ...]

    def to_json(self) -> dict[str, Any]:
        return {"vector": list(self.vector)}

    def shown(self) -> str:
        return " ".join(f"{number:.4g}" for number in self.vector)

    def columns(self) -> dict[str, Any]:
        return self.to_json()


class ClassifyRun(Run):
    """A trained classifier."""

    facts: ClassifyFacts
    echoes = True

    def __init__(self, folder: Path, settings: Settings, facts: TaskFacts) -> None:
        super().__init__(folder, settings, facts)
        self.reading = classify.new_reading(self.settings.data, self.settings.model, self.facts).load(folder)
        self.refuse_other_symbols(self.reading.symbols)

    @cached_property
    def baseline(self) -> ClassifyRun | None:
        """The bag of words that was trained beside this model."""
        folder = self.folder / BASELINE
        if not (folder / WEIGHTS).exists():
            return None
        settings = read_settings(folder)
        return ClassifyRun(folder, settings, read_facts(folder, settings.task))

    @property
    def example(self) -> str:
        return "first text\tsecond text" if self.facts.pair else self.task.example

    def roles(self, labelled: bool) -> list[Role]:
        return classify.roles(labelled=labelled, pair=self.facts.pair, number=labelled and self.facts.target == "number")

    @one_or_many
    def predict(self, texts: Sequence[Text], settings: Mapping[str, Any] | None = None) -> list[Prediction]:
        """One prediction a text, in order. A pair is a tuple of two texts. There is nothing to set."""
        if not texts:
            return []
        return [self._prediction(row) for row in classify.scores(self.model, self._fields(texts))]

    @one_or_many
    def embed(self, texts: Sequence[Text]) -> list[Embedding]:
        """The pooled vector of each text, which the head reads: texts that are alike to the model lie close together."""
        if not texts:
            return []
        return [Embedding(tuple(row.tolist())) for row in classify.vectors(self.model, self._fields(texts))]

    def evaluate(self, data: str | Sequence[str], settings: Mapping[str, Any] | None = None) -> Scores:
        """Every metric of the task, with its interval and the baselines beside it."""
        began = time.monotonic()
        meant: list[np.ndarray] = []
        said: list[np.ndarray] = []
        simple: list[np.ndarray] = []
        for rows in chunks(self.rows(data, settings, labelled=True), 8192):
            texts = [self.text_of(row) for row in rows]
            meant.append(classify.targets(rows, self.facts))
            said.append(classify.scores(self.model, self._fields(texts)))
            if self.baseline is not None:
                simple.append(classify.scores(self.baseline.model, self.baseline._fields(texts)))
        if not said:
            raise UserError(
                what=f"{data if isinstance(data, str) else ' '.join(data)}: there is no row to score.",
                why="Every row was left out as faulty (data.on_bad=skip).",
                fix="See the faults with: seqlab check classify FILE",
            )
        return self.scored(
            np.concatenate(said), np.concatenate(meant), np.concatenate(simple) if simple else None, time.monotonic() - began
        )

    def scored(self, said: np.ndarray, meant: np.ndarray, simple: np.ndarray | None, seconds: float) -> Scores:
        """Scores from the model's answers (N C), the targets (N) and the answers of the bag of words, if there is one."""
        facts = self.facts
        if facts.target == "number":
            truth = meant.astype(np.float64) * facts.spread + facts.mean

            def numbers(answers: np.ndarray) -> np.ndarray:
                return answers[:, 0].astype(np.float64) * facts.spread + facts.mean

            beside = {"training mean": training_mean(facts.mean, truth)}
            if simple is not None:
                beside["bow"] = evaluate_numbers(numbers(simple), truth, centre=facts.mean)
            return evaluate_numbers(numbers(said), truth, centre=facts.mean, seconds=seconds, baselines=beside)
        beside = {"majority": majority(np.array(facts.label_counts), meant, facts.labels)}
        if simple is not None:
            beside["bow"] = evaluate_labels(classify.probabilities(simple), meant, facts.labels)
        return evaluate_labels(classify.probabilities(said), meant, facts.labels, seconds=seconds, baselines=beside)

    def explain(self, text: Text) -> Explanation:
        """Where the model looked. Draws itself in a notebook; `.save("map.html")` writes it."""
        first, second = text if isinstance(text, tuple) else (text, None)
        fields = self._fields([text])
        batch = classify.make_batch(fields, None, np.array([0]))
        rows = self.reading.pieces(first, second)
        assert self.settings.model.input is not None
        pieces = rows if self.settings.model.input.reads == "sentences" else rows[0]
        shown = first if second is None else f"{first}\t{second}"
        return explain(self.model, batch, text=shown, pieces=pieces, said=self.predict([text])[0].to_json())

    def text_of(self, row: Row) -> Text:
        return (row.cells["text"], row.cells.get("text2", "")) if self.facts.pair else row.cells["text"]

    def _fields(self, texts: Sequence[Text]) -> dict[str, Ragged]:
        if any(self.facts.pair != isinstance(text, tuple) for text in texts):
            raise UserError(
                what=f"This model reads {'pairs of texts' if self.facts.pair else 'single texts'}.",
                why="It was trained on such rows.",
                fix="Join two texts by a tab; in Python, give a tuple." if self.facts.pair else "Give one text, without a tab.",
            )
        first = [text[0] if isinstance(text, tuple) else text for text in texts]
        second = [text[1] for text in texts if isinstance(text, tuple)] or None
        return self.reading.encode(first, second).fields

    def _prediction(self, scores: np.ndarray) -> Prediction:
        if self.facts.target == "number":
            return Prediction(value=float(scores[0]) * self.facts.spread + self.facts.mean)
        shares = classify.probabilities(scores)
        return Prediction(
            label=self.facts.labels[int(shares.argmax())],
            scores={label: round(float(share), 6) for label, share in zip(self.facts.labels, shares, strict=True)},
        )

    # For the report ------------------------------------------------------------------------------------------------

    def findings(self, prepared: Prepared, files: Files, split: str) -> Findings:
        store = prepared.stores[split]
        began = time.monotonic()
        said, meant = classify.scores(self.model, store.fields), classify.target_of(store)
        scores = self.scored(said, meant, self._baseline_scores(files, split), time.monotonic() - began)
        return Findings(scores, self._worst(store, said, meant), self._maps(store))

    def _baseline_scores(self, files: Files, split: str) -> np.ndarray | None:
        """What the bag of words says of the same rows (N C)."""
        if self.baseline is None:
            return None
        assert isinstance(files, ClassifyFiles)
        settings = self.baseline.settings
        return classify.scores(self.baseline.model, files.prepare(settings.data, settings.model).stores[split].fields)

    def _maps(self, store: Store, count: int = 2) -> list[Explanation]:
        """Explanations of some texts of middling length."""
        if self.facts.pair:    # only first texts are kept
            return []
        sizes = classify.sizes(store.fields)
        near = np.argsort(np.abs(sizes - min(60, np.median(sizes))), kind="stable")[:count]
        return [self.explain(text) for text in texts_of(store.fields["raw"], near)]

    def _worst(self, store: Store, said: np.ndarray, meant: np.ndarray, most: int = 12) -> list[Example]:
        """The mistakes the model was surest of; for numbers, the largest errors."""
        facts = self.facts
        if facts.target == "number":
            error = np.abs(said[:, 0] - meant) * facts.spread
            rows = np.argsort(-error, kind="stable")[:most]
            numbers = [[f"{value * facts.spread + facts.mean:.4g}" for value in (meant[row], said[row, 0])] for row in rows]
            return [
                Example(text=text, meant=right, said=wrong, score=float(error[row]))
                for text, row, (right, wrong) in zip(texts_of(store.fields["raw"], rows), rows, numbers, strict=True)
            ]
        shares = classify.probabilities(said)
        chosen = shares.argmax(axis=1)
        sure = np.where(chosen == meant, -1.0, shares.max(axis=1))
        rows = np.argsort(-sure, kind="stable")[: min(most, int((sure >= 0).sum()))]
        return [
            Example(text=text, meant=facts.labels[meant[row]], said=facts.labels[chosen[row]], score=float(sure[row]))
            for text, row in zip(texts_of(store.fields["raw"], rows), rows, strict=True)
        ]

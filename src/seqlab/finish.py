"""The end of a training session: score the best weights, write the report and the model card, say it in a few lines."""

from __future__ import annotations

import json
import time
from itertools import pairwise
from pathlib import Path

import numpy as np

from seqlab.data.store import Store
from seqlab.files import write_json, write_text
from seqlab.report.attention import Explanation
from seqlab.report.card import model_card
from seqlab.report.cost import inspect_model
from seqlab.report.evaluate import TITLES, aligned, number
from seqlab.report.page import Example, Report, write_report
from seqlab.run import CONFIG, METRICS, Run, load
from seqlab.tasks import classify
from seqlab.tasks.classify import Files, Prepared

SCORES = "scores.json"
"""Written last: where it is, the run is finished."""


def finish(folder: Path, prepared: Prepared, files: Files, steps: int, started: float) -> Run:
    """Score the best weights on the test rows (without them on the validation rows) and write everything down."""
    run = load(folder)
    split = "test" if "test" in prepared.stores else "valid"
    store = prepared.stores[split]
    began = time.monotonic()
    said, meant = classify.scores(run.model, store.fields), classify.target_of(store)
    scores = run.scored(said, meant, baseline_scores(run, files, split), time.monotonic() - began)
    report = Report(
        title=folder.name,
        settings_text=(folder / CONFIG).read_text(encoding="utf-8"),
        scores=scores,
        split=split,
        metrics=[json.loads(line) for line in (folder / METRICS).read_text(encoding="utf-8").splitlines()],
        worst=worst_examples(run, store, said, meant),
        maps=sample_maps(run, store),
        inspection=inspect_model(run.model, int(min(run.settings.data.length, max(8, prepared.facts.words)))),
        rows=prepared.facts.rows,
        notes=prepared.facts.warnings,
        seconds=time.monotonic() - started,
        steps=steps,
    )
    write_report(folder / "report.html", report)
    write_text(folder / "README.md", model_card(report))
    write_json(folder / SCORES, {"split": split, **scores.to_json(), "verdicts": report.verdicts})
    return run


def baseline_scores(run: Run, files: Files, split: str) -> np.ndarray | None:
    """What the bag of words says of the same rows (N C)."""
    if run.baseline is None:
        return None
    stores = files.prepare(run.baseline.settings.model).stores
    return classify.scores(run.baseline.model, stores[split].fields)


def sample_maps(run: Run, store: Store, count: int = 2) -> list[Explanation]:
    """Explanations of some texts of middling length."""
    if run.facts.pair:    # only first texts are kept
        return []
    sizes = classify.sizes(store.fields)
    near = np.argsort(np.abs(sizes - min(60, np.median(sizes))), kind="stable")[:count]
    return [run.explain(text) for text in texts_of(store, near)]


def texts_of(store: Store, rows: np.ndarray) -> list[str]:
    """The beginnings of texts, as kept for validation and test rows."""
    raw = store.fields["raw"].take(np.asarray(rows))
    return [bytes(raw.values[start:end]).decode("utf-8", "ignore") for start, end in pairwise(raw.offsets)]


def worst_examples(run: Run, store: Store, said: np.ndarray, meant: np.ndarray, most: int = 12) -> list[Example]:
    """The mistakes the model was surest of; for numbers, the largest errors."""
    facts = run.facts
    if facts.target == "number":
        error = np.abs(said[:, 0] - meant) * facts.spread
        rows = np.argsort(-error, kind="stable")[:most]
        numbers = [[f"{value * facts.spread + facts.mean:.4g}" for value in (meant[row], said[row, 0])] for row in rows]
        return [
            Example(text=text, meant=right, said=wrong, score=float(error[row]))
            for text, row, (right, wrong) in zip(texts_of(store, rows), rows, numbers, strict=True)
        ]
    shares = classify.probabilities(said)
    chosen = shares.argmax(axis=1)
    sure = np.where(chosen == meant, -1.0, shares.max(axis=1))
    rows = np.argsort(-sure, kind="stable")[: min(most, int((sure >= 0).sum()))]
    return [
        Example(text=text, meant=facts.labels[meant[row]], said=facts.labels[chosen[row]], score=float(sure[row]))
        for text, row in zip(texts_of(store, rows), rows, strict=True)
    ]


def summary(run: Run) -> str:
    """The scores of a finished run beside its baselines, in a few lines."""
    tree = json.loads((run.folder / SCORES).read_text(encoding="utf-8"))
    everyone = {"this model": tree["metrics"], **tree.get("baselines", {})}
    names = list(tree["metrics"])
    rows = [(f"{tree['split']} ({tree['examples']:,} rows)", *(TITLES.get(name, name) for name in names))]
    for who, scores in everyone.items():
        values = [[number(scores[name][key]) for key in ("value", "low", "high")] for name in names]
        rows.append((who, *(f"{value}  ({low} to {high})" for value, low, high in values)))
    return "\n".join([aligned(rows, left=range(len(rows[0]))), *tree["verdicts"]])


def example_text(run: Run) -> str:
    """Something to paste after a run."""
    return "first text\tsecond text" if run.facts.pair else "worth every minute"

"""The end of a training session: score the best weights, write the report and the model card, say it in a few lines."""

from __future__ import annotations

import json
import time
from pathlib import Path

from seqlab.files import write_json, write_text
from seqlab.folder import CONFIG, METRICS, SCORES
from seqlab.report.card import model_card
from seqlab.report.cost import inspect_model
from seqlab.report.evaluate import TITLES, Score, aligned
from seqlab.report.page import Report, what_is_scored, write_report
from seqlab.run import load
from seqlab.tasks.generate import GenerateFacts
from seqlab.tasks.pretrain import PretrainFacts
from seqlab.tasks.task import Files, Prepared
from seqlab.uses.run import Run


def finish(folder: Path, prepared: Prepared, files: Files, steps: int, started: float) -> Run:
    """Score the best weights on the test rows (without them on the validation rows) and write everything down."""
    run = load(folder)
    split = "test" if "test" in prepared.stores else "valid"
    found = run.findings(prepared, files, split)
    scores, facts = found.scores, prepared.facts
    report = Report(
        title=folder.name,
        settings_text=(folder / CONFIG).read_text(encoding="utf-8"),
        scores=scores,
        split=split,
        metrics=[json.loads(line) for line in (folder / METRICS).read_text(encoding="utf-8").splitlines()],
        worst=found.worst,
        maps=found.maps,
        samples=found.samples,
        by_length=found.by_length or {},
        inspection=inspect_model(run.model, int(min(run.settings.data.length, max(8, facts.words)))),
        rows=facts.characters if isinstance(facts, GenerateFacts | PretrainFacts) else facts.rows,
        notes=facts.warnings,
        seconds=time.monotonic() - started,
        steps=steps,
    )
    write_report(folder / "report.html", report)
    write_text(folder / "README.md", model_card(report))
    by_length = {name: {"examples": one.examples, **one.to_json()["metrics"]} for name, one in report.by_length.items()}
    tree = {"split": split, **scores.to_json(), "verdicts": report.verdicts}
    write_json(folder / SCORES, tree | {"by_length": by_length} if by_length else tree)
    return run


def summary(run: Run) -> str:
    """The scores of a finished run beside its baselines, in a few lines."""
    tree = json.loads((run.folder / SCORES).read_text(encoding="utf-8"))
    everyone = {"this model": tree["metrics"], **tree.get("baselines", {})}
    names = list(tree["metrics"])
    what = what_is_scored(tree["task"], names, "rows")
    rows = [(f"{tree['split']} ({tree['examples']:,} {what})", *(TITLES.get(name, name) for name in names))]
    for who, metrics in everyone.items():
        scores = [Score(**metrics[name]) for name in names]
        rows.append((who, *(f"{score.shown}  ({score.interval})" for score in scores)))
    return "\n".join([aligned(rows, left=range(len(rows[0]))), *tree["verdicts"]])

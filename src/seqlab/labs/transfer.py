"""The lab `transfer` (SPEC P6): pretrain once, then fine-tune against from scratch on the same labelled rows.

Both sides have the same architecture, tokenizer, settings, epochs and order of rows; only the weights that
they start from differ. A bag of words learns from the same rows beside them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seqlab.errors import UserError
from seqlab.labs.few_labels import BOW, Arm, Comparison, Results, by_epoch, told_difference
from seqlab.labs.frame import Finding, Work, lab
from seqlab.labs.lab import ResultTable
from seqlab.labs.options import OPTIONS, QUICK_SEEDS, SEEDS, LabOptions
from seqlab.settings import TrainRequest
from seqlab.transfer import PretrainedRun

PRETRAINED, SCRATCH = "pretrained", "from scratch"
SIDES = (PRETRAINED, SCRATCH)


@dataclass(frozen=True)
class TransferWish:
    """What is compared."""

    options: LabOptions
    model: str
    """The preset to pretrain, where there is no run to take."""
    start: str


def ask(given: Mapping[str, Any]) -> tuple[Mapping[str, Any], TransferWish]:
    """Without `data`: English words and their stress. Without `unlabelled`: the texts of `data`, but those
    that are tested on. `start` is a pretrained run to take instead of pretraining one. `settings` are dotted
    keys of the fine-tuning, or of the pretraining with `pretrain.` before them.
    """
    model, start = given["model"], str(given["start"])
    refuse_both(start, model=model, minutes=given["minutes"], unlabelled=given["unlabelled"])
    TrainRequest(task="pretrain", preset=model).settings()  # refuses a preset that is not known
    if start:
        refuse_labelled(PretrainedRun(start))
    options = LabOptions.of(given, pretrained=bool(start))
    model = "" if start else model or "roberta"
    return {**options.choices, "model": model, "from": start}, TransferWish(options, model, start)


def study(work: Work) -> Finding:
    """Pretrain, unless there is a run to take; then learn from the labels with and without it."""
    asked: TransferWish = work.asked
    body = Path(asked.start) if asked.start else work.folder / "pretrained"
    if not asked.start:
        asked.options.pretrain(asked.model, body, work.folder / "data", work.progress)
    comparison = Comparison(asked.options, work.folder, work.progress)
    sides = [Arm(PRETRAINED, body), Arm(SCRATCH, body, new=True), Arm(BOW)]
    results = Results(comparison.learn(sides))
    best = comparison.run_folder(sides[0], asked.options.counts[-1], 0)
    return finding_of(asked.options, results, PretrainedRun(body), best)


def refuse_both(start: str | Path, **others: Any) -> None:
    """A run that is taken as it is has had its pretraining."""
    if start and (given := [f"--{name}" for name, value in others.items() if value]):
        raise UserError(
            what=f"--from {start} stands beside {', '.join(given)}.",
            why="The run has been pretrained, on its own text and for its own time.",
            fix=f"Leave out {', '.join(given)}, or leave out --from to pretrain anew.",
        )


def refuse_labelled(source: PretrainedRun) -> None:
    """Only what was learnt without labels shows what such learning is worth."""
    kind = source.settings.task.kind
    if kind not in ("pretrain", "generate"):
        raise UserError(
            what=f"--from {source.folder} is a run of {kind}.",
            why=(
                "This lab asks what text without labels is worth, so the run must have learnt from text"
                " alone."
            ),
            fix="Pretrain one: seqlab train pretrain texts.txt --model roberta",
        )


# Telling ----------------------------------------------------------------------------------------------------


def finding_of(options: LabOptions, results: Results, source: PretrainedRun, best: Path) -> Finding:
    """The table, the picture and the verdict."""
    rows, differences = [], []
    for count in options.counts:
        pretrained, scratch, bow = (results.tested(side, count) for side in (*SIDES, BOW))
        change = results.change(PRETRAINED, SCRATCH, count)
        early = results.after(PRETRAINED, count, 1).minus(results.after(SCRATCH, count, 1))
        ahead = ["yes" if is_ahead(one.mean) else "no" for one in (early, change)]
        cells = (pretrained, scratch, bow)
        rows.append((f"{count:,}", *map(str, cells), change.change, *ahead))
        differences.append(
            {"labels": count, **change.to_json(), "margin_95": change.margin if options.seeds > 1 else None,
             "ahead_after_first_epoch": is_ahead(early.mean), "ahead_at_the_end": is_ahead(change.mean)}
        )  # fmt: skip
    header = ("labels", *SIDES, BOW, "difference (95 %)", "ahead after epoch 1", "ahead at the end")
    table = ResultTable(
        f"Test accuracy on {len(options.rows.test):,} rows, {options.seeds_told}", header, tuple(rows)
    )
    example = "photography" if options.builtin else "worth every minute"
    return Finding(
        title="Pretraining and fine-tuning against from scratch",
        verdict="\n".join(transfer_verdict(results, count) for count in options.counts),
        tables=(table, beside_study(results, options.counts[-1]), by_epoch(results, SIDES, options.counts)),
        panels=results.panels(SIDES, options.counts),
        notes=notes(options, source), numbers={**results.to_json(), "differences": differences},
        next=f'seqlab predict {best} "{example}"',
    )  # fmt: skip


def beside_study(results: Results, most: int) -> ResultTable:
    """What the course's study saw of a causal Transformer, and what is seen here with most labels."""
    rows = [
        ("test accuracy", [results.tested(side, most) for side in SIDES], ("about 0.80", "about 0.75")),
        ("accuracy after epoch 1", [results.after(side, most, 1) for side in SIDES], ("", "about 0.55")),
        ("epochs to a point of its best", [results.settled(side, most) for side in SIDES], ("fewer", "more")),
        ("largest fall between epochs", [results.fall(side, most) for side in SIDES], ("smaller", "larger")),
    ]
    cells = tuple((what, *map(str, ours), *theirs) for what, ours, theirs in rows)
    header = (f"{most:,} labels", *SIDES, *(f"the study: {side}" for side in SIDES))
    return ResultTable("Beside the course's study (a causal Transformer: --model gpt)", header, cells)


def is_ahead(difference: float) -> bool:
    """By as much as the table shows."""
    return round(difference, 3) > 0


def transfer_verdict(results: Results, count: int) -> str:
    """What the numbers say for one number of labels, whether or not pretraining helps."""
    pretrained, scratch, bow = (results.tested(side, count).mean for side in (*SIDES, BOW))
    first = [results.after(side, count, 1).mean for side in SIDES]
    early = "ahead" if is_ahead(first[0] - first[1]) else "not ahead"
    change = told_difference(
        results.change(PRETRAINED, SCRATCH, count), "pretraining", "learning from scratch"
    )
    parts = [
        f"{count:,} labels: {change}; it is {early} after the first epoch ({first[0]:.3f} against"
        f" {first[1]:.3f})."
    ]
    if bow > max(pretrained, scratch):
        parts.append(f"A bag of words on the same rows is better than both: {bow:.3f}.")
    elif bow > min(pretrained, scratch):
        parts.append(f"A bag of words on the same rows, {bow:.3f}, is better than one of them.")
    return " ".join(parts)


def notes(options: LabOptions, source: PretrainedRun) -> tuple[str, ...]:
    learnt = getattr(source.settings.task, "objective", "")
    objective = f", objective {learnt}" if learnt else ""
    return (
        (
            f"The body: {source.folder}{objective}. From scratch has its architecture, tokenizer and"
            " settings, and new weights."
        ),
        (
            "± is one standard deviation over seeds. A seed decides which rows are labelled, the new weights"
            " and the order of the rows; it is the same for both sides, and the difference is taken seed by"
            " seed."
        ),
        (
            f"Accuracy by epoch is on {len(options.rows.valid):,} fixed validation rows; the checkpoint that"
            " is best there is tested."
        ),
        (
            "There is one pretrained body and one test set: how much these two add to the spread is not in"
            " the interval."
        ),
    )


run = lab(
    "transfer",
    study,
    seeds=(QUICK_SEEDS, SEEDS),
    own_data=True,
    options=OPTIONS | {"model": "", "start": ""},
    ask=ask,
)

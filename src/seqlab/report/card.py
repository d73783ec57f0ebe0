"""README.md of a run: the model card, for whoever is handed the folder."""

from __future__ import annotations

from collections.abc import Sequence

from seqlab.report.evaluate import Scores, class_table
from seqlab.report.page import Report


def model_card(report: Report) -> str:
    """What the model predicts, on what data, how well, how to use it, and where it ends."""
    return (
        "\n\n".join(
            [
                f"# {_plain(report.title)}",
                f"This model {_plain(report.words.purpose)}. It was made with seqlab: "
                f"{report.recipe}{_size(report)}.",
                report.training,
                *_notes(report.notes),
                "## Scores",
                f"{report.scored_on} In brackets: 95 % intervals (bootstrap).",
                _score_markdown(report),
                *_signatures(report.scores),
                *report.verdicts,
                *_labels(report.scores),
                *_length_markdown(report),
                "## Use it",
                _commands(report),
                "## Limits",
                _limits(report),
                "## More",
                "- `report.html`: curves, mistakes, maps and costs, on one page that needs no network.\n"
                "- `config.yaml`: every setting; `seqlab train config.yaml` trains it again.\n"
                "- `metrics.jsonl`: what training logged. `facts.json`: what the data decided. "
                "`model.safetensors`: the weights.",
            ]
        )
        + "\n"
    )


def _size(report: Report) -> str:
    return f", {report.inspection.total:,} parameters" if report.inspection else ""


def _score_markdown(report: Report) -> str:
    names = list(report.scores.metrics)
    everyone = {"this model": report.scores, **report.scores.baselines}
    lines = [
        "| | " + " | ".join(report.scores.metrics[name].title for name in names) + " |",
        "|---" * (len(names) + 1) + "|",
    ]
    for who, scores in everyone.items():
        lines.append(f"| {_plain(who)} | " + " | ".join(str(scores.metrics[name]) for name in names) + " |")
    return "\n".join(lines)


def _signatures(scores: Scores) -> list[str]:
    """By which others get the same figures."""
    signed = [
        f"- {scores.metrics[name].title}: `{signature}`" for name, signature in scores.signatures.items()
    ]
    return ["\n".join(["Signatures:", "", *signed])] if signed else []


def _length_markdown(report: Report) -> list[str]:
    if not report.by_length:
        return []
    main = report.scores.main
    lines = [f"| source | {report.words.scored} | {report.scores.deciding.title} |", "|---|---|---|"]
    lines += [
        f"| {_plain(name)} | {one.examples:,} | {one.metrics[main]} |"
        for name, one in report.by_length.items()
    ]
    return ["\n".join(lines)]


def _labels(scores: Scores, most: int = 30) -> list[str]:
    if not scores.per_class or len(scores.per_class) > most:
        return []
    header, *rows = class_table(scores.per_class)
    lines = ["| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
    lines += ["| " + " | ".join(_plain(cell) for cell in row) + " |" for row in rows]
    return ["\n".join(lines)]


def _commands(report: Report) -> str:
    words = report.words
    explain = [] if words.needs_maps and not report.maps else [words.explain]
    shell, python = "\n".join([*words.shell, *explain]), "\n".join(words.python)
    loaded = f'import seqlab\n\nrun = seqlab.load(".")\n{python}'
    return f"In this folder:\n\n```\n{shell}\n```\n\n```python\n{loaded}\n```"


def _limits(report: Report) -> str:
    lines = [
        "- It knows texts like those it was trained on. For others the scores above say nothing: evaluate "
        "it on your own.",
        "- It repeats what its data holds, mistakes and prejudice included.",
        *(f"- {limit}" for limit in report.words.limits),
    ]
    if report.scores.labels:
        lines.append(
            "- It always answers with one of its labels, also when none fits. Its probabilities are not "
            "calibrated."
        )
        rare = [one.label for one in report.scores.per_class if one.examples < 30]
        if rare:
            shown = ", ".join(_plain(label) for label in rare[:8]) + (", ..." if len(rare) > 8 else "")
            lines.append(
                f"- Scores of classes with fewer than 30 {report.split} examples are rough: {shown}."
            )
    if report.split == "valid":
        lines.append(
            f"- The weights were chosen on the validation {report.words.scored} they are scored on: the "
            "scores are a little too good."
        )
    return "\n".join(lines)


def _notes(notes: Sequence[str]) -> list[str]:
    return ["\n".join(["About the data:", "", *(f"- {_plain(note)}" for note in notes)])] if notes else []


def _plain(text: str) -> str:
    """A user's words as Markdown shows them: on one line, with no mark-up of their own."""
    line = " ".join(text.split())
    return "".join(f"\\{letter}" if letter in "\\`*_[]<>|#" else letter for letter in line)

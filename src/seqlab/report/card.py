"""README.md of a run: the model card, for whoever is handed the folder."""

from __future__ import annotations

from collections.abc import Sequence

from seqlab.report.evaluate import CLASS_HEADER, TITLES, Scores, class_rows
from seqlab.report.page import Report


def model_card(report: Report) -> str:
    """What the model predicts, on what data, how well, how to use it, and where it ends."""
    return "\n\n".join(
        [
            f"# {_plain(report.title)}",
            f"This model {_plain(report.purpose)}. It was made with seqlab: {report.recipe}{_size(report)}.",
            report.training,
            *_notes(report.notes),
            "## Scores",
            f"{report.scored_on} In brackets: 95 % intervals (bootstrap).",
            _score_table(report),
            *_signatures(report.scores),
            *report.verdicts,
            *_labels(report.scores),
            *_lengths(report),
            "## Use it",
            _commands(report),
            "## Limits",
            _limits(report),
            "## More",
            "- `report.html`: curves, mistakes, maps and costs, on one page that needs no network.\n"
            "- `config.yaml`: every setting; `seqlab train config.yaml` trains it again.\n"
            "- `metrics.jsonl`: what training logged. `facts.json`: what the data decided. `model.safetensors`: the weights.",
        ]
    ) + "\n"


def _size(report: Report) -> str:
    return f", {report.inspection.total:,} parameters" if report.inspection else ""


def _score_table(report: Report) -> str:
    names = list(report.scores.metrics)
    everyone = {"this model": report.scores, **report.scores.baselines}
    lines = ["| | " + " | ".join(TITLES.get(name, name) for name in names) + " |", "|---" * (len(names) + 1) + "|"]
    for who, scores in everyone.items():
        lines.append(f"| {_plain(who)} | " + " | ".join(str(scores.metrics[name]) for name in names) + " |")
    return "\n".join(lines)


def _signatures(scores: Scores) -> list[str]:
    """By which others get the same figures."""
    signed = [f"- {TITLES[name]}: `{signature}`" for name, signature in scores.signatures.items()]
    return ["\n".join(["Signatures:", "", *signed])] if signed else []


def _lengths(report: Report) -> list[str]:
    if not report.by_length:
        return []
    main = report.scores.main
    lines = [f"| source | {report.scored} | {TITLES.get(main, main)} |", "|---|---|---|"]
    lines += [f"| {_plain(name)} | {one.examples:,} | {one.metrics[main]} |" for name, one in report.by_length.items()]
    return ["\n".join(lines)]


def _labels(scores: Scores, most: int = 30) -> list[str]:
    if not scores.per_class or len(scores.per_class) > most:
        return []
    lines = ["| " + " | ".join(CLASS_HEADER) + " |", "|---" * len(CLASS_HEADER) + "|"]
    lines += ["| " + " | ".join(_plain(cell) for cell in row) + " |" for row in class_rows(scores.per_class)]
    return ["\n".join(lines)]


def _commands(report: Report) -> str:
    task = report.task
    if task == "pretrain":
        task = {"causal": "generate", "denoise": "denoise", "masked+next": "masked+next"}.get(report.objective, "masked")
    shell, python = _USES.get(task, _USES["classify"])
    if report.task == "pretrain":
        shell += "\nseqlab train classify reviews.csv --from ."
        python = python.replace("run.score_texts", "run.score").replace("# log p of each", "# perplexity, bits per character")
    if report.task == "translate" and not report.maps:    # it has no attention to show
        shell = shell.rpartition("\n")[0]
    if report.number:
        python = python.replace(".label", ".value")
    return f'In this folder:\n\n```\n{shell}\n```\n\n```python\nimport seqlab\n\nrun = seqlab.load(".")\n{python}\n```'


_USES = {
    "classify": (
        'seqlab predict . "a text of yours"\n'
        "seqlab evaluate . more.csv\n"
        'seqlab explain . "a text of yours" --out map.html',
        'run.predict(["a text of yours"])[0].label',
    ),
    "translate": (
        'seqlab predict . "a text of yours"\n'
        'seqlab predict . "a text of yours" decode.beam=5\n'
        "seqlab predict . --input texts.txt --output translations.csv\n"
        "seqlab evaluate . sources.txt,targets.txt\n"
        'seqlab explain . "a text of yours" --out map.html',
        'run.predict(["a text of yours"])[0].text',
    ),
    "generate": (
        'seqlab predict . "how it begins"\n'
        'seqlab predict . "how it begins" decode.temperature=0.5 decode.seed=1\n'
        "seqlab evaluate . more.txt\n"
        'seqlab explain . "a text of yours" --out map.html',
        'run.predict(["how it begins"])[0].text\n'
        'run.score_texts(["a text of yours"])    # log p of each',
    ),
    "masked": (
        'seqlab predict . "the [MASK] was"\n'
        'seqlab predict . "a text of yours" --score\n'
        'seqlab predict . "a text of yours" --embed --json\n'
        "seqlab evaluate . more.txt\n"
        'seqlab explain . "the [MASK] was" --out map.html',
        'run.predict(["the [MASK] was"])[0].blanks\n'
        'run.score(["a text of yours"])[0].perplexity    # a pseudo-perplexity\n'
        'run.embed(["a text of yours"])[0].vector',
    ),
    "masked+next": (
        'seqlab predict . "the [MASK] was"\n'
        "seqlab predict . $'a text\\tthe next one'\n"
        'seqlab predict . "a text of yours" --embed --json\n'
        "seqlab evaluate . more.txt\n"
        'seqlab explain . "the [MASK] was" --out map.html',
        'run.predict(["the [MASK] was"])[0].blanks\n'
        'run.predict([("a text", "the next one")])[0].label\n'
        'run.embed(["a text of yours"])[0].vector',
    ),
    "denoise": (
        'seqlab predict . "the [MASK] was late"\n'
        'seqlab predict . "a text of yours" --embed --json\n'
        "seqlab evaluate . more.txt\n"
        'seqlab explain . "the [MASK] was late" --out map.html',
        'run.predict(["the [MASK] was late"])[0].text\n'
        'run.embed(["a text of yours"])[0].vector',
    ),
}
"""By task: what to type, and what to write in Python."""


def _limits(report: Report) -> str:
    lines = [
        "- It knows texts like those it was trained on. For others the scores above say nothing: evaluate it on your own.",
        "- It repeats what its data holds, mistakes and prejudice included.",
        *_LIMITS.get(report.task, ()),
    ]
    if report.scores.labels:
        lines.append("- It always answers with one of its labels, also when none fits. Its probabilities are not calibrated.")
        rare = [one.label for one in report.scores.per_class if one.examples < 30]
        if rare:
            shown = ", ".join(_plain(label) for label in rare[:8]) + (", ..." if len(rare) > 8 else "")
            lines.append(f"- Scores of classes with fewer than 30 {report.split} examples are rough: {shown}.")
    if report.split == "valid":
        lines.append(
            f"- The weights were chosen on the validation {report.scored} they are scored on: the scores are a little too good."
        )
    return "\n".join(lines)


_LIMITS = {
    "translate": (
        "- It writes something for any text, also for one in a language that it has never read.",
        "- It can leave out, add or turn round what the source says, and still read well: have what matters checked by a person.",
        "- Longer texts than those it was trained on come out poorly: give their sentences one by one.",
    ),
    "generate": (
        "- What it writes is likely, not true: it knows how texts go on, not what is the case.",
        "- It can repeat passages of its training text word for word.",
    ),
    "pretrain": (
        "- What it writes or fills in is likely, not true: it knows how texts go, not what is the case.",
        "- Its vectors tell texts apart roughly. For a task of your own, put it under that task with --from and a few labels.",
    ),
}


def _notes(notes: Sequence[str]) -> list[str]:
    return ["\n".join(["About the data:", "", *(f"- {_plain(note)}" for note in notes)])] if notes else []


def _plain(text: str) -> str:
    """A user's words as Markdown shows them: on one line, with no mark-up of their own."""
    line = " ".join(text.split())
    return "".join(f"\\{letter}" if letter in "\\`*_[]<>|#" else letter for letter in line)

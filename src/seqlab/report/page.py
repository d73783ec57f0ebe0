"""report.html: what a run became, on one page that needs no network."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from seqlab.config import read_yaml
from seqlab.errors import one_of
from seqlab.files import write_text
from seqlab.report import chart, html, maps
from seqlab.report.attention import Explanation
from seqlab.report.cost import Inspection
from seqlab.report.evaluate import CLASS_HEADER, LOWER, TITLES, Score, Scores, class_rows, number, verdict

WORDS = {"train": "training", "valid": "validation"}
"""Splits whose names are not words."""
MOST_CLASSES = 50
"""A confusion matrix is drawn up to so many classes; beyond, only the commonest confusions are listed."""
WITH_NUMBERS = 12
"""Up to so many classes the cells show their counts; beyond, they are colours with tooltips."""


@dataclass(frozen=True, kw_only=True)
class Example:
    """An example that went wrong."""

    text: str
    meant: str
    said: str
    score: float
    """Probability the model gave its wrong label; for numbers, the error."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """All that the page and the model card tell."""

    title: str
    scores: Scores
    """On the examples of `split`, with the baselines in it."""
    split: str
    """Which examples were scored: test or valid."""
    settings_text: str
    """config.yaml."""
    metrics: Sequence[Mapping[str, Any]] = ()
    """The rows of metrics.jsonl."""
    worst: Sequence[Example] = ()
    maps: Sequence[Explanation] = ()
    inspection: Inspection | None = None
    rows: Mapping[str, int]
    """Examples by split."""
    notes: Sequence[str] = ()
    """Warnings about the data."""
    seconds: float = 0.0
    steps: int = 0

    @property
    def number(self) -> bool:
        """True when the answers are numbers, not labels."""
        return not self.scores.labels

    @property
    def recipe(self) -> str:
        """The parts, in words: "tokens → lstm → max → linear"."""
        model = read_yaml(self.settings_text, "config.yaml").get("model") or {}
        kinds = [model.get(part, {}).get("kind") for part in ("input", "encoder", "pool", "head")]
        return " → ".join(str(kind) for kind in kinds if kind)

    @property
    def purpose(self) -> str:
        """What it predicts, in a sentence without an end."""
        if self.number:
            return "predicts a number for a text"
        labels = [f"“{label}”" for label in self.scores.labels]
        if len(labels) > 8:
            return f"predicts one of {len(labels)} labels for a text"
        return f"predicts for a text {one_of(labels)}"

    @property
    def training(self) -> str:
        """How it was trained, in a sentence."""
        others = " and ".join(f"{count:,} {WORDS.get(name, name)}" for name, count in self.rows.items() if name != "train")
        apart = f", with {others} examples kept apart" if others else ""
        took = f" in {duration(self.seconds)}" if self.seconds else ""
        return f"Trained on {self.rows.get('train', 0):,} examples{apart}: {self.steps:,} steps{took}."

    @property
    def scored_on(self) -> str:
        """Which examples the scores are of, in a sentence."""
        which = f"{self.scores.examples:,} {WORDS.get(self.split, self.split)} examples"
        chosen = ", though its best weights were chosen on them" if self.split == "valid" else ""
        return f"Scored on {which} that it was not trained on{chosen}."

    @property
    def verdicts(self) -> list[str]:
        """An honest sentence for each baseline, the strongest first."""
        return [verdict(self.scores, name) for name in reversed(list(self.scores.baselines))]


def write_report(path: Path, report: Report) -> None:
    """Write the page, whole or not at all."""
    write_text(path, report_html(report))


def report_html(report: Report) -> str:
    sections = [
        _opening(report),
        _scores(report),
        _curves(report.metrics),
        _confusion(report.scores),
        _classes(report.scores),
        _worst(report),
        _maps(report.maps),
        _cost(report.inspection),
        _settings(report),
    ]
    body = "\n".join(part for part in sections if part)
    return html.page(f"{report.title} · seqlab report", body, CSS + chart.CSS + maps.CSS, maps.SCRIPT)


def _opening(report: Report) -> str:
    facts = [("parts", report.recipe)]
    if report.inspection:
        facts.append(("parameters", f"{report.inspection.total:,}"))
    facts.append((f"examples: {' / '.join(report.rows)}", " / ".join(f"{count:,}" for count in report.rows.values())))
    facts += [("steps", f"{report.steps:,}"), ("time", duration(report.seconds))]
    listed = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in facts if value)
    notes = "".join(f"<li>{escape(note)}</li>" for note in report.notes)
    return (
        f"<h1>{escape(report.title)}</h1>\n<p>This model {escape(report.purpose)}.</p>\n<dl class='facts'>{listed}</dl>"
        + (f'<div class="card notes"><b>About the data</b><ul>{notes}</ul></div>' if notes else "")
    )


# Scores --------------------------------------------------------------------------------------------------------------


def _scores(report: Report) -> str:
    scores = report.scores
    first, title = scores.metrics[scores.main], TITLES.get(scores.main, scores.main)
    strongest, *others = report.verdicts or [""]
    said = f"<p class='verdict'>{escape(strongest)}</p>" + "".join(f"<p class='soft'>{escape(one)}</p>" for one in others)
    everyone = {"this model": scores, **scores.baselines}
    bars = [_bar(name, one.metrics[scores.main], strong=one is scores) for name, one in everyone.items()]
    share = scores.main not in LOWER and min(bar.low for bar in bars) >= 0 and max(bar.high for bar in bars) <= 1
    drawn = chart.bar_chart(f"{title}, with 95 % intervals", bars, (0, 1) if share else None)
    return (
        '<h2>How good is it?</h2><div class="card lead">'
        f'<div class="figure"><b>{first.shown}</b><span>{escape(title)}</span>'
        f"<span class='soft small'>{first.interval}</span></div>"
        f"<div>{said}<p class='soft small'>{escape(report.scored_on)}</p></div></div>"
        f'<div class="{"grid2" if len(scores.metrics) < 3 else ""}">'
        f'<div class="card">{drawn}</div><div class="card">{_score_table(everyone)}</div></div>'
    )


def _score_table(everyone: Mapping[str, Scores]) -> str:
    """A row for the model and each baseline, a column a metric; the interval stands below the value."""
    metrics = next(iter(everyone.values())).metrics
    head = "".join(f"<th>{escape(TITLES.get(name, name))}</th>" for name in metrics)
    rows = "".join(
        f'<tr><td class="l">{escape(who)}</td>'
        + "".join(
            f"<td><b>{one.shown}</b><br><span class='soft small'>{one.interval}</span></td>"
            for one in scores.metrics.values()
        )
        + "</tr>"
        for who, scores in everyone.items()
    )
    units = "; ".join(f"{TITLES.get(name, name)}: {score.unit}" for name, score in metrics.items())
    better = " Of errors, less is better." if any(name in LOWER for name in metrics) else ""
    return (
        f'<table class="wide"><thead><tr><th></th>{head}</tr></thead><tbody>{rows}</tbody></table>'
        f'<p class="small soft">Below each value its 95 % interval (bootstrap). {escape(units)}.{better}</p>'
    )


def _bar(name: str, score: Score, strong: bool) -> chart.Bar:
    return chart.Bar(html.shortened(name, 16), score.value, score.low, score.high, strong)


def _kept(metrics: Sequence[Mapping[str, Any]], key: str, sign: float) -> tuple[float, float] | None:
    """The validation whose weights were kept: the best score, and between equal ones the lowest loss."""
    rows = [row for row in metrics if key in row]
    if not rows:
        return None
    best = max(rows, key=lambda row: (sign * row[key], -row.get("valid_loss", 0.0)))
    return float(best["step"]), float(best[key])


def _curves(metrics: Sequence[Mapping[str, Any]]) -> str:
    """Losses beside the validation metric, over steps; the best validation is marked."""
    losses = [_curve(metrics, key, name) for key, name in (("train_loss", "train"), ("valid_loss", "valid"))]
    key = next((key for key in ("valid_accuracy", "valid_mse", "valid_f1") if any(key in row for row in metrics)), "")
    steps = [float(row["step"]) for row in metrics if "step" in row]
    if not steps:
        return ""
    span = (0.0, max(steps))
    drawn = [chart.line_chart("loss", losses, span=span)]
    if key:
        name = key.removeprefix("valid_")
        curve = _curve(metrics, key, "valid")
        best = _kept(metrics, key, -1.0 if name in LOWER else 1.0)
        drawn.append(chart.line_chart(TITLES.get(name, name), [curve], span=span, best=best))
    cards = "".join(f'<div class="card">{one}</div>' for one in drawn if one)
    return f'<h2>How it learnt</h2><div class="grid2">{cards}</div>'


def _curve(metrics: Sequence[Mapping[str, Any]], key: str, name: str) -> chart.Curve:
    rows = [row for row in metrics if isinstance(row.get(key), (int, float)) and "step" in row]
    return chart.Curve(name, [float(row["step"]) for row in rows], [float(row[key]) for row in rows])


# Where it goes wrong -------------------------------------------------------------------------------------------------


def _confusion(scores: Scores) -> str:
    if scores.confusion is None or len(scores.labels) < 2:
        return ""
    parts = []
    if len(scores.labels) <= MOST_CLASSES:
        parts.append(f'<div class="card">{_confusion_table(scores.confusion, scores.labels)}</div>')
    if len(scores.labels) > WITH_NUMBERS:
        parts.append(f'<div class="card">{_commonest(scores.confusion, scores.labels)}</div>')
    return "<h2>What it confuses</h2>" + "".join(parts)


def _confusion_table(matrix: np.ndarray, labels: Sequence[str]) -> str:
    """Rows: what was meant, columns: what was said; a cell is as dark as its share of the row."""
    small = len(labels) > WITH_NUMBERS
    shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    names = [escape(html.shortened(label, 24)) for label in labels]
    head = "".join(f"<th scope=col><span>{name}</span></th>" for name in names)
    rows = []
    for row, name in enumerate(names):
        cells = "".join(
            f'<td{" class=hit" if row == column else ""} style="--w:{shares[row, column]:.3f}"'
            f' title="{name} called {names[column]}: {matrix[row, column]:,}">{"" if small else f"{matrix[row, column]:,}"}</td>'
            for column in range(len(labels))
        )
        rows.append(f"<tr><th scope=row>{name}</th>{cells}</tr>")
    return (
        f'<table class="confusion{" small" if small else ""}"><thead><tr><th class="corner">meant ↓ said →</th>{head}</tr>'
        f'</thead><tbody>{"".join(rows)}</tbody></table>'
        '<p class="small soft">The stronger a cell, the larger its share of the row'
        f'{"; point at it for the count" if small else ""}. Blue is right, orange is wrong.</p>'
    )


def _commonest(matrix: np.ndarray, labels: Sequence[str], most: int = 12) -> str:
    wrong = matrix * (1 - np.eye(len(labels), dtype=matrix.dtype))
    order = np.argsort(-wrong, axis=None, kind="stable")[:most]
    cells = [divmod(int(place), len(labels)) for place in order if wrong.flat[place] > 0]
    rows = [
        (labels[meant], labels[said], f"{matrix[meant, said]:,}", f"{100 * matrix[meant, said] / matrix[meant].sum():.0f} %")
        for meant, said in cells
    ]
    header = ("meant", "said", "times", "of those meant")
    return html.table(header, rows, left=(0, 1), wide=True) if rows else "<p>Nothing is confused.</p>"


def _classes(scores: Scores) -> str:
    if not scores.per_class:
        return ""
    drawn = html.table(CLASS_HEADER, class_rows(scores.per_class), wide=True)
    if len(scores.per_class) > WITH_NUMBERS:
        drawn = f"<details><summary>{len(scores.per_class)} classes</summary>{drawn}</details>"
    return f'<h2>Class by class</h2><div class="card">{drawn}</div>'


def _worst(report: Report) -> str:
    if not report.worst:
        return ""
    names = ("meant", "said", "error") if report.number else ("meant", "said", "sure of it")
    head = "".join(f"<th{' class=l' if place < 3 else ''}>{name}</th>" for place, name in enumerate(("text", *names)))
    rows = "".join(
        f'<tr><td class="l text">{escape(html.shortened(one.text, 300))}</td><td class="l">{escape(one.meant)}</td>'
        f'<td class="l">{escape(one.said)}</td><td>{number(one.score)}</td></tr>'
        for one in report.worst
    )
    what = "The largest errors" if report.number else "The mistakes it is surest of"
    return (
        f'<h2>{what}</h2><div class="card"><table class="wide worst"><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
        '<p class="small soft">Often these are mistakes in the data, or texts that say too little: worth reading first.</p>'
    )


# The rest ------------------------------------------------------------------------------------------------------------


def _maps(explanations: Sequence[Explanation]) -> str:
    if not explanations:
        return ""
    cards = "".join(f'<div class="card">{maps.html_part(one)}</div>' for one in explanations)
    return f"<h2>What it looks at</h2>{cards}"


def _cost(inspection: Inspection | None) -> str:
    return "" if inspection is None else f'<h2>What it costs</h2><div class="card">{inspection.to_html()}</div>'


def _settings(report: Report) -> str:
    return (
        "<h2>Settings</h2><div class='card'><details><summary>config.yaml, every setting of this run</summary>"
        f"<pre>{escape(report.settings_text)}</pre></details></div>"
    )


def duration(seconds: float) -> str:
    """4.2 s, 3 min 12 s, 2 h 5 min; nothing for nothing."""
    if not seconds or not math.isfinite(seconds):
        return ""
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{int(seconds // 60)} min {int(seconds % 60)} s"
    return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60)} min"


CSS = """
.facts{display:flex;flex-wrap:wrap;gap:.6rem 2rem;margin:1rem 0 0}.facts dt{font-size:.82rem}
.facts dd{font-weight:600;font-variant-numeric:tabular-nums}.notes ul{margin:.3rem 0 0;padding-left:1.2rem}
.lead{display:grid;grid-template-columns:max-content 1fr;gap:1.8rem;align-items:center}
.figure{display:flex;flex-direction:column;line-height:1.3}
.figure b{font-size:2.6rem;line-height:1.1;letter-spacing:-.02em;color:var(--c1)}
.verdict{font-size:1.08rem;font-weight:600;margin-top:0}
.grid2{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,24rem),1fr));gap:.8rem}
.grid2>.card{margin:0;display:flex;flex-direction:column;justify-content:center}
.scroll{overflow-x:auto}.scroll table{font-size:.82rem;white-space:nowrap}.scroll td:nth-child(n+2){padding-left:.4rem}
.scroll tbody tr:last-child{font-weight:600}
.confusion td,.confusion th,.confusion tbody tr:last-child>*{border:1px solid var(--card)}
.confusion td:last-child,.confusion th:last-child{padding-right:.8rem}
.confusion .corner{font-weight:400;vertical-align:bottom;padding-right:.7rem}
.confusion th[scope=col]{vertical-align:bottom;text-align:center}
.confusion th[scope=row]{text-align:right;padding:.2rem .7rem .2rem 0;white-space:nowrap}
.confusion td{min-width:3.4rem;text-align:center;background:rgb(var(--against)/calc(var(--w)*.85))}
.confusion td.hit{background:rgb(var(--for)/calc(var(--w)*.85))}
.confusion.small td,.confusion.small td:last-child{min-width:0;width:.95rem;height:.95rem;padding:0;background-color:var(--faint);
background-image:linear-gradient(rgb(var(--against)/calc(var(--w)*.95)) 0 0)}
.confusion.small td.hit{background-image:linear-gradient(rgb(var(--for)/calc(var(--w)*.95)) 0 0)}
.confusion.small th[scope=row],.confusion.small th[scope=col]{font-size:.72rem;line-height:1;padding-block:0 .1rem}
.confusion.small th[scope=col]{padding:0 0 .3rem}
.confusion.small th[scope=col] span{writing-mode:vertical-rl;transform:rotate(180deg);white-space:nowrap}
.worst td{vertical-align:top}.worst .text{max-width:36rem;overflow-wrap:anywhere;padding-left:0}
@media (max-width:40rem){.lead{grid-template-columns:1fr}}
"""

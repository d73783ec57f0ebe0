"""report.html: what a run became, on one page that needs no network."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

from seqlab.config import read_yaml
from seqlab.files import write_text
from seqlab.report import chart, confusion, forecast, html, maps, overlays, tagged
from seqlab.report.cost import Inspection
from seqlab.report.evaluate import Score, Scores, duration, number, verdict
from seqlab.report.explanation import Explanation
from seqlab.report.words import Example, Words, WorstTable

WORDS = {"train": "training", "valid": "validation"}
"""Splits whose names are not words."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """All that the page and the model card tell."""

    title: str
    words: Words
    """What the task calls things."""
    scores: Scores
    """On the examples of `split`, with the baselines in it."""
    split: str
    """Which examples were scored: test or valid."""
    settings_text: str
    """config.yaml."""
    metrics: Sequence[Mapping[str, Any]] = ()
    """The rows of metrics.jsonl."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """Metric → its key in metrics.jsonl, where that is not valid_<name>."""
    does: Mapping[str, str] = field(default_factory=dict)
    """What baselines do that do not say it by their names."""
    worst: Sequence[Example] = ()
    maps: Sequence[Explanation] = ()
    pictures: Sequence[str] = ()
    """HTML of what is drawn of some examples."""
    samples: Sequence[str] = ()
    """What it wrote: a line that tells how, then the text."""
    by_length: Mapping[str, Scores] = field(default_factory=dict)
    """The deciding metric for shorter and longer sources apart."""
    inspection: Inspection | None = None
    gradients: str = ""
    """HTML of how far back they reach."""
    rows: Mapping[str, int]
    """Examples by split; of a language model, characters."""
    notes: Sequence[str] = ()
    """Warnings about the data."""
    seconds: float = 0.0
    steps: int = 0

    @cached_property
    def settings(self) -> Mapping[str, Any]:
        return read_yaml(self.settings_text, "config.yaml")

    @property
    def recipe(self) -> str:
        """The parts, in words: "tokens → lstm → max → linear", "tokens → lstm both ways → lstm with late
        attention"."""
        model = self.settings.get("model") or {}
        parts = [model.get(part) for part in ("input", "encoder", "pool", "head", "places")]
        return " → ".join(
            [_part(part) for part in parts if part]
            + [_decoder(part) for part in [model.get("decoder")] if part]
        )

    @property
    def training(self) -> str:
        """How it was trained, in a sentence."""
        others = " and ".join(
            f"{count:,} {WORDS.get(name, name)}" for name, count in self.rows.items() if name != "train"
        )
        apart = f", with {others} {self.words.counted} kept apart" if others else ""
        took = f" in {duration(self.seconds)}" if self.seconds else ""
        rows = f"{self.rows.get('train', 0):,} {self.words.counted}"
        return f"Trained on {rows}{apart}: {self.steps:,} steps{took}."

    @property
    def scored_on(self) -> str:
        """Which examples the scores are of, in a sentence or two."""
        which = f"{self.scores.examples:,} {WORDS.get(self.split, self.split)} {self.words.scored}"
        chosen = ", though its best weights were chosen on them" if self.split == "valid" else ""
        how = f" {self.words.written}" if self.words.written else ""
        return f"Scored on {which} that it was not trained on{chosen}.{how}"

    @property
    def verdicts(self) -> list[str]:
        """An honest sentence for each baseline, the strongest first."""
        return [
            verdict(self.scores, name, self.words.when_behind)
            for name in reversed(list(self.scores.baselines))
        ]


def _part(settings: Mapping[str, Any]) -> str:
    """A part in a word or two; a stack by what is in it."""
    ways = {"both": " both ways", "backward": " backward"}.get(settings.get("directions", ""), "")
    inner = " + ".join(_part(one) for one in settings.get("encoders", ()))
    return inner or f"{settings.get('kind')}{ways}"


def _decoder(settings: Mapping[str, Any]) -> str:
    """What writes, in words: "causal transformer", "lstm with late attention"."""
    body = _part(settings.get("body") or {"kind": "decoder"})
    if settings.get("kind") != "attending":
        return f"{settings.get('kind')} {body}"
    attend = settings.get("attend", "late")
    looks = "without attention" if attend == "none" else f"with {attend} attention"
    return f"{body} {looks}{' and input feeding' if settings.get('feeding') else ''}"


def write_report(path: Path, report: Report) -> None:
    """Write the page, whole or not at all."""
    write_text(path, report_html(report))


def report_html(report: Report) -> str:
    sections = [
        _opening(report),
        _scores(report),
        _pictures(report.pictures),
        _samples(report.samples),
        _curves(report),
        _length_html(report),
        confusion.confusion_part(report.scores),
        confusion.classes_part(report.scores),
        _worst(report),
        _maps(report.maps),
        _cost(report.inspection),
        _gradients(report.gradients),
        _settings(report),
    ]
    body = "\n".join(part for part in sections if part)
    return html.page(
        f"{report.title} · seqlab report",
        body,
        CSS + confusion.CSS + tagged.CSS + forecast.CSS + maps.CSS,
        maps.SCRIPT,
    )


def _opening(report: Report) -> str:
    facts = [("parts", report.recipe)]
    if report.inspection:
        facts.append(("parameters", f"{report.inspection.total:,}"))
    amounts = " / ".join(f"{count:,}" for count in report.rows.values())
    facts.append((f"{report.words.counted}: {' / '.join(report.rows)}", amounts))
    facts += [("steps", f"{report.steps:,}"), ("time", duration(report.seconds) if report.seconds else "")]
    listed = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in facts if value
    )
    notes = "".join(f"<li>{escape(note)}</li>" for note in report.notes)
    return (
        f"<h1>{escape(report.title)}</h1>\n<p>This model {escape(report.words.purpose)}.</p>\n"
        f"<dl class='facts'>{listed}</dl>"
        + (f'<div class="card notes"><b>About the data</b><ul>{notes}</ul></div>' if notes else "")
    )


# Scores -----------------------------------------------------------------------------------------------------


def _scores(report: Report) -> str:
    scores = report.scores
    first, title = scores.deciding, scores.deciding.title
    strongest, *others = report.verdicts or [""]
    said = f"<p class='verdict'>{escape(strongest)}</p>" + "".join(
        f"<p class='soft'>{escape(one)}</p>" for one in others
    )
    everyone = {"this model": scores, **scores.baselines}
    bars = [_bar(name, one.metrics[scores.main], strong=one is scores) for name, one in everyone.items()]
    share = not first.lower and min(bar.low for bar in bars) >= 0 and max(bar.high for bar in bars) <= 1
    drawn = chart.bar_chart(f"{title}, with 95 % intervals", bars, (0, 1) if share else None)
    return (
        '<h2>How good is it?</h2><div class="card lead">'
        f'<div class="figure"><b>{first.shown}</b><span>{escape(title)}</span>'
        f"<span class='soft small'>{first.interval}</span></div>"
        f"<div>{said}<p class='soft small'>{escape(report.scored_on)}</p></div></div>"
        f'<div class="{"grid2" if len(scores.metrics) < 3 else ""}">'
        f'<div class="card">{drawn}</div><div class="card">{_score_html(everyone, report.does)}</div></div>'
    )


def _score_html(everyone: Mapping[str, Scores], does: Mapping[str, str]) -> str:
    """A row for the model and each baseline, a column a metric; the interval stands below the value."""
    ours = next(iter(everyone.values()))
    metrics = ours.metrics
    head = "".join(f"<th>{escape(score.title)}</th>" for score in metrics.values())
    rows = "".join(
        f'<tr><td class="l">{escape(who)}</td>'
        + "".join(
            f"<td><b>{one.shown}</b><br><span class='soft small'>{one.interval}</span></td>"
            for one in scores.metrics.values()
        )
        + "</tr>"
        for who, scores in everyone.items()
    )
    units = "; ".join(
        one.unit if one.unit.startswith(one.title) else f"{one.title}: {one.unit}" for one in metrics.values()
    )
    less = [one.title for one in metrics.values() if one.lower]
    better = f" Of {' and '.join(less)}, less is better." if less else ""
    told = "; ".join(f"{who} ({does[who]})" for who in everyone if does.get(who))
    beside = f" Beside the model: {told}." if told else ""
    signed = "".join(
        f"<br>{escape(metrics[name].title)}: {escape(text)}" for name, text in ours.signatures.items()
    )
    return (
        f'<table class="wide"><thead><tr><th></th>{head}</tr></thead><tbody>{rows}</tbody></table>'
        '<p class="small soft">Below each value its 95 % interval (bootstrap). '
        f"{escape(units)}.{escape(better + beside)}</p>"
        + (f'<p class="small soft signature">Signatures{signed}</p>' if signed else "")
    )


def _bar(name: str, score: Score, strong: bool) -> chart.Bar:
    return chart.Bar(html.shortened(name, 24), score.value, score.low, score.high, strong, score.shown)


def _kept_validation(metrics: Sequence[Mapping[str, Any]], key: str, sign: float) -> Mapping[str, Any]:
    """The validation whose weights were kept: the best score, and between equal ones the lowest loss.

    As in training, one whose score or loss is not finite (null in metrics.jsonl) doesn't count.
    """
    rows = [row for row in metrics if _finite(row, key) and _finite({"valid_loss": 0.0, **row}, "valid_loss")]
    return max(rows, key=lambda row: (sign * row[key], -row.get("valid_loss", 0.0)), default={})


def _curves(report: Report) -> str:
    """Losses beside the validation metrics, over steps; the validation whose weights were kept is marked."""
    metrics = report.metrics
    losses = [_curve(metrics, key, name) for key, name in (("train_loss", "train"), ("valid_loss", "valid"))]
    steps = [float(row["step"]) for row in metrics if "step" in row]
    if not steps:
        return ""
    scored = report.scores.metrics
    names = list(scored)[: report.words.drawn]
    keys = {name: report.keys.get(name, f"valid_{name}") for name in names}
    kept = _kept_validation(metrics, keys[names[0]], -1.0 if scored[names[0]].lower else 1.0)
    span = (0.0, max(steps))
    marked = {name: key for name, key in keys.items() if _finite(kept, key)}
    bests = {name: (float(kept["step"]), float(kept[key])) for name, key in marked.items()}
    drawn = [chart.line_chart("loss", losses, span=span, best=bests.get("loss"))]
    for name, key in keys.items():
        if name == "loss":  # it is drawn already
            continue
        best = bests.get(name)
        curve = _curve(metrics, key, "valid")
        if curve.points:
            drawn.append(
                chart.line_chart(scored[name].title, [curve], span=span, best=best, log="perplexity" in name)
            )
    if len(drawn) % 2:  # one more makes two rows of two
        drawn.append(chart.line_chart("learning rate", [_curve(metrics, "rate", "")], span=span))
    cards = "".join(f'<div class="card">{one}</div>' for one in drawn if one)
    note = '<p class="small soft">A circle marks the weights that were kept.</p>' if kept else ""
    return f'<h2>How it learnt</h2><div class="grid2">{cards}</div>{note}'


def _curve(metrics: Sequence[Mapping[str, Any]], key: str, name: str) -> chart.Curve:
    rows = [row for row in metrics if _finite(row, key) and "step" in row]
    return chart.Curve(name, [float(row["step"]) for row in rows], [float(row[key]) for row in rows])


def _finite(row: Mapping[str, Any], key: str) -> bool:
    """Whether a row has a number there, and a finite one."""
    return isinstance(row.get(key), (int, float)) and math.isfinite(row[key])


# Where it goes wrong ----------------------------------------------------------------------------------------


def _length_html(report: Report) -> str:
    """The deciding metric against the length of the source."""
    if not report.by_length:
        return ""
    main = report.scores.main
    title = report.scores.deciding.title
    found = {name: scores.metrics[main] for name, scores in report.by_length.items()}
    drawn = chart.bar_chart(
        f"{title} by length of the source", [_bar(name, one, True) for name, one in found.items()]
    )
    rows = [
        (name, f"{report.by_length[name].examples:,}", one.shown, one.interval) for name, one in found.items()
    ]
    listed = html.table(("source", report.words.scored, title, "95 % interval"), rows, wide=True)
    return (
        '<h2>Is it worse with long texts?</h2><div class="grid2">'
        f'<div class="card">{drawn}</div><div class="card">{listed}</div></div>'
    )


def _worst(report: Report) -> str:
    if not report.worst:
        return ""
    table = report.words.worst
    header = table.header
    said = [(one.meant, one.said) if table.compares else () for one in report.worst]
    cells = [[_shown(one), *map(_cell, some)] for one, some in zip(report.worst, said, strict=True)]
    last = len(header) - 1
    head = "".join(
        f"<th{' class=l' if place < last else ''}>{name}</th>" for place, name in enumerate(header)
    )
    rows = "".join(
        "<tr>"
        + "".join(f'<td class="l text">{cell}</td>' for cell in row)
        + f"<td>{_worst_score(table, one.score)}</td></tr>"
        for one, row in zip(report.worst, cells, strict=True)
    )
    return (
        f'<h2>{table.title}</h2><div class="card"><table class="wide worst{" texts" if table.wide else ""}">'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
        f'<p class="small soft">{table.note}</p>'
    )


def _shown(example: Example) -> str:
    """What was read: a picture; where each word was answered for, with the answers."""
    if example.picture is not None:
        return overlays.image_html(example.picture, example.text)
    return tagged.tagged_html(example.pieces) if example.pieces else _cell(example.text)


def _cell(text: str) -> str:
    return escape(html.shortened(text, 300))


def _worst_score(table: WorstTable, score: float) -> str:
    return number(score) if table.digits is None else f"{score:.{table.digits}f}"


def _pictures(pictures: Sequence[str]) -> str:
    return "<h2>Some of them drawn</h2>" + "\n".join(pictures) if pictures else ""


def _samples(samples: Sequence[str]) -> str:
    """Texts out of the model, as they are: line breaks and all."""
    if not samples:
        return ""
    cards = []
    for sample in samples:
        how, _, text = sample.partition("\n")
        cards.append(f'<div class="card sample"><h3>{escape(how)}</h3><pre>{escape(text)}</pre></div>')
    return f'<h2>What it writes</h2><div class="grid2">{"".join(cards)}</div>'


# The rest ---------------------------------------------------------------------------------------------------


def _maps(explanations: Sequence[Explanation]) -> str:
    if not explanations:
        return ""
    cards = "".join(f'<div class="card">{maps.html_part(one)}</div>' for one in explanations)
    return f"<h2>What it looks at</h2>{cards}"


def _cost(inspection: Inspection | None) -> str:
    return (
        "" if inspection is None else f'<h2>What it costs</h2><div class="card">{inspection.to_html()}</div>'
    )


def _gradients(part: str) -> str:
    return f'<h2>How far back gradients reach</h2><div class="card">{part}</div>' if part else ""


def _settings(report: Report) -> str:
    return (
        "<h2>Settings</h2><div class='card'><details>"
        "<summary>config.yaml, every setting of this run</summary>"
        f"<pre>{escape(report.settings_text)}</pre></details></div>"
    )


CSS = html.asset("page.css")

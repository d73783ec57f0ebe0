"""Scores of a model on a set of examples: each with its unit and 95 % interval, beside what needs no model at
all."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, Literal

import numpy as np
from jaxtyping import Int, Num

from seqlab.metrics import F1, Accuracy, MacroF1, Metric, Precision, Recall, bootstrap, confusion, resampled


@dataclass(frozen=True)
class Score:
    """A value and the interval that holds it with 95 % confidence."""

    value: float
    low: float
    high: float
    unit: str
    title: str = ""
    """How a person writes the name of the metric."""
    lower: bool = False
    """Whether less is better."""
    scale: Literal["share", "hundred", "open"] = "open"

    @classmethod
    def of(
        cls, metric: Metric, counts: Num[np.ndarray, "N K"], times: Int[np.ndarray, " N"] | None = None
    ) -> Score:
        value, low, high = bootstrap(metric, counts, times)
        return cls(value, low, high, metric.unit, metric.title, metric.better == "lower", metric.scale)

    @classmethod
    def of_json(cls, metric: Metric, tree: Mapping[str, Any]) -> Score:
        """What `to_json` gave."""
        value, low, high = (tree[name] for name in ("value", "low", "high"))
        return cls(value, low, high, metric.unit, metric.title, metric.better == "lower", metric.scale)

    def to_json(self) -> dict[str, Any]:
        return {"value": self.value, "low": self.low, "high": self.high, "unit": self.unit}

    @property
    def shown(self) -> str:
        return self._write(self.value)

    @property
    def interval(self) -> str:
        return f"{self._write(self.low)} to {self._write(self.high)}"

    @property
    def points(self) -> int | None:
        """How many points a difference of 1 is, where people call differences points."""
        return {"share": 100, "hundred": 1}.get(self.scale)

    def __str__(self) -> str:
        return f"{self.shown} ({self.interval})"

    def _write(self, value: float) -> str:
        """Shares have three decimals, however small; what runs to 100 has one; errors keep their digits."""
        if self.scale == "hundred":
            return f"{value:.1f}"
        return f"{value:.3f}".replace("-0.000", "0.000") if self.scale == "share" else number(value)


@dataclass(frozen=True, kw_only=True)
class ClassScores:
    """One class: how many examples are of it, and how well they were told apart from the others."""

    label: str
    examples: int
    precision: float
    recall: float
    f1: float
    interval: tuple[float, float] | None = None
    """That holds the F1 with 95 % confidence, where it was worked out."""

    def to_json(self) -> dict[str, Any]:
        tree = {"examples": self.examples, "precision": self.precision, "recall": self.recall, "f1": self.f1}
        return tree | (
            {} if self.interval is None else {"f1_low": self.interval[0], "f1_high": self.interval[1]}
        )


@dataclass(frozen=True, kw_only=True)
class Scores:
    """All scores of one evaluation. Prints as a table."""

    task: str = ""
    metrics: dict[str, Score]
    """By name; the first is the one that decides which model is better."""
    examples: int
    seconds: float = 0.0
    labels: tuple[str, ...] = ()
    per_class: tuple[ClassScores, ...] = ()
    confusion: Int[np.ndarray, "C C"] | None = None
    """Rows: what was meant; columns: what was said."""
    baselines: Mapping[str, Scores] = field(default_factory=dict)
    """Simpler answers to the same examples, by name: "majority", "bow"."""
    signatures: Mapping[str, str] = field(default_factory=dict)
    """By metric, what others need to know who want the same figure: sacreBLEU's signature."""

    @property
    def deciding(self) -> Score:
        """Of the deciding metric."""
        return self.metrics[self.main]

    @property
    def main(self) -> str:
        """The name of the deciding metric."""
        return next(iter(self.metrics))

    def to_json(self) -> dict[str, Any]:
        """As promised for `evaluate --json`, with more where the task has more to say."""
        tree: dict[str, Any] = {
            "task": self.task,
            "metrics": {name: score.to_json() for name, score in self.metrics.items()},
            "examples": self.examples,
            "seconds": round(self.seconds, 3),
        }
        if self.labels:
            tree["labels"] = list(self.labels)
        if self.per_class:
            tree["per_class"] = {one.label: one.to_json() for one in self.per_class}
        if self.confusion is not None:
            tree["confusion"] = self.confusion.tolist()
        if self.signatures:
            tree["signatures"] = dict(self.signatures)
        if self.baselines:
            tree["baselines"] = {
                name: {metric: score.to_json() for metric, score in scores.metrics.items()}
                for name, scores in self.baselines.items()
            }
        return tree

    def rows(self) -> list[tuple[str, ...]]:
        """Metric, value, interval, unit and the baselines' values, as text."""
        others = self.baselines.values()
        return [
            (
                score.title or name,
                score.shown,
                score.interval,
                score.unit,
                *(other.metrics[name].shown for other in others),
            )
            for name, score in self.metrics.items()
        ]

    @property
    def header(self) -> tuple[str, ...]:
        return ("metric", "value", "95 % interval", "unit", *self.baselines)

    def __str__(self) -> str:
        parts = [aligned([self.header, *self.rows()], left=(0, 3))]
        if self.per_class:
            parts.append(aligned(class_table(self.per_class)))
        if self.signatures:
            parts.append(
                "\n".join(
                    f"{self.metrics[name].title}: {signature}" for name, signature in self.signatures.items()
                )
            )
        return "\n\n".join([*parts, f"{self.examples:,} examples{self._time()}"])

    def _time(self) -> str:
        return f" in {self.seconds:.1f} s" if self.seconds else ""

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(name)}</th>" for name in self.header)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in self.rows()
        )
        note = escape("; ".join([f"{self.examples:,} examples{self._time()}", *self.signatures.values()]))
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{note}</p>"


INTERVALS_OF = 50
"""So many classes at the most have intervals of their own."""


def score_classes(labels: Sequence[str], counts: Sequence[Int[np.ndarray, "N 3"]]) -> tuple[ClassScores, ...]:
    """How well each class was told apart. `counts`: for each of them what was right, said and meant in each
    example; intervals come from resampled examples, the same ones for all classes."""
    drawn = resampled(np.concatenate(counts, axis=1)) if len(labels) <= INTERVALS_OF else None
    found = []
    for place, (label, rows) in enumerate(zip(labels, counts, strict=True)):
        total = rows.sum(axis=0)
        precision, recall, f1 = (float(kind(place).score(total)) for kind in (Precision, Recall, F1))
        sides = None
        if drawn is not None:
            low, high = np.quantile(F1(place).score(drawn[:, 3 * place : 3 * place + 3]), [0.025, 0.975])
            sides = min(float(low), f1), max(float(high), f1)
        found.append(
            ClassScores(
                label=label, examples=int(total[2]), precision=precision, recall=recall, f1=f1, interval=sides
            )
        )
    return tuple(found)


def score_labels(
    said: Int[np.ndarray, " N"],
    meant: Int[np.ndarray, " N"],
    labels: Sequence[str],
    metrics: Sequence[Metric] = (),
    task: str = "",
) -> Scores:
    """Scores of class numbers. Examples with the same pair of labels count alike, so all runs over the
    matrix."""
    matrix = confusion(said, meant, len(labels))
    means, says = np.nonzero(matrix)
    times = matrix[means, says]
    metrics = metrics or [Accuracy(), MacroF1(len(labels))]
    kinds = (Precision, Recall, F1)
    totals = [
        [float(kind(c).score(times @ kind(c).count(says, means))) for kind in kinds]
        for c in range(len(labels))
    ]
    return Scores(
        task=task,
        metrics={metric.name: Score.of(metric, metric.count(says, means), times) for metric in metrics},
        examples=len(meant),
        labels=tuple(labels),
        per_class=tuple(
            ClassScores(
                label=label,
                examples=int(matrix[c].sum()),
                precision=totals[c][0],
                recall=totals[c][1],
                f1=totals[c][2],
            )
            for c, label in enumerate(labels)
        ),
        confusion=matrix,
    )


@dataclass(frozen=True, kw_only=True)
class Bucket:
    """The examples whose source is about as long."""

    shortest: int
    longest: int
    """Lengths of sources, both included."""
    examples: int
    score: Score


def score_by_length(
    metric: Metric, said: Any, meant: Any, lengths: Int[np.ndarray, " N"], most: Sequence[int] | None = None
) -> list[Bucket]:
    """Scores of examples with sources of up to most[0], most[1], ... tokens, and of the longer ones; empty
    buckets are left out.

    `lengths` are those of the sources. `most` is None: six buckets of about equally many examples.
    """
    if most is None:
        most = np.unique(np.quantile(lengths, np.arange(1, 6) / 6, method="lower")).tolist()
    which = np.searchsorted(np.asarray(most), lengths)  # length ≤ most[which]
    counts = metric.count(said, meant)
    return [
        Bucket(
            shortest=int(lengths[inside].min()),
            longest=int(lengths[inside].max()),
            examples=int(inside.sum()),
            score=Score.of(metric, counts[inside]),
        )
        for inside in (which == number for number in range(len(most) + 1))
        if inside.any()
    ]


def verdict(scores: Scores, name: str, advice: str = "use it") -> str:
    """One honest sentence about the model and one baseline. `advice`: what to do where the baseline is
    better."""
    ours, theirs = scores.deciding, scores.baselines[name].deciding
    title = ours.title or scores.main
    gain = theirs.value - ours.value if ours.lower else ours.value - theirs.value
    apart = ours.low > theirs.high or ours.high < theirs.low
    if ours.points is not None:
        amount = f"{ours.points * abs(gain):.1f} points of {title}"
    else:
        amount = (
            f"{number(abs(gain))} {title}" if title.startswith("bits") else f"{number(abs(gain))} of {title}"
        )
    doubt = "" if apart else " (the intervals overlap: more examples would tell for sure)"
    if abs(gain) < 1e-12:
        return f"Level with {name} in {title}: prefer the cheaper of the two."
    if gain > 0:
        return f"Ahead of {name} by {amount}{doubt}."
    return f"{name} is better by {amount}: {advice}{doubt}."


# Writing it down --------------------------------------------------------------------------------------------


def number(value: float) -> str:
    """Three decimals for a share; four digits for anything larger."""
    if not math.isfinite(value):
        return "–"
    if abs(value) < 10:
        return f"{value:.3f}" if abs(value) >= 0.001 or value == 0 else f"{value:.1e}"
    return f"{value:,.4g}" if abs(value) < 10_000 else f"{value:,.0f}"


def duration(seconds: float) -> str:
    """38 s, 4 min 05 s, 2 h 10 min."""
    if seconds == float("inf"):
        return "?"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def class_table(per_class: Sequence[ClassScores]) -> list[tuple[str, ...]]:
    """A header, and a row for each class."""
    told = any(one.interval for one in per_class)
    header = ("class", "examples", "precision", "recall", "F1", *(["its 95 % interval"] if told else []))
    rows = [
        (
            one.label,
            f"{one.examples:,}",
            number(one.precision),
            number(one.recall),
            number(one.f1),
            *_sides(one),
        )
        for one in per_class
    ]
    return [header, *rows]


def _sides(one: ClassScores) -> list[str]:
    return [] if one.interval is None else [" to ".join(map(number, one.interval))]


def aligned(rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)) -> str:
    """Rows of text as columns; those in `left` start at the left, numbers end at the right. The first row is
    the header."""
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    lines = [
        "  ".join(
            row[place].ljust(width) if place in left else row[place].rjust(width)
            for place, width in enumerate(widths)
        )
        for row in rows
    ]
    return "\n".join(line.rstrip() for line in lines)

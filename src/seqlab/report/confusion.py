"""What a classifier confuses, and how well it knows each class: parts of the report."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from seqlab.report import html
from seqlab.report.evaluate import Scores, class_table

MOST_CLASSES = 50
"""A confusion matrix is drawn up to so many classes; beyond, only the commonest confusions are listed."""
WITH_NUMBERS = 12
"""Up to so many classes the cells show their counts; beyond, they are colours with tooltips."""
CSS = html.asset("confusion.css")


def confusion_part(scores: Scores) -> str:
    """The confusion matrix and the commonest confusions; nothing where there are no classes."""
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
            f' title="{name} called {names[column]}: {count:,}">{"" if small else f"{count:,}"}</td>'
            for column, count in enumerate(matrix[row])
        )
        rows.append(f"<tr><th scope=row>{name}</th>{cells}</tr>")
    return (
        f'<table class="confusion{" small" if small else ""}"><thead><tr>'
        f'<th class="corner">meant ↓ said →</th>{head}</tr>'
        f"</thead><tbody>{''.join(rows)}</tbody></table>"
        '<p class="small soft">The stronger a cell, the larger its share of the row'
        f"{'; point at it for the count' if small else ''}. Blue is right, orange is wrong.</p>"
    )


def _commonest(matrix: np.ndarray, labels: Sequence[str], most: int = 12) -> str:
    wrong = matrix * (1 - np.eye(len(labels), dtype=matrix.dtype))
    order = np.argsort(-wrong, axis=None, kind="stable")[:most]
    cells = [divmod(int(place), len(labels)) for place in order if wrong.flat[place] > 0]
    rows = [
        (
            labels[meant],
            labels[said],
            f"{matrix[meant, said]:,}",
            f"{100 * matrix[meant, said] / matrix[meant].sum():.0f} %",
        )
        for meant, said in cells
    ]
    header = ("meant", "said", "times", "of those meant")
    return html.table(header, rows, left=(0, 1), wide=True) if rows else "<p>Nothing is confused.</p>"


def classes_part(scores: Scores) -> str:
    """The scores of each class."""
    if not scores.per_class:
        return ""
    header, *rows = class_table(scores.per_class)
    drawn = html.table(header, rows, wide=True)
    if len(scores.per_class) > WITH_NUMBERS:
        drawn = f"<details><summary>{len(scores.per_class)} classes</summary>{drawn}</details>"
    return f'<h2>Class by class</h2><div class="card">{drawn}</div>'

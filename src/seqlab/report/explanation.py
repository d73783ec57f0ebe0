"""An explanation: one example, its answer, and maps of what a model looked at or of what decided."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from seqlab.errors import UserError
from seqlab.files import write_json, write_text, written_beside

MapKind = Literal["tokens", "hops", "document", "matrix", "grams", "alignment"]
ExplainMethod = Literal["attention", "gradient × input", "weight × n-gram", "surprise"]


RECEIVED = "attention each piece receives, on average"
"""What the map is called that is the mean over the rows of all heads and layers."""
MANY_ANSWERS = (
    "There is no deletion curve: each place has an answer of its own, so no single probability could fall."
)
NO_PROBABILITY = "There is no deletion curve: a number has no probability that could fall."


@dataclass(frozen=True, kw_only=True)
class Map:
    """Weights over the pieces of one example.

    tokens: T weights. hops: R T, a row a hop. document: S weights over sentences, and in `words` those inside
    each.
    matrix: H Q K, where each position looks, by head. grams: one weight for each n-gram of the text, in any
    order.
    alignment: H U K, by head, where a decoder looked in `pieces` as it wrote each of `written`.
    """

    name: str
    """What it shows, in words."""
    kind: MapKind
    weights: np.ndarray
    pieces: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    sentences: tuple[tuple[str, ...], ...] = ()
    words: tuple[np.ndarray, ...] = ()
    signed: bool = False
    """True: weights speak for (+) or against (−) the answer. False: shares that add up to 1."""
    unit: str = ""
    """What a weight is, where it is no share of attention."""
    grid: tuple[int, int] | None = None
    """Height and width, where the pieces are the slots of a picture, line after line."""

    def to_json(self) -> dict[str, Any]:
        tree: dict[str, Any] = {"name": self.name, "kind": self.kind, "signed": self.signed}
        if self.kind == "document":
            tree["sentences"] = [
                {"weight": weight, "pieces": list(pieces), "weights": words.tolist()}
                for weight, pieces, words in zip(
                    self.weights.tolist(), self.sentences, self.words, strict=True
                )
            ]
            return tree
        if self.written:
            tree["written"] = list(self.written)
        if self.grid:
            tree["grid"] = list(self.grid)
        return tree | {"pieces": list(self.pieces), "weights": self.weights.tolist()}


@dataclass(frozen=True, kw_only=True)
class Attributions:
    """What stands beside the maps, so that attention is not taken for an explanation."""

    maps: tuple[Map, ...] = ()
    """Gradient × input, integrated gradients and occlusion: what each piece adds to the score."""
    deletion: Deletion | None = None
    """How the probability of the answer falls when pieces go, in the order of each map and at random."""
    note: str = ""
    """What they measure, or why there are none."""

    def to_json(self) -> dict[str, Any]:
        tree: dict[str, Any] = {"note": self.note, "maps": [one.to_json() for one in self.maps]}
        return tree | ({"deletion": self.deletion.to_json()} if self.deletion else {})


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """One example, its answer, and what the model looked at. Draws itself in a notebook."""

    text: str
    label: str
    """The answer: a label, or a number as text."""
    scores: dict[str, float]
    """Probability of each label; empty for a number."""
    maps: tuple[Map, ...]
    method: ExplainMethod
    note: str = ""
    picture: np.ndarray | None = None
    """What was read, where that is a picture: H W 3."""
    beside: Attributions = Attributions()

    def to_json(self) -> dict[str, Any]:
        return {
            "text": self.text,
            "label": self.label,
            "scores": self.scores,
            "method": self.method,
            "note": self.note,
            "maps": [one.to_json() for one in self.maps],
            "beside": self.beside.to_json(),
        }

    def save(self, path: str | Path) -> Path:
        """Write map.html, map.png, map.svg or map.json, whole or not at all."""
        from seqlab.report import drawing, maps  # they import this file

        path = Path(path)
        ending = path.suffix.lower()
        if ending not in (".html", ".png", ".svg", ".json"):
            raise UserError(
                what=f'{path}: a map can\'t be saved as "{ending or path.name}".',
                why="The ending of the name decides the format: .html, .png, .svg or .json.",
                fix=f"For instance: --out {path.with_suffix('.html')}",
            )
        if not path.parent.is_dir():
            raise UserError(
                what=f"{path}: there is no folder {path.parent}.",
                fix=f"Make it first: mkdir -p {path.parent}",
            )
        if ending == ".json":
            write_json(path, self.to_json())
        elif ending == ".html":
            write_text(path, maps.html_page(self))
        else:
            made = drawing.drawn(self, "svg" if ending == ".svg" else "png")
            with written_beside(path) as beside:
                beside.write_bytes(made)
        return path

    def _repr_html_(self) -> str:
        from seqlab.report import maps

        return maps.html_notebook(self)

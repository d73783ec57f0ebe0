"""What a pretrained model says of a text: pieces for its blanks, whether two texts follow each other, a repair, vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from seqlab.data.text import UNK
from seqlab.tasks.cloze import Candidate

LABELS = ("NotNext", "IsNext")
"""Whether the second of two texts follows the first, by the model's class."""


@dataclass(frozen=True)
class Blank:
    """The best piece for a blank, its probability among all pieces of text, and the next ones."""

    token: str
    score: float
    others: tuple[tuple[str, float], ...] = ()
    id: int = UNK
    """Of the best piece."""

    @classmethod
    def of(cls, candidates: Sequence[Candidate]) -> Blank:
        best, *others = candidates
        return cls(best.token, best.score, tuple((one.token, one.score) for one in others), best.id)

    def to_json(self) -> dict[str, Any]:
        others = [{"token": token, "score": round(score, 6)} for token, score in self.others]
        return {"token": self.token, "score": round(self.score, 6), "others": others}

    def shown(self) -> str:
        return ", ".join(f"{token} {score:.3f}" for token, score in ((self.token, self.score), *self.others))


@dataclass(frozen=True)
class Filled:
    """A text with its blanks filled in; of a pair, whether the second follows the first."""

    text: str
    blanks: tuple[Blank, ...]
    label: str | None = None
    scores: dict[str, float] | None = None
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        tree: dict[str, Any] = {} if self.label is None else {"label": self.label, "scores": self.scores}
        if self.blanks or self.label is None:
            tree |= {"text": self.text, "blanks": [blank.to_json() for blank in self.blanks]}
        return tree | ({"note": self.note} if self.note else {})

    def shown(self) -> str:
        judged = [] if self.label is None or self.scores is None else [f"{self.label} {self.scores[self.label]:.3f}"]
        return "\t".join([*judged, self.text, *(blank.shown() for blank in self.blanks)])

    def columns(self) -> dict[str, Any]:
        judged = {} if self.label is None or self.scores is None else {
            "predicted_label": self.label, "predicted_score": self.scores[self.label],
        }
        return {**judged, "filled": self.text, "blanks": "; ".join(blank.token for blank in self.blanks)}


@dataclass(frozen=True)
class Repaired:
    """What a model wrote for a noisy text."""

    text: str
    score: float
    """log p divided by the length, as decode.length_penalty has it: 0 is certain."""

    def to_json(self) -> dict[str, Any]:
        return {"text": self.text, "score": round(self.score, 6)}

    def shown(self) -> str:
        return self.text

    def columns(self) -> dict[str, Any]:
        return {"repaired": self.text, "repaired_score": round(self.score, 6)}


@dataclass(frozen=True)
class Vectors:
    """What a model makes of a text: the vector of each piece, and their mean."""

    vector: tuple[float, ...]
    tokens: tuple[tuple[str, tuple[float, ...]], ...]
    """Each piece as it is written, and its vector."""

    def to_json(self) -> dict[str, Any]:
        tokens = [{"token": token, "vector": list(vector)} for token, vector in self.tokens]
        return {"vector": list(self.vector), "tokens": tokens}

    def shown(self) -> str:
        return " ".join(f"{number:.4g}" for number in self.vector)

    def columns(self) -> dict[str, Any]:
        return {"vector": list(self.vector)}

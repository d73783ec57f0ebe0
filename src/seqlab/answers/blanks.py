"""What stands in blanks: the answers of masked language models, and of those that read a text from both its
sides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from seqlab.answers.answer import Judged, refuse_empty
from seqlab.answers.blanks_followed import NOTHING, beside_a_blank, beside_a_pair
from seqlab.answers.documents import WORST, DocumentsAnswer, Done
from seqlab.answers.exercises import Blanks, Everywhere, PairedBlanks
from seqlab.answers.fill_blanks import (
    BLANK,
    Candidate,
    Cloze,
    Said,
    Shown,
    all_at_once,
    around,
    ask,
    blank_batch,
    blank_nats,
    bracketed,
    each_hidden,
    fill_all,
    next_blank,
    paired,
    piece_scores,
)
from seqlab.data.tokenizers import SEP, SPECIAL, UNK
from seqlab.decode import DecodeConfig
from seqlab.errors import UserError
from seqlab.fields.field import Given
from seqlab.metrics import Metric
from seqlab.model import Model
from seqlab.parts import record
from seqlab.report.attention import FIRST_ORDER, NONE, attention_maps
from seqlab.report.explanation import Attributions, Explanation, Map
from seqlab.report.gradients import blank_contributions
from seqlab.report.words import Example
from seqlab.text_metrics import (
    HiddenAccuracy,
    HiddenLoss,
    NextAccuracy,
    PseudoBitsPerCharacter,
    PseudoPerplexityPerWord,
    PseudoPiecePerplexity,
)

AROUND = 12
"""Tokens that are shown on each side of a mistake."""
LABELS = ("NotNext", "IsNext")
"""Whether the second of two texts follows the first, by the model's class."""


@dataclass(frozen=True)
class Blank:
    """The best token for a blank, its probability among all tokens of text, and the next ones."""

    token: str
    score: float
    others: tuple[tuple[str, float], ...] = ()
    id: int = UNK
    """Of the best token."""

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
        judged = (
            []
            if self.label is None or self.scores is None
            else [f"{self.label} {self.scores[self.label]:.3f}"]
        )
        return "\t".join([*judged, self.text, *(blank.shown() for blank in self.blanks)])

    def columns(self) -> dict[str, Any]:
        judged = (
            {}
            if self.label is None or self.scores is None
            else {"predicted_label": self.label, "predicted_score": self.scores[self.label]}
        )
        return {**judged, "filled": self.text, "blanks": "; ".join(blank.token for blank in self.blanks)}


class FillingAnswer(DocumentsAnswer):
    """What would stand in the blanks of a text."""

    def answer(self, clozes: Sequence[Cloze], said: Said, cut: int) -> Filled:
        best = iter([blank[0].id for blank in said.blanks])
        text = "\t".join(self.tokens.fill(cloze, [next(best) for _ in cloze.blanks]) for cloze in clozes)
        size = sum(len(cloze.ids) for cloze in clozes)
        note = f"The text has {size:,} pieces; the model looked at {size - cut:,} of them." if cut else ""
        blanks = tuple(Blank.of(candidates) for candidates in said.blanks)
        if len(clozes) == 1 or said.follows is None:
            return Filled(text, blanks, note=note)
        scores = {label: round(share, 6) for label, share in zip(LABELS, said.follows, strict=True)}
        return Filled(text, blanks, LABELS[int(np.argmax(said.follows))], scores, note)

    def told(self, model: Model, asked: str, meant: Sequence[str]) -> list[str]:
        [said] = self.predict(model, [asked], self.known.decode)
        assert isinstance(said, Filled)
        shown = [f"{blank.shown()}  (was: {word})" for blank, word in zip(said.blanks, meant, strict=True)]
        return [said.text, *shown]

    def filled(self, model: Model, parts: Sequence[str], row: Shown, answer: Filled) -> Explanation:
        """Attention over a text and what stands around it, or what each token adds to the answer at the first
        blank."""
        pieces = [
            SPECIAL[number] if number < len(SPECIAL) else self.tokens.shown(number)
            for number in row.ids.tolist()
        ]
        batch = blank_batch([row])
        with record(model) as tapes, torch.no_grad():
            model(batch)
        maps = attention_maps({name: tape for name, tape in tapes.items() if tape}, pieces)
        first = answer.blanks[0] if answer.blanks else None
        shown, looked = tuple(pieces), {"attention": maps[0]} if maps else {}
        beside = Attributions(note=NOTHING)
        if first is not None:
            beside = beside_a_blank(model, batch, first.id, first.token, shown, looked)
        elif answer.label is not None:
            place = LABELS.index(answer.label)
            beside = beside_a_pair(model, batch, place, answer.label, shown, looked)
        scores = {first.token: first.score, **dict(first.others)} if first else answer.scores or {}
        text, label = "\t".join(parts), f"{answer.label}: {answer.text}" if answer.label else answer.text
        if maps:
            return Explanation(
                text=text, label=label, scores=scores, maps=tuple(maps), method="attention", note=answer.note,
                beside=beside,
            )  # fmt: skip
        if not len(row.places):
            raise UserError(
                what=f"There is no {BLANK} in the pair.",
                why="This model has no attention, and what each piece adds is told of the answer at a blank.",
                fix=f"Write {BLANK} where a word is missing.",
            )
        assert first is not None
        weights = blank_contributions(model, batch, first.id)
        name = f"what each piece adds to the score of “{first.token}” at the first blank"
        added = Map(name=name, kind="tokens", weights=weights, pieces=shown, signed=True)
        note = " ".join(part for part in (NONE + FIRST_ORDER, answer.note) if part)
        return Explanation(
            text=text, label=label, scores=scores, maps=(added,), method="gradient × input", note=note,
            beside=beside,
        )  # fmt: skip


class BlanksAnswer(FillingAnswer):
    """All blanks of a text at once, as they were masked in training: [CLS] text [SEP]."""

    kind = Blanks

    @property
    def metrics(self) -> list[Metric]:
        return [HiddenLoss(), HiddenAccuracy()]

    def predict(self, model: Model, given: Sequence[Given], how: DecodeConfig) -> list[Filled]:
        if not given:
            return []
        clozes = [self.clozes(text) for text in given]
        rows = [self.row(some) for some in clozes]

        def rank(row: int, blank: int, probabilities: np.ndarray) -> tuple[Candidate, ...]:
            fits = [
                self.tokens.fits(cloze, number)
                for cloze in clozes[row]
                for number in range(len(cloze.blanks))
            ]
            return self.tokens.ranked(probabilities, fits[blank])

        said = ask(model, rows, rank)
        return [self.answer(some, one, row.cut) for some, one, row in zip(clozes, said, rows, strict=True)]

    def clozes(self, text: Given) -> list[Cloze]:
        """What is asked: a text with blanks."""
        return [self.cut(one) for one in self.single([text])]

    def row(self, clozes: Sequence[Cloze]) -> Shown:
        """What the model reads."""
        if len(clozes) == 2:
            return paired(clozes[0].ids, clozes[1].ids, self.context)
        return bracketed(clozes[0].ids, clozes[0].blanks, self.context)

    def nats(self, model: Model, ids: np.ndarray) -> np.ndarray:
        """Each token masked in turn (Salazar et al. 2020)."""
        return blank_nats(model, each_hidden(ids, self.context))

    def explain(
        self, model: Model, given: Given, how: DecodeConfig, target: str | None = None
    ) -> Explanation:
        """Attention; without any, gradient × input of the answer at the first blank."""
        parts = [given] if isinstance(given, str) else list(given)
        row = self.row([self.tokens.cut(part) for part in parts])
        if len(parts) == 1 and BLANK not in parts[0] and record(model).modules:
            return self.filled(model, parts, row, Filled(self.single(parts)[0], ()))
        [answer] = self.predict(model, [given], how)
        return self.filled(model, parts, row, answer)

    def worst(self, model: Model, part: Done, judged: Judged) -> list[Example]:
        """Of the first blocks, the wrong tokens that it held likeliest."""
        batch = part.exercise.batch(next(iter(part.exercise.fixed(part.most))))
        answers = batch.places.values
        with torch.no_grad():
            probabilities = piece_scores(model(batch).answers["places"]).softmax(dim=-1)
        score, said = probabilities.max(dim=-1)
        sure = torch.where(said == answers, -1.0, score)
        text = batch.text.values.clone()
        text.view(-1)[batch.places.positions] = answers
        found = []
        for place in sure.argsort(descending=True, stable=True)[: min(WORST, int((sure > 0).sum()))].tolist():
            row, at = divmod(int(batch.places.positions[place]), text.shape[1])
            before = within(text[row, max(0, at - AROUND) : at].tolist()[::-1])[::-1]
            after = within(text[row, at + 1 : at + 1 + AROUND].tolist())
            gap, decode = "" if self.tokens.letters else " ", self.text.tokenizer.decode
            shown = f"{decode(before)}{gap}{BLANK}{gap}{decode(after)}"
            right, wrong = (self.tokens.shown(int(number)) for number in (answers[place], said[place]))
            found.append(
                Example(text=" ".join(shown.split()), meant=right, said=wrong, score=float(sure[place]))
            )
        return found


class PairedBlanksAnswer(BlanksAnswer):
    """Blanks of a text or of a pair, and whether the second of a pair follows the first: [CLS] x [SEP] y
    [SEP]."""

    kind = PairedBlanks
    outputs: ClassVar = {"places": None, "row": 2}

    @property
    def metrics(self) -> list[Metric]:
        return [*super().metrics, NextAccuracy()]

    def clozes(self, text: Given) -> list[Cloze]:
        if isinstance(text, str):
            return super().clozes(text)
        refuse_empty(text)
        return [self.tokens.cut(one) for one in text]


class EverywhereAnswer(FillingAnswer):
    """Blanks one after the other, from left to right, in a bare text; every token is predicted from both its
    sides."""

    kind = Everywhere
    around = ((), ())

    @property
    def metrics(self) -> list[Metric]:
        return [PseudoPiecePerplexity(), PseudoBitsPerCharacter(), PseudoPerplexityPerWord()]

    def predict(self, model: Model, given: Sequence[Given], how: DecodeConfig) -> list[Filled]:
        if not given:
            return []
        clozes = [self.cut(text) for text in self.single(given)]
        found = fill_all(model, self.tokens, clozes, self.context)
        return [self.answer([cloze], said, cut) for cloze, (said, cut) in zip(clozes, found, strict=True)]

    def nats(self, model: Model, ids: np.ndarray) -> np.ndarray:
        """All tokens in one pass over each block of task.context tokens."""
        return blank_nats(model, all_at_once(ids, self.context))

    def explain(
        self, model: Model, given: Given, how: DecodeConfig, target: str | None = None
    ) -> Explanation:
        """Of a text without blanks, how much each token surprised the model; else as it filled the first
        one."""
        [text] = self.single([given])
        if BLANK not in text:
            return self.surprise(model, text)
        cloze = self.cut(text)
        [answer] = self.predict(model, [text], how)
        return self.filled(
            model, [text], next_blank(around(cloze.ids, cloze.blanks, self.context)[0], ()), answer
        )


def within(ids: list[int]) -> list[int]:
    """The ids up to the end of the document."""
    return ids[: ids.index(SEP)] if SEP in ids else ids

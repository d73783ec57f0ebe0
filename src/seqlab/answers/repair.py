"""A text repaired from a noisy copy: the answer of a denoising pretraining."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from seqlab.answers.answer import Judged, TextScore
from seqlab.answers.documents import WORST, DocumentsAnswer, Done
from seqlab.answers.exercise_counts import NATS, PIECES
from seqlab.answers.exercises import Repair, padded
from seqlab.answers.searching import search_all, written_tokens
from seqlab.data.batches import Rows
from seqlab.data.tokenizers import BOS, EOS, SPECIAL
from seqlab.decode import DecodeConfig, Hypothesis
from seqlab.errors import UserError
from seqlab.fields.field import Given
from seqlab.metrics import Metric
from seqlab.model import Model
from seqlab.parts import Batch
from seqlab.report.alignment import align, looks
from seqlab.report.explanation import Explanation
from seqlab.report.words import Example
from seqlab.text_metrics import WrittenAccuracy, WrittenLoss


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


class RepairAnswer(DocumentsAnswer):
    """The text that a noisy one came from; a decoder writes it."""

    kind = Repair
    around = ((), (EOS,))
    outputs: ClassVar = {}

    @property
    def metrics(self) -> list[Metric]:
        return [WrittenLoss(), WrittenAccuracy()]

    def predict(self, model: Model, given: Sequence[Given], how: DecodeConfig) -> list[Repaired]:
        texts = self.single(given)
        found = self.search(model, [self.tokens.cut(text).ids for text in texts], how) if texts else []
        return [Repaired(self.text.tokenizer.decode(best[0].ids), best[0].score) for best in found]

    def search(self, model: Model, texts: Sequence[np.ndarray], how: DecodeConfig) -> list[list[Hypothesis]]:
        """What the decoder writes for noisy texts, best first."""
        room = self.context + round(
            self.context * self.learning.noises.share
        )  # noise adds masks where nothing is missing
        if long := max((len(ids) for ids in texts if len(ids) > room), default=0):
            raise UserError(
                what=f"A text has {long:,} pieces.",
                why=f"This model learnt to repair texts of up to {room:,} (task.context).",
                fix="Give its sentences one by one.",
            )
        rows = [np.concatenate([ids, [EOS]]) for ids in texts]

        def batch_of(places: Rows) -> Batch:
            return Batch({"text": padded([rows[place] for place in places])}, torch.from_numpy(places))

        sizes = np.array([len(row) for row in rows])
        return search_all(model, self.text.tokenizer, sizes, batch_of, how, how.limits)

    def score(self, model: Model, given: Sequence[Given]) -> list[TextScore]:
        raise UserError(
            what=f"This run learnt to repair texts ({self.learning.objective}).",
            why="How likely a text is, it says only beside a noisy copy of it.",
            fix="Leave --score out, or pretrain with --model gpt or roberta.",
        )

    def nats(self, model: Model, ids: np.ndarray) -> np.ndarray:
        raise AssertionError("a text alone has no probability here: `score` refuses first")

    def explain(
        self, model: Model, given: Given, how: DecodeConfig, target: str | None = None
    ) -> Explanation:
        """Where the decoder looked in the noisy text as it wrote its repair."""
        [text] = self.single([given])
        ids = self.tokens.cut(text).ids
        [[best, *_]] = self.search(model, [ids], how)
        written = [*best.ids, EOS] if best.finished else list(best.ids)
        source, target_ids = padded([np.concatenate([ids, [EOS]])]), padded([np.array([BOS, *written])])
        batch = Batch({"text": source}, torch.tensor([0]), {"written": target_ids})
        read = [
            SPECIAL[number] if number < len(SPECIAL) else self.tokens.shown(number)
            for number in [*ids.tolist(), EOS]
        ]
        tokenizer = self.text.tokenizer
        return align(
            model,
            batch,
            text=text,
            said=tokenizer.decode(best.ids),
            read=read,
            written=written_tokens(tokenizer, written),
        )

    # For the report -----------------------------------------------------------------------------------------

    def worst(self, model: Model, part: Done, judged: Judged) -> list[Example]:
        """The blocks whose tokens it predicted worst, though it read a noisy copy."""
        rows = judged.detail.rows
        nats = rows[:, NATS] / np.maximum(rows[:, PIECES], 1)
        blocks = np.concatenate(list(part.exercise.fixed(part.most)))
        decode = self.text.tokenizer.decode
        return [
            Example(text=decode(part.exercise.ids(blocks[row]).tolist()).strip(), score=float(nats[row]))
            for row in np.argsort(-nats, kind="stable")[:WORST].tolist()
        ]

    def maps(self, model: Model, sentences: Sequence[str]) -> list[Explanation]:
        return super().maps(model, sentences) if looks(model) else []

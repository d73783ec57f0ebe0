"""The baseline of transcribing: the text that is meant most often."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from seqlab.answers.answer import Judged
from seqlab.answers.written import Items, WrittenAnswer
from seqlab.baselines.baseline import Baseline, Lesson
from seqlab.files import write_json

COMMONEST = "commonest_text.json"


class CommonestText(Baseline):
    """The text that stands most often in the training rows, of equally common ones the first."""

    name = "commonest text"

    def __init__(self, answer: WrittenAnswer, text: str) -> None:
        super().__init__(answer)
        self.text = text

    @classmethod
    def learn(cls, lesson: Lesson, folder: Path) -> Baseline:
        assert isinstance(lesson.answer, WrittenAnswer)
        target = lesson.answer.target
        [(text, _)] = Counter(text for cells in lesson.rows() for text in target.of_row(cells)).most_common(1)
        write_json(folder / COMMONEST, text)
        return cls(lesson.answer, text)

    @classmethod
    def load(cls, answer: WrittenAnswer, folder: Path) -> Baseline | None:
        path = folder / COMMONEST
        return cls(answer, json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None

    def judge(self, part: Items) -> Judged:
        return Judged([self.text] * len(part.references), part.references)

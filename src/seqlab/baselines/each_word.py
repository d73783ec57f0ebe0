"""The same answer to a word wherever it stands."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np

from seqlab.answers.answer import Judged
from seqlab.answers.places import NumbersAnswer, TagsAnswer
from seqlab.baselines.baseline import Baseline, Lesson
from seqlab.data.store import Store
from seqlab.data.words import values_of, words_of
from seqlab.files import write_json

FILE = "commonest_tags.json"


class CommonestTag(Baseline):
    """The commonest tag that a word has in the training rows; of words that are not there, of all."""

    name = "commonest tag"
    does = "each word's commonest tag in the training rows, of unknown words the commonest of all"
    answer: TagsAnswer

    def __init__(self, answer: TagsAnswer, known: dict[str, int]) -> None:
        super().__init__(answer)
        self.known = known
        """The number of the tag of each word."""

    @classmethod
    def learn(cls, lesson: Lesson, folder: Path) -> CommonestTag:
        answer = lesson.answer
        assert isinstance(answer, TagsAnswer)
        counts: dict[str, Counter[str]] = {}
        for cells in lesson.rows():
            for word, tag in zip(words_of(cells), values_of(cells["tags"]), strict=True):
                counts.setdefault(word, Counter())[tag] += 1
        best = {word: max(found, key=lambda tag: (found[tag], tag)) for word, found in counts.items()}
        write_json(folder / FILE, best)
        return cls(answer, _numbered(answer, best))

    @classmethod
    def load(cls, answer: TagsAnswer, folder: Path) -> CommonestTag | None:
        path = folder / FILE
        if not path.exists():
            return None
        return cls(answer, _numbered(answer, json.loads(path.read_text(encoding="utf-8"))))

    def judge(self, part: Store) -> Judged:
        usual = int(np.argmax(self.answer.target.facts.tag_counts))
        said = [
            np.array([self.known.get(word, usual) for word in words], np.int64)
            for words in self.answer.words.texts(part)
        ]
        return Judged(said, self.answer.meant(part))


def _numbered(answer: TagsAnswer, best: dict[str, str]) -> dict[str, int]:
    numbers = {tag: number for number, tag in enumerate(answer.tags)}
    return {word: numbers[tag] for word, tag in best.items() if tag in numbers}


class MeanOfWords(Baseline):
    """Always the mean of the training numbers; of angles, the mean direction."""

    name = "training mean"
    learns = False
    answer: NumbersAnswer

    def judge(self, part: Store) -> Judged:
        meant = self.answer.meant(part)
        mean = self.answer.target.facts.mean
        return Judged([np.full(len(row), mean) for row in meant], meant)

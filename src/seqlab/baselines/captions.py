"""Baselines of captions: the commonest one, and that of the training picture with the nearest mean colour."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

from seqlab.answers.answer import Judged
from seqlab.answers.written import Items, WrittenAnswer
from seqlab.baselines.baseline import Baseline, Lesson
from seqlab.data.batches import chunks
from seqlab.data.store import Store
from seqlab.files import write_json

FIELD = "image"
COMMONEST, NEAREST, COLOURS = "commonest.json", "nearest.json", "colours.safetensors"
AT_ONCE = 256


class CommonestCaption(Baseline):
    """The caption that stands most often in the training rows, of equally common ones the first."""

    name = "commonest caption"

    def __init__(self, answer: WrittenAnswer, caption: str) -> None:
        super().__init__(answer)
        self.caption = caption

    @classmethod
    def learn(cls, lesson: Lesson, folder: Path) -> Baseline:
        counts = Counter(text for texts in _captions(lesson) for text in texts)
        [(caption, _)] = counts.most_common(1)
        write_json(folder / COMMONEST, caption)
        return cls(_written(lesson.answer), caption)

    @classmethod
    def load(cls, answer: WrittenAnswer, folder: Path) -> Baseline | None:
        path = folder / COMMONEST
        return cls(answer, json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None

    def judge(self, part: Items) -> Judged:
        return Judged([self.caption] * len(part.references), part.references)


class NearestColour(Baseline):
    """The caption of the training picture whose mean colour is nearest."""

    name = "nearest colour"
    does = "the caption of the training picture with the nearest mean colour"

    def __init__(self, answer: WrittenAnswer, colours: np.ndarray, captions: list[str]) -> None:
        super().__init__(answer)
        self.colours, self.captions = colours, captions

    @classmethod
    def learn(cls, lesson: Lesson, folder: Path) -> Baseline:
        store = lesson.stores["train"]
        colours = mean_colours(store, np.arange(store.rows))
        captions = [texts[0] for texts in _captions(lesson)]
        if len(captions) > store.rows:  # some were too long to be kept
            written, decode = store.fields["written"], _written(lesson.answer).target.tokenizer.decode
            firsts = written.offsets if written.outer is None else written.offsets[written.outer]
            captions = [decode(written.values[start:end].tolist()) for start, end in pairwise(firsts)]
        save_file({"colours": colours}, str(folder / COLOURS))
        write_json(folder / NEAREST, captions)
        return cls(_written(lesson.answer), colours, captions)

    @classmethod
    def load(cls, answer: WrittenAnswer, folder: Path) -> Baseline | None:
        if not (folder / NEAREST).exists():
            return None
        captions = json.loads((folder / NEAREST).read_text(encoding="utf-8"))
        return cls(answer, load_file(str(folder / COLOURS))["colours"], captions)

    def judge(self, part: Items) -> Judged:
        said = []
        for colour in mean_colours(part.store, part.rows):
            said.append(self.captions[int(((self.colours - colour) ** 2).sum(axis=1).argmin())])
        return Judged(said, part.references)


def mean_colours(store: Store, rows: np.ndarray) -> np.ndarray:
    """N 3: the means of red, green and blue of these pictures of a store."""
    means = []
    for some in chunks(rows.tolist(), AT_ONCE):
        kept = store.fields[FIELD].take(np.array(some))
        lines = np.asarray(kept.values, np.float32).mean(axis=1)  # of each line
        means.append(lines.reshape(len(some), -1, 3).mean(axis=1))  # pictures are squares of one size
    return np.concatenate(means)


def _captions(lesson: Lesson) -> Iterator[list[str]]:
    answer = _written(lesson.answer)
    return (answer.target.of_row(cells) for cells in lesson.rows())


def _written(answer: object) -> WrittenAnswer:
    assert isinstance(answer, WrittenAnswer)
    return answer

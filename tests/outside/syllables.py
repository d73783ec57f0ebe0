"""A task that is not part of seqlab: how many syllables a word has."""

import re
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from seqlab.answers.answer import Judged
from seqlab.answers.row import NumberAnswer, targets_of
from seqlab.baselines.baseline import Baseline
from seqlab.baselines.constant import TrainingMean
from seqlab.fields.number import NumberField
from seqlab.fields.text import TextField
from seqlab.metrics import MAE, Metric
from seqlab.objectives import SquaredError
from seqlab.parts import Facts
from seqlab.report.words import Words, WorstTable
from seqlab.tasks.task import TaskConfig


class Exact(Metric):
    name, title, unit, scale = "exact", "exactly right", "share of words, after rounding", "share"

    def count(self, said, meant):
        return np.stack([np.rint(said) == np.rint(meant), np.ones(len(said), bool)], axis=1).astype(np.int64)

    def score(self, counts):
        return np.asarray(counts[..., 0] / counts[..., 1])


class VowelGroups(Baseline):
    name, does, learns = "vowels", "counts groups of vowels", False

    def judge(self, part):
        said = [len(re.findall("[aeiouy]+", word)) for word in self.answer.reads.texts(part)]
        return Judged(np.array(said, float), self.answer.target.in_units(targets_of(part)))


@dataclass(frozen=True, kw_only=True)
class Syllables(TaskConfig, kind="syllables"):
    default, example, data_example = "gru", "banana", "words.csv"
    passes: ClassVar = ((float("inf"), 20),)

    @staticmethod
    def presets(size):
        model = {
            "input": {"kind": "tokens", "width": 16},
            "encoder": {"kind": "gru", "width": 16},
            "pool": {"kind": "mean"},
        }
        return {
            "gru": {"data": {"tokens": {"kind": "characters"}}, "model": model | {"head": {"kind": "linear"}}}
        }

    def fields(self, data, learnt=None):
        return [TextField(), NumberField("syllables", ("syllables",))]

    def answer(self, known):
        return NumberAnswer(known, known.fields[1], metrics=[Exact(), MAE()])

    def baselines(self):
        return (TrainingMean, VowelGroups)

    def imagined(self, symbols, outputs):
        return Facts({"text": symbols}, {"row": 1})

    def objectives(self, model):
        return [(1.0, SquaredError())]

    def words(self, answer):
        worst = WorstTable("The worst counts", ("word", "meant", "said", "error"), "Often silent letters.")
        shell, python = ('seqlab predict . "banana"',), ('run.predict("banana").value',)
        return Words(
            purpose="counts the syllables of a word", scored="words", worst=worst, shell=shell, python=python
        )

"""The same answer to everything: the commonest label, or the mean of the training numbers."""

from __future__ import annotations

import numpy as np

from seqlab.answers.answer import Judged
from seqlab.answers.row import LabelAnswer, NumberAnswer, targets_of
from seqlab.baselines.baseline import Baseline
from seqlab.data.store import Store


class Majority(Baseline):
    """Always the commonest label of the training rows."""

    name = "majority"
    learns = False
    answer: LabelAnswer

    def judge(self, part: Store) -> Judged:
        commonest = int(np.array(self.answer.target.facts.label_counts).argmax())
        return Judged(np.full(part.rows, commonest), targets_of(part))


class TrainingMean(Baseline):
    """Always the mean of the training numbers."""

    name = "training mean"
    learns = False
    answer: NumberAnswer

    def judge(self, part: Store) -> Judged:
        target = self.answer.target
        return Judged(np.full(part.rows, target.facts.mean), target.in_units(targets_of(part)))

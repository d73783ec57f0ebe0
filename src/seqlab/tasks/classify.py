"""The task `classify`: a label, or a number, for a text or a pair of texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from seqlab import rules
from seqlab.answers.answer import Answer, Known
from seqlab.answers.row import LabelAnswer, NumberAnswer
from seqlab.baselines.bag import BagOfNGrams
from seqlab.baselines.baseline import Baseline
from seqlab.baselines.constant import Majority, TrainingMean
from seqlab.config import NotNegative, Probability, Tree, dump
from seqlab.data.read import DataConfig
from seqlab.data.sound import SoundConfig
from seqlab.encoders import Transformer
from seqlab.errors import UserError, one_of
from seqlab.fields.field import Field
from seqlab.fields.image import ImageField
from seqlab.fields.label import LabelField
from seqlab.fields.number import NumberField
from seqlab.fields.sound import SoundField
from seqlab.fields.text import TextField
from seqlab.fields.values import ValuesField
from seqlab.model import ModelConfig
from seqlab.objectives import CrossEntropy, HopPenalty, SquaredError
from seqlab.parts import Facts, Objective
from seqlab.report.words import HEARD, OFTEN, SEEN, Words, WorstTable
from seqlab.tasks import classify_presets
from seqlab.tasks.task import TaskConfig, TrainedRun, Weighted


@dataclass(frozen=True, kw_only=True)
class Classify(TaskConfig, kind="classify"):
    """A label (or a number) for a text, or for a pair of texts."""

    reads: Literal["text", "values", "sound", "image"] = "text"
    """What is read: a text or a pair of texts; values, a series of numbers; sound, a recording; or image, a
    picture."""
    target: Literal["label", "number"] = "label"
    """What to predict: one of several labels, or a number (regression)."""
    smoothing: Probability = 0.0
    """Share of the target probability that is spread over all labels."""
    penalty: NotNegative = 0.0
    """Weight of the term that keeps the hops of structured attention apart."""
    penalty_kind: Literal["overlap", "kl"] = "overlap"
    """overlap: ‖AAᵀ − I‖². kl: divergence between hops; costlier and less stable."""

    example: ClassVar[str] = "worth every minute"
    data_example: ClassVar[str] = "reviews.csv"
    default: ClassVar[str] = "bilstm"
    readable: ClassVar = ("text", "image", "sound", "values")
    passes: ClassVar = (
        (3_000, 30),
        (10_000, 20),
        (50_000, 12),
        (200_000, 6),
        (1_000_000, 3),
        (rules.ENDLESS, 1),
    )
    presets = staticmethod(classify_presets.presets)

    def fields(self, data: DataConfig, learnt: Mapping[str, Any] | None = None) -> list[Field]:
        kinds: dict[str, Callable[[], Field]]
        kinds = {"text": TextField, "values": ValuesField, "sound": SoundField, "image": ImageField}
        return [kinds[self.reads](), NumberField() if self.target == "number" else LabelField()]

    def answer(self, known: Known) -> Answer:
        target = known.fields[1]
        if isinstance(target, NumberField):
            return NumberAnswer(known, target)
        assert isinstance(target, LabelField)
        return LabelAnswer(known, target)

    def baselines(self) -> Sequence[type[Baseline]]:
        first = TrainingMean if self.target == "number" else Majority
        return (first, BagOfNGrams) if self.reads == "text" else (first,)

    def imagined(self, symbols: int, outputs: int) -> Facts:
        return Facts(
            symbols={field: symbols for field in ("text", "characters", "grams")},
            outputs={"row": outputs},
            features={"values": SoundConfig().bands if self.reads == "sound" else 1, "image": 3},
        )

    def objectives(self, model: ModelConfig) -> Weighted:
        if model.pool is None or model.head is None:
            raise UserError(
                what="The model has no pool or no head.",
                why=f"{self.kind} gives one answer a row: the states are pooled, and a head answers.",
                fix="Set model.pool.kind=mean and model.head.kind=linear.",
            )
        self._refuse_other_input(model)
        first: Objective = (
            SquaredError() if self.target == "number" else CrossEntropy(smoothing=self.smoothing)
        )
        terms = [(1.0, first)]
        if self.penalty > 0:
            if model.pool.kind != "structured":
                raise UserError(
                    what=f'task.penalty is {self.penalty:g} but model.pool.kind is "{model.pool.kind}".',
                    why="The penalty keeps the hops of structured attention apart; this pool has no hops.",
                    fix="Set model.pool.kind=structured or task.penalty=0.",
                )
            terms.append((self.penalty, HopPenalty(self.penalty_kind)))
        return terms

    def _refuse_other_input(self, model: ModelConfig) -> None:
        """Real numbers are no tokens, and the other way round."""
        inputs = {"values": ("values", "vectors"), "sound": ("values", "vectors"), "image": ("image", "grid")}
        others = {"values", "image", "label"}
        found = model.input
        if found is None:
            return
        wanted, usual = inputs.get(self.reads, ("", "tokens"))
        if found.reads != wanted if wanted else found.reads in others:
            raise UserError(
                what=f'task.reads is {self.reads}, but model.input.kind is "{found.kind}".',
                why=f"That input reads {'tokens' if found.reads not in others else found.reads}.",
                fix=f"Set model.input.kind={usual}, or leave it to a preset: --model NAME",
            )

    @classmethod
    def adopt(cls, source: TrainedRun, parts: str) -> Tree:
        reader, encoder = source.reader()
        recurrent = not isinstance(encoder, Transformer)
        reader = replace(reader, dropout=max(reader.dropout, rules.fine_tuning_dropout(recurrent)))
        data: Tree = {} if recurrent else {"length": source.longest(encoder)}
        return {
            "data": data | {"marks": source.settings.task.around},
            "model": {
                "input": dump(reader),
                "encoder": dump(encoder),
                "places": None,
                "decoder": None,
                "pool": {"kind": "mean"},  # by maximum recurrent bodies start later
            },
            "training": {"rate": rules.fine_tuning_rate(recurrent)},
        }

    def words(self, answer: Answer) -> Words:
        labels = answer.labels if isinstance(answer, LabelAnswer) else ()
        noun, yours = answer.reads.noun, answer.reads.yours
        often = {"image": SEEN, "sound": HEARD}.get(answer.reads.kind, OFTEN)
        return Words(
            purpose=_purpose(labels, answer.reads.noun),
            summed="rows",
            drawn=1,
            worst=WorstTable("The mistakes it is surest of", (noun, "meant", "said", "sure of it"), often)
            if labels
            else WorstTable("The largest errors", (noun, "meant", "said", "error"), often),
            shell=(f'seqlab predict . "{yours}"', "seqlab evaluate . more.csv"),
            explain=f'seqlab explain . "{yours}" --out map.html',
            python=(f'run.predict(["{yours}"])[0].{"label" if labels else "value"}',),
        )


def _purpose(labels: Sequence[str], noun: str) -> str:
    if not labels:
        return f"predicts a number for a {noun}"
    if len(labels) > 8:
        return f"predicts one of {len(labels)} labels for a {noun}"
    return f"predicts for a {noun} {one_of([f'“{label}”' for label in labels])}"

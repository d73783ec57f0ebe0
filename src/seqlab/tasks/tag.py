"""The task `tag`: a tag, a number or an angle for each word of a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from seqlab import rules
from seqlab.answers.answer import Answer, Known
from seqlab.answers.places import NumbersAnswer, TagsAnswer
from seqlab.baselines.baseline import Baseline
from seqlab.baselines.each_word import CommonestTag, MeanOfWords
from seqlab.config import Tree, dump
from seqlab.data.read import DataConfig
from seqlab.encoders import Transformer
from seqlab.errors import UserError
from seqlab.fields.field import Field
from seqlab.fields.numbers import AnglesField, NumbersField
from seqlab.fields.tags import TagsField
from seqlab.fields.words import WordsField
from seqlab.model import ModelConfig
from seqlab.objectives import SquaredError, Surprise
from seqlab.outputs import Crf
from seqlab.parts import Facts
from seqlab.report.words import Words, WorstTable
from seqlab.tasks import tag_presets
from seqlab.tasks.task import TaskConfig, TrainedRun, Weighted

CUT = (
    "Text that is not cut into words is cut simply, into words and single marks. Give the words where the "
    "training data was cut otherwise."
)


@dataclass(frozen=True, kw_only=True)
class Tag(TaskConfig, kind="tag"):
    """A tag for each word: parts of speech, entities; or a number, or an angle."""

    target: Literal["tags", "number", "angle"] = "tags"
    """What to predict for each word: one of several tags, a number, or an angle in degrees."""
    mend: bool = False
    """Read a tag that goes on with no span as its beginning, as conlleval does (and IOB1 means it), instead
    of refusing the sentence."""

    example: ClassVar[str] = "John lives in Paris"
    data_example: ClassVar[str] = "train.conll"
    default: ClassVar[str] = "bilstm-crf"
    instead: ClassVar = {"task.target=number": "bilstm", "task.target=angle": "bilstm"}
    passes: ClassVar = ((1_000, 40), (3_000, 30), (10_000, 20), (50_000, 8), (200_000, 4), (rules.ENDLESS, 2))
    presets = staticmethod(tag_presets.presets)

    def fields(self, data: DataConfig, learnt: Mapping[str, Any] | None = None) -> list[Field]:
        target = {"tags": lambda: TagsField(self.mend), "number": NumbersField, "angle": AnglesField}
        return [WordsField(), target[self.target]()]

    def answer(self, known: Known) -> Answer:
        words, target = known.fields
        assert isinstance(words, WordsField)
        if isinstance(target, NumbersField):
            return NumbersAnswer(known, words, target)
        assert isinstance(target, TagsField)
        return TagsAnswer(known, words, target)

    def baselines(self) -> Sequence[type[Baseline]]:
        return (CommonestTag if self.target == "tags" else MeanOfWords,)

    def imagined(self, symbols: int, outputs: int) -> Facts:
        return Facts(symbols={"text": symbols, "characters": 100}, outputs={"places": outputs})

    def objectives(self, model: ModelConfig) -> Weighted:
        if model.places is None or model.pool is not None:
            raise UserError(
                what="model.places is empty." if model.places is None else "The model has a pool.",
                why=f"{self.kind} gives one answer a word: a head answers at each of them.",
                fix="Set model.places.kind=linear, and leave model.pool and model.head empty.",
            )
        if model.input is None or model.input.reads not in ("tokens", "characters"):
            kind = "empty" if model.input is None else f"of kind {model.input.kind}"
            raise UserError(
                what=f"model.input is {kind}.",
                why=f"{self.kind} answers for each word: they are read as tokens, or by their characters.",
                fix="Set model.input.kind=tokens, or of: characters in a nested input.",
            )
        if self.target == "tags":
            return [(1.0, Surprise())]
        if isinstance(model.places, Crf):
            raise UserError(
                what=f'task.target is "{self.target}" but model.places.kind is "crf".',
                why="A CRF joins labels; numbers have none.",
                fix="Set model.places.kind=linear, or choose --model bilstm.",
            )
        return [(1.0, SquaredError("places"))]

    @classmethod
    def adopt(cls, source: TrainedRun, parts: str) -> Tree:
        reader, encoder = source.reader()
        recurrent = not isinstance(encoder, Transformer)
        reader = replace(reader, dropout=max(reader.dropout, rules.fine_tuning_dropout(recurrent)))
        length = 100_000 if recurrent else source.longest(encoder)
        return {
            "data": {"marks": source.settings.task.around, "length": length},
            "model": {
                "input": dump(reader),
                "encoder": dump(encoder),
                "places": {"kind": "linear"},
                "decoder": None,
                "pool": None,
                "head": None,
            },
            "training": {"rate": rules.fine_tuning_rate(recurrent)},
        }

    def words(self, answer: Answer) -> Words:
        tags = isinstance(answer, TagsAnswer)
        counted = "Of a sentence, the words that it got wrong" if tags else "The mean error of a sentence"
        what = {"tags": "a tag", "number": "a number", "angle": "an angle"}[self.target]
        return Words(
            purpose=_purpose(answer) if isinstance(answer, TagsAnswer) else f"predicts {what} for each word",
            counted="sentences",
            scored="sentences",
            worst=WorstTable(
                "The worst sentences",
                ("sentence", "wrong" if tags else "mean error"),
                f"{counted}; below each word what was said of it and, where that is wrong, what was meant."
                " Often these are mistakes in the data: worth reading first.",
                digits=0 if tags else None,
            ),
            shell=(
                'seqlab predict . "John lives in Paris"',
                "seqlab predict . --input texts.txt --output tagged.conll",
                "seqlab evaluate . more.conll",
            ),
            python=(f'run.predict([["John", "lives", "in", "Paris"]])[0].{"tags" if tags else "values"}',),
            limits=(CUT,),
        )


def _purpose(answer: TagsAnswer) -> str:
    if (scheme := answer.target.scheme) is None:
        return f"gives each word one of {len(answer.tags)} tags"
    shown = ", ".join(scheme.types[:8]) + (", ..." if len(scheme.types) > 8 else "")
    return f"finds spans in a sentence ({shown})"

"""The task `caption`: a text for a picture, as `translate` reading images, with the metrics of captions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from seqlab import rules
from seqlab.answers.answer import Answer, Known
from seqlab.baselines.baseline import Baseline
from seqlab.baselines.captions import CommonestCaption, NearestColour
from seqlab.data.read import DataConfig
from seqlab.fields.field import Field
from seqlab.parts import Facts
from seqlab.report.words import Words
from seqlab.tasks import writing


@dataclass(frozen=True, kw_only=True)
class Caption(writing.Writes, kind="caption"):
    """A text for a picture."""

    metric: Literal["bleu", "chrf", "cider"] = "bleu"
    """What decides which weights are best: BLEU-4, chrF for short names, or CIDEr-D."""

    example: ClassVar[str] = "picture.png"
    data_example: ClassVar[str] = "captions.jsonl"
    default: ClassVar[str] = "cnn-lstm-attention"
    readable: ClassVar = ("image",)
    passes: ClassVar = ((3_000, 40), (10_000, 20), (50_000, 10), (rules.ENDLESS, 3))
    stretch: ClassVar[float] = 4.0
    presets = staticmethod(writing.picture_presets)

    @property
    def source(self) -> str:
        return "image"

    def fields(self, data: DataConfig, learnt: Mapping[str, Any] | None = None) -> list[Field]:
        return writing.picture_fields()

    def answer(self, known: Known) -> Answer:
        return writing.picture_answer(known, self.metric)

    def baselines(self) -> Sequence[type[Baseline]]:
        return (CommonestCaption, NearestColour)

    def imagined(self, symbols: int, outputs: int) -> Facts:
        return writing.picture_facts(symbols)

    def words(self, answer: Answer) -> Words:
        return writing.picture_words(answer)

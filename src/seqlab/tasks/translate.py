"""The task `translate`: a text for a text. From one language to another, from spelling to sound, from
question to answer; and for a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from seqlab import rules
from seqlab.answers.answer import Answer, Known
from seqlab.answers.written import WrittenAnswer
from seqlab.baselines.baseline import Baseline
from seqlab.baselines.captions import CommonestCaption, NearestColour
from seqlab.baselines.copies import Copy, WordByWord
from seqlab.baselines.transcripts import CommonestText
from seqlab.config import Probability, Tree, dump
from seqlab.data.read import DataConfig
from seqlab.errors import UserError, one_of
from seqlab.fields.field import Field
from seqlab.fields.source import SourceField
from seqlab.fields.target import TargetField
from seqlab.inputs import Tokens
from seqlab.metrics import Metric
from seqlab.parts import Facts
from seqlab.report.words import Words, WorstTable
from seqlab.tasks import translate_presets, translate_sound, writing
from seqlab.tasks.published import PUBLISHED
from seqlab.tasks.task import Size, TrainedRun
from seqlab.tasks.writing import Writes
from seqlab.text_metrics import Bleu, Chrf, SequenceErrorRate, TokenErrorRate


@dataclass(frozen=True, kw_only=True)
class Translate(Writes, kind="translate"):
    """A text for a text, for a picture, or for a recording."""

    reads: Literal["text", "image", "sound"] = "text"
    """What is read: a text; image, a picture; or sound, a recording, which is transcribed."""
    joint: bool | None = None
    """One vocabulary for both sides; empty: unless data.target_tokens says how the written side is cut."""
    open_ends: Probability = 0.05
    """Share of the sources, others in every epoch, that are learnt without the full stop at their end: many
    people type none."""
    metric: Literal["bleu", "chrf", "cider", "errors"] | None = None
    """What decides which weights are best. cider: of captions alone; errors: wrong tokens between spaces, for
    targets such as sounds, or wrong characters of what is said in a recording. Empty: bleu, of recordings
    errors."""

    example: ClassVar[str] = "I am a student"
    data_example: ClassVar[str] = "train.en,train.fr"
    default: ClassVar[str] = "transformer"
    published: ClassVar = {"transformer-base": PUBLISHED["transformer-base"]}
    readable: ClassVar = ("text", "image", "sound")
    passes: ClassVar = (
        (3_000, 60),
        (10_000, 40),
        (50_000, 20),
        (200_000, 10),
        (1_000_000, 4),
        (rules.ENDLESS, 2),
    )
    stretch: ClassVar[float] = 6.0  # dropout grows with the passes
    decisive: ClassVar[dict[str, tuple[str, ...]]] = {
        "text": ("bleu", "chrf", "errors"),
        "image": ("bleu", "chrf", "cider"),
        "sound": ("errors",),
    }
    """What may decide, by what is read; the first does where nothing is told."""

    @staticmethod
    def presets(size: Size) -> dict[str, Tree]:
        return translate_sound.presets(size) if size.reads == "sound" else translate_presets.presets(size)

    @property
    def source(self) -> str:
        return self.reads

    def fields(self, data: DataConfig, learnt: Mapping[str, Any] | None = None) -> list[Field]:
        if self.reads == "image":
            return writing.picture_fields()
        if self.reads == "sound":
            return translate_sound.fields()
        joint = data.target_tokens is None if self.joint is None else self.joint
        return [SourceField(("source", "target") if joint else ("source",)), TargetField(joint)]

    def answer(self, known: Known) -> Answer:
        if self.reads == "image":
            return writing.picture_answer(known, self.metric or self.decisive["image"][0])
        if self.reads == "sound":
            return translate_sound.answer(known)
        source, target = known.fields
        assert isinstance(source, SourceField) and isinstance(target, TargetField)
        return WrittenAnswer(known, source, target, self.metrics, self.open_ends)

    @property
    def metrics(self) -> list[Metric]:
        """What is scored, the deciding metric first."""
        if self.metric == "errors":
            return [TokenErrorRate(), SequenceErrorRate()]
        first: list[Metric] = [Bleu(), Chrf()]
        return [*(reversed(first) if self.metric == "chrf" else first), SequenceErrorRate()]

    def baselines(self) -> Sequence[type[Baseline]]:
        kinds: dict[str, Sequence[type[Baseline]]] = {
            "text": (Copy, WordByWord),
            "image": (CommonestCaption, NearestColour),
            "sound": (CommonestText,),
        }
        return kinds[self.reads]

    def imagined(self, symbols: int, outputs: int) -> Facts:
        if self.reads == "image":
            return writing.picture_facts(symbols)
        if self.reads == "sound":
            return translate_sound.imagined(symbols)
        return Facts(symbols={"text": symbols, "written": symbols}, joint=self.joint is not False)

    def refuse(self, data: DataConfig) -> None:
        super().refuse(data)
        known = self.decisive[self.reads]
        if self.metric is not None and self.metric not in known:
            raise UserError(
                what=f"task.metric is {self.metric}, but what is read is {self.reads}.",
                why=f"What is written for it is scored otherwise: {one_of(known)} can decide.",
                fix=f"Leave it out, or set task.metric={known[0]}.",
            )
        if self.joint and data.target_tokens is not None:
            raise UserError(
                what=f'task.joint is true, but data.target_tokens.kind is "{data.target_tokens.kind}".',
                why="One vocabulary for both sides cuts both in one way.",
                fix="Leave data.target_tokens empty, or set task.joint=false.",
            )

    @classmethod
    def adopt(cls, source: TrainedRun, parts: str) -> Tree:
        model = source.model
        tree: Tree = {"pool": None, "head": None, "places": None}
        if parts in ("all", "encoder") and source.reads:
            reader, encoder = source.reader()
            tree |= {"input": dump(reader), "encoder": dump(encoder)}
        if parts in ("all", "decoder") and source.writes:
            tree["decoder"] = dump(model.decoder)
        if "input" not in tree and "decoder" not in tree:
            raise UserError(
                what=f'transfer.parts is "{parts}", but {source.folder} has no {parts}.',
                why=f"It only {'reads' if source.reads else 'writes'}.",
                fix="Set transfer.parts=all.",
            )
        width = model.input.width if isinstance(model.input, Tokens) else getattr(model.decoder, "width", 0)
        tree.setdefault("decoder", {"width": width})
        if "input" not in tree:
            tree["input"] = {"width": width}
        return {"model": tree, "training": {"rate": 1e-3}}

    def words(self, answer: Answer) -> Words:
        if self.reads == "image":
            return writing.picture_words(answer)
        if self.reads == "sound":
            return translate_sound.words(answer)
        return Words(
            purpose="writes a text for a text",
            counted="pairs",
            scored="texts",
            needs_maps=True,
            written=f"Each was written with decode.beam={answer.known.decode.beam}.",
            worst=WorstTable(
                "The worst translations",
                ("source", "meant", "said", "chrF"),
                "By chrF of the single text. Often these are mistakes in the data, or right in other words:"
                " worth reading first.",
                digits=1,
                wide=True,
            ),
            shell=(
                'seqlab predict . "a text of yours"',
                'seqlab predict . "a text of yours" decode.beam=5',
                "seqlab predict . --input texts.txt --output translations.csv",
                "seqlab evaluate . sources.txt,targets.txt",
            ),
            python=('run.predict(["a text of yours"])[0].text',),
            limits=(
                "It writes something for any text, also for one in a language that it has never read.",
                (
                    "It can leave out, add or turn round what the source says, and still read well: have what"
                    " matters checked by a person."
                ),
                "Longer texts than those it was trained on come out poorly: give their sentences one by one.",
            ),
        )

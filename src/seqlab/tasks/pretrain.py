"""The task `pretrain`: a model learns from text alone, to be put under another task later (or to be asked
itself)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

from seqlab import rules
from seqlab.answers.answer import Answer, Known
from seqlab.answers.blanks import BlanksAnswer, EverywhereAnswer, PairedBlanksAnswer
from seqlab.answers.causal import CausalAnswer
from seqlab.answers.documents import DocumentsAnswer, Learning, document_parts
from seqlab.answers.exercises import Noises
from seqlab.answers.repair import RepairAnswer
from seqlab.baselines.baseline import Baseline
from seqlab.baselines.grams import DocumentGrams
from seqlab.config import NotNegative, Positive, PositiveFloat, Share, Tree, dump
from seqlab.data.corrupt import Noise
from seqlab.data.read import DataConfig
from seqlab.data.tokenizers import SEP
from seqlab.encoders import BothWays
from seqlab.errors import UserError
from seqlab.fields.field import Field
from seqlab.fields.running import DocumentsField, Flow, flow_of
from seqlab.model import ModelConfig
from seqlab.objectives import CrossEntropy, Halves
from seqlab.outputs import Vocabulary
from seqlab.parts import Facts
from seqlab.report.words import SURPRISING, Words, WorstTable
from seqlab.tasks import pretrain_presets
from seqlab.tasks.published import PUBLISHED
from seqlab.tasks.task import TaskConfig, TrainedRun, Weighted

ObjectiveName = Literal["causal", "masked", "masked+next", "blank", "both-ways", "denoise"]


class ObjectiveKind(NamedTuple):
    """What an objective is: how its models answer, what they need, and the words for it."""

    answer: type[DocumentsAnswer]
    needs: str
    """What a model must have, in words."""
    does: str
    """What a model does."""
    scored: str = "sentences"
    asked: str = "the [MASK] was"
    """Something to ask."""
    around: str = "none"
    """What stands around a text, as data.marks calls it."""


KINDS: dict[str, ObjectiveKind] = {
    "causal": ObjectiveKind(
        CausalAnswer, "a decoder alone (--model gpt)", "continues a text", asked="how it begins", around="sep"
    ),
    "masked": ObjectiveKind(
        BlanksAnswer, "places (--model roberta)", "fills the blanks of a text", "blocks", around="cls"
    ),
    "masked+next": ObjectiveKind(
        PairedBlanksAnswer,
        "places, a pool and a head (--model bert)",
        "fills the blanks of a text and says whether one text follows another",
        "pairs",
        around="cls",
    ),
    "blank": ObjectiveKind(
        EverywhereAnswer,
        "places over an encoder of kind both-ways (--model blank-bilstm)",
        "finds each word of a text from all around it",
    ),
    "both-ways": ObjectiveKind(
        EverywhereAnswer,
        "places over an encoder of kind both-ways (--model elmo)",
        "finds each word of a text from each of its sides",
    ),
    "denoise": ObjectiveKind(
        RepairAnswer,
        "an input, an encoder and a decoder (--model bart)",
        "repairs a text",
        "blocks",
        "the [MASK] was late",
    ),
}


@dataclass(frozen=True, kw_only=True)
class Pretrain(TaskConfig, kind="pretrain"):
    """Learning from text without labels."""

    objective: ObjectiveName = "masked"
    """What is learnt: causal (what comes next), masked (BERT's blanks), masked+next (and whether two segments
    follow each other), blank (each word from all around it), both-ways (from each side apart, as ELMo),
    denoise (repair, as BART)."""
    flow: Flow | None = None
    """text: all files are one running text, in which a blank line ends a document. rows: each row, or line,
    is a document.
    Empty: text for .txt files, rows for tables."""
    context: Positive = 128
    """Tokens that are seen at once, [CLS] and [SEP] included."""
    masking: Share = 0.15
    """Share of the tokens that are hidden: of masked, what has to be found; of denoise, what noise takes
    away."""
    whole_words: bool = False
    """Mask all tokens of a word, or none."""
    next_weight: NotNegative = 1.0
    """Weight of the question whether two segments follow each other."""
    halves_weight: NotNegative = 0.0
    """Weight of a contrastive loss between the two halves of a text: which second half belongs to which first
    half, among those of the batch. For masked, blank and both-ways."""
    noises: tuple[Noise, ...] = ("infill", "permute")
    """What spoils a text for denoise: infill (spans become one mask), mask (single tokens), delete, permute
    (sentences), rotate (the text begins at any of its tokens)."""
    span: PositiveFloat = 3.0
    """Mean length of the spans of infill."""
    sampled: Positive | None = None
    """Tokens that the loss compares each answer with while training, an estimate; empty: all of the
    vocabulary."""

    example: ClassVar[str] = "the [MASK] was"
    data_example: ClassVar[str] = "texts.txt"
    default: ClassVar[str] = "roberta"
    published: ClassVar = {name: PUBLISHED[name] for name in pretrain_presets.PUBLISHED_BODIES}
    passes: ClassVar = ((2_000, 40), (10_000, 20), (100_000, 10), (1_000_000, 4), (rules.ENDLESS, 1))
    stretch: ClassVar[float] = 8.0  # rows may be sentences or books, so their number says little
    goes_on: ClassVar[bool] = True
    presets = staticmethod(pretrain_presets.presets)

    def __post_init__(self) -> None:
        if self.context < 8:
            raise ValueError(f"context: {self.context} is too short; give at least 8.")
        if self.halves_weight and self.objective not in ("masked", "blank", "both-ways"):
            raise ValueError(
                f"halves_weight: {self.objective} does not ask which halves belong together; set it to 0."
            )
        if self.objective == "denoise" and not self.noises:
            raise ValueError("noises is empty; denoise needs at least one, for instance noises: [infill].")

    @property
    def kind_of(self) -> ObjectiveKind:
        return KINDS[self.objective]

    @property
    def around(self) -> str:
        return self.kind_of.around

    @property
    def asked(self) -> float:
        return self.masking if self.objective in ("masked", "masked+next") else 1.0

    @property
    def seen(self) -> int:
        return self.context

    def fields(self, data: DataConfig, learnt: Mapping[str, Any] | None = None) -> list[Field]:
        return [
            DocumentsField(
                flow_of(self.flow, data, learnt), self.context, pairs=self.objective == "masked+next"
            )
        ]

    def answer(self, known: Known) -> Answer:
        [text] = known.fields
        assert isinstance(text, DocumentsField)
        noises = Noises(self.masking, self.whole_words, self.noises, self.span)
        learning = Learning(
            objective=self.objective, context=self.context, noises=noises, sampled=self.sampled
        )
        return self.kind_of.answer(known, text, learning)

    def baselines(self) -> Sequence[type[Baseline]]:
        return (DocumentGrams,)

    def imagined(self, symbols: int, outputs: int) -> Facts:
        return document_parts(self.kind_of.answer, symbols)

    def objectives(self, model: ModelConfig) -> Weighted:
        writes, fills = model.decoder is not None, model.places is not None
        fits = {
            "causal": writes and model.input is None,
            "denoise": writes and model.input is not None,
            "masked+next": fills and model.head is not None,
        }.get(self.objective, fills and model.head is None)
        if not fits:
            raise UserError(
                what=f'task.objective is "{self.objective}", which this model can\'t learn.',
                why=f"It needs {self.kind_of.needs}.",
                fix="Choose that --model, or another task.objective.",
            )
        if self.kind_of.answer is EverywhereAnswer:
            self._refuse_seeing(model)
        if writes:
            return [(1.0, CrossEntropy("written", sampled=self.sampled))]
        more: Weighted = [(self.next_weight, CrossEntropy())] if self.objective == "masked+next" else []
        if self.halves_weight:
            more.append((self.halves_weight, Halves(SEP)))
        return [(1.0, CrossEntropy("places", sampled=self.sampled)), *more]

    def _refuse_seeing(self, model: ModelConfig) -> None:
        """A model that sees the word it has to find learns nothing."""
        encoder, places = model.encoder, model.places
        if not (isinstance(encoder, BothWays) and encoder.hides):
            raise UserError(
                what=(
                    f'task.objective is "{self.objective}", but model.encoder shows each position its own'
                    " word."
                ),
                why="A model that is shown the answer learns to copy it.",
                fix=(
                    "Set model.encoder.kind=both-ways and model.encoder.hides=true; or task.objective=masked."
                ),
            )
        if isinstance(places, Vocabulary) and places.halves != (self.objective == "both-ways"):
            raise UserError(
                what=(
                    f'task.objective is "{self.objective}", but model.places.halves is'
                    f" {str(places.halves).lower()}."
                ),
                why="both-ways: each direction answers by itself. blank: they answer together.",
                fix=f"Set model.places.halves={'true' if self.objective == 'both-ways' else 'false'}.",
            )

    @classmethod
    def adopt(cls, source: TrainedRun, parts: str) -> Tree:
        mine = dump(source.settings)
        return {part: mine[part] for part in ("model", "task", "decode")}

    def words(self, answer: Answer) -> Words:
        kind, writes = self.kind_of, self.objective == "causal"
        score = 'run.score(["a text of yours"])[0].perplexity'
        asks = {
            "causal": ('seqlab predict . "how it begins" decode.temperature=0.5 decode.seed=1',),
            "masked+next": (
                "seqlab predict . $'a text\\tthe next one'",
                'seqlab predict . "a text of yours" --embed --json',
            ),
            "denoise": ('seqlab predict . "a text of yours" --embed --json',),
        }.get(
            self.objective,
            (
                'seqlab predict . "a text of yours" --score',
                'seqlab predict . "a text of yours" --embed --json',
            ),
        )
        says = {
            "causal": ('run.score(["a text of yours"])    # perplexity, bits per character',),
            "masked+next": (
                'run.predict([("a text", "the next one")])[0].label',
                'run.embed(["a text of yours"])[0].vector',
            ),
            "denoise": ('run.embed(["a text of yours"])[0].vector',),
        }.get(
            self.objective, (f"{score}    # a pseudo-perplexity", 'run.embed(["a text of yours"])[0].vector')
        )
        field = "blanks" if "[MASK]" in kind.asked and self.objective != "denoise" else "text"
        return Words(
            purpose=f"{kind.does}; it is meant to be put under other tasks",
            counted="characters",
            scored=kind.scored,
            worst=self._worst(),
            when_behind="train longer",  # nobody puts n-grams under another task
            shell=(f'seqlab predict . "{kind.asked}"', *asks, "seqlab evaluate . more.txt"),
            explain=(
                f'seqlab explain . "{"a text of yours" if writes else kind.asked}" --out map.html\n'
                "seqlab train classify reviews.csv --from ."
            ),
            python=(f'run.predict(["{kind.asked}"])[0].{field}', *says),
            limits=(
                (
                    "What it writes or fills in is likely, not true: it knows how texts go, not what is the"
                    " case."
                ),
                (
                    "Its vectors tell texts apart roughly. For a task of your own, put it under that task"
                    " with --from and a few labels."
                ),
            ),
        )

    def _worst(self) -> WorstTable:
        if self.objective in ("masked", "masked+next"):
            return WorstTable(
                "The mistakes it is surest of",
                ("text", "meant", "said", "sure of it"),
                "Of the first blocks that were scored. The missing piece is a word or a part of one; what it"
                " says is often as right.",
            )
        if self.objective == "denoise":
            return WorstTable(
                "What it repaired worst",
                ("text", "nats per piece"),
                "By the loss over the whole block, which it read spoilt.",
            )
        return WorstTable("What surprised it most", ("sentence", "bits per character"), SURPRISING, digits=2)

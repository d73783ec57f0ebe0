"""What the tasks share that write a text for what is read, and what of it is about pictures."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from seqlab import rules
from seqlab.answers.answer import Answer, Known
from seqlab.answers.written import WrittenAnswer
from seqlab.caption_metrics import CaptionBleu, CaptionBleu1, CaptionBleu2, CaptionBleu3, CaptionChrf, CiderD
from seqlab.config import Probability, Tree
from seqlab.errors import UserError
from seqlab.fields.field import Field, ReadField
from seqlab.fields.image import ImageField
from seqlab.fields.target import CAPTION, TargetField
from seqlab.metrics import Metric
from seqlab.model import ModelConfig
from seqlab.objectives import CrossEntropy
from seqlab.parts import Facts
from seqlab.report.words import Words, WorstTable
from seqlab.tasks.task import Size, TaskConfig, Weighted


@dataclass(frozen=True, kw_only=True)
class Writes(TaskConfig):
    """A task whose model writes a text for what it reads."""

    smoothing: Probability = 0.1
    """Share of the target probability that is spread over the whole vocabulary."""

    inputs: ClassVar[dict[str, tuple[str, str]]] = {
        "text": ("tokens", "the pieces of a text, one after the other"),
        "image": ("image", "a picture"),
        "sound": ("values", "a recording, frame by frame"),
    }
    """What an input has to read, and that in words, by what the task reads."""

    @property
    @abstractmethod
    def source(self) -> str:
        """What is read: text, image or sound."""

    def objectives(self, model: ModelConfig) -> Weighted:
        if model.decoder is None:
            raise UserError(
                what="model.decoder is empty.",
                why=(
                    f"{self.kind} writes a text, and what writes is a decoder; a pool and a head give one"
                    " answer a row."
                ),
                fix=(
                    "Set model.decoder.kind=causal and leave model.pool and model.head empty, or choose"
                    f" --model {self.default}"
                ),
            )
        wanted, told = self.inputs[self.source]
        if model.input is None or model.input.reads != wanted:
            usual = {"image": "grid", "values": "vectors"}.get(wanted, wanted)
            raise UserError(
                what=f"model.input is {'empty' if model.input is None else f'of kind {model.input.kind}'}.",
                why=f"{self.kind} reads {told}.",
                fix=f"Set model.input.kind={usual}.",
            )
        return [(1.0, CrossEntropy("written", self.smoothing))]


# Pictures ---------------------------------------------------------------------------------------------------


def picture_fields() -> list[Field]:
    """A picture, and one or several captions."""
    return [ImageField(), TargetField(False, beside="", role=CAPTION)]


def picture_answer(known: Known, deciding: str) -> Answer:
    """What is written for a picture; `deciding` names the metric that stands first."""
    metrics: list[Metric] = [
        CaptionBleu(),
        CiderD(),
        CaptionChrf(),
        CaptionBleu3(),
        CaptionBleu2(),
        CaptionBleu1(),
    ]
    metrics.sort(key=lambda metric: metric.name != deciding)
    source, target = known.fields
    assert isinstance(source, ReadField) and isinstance(target, TargetField)
    return WrittenAnswer(known, source, target, metrics, called="caption")


def picture_facts(symbols: int) -> Facts:
    """What the data would have decided, for `inspect` without data."""
    return Facts(symbols={"written": symbols}, features={"image": 3})


def picture_presets(size: Size) -> dict[str, Tree]:
    """Models that caption: a CNN, some with self-attention over (x, y), and an LSTM or a Transformer that
    writes."""
    drop = rules.dropout(size.passes)
    width = rules.caption_width(size.planned)
    layer = {"kind": "transformer", "layers": 2, "heads": 4, "feed_forward": 4 * width, "dropout": drop}
    channels = rules.grid_channels(size.words, width)
    grid = {"kind": "grid", "channels": channels, "dropout": drop}
    placed = grid | {"positions": {"kind": "sinusoidal"}}
    looking = {**layer, "scale_embedding": False, "positions": {"kind": "none"}}
    writing = {"kind": "causal", "width": width, "dropout": drop, "body": layer}
    data = {"tokens": {"kind": "words"}}
    training = {"batch_tokens": rules.picture_batch(size.words), "rate": 2e-3}

    def attending(**settings: object) -> Tree:
        body = {"kind": "lstm", "width": 2 * width}
        common = {"kind": "attending", "width": width, "dropout": drop, "output_dropout": drop, "body": body}
        return {**common, **settings}

    def preset(input: Tree, encoder: Tree, decoder: Tree) -> Tree:
        model = {"input": input, "encoder": encoder, "pool": None, "head": None, "decoder": decoder}
        return {"data": data, "model": model, "training": training}

    none = {"kind": "none"}
    return {
        "cnn-lstm": preset(grid, none, attending(attend="none", context="every-step")),
        "cnn-lstm-attention": preset(placed, none, attending(attend="early")),
        "cnn-transformer": preset(placed, none, writing),
        "spatial-transformer": preset(placed, looking, writing),
    }


def picture_words(answer: Answer) -> Words:
    return Words(
        purpose="writes a caption for a picture",
        counted="pictures",
        scored="pictures",
        needs_maps=True,
        written=f"Each was written with decode.beam={answer.known.decode.beam}.",
        worst=WorstTable(
            "The worst captions",
            ("picture", "meant", "said", "chrF"),
            "By chrF of the single caption. Often it is right in other words, or the picture shows what is"
            " rare in the training data: worth looking at first.",
            digits=1,
            wide=True,
        ),
        shell=(
            "seqlab predict . picture.png",
            "seqlab predict . picture.png decode.beam=5",
            "seqlab predict . --input pictures/ --output captions.csv",
            "seqlab evaluate . captions.jsonl data.images=pictures/",
        ),
        explain="seqlab explain . picture.png --out map.html",
        python=('run.predict(["picture.png"])[0].text',),
        limits=(
            "It writes something for any picture, also for one that shows what it has never seen.",
            "It can name things that are not there, and leave out what matters: have it checked by a person.",
        ),
    )

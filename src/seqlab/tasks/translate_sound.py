"""What `translate` is where it reads recordings: it transcribes, letter by letter."""

from __future__ import annotations

from seqlab import rules
from seqlab.answers.answer import Answer, Known
from seqlab.answers.written import WrittenAnswer
from seqlab.config import Tree
from seqlab.data.read import Role
from seqlab.fields.field import Field
from seqlab.fields.sound import SoundField
from seqlab.fields.target import TargetField
from seqlab.parts import Facts
from seqlab.report.words import Words, WorstTable
from seqlab.tasks.task import Size
from seqlab.text_metrics import CharacterErrorRate, SequenceErrorRate, WordErrorRate

TRANSCRIPT = Role(
    "target", ("target", "text", "transcript", "transcription", "sentence", "words", "word"), in_order=True
)
"""What is said in a recording."""


def fields() -> list[Field]:
    return [SoundField(), TargetField(False, beside="", role=TRANSCRIPT)]


def answer(known: Known) -> Answer:
    source, target = known.fields
    assert isinstance(source, SoundField) and isinstance(target, TargetField)
    metrics = [CharacterErrorRate(), WordErrorRate(), SequenceErrorRate()]
    return WrittenAnswer(known, source, target, metrics, called="transcript")


def imagined(symbols: int) -> Facts:
    """What the data would have decided, for `inspect` without data."""
    return Facts(symbols={"written": symbols}, features={"values": 40})


def presets(size: Size) -> dict[str, Tree]:
    """Recordings have many frames for each letter: two are read as one, and a layer of convolution in front
    halves what is left."""
    drop = rules.dropout(size.passes)
    width = rules.translation_width(size.planned)
    frames = {"kind": "vectors", "width": width, "stack": 2, "dropout": drop}
    halving = {"kind": "conv", "width": width, "kernel": 5, "stride": 2}
    conv = {"kind": "conv", "width": width, "layers": 4, "kernel": 5, "residual": True, "dropout": drop}
    layer = {"kind": "transformer", "layers": 3, "heads": 4, "feed_forward": 4 * width, "dropout": drop}

    def stacked(encoder: Tree) -> Tree:
        return {"kind": "stack", "encoders": [halving, encoder]}

    def both(kind: str) -> Tree:
        return stacked({"kind": kind, "width": width, "directions": "both"})

    def attending(kind: str, **settings: object) -> Tree:
        body = {"kind": kind, "width": 2 * width}
        return {"kind": "attending", "body": body, "output_dropout": drop, **settings}

    def preset(encoder: Tree, decoder: Tree, rate: float = 3e-3) -> Tree:
        written = {"width": width, "dropout": drop, **decoder}
        model = {"input": frames, "encoder": encoder, "pool": None, "head": None, "decoder": written}
        training = {"rate": rate, "batch_tokens": rules.sound_batch(size.words)}
        return {"data": {"tokens": {"kind": "characters"}}, "model": model, "training": training}

    blind = attending("lstm", attend="none", context="every-step")
    return {
        "lstm": preset(both("lstm"), blind),
        "lstm-attention": preset(both("lstm"), attending("lstm")),
        "gru-attention": preset(both("gru"), attending("gru")),
        "cnn-attention": preset(stacked(conv), attending("lstm")),
        "transformer": preset(stacked(layer), {"kind": "causal", "body": layer}, rate=2e-3),
    }


def words(answer: Answer) -> Words:
    return Words(
        purpose="writes down what is said in a recording",
        counted="recordings",
        scored="recordings",
        needs_maps=True,
        written=f"Each was written with decode.beam={answer.known.decode.beam}.",
        worst=WorstTable(
            "The worst transcripts",
            ("recording", "meant", "said", "chrF"),
            "By chrF of the single text. Often these are mistakes in the data, or recordings that say too"
            " little: worth hearing first.",
            digits=1,
            wide=True,
        ),
        shell=(
            "seqlab predict . recording.wav",
            "seqlab predict . recording.wav decode.beam=5",
            "seqlab predict . --input recordings/ --output transcripts.csv",
            "seqlab evaluate . recordings.csv",
        ),
        explain="seqlab explain . recording.wav --out map.html",
        python=('run.predict(["recording.wav"])[0].text',),
        limits=(
            "It writes something for any recording, also for noise or another language.",
            "Recordings that are longer than those it was trained on come out poorly: cut them at pauses.",
        ),
    )

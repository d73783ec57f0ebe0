"""Which pieces of the source a decoder looked at while it wrote: its attention, as a table of what it wrote
by what it read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from seqlab.errors import UserError
from seqlab.model import Model
from seqlab.parts import Batch, Output, record
from seqlab.report.attention import grouped, on_grid, slot_names
from seqlab.report.evidence import gathered
from seqlab.report.explanation import Attributions, Explanation, Map
from seqlab.report.faded import Followed
from seqlab.seq import Seq

LOOKS = ("cross", "look")
"""What the modules by which a decoder looks at its memory are called."""


def align(
    model: Model,
    batch: Batch,
    *,
    text: str,
    said: str,
    read: Sequence[str],
    written: Sequence[str],
    picture: np.ndarray | None = None,
) -> Explanation:
    """Explain what was written for the one source in `batch`, whose `written` ids are run once,
    teacher-forced.

    `read` and `written` are the pieces of both sides: one for each position of the source, one for each id
    after the start. Of a picture the pieces are its slots.
    """
    assert batch.size == 1, "one source at a time"
    model.eval()
    with record(model) as tapes, torch.no_grad():
        output = model(batch)
    grid = output.states.grid if output.states is not None else None
    maps = [on_grid(one, grid) for one in alignment_maps(tapes, slot_names(grid) if grid else read, written)]
    if not maps or output.read is None:
        raise UserError(
            what="This model has no attention between what it reads and what it writes.",
            why=(
                "Its decoder begins from one vector and never looks at the source again, so there is no "
                "alignment to show."
            ),
            fix="Train a model that looks: --model transformer, or lstm-attention",
        )
    beside = _beside_alignment(model, batch, output.read, maps[0], slot_names(grid) if grid else read)
    return Explanation(
        text=text, label=said, scores={}, maps=tuple(maps), method="attention", picture=picture, beside=beside
    )


@dataclass(frozen=True)
class TextFollowed(Followed):
    """The ids (U) that are written: the mean of their log p, each after those before it. e to that is the
    geometric mean of their probabilities."""

    ids: Tensor
    name: str = "a written piece (geometric mean)"
    rows = 16

    def score(self, output: Output) -> Float[Tensor, " K"]:
        scores = output.answers["written"].scores.float().unflatten(0, (-1, len(self.ids)))  # K U V
        wanted = self.ids.view(1, -1, 1).expand(len(scores), -1, 1)
        logs: Tensor = scores.log_softmax(dim=-1).gather(2, wanted)
        return logs.mean(dim=(1, 2))

    def probability(self, output: Output) -> Float[Tensor, " K"]:
        return self.score(output).exp()


def _beside_alignment(
    model: Model, batch: Batch, read: Seq, first: Map, pieces: Sequence[str]
) -> Attributions:
    """What each piece that was read adds to the text that was written."""
    shown = grouped(pieces, read.mask.shape[1])
    like = Map(name="", kind="tokens", weights=np.zeros(len(shown)), pieces=shown, grid=read.grid)
    looked = Map(name="", kind="tokens", weights=first.weights.mean(axis=(0, 1)), pieces=first.pieces)
    followed = TextFollowed(batch.written.values[0, 1:])
    return gathered(model, batch, followed, like, {"attention": looked})


def looks(model: Model) -> bool:
    """Whether there is an alignment to show."""
    return any(_of_decoder(name) for name in record(model).modules)


def alignment_maps(
    tapes: Mapping[str, list[Tensor]], read: Sequence[str], written: Sequence[str]
) -> list[Map]:
    """A map for each layer, and before them, where there are several, the mean of all. `tapes` are of one
    example."""
    found = [tape for name, tape in tapes.items() if tape and _of_decoder(name)]
    layers = [
        torch.cat(tape, dim=2)[0].float().cpu().numpy() for tape in found
    ]  # H U K; a loop records one row a call
    if not layers:
        return []
    rows, columns = layers[0].shape[1:]
    pieces = grouped(read, columns)
    # One that looks before its cell (early) says its first id without a look: a row belongs to the id that is
    # said from what it saw.
    shown = tuple(written[len(written) - rows :])
    named = {f"alignment, layer {place}": layer for place, layer in enumerate(layers, 1)}
    if len(layers) == 1:
        named = {"alignment": layers[0]}
    else:
        mean = np.mean([layer.mean(axis=0) for layer in layers], axis=0, keepdims=True)
        named = {"alignment, mean of all layers and heads": mean, **named}
    return [
        Map(name=name, kind="alignment", weights=some, pieces=pieces, written=shown)
        for name, some in named.items()
    ]


def _of_decoder(name: str) -> bool:
    parts = name.split(".")
    return parts[0] == "decoder" and parts[-1] in LOOKS

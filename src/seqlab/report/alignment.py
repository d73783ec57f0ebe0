"""Which pieces of the source a decoder looked at while it wrote: its attention, as a table of what it wrote
by what it read."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from html import escape

import numpy as np
import torch
from torch import Tensor

from seqlab.errors import UserError
from seqlab.model import Model
from seqlab.parts import Batch, record
from seqlab.report.attention import Explanation, Map, grouped, on_grid, slot_names
from seqlab.report.html import asset

LOOKS = ("cross", "look")
"""What the modules by which a decoder looks at its memory are called."""
WRITTEN = (
    "A row for each piece that was written, a column for each piece that was read: the darker, the more it "
    "was looked at."
)
CSS, SCRIPT = asset("alignment.css"), asset("alignment.js")


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
    if not maps:
        raise UserError(
            what="This model has no attention between what it reads and what it writes.",
            why=(
                "Its decoder begins from one vector and never looks at the source again, so there is no "
                "alignment to show."
            ),
            fix="Train a model that looks: --model transformer, or lstm-attention",
        )
    return Explanation(
        text=text, label=said, scores={}, maps=tuple(maps), method="attention", picture=picture
    )


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


def alignment_table(maps: Sequence[Map]) -> str:
    """Rows are what was written, columns what was read; a cell is as dark as its weight. Menus choose a layer
    and a head."""
    mean, *layers = maps
    weights = mean.weights.mean(axis=0)  # U K
    head = "".join(f"<th scope='col'><span>{escape(_bare(piece))}</span></th>" for piece in mean.pieces)
    rows = []
    for piece, row in zip(mean.written, weights, strict=True):
        cells = "".join(
            f'<td style="--w:{weight:.3f}" title="{escape(_bare(piece))} ← {escape(_bare(other))}: '
            f'{weight:.3f}"></td>'
            for weight, other in zip(row.tolist(), mean.pieces, strict=True)
        )
        rows.append(f"<tr><th scope='row'>{escape(_bare(piece))}</th>{cells}</tr>")
    coded = [
        {
            "heads": len(one.weights),
            "bytes": base64.b64encode(np.rint(255 * one.weights).astype(np.uint8).tobytes()).decode(),
        }
        for one in layers or [mean]
    ]
    return (
        f'<div class="align"><h3>{escape(mean.name)}</h3>'
        f'<p class="small soft">{escape(mean.unit or WRITTEN)}</p>'
        '<div class="controls" hidden><label>layer <select>'
        '<option value="">mean of all</option></select></label>'
        '<label>head <select><option value="">mean of all</option></select></label></div>'
        f'<div class="scroll"><table><thead><tr><th></th>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
        f'<script type="application/json">{json.dumps(coded)}</script></div>'
    )


def _bare(piece: str) -> str:
    return piece.strip() or "␣"

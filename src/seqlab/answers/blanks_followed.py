"""What each token adds to the answer at a blank, or to the judgement of a pair."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from seqlab.answers.fill_blanks import piece_scores
from seqlab.model import Model
from seqlab.parts import Batch, Output, Places
from seqlab.report.evidence import gathered
from seqlab.report.explanation import Attributions, Map
from seqlab.report.faded import Followed, LabelFollowed

NOTHING = "Nothing stands beside it: without a blank there is no one answer whose probability could fall."


@dataclass(frozen=True)
class BlankFollowed(Followed):
    """The id `wanted` at the one place of an example: log p, of two directions the mean of both."""

    wanted: int
    name: str
    rows = 16

    def score(self, output: Output) -> Float[Tensor, " K"]:
        reply = output.answers["places"]
        sides = replace(reply, directions=1).scores.float().log_softmax(dim=-1).chunk(reply.directions)
        return torch.stack([side[:, self.wanted] for side in sides]).mean(dim=0)

    def probability(self, output: Output) -> Float[Tensor, " K"]:
        return piece_scores(output.answers["places"]).softmax(dim=-1)[:, self.wanted]


def beside_a_blank(
    model: Model, batch: Batch, wanted: int, token: str, pieces: tuple[str, ...], looked: Mapping[str, Map]
) -> Attributions:
    """Attributions to the id that is said at the first blank of the one example in `batch`."""
    first = Places(batch.places.positions[:1], batch.places.values[:1])
    alone = replace(batch, targets={"places": first})
    return gathered(model, alone, BlankFollowed(wanted, f"“{token}”"), _shape(pieces), looked)


def beside_a_pair(
    model: Model, batch: Batch, place: int, label: str, pieces: tuple[str, ...], looked: Mapping[str, Map]
) -> Attributions:
    """Attributions to what is said of a pair."""
    return gathered(model, batch, LabelFollowed(place, f"“{label}”"), _shape(pieces), looked)


def _shape(pieces: tuple[str, ...]) -> Map:
    return Map(name="", kind="tokens", weights=np.zeros(len(pieces)), pieces=pieces)

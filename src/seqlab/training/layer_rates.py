"""How fast each layer of a pretrained body learns: frozen, slower the deeper it lies, or unfrozen one after
the other (gradual unfreezing)."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal

from torch import nn

from seqlab.config import Count, Share
from seqlab.errors import UserError

_LAYER = re.compile(r"\.(?:layers|ahead|back|encoders)\.(\d+)\.")
_BELOW = ("embedding.", "segments.", "positions.", "embedding_norm.")


@dataclass(frozen=True, kw_only=True)
class TransferConfig:
    """What a run starts from, and how much of it may change."""

    start: str = ""
    """The folder of a trained run whose body (backbone) is put under this task (--from); empty: all weights
    are new."""
    parts: Literal["all", "encoder", "decoder"] = "all"
    """What translate takes of it: all that fits, what reads, or what writes."""
    freeze: Count | Literal["all"] = 0
    """Layers that stay as they are, counted from the bottom; the vectors of the tokens go with the first.
    all: the whole body."""
    rate_decay: Share = 1.0
    """Each layer learns at so much of the rate of the one above it (discriminative rates); 1: all at the
    same."""
    unfreeze: Share = 0.0
    """Gradual unfreezing: the share of the run in which layers begin to learn, one by one from the top; 0:
    all learn from the start."""


@dataclass(frozen=True)
class LayerRates:
    """The depth of each weight: 0 for what is new, 1 for the top layer of the body, the most for the vectors
    of its tokens."""

    depths: dict[str, int] = field(default_factory=dict)
    config: TransferConfig = TransferConfig()

    @staticmethod
    def of(model: nn.Module, taken: Collection[str], config: TransferConfig) -> LayerRates:
        """Depths of the weights of a model, those in `taken` being its pretrained body. Frozen ones no longer
        learn."""
        layers = 1 + max((layer_of(name) for name in taken), default=-1)
        known = set(taken)
        names = [name for name, _ in model.named_parameters()]
        depths = {name: layers - layer_of(name, top=layers - 1) if name in known else 0 for name in names}
        stays = layers if config.freeze == "all" else config.freeze
        for name, parameter in model.named_parameters():
            if name in known and stays and layer_of(name, top=layers - 1) < stays:
                parameter.requires_grad_(False)
        if not any(parameter.requires_grad for parameter in model.parameters()):
            raise UserError(
                what=f"transfer.freeze is {config.freeze}, and nothing is left to learn.",
                why="All weights of this model come from the run that it starts from.",
                fix="Set transfer.freeze to fewer layers, or 0.",
            )
        return LayerRates(depths, config)

    def depth(self, name: str) -> int:
        return self.depths.get(name, 0)

    def factor(self, depth: int, progress: float) -> float:
        """The share of the rate at which weights of this depth learn when so much of the run is done."""
        deepest = max(self.depths.values(), default=0)
        if depth and progress < self.config.unfreeze * depth / max(1, deepest):
            return 0.0
        return float(self.config.rate_decay**depth)


def layer_of(name: str, top: int = 0) -> int:
    """The number of the layer that a weight belongs to: −1 for the vectors of tokens, `top` for what is above
    all layers."""
    if found := _LAYER.search(f".{name}"):
        return int(found[1])
    return -1 if any(part in f"{name}." for part in _BELOW) or name.endswith("positions.table") else top

"""Outputs: pools turn the states of a row into one vector, heads turn vectors into scores."""

from seqlab.outputs.crf import Crf, CrfHead
from seqlab.outputs.heads import Direct, DirectHead, Linear, LinearHead
from seqlab.outputs.pools import (
    Attention,
    AttentionPool,
    First,
    FirstPool,
    Last,
    LastPool,
    Max,
    MaxPool,
    Mean,
    MeanMax,
    MeanMaxPool,
    MeanPool,
    Pair,
    PairPool,
    Structured,
    StructuredPool,
    kl_penalty,
    overlap_penalty,
)
from seqlab.outputs.vocabulary import Vocabulary, VocabularyHead

__all__ = [
    "Attention",
    "AttentionPool",
    "Crf",
    "CrfHead",
    "Direct",
    "DirectHead",
    "First",
    "FirstPool",
    "Last",
    "LastPool",
    "Linear",
    "LinearHead",
    "Max",
    "MaxPool",
    "Mean",
    "MeanMax",
    "MeanMaxPool",
    "MeanPool",
    "Pair",
    "PairPool",
    "Structured",
    "StructuredPool",
    "Vocabulary",
    "VocabularyHead",
    "kl_penalty",
    "overlap_penalty",
]

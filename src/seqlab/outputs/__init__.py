"""Outputs: pools turn the states of a row into one vector, heads turn vectors into scores."""

from seqlab.outputs.channels import Channels, ChannelsHead
from seqlab.outputs.crf import Crf, CrfHead
from seqlab.outputs.gaussian import Gaussian, GaussianHead, GaussianReply
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
    "Channels",
    "ChannelsHead",
    "Crf",
    "CrfHead",
    "Direct",
    "DirectHead",
    "First",
    "FirstPool",
    "Gaussian",
    "GaussianHead",
    "GaussianReply",
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

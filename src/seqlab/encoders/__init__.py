"""Encoders: a Seq of vectors becomes a Seq of states."""

from seqlab.encoders.both_ways import BothWays, BothWaysEncoder
from seqlab.encoders.conv import Conv, ConvEncoder
from seqlab.encoders.recurrent import Gru, Lstm, RecurrentConfig, RecurrentEncoder, Rnn
from seqlab.encoders.transformer import Transformer, TransformerEncoder
from seqlab.encoders.wrap import NoEncoder, Stack, StackEncoder, Unchanged

__all__ = [
    "BothWays",
    "BothWaysEncoder",
    "Conv",
    "ConvEncoder",
    "Gru",
    "Lstm",
    "NoEncoder",
    "RecurrentConfig",
    "RecurrentEncoder",
    "Rnn",
    "Stack",
    "StackEncoder",
    "Transformer",
    "TransformerEncoder",
    "Unchanged",
]

"""Decoding: greedy, beam, sampling; one for all decoders."""

from seqlab.decode.many import by_length, decode, decode_all
from seqlab.decode.sample import sample, stream
from seqlab.decode.search import search
from seqlab.decode.settings import DecodeConfig, Hypothesis, SpecialIds
from seqlab.decode.words import WordParts

__all__ = [
    "DecodeConfig",
    "Hypothesis",
    "SpecialIds",
    "WordParts",
    "by_length",
    "decode",
    "decode_all",
    "sample",
    "search",
    "stream",
]

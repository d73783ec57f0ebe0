"""Decoders: what writes a sequence of its own, step by step."""

from seqlab.decoders.attending import Attending, AttendingDecoder, MemoryAttention
from seqlab.decoders.causal import Causal, CausalDecoder, WritingDecoder

__all__ = ["Attending", "AttendingDecoder", "Causal", "CausalDecoder", "MemoryAttention", "WritingDecoder"]

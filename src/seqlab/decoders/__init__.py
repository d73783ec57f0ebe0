"""Decoders: what writes a sequence of its own, id by id."""

from seqlab.decoders.attending import Attending, AttendingDecoder, Look
from seqlab.decoders.causal import Answering, Causal, CausalDecoder

__all__ = ["Answering", "Attending", "AttendingDecoder", "Causal", "CausalDecoder", "Look"]

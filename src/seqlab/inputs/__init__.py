"""Inputs: a batch becomes a Seq of vectors."""

from seqlab.inputs.bag import Bag, BagInput
from seqlab.inputs.nested import NestedConfig, NestedContextConfig, NestedContextInput, NestedInput
from seqlab.inputs.tokens import TokenInput, Tokens

__all__ = [
    "Bag",
    "BagInput",
    "NestedConfig",
    "NestedContextConfig",
    "NestedContextInput",
    "NestedInput",
    "TokenInput",
    "Tokens",
]

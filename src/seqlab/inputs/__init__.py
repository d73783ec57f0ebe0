"""Inputs: a batch becomes a Seq of vectors."""

from seqlab.inputs.bag import Bag, BagInput
from seqlab.inputs.image import Grid, GridInput, Patches, PatchInput
from seqlab.inputs.label import LabelInput, LabelSlot
from seqlab.inputs.nested import NestedConfig, NestedContextConfig, NestedContextInput, NestedInput
from seqlab.inputs.tokens import TokenInput, Tokens
from seqlab.inputs.vectors import VectorInput, Vectors, Window, WindowInput

__all__ = [
    "Bag",
    "BagInput",
    "Grid",
    "GridInput",
    "LabelInput",
    "LabelSlot",
    "NestedConfig",
    "NestedContextConfig",
    "NestedContextInput",
    "NestedInput",
    "PatchInput",
    "Patches",
    "TokenInput",
    "Tokens",
    "VectorInput",
    "Vectors",
    "Window",
    "WindowInput",
]

"""Experiments that show the theory, one file each. A lab ends in a table, a picture and a verdict.

    from seqlab.labs import transfer
    outcome = transfer.run(quick=True)

Nothing here imports torch before a lab begins.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from typing import Any

from seqlab.errors import UserError, did_you_mean, one_of

LABS = {
    "bottleneck": "What does attention change as sentences grow? One state against a look at every word.",
    "collapse": "What makes a translation model write one word again and again? The causes, one by one.",
    "costs": "Do layers cost what the classic table says? Time against length and width, exponents fitted.",
    "decoding": "Greedy, beams of 1 to 50 or sampling? Quality, repetition and the curse of wide beams.",
    "formal": "Which languages can't a Transformer of fixed size learn? Accuracy by length and depth.",
    "gradients": "Do gradients vanish? Norms by lag of rnn, gru, lstm and self-attention; effective memory.",
    "heads": "Is one wide attention head as good as several narrow ones, at equal parameters?",
    "masking": "What breaks without the causal mask? The training loss falls, writing fails.",
    "merged": "One query-key matrix a head instead of two: the same attention? And as good?",
    "objectives": (
        "Does reading in both directions beat left to right? Pretrained at equal compute, fine-tuned on the"
        " same rows."
    ),
    "positions": "What do positions tell a Transformer, and what beyond the trained length?",
    "reach": "How far does a convolution see? Accuracy against distance, beside recurrence and attention.",
    "redundancy": "Do the hops of structured attention look at the same place? With and without penalty.",
    "reference": 'Does "it" look at its noun? A task in which attention has to find the referent.',
    "shapes": "Does one body solve all shapes? Vector to sequence, sequence to vector, aligned, unaligned.",
    "transfer": (
        "Does pretraining help where labels are few? Fine-tuned against from scratch, on the same rows."
    ),
    "worked": "What do the formulas give? The course's worked examples, step by step, with their numbers.",
}
"""What each lab asks, by the name of its file."""


def begin(name: str, given: Mapping[str, Any]) -> Any:
    """Run a lab with the options that were given; those that it does not know are refused."""
    if name not in LABS:
        raise UserError(
            what=f'There is no lab "{name}".{did_you_mean(name, LABS)}',
            why=f"The labs are {one_of(LABS)}.",
            fix="List them with: seqlab lab",
        )
    run = importlib.import_module(f"seqlab.labs.{name}").run
    known = inspect.signature(run).parameters
    if strange := [option for option in given if option not in known]:
        names = ", ".join(f"--{'from' if option == 'start' else option}" for option in strange)
        raise UserError(
            what=f"The lab {name} has no {names}.",
            why="Each lab has options of its own.",
            fix=f"Leave {names} out.",
        )
    return run(**given)

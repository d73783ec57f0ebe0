"""The rules that presets follow: what the minutes and the data decide, each with its reason.

What was measured to find them stands in benchmarks/recipes.md, under the name of each rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from seqlab.config import Tree

Held = TypeVar("Held", int, float)
Steps = Sequence[tuple[float, Held]]
"""Rising limits, the last one endless, each with what holds up to it."""
MINUTES = 15.0
"""What presets plan for where the budget is in steps or epochs."""
ENDLESS = float("inf")


def below(value: float, steps: Steps[Held]) -> Held:
    """What holds below the first limit that the value does not reach."""
    return next(held for limit, held in steps if value < limit)


# All tasks --------------------------------------------------------------------------------------------------


def dropout(passes: float | None, early: float = 0.0) -> float:
    """The more often the same text is read, the more has to be dropped, or the model overfits.

    `early` is what is dropped between three and six passes. Where the passes aren't known: a little.
    """
    if passes is None:
        return 0.1
    return below(passes, ((3, 0.0), (6, early), (20, 0.1), (30, 0.2), (ENDLESS, 0.3)))


def epochs(table: Steps[float], rows: int) -> float:
    """Passes over so many rows, after which more would mostly memorise them. A limit counts."""
    return next(passes for limit, passes in table if rows <= limit)


def batch(words: float) -> int:
    """Tokens in a batch: about 32 texts, enough to keep a CPU busy; of long texts, what fits its memory."""
    return int(min(8192, max(768, 32 * words)))


def usual_rate(optimiser: str) -> float:
    """The rate where no preset names one."""
    return {"adamw": 2e-3, "sgd": 1.0}[optimiser]


def usual_decay(optimiser: str) -> float:
    """Weight decay is multiplied by the rate; that of sgd is so high that a little would already be much."""
    return {"adamw": 0.01, "sgd": 0.0}[optimiser]


STRETCH = 2.0
"""So many times the usual passes over the data are made at the most, where the budget is in minutes."""
BAG_TRAINING: Tree = {"rate": 0.03, "weight_decay": 0.1, "clip": 1e3}
"""A linear model over n-grams bears a high rate, and gradients of any length; it needs a pull towards
zero."""


# Labels -----------------------------------------------------------------------------------------------------


def label_dropout(rows: int) -> float:
    """Few labels are soon overfitted."""
    return below(rows, ((10_000, 0.5), (100_000, 0.4), (ENDLESS, 0.2)))


def sound_batch(frames: float) -> int:
    """Frames in a batch of recordings: 32 recordings make enough steps of few epochs and keep a CPU busy."""
    return int(min(32_768, max(1024, 32 * frames)))


def picture_batch(lines: float) -> int:
    """Lines in a batch of pictures: 32 pictures make enough steps of few epochs and keep a CPU busy."""
    return int(32 * max(1.0, lines))


def caption_width(minutes: float) -> int:
    """Few minutes are better spent on more pictures than on more weights."""
    return below(minutes, ((5, 64), (10, 128), (ENDLESS, 192)))


def grid_channels(side: float, width: int) -> list[int]:
    """Features of the stages of a CNN: each halves pictures, and of small ones some slots should be left."""
    return [width // 2, width] if side <= 40 else [width // 4, width // 2, width]


def gram_batch(rows: int, words: float) -> int:
    """N-grams in a batch of a bag: the more rows, the more texts; a word makes about 1.6 of them."""
    return int(below(rows, ((10_000, 64), (100_000, 128), (ENDLESS, 256))) * 1.6 * words) + 256


def tag_dropout(rows: int) -> float:
    """Of words and of states: few sentences are soon overfitted."""
    return below(rows, ((30_000, 0.5), (100_000, 0.3), (ENDLESS, 0.1)))


# Texts for texts --------------------------------------------------------------------------------------------


def translation_width(minutes: float) -> int:
    """Few minutes are better spent on more pairs than on more weights."""
    return below(minutes, ((40, 128), (ENDLESS, 256)))


def translation_batch(minutes: float) -> int:
    """Few minutes buy few tokens; small batches make more steps of them."""
    return below(minutes, ((8, 512), (40, 768), (ENDLESS, 2048)))


def translation_rate(width: int) -> float:
    """Of the Transformer: the wider, the smaller its rate."""
    return 2e-3 if width <= 128 else 1e-3


def reads_deep(words: float, minutes: float) -> bool:
    """Whether two recurrent layers read instead of one.

    Behind two layers attention finds the words of a sentence late. Single words are read letter by letter:
    given some time, two layers find letters soon and know more.
    """
    return words < 2 and minutes >= 20


# Language models --------------------------------------------------------------------------------------------


def drawing() -> Tree:
    """How a language model writes: the likeliest text is dull and repeats itself, at temperature 1 it is
    wild."""
    return {"sample": True, "temperature": 0.8}


def by_characters(characters: int) -> bool:
    """Whether characters are the tokens: in little text most subwords are too rare to be learnt."""
    return characters < 5_000_000


def language_width(minutes: float) -> int:
    """Few minutes are better spent on more text than on more weights."""
    return below(minutes, ((20, 128), (ENDLESS, 192)))


def language_batch(minutes: float) -> int:
    """Few minutes buy few tokens; small batches make more steps of them."""
    return below(minutes, ((8, 512), (ENDLESS, 1024)))


# Pretraining ------------------------------------------------------------------------------------------------


HOUR = 60
"""Minutes below which pretraining is short: bodies are small, and learn from small batches at high rates."""
SAMPLED = 2000
"""Tokens that the loss compares with where every one is answered for: else they are most of the work."""
EARLY = 0.05
"""What blank-bilstm drops between three and six passes: it answers for every token, so it overfits soon."""
HALVES = 0.1
"""Weight of the question about halves in blank-bilstm-halves: it helps a classifier and costs perplexity."""


def body_width(minutes: float) -> int:
    """Few minutes are better spent on more text than on more weights."""
    return below(minutes, ((HOUR, 128), (ENDLESS, 192)))


def state_width(minutes: float) -> int:
    """The same of the LSTMs of elmo and blank-bilstm, which are quicker, so that they can grow sooner."""
    return below(minutes, ((40, 128), (HOUR, 192), (ENDLESS, 384)))


def body_dropout(minutes: float) -> float:
    """A small body that learns from its text for a short time does not overfit."""
    return below(minutes, ((HOUR, 0.0), (ENDLESS, 0.1)))


def pretraining_batch(minutes: float, short: int = 2048) -> int:
    """Few minutes buy few tokens; small batches, of `short` tokens, make more steps of them."""
    return below(minutes, ((HOUR, short), (ENDLESS, 4096)))


def pretraining_rate(minutes: float) -> float:
    """Of Transformers: small ones bear a high rate and make more of few steps with it."""
    return below(minutes, ((HOUR, 5e-3), (ENDLESS, 2e-3)))


def context(minutes: float, short: int, long: int) -> int:
    """Tokens seen at once: what stands near is learnt first, and short blocks make more of few minutes."""
    return below(minutes, ((HOUR, short), (ENDLESS, long)))


# A pretrained body under labels -----------------------------------------------------------------------------


def fine_tuning_rate(recurrent: bool) -> float:
    """Recurrent bodies have learnt at a high rate: a low one hardly moves their large weights."""
    return 6e-3 if recurrent else 1e-3


def fine_tuning_dropout(recurrent: bool) -> float:
    """Of what a body reads, at the least: few labels are soon overfitted, at a high rate sooner."""
    return 0.5 if recurrent else 0.2


def fine_tuning_length(context: int) -> int:
    """Tokens that a body with rotary positions reads, at the least: new distances are learnt along."""
    return max(context, 256)

"""How subwords make up words: which of them go on with a word, and with which letters."""

from __future__ import annotations

import unicodedata
from typing import NamedTuple

from tokenizers import decoders

from seqlab.data.tokenizers import SPECIAL, Tokenizer

APART = "Ġ▁"
"""How pieces write the space before a word."""
PART_OF_A_SIGN = "\ufffd"
"""What some of the bytes of a sign decode to."""


class Subwords(NamedTuple):
    """Lists over the vocabulary."""

    letters: list[str]
    """What a token adds to its word, without the space before it; bytes are one letter each."""
    continues_word: list[bool]
    """A token goes on with the word of the token before it, where that can be continued."""
    can_continue: list[bool]
    space: list[bool]
    """A space by itself."""


def subwords_of(tokenizer: Tokenizer) -> Subwords | None:
    """None where each token counts by itself: whole words, and characters.

    A word is letters and digits with inner apostrophes, or one other sign, as `WordTokens` cuts text. Here
    the bytes of a rare sign are letters, and a space by itself belongs to the word after it. (What is masked
    as a whole word in pretraining is simpler: `Tokenizer.word_parts`.)
    """
    if tokenizer.counts_itself:
        return None
    size, inner = tokenizer.size, tokenizer.inner
    found = Subwords([""] * size, [False] * size, [False] * size, [False] * size)
    bytewise = decoders.ByteLevel() if isinstance(inner.decoder, decoders.ByteLevel) else None
    for piece, number in inner.get_vocab().items():
        found.letters[number] = piece.lstrip(APART)
        if number >= len(SPECIAL):
            text = bytewise.decode([piece]) if bytewise else piece.replace("▁", " ")
            found.continues_word[number] = _is_letter(text[0])
            found.can_continue[number] = _is_letter(text[-1])
            found.space[number] = text == " "
    return found


def _is_letter(sign: str) -> bool:
    return sign.isalnum() or sign in "'’" + PART_OF_A_SIGN or unicodedata.category(sign)[0] == "M"

"""A text with blanks is cut as the whole text would be, and only pieces that fit are put into them."""

import pytest

from seqlab.answers.fill_blanks import TokenTexts
from seqlab.data.corrupt import FIRST
from seqlab.data.tokenizers import BpeTokens, CharacterTokens, UnigramTokens, WordTokens

NAMES = ("Ann", "Ben", "Cleo", "Dora")
STORY = " ".join(
    f"{one} {verb} this {time}. Then {two} calls {one}."
    for verb in ("wakes", "eats", "sleeps")
    for time in ("morning", "evening")
    for one in NAMES
    for two in NAMES
    if one != two
)


@pytest.mark.parametrize(
    "tokens",
    [BpeTokens(vocabulary=300), UnigramTokens(vocabulary=60), WordTokens(), CharacterTokens()],
    ids=lambda tokens: tokens.kind,
)
def test_a_text_is_cut_at_its_blanks_as_the_whole_text_would_be(tokens):
    """With the missing pieces put in, ids and text are those of the text without blanks."""
    tokenizer = tokens.train([STORY])
    words = TokenTexts(tokenizer)
    text = "Ann wakes this morning. Then Ben calls Ann."
    for missing in ("Ann wakes", "this", "Ben"):
        whole = tokenizer.encode([text]).values.tolist()
        cut = words.cut(text.replace(missing, "[MASK]", 1))
        at = int(cut.blanks[0])
        hidden = len(whole) - len(cut.ids) + 1
        pieces = whole[at : at + hidden]
        assert [*cut.ids[:at].tolist(), *pieces, *cut.ids[at + 1 :].tolist()] == whole
        if hidden == 1:
            assert words.fill(cut, pieces).lower() == text.lower()
            assert words.fits(cut, 0)[pieces[0]]
    after = words.cut("this [MASK]. Then")
    assert words.texts[after.ids[after.blanks[0] + 1]] == "."  # no space slipped in between


def test_a_blank_within_a_word_takes_any_piece_but_marks():
    words = TokenTexts(BpeTokens(vocabulary=300).train([STORY]))
    inside, alone = (words.fits(words.cut(text), 0) for text in ("mor[MASK]", "this [MASK]."))

    assert not inside[:FIRST].any() and inside[FIRST:].all()
    assert all(
        text.startswith(" ") and text[1:].isalnum()
        for text, fits in zip(words.texts, alone, strict=True)
        if fits
    )
    assert words.cut("[MASK][MASK] [MASK], a").alone == (False, False, True)

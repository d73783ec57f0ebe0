"""Words that are apart already as ids: one position is answered for each word, whatever it is cut into."""

from __future__ import annotations

import numpy as np
import pytest

from seqlab.data.read import DataConfig
from seqlab.data.tokenizers import (
    CLS,
    SEP,
    UNK,
    BpeTokens,
    CharacterTokens,
    FromRun,
    UnigramTokens,
    WordTokens,
)
from seqlab.data.word_readings import WordReading
from seqlab.errors import UserError

ROWS = [
    ["The", "mottled", "cat", "sat", "."],
    ["don't", "U.S.A.", "x-ray", "3.5", "été"],
    ["a"],
    ["the", "cat", "the", "cat"],
    ["word with spaces", "end"],
]
TOKENS = {
    "bpe": BpeTokens(vocabulary=40),
    "unigram": UnigramTokens(vocabulary=60),
    "characters": CharacterTokens(),
}


def read(reads="tokens", **data) -> WordReading:
    return WordReading(DataConfig(**data), reads).train(ROWS * 2)


def test_each_word_is_one_id_and_its_characters_tell_capitals():
    reading = read("characters", word_length=4)
    fields = reading.encode(ROWS)
    assert fields["text"].sizes().tolist() == [5, 5, 1, 4, 2]
    assert fields["text"].row(0)[0] == fields["text"].row(3)[0]  # The and the
    spelt = fields["characters"]
    assert [list(map(len, spelt.row(row))) for row in (0, 2)] == [[3, 4, 3, 3, 1], [1]]
    assert spelt.row(0)[0] != spelt.row(3)[0] and spelt.row(3)[0] == spelt.row(3)[2]
    assert reading.encode([["unheard", "cat"]])["text"].row(0)[0] == UNK
    assert reading.names == ("text", "characters") and set(reading.symbols) == {"text", "characters"}


@pytest.mark.parametrize("marks", ["none", "cls", "sep"])
@pytest.mark.parametrize("kind", TOKENS)
def test_of_pieces_the_first_of_each_word_answers(kind, marks):
    """It begins with the word's first letter, and the pieces from there to the next word spell the word."""
    reading = read(tokens=TOKENS[kind], marks=marks)
    fields = reading.encode(ROWS)
    for row, words in enumerate(ROWS):
        shown, first = reading.pieces(words), fields["first"].row(row)
        assert len(shown) == len(fields["text"].row(row)) and len(first) == len(words)
        ends = [*first[1:], len(shown) - (marks != "none")]
        for word, start, end in zip(words, first, ends, strict=True):
            assert "".join(shown[start:end]).replace(" ", "") == word.replace(" ", "")
        if marks != "none":
            assert fields["text"].row(row)[0] == (CLS if marks == "cls" else SEP)
            assert fields["text"].row(row)[-1] == SEP


def test_words_of_the_tokenizer_of_a_run_may_be_several_pieces_too(tmp_path):
    """Its tokens are words and single marks, ours came apart otherwise."""
    WordTokens(lower=False, least=1).train([" ".join(row) for row in ROWS]).save(tmp_path / "tokenizer.json")
    reading = read(tokens=FromRun(folder=str(tmp_path)))
    assert reading.pieces(["the", "U.S.A.", "cat"]) == ["the", "U", ".", "S", ".", "A", ".", "cat"]
    assert reading.encode([["the", "U.S.A.", "cat"]])["first"].row(0) == [0, 1, 7]


def test_only_pieces_have_a_longest_row():
    assert read(tokens=TOKENS["bpe"], length=6).longest == 6
    assert read(length=2).longest > 1_000_000  # words are read whole


@pytest.mark.parametrize("reads", ["sentences", "grams", "characters"])
def test_what_gives_no_position_to_each_word_is_refused(reads):
    with pytest.raises(UserError, match=f"model.input reads {reads}"):
        WordReading(DataConfig(tokens=BpeTokens()), reads)


@pytest.mark.parametrize("kind", ["words", *TOKENS])
def test_saved_and_loaded_it_reads_the_same(kind, tmp_path):
    tokens, reads = (TOKENS[kind], "tokens") if kind in TOKENS else (WordTokens(), "characters")
    reading = read(reads, tokens=tokens)
    reading.save(tmp_path)
    again = WordReading(DataConfig(tokens=tokens), reads).load(tmp_path)
    one, two = reading.encode(ROWS), again.encode(ROWS)
    assert one.keys() == two.keys()
    assert all(np.array_equal(one[name].values, two[name].values) for name in one)

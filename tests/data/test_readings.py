"""How texts become fields: lengths, pairs, sentences, characters and TF-IDF grams."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer

from seqlab.data import hashed_grams as grams_module
from seqlab.data.hashed_grams import HashedGrams
from seqlab.data.read import DataConfig
from seqlab.data.readings import READINGS, reading, shorten
from seqlab.data.store import Ragged
from seqlab.data.tokenizers import EOS, SEP, UNK, WORD, BpeTokens, CharacterTokens, WordTokens
from seqlab.errors import UserError

TEXTS = [
    "The cat sat. It slept!",
    "a dog and a cat",
    "the dog slept on the mat<br />it was a dog's mat",
    "it sat",
    "A cat?",
]
OTHERS = ["one two three", "the cat", "it", "on the mat it sat. Then it slept. Then the end", "x"]
CONFIG = DataConfig(tokens=WordTokens(least=1), length=6, sentences=3, sentence_length=3, word_length=4)


def trained(reads, config=CONFIG, pair=False):
    texts = list(zip(TEXTS, OTHERS, strict=True)) if pair else TEXTS
    return reading(reads, config, outputs=2).train(texts)


def shape(pieces):
    return [len(row) for row in pieces]


@pytest.mark.parametrize("pair", [False, True])
@pytest.mark.parametrize("reads", READINGS)
def test_a_reading_saved_and_loaded_gives_the_same_fields_and_its_pieces_stand_beside_them(
    reads, pair, tmp_path
):
    one = trained(reads, pair=pair)
    one.save(tmp_path)
    two = reading(reads, CONFIG, outputs=2).load(tmp_path)
    texts2 = OTHERS if pair else None

    fields, again = one.encode(TEXTS, texts2).fields, two.encode(TEXTS, texts2).fields

    assert one.symbols == two.symbols
    for name, ragged in fields.items():
        assert ragged.rows == len(TEXTS) and (ragged.sizes() > 0).all()
        np.testing.assert_array_equal(ragged.values, again[name].values)
        np.testing.assert_array_equal(ragged.offsets, again[name].offsets)
        if name in one.symbols:
            assert ragged.values.max() < one.symbols[name]
    first = next(iter(fields.values()))
    for number, text in enumerate(TEXTS):
        row = first.row(number)
        assert shape(one.pieces(text, OTHERS[number] if pair else None)) == (
            shape(row) if reads == "sentences" else [len(row)]
        )


def test_a_text_for_which_another_is_written_is_read_whole_with_its_end():
    one = reading("tokens", CONFIG, ends=True).train(TEXTS)

    encoded = one.encode(TEXTS)

    assert encoded.cut == 0 and encoded.fields["text"].sizes().max() > CONFIG.length + 1
    for number, text in enumerate(TEXTS):
        assert encoded.fields["text"].row(number) == [*one.tokenizer.ids(one.tokenizer.pieces(text)), EOS]
        assert len(one.pieces(text)[0]) == encoded.fields["text"].sizes()[number]


@pytest.mark.parametrize("reads", READINGS)
def test_a_text_is_read_the_same_alone_and_among_others(reads):
    one = trained(reads)
    together = one.encode(TEXTS).fields
    for number, text in enumerate(TEXTS):
        for name, ragged in one.encode([text]).fields.items():
            assert ragged.row(0) == together[name].row(number)


def test_of_a_long_text_a_third_comes_from_the_head_and_the_rest_from_the_tail():
    rows = Ragged.of([[0, 1, 2, 3, 4, 5, 6, 7, 8], [0, 1]], np.int64)

    assert [shorten(rows, 6).row(number) for number in (0, 1)] == [[0, 1, 5, 6, 7, 8], [0, 1]]

    one = trained("tokens")
    encoded = one.encode(TEXTS)
    assert (
        encoded.cut == 2 and encoded.fields["text"].sizes().max() == 6
    )  # "The cat sat. It slept!" has 7 pieces
    assert one.pieces(TEXTS[0]) == [["The", "cat", ".", "It", "slept", "!"]]


@given(
    st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=1, max_size=5), st.integers(3, 14)
)
@settings(deadline=None)
def test_a_pair_is_text_mark_text_and_each_gets_its_share(sizes, length):
    config = DataConfig(tokens=WordTokens(least=1), length=length)
    one = reading("tokens", config).train(["a b"])
    a, b = one.tokenizer.ids(["a", "b"])

    encoded = one.encode(
        [" ".join("a" * size) for size, _ in sizes], [" ".join("b" * size) for _, size in sizes]
    )

    for number, (size, size2) in enumerate(sizes):
        row, segments = encoded.fields["text"].row(number), encoded.fields["segments"].row(number)
        mark = row.index(SEP)
        kept, kept2 = mark, len(row) - mark - 1
        assert row == [a] * kept + [SEP] + [b] * kept2 and segments == [0] * (kept + 1) + [1] * kept2
        if size + 1 + size2 <= length:
            assert (kept, kept2) == (size, size2)
        else:
            assert len(row) == length
            assert kept == size or kept2 == size2 or abs(kept - kept2) <= 1
    assert encoded.cut == sum(size + 1 + size2 > length for size, size2 in sizes)


def test_long_sentences_go_on_in_the_next_row_and_the_middle_rows_go():
    one = trained("sentences")

    assert one.pieces("The cat sat. It slept!") == [["The", "cat", "sat"], ["."], ["It", "slept", "!"]]
    assert one.pieces("a! b! c! d! e") == [["a", "!"], ["d", "!"], ["e"]]
    assert one.encode(["A. B! C! D! E!", "it"]).cut == 1
    assert one.encode([" "]).fields["text"].row(0) == [[UNK]]


def test_sentences_of_a_pair_have_a_mark_between_them():
    one = trained("sentences", pair=True)

    row = one.encode(["the cat"], ["it sat"]).fields["text"].row(0)

    assert row == [one.tokenizer.ids(["the", "cat"]), [SEP], one.tokenizer.ids(["it", "sat"])]


def test_words_come_with_their_characters_as_written():
    one = trained("characters")

    fields = one.encode(["The Cat", "sleeping"]).fields

    assert fields["text"].row(0) == one.tokenizer.ids(["the", "cat"])
    spelt = [[one.characters.decode([number]) for number in word] for word in fields["characters"].row(0)]
    assert spelt == [["T", "h", "e"], ["", "a", "t"]]  # no capital C was in the training texts
    assert shape(fields["characters"].row(1)) == [4]  # data.word_length


# Grams ------------------------------------------------------------------------------------------------------

MANY = [
    " ".join(np.random.default_rng(seed).choice([*"abcdefghijklmnop", "don't", "É", "!"], size=12))
    for seed in range(40)
]


def test_grams_weigh_what_scikit_learn_says():
    """TfidfVectorizer with sublinear counts, 1-2-grams and min_df 2 is the reference; with 2^16 buckets
    nothing collides here."""
    theirs = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), min_df=2, token_pattern=WORD["marks"])
    expected = theirs.fit_transform(MANY)
    grams = HashedGrams.train(MANY, outputs=2)

    numbers, weights = grams.encode(MANY)

    assert grams.size - 1 == len(theirs.vocabulary_)
    for row, text in enumerate(MANY):
        ours = dict(zip(grams.names(text), weights.row(row), strict=True))
        column = {
            gram: expected[row, place] for gram, place in theirs.vocabulary_.items() if expected[row, place]
        }
        assert ours.keys() == column.keys()
        np.testing.assert_allclose([ours[gram] for gram in column], list(column.values()), rtol=1e-5)
        assert len(set(numbers.row(row))) == len(numbers.row(row))


def test_grams_do_not_depend_on_how_texts_are_chunked(monkeypatch):
    whole = HashedGrams.train(MANY, 2)
    monkeypatch.setattr(grams_module, "CHUNK", 50)
    parts = HashedGrams.train(MANY, 2)

    np.testing.assert_array_equal(whole.idf, parts.idf)
    np.testing.assert_array_equal(whole.encode(MANY)[1].values, parts.encode(MANY)[1].values)


def test_the_two_texts_of_a_pair_have_grams_of_their_own():
    grams = HashedGrams.train([("a b", "c d"), ("a b", "a b"), ("c d", "a b")] * 2, 2)

    one, two = (grams.encode([pair])[0].row(0) for pair in (("a b", "x"), ("x", "a b")))

    assert len(one) == len(two) == 3 and not set(one) & set(two)
    assert sorted(grams.names(("a b", "x"))) == ["a", "a b", "b"]


def test_a_text_without_a_known_gram_weighs_nothing():
    grams = HashedGrams.train(["a b", "a b"], 2)

    numbers, weights = grams.encode(["", "a b", "z z"])

    assert (numbers.row(0), weights.row(0), numbers.row(2)) == ([0], [0.0], [0])
    assert np.linalg.norm(weights.row(1)) == pytest.approx(1)


def test_buckets_follow_the_data_and_the_number_of_classes():
    texts = [f"w{number} v{number * 7}" for number in range(30_000)]  # 90,000 different grams

    assert len(HashedGrams.train(MANY, 2).idf) == 2**16
    assert len(HashedGrams.train(texts, 2).idf) == 2**18  # twice 90,000, rounded up
    assert len(HashedGrams.train(texts, 100).idf) == 2**16  # 2^16 × 100 < 2^23


def test_another_process_hashes_alike():
    code = (
        "from seqlab.data.hashed_grams import HashedGrams; print(HashedGrams.train(['a b', 'a b', 'c'],"
        " 2).idf.nonzero()[0].tolist())"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert said.strip() == str(HashedGrams.train(["a b", "a b", "c"], 2).idf.nonzero()[0].tolist())


def test_letters_stand_for_words_where_tokens_are_characters():
    one = reading("grams", DataConfig(tokens=CharacterTokens())).train(["cat", "can", "act"])

    assert set(one.pieces("cat")[0]) >= {"c", "a", "^ c", "c a", "t $"}


def test_missing_grams_are_told(tmp_path):
    with pytest.raises(UserError, match=r"grams\.safetensors"):
        reading("grams", CONFIG).load(tmp_path)


def test_any_tokens_serve_any_reading():
    for tokens in (BpeTokens(vocabulary=300), CharacterTokens()):
        for reads in ("tokens", "sentences", "characters"):
            one = trained(reads, DataConfig(tokens=tokens))
            text = "snow ☃ 😀. Ok"
            field = one.encode([text]).fields["text"].row(0)
            assert shape(one.pieces(text)) == (shape(field) if reads == "sentences" else [len(field)])

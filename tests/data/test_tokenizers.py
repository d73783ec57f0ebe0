"""Tokenizers: the same texts give the same tokenizer, and what it cuts can be put together again."""

import hashlib
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import trainers

from seqlab.data import tokenizers as text_module
from seqlab.data.subwords import subwords_of
from seqlab.data.tokenizers import (
    SPECIAL,
    UNK,
    WORD,
    BpeTokens,
    CharacterTokens,
    FromRun,
    Tokenizer,
    TokensConfig,
    UnigramTokens,
    WordTokens,
)
from seqlab.decode import WordParts
from seqlab.errors import UserError

LINES = [
    "The old man said: it's a fine film!",
    "It's not a film, it is THE film.",
    "naïve café — 10 years, 3.5 stars",
    "What a film<br />what an end",
    "the end of the old film",
    "a film of ten years",
    "don't say it's the end",
]
BREAK_SIGN = re.compile(r"<br />")
SMALL = {"bpe": BpeTokens(vocabulary=300), "unigram": UnigramTokens(vocabulary=60)}


def trained(kind):
    if kind == "run":  # the tokenizer of another run, whatever the texts here
        with tempfile.TemporaryDirectory() as folder:
            WordTokens().train(iter(LINES)).save(Path(folder) / "tokenizer.json")
            return FromRun(folder=folder).train(iter(()))
    config = SMALL.get(kind) or TokensConfig.kinds[kind]()
    return config.train(iter(LINES))


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_subwords_make_up_the_words_that_plain_cutting_finds(kind):
    """The words of `WORD`; a word has the same letters at the beginning of a text, where it may be cut into
    other pieces, as inside it."""
    tokenizer = trained(kind)
    parts = WordParts(*subwords_of(tokenizer))
    for text in [*LINES, "l'été dernier, l'été: été", "film film", "Zürich (Zürich)"]:
        text = BREAK_SIGN.sub(" ", text)
        ids = tokenizer.encode([text]).values.tolist()
        words, wanted = parts.words(ids), re.findall(WORD["marks"], text)
        if UNK not in ids:
            assert len(words) == len(wanted)
            same = [[one == other for other in words] for one in words]
            assert same == [[one == other for other in wanted] for one in wanted]
            begun = [place for place, id in enumerate(ids) if place == 0 or parts.begins(id, ids[place - 1])]
            cut = [ids[start:end] for start, end in zip(begun, [*begun[1:], len(ids)], strict=True)]
            assert [tokenizer.decode(word).strip() for word in cut] == wanted


@pytest.mark.parametrize("kind", ["words", "characters"])
def test_words_and_characters_count_by_themselves(kind):
    assert subwords_of(trained(kind)) is None


def test_the_tokenizer_of_a_run_is_noticed_when_it_is_another(tmp_path):
    path = tmp_path / "tokenizer.json"
    WordTokens().train(iter(LINES)).save(path)
    known = FromRun(folder=str(tmp_path), mark=hashlib.sha256(path.read_bytes()).hexdigest())
    assert known.train(iter(())).size == Tokenizer.load(path).size
    WordTokens().train(iter(["other words, other words"])).save(path)
    with pytest.raises(UserError, match="not the tokenizer"):
        known.train(iter(()))


@pytest.mark.parametrize("kind", TokensConfig.kinds)
def test_saved_and_loaded_it_says_the_same_and_training_again_writes_the_same_bytes(kind, tmp_path):
    one, two = trained(kind), trained(kind)
    one.save(tmp_path / "one.json")
    two.save(tmp_path / "two.json")
    loaded = Tokenizer.load(tmp_path / "one.json")

    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
    assert loaded.size == one.size
    np.testing.assert_array_equal(loaded.encode(LINES).values, one.encode(LINES).values)


def test_another_process_trains_the_same_tokenizers():
    """Hash seeds differ between processes; tokenizers must not."""
    code = (
        "import hashlib\n"
        "from seqlab.data.tokenizers import BpeTokens, CharacterTokens, UnigramTokens, WordTokens\n"
        "lines = [f'{a}{b} {c}' for a in 'abc' for b in 'xyz' for c in ('one', 'two', 'three')]\n"
        "kinds = [WordTokens(), CharacterTokens(), BpeTokens(vocabulary=300), UnigramTokens(vocabulary=25)]\n"
        "print([hashlib.sha256(kind.train(lines).inner.to_str().encode()).hexdigest() for kind in kinds])"
    )
    one, two = (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    )

    assert one == two != ""


@pytest.mark.parametrize("kind", TokensConfig.kinds)
def test_special_ids_come_first_and_no_row_is_empty(kind):
    tokenizer = trained(kind)

    assert tokenizer.ids(list(SPECIAL)) == list(range(7))
    assert (tokenizer.encode(["", "film"]).sizes() > 0).all()
    assert tokenizer.encode(["[MASK]"]).values.tolist() == [4]


@pytest.mark.parametrize("kind", TokensConfig.kinds)
def test_pieces_stand_beside_the_ids(kind):
    tokenizer = trained(kind)
    for text in [*LINES, "", " ", "snow ☃ and 😀!"]:
        assert len(tokenizer.pieces(text)) == len(tokenizer.encode([text]).values)


@pytest.mark.parametrize("kind", ["characters", "bpe", "unigram"])
def test_decoding_gives_the_text_back(kind):
    tokenizer = trained(kind)
    for line in LINES:
        assert tokenizer.decode(tokenizer.encode([line]).values.tolist()) == line


BPE = trained("bpe")


@given(st.text(st.characters(codec="utf-8", exclude_characters="["), min_size=1, max_size=30))
@settings(max_examples=80, deadline=None)
def test_byte_level_bpe_knows_every_character(text):
    ids = BPE.encode([text]).values.tolist()

    assert UNK not in ids and BPE.decode(ids) == text


def test_words_are_lower_case_with_their_apostrophes_and_marks_stand_alone():
    tokenizer = WordTokens(least=1).train(LINES)

    assert tokenizer.pieces("It's THE end<br /><br />(film)?!") == [
        "It's",
        "THE",
        "end",
        "(",
        "film",
        ")",
        "?",
        "!",
    ]
    assert (
        tokenizer.decode(tokenizer.encode(["It's THE end<br />of it"]).values.tolist())
        == "it's the end of it"
    )
    assert tokenizer.encode(["unheard of"]).values[0] == UNK


def test_words_rarer_than_the_least_count_are_unknown_and_ties_go_by_text():
    tokenizer = WordTokens(least=2, vocabulary=3).train(["b b a a c c d"])

    assert [tokenizer.inner.id_to_token(number) for number in range(7, tokenizer.size)] == ["a", "b", "c"]


SIGNS = [*"abzABZ019_ \t\n'’.,!?-<>/[]()éÉßøŁçÿ—…“”«»", "<br />", "<BR>", "[MASK]", "[UNK]", "it's"]
PLAIN = st.lists(st.sampled_from(SIGNS), max_size=40).map("".join)
ANY = st.text(max_size=20)
WORDS = WordTokens(least=1).train(
    [*LINES, "a b z é ß ø ł ç ÿ — … “ ” « » [ ] ( ) < > / - _ 0 1 9 ab za ÉÉ éé"]
)


@given(st.lists(PLAIN | ANY, min_size=1, max_size=5))
@settings(max_examples=150, deadline=None)
def test_the_fast_way_to_words_agrees_with_the_library(texts):
    texts = [text.encode("utf-8", "ignore").decode() for text in texts]
    slow = Tokenizer(WORDS.inner)
    slow._plain = None

    np.testing.assert_array_equal(WORDS.encode(texts).values, slow.encode(texts).values)


def test_words_are_the_ones_the_library_would_train():
    random.seed(0)
    texts = [
        " ".join(random.choice(["a", "B", "c'c", "dé", "नमस्ते", "e!", "☃"]) for _ in range(9))
        for _ in range(40)
    ]
    theirs = text_module._words_model(True, {})
    trainer = trainers.WordLevelTrainer(
        vocab_size=10, min_frequency=2, special_tokens=list(SPECIAL), show_progress=False
    )
    theirs.train_from_iterator(texts, trainer)

    assert WordTokens(vocabulary=3).train(texts).inner.to_str() == theirs.to_str()


def test_unigram_pieces_beat_single_characters():
    """On a text made of four words, each becomes one piece."""
    words = ["tomato", "potato", "onion", "leek"]
    random.seed(1)
    tokenizer = UnigramTokens(vocabulary=30).train([" ".join(random.choices(words, k=8)) for _ in range(50)])

    assert tokenizer.pieces("leek tomato onion") == ["leek", " tomato", " onion"]


def test_only_a_sample_is_read(monkeypatch):
    monkeypatch.setattr(text_module, "SAMPLE", 15)
    texts = iter(["a b c d e f", "g h i j k", "never read"])

    WordTokens().train(texts)

    assert next(texts) == "never read"


def test_a_damaged_tokenizer_is_told(tmp_path):
    (tmp_path / "a.json").write_text("{")
    for name in ("a.json", "b.json"):
        with pytest.raises(UserError, match=name):
            Tokenizer.load(tmp_path / name)
    assert isinstance(CharacterTokens().train(["a"]), Tokenizer)

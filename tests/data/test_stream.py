"""Running text: what is read is what stands in the files, and batches go through it as they promise."""

import gzip
import itertools

import numpy as np
import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from seqlab.data.batches import Position
from seqlab.data.read import DataConfig, Row
from seqlab.data.stream import (
    FOLLOWS,
    START,
    WIDTH,
    Blocks,
    RunningTable,
    Streams,
    cut_line,
    encode_pieces,
    encode_text,
    held_at_the_end,
    keeps_lines,
    opening_of,
    split_text,
    stretches,
)
from seqlab.data.tokenizers import UNK, BpeTokens, CharacterTokens, Tokenizer, WordTokens
from seqlab.errors import UserError
from seqlab.tasks.generate import Generate
from seqlab.tasks.prepare import Files

PROSE = "He said: \"well, it's (a) well-known thing\", and left... Why? I'm here.\n\n\tThe end\n" * 3


def written(folder, **files):
    for name, text in files.items():
        (folder / f"{name}.txt").write_bytes(text.encode() if isinstance(text, str) else text)
    return [str(folder / f"{name}.txt") for name in files]


def read(names, **told):
    return [row.cells["text"] for row in RunningTable(names, DataConfig(**told)).rows()]


# Files ------------------------------------------------------------------------------------------------------


def test_all_files_are_one_text_with_its_line_ends(tmp_path):
    names = written(tmp_path, a="one\r\n\r\ntwo", b=gzip.compress(b"three\n"), c="last line, without an end")

    assert "".join(read(names)) == "one\n\ntwo\nthree\nlast line, without an end"
    assert [row.place.line for row in RunningTable(names, DataConfig()) if isinstance(row, Row)] == [
        1,
        2,
        3,
        3,
        1,
        1,
    ]


@given(st.text(alphabet="ab \n", max_size=300), st.integers(4, 40))
@settings(max_examples=60, deadline=None)
def test_long_lines_are_cut_and_nothing_is_lost(text, most):
    parts = [part for line in text.splitlines(keepends=True) for part in cut_line(line, most)]

    assert "".join(parts) == text
    assert all(0 < len(part) <= most for part in parts)


def test_an_empty_file_and_a_table_are_refused_as_running_text(tmp_path):
    (tmp_path / "rows.csv").write_text("text\nhello\n")
    with pytest.raises(UserError, match=r"blank\.txt: this file is empty") as empty:
        read(written(tmp_path, blank=" \n\n"))
    with pytest.raises(UserError, match=r"rows\.csv: this is a table, but task\.flow is text") as table:
        read([str(tmp_path / "rows.csv")])

    assert empty.value.exit_code == table.value.exit_code == 2
    assert "task.flow=rows" in table.value.fix


def test_the_last_tenth_is_held_out_as_a_block():
    sizes = np.full(200, 7)
    held = held_at_the_end(sizes)

    assert held.sum() == 20
    assert held[-20:].all()


# Ids --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "tokens", [CharacterTokens(), BpeTokens(vocabulary=300), WordTokens(split="spaces", lower=False, least=1)]
)
def test_a_text_comes_back_from_its_ids_with_its_lines(tokens):
    tokenizer = tokens.train(split_text(PROSE))
    ids = encode_text(tokenizer, PROSE)
    back = tokenizer.decode(ids.tolist())

    assert keeps_lines(tokenizer)
    assert tokenizer.decode([opening_of(tokenizer)]) == "\n"
    assert [line.split() for line in back.split("\n")] == [line.split() for line in PROSE.split("\n")]
    assert back == PROSE or tokens.kind == "words"
    assert all(back.startswith(tokenizer.decode(ids[:some].tolist())) for some in range(0, len(ids), 7))


def test_words_and_marks_are_joined_as_a_person_writes_them():
    tokenizer = WordTokens(lower=False, least=1).train([PROSE])
    lines = encode_pieces(tokenizer, split_text(PROSE))

    assert not keeps_lines(tokenizer)
    assert lines.sizes()[1] == 0  # a blank line
    assert tokenizer.decode([opening_of(tokenizer)]) == "."
    assert tokenizer.decode(lines.row(0)) == PROSE.split("\n")[0]


def test_pretokenised_text_keeps_its_words_and_each_line_end_is_one():
    lines = [" = Robert <unk> = \n", " \n", " he was , 2 @-@ 3 \n"]
    tokenizer = WordTokens(split="spaces", lower=False, least=1).train(lines)

    assert tokenizer.encode(lines).sizes().tolist() == [5, 1, 7]
    assert (
        tokenizer.decode(tokenizer.encode(lines).values.tolist()) == "= Robert <unk> =\n\nhe was , 2 @-@ 3\n"
    )


@given(st.lists(st.text(max_size=20), min_size=1, max_size=5), st.booleans())
@settings(max_examples=80, deadline=None)
def test_the_table_of_characters_gives_the_ids_of_the_library(texts, lower):
    tokenizer = CharacterTokens(lower=lower).train(["abcXYZé\n ", *texts[:2]])
    slow = tokenizers.Tokenizer.from_str(tokenizer.inner.to_str())
    wanted = [encoding.ids or [UNK] for encoding in slow.encode_batch(texts, add_special_tokens=False)]

    assert [tokenizer.encode(texts).row(row) for row in range(len(texts))] == wanted


def test_a_loaded_tokenizer_joins_and_cuts_like_the_trained_one(tmp_path):
    for number, tokens in enumerate(
        [WordTokens(least=1), WordTokens(split="spaces", least=1), CharacterTokens()]
    ):
        tokenizer = tokens.train([PROSE])
        tokenizer.save(tmp_path / f"{number}.json")
        loaded = Tokenizer.load(tmp_path / f"{number}.json")
        ids = encode_text(loaded, PROSE)

        np.testing.assert_array_equal(ids, encode_text(tokenizer, PROSE))
        assert loaded.decode(ids.tolist()) == tokenizer.decode(ids.tolist())


# Batches ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("length", "context", "rows"), [(1000, 16, 4), (997, 32, 7), (50, 64, 8), (64, 16, 100)]
)
def test_every_row_of_a_stream_goes_on_where_it_ended_and_all_text_is_read_once(length, context, rows):
    plan = Streams(length, context, rows, seed=3)
    batches = plan.epoch(0)
    seen = np.concatenate(
        [(row[START] + np.arange(row[WIDTH])) % length for batch in batches for row in batch]
    )

    assert plan.carries
    assert len(np.unique(seen)) == len(seen) >= length - plan.rows
    assert max(batch[0, WIDTH] for batch in batches) <= context
    assert [batch[0, FOLLOWS] for batch in batches] == [0] + [1] * (len(batches) - 1)
    for before, after in itertools.pairwise(batches):
        np.testing.assert_array_equal((before[:, START] + before[:, WIDTH]) % length, after[:, START])
    widths = [batch[0, WIDTH] for batch in batches]
    assert max(widths) - min(widths) <= 1  # no step is much smaller than the others


@pytest.mark.parametrize(("length", "context", "rows"), [(1000, 16, 4), (997, 32, 7), (50, 64, 8)])
def test_blocks_do_not_overlap_and_leave_little_out(length, context, rows):
    plan = Blocks(length, context, rows, seed=3)
    blocks = np.concatenate(plan.epoch(0))
    seen = np.concatenate([row[START] + np.arange(row[WIDTH]) for row in blocks])

    assert not plan.carries and not blocks[:, FOLLOWS].any()
    assert len(np.unique(seen)) == len(seen) >= length - 2 * context
    assert seen.min() >= 0 and seen.max() < length
    assert max(len(batch) for batch in plan.epoch(0)) <= rows


@pytest.mark.parametrize("kind", [Streams, Blocks])
def test_epochs_differ_and_any_position_is_found_again(kind):
    plan, again = (kind(5000, 16, 4, seed=1) for _ in range(2))
    whole = plan.after(Position())
    passed = [next(whole) for _ in range(len(plan.epoch(0)) + 5)]
    resumed = again.after(passed[9][0])

    assert not np.array_equal(plan.epoch(0)[0], plan.epoch(1)[0])
    for _, wanted in passed[10:]:
        np.testing.assert_array_equal(next(resumed)[1], wanted)


def test_a_stretch_begins_with_the_id_before_it():
    ids = np.arange(100, 150)
    found = stretches(ids, np.array([[0, 3, 0], [10, 3, 0], [48, 3, 0]]), opening=7)

    assert found.tolist() == [
        [7, 100, 101, 102],
        [109, 110, 111, 112],
        [147, 148, 149, 100],
    ]  # the text is a ring


# What is told about it --------------------------------------------------------------------------------------


def told(tmp_path, **files):
    names = written(tmp_path, **files)
    return Files(Generate(), DataConfig(**{split: (name,) for split, name in zip(files, names, strict=True)}))


def errors(found):
    return [problem.what for problem in found.problems if problem.severity == "error"]


def test_odd_characters_are_told_with_their_line(tmp_path):
    found = told(
        tmp_path, train="plain text, line after line\n" * 60 + "a bell \x07 and a lost sign \ufffd\n"
    )
    odd = next(problem for problem in found.problems if "odd characters" in problem.what)

    assert str(odd).startswith(
        f"{tmp_path / 'train.txt'}:61: train: there are odd characters: U+0007 (1 time), U+FFFD (1 time)"
    )


def test_lines_that_stand_in_both_texts_are_told_if_they_are_long(tmp_path):
    own = "".join(
        f"this line with the number {number} stands in one of the texts alone\n" for number in range(50)
    )
    line = "a long line, of which nobody would think that it stands there twice\n"
    found = told(tmp_path, train=own + line, valid="short\n" * 90 + line)
    leak = next(problem for problem in found.problems if "also in train" in problem.what)

    assert leak.severity == "warning"
    assert str(leak).startswith(
        f"{tmp_path / 'valid.txt'}:91: 100.0 % of the lines of valid with 40 and more characters"
    )


def test_lines_that_are_held_out_and_also_learnt_from_are_told(tmp_path):
    lines = [
        f"this line with the number {number:03} stands in this one text alone\n" for number in range(100)
    ]
    clean = told(tmp_path, train="".join(lines))
    twice = told(tmp_path, train="".join([*lines[:95], *lines[:5]]))

    assert clean.parts["valid"].sum() == twice.parts["valid"].sum() == 10 and clean.parts["valid"][-10:].all()
    assert not any("also in train" in problem.what for problem in clean.problems)
    leak = next(problem for problem in twice.problems if "also in train" in problem.what)
    assert str(leak).startswith(f"{tmp_path / 'train.txt'}:96: 50.0 % of the lines of valid")
    repeats = next(problem for problem in twice.problems if "repeat an earlier one" in problem.what)
    assert repeats.severity == "note" and "5.0 % of the lines of 40 and more characters" in repeats.what


def test_the_lines_of_a_survey_count_characters_words_and_lines(tmp_path):
    found = told(tmp_path, train="ab ab\n" * 500)
    lines = "\n".join(found.lines())

    assert lines.startswith("task.flow is text: running text, line ends included\n")
    assert "train: 500 lines in" in lines and "3,000 characters, 1,000 words" in lines
    assert "4 different characters; the commonest: a 33.3 %, b 33.3 %, space 16.7 %, line end 16.7 %" in lines
    assert (
        f"held out for validation: the text from {tmp_path / 'train.txt'}:451 on, 10.0 % of the characters"
        in lines
    )


def test_rows_of_a_table_are_texts_of_their_own(tmp_path):
    path = tmp_path / "words.csv"
    path.write_text("word\n" + "".join(f"{number}\n" for number in range(40)) + "7\n" + "z" * 10_001 + "\n")
    found = Files(Generate(), DataConfig(train=(str(path),)))
    lines = found.lines()

    assert lines[:2] == ["task.flow is rows: each row is a text of its own", f"train: 42 rows in {path}"]
    assert f"  the longest text has 10,001 characters ({path}:43)" in lines
    assert any(line.startswith("held out for validation: 4 rows, ") for line in lines)
    assert [str(problem) for problem in found.problems] == [
        f"{path}:43: train: the longest text has 10,001 characters.",
        "train: 2.4 % of the rows repeat an earlier one.",
    ]


@pytest.mark.parametrize(
    ("text", "wanted"), [("short\n", "too little text: 6 characters"), ("x" * 3000, "none can be held")]
)
def test_too_little_text_is_an_error(tmp_path, text, wanted):
    [error] = errors(told(tmp_path, train=text))

    assert wanted in error

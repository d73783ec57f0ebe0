"""Rows that were read once come back as they were, however often they are asked for."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqlab.data import cells as cells_module
from seqlab.data.cells import CHUNK, KeptRows

ANY = st.text(st.characters(codec=None, exclude_categories=()), max_size=12)
"""All that a str can hold, half surrogate pairs among it."""


def kept(folder, rows, roles=("text", "label")):
    rows_of = KeptRows(folder, roles)
    for row in rows:
        rows_of.append(row)
    return rows_of


def numbered(count):
    """Rows of many lengths, some of them with an empty cell."""
    return [{"text": f"é{number} " * (number % 5), "label": str(number)} for number in range(count)]


@given(st.lists(st.tuples(ANY, ANY), max_size=12), st.integers(1, 5), st.data())
@settings(deadline=None)
def test_what_goes_in_comes_out_whole_and_chosen(tmp_path_factory, pairs, chunk, data):
    rows = [{"text": text, "label": label} for text, label in pairs]
    chosen = data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cells_module, "CHUNK", chunk)
        found = kept(tmp_path_factory.mktemp("rows"), rows)
        assert len(found) == len(rows)
        assert list(found.rows()) == rows
        some = [row for row, one in zip(rows, chosen, strict=True) if one]
        assert list(found.rows(np.array(chosen, bool))) == some


@pytest.mark.parametrize(
    "text", ["\ud800", "a\udfffb", "\0", "\r\n\u2028\x85", "\U0010ffff", "e\u0301 \ufeff", ""]
)
def test_odd_characters_are_kept(tmp_path, text):
    assert list(kept(tmp_path, [{"text": text, "label": text}]).rows()) == [{"text": text, "label": text}]


@pytest.mark.parametrize("count", [0, CHUNK - 1, CHUNK, 2 * CHUNK + 1])
def test_rows_are_read_chunk_by_chunk(tmp_path, count):
    rows, chosen = numbered(count), np.arange(count) % 3 == 1
    found = kept(tmp_path, rows)

    assert len(found) == count
    assert list(found.rows()) == rows
    assert list(found.rows(chosen)) == rows[1::3]
    assert list(found.rows(np.zeros(count, bool))) == []


def test_rows_of_many_bytes_are_read_a_few_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(cells_module, "CHUNK_BYTES", 1000)
    rows = [{"text": "é" * (400 * (number % 3)), "label": str(number)} for number in range(40)]
    found = kept(tmp_path, rows)
    assert max(found._bytes) < 3000 and len(found._bytes) > 10
    assert list(found.rows()) == rows
    assert list(found.rows(np.arange(40) % 2 == 1)) == rows[1::2]


def test_a_role_that_a_row_lacks_is_empty_and_one_that_is_not_kept_is_gone(tmp_path):
    rows = [{"text": "a"}, {"text": "b", "text2": "c", "label": "x"}]
    found = kept(tmp_path, rows, roles=("text", "text2"))

    assert list(found.rows()) == [{"text": "a", "text2": ""}, {"text": "b", "text2": "c"}]


def test_several_readers_and_more_rows_do_not_disturb_each_other(tmp_path, monkeypatch):
    monkeypatch.setattr(cells_module, "CHUNK", 2)
    rows = numbered(9)
    found = kept(tmp_path, rows[:7])

    assert list(zip(found.rows(), found.rows(), strict=True)) == [(row, row) for row in rows[:7]]
    for row in rows[7:]:
        found.append(row)
    assert list(found.rows()) == rows


def test_nothing_is_seen_in_the_folder(tmp_path):
    found = kept(tmp_path / "rows", numbered(3))

    assert len(found) == 3 and list((tmp_path / "rows").iterdir()) == []

"""Rows of different lengths survive being joined, stored, mapped and padded."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seqlab.data import store as store_module
from seqlab.data.store import (
    Ragged,
    Store,
    StoreWriter,
    cached_store,
    concatenate,
    digest_of,
    fingerprint,
    forget_old,
    offsets_of,
    pad_rows,
)
from seqlab.errors import MachineError
from seqlab.seq import Nested, Seq

ROWS = st.lists(st.lists(st.integers(0, 70_000), min_size=1, max_size=6), min_size=1, max_size=8)
NESTED = st.lists(ROWS, min_size=1, max_size=5)


def nested(documents):
    inner = Ragged.of([row for document in documents for row in document], np.int64)
    return Ragged(
        inner.values, inner.offsets, offsets_of(np.array([len(document) for document in documents]))
    )


def contents(ragged):
    return [ragged.row(number) for number in range(ragged.rows)]


@given(ROWS, st.data())
@settings(deadline=None)
def test_rows_can_be_taken_joined_and_padded(rows, data):
    chosen = np.array(data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=6)))
    ragged = Ragged.of(rows, np.uint32)

    batch = pad_rows(ragged, chosen)

    assert contents(ragged) == rows
    assert contents(ragged.take(chosen)) == [rows[number] for number in chosen]
    assert contents(concatenate([ragged, ragged])) == rows + rows
    assert ragged.sizes().tolist() == [len(row) for row in rows]
    assert isinstance(batch, Seq) and batch.values.dtype == torch.int64
    assert [row[mask].tolist() for row, mask in zip(batch.values, batch.mask, strict=True)] == [
        rows[number] for number in chosen
    ]
    assert not batch.values[~batch.mask].any()


@given(NESTED, st.data())
@settings(deadline=None)
def test_nested_rows_too(documents, data):
    chosen = np.array(data.draw(st.lists(st.integers(0, len(documents) - 1), min_size=1, max_size=6)))
    ragged = nested(documents)

    batch = pad_rows(ragged, chosen)

    assert contents(ragged.take(chosen)) == [documents[number] for number in chosen]
    assert contents(concatenate([ragged, ragged])) == documents + documents
    assert ragged.sizes().tolist() == [sum(map(len, document)) for document in documents]
    assert isinstance(batch, Nested) and int(batch.mask.sum()) == batch.inner.rows
    assert batch.mask.sum(1).tolist() == [len(documents[number]) for number in chosen]
    inner = [row[mask].tolist() for row, mask in zip(batch.inner.values, batch.inner.mask, strict=True)]
    assert inner == [row for number in chosen for row in documents[number]]


def test_real_numbers_stay_real():
    batch = pad_rows(Ragged.of([[0.5], [1.5, 2.5]], np.float32), np.array([1, 0]))

    assert batch.values.tolist() == [[1.5, 2.5], [0.5, 0.0]] and batch.values.dtype == torch.float32


@given(st.lists(ROWS, min_size=1, max_size=4))
@settings(deadline=None, max_examples=40)
def test_a_store_gives_back_what_was_written_in_chunks(tmp_path_factory, chunks):
    folder = tmp_path_factory.mktemp("store") / "store"
    with StoreWriter(folder) as writer:
        for rows in chunks:
            texts = Ragged.of(rows, np.int64)
            arrays = {"target": np.arange(len(rows)), "weight": np.full(2, 0.5, np.float32)}
            writer.append({"text": texts, "pages": nested([rows, rows])}, arrays)
        writer.notes["cut"] = 3

    store = Store.open(folder)

    assert contents(store.fields["text"]) == [row for rows in chunks for row in rows]
    assert contents(store.fields["pages"]) == [rows for rows in chunks for _ in range(2)]
    assert store.arrays["target"].tolist() == [number for rows in chunks for number in range(len(rows))]
    assert store.arrays["weight"].dtype == np.float32 and store.notes == {"cut": 3}
    assert store.sizes().tolist() == [len(row) for rows in chunks for row in rows]


def test_numbers_are_kept_in_the_smallest_type_that_fits_them_all(tmp_path):
    with StoreWriter(tmp_path / "store") as writer:
        for largest in (200, 60_000, 3, 70_000):
            writer.append(
                {"text": Ragged.of([[1, largest]], np.int64), "segments": Ragged.of([[0, 1]], np.int64)}, {}
            )

    store = Store.open(tmp_path / "store")

    assert store.fields["text"].values.tolist() == [1, 200, 1, 60_000, 1, 3, 1, 70_000]
    assert (store.fields["text"].values.dtype, store.fields["segments"].values.dtype) == (np.uint32, np.uint8)


def test_negative_targets_survive(tmp_path):
    with StoreWriter(tmp_path / "store") as writer:
        writer.append({"text": Ragged.of([[1]], np.int64)}, {"target": np.array([7])})
        writer.append({"text": Ragged.of([[1]], np.int64)}, {"target": np.array([-1])})

    assert Store.open(tmp_path / "store").arrays["target"].tolist() == [7, -1]


def test_a_store_that_was_not_finished_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("SEQLAB_CACHE", str(tmp_path))

    def full_disk(writer):
        writer.append({"text": Ragged.of([[1]], np.int64)}, {})
        raise OSError(28, "No space left on device")

    with pytest.raises(MachineError, match="No space left"):
        cached_store("name", full_disk)

    assert list((tmp_path / "stores").iterdir()) == []


def test_a_cached_store_is_written_once_and_the_oldest_go_first(tmp_path, monkeypatch):
    monkeypatch.setenv("SEQLAB_CACHE", str(tmp_path))
    written = []

    def write(writer):
        written.append(writer)
        writer.append({"text": Ragged.of([[1, 2]], np.int64)}, {})

    for name in ("one", "two", "one"):
        assert contents(cached_store(name, write).fields["text"]) == [[1, 2]]
    assert len(written) == 2

    forget_old(tmp_path / "stores", most=0)
    assert [path.name for path in (tmp_path / "stores").iterdir()] == ["one"]  # used last, so it stays


def test_another_process_may_have_been_first(tmp_path):
    with StoreWriter(tmp_path / "store") as slow:
        slow.append({"text": Ragged.of([[1]], np.int64)}, {})
        with StoreWriter(tmp_path / "store") as quick:
            quick.append({"text": Ragged.of([[1]], np.int64)}, {})

    assert contents(Store.open(tmp_path / "store").fields["text"]) == [[1]]
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_a_fingerprint_changes_with_contents_and_settings_alone(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("same")
    two.write_text("same")

    def mark(path, **settings):
        return fingerprint([digest_of(path)], settings)

    first = mark(one, a=1, b=2)

    assert first == mark(two, b=2, a=1)
    assert first != mark(one, a=1, b=3)
    two.write_text("other")
    assert first != mark(two, a=1, b=2)
    digests = [digest_of(one), digest_of(two)]
    assert fingerprint(digests, {}) != fingerprint(digests[::-1], {})
    assert store_module.cache_folder().name == "stores"

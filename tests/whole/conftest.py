"""What tests of whole runs share: a table of opinions, a cache of their own, and the command line in this
process."""

from __future__ import annotations

import sys

import pytest
from made import opinions, write_table

from seqlab import cli


@pytest.fixture
def reviews(tmp_path):
    """600 rows to learn from."""
    return write_table(tmp_path / "reviews.csv", opinions(600))


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("SEQLAB_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def seqlab(capsys, monkeypatch):
    """The command, run in this process: its exit code, standard output and standard error."""

    def run(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["seqlab", *map(str, words)])
        try:
            cli.main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        told = capsys.readouterr()
        return code, told.out, told.err

    return run

"""What tests of whole runs share: a table of opinions, a cache of their own, and the command line in this
process."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

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


@pytest.fixture
def expect_exit(seqlab, tmp_path):
    """Runs a command that has to fail: with this exit code, these words in its message, and nothing left
    behind."""

    def check(*words: object, says: tuple[str, ...], code: int = 2, why: bool = True) -> str:
        before = {path for path in tmp_path.rglob("*") if path.is_file()}
        found, out, err = seqlab(*words)
        assert found == code, f"{found}: {out}{err}"
        assert "Traceback" not in err
        told = re.search(r"^\S.*\n((?:  .+\n)+)\Z", err, re.MULTILINE)
        assert told and told[1].count("\n") >= (2 if why else 1), f"not what, why and fix: {err}"
        for word in says:
            assert word in err, f"{word!r} is not in: {err}"
        after = {path for path in tmp_path.rglob("*") if path.is_file()}
        assert after == before, "nothing half-written stays"
        assert not list(Path(os.environ["SEQLAB_CACHE"]).rglob("*.part"))
        return err

    return check

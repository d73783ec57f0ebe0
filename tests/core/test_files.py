"""Files and folders that appear whole or not at all."""

import os
import signal
import subprocess
import sys

import pytest

from seqlab.errors import UserError
from seqlab.files import folder_beside, new_folder


def test_of_two_processes_that_make_the_same_folder_the_first_one_counts(tmp_path):
    """The other's folder appears while ours is filled: no error, theirs stays, and nothing of ours is
    left."""
    with folder_beside(tmp_path / "kept") as ours:
        (ours / "file").write_text("ours")
        with folder_beside(tmp_path / "other") as theirs:
            (theirs / "file").write_text("theirs")
        (tmp_path / "other").rename(tmp_path / "kept")

    assert (tmp_path / "kept" / "file").read_text() == "theirs"
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_a_name_is_taken_before_anything_is_written(tmp_path):
    """Who comes second is refused or gets the next name; who comes after the end is refused as well."""
    mine, other = tmp_path / "runs" / "mine", tmp_path / "runs" / "mine-2"
    with new_folder([mine, other]) as (first, beside):
        (beside / "file").write_text("ours")
        with pytest.raises(UserError, match="Another process has taken"), new_folder([mine]):
            pytest.fail("two in one folder")
        with new_folder([mine, other]) as (second, _):
            pass
        assert (first, second) == (mine, other) and not mine.exists()
    with pytest.raises(UserError, match="Another process has taken"), new_folder([mine]):
        pytest.fail("a folder that is there already")

    assert (mine / "file").read_text() == "ours"
    assert sorted(path.name for path in mine.parent.iterdir()) == ["mine", "mine-2"]


@pytest.mark.parametrize("error", [UserError("bad data"), KeyboardInterrupt()])
def test_nothing_stays_of_a_folder_whose_filling_fails(error, tmp_path):
    with pytest.raises(type(error)), new_folder([tmp_path / "made" / "for" / "run"]) as (_, beside):
        (beside / "half").write_text("")
        raise error
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_is_killed_does_not_keep_its_name(tmp_path):
    lines = ["import time", "from pathlib import Path", "from seqlab.files import new_folder"]
    lines += ["with new_folder([Path('run')]) as (_, beside):", " (beside / 'half').mkdir()"]
    lines += [" print('in', flush=True)", " time.sleep(60)"]
    process = subprocess.Popen([sys.executable, "-c", "\n".join(lines)], stdout=subprocess.PIPE, cwd=tmp_path)
    assert process.stdout is not None and process.stdout.readline() == b"in\n"
    with pytest.raises(UserError, match="Another process has taken"), new_folder([tmp_path / "run"]):
        pytest.fail("it is at work")
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()

    with new_folder([tmp_path / "run"]) as (_, beside):
        assert list(beside.iterdir()) == []
    assert [path.name for path in tmp_path.iterdir()] == ["run"]

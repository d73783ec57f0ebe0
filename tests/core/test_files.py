"""Files and folders that appear whole or not at all."""

from seqlab.files import folder_beside


def test_of_two_processes_that_make_the_same_folder_the_first_one_counts(tmp_path):
    """The other's folder appears while ours is filled: no error, theirs stays, and nothing of ours is left."""
    with folder_beside(tmp_path / "kept") as ours:
        (ours / "file").write_text("ours")
        with folder_beside(tmp_path / "other") as theirs:
            (theirs / "file").write_text("theirs")
        (tmp_path / "other").rename(tmp_path / "kept")

    assert (tmp_path / "kept" / "file").read_text() == "theirs"
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]

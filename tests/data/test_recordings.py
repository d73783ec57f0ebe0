"""Recordings of every kind become the same frames, and what can't be heard is told with file and row."""

import random
import tracemalloc
import wave

import numpy as np
import pytest
import soundfile
from tones import RATE, melody, packed

from seqlab.data.columns import Role
from seqlab.data.read import Bad, DataConfig, Row
from seqlab.data.recordings import Framing, Recording, RecordingTable, heard
from seqlab.data.sound import SoundConfig
from seqlab.errors import UserError
from seqlab.fields.sound import SOUND, SoundField

LABEL = Role("label", ("label",))
TARGET = Role("target", ("target",), in_order=True)
SAMPLES = melody("abc", random.Random(0))


def table(*names, roles=(SOUND, LABEL), any_ending=False, **settings) -> RecordingTable:
    config = DataConfig(**settings)
    return RecordingTable([str(name) for name in names], config, roles, Framing(config.sound), any_ending)


def frames_of(row: Row) -> np.ndarray:
    return Recording.of(row.cells["sound"]).frames


def bad_of(path, *rows, **settings) -> Bad:
    path.write_text("sound,label\n" + "".join(f"{row}\n" for row in rows))
    [bad] = [row for row in table(path, **settings) if isinstance(row, Bad)]
    return bad


@pytest.mark.parametrize(
    ("name", "subtype"),
    [("a.wav", "PCM_16"), ("a.wav", "PCM_24"), ("a.wav", "FLOAT"), ("a.wav", "PCM_U8"), ("a.flac", "PCM_24"),
     ("a.ogg", "VORBIS")],
)  # fmt: skip
def test_formats_and_depths_sound_alike(name, subtype, tmp_path):
    soundfile.write(tmp_path / name, SAMPLES, RATE, subtype)
    (tmp_path / "clips.csv").write_text(f"sound,label\n{name},x\n")
    [row] = table(tmp_path / "clips.csv").rows()
    wanted = Framing(SoundConfig()).frames(SAMPLES, RATE)
    rough = subtype in ("PCM_U8", "VORBIS")
    loud = wanted > wanted.max() - (4 if rough else 8)  # quiet bands hear the rounding
    assert np.abs(frames_of(row) - wanted)[loud].max() < (0.8 if rough else 0.1)
    assert row.cells["label"] == "x"


def test_channels_are_mixed_and_rates_are_brought_to_the_first_one(tmp_path):
    soundfile.write(tmp_path / "first.wav", SAMPLES, RATE)
    soundfile.write(tmp_path / "stereo.wav", np.stack([0.5 * SAMPLES, 1.5 * SAMPLES], axis=1), RATE)
    fine = melody("abc", random.Random(0), rate=2 * RATE)
    soundfile.write(tmp_path / "fine.wav", fine, 2 * RATE)
    (tmp_path / "clips.csv").write_text("audio,label\nfirst.wav,x\nstereo.wav,x\nfine.wav,x\n")
    clips = table(tmp_path / "clips.csv")
    first, stereo, resampled = map(frames_of, clips.rows())
    assert clips.framing.rate == RATE
    loud = first > first.max() - 5
    assert np.abs(stereo - first)[loud].max() < 0.1
    assert resampled.shape == first.shape
    assert np.median(np.abs(resampled - first)[loud]) < 0.15
    told = table(tmp_path / "clips.csv", sound=SoundConfig(rate=4000))
    assert len(list(told.rows())) == 3 and told.framing.rate == 4000


def test_a_folder_is_recordings_by_label_and_an_npz_has_a_column_an_array(tmp_path):
    for name in ("cat/b.wav", "cat/a.wav", "dog/c.flac"):
        (tmp_path / "clips" / name).parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(tmp_path / "clips" / name, SAMPLES, RATE)
    rows = list(table(tmp_path / "clips").rows())
    assert [row.cells["label"] for row in rows] == ["cat", "cat", "dog"]
    assert str(rows[0].place) == str(tmp_path / "clips" / "cat" / "a.wav")
    packed(tmp_path / "clips.npz", ["ab", "c"], label=["x", "y"], take=[1, 2])
    clips = list(table(tmp_path / "clips.npz").rows())
    assert [row.cells["label"] for row in clips] == ["x", "y"] and clips[1].record["take"] == "2"
    assert str(clips[1].place).endswith("clips.npz:2")
    [alone] = table(tmp_path / "clips" / "dog" / "c.flac", roles=(SOUND,), any_ending=True).rows()
    assert (frames_of(alone) == frames_of(rows[2])).all()


def test_a_cell_keeps_frames_and_name():
    frames = np.random.default_rng(0).standard_normal((7, 3)).astype(np.float16).astype(np.float32)
    again = Recording.of(Recording("a b.wav", frames).cell)
    assert again.name == "a b.wav" and (again.frames == frames).all()


def test_what_can_not_be_heard_is_told_with_file_and_row(tmp_path):
    clips = tmp_path / "clips.csv"
    soundfile.write(tmp_path / "good.wav", SAMPLES, RATE)
    soundfile.write(tmp_path / "empty.wav", np.zeros(0), RATE)
    (tmp_path / "broken.wav").write_bytes(b"RIFF\x10\x00\x00\x00WAVEjunk" + bytes(40))
    (tmp_path / "text.wav").write_text("this is no sound")
    (tmp_path / "short.wav").write_bytes((tmp_path / "good.wav").read_bytes()[:1000])
    with wave.open(str(tmp_path / "long.wav"), "wb") as file:
        file.setparams((1, 2, RATE, 0, "NONE", ""))
        file.writeframes(bytes(2 * RATE * 3))
    soundfile.write(tmp_path / "nan.wav", np.array([0.1, np.nan, 0.2]), RATE, "FLOAT")
    faults = {
        "missing.wav": "there is no file",
        "goood.wav": "there is no file",
        "empty.wav": "empty.wav has no samples",
        "broken.wav": "can't be read as sound",
        "text.wav": "can't be read as sound",
        "short.wav": "breaks off: its header tells of",
        "nan.wav": "nan.wav has samples that are no numbers",
    }
    for name, told in faults.items():
        bad = bad_of(clips, "good.wav,x", f"{name},x")
        assert told in bad.what and bad.place.line == 3 and bad.fix, bad
        assert name != "goood.wav" or 'Did you mean "good.wav"' in bad.fix
        assert str(clips) in str(bad.error()) and name[:3] in bad.what
    bad = bad_of(clips, "long.wav,x", sound=SoundConfig(longest=2))
    assert "lasts 3.0 seconds" in bad.what and "data.sound.longest" in bad.fix


def test_hours_of_silence_in_a_small_file_are_not_read(tmp_path):
    """An hour at 8,000 samples a second: 230 megabytes of numbers, were they read."""
    with soundfile.SoundFile(tmp_path / "long.flac", "w", RATE, 1) as file:
        for _ in range(60):
            file.write(np.zeros(60 * RATE))
    assert (tmp_path / "long.flac").stat().st_size < 200_000
    tracemalloc.start()
    bad = bad_of(tmp_path / "clips.csv", "long.flac,x")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "long.flac lasts 3,600.0 seconds" in bad.what and most < 20_000_000


def test_the_same_sound_is_one_recording_whatever_it_is_called():
    frames, field = np.ones((7, 3), np.float32), SoundField()
    marks = {field.mark({"sound": Recording(name, frames).cell}) for name in ("a.wav", "b c.wav", "x: 3")}
    assert len(marks) == 1 != field.mark({"sound": Recording("a.wav", 2 * frames).cell})


def test_bands_above_what_a_rate_can_hold_are_refused():
    with pytest.raises(UserError, match="begins at 20 Hz") as error:
        Framing(SoundConfig()).frames(np.ones(60), 30)
    assert "data.sound.rate" in error.value.fix


def test_folders_and_arrays_at_fault_are_told(tmp_path):
    (tmp_path / "flat").mkdir()
    soundfile.write(tmp_path / "flat" / "a.wav", SAMPLES, RATE)
    with pytest.raises(UserError, match="there is no label in a folder of recordings"):
        list(table(tmp_path / "flat"))
    with pytest.raises(UserError, match="there is no target"):
        list(table(tmp_path / "flat", roles=(SOUND, TARGET)))
    arrays = {"audio": np.zeros(9, np.int16), "offsets": np.array([0, 4, 9]), "rate": np.array(8000)}
    faults = {
        "there is no array 'rate'": {name: arrays[name] for name in ("audio", "offsets")},
        "its offsets do not cut 9 samples": arrays | {"offsets": np.array([0, 4, 10])},
        "its rate is not one number above 0": arrays | {"rate": np.array([8000, 0])},
        "offsets is an array of float64": arrays | {"offsets": np.array([0, 4, 9.0])},
        "audio is an array of": arrays | {"audio": np.array(["a"] * 9)},
        "rate is an array of": arrays | {"rate": np.array("8 kHz")},
    }
    for told, some in faults.items():
        np.savez(tmp_path / "clips.npz", **some)
        with pytest.raises(UserError, match=told):
            list(table(tmp_path / "clips.npz", roles=(SOUND,)))
    (tmp_path / "clips.npz").write_bytes(b"PK no zip")
    with pytest.raises(UserError, match="it can't be read"):
        list(table(tmp_path / "clips.npz", roles=(SOUND,)))
    np.savez(tmp_path / "clips.npz", **(arrays | {"offsets": np.array([0, 9, 9])}))
    [_, bad] = table(tmp_path / "clips.npz", roles=(SOUND,))
    assert isinstance(bad, Bad) and bad.place.line == 2 and "no samples" in bad.what


def test_samples_and_names_are_heard_alike_and_nonsense_is_refused(tmp_path):
    framing = Framing(SoundConfig(), RATE)
    soundfile.write(tmp_path / "a.wav", SAMPLES, RATE, "FLOAT")
    one, two = heard(str(tmp_path / "a.wav"), framing), heard((SAMPLES.astype(np.float32), RATE), framing)
    assert (one.frames == two.frames).all()
    for given in (3.5, [1, 2, 3], str(tmp_path / "b.wav"), (np.zeros(0), RATE)):
        with pytest.raises(UserError) as error:
            heard(given, framing)
        assert error.value.what and error.value.why and error.value.fix


def test_without_the_extra_its_line_is_told(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "soundfile", None)
    soundfile.write(tmp_path / "a.wav", SAMPLES, RATE)
    with pytest.raises(UserError) as error:
        heard(str(tmp_path / "a.wav"), Framing(SoundConfig()))
    assert 'pip install "seqlab[sound]"' in error.value.fix
    monkeypatch.setitem(__import__("sys").modules, "soxr", None)
    with pytest.raises(UserError) as error:
        Framing(SoundConfig(rate=4000)).frames(SAMPLES, RATE)
    assert 'pip install "seqlab[sound]"' in error.value.fix

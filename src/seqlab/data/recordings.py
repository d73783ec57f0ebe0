"""Recordings as rows: files that a table names, files in folders, or all in one .npz; whatever their rate and
channels, they become frames."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqlab.data.arrays import ArraysFault, arrays_in
from seqlab.data.columns import Layout, Role, layout_of
from seqlab.data.files import ENDINGS, DataFile, Place, files_in
from seqlab.data.read import Bad, DataConfig, Row, Table
from seqlab.data.sound import USUAL_RATE, Frames, SoundConfig, log_mel
from seqlab.errors import UserError, did_you_mean

PACKED = ("audio", "offsets", "rate")
"""Arrays of an .npz of recordings; every other array with an entry for each recording is a column."""
SAMPLED = 20
"""Rows by which columns are told apart."""
Samples = NDArray[np.floating]
UNKNOWN_SIZES = (0, 0xFFFFFFFF, 0x7FFFFFFF, 0x7FFFFFFE)
"""What stands in place of a file's size where it was written into a pipe."""


class SoundFault(Exception):
    """A recording that can't be used: what is wrong with it, and how to go on."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what)
        self.what, self.fix = what, fix


@dataclass(frozen=True, eq=False)
class Recording:
    """A recording that was read."""

    name: str
    """Of its file, or where it stands in one."""
    frames: Frames
    """T F: log-mel energies."""

    @property
    def cell(self) -> str:
        """As the text that a cell keeps: T, F, the frames, and the name."""
        steps, bands = self.frames.shape
        coded = base64.b64encode(np.ascontiguousarray(self.frames, "<f2").tobytes()).decode("ascii")
        return f"{steps} {bands} {coded} {self.name}"

    @staticmethod
    def of(cell: str) -> Recording:
        steps, bands, coded, name = cell.split(" ", 3)
        frames = np.frombuffer(base64.b64decode(coded), "<f2").astype(np.float32)
        return Recording(name, frames.reshape(int(steps), int(bands)))


class Framing:
    """What makes frames of samples. Where no rate is told, the first recording decides."""

    def __init__(self, config: SoundConfig, rate: int = 0) -> None:
        """`rate`: that of the recordings a run has learnt from, where they are known."""
        self.config = config
        self.rate = rate or config.rate or 0

    def frames(self, samples: Samples, rate: int) -> Frames:
        """Frames (T F) of samples (N) or (N channels); a SoundFault where there is nothing to hear."""
        mono = np.asarray(samples, np.float32)
        mono = mono.mean(axis=1) if mono.ndim == 2 else mono
        if not len(mono):
            raise SoundFault("the recording has no samples", "Record it anew, or remove the row.")
        if not np.isfinite(mono).all():
            raise SoundFault(
                "the recording has samples that are no numbers", "Write it again from its source."
            )
        _refuse_long("the recording", len(mono) / rate, self.config.longest)
        self.rate = self.rate or min(USUAL_RATE, rate)
        frames = log_mel(_resampled(mono, rate, self.rate), self.rate, self.config)
        kept: Frames = frames.astype(np.float16).astype(np.float32)  # as in a cell
        return kept

    def read(self, path: Path) -> Recording:
        """The recording in a file."""
        samples, rate = read_sound(path, self.config.longest)
        try:
            return Recording(str(path), self.frames(samples, rate))
        except SoundFault as fault:
            raise SoundFault(fault.what.replace("the recording", str(path), 1), fault.fix) from None


def _resampled(samples: Samples, rate: int, wanted: int) -> Samples:
    if rate == wanted:
        return samples
    try:
        import soxr
    except ImportError:
        why = f"Recordings of {rate:,} samples a second are brought to {wanted:,} with it."
        raise _missing("soxr", why) from None
    found: Samples = soxr.resample(samples, rate, wanted)
    return found if len(found) else np.zeros(1, np.float32)


def _missing(package: str, why: str) -> UserError:
    return UserError(what=f"{package} is not installed.", why=why, fix='pip install "seqlab[sound]"')


def read_sound(path: Path, longest: float) -> tuple[Samples, int]:
    """Samples (N channels) between −1 and 1, and how many there are in a second.

    Of a longer recording no more is read than shows that it is one: a small file can hold hours of silence.
    """
    path = path.expanduser()
    if not path.exists():
        near = sorted(child.name for child in path.parent.iterdir()) if path.parent.is_dir() else []
        raise SoundFault(
            f"there is no file {path}",
            f"Name it as seen from the table's folder.{did_you_mean(path.name, near)}",
        )
    try:
        import soundfile
    except ImportError:
        raise _missing("soundfile", "Recordings (.wav, .flac, .ogg) are read with it.") from None
    try:
        _refuse_broken_off(path)
        with soundfile.SoundFile(path) as file:
            rate = int(file.samplerate)
            _refuse_long(str(path), file.frames / rate, longest)
            samples = file.read(frames=int(longest * rate) + 1, dtype="float32", always_2d=True)
    except (soundfile.LibsndfileError, OSError, RuntimeError) as error:
        told = str(error).removeprefix(f"Error opening {str(path)!r}: ").rstrip(".")
        raise SoundFault(
            f"{path} can't be read as sound: {told}", "Copy or convert it again, or remove the row."
        ) from None
    return samples, rate


def _refuse_long(name: str, seconds: float, longest: float) -> None:
    if seconds > longest:
        raise SoundFault(
            f"{name} lasts {seconds:,.1f} seconds, and data.sound.longest is {longest:g}",
            "Cut it into pieces, or raise data.sound.longest.",
        )


def _refuse_broken_off(path: Path) -> None:
    """A .wav that is shorter than its header says was not copied in full; what is left would be read."""
    with path.open("rb") as file:
        head = file.read(8)
    size, told = path.stat().st_size, int.from_bytes(head[4:8], "little")
    if head[:4] == b"RIFF" and told not in UNKNOWN_SIZES and told + 8 > size:
        raise SoundFault(
            f"{path} breaks off: its header tells of {told + 8:,} bytes, but there are {size:,}",
            "Copy or download it again, or remove the row.",
        )


class Packed:
    """The recordings of an .npz: clip i is audio[offsets[i] : offsets[i + 1]]."""

    def __init__(self, source: DataFile) -> None:
        try:
            arrays = dict(arrays_in(source.path))
        except ArraysFault as fault:
            raise _of_npz(source, f"it can't be read: {fault}") from None
        if lacks := [name for name in PACKED if name not in arrays]:
            raise _of_npz(source, f"there is no array {lacks[0]!r} in it")
        self.audio, self.offsets, rate = (arrays.pop(name) for name in PACKED)
        kinds = {"audio": (self.audio, (1, 2)), "offsets": (self.offsets, (1,)), "rate": (rate, (0, 1))}
        for name, (array, dimensions) in kinds.items():
            if array.dtype.kind not in ("iu" if name == "offsets" else "iuf") or array.ndim not in dimensions:
                raise _of_npz(source, f"{name} is an array of {array.dtype} in {array.ndim} dimensions")
        rising = len(self.offsets) > 1 and (np.diff(self.offsets) >= 0).all()
        if not rising or self.offsets[0] < 0 or self.offsets[-1] > len(self.audio):
            raise _of_npz(source, f"its offsets do not cut {len(self.audio):,} samples into clips")
        self.rates = np.broadcast_to(rate, len(self)) if rate.ndim == 0 else rate
        if len(self.rates) != len(self) or not (self.rates > 0).all():
            raise _of_npz(source, "its rate is not one number above 0, for all clips or for each")
        self.columns = {name: array for name, array in arrays.items() if array.shape == (len(self),)}

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def record(self, row: int) -> dict[str, str]:
        """The columns of a clip; in place of its sound, its number."""
        return {PACKED[0]: str(row)} | {name: str(array[row]) for name, array in self.columns.items()}

    def samples(self, row: int) -> tuple[Samples, int]:
        clip = self.audio[self.offsets[row] : self.offsets[row + 1]]
        if clip.dtype.kind == "u":
            half = 2 ** (8 * clip.dtype.itemsize - 1)
            clip = (clip.astype(np.float64) - half) / half
        elif clip.dtype.kind == "i":
            clip = clip / 2 ** (8 * clip.dtype.itemsize - 1)
        return clip.astype(np.float32), int(self.rates[row])


def _of_npz(source: DataFile, how: str) -> UserError:
    return UserError(
        what=f"{source.name}: this is no .npz of recordings: {how}.",
        why="It has the samples of all clips as audio, where each begins and the last one ends as offsets,"
        " and the samples a second as rate; other arrays are columns.",
        fix="numpy.savez(name, audio=..., offsets=..., rate=16000, label=...)",
    )


class RecordingTable(Table):
    """Rows with a recording: of a table, of a folder, of an .npz, or single files."""

    def __init__(
        self,
        names: Sequence[str],
        config: DataConfig,
        roles: Sequence[Role],
        framing: Framing,
        any_ending: bool,
    ) -> None:
        super().__init__(names, config, roles, any_ending)
        self.framing = framing
        self._packed: dict[str, Packed] = {}

    def _format(self, source: DataFile) -> str:
        single = source.path.name.lower().endswith(ENDINGS["sound"]) and not source.path.is_dir()
        return "file" if single else super()._format(source)

    def _find_layout(self, source: DataFile) -> Layout:
        if self._format(source) not in ("npz", "folder", "file"):
            return super()._find_layout(source)
        sample = [values for _, values in self._objects(source) if isinstance(values, dict)]
        if not sample:
            raise UserError(
                what=f"{source.name}: there is no recording in it.",
                why=f"Recordings end with {' '.join(ENDINGS['sound'])}",
                fix="Name another folder, or a table with a column of their names.",
            )
        names = list(sample[0])
        rows = [names, *([str(cell) for cell in values.values()] for values in sample[:SAMPLED])]
        wanted = [role.name for role in self.roles[1:] if role.required and role.name not in names]
        if wanted and self._format(source) == "folder":
            raise UserError(
                what=f"{source.name}: there is no {wanted[0]} in a folder of recordings.",
                why="Folders in it are labels: folder/label/recording.wav. Nothing else is known of a file.",
                fix="Put them into a folder for each label, or name them in a table: sound,label",
            )
        return layout_of(source.name, rows, self.roles, self.config.columns, header=True, named=True)

    def _objects(self, source: DataFile) -> Iterator[tuple[Place, dict[str, Any] | Bad]]:
        kind = self._format(source)
        if kind == "npz":
            packed = self._unpacked(source)
            for row in range(len(packed)):
                yield Place(source.name, row + 1), packed.record(row)
        elif kind == "folder":
            yield from self._files(source)
        elif kind == "file":
            yield Place(source.name, 0), {"sound": source.path.name}
        else:
            yield from super()._objects(source)

    def _files(self, source: DataFile) -> Iterator[tuple[Place, dict[str, Any] | Bad]]:
        found = [path.relative_to(source.path) for path in files_in(source.path, "sound")]
        labelled = any(len(path.parts) > 1 for path in found)
        for path in found:
            label = {"label": path.parent.name} if labelled else {}
            yield Place(str(source.path / path), 0), {"sound": str(path), **label}

    def _unpacked(self, source: DataFile) -> Packed:
        if source.name not in self._packed:
            self._packed[source.name] = Packed(source)
        return self._packed[source.name]

    def _checked(self, place: Place, record: dict[str, str], layout: Layout) -> Row | Bad:
        row = super()._checked(place, record, layout)
        if isinstance(row, Bad):
            return row
        cell = row.cells["sound"]
        packed = self._packed.get(place.file)
        try:
            if packed is not None:
                heard = Recording(str(place), self.framing.frames(*packed.samples(int(cell))))
            else:
                beside = Path(place.file)
                heard = self.framing.read(beside if place.line == 0 else beside.parent / cell)
        except SoundFault as fault:
            return Bad(place, f"{fault.what}.", fault.fix)
        return Row(place, {**row.cells, "sound": heard.cell}, record)


def heard(given: Any, framing: Framing) -> Recording:
    """What a user gave to be listened to: the name of a file, samples with their rate, or a recording."""
    if isinstance(given, Recording):
        return given
    try:
        if isinstance(given, (str, Path)):
            return framing.read(Path(given))
        if isinstance(given, tuple) and isinstance(given[0], str):
            raise SoundFault(
                "two inputs are given together, with a tab between them", "Give them one by one."
            )
        samples, rate = given
        return Recording("a recording", framing.frames(samples, int(rate)))
    except SoundFault as fault:
        what, fix = fault.what, fault.fix.replace(", or remove the row", "")
    except (TypeError, ValueError):
        what, fix = f"{str(given)[:60]!r} is no recording", "In Python: run.predict([(samples, 16000)])"
    begin = what if what.startswith(str(given)) else f"{what[0].upper()}{what[1:]}"
    raise UserError(
        what=f"{begin}.",
        why="The model listens to recordings: the names of .wav, .flac or .ogg files.",
        fix=fix.replace("Name it as seen from the table's folder", "Check the name, or give the whole path"),
    )

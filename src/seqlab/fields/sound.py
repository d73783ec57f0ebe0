"""A recording that is read: frames of log-mel energies, on a scale that is learnt from the training rows."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqlab.data.batches import Rows, Seeds
from seqlab.data.cells import Cells
from seqlab.data.files import Place
from seqlab.data.kinds import NAMES
from seqlab.data.read import DataConfig, Role, Table
from seqlab.data.recordings import Framing, Recording, RecordingTable, heard
from seqlab.data.sound import SoundConfig, masked
from seqlab.data.store import Ragged, Store, offsets_of
from seqlab.data.survey import SHOWN, Look, Problem, Split, Splits, first_of, text_hash
from seqlab.fields.field import Encoded, Given, ReadField, kept_texts, raw_text
from seqlab.model import ModelConfig
from seqlab.seq import Nested, Seq

SOUND = Role("sound", (*NAMES["sound"], "path", "file", "filename", "file_name"))
FIELD = "values"
"""What inputs of real numbers call what they read."""
SILENT = 0.1
"""The standard deviation of energies below which there is nothing to hear."""
SALT = 20_190_418
"""Part of the seed of masks, so that nobody else draws the same numbers."""


@dataclass(frozen=True)
class SoundFacts:
    sound_rate: int = 0
    """Samples a second that every recording is brought to."""
    sound_means: tuple[float, ...] = ()
    sound_spreads: tuple[float, ...] = ()
    """Of each band, over the frames of the training rows: models read (energy − mean) / spread."""
    sound_example: str = ""
    """The file of a recording to try the model on."""


class SoundLook(Look):
    """Frames, sums and sums of squares of each recording, and a hash of all rows."""

    def __init__(self) -> None:
        self._frames, self._silent = array("q"), array("b")
        self._sums: list[NDArray[np.float64]] = []
        """2 F: sums, and sums of squares."""
        self.digest = hashlib.sha256()

    def see(self, cells: Cells, mark: int) -> None:
        recording = Recording.of(cells["sound"])
        frames = recording.frames.astype(np.float64)
        self._frames.append(len(frames))
        self._silent.append(bool(frames.std() < SILENT))
        self._sums.append(np.concatenate([frames.sum(axis=0), (frames**2).sum(axis=0)]))
        self.digest.update(
            "\0".join(
                [str(mark), recording.name, *(cells[role] for role in cells if role != "sound")]
            ).encode()
        )
        self.characters += len(frames)

    @property
    def frames(self) -> NDArray[np.int64]:
        return np.array(self._frames, np.int64)

    @property
    def silent(self) -> NDArray[np.bool_]:
        return np.array(self._silent, np.bool_)

    def scale(self, chosen: NDArray[np.bool_]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean and standard deviation of each band, over the frames of the chosen rows."""
        sums = np.stack(self._sums)[chosen].sum(axis=0)
        mean, square = np.split(sums / self.frames[chosen].sum(), 2)
        spread = np.sqrt(np.maximum(square - mean**2, 0.0))
        return mean, np.where(spread > 1e-3, spread, 1.0)


class SoundField(ReadField):
    """A recording, whole. Files and their rates, channels and depths may differ; models read frames."""

    name = "sound"
    kind = "sound"
    noun = "recording"
    yours = "recording.wav"
    lengths_tell = False
    chunk = 512
    Facts = SoundFacts
    facts: SoundFacts
    names = (FIELD,)

    def __init__(self) -> None:
        self.facts = SoundFacts()
        self.config = SoundConfig()
        self._framing: Framing | None = None
        self._read: dict[str, str] = {}
        """Hashes of the rows of each data set."""

    @property
    def counted(self) -> str:
        return "recordings"

    def roles(self, found: Mapping[str, str] | None = None) -> list[Role]:
        return [SOUND]

    def open(self, names: Sequence[str], data: DataConfig, roles: Sequence[Role]) -> Table:
        self.config = data.sound
        return RecordingTable(names, data, roles, self.framing, any_ending=False)

    def asked(self, names: Sequence[str], data: DataConfig, roles: Sequence[Role]) -> Table:
        return RecordingTable(names, data, roles, self.framing, any_ending=True)

    @property
    def framing(self) -> Framing:
        """One for all data sets of a run, so that their rate is one."""
        if self._framing is None:
            self._framing = Framing(self.config, self.facts.sound_rate)
        return self._framing

    def mark(self, cells: Cells) -> int:
        return text_hash(" ".join(cells["sound"].split(" ", 3)[:3]))  # its frames, whatever its name is

    # What is there ------------------------------------------------------------------------------------------

    def look(self, split: str) -> SoundLook:
        return SoundLook()

    def _look(self, split: Split) -> SoundLook:
        look: SoundLook = split.looks[self.name]
        return look

    def words(self, split: Split) -> float:
        return float(self._look(split).frames.mean()) if split.rows else 1.0

    def problems(self, splits: Splits) -> Iterator[Problem]:
        for split in splits.values():
            silent: NDArray[np.int64] = np.flatnonzero(self._look(split).silent)
            if len(silent):
                others = ", ".join(str(split.place(int(row))) for row in silent[1:SHOWN])
                places = f", also at {others}" if others else ""
                yield Problem(
                    "warning",
                    f"{split.name}: {len(silent):,} of the recordings are silent{places}.",
                    split.place(int(silent[0])),
                    "Remove them, unless silence is something to tell.",
                )

    def lines(self, split: Split) -> list[str]:
        seconds = self.config.hop * self._look(split).frames
        low, half, high = np.quantile(seconds, [0, 0.5, 1], method="inverted_cdf").tolist()
        return [
            f"  seconds: from {low:.2f} to {high:.2f}, half up to {half:.2f};"
            f" {seconds.sum() / 60:,.1f} minutes in all, at {self.framing.rate:,} samples a second"
        ]

    # Learning -----------------------------------------------------------------------------------------------

    def set_up(self, data: DataConfig, model: ModelConfig) -> None:
        self.config = data.sound

    def settle(self, splits: Splits, chosen: NDArray[np.bool_]) -> None:
        mean, spread = self._look(first_of(splits)).scale(chosen)
        self.facts = SoundFacts(self.framing.rate, tuple(mean.tolist()), tuple(spread.tolist()))
        self._read = {name: self._look(split).digest.hexdigest() for name, split in splits.items()}

    def settings(self) -> Mapping[str, Any]:
        facts = self.facts
        return {
            "scale": [facts.sound_means, facts.sound_spreads],
            "rate": facts.sound_rate,
            "rows": self._read,
        }

    def finish(self, stores: Mapping[str, Store]) -> None:
        names = kept_texts(stores["valid"].fields["raw.sound"], np.arange(min(20, stores["valid"].rows)))
        plain = [name for name in names if not set(name) & set('"$`\\!') and Path(name).exists()]
        self.facts = replace(self.facts, sound_example=min(plain, key=len, default=""))

    @property
    def example(self) -> str:
        return self.facts.sound_example or self.yours

    @property
    def features(self) -> dict[str, int]:
        return {FIELD: len(self.facts.sound_means)}

    # Numbers ------------------------------------------------------------------------------------------------

    @property
    def _scale(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        return np.array(self.facts.sound_means, np.float32), np.array(self.facts.sound_spreads, np.float32)

    def encode(self, rows: Sequence[Cells], places: Sequence[Place] | None, keep: bool) -> Encoded:
        mean, spread = self._scale
        recordings = [Recording.of(cells["sound"]) for cells in rows]
        frames = [((one.frames - mean) / spread).astype(np.float16) for one in recordings]
        offsets = offsets_of(np.array([len(one) for one in frames], np.int64))
        values = {FIELD: Ragged(np.concatenate(frames), offsets)}
        return Encoded(values | ({"raw.sound": raw_text([one.name for one in recordings])} if keep else {}))

    def varied(self, inputs: dict[str, Seq | Nested], rows: Rows, seeds: Seeds) -> dict[str, Seq | Nested]:
        """Parts of each recording are hidden, as data.sound.masks says; they follow from seeds and row."""
        masks, read = self.config.masks, inputs[FIELD]
        if not (masks.times or masks.bands):
            return inputs
        assert isinstance(read, Seq)
        hidden = read.values.clone()
        for place, (row, length) in enumerate(zip(rows.tolist(), read.lengths.tolist(), strict=True)):
            random = np.random.Generator(np.random.PCG64(np.random.SeedSequence([SALT, *seeds, row])))
            frames = hidden[place, :length].numpy()
            frames[:] = masked(frames, masks, self.config.hop, random)
        return {**inputs, FIELD: read.with_values(hidden)}

    def cells_of(self, given: Given) -> Cells:
        return {"sound": heard(given, self.framing).cell}

    def text_of(self, cells: Cells) -> Given:
        return Recording.of(cells["sound"])

    def texts(self, store: Store, rows: NDArray[np.int64] | None = None) -> list[Given]:
        kept, (mean, spread) = store.fields[FIELD], self._scale
        rows = np.arange(kept.rows) if rows is None else np.asarray(rows)
        some = kept.take(rows)
        frames = some.values.astype(np.float32) * spread + mean
        return [
            Recording(name, frames[start:end])
            for name, start, end in zip(
                kept_texts(store.fields["raw.sound"], rows), some.offsets, some.offsets[1:], strict=False
            )
        ]

    # Shown --------------------------------------------------------------------------------------------------

    def pieces(self, given: Given) -> list[list[str]]:
        """The second at which each frame begins."""
        frames = heard(given, self.framing).frames
        return [[f"{self.config.hop * step:.2f}" for step in range(len(frames))]]

    def shown(self, given: Given) -> str:
        one = heard(given, self.framing)
        return f"{one.name} ({self.config.hop * len(one.frames):.2f} s)"

    def brief(self, given: Given) -> str:
        return self.shown(given)

    def picture(self, given: Given) -> NDArray[np.uint8]:
        """Its spectrogram (F T 3), the highest band on top, the loudest energy darkest."""
        frames = heard(given, self.framing).frames
        low, high = np.quantile(frames, [0.05, 1.0])
        level = np.clip((frames - low) / max(1e-6, float(high - low)), 0, 1)
        pixels: NDArray[np.uint8] = np.rint(255 * (1 - level)).astype(np.uint8).T[::-1]
        return np.repeat(pixels[:, :, None], 3, axis=2)

"""A picture that is read."""

from __future__ import annotations

import hashlib
import re
from array import array
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqlab.data.batches import Rows, Seeds
from seqlab.data.cells import Cells
from seqlab.data.files import Place
from seqlab.data.kinds import NAMES
from seqlab.data.picture_table import PictureTable
from seqlab.data.pictures import LARGEST, Picture, PictureFault, opened, resized
from seqlab.data.read import DataConfig, Role, Table
from seqlab.data.store import Ragged, Store, offsets_of
from seqlab.data.survey import Look, Problem, Split, Splits, first_of, text_hash
from seqlab.errors import UserError
from seqlab.fields.field import Encoded, Given, ReadField, kept_texts, raw_text
from seqlab.model import ModelConfig
from seqlab.seq import Nested, Seq

IMAGE = Role("image", NAMES["image"], required=False)
SIDES = re.compile(
    r"\b(left|right|links?|rechts?|gauche|droite?|izquierd[ao]|derech[ao]|sinistr[ao]|destr[ao])\b", re.I
)
"""Words of captions and labels that are no longer true of a picture's mirror image."""
NUMBER = re.compile(r"[+-]?\d+(?:[.,]\d+)?(?:e[+-]?\d+)?", re.I)
"""What may be the name of a sign, or an angle."""
SHIFT = 12
"""Pictures are shifted by up to this part of their side."""
LIGHT = 0.2
"""By how much brightness and contrast change, at the most."""


@dataclass(frozen=True)
class ImageFacts:
    image_size: int = LARGEST
    """Pixels on each side."""
    image_flips: bool = False
    """Whether half of the pictures are mirrored while training."""
    image_example: str = ""
    """The name of a picture to try the model on."""


class ImageLook(Look):
    """Sides of each picture, whether a mirror image would be as true, and a hash of all rows."""

    def __init__(self) -> None:
        self._sides = array("I")
        self._digest = hashlib.sha256()
        self.mirrors = True

    def see(self, cells: Cells, mark: int) -> None:
        shape, _, name = cells["image"].split("|", 2)
        height, width = map(int, shape.split())
        self._sides.extend((height, width))
        self.characters += 1
        for role in sorted(cells):
            text = f"{mark} {name}" if role == "image" else cells[role]
            self._digest.update(text.encode("utf-8", "replace"))
            if role != "image" and self.mirrors:
                sign = len(text.strip()) < 2 or NUMBER.fullmatch(text.strip()) is not None
                self.mirrors = not sign and SIDES.search(text) is None

    @property
    def sides(self) -> NDArray[np.uint32]:
        """N 2: height and width."""
        return np.array(self._sides, np.uint32).reshape(-1, 2)

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()


class ImageField(ReadField):
    """A picture, brought to the size of all others: H lines of W pixels of three bytes.

    A picture is a sequence of lines, so that batches of large pictures have fewer of them.
    """

    name = "image"
    kind = "image"
    noun = "picture"
    yours = "picture.png"
    Facts = ImageFacts
    facts: ImageFacts
    names = ("image",)
    chunk = 256
    lengths_tell = False

    def __init__(self) -> None:
        self.facts = ImageFacts()
        self._digests: list[str] = []

    @property
    def counted(self) -> str:
        return "pictures"

    def roles(self, found: Mapping[str, str] | None = None) -> list[Role]:
        return [IMAGE]

    def open(self, names: Sequence[str], data: DataConfig, roles: Sequence[Role]) -> Table:
        return PictureTable(names, data, roles)

    asked = open

    def data_of(self, split: str, data: DataConfig) -> DataConfig:
        images = {"train": data.images, "valid": data.valid_images, "test": data.test_images}
        own = images[split]
        arrays = own or (images["train"] if not images["train"].endswith(".npz") else "")
        return replace(data, images=arrays)  # one folder or archive may hold the pictures of all splits

    def elsewhere(self, data: DataConfig, told: Container[str]) -> DataConfig:
        size = replace(data.image, size=self.facts.image_size)
        return replace(data, images=data.images if "data.images" in told else "", image=size)

    def mark(self, cells: Cells) -> int:
        return text_hash("|".join(cells["image"].split("|", 2)[:2]))  # its pixels, whatever its name is

    # What is there ------------------------------------------------------------------------------------------

    def look(self, split: str) -> ImageLook:
        return ImageLook()

    def words(self, split: Split) -> float:
        return float(self._size(split))

    def _size(self, split: Split) -> int:
        told = split.walk.table.config.image.size
        return told or int(split.looks[self.name].sides.max(initial=1))

    def problems(self, splits: Splits) -> Iterator[Problem]:
        for split in splits.values():
            if split.repeated:
                share = 100 * split.repeated / split.rows
                rows = f"{split.repeated:,} row{' repeats' if split.repeated == 1 else 's repeat'}"
                repeated = f"{split.name}: {rows} an earlier picture ({share:.1f} %)."
                yield Problem("note", repeated, None, "Nothing has to be done where that is meant.")

    def found_lines(self, found: Mapping[str, str]) -> list[str]:
        others = ", ".join(f'{role} is "{column}"' for role, column in found.items() if role != self.name)
        return [f"pictures: {found.get(self.name, 'image')}" + (f"; {others}" if others else "")]

    def lines(self, split: Split) -> list[str]:
        sides, size = split.looks[self.name].sides, self._size(first_of({split.name: split}))
        high, wide = sides.max(axis=0).tolist()
        return [f"  read with up to {wide} × {high} pixels, as squares of {size} × {size}"]

    # Learning -----------------------------------------------------------------------------------------------

    def set_up(self, data: DataConfig, model: ModelConfig) -> None:
        self.data = data
        if model.input is not None and model.input.reads != self.kind:
            raise UserError(
                what=f"model.input is of kind {model.input.kind}, but these data are pictures.",
                why="It does not read the pixels of a picture.",
                fix="Set model.input.kind=grid or model.input.kind=patches.",
            )

    def settle(self, splits: Splits, chosen: NDArray[np.bool_]) -> None:
        train, told = first_of(splits), self.data.image.flip
        flips = train.looks[self.name].mirrors if told is None else told
        self.facts = ImageFacts(self._size(train), flips)
        self._digests = [split.looks[self.name].digest for split in splits.values()]

    def settings(self) -> Mapping[str, Any]:
        return {"size": self.facts.image_size, "pictures": self._digests}

    def finish(self, stores: Mapping[str, Store]) -> None:
        names = kept_texts(stores["valid"].fields["raw.image"], np.array([0]))
        self.facts = replace(self.facts, image_example=names[0] if Path(names[0]).is_file() else "")

    @property
    def example(self) -> str:
        return self.facts.image_example or self.yours

    @property
    def features(self) -> dict[str, int]:
        return {"image": 3}

    def length(self, facts: Any) -> float:
        return float(self.facts.image_size)

    # Numbers ------------------------------------------------------------------------------------------------

    def encode(self, rows: Sequence[Cells], places: Sequence[Place] | None, keep: bool) -> Encoded:
        size = self.facts.image_size
        pictures = [Picture.unpacked(cells["image"]) for cells in rows]
        lines = np.concatenate([resized(picture.pixels, size, size) for picture in pictures])
        values = {"image": Ragged(lines, offsets_of(np.full(len(rows), size, np.int64)))}
        return Encoded(values | ({"raw.image": raw_text([one.name for one in pictures])} if keep else {}))

    def cells_of(self, given: Given) -> Cells:
        try:
            picture = opened(given, replace(self.data.image, size=self.facts.image_size))
        except PictureFault as fault:
            raise UserError(what=fault.what, why="This model reads pictures.", fix=fault.fix) from None
        return {"image": picture.packed()}

    def text_of(self, cells: Cells) -> Given:
        return Picture.unpacked(cells["image"])

    def texts(self, store: Store, rows: NDArray[np.int64] | None = None) -> list[Given]:
        rows = np.arange(store.fields["image"].rows) if rows is None else np.asarray(rows)
        names = (
            kept_texts(store.fields["raw.image"], rows) if "raw.image" in store.fields else [""] * len(rows)
        )
        size = self.facts.image_size
        pixels = store.fields["image"].take(rows).values.reshape(-1, size, size, 3)
        return [Picture(one, name) for one, name in zip(pixels, names, strict=True)]

    def varied(self, inputs: dict[str, Seq | Nested], rows: Rows, seeds: Seeds) -> dict[str, Seq | Nested]:
        if not self.data.image.augment:
            return inputs
        read = inputs["image"]
        assert isinstance(read, Seq)
        return {
            **inputs,
            "image": read.with_values(augmented(read.values, rows, seeds, self.facts.image_flips)),
        }

    # Shown --------------------------------------------------------------------------------------------------

    def picture(self, given: Given) -> NDArray[np.uint8]:
        """As the model sees it: H W 3."""
        return Picture.unpacked(self.cells_of(given)["image"]).pixels

    def shown(self, given: Given) -> str:
        return str(given) if isinstance(given, (str, Path, Picture)) else str(Picture(self.picture(given)))

    def brief(self, given: Given) -> str:
        return self.shown(given)


def augmented(pixels: Tensor, rows: Rows, seeds: Seeds, flips: bool) -> Tensor:
    """Pictures (B H W 3, bytes) as one pass sees them: shifted by up to a twelfth of their side, with the
    pixels of the edge repeated, brighter or darker, with more or less contrast, and half of them mirrored."""
    drawn = np.stack([np.random.default_rng([*seeds, row]).random(5) for row in rows.tolist()])  # B 5
    height, width = pixels.shape[1:3]
    most = np.array([height // SHIFT, width // SHIFT])
    steps = np.rint((2 * drawn[:, :2] - 1) * most).astype(np.int64)  # B 2: lines down, columns across
    mirrored = drawn[:, 2] < (0.5 if flips else 0.0)
    moved = np.empty(pixels.shape, np.uint8)
    for picture, seen, (down, across), turned in zip(
        pixels.numpy(), moved, steps.tolist(), mirrored.tolist(), strict=True
    ):
        lines = picture[np.clip(np.arange(height) + down, 0, height - 1)]
        shifted(lines[:, ::-1] if turned else lines, -across if turned else across, seen)
    real = torch.from_numpy(moved).float()
    bright, contrast = (
        torch.from_numpy(1 + LIGHT * (2 * drawn[:, place] - 1)).float()[:, None, None, None]
        for place in (3, 4)
    )
    middle = real.mean(dim=(1, 2, 3), keepdim=True)
    lit = real.sub_(middle).mul_(contrast).add_(middle * bright)
    return lit.round_().clamp_(0, 255).to(torch.uint8)


def shifted(picture: NDArray[np.uint8], across: int, out: NDArray[np.uint8]) -> None:
    """Column x of `out` (H W 3) is column x + across of the picture, or the nearest that there is.

    Slices are copied line by line; to gather them pixel by pixel takes several times as long.
    """
    width = picture.shape[1]
    first, last = max(0, -across), min(width, width - across)
    out[:, first:last] = picture[:, first + across : last + across]
    out[:, :first], out[:, last:] = picture[:, :1], picture[:, -1:]

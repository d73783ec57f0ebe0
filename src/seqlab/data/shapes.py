"""Pictures of two coloured shapes, and what they show: a world so small that captions of it are right or
wrong."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seqlab.files import write_text, written_beside

SIDE = 32
COLOURS = {"red": (214, 48, 40), "green": (44, 160, 66), "blue": (44, 92, 214), "yellow": (240, 200, 40)}
SHAPES = ("circle", "square", "triangle")
APART = 5
"""By so many pixels one direction between two shapes is longer than the other one."""


@dataclass(frozen=True)
class Shape:
    """One thing in a picture."""

    colour: str
    shape: str
    x: int
    y: int
    """Its middle."""
    reach: int
    """Pixels from its middle to its edge."""

    def covers(self, side: int = SIDE) -> NDArray[np.bool_]:
        """H W: where it is."""
        y, x = np.mgrid[:side, :side]
        right, down, reach = x - self.x, y - self.y, self.reach
        within = (np.abs(right) <= reach) & (np.abs(down) <= reach)
        if self.shape == "circle":
            return np.asarray(right**2 + down**2 <= reach * (reach + 0.5))
        if self.shape == "triangle":
            return np.asarray(within & (2 * np.abs(right) <= down + reach))
        if self.shape == "cross":
            return np.asarray(within & ((np.abs(right) <= reach // 3) | (np.abs(down) <= reach // 3)))
        return np.asarray(within)


@dataclass(frozen=True)
class Scene:
    """A picture of two shapes: of the one that is named first, and of the other."""

    pixels: NDArray[np.uint8]
    first: Shape
    second: Shape
    relation: str

    @property
    def caption(self) -> str:
        one, two = self.first, self.second
        return f"a {one.colour} {one.shape} {self.relation} a {two.colour} {two.shape}"


def scenes(count: int, seed: int) -> list[Scene]:
    """Pictures that follow from the seed. The left one of the two shapes is named first: it is left of the
    other one, or above or below it where they lie further apart in that direction."""
    draw = np.random.default_rng(seed)
    return [_scene(draw) for _ in range(count)]


def _scene(draw: np.random.Generator) -> Scene:
    while True:
        reaches = draw.integers(5, 8, 2)
        places = draw.integers(8, SIDE - 8, (2, 2))
        across, down = places[1] - places[0]
        far, near = max(across, abs(down)), min(across, abs(down))
        if across >= APART - 1 and far - near >= APART and far > reaches.sum() + 1:
            break
    relation = "left of" if across == far else "above" if down > 0 else "below"
    colours = draw.permutation(list(COLOURS))[:2]
    shapes = draw.choice(SHAPES, 2)
    first, second = (
        Shape(str(colour), str(shape), int(x), int(y), int(reach))
        for colour, shape, (x, y), reach in zip(colours, shapes, places, reaches, strict=True)
    )
    ground = draw.integers(205, 245) + draw.normal(0, 6, (SIDE, SIDE, 3))
    for shape in (first, second):
        ground[shape.covers()] = np.array(COLOURS[shape.colour]) + draw.normal(0, 12, 3)
    pixels = np.clip(np.rint(ground), 0, 255).astype(np.uint8)
    return Scene(pixels, first, second, relation)


def write_scenes(folder: Path, name: str, some: list[Scene]) -> Path:
    """name.jsonl with a caption a line, and name.npz with the pictures beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    with written_beside(folder / f"{name}.npz") as beside, beside.open("wb") as file:
        np.savez_compressed(file, images=np.stack([scene.pixels for scene in some]))
    table = folder / f"{name}.jsonl"
    write_text(table, "".join(json.dumps({"caption": scene.caption}) + "\n" for scene in some))
    return table

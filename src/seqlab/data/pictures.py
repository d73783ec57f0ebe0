"""Pictures: opened, checked, brought to one size, and kept as text in the cell of a row.

Pillow decodes files; it is imported where one is opened, so arrays need none.
"""

from __future__ import annotations

import base64
import functools
import io
import os
import struct
import threading
import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from seqlab.config import Positive
from seqlab.errors import UserError

LARGEST = 64
"""Pixels on each side, where data.image.size is empty and pictures have more."""
MOST_BYTES = 2**28
"""Of a file that holds a picture."""
FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF", "PPM", "ICO", "TGA", "JPEG2000")
"""What is opened, as far as Pillow was built for it; it knows others, some of which it hands to other
programs."""
_opening = threading.Lock()
"""Held while warnings are caught, which changes them for the whole process."""

Pixels = NDArray[np.uint8]
"""H W 3: red, green, blue."""


@dataclass(frozen=True, kw_only=True)
class PictureConfig:
    """How pictures are read."""

    size: Positive | None = None
    """Pixels on each side of the squares that all pictures become; empty: as many as the largest training
    picture has, at most 64, so that small pictures stay as they are."""
    fit: Literal["stretch", "crop"] = "stretch"
    """How one that is no square becomes one: stretch keeps all of it, crop its middle with its
    proportions."""
    most_pixels: Positive = 64_000_000
    """A picture of more pixels is refused: it may have been made to fill the memory."""
    augment: bool = True
    """Shift pictures a little and change their light while training, anew in each epoch."""
    flip: bool | None = None
    """Mirror half of them while training, left and right; empty: unless a label or caption speaks of left or
    right, or labels are single signs or numbers, such as digits and angles."""


@dataclass(frozen=True, eq=False)
class Picture:
    """A picture, and what it is called."""

    pixels: Pixels
    name: str = ""

    def packed(self) -> str:
        """The same as text, for the cell of a row."""
        height, width = self.pixels.shape[:2]
        code = base64.b64encode(np.ascontiguousarray(self.pixels).tobytes()).decode()
        return f"{height} {width}|{code}|{self.name}"

    @staticmethod
    def unpacked(cell: str) -> Picture:
        shape, code, name = cell.split("|", 2)
        height, width = map(int, shape.split())
        flat = np.frombuffer(base64.b64decode(code), np.uint8)
        return Picture(flat.reshape(height, width, 3), name)

    def __str__(self) -> str:
        height, width = self.pixels.shape[:2]
        return self.name or f"picture of {width} × {height}"


class PictureFault(ValueError):
    """What is wrong with a picture, and how to mend it."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what)
        self.what, self.fix = what, fix


def pillow() -> Any:
    """The module PIL.Image; a UserError where Pillow is not installed."""
    try:
        from PIL import Image
    except ImportError:
        raise UserError(
            what="Pillow is not installed.",
            why="It opens files of pictures and brings them to one size.",
            fix='pip install "seqlab[image]"',
        ) from None
    return Image


def decoded(data: bytes, name: str, config: PictureConfig) -> Picture:
    """The picture in the bytes of a file, no larger than it is needed; a PictureFault where there is none.

    The first of several frames; turned as its camera held it (EXIF); what is transparent becomes white.
    """
    Image = pillow()
    from PIL import ImageOps

    if not data:
        raise PictureFault(f"{name} is empty.", "Copy or download it again.")
    most = config.most_pixels
    try:
        with _opening, warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            image = Image.open(io.BytesIO(data), formats=_formats())
        if image.width * image.height > most:
            raise _too_large(name, image.width, image.height, most)
        side = config.size or LARGEST
        image.draft("RGB", (2 * side, 2 * side))  # a JPEG is decoded at a half, a quarter or an eighth
        image.load()
        image = _opaque(Image, ImageOps.exif_transpose(image))
    except PictureFault:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise PictureFault(
            f"{name} says that it has more than {Image.MAX_IMAGE_PIXELS:,} pixels, which Pillow refuses.",
            "Scale it down: it may have been made to fill the memory.",
        ) from None
    except Image.UnidentifiedImageError:
        raise PictureFault(
            f"{name} is not a picture that Pillow knows.", "Save it as .png or .jpg."
        ) from None
    except (
        OSError, SyntaxError, ValueError, TypeError, IndexError, EOFError, struct.error, zlib.error
    ) as error:  # what its decoders raise over broken files  # fmt: skip
        raise PictureFault(f"{name} is damaged or cut off: {error}.", "Copy or download it again.") from None
    return fitted(Picture(np.asarray(image, np.uint8), name), config)


@functools.lru_cache(maxsize=1)
def _formats() -> tuple[str, ...]:
    Image = pillow()
    Image.init()
    return tuple(name for name in FORMATS if name in Image.OPEN)


def _too_large(name: str, width: int, height: int, most: int) -> PictureFault:
    return PictureFault(
        f"{name} says that it has {width:,} × {height:,} pixels, more than {most:,}.",
        "Scale it down, or allow it: data.image.most_pixels="
        f"{width * height}. It may have been made to fill the memory.",
    )


def _opaque(Image: Any, image: Any) -> Any:
    """In red, green and blue, whatever the mode was."""
    if image.mode.startswith(("I", "F")):  # 16 or 32 bits of grey, or real numbers
        grey = np.nan_to_num(np.asarray(image, np.float64))
        real, highest = image.mode == "F", grey.max(initial=0)
        top = (
            1
            if real and highest <= 1
            else 65535
            if ";16" in image.mode or (highest > 255 and not real)
            else 255
        )
        return Image.fromarray(np.clip(grey * (255 / top), 0, 255).astype(np.uint8)).convert("RGB")
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        layer = image.convert("RGBA")
        white = Image.new("RGBA", layer.size, (255, 255, 255, 255))
        return Image.alpha_composite(white, layer).convert("RGB")
    return image.convert("RGB")


def of_array(array: Any, name: str, config: PictureConfig) -> Picture:
    """The picture in an array: H W grey, H W 1, H W 3 or H W 4 (the last of which says how opaque it is);
    whole numbers up to 255, or shares from 0 to 1."""
    pixels = np.asarray(array)
    if pixels.ndim == 2:
        pixels = pixels[..., None]
    if pixels.ndim != 3 or pixels.shape[2] not in (1, 3, 4) or 0 in pixels.shape:
        shape = " × ".join(map(str, np.shape(array)))
        raise PictureFault(
            f"{name} is an array of {shape}.", "A picture is height × width, or height × width × 3."
        )
    if pixels.dtype != np.uint8:
        real = np.asarray(pixels, np.float64)
        if not np.isfinite(real).all() or real.min() < 0 or real.max() > 255:
            raise PictureFault(
                f"{name} has numbers that are not from 0 to 255.", "Scale them, and save them as uint8."
            )
        shares = pixels.dtype.kind == "f" and real.max() <= 1
        pixels = np.rint(real * (255 if shares else 1)).astype(np.uint8)
    if pixels.shape[2] == 4:
        share = pixels[..., 3:] / 255
        pixels = np.rint(pixels[..., :3] * share + 255 * (1 - share)).astype(np.uint8)
    if pixels.shape[2] == 1:
        pixels = np.repeat(pixels, 3, axis=2)
    return fitted(Picture(np.ascontiguousarray(pixels), name), config)


def fitted(picture: Picture, config: PictureConfig) -> Picture:
    """At the size that is asked for; where none is, with sides of at most `LARGEST` pixels."""
    pixels = picture.pixels
    if config.fit == "crop":
        height, width = pixels.shape[:2]
        side = min(height, width)
        top, left = (height - side) // 2, (width - side) // 2
        pixels = pixels[top : top + side, left : left + side]
    height, width = pixels.shape[:2]
    if config.size:
        return Picture(resized(pixels, config.size, config.size), picture.name)
    return Picture(resized(pixels, min(height, LARGEST), min(width, LARGEST)), picture.name)


def resized(pixels: Pixels, height: int, width: int) -> Pixels:
    """Each new pixel is a weighted mean of all old ones below it."""
    if pixels.shape[:2] == (height, width):
        return pixels
    Image = pillow()
    made = Image.fromarray(np.ascontiguousarray(pixels)).resize((width, height), Image.Resampling.BILINEAR)
    return np.asarray(made, np.uint8)


def opened(given: Any, config: PictureConfig) -> Picture:
    """The picture that a user gave: the name of a file, an array, or an image of Pillow."""
    if isinstance(given, Picture):
        return fitted(given, config) if config.size else given
    if isinstance(given, tuple):
        raise PictureFault("two inputs are given together, with a tab between them.", "Give them one by one.")
    if isinstance(given, (str, os.PathLike)):
        return from_file(Path(given), str(given), config)
    if hasattr(given, "convert") and hasattr(given, "mode"):  # an image of Pillow
        return of_array(np.asarray(_opaque(pillow(), given), np.uint8), "the picture", config)
    return of_array(given, "the array", config)


def from_file(path: Path, name: str, config: PictureConfig) -> Picture:
    path = path.expanduser()
    try:
        if path.stat().st_size > MOST_BYTES:
            raise PictureFault(f"{name} has more than {MOST_BYTES:,} bytes.", "Scale it down.")
        data = path.read_bytes()
    except OSError as error:
        told = "there is no such file" if isinstance(error, FileNotFoundError) else error.strerror
        raise PictureFault(f"{name}: {told}.", "Check the name of the picture.") from None
    return decoded(data, name, config)


Opener = Callable[[str], Picture]

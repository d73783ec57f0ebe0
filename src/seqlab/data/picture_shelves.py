"""Where the pictures of rows lie: in a folder, in a zip archive, or in an array of an .npz file."""

from __future__ import annotations

import functools
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from seqlab.data.arrays import NOT_WHOLE, ArraysFault, arrays_in
from seqlab.data.pictures import (
    MOST_BYTES,
    Picture,
    PictureConfig,
    PictureFault,
    decoded,
    from_file,
    of_array,
)
from seqlab.errors import UserError, did_you_mean

ARRAYS = ("images", "image", "pictures", "x", "X", "data")
"""Names of the array that holds the pictures."""


class Shelf(ABC):
    """Where the pictures of a table are."""

    def __init__(self, name: str, config: PictureConfig) -> None:
        self.name, self.config = name, config

    @abstractmethod
    def picture(self, name: str, number: int) -> Picture:
        """That of a name, or of row `number` of the table (from 0); a PictureFault where there is none."""

    def has(self, name: str) -> bool:
        return True


class FolderShelf(Shelf):
    """Files in a folder."""

    def __init__(self, path: Path, config: PictureConfig) -> None:
        super().__init__(str(path), config)
        self.path = path

    def picture(self, name: str, number: int) -> Picture:
        path = self.path / name
        try:
            return from_file(path, str(path), self.config)
        except PictureFault as fault:
            if path.exists():
                raise
            fix = "Check its name, or say where the pictures lie: data.images=FOLDER, or a .zip."
            raise PictureFault(fault.what, fix) from None

    def has(self, name: str) -> bool:
        return (self.path / name).is_file()


class ZipShelf(Shelf):
    """Members of a zip archive, by their whole name or its end: deep/cat/1.png also as cat/1.png or 1.png."""

    def __init__(self, path: Path, config: PictureConfig) -> None:
        super().__init__(str(path), config)
        try:
            self.archive = zipfile.ZipFile(path)
        except NOT_WHOLE as error:
            raise UserError(
                what=f"{path}: this is no whole zip archive: {error}.",
                why="Pictures can't be read from it.",
                fix="Copy or download it again.",
            ) from None
        names = dict.fromkeys(self.archive.namelist())
        members = [name for name in names if not name.endswith("/") and not name.startswith("__MACOSX/")]
        self.members: dict[str, list[str]] = {}
        """Those that end in a name, by all names of one folder or more fewer."""
        for member in members:
            parts = PurePosixPath(member).parts
            for start in range(len(parts)):
                self.members.setdefault("/".join(parts[start:]), []).append(member)
        self.members |= {member: [member] for member in members}

    def has(self, name: str) -> bool:
        return _plain(name) in self.members

    def picture(self, name: str, number: int) -> Picture:
        shown = f"{self.name}/{name}"
        found = self.members.get(_plain(name), [])
        if not found:
            near = did_you_mean(name, list(self.members)[:10_000])
            raise PictureFault(f"{self.name} has no member {name}.{near}", "Check the name of the picture.")
        if len(found) > 1:
            raise PictureFault(
                f"{self.name} has {len(found)} members that end in {name}: {found[0]}, {found[1]}"
                f"{', ...' if len(found) > 2 else ''}",
                "Name the whole member.",
            )
        member = self.archive.getinfo(found[0])
        if member.file_size > MOST_BYTES:
            raise PictureFault(f"{shown} has more than {MOST_BYTES:,} bytes.", "Scale it down.")
        try:
            data = self.archive.read(member)
        except NOT_WHOLE as error:
            raise PictureFault(f"{shown} can't be unpacked: {error}.", "Pack the archive again.") from None
        return decoded(data, shown, self.config)


class ArrayShelf(Shelf):
    """Row i has image i of an array."""

    def __init__(self, path: Path, config: PictureConfig, told: str = "") -> None:
        """`told` is the name of the array, where the user has told it."""
        super().__init__(str(path), config)
        self.arrays = arrays_of(path)
        self.images = self.arrays[image_array(path, self.arrays, told)]

    def picture(self, name: str, number: int) -> Picture:
        shown = f"{self.name}, image {number + 1}"
        if number >= len(self.images):
            raise PictureFault(
                f"{self.name} has {len(self.images):,} images, and this is row {number + 1:,}.",
                "Image i belongs to row i: give as many images as rows.",
            )
        return of_array(self.images[number], shown, self.config)


def _plain(name: str) -> str:
    """A name in an archive, whose folders are parted by strokes: 1.png for ./1.png."""
    return PurePosixPath(name.replace("\\", "/")).as_posix()


@functools.lru_cache(maxsize=4)
def _loaded(path: Path, changed: int) -> Mapping[str, Any]:
    return arrays_in(path)


def arrays_of(path: Path) -> Mapping[str, Any]:
    """The arrays of an .npz file, by name."""
    try:
        return _loaded(path, path.stat().st_mtime_ns)
    except ArraysFault as fault:
        raise UserError(
            what=f"{path}: this is no whole .npz file of plain arrays: {fault}.",
            why="Pictures can't be read from it.",
            fix="Write it again with numpy.savez_compressed(name, images=array).",
        ) from None


def image_array(path: Path, arrays: Mapping[str, Any], told: str = "") -> str:
    """The name of the array of pictures, N H W or N H W C: the one that is told, or one that is usual."""
    large = [name for name, array in arrays.items() if array.ndim in (3, 4)]
    for name in (told,) if told else (*ARRAYS, *large):
        if name in large:
            return name
    shapes = ", ".join(f"{name} ({' × '.join(map(str, one.shape))})" for name, one in arrays.items())
    raise UserError(
        what=f"{path}: no array in it holds pictures.",
        why=f"It has {shapes or 'no arrays'}; pictures are rows × height × width × 3.",
        fix="Write it again with numpy.savez_compressed(name, images=array).",
    )


def shelf_of(name: str, config: PictureConfig) -> Shelf:
    """The pictures in a folder, a .zip or an .npz."""
    path = Path(name).expanduser()
    if not path.exists():
        near = sorted(child.name for child in path.parent.iterdir()) if path.parent.is_dir() else []
        raise UserError(
            what=f"{name}: there is no such folder or file.{did_you_mean(path.name, near)}",
            why="The pictures of the rows are looked for there.",
            fix="Name what holds them: data.images=FOLDER, a .zip or an .npz",
        )
    if path.is_dir():
        return FolderShelf(path, config)
    if path.suffix.lower() == ".zip":
        return ZipShelf(path, config)
    if path.suffix.lower() == ".npz":
        return ArrayShelf(path, config)
    raise UserError(
        what=f"{name}: this kind of file is not known.",
        why="Pictures lie in a folder, in a .zip archive, or in an .npz file.",
        fix="Name what holds them: data.images=FOLDER",
    )

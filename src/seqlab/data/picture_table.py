"""Rows with a picture each: a table beside files, an archive or arrays; folders by label; or arrays alone."""

from __future__ import annotations

import functools
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from seqlab.data.files import ENDINGS, DataFile, Place
from seqlab.data.pictures import (
    MOST_BYTES,
    Picture,
    PictureConfig,
    PictureFault,
    decoded,
    from_file,
    of_array,
)
from seqlab.data.read import Bad, DataConfig, Role, Row, Table
from seqlab.errors import UserError, did_you_mean, one_of

ROLE = "image"
ARRAYS = ("images", "image", "pictures", "x", "X", "data")
"""Names of the array that holds the pictures."""
FOLDERS = ("", "images", "Images", "pictures")
"""Where pictures lie, as seen from the folder of their table."""
ALONE = ("folder", "npz")
"""Formats of what is a data set without a table."""


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
        return from_file(path, str(path), self.config)

    def has(self, name: str) -> bool:
        return (self.path / name).is_file()


class ZipShelf(Shelf):
    """Members of a zip archive, by their whole name or its end."""

    def __init__(self, path: Path, config: PictureConfig) -> None:
        super().__init__(str(path), config)
        try:
            self.archive = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, OSError) as error:
            raise UserError(
                what=f"{path}: this is no whole zip archive: {error}.",
                why="Pictures can't be read from it.",
                fix="Copy or download it again.",
            ) from None
        self.members = {member: member for member in self.archive.namelist() if not member.endswith("/")}
        for member in list(self.members):
            self.members.setdefault(PurePosixPath(member).name, member)

    def has(self, name: str) -> bool:
        return name in self.members

    def picture(self, name: str, number: int) -> Picture:
        shown = f"{self.name}/{name}"
        if name not in self.members:
            near = did_you_mean(name, list(self.members)[:10_000])
            raise PictureFault(f"{self.name} has no member {name}.{near}", "Check the name of the picture.")
        member = self.archive.getinfo(self.members[name])
        if member.file_size > MOST_BYTES:
            raise PictureFault(f"{shown} has more than {MOST_BYTES:,} bytes.", "Scale it down.")
        try:
            data = self.archive.read(member)
        except (zipfile.BadZipFile, OSError, RuntimeError, NotImplementedError, EOFError) as error:
            raise PictureFault(f"{shown} can't be unpacked: {error}.", "Pack the archive again.") from None
        return decoded(data, shown, self.config)


class ArrayShelf(Shelf):
    """Row i has image i of an array."""

    def __init__(self, path: Path, config: PictureConfig) -> None:
        super().__init__(str(path), config)
        self.arrays = arrays_of(path)
        self.images = self.arrays[image_array(path, self.arrays)]

    def picture(self, name: str, number: int) -> Picture:
        shown = f"{self.name}, image {number + 1}"
        if number >= len(self.images):
            raise PictureFault(
                f"{self.name} has {len(self.images):,} images, and this is row {number + 1:,}.",
                "Image i belongs to row i: give as many images as rows.",
            )
        return of_array(self.images[number], shown, self.config)


@functools.lru_cache(maxsize=4)
def _loaded(path: Path, changed: int) -> Mapping[str, Any]:
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def arrays_of(path: Path) -> Mapping[str, Any]:
    """The arrays of an .npz file, by name."""
    try:
        return _loaded(path, path.stat().st_mtime_ns)
    except (OSError, ValueError, zipfile.BadZipFile, EOFError) as error:
        raise UserError(
            what=f"{path}: this is no whole .npz file of plain arrays: {error}.",
            why="Pictures can't be read from it.",
            fix="Write it again with numpy.savez_compressed(name, images=array).",
        ) from None


def image_array(path: Path, arrays: Mapping[str, Any]) -> str:
    """The name of the array of pictures: N H W, or N H W C."""
    large = [name for name, array in arrays.items() if array.ndim in (3, 4)]
    for name in (*ARRAYS, *large):
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
    kinds = {".zip": ZipShelf, ".npz": ArrayShelf}
    if path.is_dir():
        return FolderShelf(path, config)
    if path.suffix.lower() not in kinds:
        raise UserError(
            what=f"{name}: this kind of file is not known.",
            why="Pictures lie in a folder, in a .zip archive, or in an .npz file.",
            fix="Name what holds them: data.images=FOLDER",
        )
    return kinds[path.suffix.lower()](path, config)


class PictureTable(Table):
    """Rows whose cell "image" is a packed `Picture`.

    Pictures are found by the name in the column "image" in what data.images names, else beside the table;
    without such a column, row i has image i of an .npz file. A folder or a .zip alone holds a folder of files
    for each label; an .npz alone has one array more for each column.
    """

    def __init__(
        self, names: Sequence[str], config: DataConfig, roles: Sequence[Role], any_ending: bool = False
    ) -> None:
        super().__init__(names, config, roles, any_ending)
        self._shelves: dict[str, Shelf] = {}

    @functools.cached_property
    def found(self) -> dict[str, str]:
        source = self.sources[0]
        if source.format in ALONE:
            return self._found_in(source)
        return {ROLE: self.config.images or "beside the table", **self._layout(source).found}

    def __iter__(self) -> Iterator[Row | Bad]:
        sources, number = self.sources, 0
        try:
            for source in sources:
                if source.format in ALONE:
                    yield from self._of_arrays(source) if source.format == "npz" else self._of_folders(source)
                    continue
                self.sources = [source]
                number = number if self.config.images else 0
                for row in super().__iter__():
                    yield self._with_picture(row, number, source) if isinstance(row, Row) else row
                    number += 1
        finally:
            self.sources = sources

    # A table and its pictures -------------------------------------------------------------------------------

    def _with_picture(self, row: Row, number: int, source: DataFile) -> Row | Bad:
        named = ROLE in self._layout(source).found
        name = row.cells.get(ROLE, "").strip()
        if named and not name:
            return Bad(row.place, "the image is empty.", "Name its picture, or remove the row.")
        try:
            picture = self._shelf(row.place.file, name if named else "").picture(name, number)
        except PictureFault as fault:
            return Bad(row.place, fault.what, fault.fix)
        return Row(row.place, {**row.cells, ROLE: picture.packed()}, row.record)

    def _shelf(self, file: str, name: str) -> Shelf:
        """Where the pictures of a table are; decided by the first row."""
        if file not in self._shelves:
            config = self.config.image
            told = self.config.images
            self._shelves[file] = shelf_of(told, config) if told else self._beside(file, name)
        return self._shelves[file]

    def _beside(self, file: str, name: str) -> Shelf:
        config = self.config.image
        folder = Path(file).expanduser().parent
        stem = Path(file).name.removesuffix(".gz").rpartition(".")[0]
        if not name:
            if (arrays := folder / f"{stem}.npz").exists():
                return ArrayShelf(arrays, config)
            raise UserError(
                what=f"{file}: there is no column for the image, and no {stem}.npz beside the table.",
                why="Each row needs a picture: a name in a column, or a place in an array.",
                fix="Name the column: data.columns.image=NAME; or the arrays: data.images=FILE.npz",
            )
        folders = [FolderShelf(folder / below, config) for below in (*FOLDERS, stem)]
        if found := next((shelf for shelf in folders if shelf.has(name)), None):
            return found
        archives = [path for path in (folder / f"{stem}.zip", folder / "images.zip") if path.exists()]
        for archive in map(ZipShelf, archives, [config] * len(archives)):
            if archive.has(name):
                return archive
        if len(archives := sorted(folder.glob("*.zip"))) == 1 and ZipShelf(archives[0], config).has(name):
            return ZipShelf(archives[0], config)
        return folders[0]  # and what is missing there is told, row by row

    # Pictures alone -----------------------------------------------------------------------------------------

    def _found_in(self, source: DataFile) -> dict[str, str]:
        others = [role for role in self.roles if role.name != ROLE]
        if source.format == "npz":
            arrays = arrays_of(source.path)
            found = {ROLE: image_array(source.path, arrays)}
            for role in others:
                names = (self.config.columns.get(role.name), *role.usual, *(f"{one}s" for one in role.usual))
                if name := next((name for name in names if name in arrays), None):
                    found[role.name] = name
                elif role.required:
                    raise UserError(
                        what=f"{source.name}: there is no array for the {role.name}.",
                        why=f"The arrays are: {', '.join(arrays)}",
                        fix=f"Name it: data.columns.{role.name}={next(iter(arrays))}; or give a table beside"
                        " the pictures",
                    )
            return found
        more = [role.name for role in others if role.required and role.name != "label"]
        if more:
            raise UserError(
                what=f"{source.name}: pictures alone have no {one_of(more)}.",
                why=f"Each needs a {one_of(more)}, too.",
                fix=f"Give a table that names them, and where they are: data.images={source.name}",
            )
        return {ROLE: "file", **{role.name: "folder" for role in others if role.required}}

    def _of_arrays(self, source: DataFile) -> Iterator[Row | Bad]:
        shelf = ArrayShelf(source.path, self.config.image)
        found = self._found_in(source)
        for number in range(len(shelf.images)):
            place = Place(source.name, number + 1)
            record = {
                name: str(shelf.arrays[name][number]) if number < len(shelf.arrays[name]) else ""
                for role, name in found.items()
                if role != ROLE
            }
            cells = {role: record[name] for role, name in found.items() if role != ROLE}
            try:
                cells[ROLE] = shelf.picture("", number).packed()
            except PictureFault as fault:
                yield Bad(place, fault.what, fault.fix)
                continue
            empty = [role for role, cell in cells.items() if not cell.strip()]
            yield (
                Bad(place, f"the {empty[0]} is empty.", f"Give it a {empty[0]}, or remove the row.")
                if empty
                else Row(place, cells, {"image": f"{source.name}, image {number + 1}", **record})
            )

    def _of_folders(self, source: DataFile) -> Iterator[Row | Bad]:
        """Files by name, in a fixed order; the label is the folder that a file is in."""
        shelf = (FolderShelf if source.path.is_dir() else ZipShelf)(source.path, self.config.image)
        names = pictures_in(source.path)
        labelled = "label" in self.found
        if not names:
            raise UserError(
                what=f"{source.name}: there is no picture in it.",
                why=f"Pictures are known by their endings: {' '.join(ENDINGS['image'])}",
                fix="Name a folder of pictures, or of folders of pictures, one for each label.",
            )
        for name in names:
            place = Place(f"{source.name.rstrip('/')}/{name}", 0)
            label = PurePosixPath(name).parent.name
            if labelled and not label:
                yield Bad(place, "this picture is in no folder of a label.", "Put it into one, such as cat/.")
                continue
            try:
                picture = shelf.picture(name, 0)
            except PictureFault as fault:
                yield Bad(place, fault.what, fault.fix)
                continue
            cells = {ROLE: picture.packed(), **({"label": label} if labelled else {})}
            yield Row(place, cells, {"image": name, **({"label": label} if labelled else {})})


def pictures_in(path: Path) -> list[str]:
    """Names of the pictures in a folder or an archive, at any depth, in order."""
    endings = ENDINGS["image"]
    if path.is_dir():
        found = [one.relative_to(path).as_posix() for one in path.rglob("*") if one.is_file()]
    else:
        with zipfile.ZipFile(path) as archive:
            found = [name for name in archive.namelist() if not name.startswith("__MACOSX/")]
    hidden = [name for name in found if PurePosixPath(name).name.startswith(".")]
    return sorted(name for name in set(found) - set(hidden) if name.lower().endswith(endings))

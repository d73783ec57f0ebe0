"""Rows with a picture each: a table beside files, an archive or arrays; folders by label; or arrays alone."""

from __future__ import annotations

import functools
import json
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from seqlab.data.columns import Layout
from seqlab.data.files import ENDINGS, DataFile, Place
from seqlab.data.picture_shelves import (
    ArrayShelf,
    FolderShelf,
    Shelf,
    ZipShelf,
    arrays_of,
    image_array,
    shelf_of,
)
from seqlab.data.pictures import PictureFault
from seqlab.data.read import Bad, DataConfig, Role, Row, Table
from seqlab.errors import UserError, one_of

ROLE = "image"
FOLDERS = ("", "images", "Images", "pictures")
"""Where pictures lie, as seen from the folder of their table."""
ALONE = ("folder", "npz")
"""Formats of what is a data set without a table."""


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
        self._archives: dict[Path, ZipShelf] = {}

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
        """Where the pictures of a table are; decided by the first row whose picture is found."""
        if file in self._shelves:
            return self._shelves[file]
        told, config = self.config.images, self.config.image
        shelf = shelf_of(told, config) if told else self._beside(file, name)
        if told or shelf.has(name):
            self._shelves[file] = shelf
        return shelf

    def _beside(self, file: str, name: str) -> Shelf:
        """Where a picture lies beside its table; the folder of the table where it is nowhere."""
        config, folder = self.config.image, Path(file).expanduser().parent
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
        usual = [path for path in (folder / f"{stem}.zip", folder / "images.zip") if path.exists()]
        alone = sorted(folder.glob("*.zip"))
        archives = (self._archive(path) for path in usual or (alone if len(alone) == 1 else []))
        return next((archive for archive in archives if archive.has(name)), folders[0])

    def _archive(self, path: Path) -> ZipShelf:
        """An archive beside a table, whose members are listed once."""
        if path not in self._archives:
            self._archives[path] = ZipShelf(path, self.config.image)
        return self._archives[path]

    # Pictures alone -----------------------------------------------------------------------------------------

    def _found_in(self, source: DataFile) -> dict[str, str]:
        others = [role for role in self.roles if role.name != ROLE]
        if source.format == "npz":
            arrays, told = arrays_of(source.path), self.config.columns
            found = {ROLE: image_array(source.path, arrays, told.get(ROLE, ""))}
            for role in others:
                usual = (*role.usual, *(f"{one}s" for one in role.usual))
                names = (told[role.name],) if role.name in told else usual
                if name := next((name for name in names if name in arrays and arrays[name].ndim), None):
                    found[role.name] = name
                elif role.required:
                    raise UserError(
                        what=f"{source.name}: there is no array for the {role.name}"
                        f"{f', {told[role.name]}' if role.name in told else ''}.",
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
        shelf = ArrayShelf(source.path, self.config.image, self.config.columns.get(ROLE, ""))
        others = {role: name for role, name in self._found_in(source).items() if role != ROLE}
        layout = self._layouts.setdefault(source, Layout(list(others.values()), True, True, others))
        for number in range(len(shelf.images)):
            place = Place(source.name, number + 1)
            arrays = {name: shelf.arrays[name] for name in others.values()}
            record = {
                name: _cell(array[number]) if number < len(array) else "" for name, array in arrays.items()
            }
            row = self._checked(place, record, layout)
            if isinstance(row, Bad):
                yield row
                continue
            try:
                packed = shelf.picture("", number).packed()
            except PictureFault as fault:
                yield Bad(place, fault.what, fault.fix)
                continue
            yield Row(
                place, {**row.cells, ROLE: packed}, {ROLE: f"{source.name}, image {number + 1}", **record}
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


def _cell(value: Any) -> str:
    """What an array has for a row, as text; several values as a list, the empty ones at its end left out."""
    some = np.asarray(value).tolist()
    if not isinstance(some, list):
        return str(some)
    while some and some[-1] == "":
        some.pop()
    return json.dumps(some, ensure_ascii=False)


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

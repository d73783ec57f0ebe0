"""The arrays of an .npz file; plain ones alone, so that nothing in it is ever unpickled."""

from __future__ import annotations

import lzma
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

NOT_WHOLE = (
    OSError, ValueError, EOFError, RuntimeError, NotImplementedError, zipfile.BadZipFile,
    zlib.error, lzma.LZMAError,
)  # fmt: skip
"""What is raised over a zip archive that is broken, encrypted, or packed in a way that is not known."""


class ArraysFault(Exception):
    """Why a file is no whole .npz of plain arrays."""


def arrays_in(path: Path) -> Mapping[str, Any]:
    """The arrays of an .npz file, by name; an ArraysFault where it is none."""
    try:
        archive = np.load(path, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise ArraysFault("it holds one array without a name, as numpy.save writes it")
        with archive:
            return {name: archive[name] for name in archive.files}
    except NOT_WHOLE as error:
        raise ArraysFault(f"{error}".rstrip(".") or type(error).__name__) from None

"""Every lab, one after the other, on one page that grows with them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from seqlab.errors import SeqlabError, Stopped, UserError
from seqlab.files import write_text
from seqlab.labs import LABS, begin
from seqlab.labs.lab import PAGE, PICTURE, TABLE, begun
from seqlab.report import html
from seqlab.report.evaluate import duration
from seqlab.training.progress import Progress

DEFAULT_PLACE = Path("runs") / "labs"


@dataclass(frozen=True)
class LabResult:
    """What came of one lab: a verdict, or why there is none."""

    name: str
    folder: Path
    verdict: str = ""
    failure: str = ""

    def html(self, beside: Path) -> str:
        """Its part of the page in the folder `beside`: verdict, picture and link."""
        head = f'<h2 id="{escape(self.name)}">{escape(self.name)}</h2><p>{escape(LABS[self.name])}</p>'
        if self.failure:
            return f'{head}<div class="card"><p><b>It failed.</b> {escape(self.failure)}</p></div>'
        place = escape(Path(os.path.relpath(self.folder, beside)).as_posix())
        lines = "".join(f"<p>{escape(line)}</p>" for line in self.verdict.split("\n"))
        drawn = f'style="max-width:100%" src="{place}/{PICTURE}"'
        picture = f'<img alt="The picture of the lab {escape(self.name)}" {drawn}>'
        shown = picture if (self.folder / PICTURE).exists() else ""
        link = f'<p><a href="{place}/{PAGE}">Tables, numbers and notes</a></p>'
        return f'{head}<div class="card">{lines}{shown}{link}</div>'


@dataclass(frozen=True)
class Collection:
    """All labs that were run, and their page."""

    page: Path
    results: tuple[LabResult, ...]
    quick: bool

    @property
    def failed(self) -> list[LabResult]:
        return [one for one in self.results if one.failure]

    def __str__(self) -> str:
        lines = [f"{one.name:<12}{(one.failure or one.verdict).splitlines()[0]}" for one in self.results]
        after = f"open {self.page}" if not self.quick else f"open {self.page}, then: seqlab lab --all"
        return "\n".join([*lines, "", f"Everything: {self.page}", f"Next: {after}"])

    def refuse_failed(self) -> None:
        """Say at the end that some labs failed."""
        if self.failed:
            names = ", ".join(one.name for one in self.failed)
            raise SeqlabError(
                what=f"{len(self.failed)} of {len(self.results)} labs failed: {names}.",
                why=self.failed[0].failure,
                fix="The same command tries them again and keeps the others.",
            )


def run_every(
    *, quick: bool = False, seeds: int | None = None, out: str | Path = "", quiet: bool = False
) -> Collection:
    """Run every lab into a folder of its own and write the page anew after each.

    A lab that is finished there is kept, one that was stopped goes on, and one that fails is told and stops
    no other. Quick labs have folders of their own beside the whole ones.
    """
    place, progress = Path(out) if out else DEFAULT_PLACE, Progress(quiet=quiet)
    if place.exists() and any(place.iterdir()) and not (place / PAGE).exists():
        raise UserError(
            what=f"{place} is there already and holds no page of labs.",
            why="An existing folder is never overwritten.",
            fix="Choose another --out, for instance: --out runs/mine",
        )
    found: list[LabResult] = []
    _write(place, found, quick)
    for number, name in enumerate(LABS, 1):
        began = time.monotonic()
        folder = place / (f"{name}-quick" if quick else name)
        given = {"quick": quick, "out": folder, "quiet": quiet} | (
            {"seeds": seeds} if seeds is not None else {}
        )
        try:
            found.append(_one(name, folder, given, progress))
        except Stopped as stop:
            raise Stopped(
                stop.exit_code - 128,
                "Stopped; what was measured so far is kept.",
                fix="The same command goes on.",
            ) from None
        except Exception as error:  # whatever it is, the others can still be run
            told = error.what if isinstance(error, SeqlabError) else f"{type(error).__name__}: {error}"
            found.append(LabResult(name, folder, failure=told))
        _write(place, found, quick)
        last = found[-1]
        progress.say(
            f"{number} of {len(LABS)}  {name}, {duration(time.monotonic() - began)}:"
            f" {(last.failure or last.verdict).splitlines()[0]}"
        )
    return Collection(place / PAGE, tuple(found), quick)


def _one(name: str, folder: Path, given: Mapping[str, Any], progress: Progress) -> LabResult:
    """A lab, run now unless it is finished with the same choices."""
    choices = begun(folder)[1] or {}
    same = all(
        choices.get(key, given.get(key)) == given.get(key, choices.get(key)) for key in ("quick", "seeds")
    )
    if not ((folder / TABLE).exists() and same):
        progress.say(f"{name}: {LABS[name]}")
        begin(name, given)
    table = json.loads((folder / TABLE).read_text(encoding="utf-8"))
    return LabResult(name, folder, verdict=table["verdict"])


def _write(place: Path, found: list[LabResult], quick: bool) -> None:
    """The page, whole or not there."""
    place.mkdir(parents=True, exist_ok=True)
    waiting = [name for name in LABS if name not in {one.name for one in found}]
    links = " · ".join(f'<a href="#{escape(one.name)}">{escape(one.name)}</a>' for one in found)
    body = [
        f"<h1>Labs{', quick' if quick else ''}</h1>",
        f"<p>{links}</p>",
        *(one.html(place) for one in found),
    ]
    body += [f"<p>Still to come: {escape(', '.join(waiting))}</p>"] if waiting else []
    write_text(place / PAGE, html.page("Labs", "\n".join(body)))

"""A sentence with what was said of each word, in colour: what is right green, what is wrong red, with what
was meant below it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from seqlab.report.html import asset
from seqlab.report.words import Piece

CSS = asset("tagged.css")
MOST, BEFORE = 60, 10
"""Words that are shown of a long sentence, and how many of them stand before the first wrong one."""
QUIET = "O"
"""What needs no mention where it is right."""


def tagged_html(pieces: Sequence[Piece]) -> str:
    """The words, with what was said below each, and what was meant where that is something else."""
    wrong = next((place for place, piece in enumerate(pieces) if piece.said != piece.meant), 0)
    start = max(0, min(wrong - BEFORE, len(pieces) - MOST))
    words = [_word(piece) for piece in pieces[start : start + MOST]]
    before = ["<span>…</span>"] if start else []
    after = ["<span>…</span>"] if start + MOST < len(pieces) else []
    return f'<div class="tagged">{"".join([*before, *words, *after])}</div>'


def _word(piece: Piece) -> str:
    word, said, meant = (escape(text) for text in (piece.text, piece.said, piece.meant))
    if piece.said != piece.meant:
        return f'<span class="wrong"><b>{word}</b><i>{said}</i><i>{meant}</i></span>'
    if piece.said == QUIET:
        return f"<span><b>{word}</b></span>"
    return f'<span class="right"><b>{word}</b><i>{said}</i></span>'

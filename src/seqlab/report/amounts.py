"""Large numbers as a person reads them: counts, bytes, operations."""

from __future__ import annotations

PETAFLOP_DAY = 1e15 * 86_400
"""Operations of a petaflop/s-day."""


def short(count: float) -> str:
    """12,345,678 → 12.3 M; nothing for nothing."""
    if not count:
        return ""
    for size, letter in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.3g} {letter}"
    return f"{count:.0f}"


def memory(size: float) -> str:
    """Bytes, as a person reads them."""
    for unit, letter in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= unit:
            return f"{size / unit:.3g} {letter}"
    return f"{size:.0f} B" if size else ""


def operations(count: float) -> str:
    """2e+20 → its petaflop/s-days beside it."""
    days = f"{count / PETAFLOP_DAY:,.4g} petaflop/s-days"
    return f"{count:.3g} operations, {days}".replace("e+", "e")

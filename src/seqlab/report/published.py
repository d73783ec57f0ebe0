"""What is known of a published model, and what 6 · parameters · tokens says beside it."""

from __future__ import annotations

from dataclasses import dataclass

from seqlab.report.amounts import operations, short


@dataclass(frozen=True, kw_only=True)
class Published:
    """A published model, as far as its authors told. Empty: they did not."""

    symbols: int
    """Of its vocabulary, which `inspect` takes where no data tells."""
    size: str = ""
    """How many parameters it is said to have."""
    data: str = ""
    """What it was trained on."""
    year: int | None = None
    cost: str = ""
    """What training took, in the words it was told in."""
    operations: float = 0.0
    """The same in operations; 0 where it was told otherwise, in days of some machine."""
    tokens: float = 0.0
    """Tokens that training went through, every pass counted; 0 where nobody told."""
    counted: str = ""
    """How these tokens are counted, where that is ours."""

    def facts(self, parameters: int) -> dict[str, str]:
        """The published table, and beside it what the formula says of so many parameters."""
        six = 6.0 * parameters
        paid = self.operations / six
        counted = f" ({self.counted})" if self.counted else ""
        return {
            "year": str(self.year or "not told"),
            "trained on": self.data or "not told",
            "parameters, as told": self.size or "not told",
            "cost, as told": self.cost or "not told",
            "tokens read": f"{short(self.tokens)}{counted}" if self.tokens else "not told",
            "6·N·tokens": operations(six * self.tokens) if self.tokens else "",
            "cost / 6·N": f"{short(paid)} tokens" if paid else "",
        }

    def to_json(self, parameters: int) -> dict[str, object]:
        """The same for programs; null where it was not told."""
        return {
            "year": self.year,
            "data": self.data or None,
            "size": self.size or None,
            "cost": self.cost or None,
            "operations": self.operations or None,
            "tokens": self.tokens or None,
            "by_formula": 6.0 * parameters * self.tokens or None,
        }

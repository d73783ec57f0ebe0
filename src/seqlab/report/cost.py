"""What a model costs: parameters by formula and by counting, work, memory, sequential steps and path length
of each layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from torch import nn

from seqlab.model import Model
from seqlab.parts import Cost
from seqlab.report import html
from seqlab.report.evaluate import aligned
from seqlab.report.growth import Growth, measure

__all__ = ["Growth", "Inspection", "inspect_model", "measure"]

HEADER = ("layer", "parameters", "formula", "work", "grows as", "projections", "steps", "path", "memory")
LEFT = (0, 2, 4)
PETAFLOP_DAY = 1e15 * 86_400
NOTE = (
    "Work is in multiply-adds of the leading term, projections stand beside it; "
    "steps have to be done one after the other; path is the longest way between two positions; "
    "memory is what one example keeps for the backward pass."
)


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """A model's costs for one sequence of `length` positions. Prints as a table."""

    length: int
    total: int
    """Parameters, counted."""
    by_part: dict[str, int]
    """Parameters, counted, of input, encoder, pool and head. What parts share counts where it comes first."""
    layers: tuple[Cost, ...]
    tokens: int = 0
    """Training tokens, to tell the cost of training; 0 when not asked."""

    @property
    def formula_total(self) -> int:
        return sum(layer.parameters for layer in self.layers)

    @property
    def training_flops(self) -> float:
        """6 · parameters · tokens: two operations a weight forward and four backward."""
        return 6.0 * self.total * self.tokens

    def to_json(self) -> dict[str, Any]:
        """As promised for `inspect --json`."""
        tree: dict[str, Any] = {
            "parameters": {"total": self.total, "formula_total": self.formula_total, "by_part": self.by_part},
            "length": self.length,
            "layers": [
                {
                    "name": layer.name,
                    "parameters": layer.parameters,
                    "parameters_formula": layer.parameters_formula,
                    "work": layer.work,
                    "work_formula": layer.work_formula,
                    "projections": layer.projections,
                    "sequential_steps": layer.sequential_steps,
                    "longest_path": layer.longest_path,
                    "memory": layer.memory,
                }
                for layer in self.layers
            ],
            "memory": {
                "weights_bytes": 4 * self.total,
                "training_bytes": 16 * self.total,
                "example_bytes": 4 * self._kept,
            },
        }
        if self.tokens:
            tree["training"] = {
                "tokens": self.tokens,
                "flops": self.training_flops,
                "petaflop_days": self.training_flops / PETAFLOP_DAY,
            }
        return tree

    @property
    def _kept(self) -> int:
        return sum(layer.memory for layer in self.layers)

    def rows(self) -> list[tuple[str, ...]]:
        """One row a layer that has anything to tell, as text."""
        return [
            (
                layer.name,
                f"{layer.parameters:,}",
                layer.parameters_formula if layer.parameters_formula != "0" else "",
                short(layer.work),
                layer.work_formula if layer.work else "",
                short(layer.projections),
                f"{layer.sequential_steps:,}",
                f"{layer.longest_path:,}",
                memory(4 * layer.memory),
            )
            for layer in self.layers
            if layer.parameters or layer.work or layer.memory
        ]

    @property
    def total_row(self) -> tuple[str, ...]:
        """Sums; steps and paths do not add up, because directions run side by side."""
        work, projections = (
            sum(layer.work for layer in self.layers),
            sum(layer.projections for layer in self.layers),
        )
        return (
            "in all",
            f"{self.total:,}",
            "",
            short(work),
            "",
            short(projections),
            "",
            "",
            memory(4 * self._kept),
        )

    def lines(self) -> list[str]:
        """Sentences below the table."""
        same = self.total == self.formula_total
        agree = "by counting and by formula" if same else f"by counting, {self.formula_total:,} by formula"
        parts = ", ".join(f"{name} {count:,}" for name, count in self.by_part.items())
        lines = [
            f"{self.total:,} parameters {agree}: {parts}.",
            f"n = {self.length:,} positions. Weights take {memory(4 * self.total)}, "
            f"with gradients and AdamW {memory(16 * self.total)}.",
        ]
        if self.tokens:
            days = self.training_flops / PETAFLOP_DAY
            flops = f"{self.training_flops:.3g} operations, {days:,.4g} petaflop/s-days"
            lines.append(f"Training on {self.tokens:,} tokens takes about {flops} (6 · parameters · tokens).")
        return lines

    def __str__(self) -> str:
        return "\n".join(
            [aligned([HEADER, *self.rows(), self.total_row], left=LEFT), "", *self.lines(), NOTE]
        )

    def to_html(self) -> str:
        """The table and the sentences, as part of a page."""
        body = html.table(HEADER, [*self.rows(), self.total_row], left=LEFT, wide=True)
        sentences = "".join(f"<p>{escape(line)}</p>" for line in self.lines())
        return f'{sentences}<div class="scroll">{body}</div><p class="small soft">{NOTE}</p>'

    def _repr_html_(self) -> str:
        return html.notebook(self.to_html())


def inspect_model(model: Model, length: int, tokens: int = 0) -> Inspection:
    """The costs of a model, which may be without memory for its weights (`seqlab.model.sketch`)."""
    return Inspection(
        length=length,
        total=_count([model], set()),
        by_part=_by_part(model),
        layers=tuple(model.costs(length)),
        tokens=tokens,
    )


def _by_part(model: nn.Module) -> dict[str, int]:
    seen: set[int] = set()
    return {name: _count([part], seen) for name, part in model.named_children()}


def _count(modules: Sequence[nn.Module], seen: set[int]) -> int:
    """Parameters of modules, each tensor once."""
    total = 0
    for module in modules:
        for parameter in module.parameters():
            if id(parameter) not in seen:
                seen.add(id(parameter))
                total += parameter.numel()
    return total


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

"""What a model costs: parameters by formula and by counting, work, memory, sequential steps and path length
of each layer, and the time that unlimited processors would take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from torch import nn

from seqlab.model import Model
from seqlab.report import html
from seqlab.report.amounts import PETAFLOP_DAY, memory, operations, short
from seqlab.report.evaluate import aligned
from seqlab.report.growth import Growth, measure
from seqlab.report.layer_costs import FORMULAS, LayerCost, by_kind, layer_costs, times_in_all
from seqlab.report.published import Published

__all__ = ["PETAFLOP_DAY", "Growth", "Inspection", "inspect_model", "measure"]

HEADER = (
    "layer", "parameters", "formula", "work", "grows as", "projections", "forward", "backward", "steps",
    "path", "memory",
)  # fmt: skip
LEFT = (0, 2, 4)
KINDS = ("with unlimited processors", "layers", "T", "J", "as trees", "steps", "one by one", "steps")
NOTE = (
    "Work is in multiply-adds of the leading term, projections stand beside it; forward and backward count"
    " all of them; steps have to be done one after the other; path is the longest way between two positions;"
    " memory is what one example keeps for the backward pass."
)
PARALLEL_NOTE = (
    "With unlimited processors only the additions of a sum follow one another: those over T positions as a"
    " tree, in log2 T steps; those over J features of an inner product as a tree, or one by one. In O(T + L)"
    " and O(L) widths are constants, as they are usually told; steps count them."
)


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """A model's costs for one sequence of `length` positions. Prints as a table."""

    length: int
    total: int
    """Parameters, counted."""
    by_part: dict[str, int]
    """Parameters, counted, of input, encoder, pool and head. What parts share counts where it comes first."""
    layers: tuple[LayerCost, ...]
    parallel: tuple[int, int] = (0, 0)
    """Additions that follow one another with unlimited processors: sums as trees, inner products in turn."""
    tokens: int = 0
    """Training tokens, to tell the cost of training; 0 when not asked."""
    name: str = ""
    task: str = ""
    published: Published | None = None
    """What is known of the model, where it is a published one."""
    moments: int = 2
    """Numbers that the optimiser keeps of each weight: 2 for AdamW, 0 for plain gradient descent."""
    on_disk: int | None = None
    """Bytes of the folder, where a run was inspected."""

    @property
    def formula_total(self) -> int:
        return sum(layer.parameters for layer in self.layers)

    @property
    def forward(self) -> int:
        """Multiply-adds of one pass over one example."""
        return sum(layer.forward for layer in self.layers)

    @property
    def backward(self) -> int:
        return sum(layer.backward for layer in self.layers)

    @property
    def steps(self) -> int:
        """Sequential steps of the layer that has most."""
        return max((layer.sequential_steps for layer in self.layers), default=1)

    @property
    def path(self) -> int:
        """The longest way between two positions in one layer."""
        return max((layer.longest_path for layer in self.layers if layer.forward), default=1)

    @property
    def kept(self) -> int:
        """Bytes that one example keeps for the backward pass."""
        return 4 * sum(layer.memory for layer in self.layers)

    @property
    def in_training(self) -> int:
        """Bytes of weights, gradients and what the optimiser keeps."""
        return 4 * self.total * (2 + self.moments)

    @property
    def folder(self) -> int:
        """Bytes of a run folder, by formula: the weights, and two states (one to resume, one to retreat to)
        of weights, averaged weights and what the optimiser keeps. The rest takes some hundred kilobytes."""
        return 4 * self.total * (1 + 2 * (2 + self.moments))

    @property
    def training_flops(self) -> float:
        """6 · parameters · tokens: two operations a weight forward and four backward."""
        return 6.0 * self.total * self.tokens

    def to_json(self) -> dict[str, Any]:
        """As promised for `inspect --json`."""
        trees, serial = self.parallel
        tree: dict[str, Any] = {
            "name": self.name,
            "task": self.task,
            "parameters": {"total": self.total, "formula_total": self.formula_total, "by_part": self.by_part},
            "length": self.length,
            "layers": [_layer_json(layer) for layer in self.layers],
            "work": {"forward": self.forward, "backward": self.backward},
            "sequential_steps": self.steps,
            "longest_path": self.path,
            "parallel": {"trees": trees, "serial": serial},
            "memory": {
                "weights_bytes": 4 * self.total,
                "training_bytes": self.in_training,
                "example_bytes": self.kept,
                "folder_bytes": self.folder,
            },
        }
        if self.on_disk is not None:
            tree["memory"]["on_disk_bytes"] = self.on_disk
        if self.published:
            tree["published"] = self.published.to_json(self.total)
        if self.tokens:
            tree["training"] = {
                "tokens": self.tokens,
                "flops": self.training_flops,
                "petaflop_days": self.training_flops / PETAFLOP_DAY,
            }
        return tree

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
                short(layer.forward),
                short(layer.backward),
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
            short(self.forward),
            short(self.backward),
            "",
            "",
            memory(self.kept),
        )

    def parallel_rows(self) -> list[tuple[str, ...]]:
        """SPEC M2 for the layers that are there; numbers of the slowest layer of a kind."""
        rows: list[tuple[str, ...]] = []
        for kind, layers in by_kind(self.layers):
            slowest = max(layers, key=lambda layer: layer.serial)
            trees, serial = FORMULAS[kind]
            positions = slowest.over or (slowest.sequential_steps if slowest.sequential_steps > 1 else 0)
            cells = (f"{positions:,}" if positions else "", f"{slowest.inner:,}" if slowest.inner else "")
            row = (
                kind,
                f"{len(layers):,}",
                *cells,
                trees,
                f"{slowest.trees:,}",
                serial,
                f"{slowest.serial:,}",
            )
            rows.append(row)
        trees_all, serial_all = self.parallel
        rows.append(
            ("in all, one layer after the other", "", "", "", "", f"{trees_all:,}", "", f"{serial_all:,}")
        )
        return rows

    def lines(self) -> list[str]:
        """Sentences below the table."""
        same = self.total == self.formula_total
        agree = "by counting and by formula" if same else f"by counting, {self.formula_total:,} by formula"
        parts = ", ".join(f"{name} {count:,}" for name, count in self.by_part.items())
        optimiser = "AdamW" if self.moments else "no more for SGD"
        lines = [
            f"{self.total:,} parameters {agree}: {parts}.",
            f"n = {self.length:,} positions: {short(self.forward)} multiply-adds forward and"
            f" {short(self.backward)} backward. Weights take {memory(4 * self.total)}, with gradients and"
            f" {optimiser} {memory(self.in_training)}; a run folder {memory(self.folder)} and its reports.",
        ]
        if self.on_disk is not None:
            lines.append(f"The folder {self.name} takes {memory(self.on_disk)} on disk now.")
        if self.tokens:
            lines.append(
                f"Training on {self.tokens:,} tokens takes about {operations(self.training_flops)}"
                " (6 · parameters · tokens)."
            )
        return lines

    def published_lines(self) -> list[str]:
        """What is known of a published model, and what the formula says."""
        if self.published is None:
            return []
        return [
            f"{key:<18}{value}".rstrip() for key, value in self.published.facts(self.total).items() if value
        ]

    def __str__(self) -> str:
        parts = [
            aligned([HEADER, *self.rows(), self.total_row], left=LEFT),
            "\n".join(self.lines()),
            aligned([KINDS, *self.parallel_rows()], left=(0, 4, 6)),
            "\n".join([NOTE, PARALLEL_NOTE]),
            "\n".join(self.published_lines()),
        ]
        return "\n\n".join(part for part in parts if part)

    def to_html(self) -> str:
        """The tables and the sentences, as part of a page."""
        body = html.table(HEADER, [*self.rows(), self.total_row], left=LEFT, wide=True)
        kinds = html.table(KINDS, self.parallel_rows(), left=(0, 4, 6), wide=True)
        sentences = "".join(f"<p>{escape(line)}</p>" for line in self.lines())
        return (
            f'{sentences}<div class="scroll">{body}</div><p class="small soft">{NOTE}</p>'
            f'<div class="scroll">{kinds}</div><p class="small soft">{PARALLEL_NOTE}</p>'
        )

    def _repr_html_(self) -> str:
        return html.notebook(self.to_html())


def _layer_json(layer: LayerCost) -> dict[str, Any]:
    return {
        "name": layer.name,
        "kind": layer.kind,
        "parameters": layer.parameters,
        "parameters_formula": layer.parameters_formula,
        "work": layer.work,
        "work_formula": layer.work_formula,
        "projections": layer.projections,
        "forward": layer.forward,
        "backward": layer.backward,
        "sequential_steps": layer.sequential_steps,
        "longest_path": layer.longest_path,
        "parallel": {"trees": layer.trees, "serial": layer.serial},
        "memory": layer.memory,
    }


def inspect_model(model: Model, length: int, tokens: int = 0, **known: Any) -> Inspection:
    """The costs of a model, which may be without memory for its weights (`seqlab.model.sketch`). `known` is
    what else an `Inspection` tells: its name, its task."""
    layers = layer_costs(model, length)
    return Inspection(
        length=length,
        total=_count([model], set()),
        by_part=_by_part(model),
        layers=layers,
        parallel=times_in_all(layers, model),
        tokens=tokens,
        **known,
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

"""What the gradient microscope has found, as a table, as sentences, as JSON and as part of a page."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

from seqlab.report import chart, html
from seqlab.report.evaluate import aligned
from seqlab.report.through_time import Flow

SHOWN = (1, 2, 4, 8, 16, 32, 64, 128)
"""Lags in the table."""
GATES = "gates below 0.1 / above 0.9"


@dataclass(frozen=True)
class LayerGradients:
    """One layer. `flow` is None where no row is long enough, or the layer too wide for the time there is."""

    name: str
    kind: str
    flow: Flow | None
    gates: dict[str, tuple[float, float]]
    """By name: the shares of values below 0.1 and above 0.9."""

    @property
    def remembered(self) -> str:
        if self.flow is None:
            return ""
        return f"{'≥ ' if self.flow.lasts else ''}{self.flow.memory}"

    @property
    def gates_shown(self) -> str:
        return ", ".join(f"{name} {low:.0%} / {high:.0%}" for name, (low, high) in self.gates.items())

    def to_json(self) -> dict[str, Any]:
        flow = self.flow
        gates = {name: {"below_0.1": low, "above_0.9": high} for name, (low, high) in self.gates.items()}
        tree: dict[str, Any] = {"name": self.name, "kind": self.kind, "gates": gates}
        if flow is not None:
            told = {"effective_memory": flow.memory, "at_least": flow.lasts, "per_step": flow.rate}
            tree |= {"lags": list(flow.lags), "norms": list(flow.norms), **told}
        return tree


@dataclass(frozen=True)
class Truncated:
    """The gradient of a batch whose state is cut off from the batches before it, against the full one."""

    batches: int
    """How far back the full one goes."""
    cosine: float
    share: float
    """Its length, of that of the full one."""

    def __str__(self) -> str:
        return (
            f"Training cuts the state off before each batch: against backpropagation through {self.batches}"
            f" batches the gradient has a cosine of {self.cosine:.3f} and {self.share:.2f} of the length."
        )


@dataclass(frozen=True)
class Gradients:
    """All that the microscope shows of a run."""

    layers: tuple[LayerGradients, ...]
    rows: int
    clipped: tuple[int, int] | None
    """Steps whose gradient was clipped, and steps; None: an older run, which did not count."""
    truncated: Truncated | None

    def lines(self) -> list[str]:
        """Sentences below the table."""
        looked = [layer for layer in self.layers if layer.flow is not None]
        if not self.layers:
            return [
                "No layer of this model is recurrent or attends to its own input: gradients have no time to"
                " go through."
            ]
        lines = [_told(layer) for layer in looked]
        if len(looked) < len(self.layers):
            lines.append(
                "A layer without norms is too wide for the time there is, or no row has two positions."
            )
        if self.truncated is not None:
            lines.append(f"{self.truncated}")
        if self.clipped is not None:
            lines.append(f"Gradients were clipped in {self.clipped[0]:,} of {self.clipped[1]:,} steps.")
        return lines

    def to_json(self) -> dict[str, Any]:
        tree: dict[str, Any] = {"rows": self.rows, "layers": [layer.to_json() for layer in self.layers]}
        tree["clipped"] = self.clipped and {"clipped": self.clipped[0], "steps": self.clipped[1]}
        tree["truncated"] = self.truncated and vars(self.truncated)
        return tree

    def table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Header and rows."""
        flows = [layer.flow for layer in self.layers if layer.flow is not None]
        lags = [lag for lag in SHOWN if any(lag in flow.lags for flow in flows)]
        header = ("", "layer", "kind", *(f"lag {lag}" for lag in lags), "memory", GATES)
        rows = []
        for number, layer in enumerate(self.layers, start=1):
            norms = {} if layer.flow is None else dict(zip(layer.flow.lags, layer.flow.norms, strict=True))
            cells = (f"{norms[lag]:.2g}" if lag in norms else "" for lag in lags)
            told = (*cells, layer.remembered, layer.gates_shown)
            rows.append((f"{number}", layer.name, layer.kind, *told))
        return header, rows

    def __str__(self) -> str:
        if not self.layers:
            return self.lines()[0]
        header, rows = self.table()
        title = f"Norms of ∂(state at T)/∂(state at T − lag), medians over {self.rows} rows"
        table = aligned([header, *rows], left=(0, 1, 2, len(header) - 1))
        return "\n".join([title, table, "", *self.lines()])

    def to_html(self) -> str:
        """A chart, the table and the sentences, as part of a page."""
        if not any(layer.flow for layer in self.layers):
            return ""
        flows = [(f"{number}", layer.flow) for number, layer in enumerate(self.layers, start=1)]
        curves = [chart.Curve(number, flow.lags, flow.norms) for number, flow in flows if flow is not None]
        drawn = chart.line_chart("Norm by lag", curves[: len(chart.COLOURS)], "positions between", log=True)
        header, rows = self.table()
        body = html.table(header, rows, left=(0, 1, 2, len(header) - 1))
        sentences = "".join(f"<p>{escape(line)}</p>" for line in self.lines())
        return f'{drawn}<div class="scroll">{body}</div>{sentences}'


def _told(layer: LayerGradients) -> str:
    """What the norms of a layer say, in a sentence."""
    flow = layer.flow
    assert flow is not None
    if flow.lasts:
        return f"{layer.name}: gradients reach all {flow.memory} positions back that were looked at."
    return (
        f"{layer.name}: a tenth of the gradient is left up to {flow.memory} positions back; it changes by a"
        f" factor of {flow.rate:.2f} with each."
    )

"""What each layer of a model costs beside its parameters: work forward and backward, and the time that
unlimited processors would take (SPEC M2)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from torch import nn

from seqlab.decoders import MemoryAttention
from seqlab.encoders.recurrent import RecurrentEncoder
from seqlab.inputs.image import GridInput, PatchInput
from seqlab.model import Model
from seqlab.nn.attention import MultiHeadAttention
from seqlab.outputs.channels import ChannelsHead
from seqlab.parts import Attends, Cost


@dataclass(frozen=True)
class LayerCost(Cost):
    """A layer's cost with what follows from the module that it is."""

    kind: str = ""
    """What it does: self-attention, recurrent, ...; empty where nothing is multiplied."""
    inner: int = 0
    """Features that the longest inner product in it adds up."""
    forward: int = 0
    """Multiply-adds of one pass, all of them."""
    backward: int = 0
    """Multiply-adds of the gradient: as many again for what was read, and as many for the weights."""
    trees: int = 0
    """Additions that follow one another with unlimited processors, every sum being a tree."""
    serial: int = 0
    """The same, inner products over features being added up one by one."""


FORMULAS = {
    "self-attention": ("O(ln T + ln J)", "O(J + ln T)"),
    "spatial self-attention": ("O(ln XY + ln J)", "O(J + ln XY)"),
    "attention": ("O(ln T + ln U)", "O(U + ln T)"),
    "recurrent": ("O(T + L)", "O(T + L)"),
    "chain": ("O(T)", "O(T)"),
    "convolution": ("O(L)", "O(L)"),
    "linear": ("O(ln J)", "O(J)"),
    "sum": ("O(ln T)", "O(ln T)"),
}
"""How each kind grows: sums as trees, and inner products one by one. T positions, XY slots of a picture, J
features of a state, U of a query, L layers; of recurrent layers and convolutions the widths are constants."""

RECURRENT = re.compile(r"(?P<stack>.*)\.(?P<way>ahead|back)\.(?P<layer>\d+)")


def layer_costs(model: Model, length: int) -> tuple[LayerCost, ...]:
    """The layers of a model for one sequence of `length` positions."""
    modules = dict(model.named_modules())
    spatial = isinstance(model.input, GridInput | PatchInput)
    slots = slots_of(model, length)
    found: list[LayerCost] = []
    before = 0
    for cost in model.costs(length):
        if cost.name == "decoder.embedding":
            before = 0  # what is written is read here for the first time
        module = modules.get(cost.name)
        layer = _layer(looking(cost, module, length, slots), module, spatial)
        # Nothing that is learned stands before the first layer, so that nobody asks for its input's gradient.
        found.append(replace(layer, backward=layer.forward * (2 if before else 1)))
        before += cost.parameters or cost.name == "decoder.embedding"  # which may be the input's
    return tuple(found)


def slots_of(model: Model, length: int) -> int:
    """Slots that a decoder looks at when `length` positions are read."""
    if model.input is None or model.encoder is None:
        return length
    return model.encoder.length_after(model.input.length_after(length))


def looking(cost: Cost, module: nn.Module | None, length: int, slots: int) -> Cost:
    """Of attention to what an encoder has read: each of `length` written positions looks at `slots` slots,
    which may be more or fewer than the positions that were read."""
    if isinstance(module, MemoryAttention):
        hidden = 0 if module.key is None else module.key.out_features
        asking = 0 if module.query is None else module.width * module.query.out_features
        return replace(
            cost,
            work=length * slots * (hidden or module.memory),
            projections=length * asking + slots * module.memory * hidden,
            mixing=length * slots * module.memory,
            over=slots,
        )
    if isinstance(module, MultiHeadAttention) and cost.name.endswith("cross"):
        form = module.form
        keys = form.heads * (form.memory if form.merged else form.key)
        values = form.heads * form.value
        read = form.memory * ((0 if form.merged else keys) + values)
        return replace(
            cost,
            work=cost.work * slots // length,
            projections=length * form.width * (keys + form.output * values) + slots * read,
            mixing=cost.mixing * slots // length,
            over=slots,
        )
    return cost


def _layer(cost: Cost, module: nn.Module | None, spatial: bool) -> LayerCost:
    forward = cost.work + cost.projections + cost.mixing
    kind = _kind(cost, module, spatial) if forward else ""
    inner = longest_product(module) if kind not in ("", "sum") else 0
    if kind == "chain":  # each label is reached from each one
        inner = math.isqrt(cost.work // cost.sequential_steps)
    added = levels(cost.over)
    return LayerCost(
        **vars(cost),
        kind=kind,
        inner=inner,
        forward=forward,
        trees=cost.sequential_steps * (levels(inner) + added) if kind else 0,
        serial=cost.sequential_steps * (inner + added) if kind else 0,
    )


def _kind(cost: Cost, module: nn.Module | None, spatial: bool) -> str:
    if isinstance(module, MultiHeadAttention) and not cost.name.endswith("cross"):
        return "spatial self-attention" if spatial and cost.name.startswith("encoder") else "self-attention"
    if isinstance(module, Attends):
        return "attention"
    inside = [] if module is None else list(module.modules())
    if any(isinstance(one, nn.RNNBase | nn.RNNCellBase) for one in inside):
        return "recurrent"
    if any(isinstance(one, nn.Conv1d | nn.Conv2d) for one in inside):
        return "convolution"
    if cost.over:
        return "sum"
    return "chain" if cost.sequential_steps > 1 else "linear"


def longest_product(module: nn.Module | None) -> int:
    """How many features the longest inner product inside a layer adds up."""
    if module is None:
        return 1
    found = [1]
    for one in module.modules():
        if isinstance(one, nn.Linear):
            found.append(one.in_features)
        elif isinstance(one, nn.Conv1d | nn.Conv2d):
            found.append(one.in_channels * math.prod(one.kernel_size))
        elif isinstance(one, nn.RNNBase | nn.RNNCellBase):
            found.append(one.hidden_size)  # what is read is multiplied before the first step
        elif isinstance(one, MemoryAttention):
            found.append(one.memory)
        elif isinstance(one, ChannelsHead):
            found.append(one.weight.shape[1])
    return max(found)


def levels(count: int) -> int:
    """Additions that follow one another when so many numbers are added up in pairs."""
    return math.ceil(math.log2(count)) if count > 1 else 0


def times_in_all(layers: Sequence[LayerCost], model: Model) -> tuple[int, int]:
    """(as trees, one by one) from what is read to the answer. Layers follow one another; directions of a
    recurrent layer go side by side, and so do the layers of a stack of one direction, each a step behind the
    one below it."""
    modules = dict(model.named_modules())
    trees = serial = 0
    for stack, group in groupby(layers, _stack_of):
        some = list(group)
        mixed = isinstance(modules.get(stack), RecurrentEncoder) and _both(some)
        trees += _stacked([layer.trees for layer in some], some, mixed)
        serial += _stacked([layer.serial for layer in some], some, mixed)
    return trees, serial


def _stack_of(layer: LayerCost) -> str:
    found = RECURRENT.fullmatch(layer.name)
    return found["stack"] if found else layer.name


def _both(layers: Iterable[LayerCost]) -> bool:
    return len({found["way"] for layer in layers if (found := RECURRENT.fullmatch(layer.name))}) == 2


def _stacked(times: list[int], layers: Sequence[LayerCost], mixed: bool) -> int:
    """Of the layers of one stack. mixed: each layer reads both directions of the one below, to their ends."""
    ways: dict[str, list[tuple[int, int]]] = {}
    for time, layer in zip(times, layers, strict=True):
        found = RECURRENT.fullmatch(layer.name)
        if found is None:
            return sum(times)
        ways.setdefault(found["way"], []).append((time, layer.sequential_steps))
    if mixed:
        return sum(max(time for time, _ in level) for level in zip(*ways.values(), strict=True))
    return max(_waves(way) for way in ways.values())


def _waves(way: list[tuple[int, int]]) -> int:
    """T + L − 1 steps: all layers at once, each a step behind the one below it."""
    longest, steps = max(way)
    each = [time // one for time, one in way]
    return longest + sum(sorted(each)[:-1]) if steps else 0


def by_kind(layers: Sequence[LayerCost]) -> list[tuple[str, list[LayerCost]]]:
    """The layers of each kind, in the order in which kinds come first."""
    found: dict[str, list[LayerCost]] = {}
    for layer in layers:
        if layer.kind:
            found.setdefault(layer.kind, []).append(layer)
    return list(found.items())

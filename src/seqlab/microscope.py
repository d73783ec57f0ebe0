"""The gradient microscope: how far back the gradients of a trained run reach on a user's rows (SPEC R7).

    seqlab inspect RUN --gradients DATA

For each recurrent layer and each layer of self-attention: norms of Jacobians by lag, effective memory, how
often gates are nearly shut or open. Of the run: how often gradients were clipped and, where state is carried
from batch to batch, what cutting it off costs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from seqlab.data.store import Store
from seqlab.errors import UserError
from seqlab.model import Model, device_of
from seqlab.nn.attention import MultiHeadAttention
from seqlab.parts import Batch, Encoder, Objective, Output, State
from seqlab.report.reach import Gradients, LayerGradients, Truncated
from seqlab.report.through_time import (
    Flow,
    attention_norms,
    lags_up_to,
    recurrent_norms,
    saturation,
    state_width,
)
from seqlab.run import Run
from seqlab.seq import Seq

ROWS = 4
WORK, REPORTED = 1e11, 3e9
"""Multiply-adds that are spent on a run: when asked for, and in the report of every training."""
BACK = 128
"""The longest lag that is looked at."""
WINDOWS = 4
"""Batches through which the state is followed, to compare with cutting it off before the last."""
KINDS: dict[type, str] = {nn.RNN: "rnn", nn.GRU: "gru", nn.LSTM: "lstm", MultiHeadAttention: "self-attention"}
Module = nn.RNNBase | MultiHeadAttention


# Looking ----------------------------------------------------------------------------------------------------


def inspect_gradients(
    run: Run, data: str | Sequence[str], settings: Mapping[str, Any] | None = None
) -> Gradients:
    """The gradients of a run on rows of a user's files, which need the columns that it was trained with."""
    with run.stored(data, settings) as store:
        return gradients_on(run, store)


def gradients_on(run: Run, store: Store, work: float = WORK) -> Gradients:
    """The same on rows that are stored already."""
    modules: dict[str, Module] = {
        name: module
        for name, module in run.model.named_modules()
        if isinstance(module, (nn.RNNBase, MultiHeadAttention))
    }
    seen: dict[str, list[tuple[Tensor, Tensor | None]]] = {name: [] for name in modules}
    chosen, carries = _chosen(run, store)
    rows = 0
    if modules:
        with _listening(run.model, modules, seen), torch.no_grad():
            for batch in chosen:
                with suppress(UserError):  # longer than the model has positions for
                    run.model(batch)
                    rows += 1
    attending = {name for name, module in modules.items() if isinstance(module, MultiHeadAttention)}
    shown = [
        name for name in modules if seen[name] or name not in attending
    ]  # what reads a memory is left out
    layers = tuple(_layer(name, modules[name], seen[name], work / len(shown)) for name in shown)
    history = run.history()
    told = history[-1] if history else {}
    clipped = (int(told["clipped"]), int(told["step"])) if "clipped" in told else None
    cut = _truncated(run, store) if carries and modules else None
    return Gradients(layers, rows, clipped, cut)


def _chosen(run: Run, store: Store) -> tuple[list[Batch], bool]:
    """Some rows, each a batch of its own, so that nothing is padded; and whether their state is carried."""
    exercise = run.answer.exercise(store)
    plan = exercise.plan(run.settings.training.batch_tokens or 1, 0)
    rows = [some[place : place + 1] for some in plan.epoch(0) for place in range(len(some))]
    places = np.linspace(0, len(rows) - 1, min(ROWS, len(rows))).round().astype(int)
    return [exercise.batch(rows[place]).to(device_of(run.model)) for place in places], plan.carries


@contextmanager
def _listening(
    model: Model, modules: dict[str, Module], seen: dict[str, list[tuple[Tensor, Tensor | None]]]
) -> Iterator[None]:
    """Within, what each layer reads (T D, without padding) is kept, with the state that it begins from."""
    masks: list[Tensor | None] = [None]
    keys: dict[str, Tensor] = {}

    def enter(_: nn.Module, given: tuple[Any, ...]) -> None:
        masks[0] = given[0].mask if given and isinstance(given[0], Seq) else None

    def leave(*_: Any) -> None:
        masks[0] = None

    def keep(name: str, values: Tensor, first: Tensor | None) -> None:
        for row in range(len(values)):
            mask = masks[0]
            fits = mask is not None and mask.shape == values.shape[:2]
            real = int(mask[row].sum()) if mask is not None and fits else values.shape[1]
            begun = None if first is None else first[row : row + 1].detach()
            seen[name].append((values[row : row + 1, :real].detach(), begun))

    def of_cell(name: str) -> Any:
        def hook(_: nn.Module, given: tuple[Any, ...]) -> None:
            state = given[1] if len(given) > 1 else None
            whole = torch.cat(state, dim=-1) if isinstance(state, tuple) else state
            last = seen[name][-1] if seen[name] else None
            if whole is not None and given[0].shape[1] == 1 and last is not None and whole.shape[1] == 1:
                seen[name][-1] = torch.cat([last[0], given[0].detach()], dim=1), last[1]  # a loop over time
            else:
                keep(name, given[0], None if whole is None else whole[0])

        return hook

    def of_key(name: str) -> Any:
        def hook(_: nn.Module, given: tuple[Any, ...]) -> None:
            keys[name] = given[0]

        return hook

    def of_query(name: str) -> Any:
        def hook(_: nn.Module, given: tuple[Any, ...]) -> None:
            values: Tensor = given[0]
            if keys.pop(name, None) is values:
                keep(name, values, None)

        return hook

    hooks: list[Any] = []
    for module in model.modules():
        if isinstance(module, Encoder):
            hooks += [module.register_forward_pre_hook(enter), module.register_forward_hook(leave)]
    for name, module in modules.items():
        if isinstance(module, MultiHeadAttention):
            hooks.append(module.key.register_forward_pre_hook(of_key(name)))
            hooks.append(module.query.register_forward_pre_hook(of_query(name)))
        else:
            hooks.append(module.register_forward_pre_hook(of_cell(name)))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _layer(
    name: str, module: Module, read: Sequence[tuple[Tensor, Tensor | None]], work: float
) -> LayerGradients:
    """Norms and gates of one layer over what it read, for so many multiply-adds."""
    kind = KINDS[type(module)]
    long = sorted((one for one in read if one[0].shape[1] > 1), key=lambda one: -one[0].shape[1])[:ROWS]
    if not long:
        return LayerGradients(name, kind, None, {})
    size = module.width if isinstance(module, MultiHeadAttention) else state_width(module)
    each = 6.0 * size**3  # a product, and a part of an eigenvalue decomposition
    long = long[: max(1, int(work / each / 8))]
    longest = long[0][0].shape[1]
    most = min(BACK, longest - 1, int(work / each / len(long)))
    if isinstance(module, MultiHeadAttention):  # any lag by itself, so as many as there is time for
        every = lags_up_to(min(BACK, longest - 1))
        lags = every[:: -(-len(every) // most)] if most > 0 else ()
    else:
        lags = lags_up_to(most)
    if not lags:
        return LayerGradients(name, kind, None, {})
    if isinstance(module, MultiHeadAttention):
        norms = [attention_norms(module, values, lags) for values, _ in long]
        return LayerGradients(name, kind, Flow.of(lags, torch.cat(norms)), {})
    found = [recurrent_norms(module, values, lags, first) for values, first in long]
    flow = Flow.of(lags, torch.cat([norms for norms, _ in found]))
    names = found[0][1]
    gates = {gate: saturation(torch.cat([one[gate].flatten() for _, one in found])) for gate in names}
    return LayerGradients(name, kind, flow, gates)


# Truncated backpropagation ----------------------------------------------------------------------------------


def _truncated(run: Run, store: Store) -> Truncated | None:
    """The gradient of the last of some batches that follow one another, with and without the ones before."""
    exercise = run.answer.exercise(store)
    plan = exercise.plan(run.settings.training.batch_tokens or 1, 0)
    batches = [exercise.batch(rows[:1]).to(device_of(run.model)) for rows in plan.epoch(0)[:WINDOWS]]
    if len(batches) < 2:
        return None
    objectives = run.task.objectives(run.settings.model)
    full, cut = (gradient_of_last(run.model, batches, objectives, cuts) for cuts in (False, True))
    cosine = torch.nn.functional.cosine_similarity(full, cut, dim=0)
    return Truncated(len(batches), float(cosine), float(cut.norm() / full.norm()))


def gradient_of_last(
    model: Model, batches: Sequence[Batch], objectives: Sequence[tuple[float, Objective]], cuts: bool
) -> Tensor:
    """The gradient of the loss of the last batch by all weights, side by side, its state coming from the
    batches before; `cuts`: as a number, without what made it."""
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    carried: State | None = None
    output: Output | None = None
    with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
        for batch in batches:
            output = model(batch, carried.detach() if carried is not None and cuts else carried)
            carried = output.state
        assert output is not None
        terms = [(weight, objective(output, batches[-1])) for weight, objective in objectives]
        loss = torch.stack([weight * term.total / max(1, term.count) for weight, term in terms]).sum()
        found = torch.autograd.grad(loss, weights, allow_unused=True)
    return torch.cat(
        [(torch.zeros_like(w) if g is None else g).flatten() for w, g in zip(weights, found, strict=True)]
    )

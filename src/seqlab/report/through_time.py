"""How far back gradients reach: the norm of ∂(state at T)/∂(state at t) by the lag T − t (SPEC R7).

Of a recurrent layer this is the Jacobian of its whole state (h, and c of an LSTM), the product of the
Jacobians of its steps; of self-attention that of the output at T by the layer's input at t, which is one step
away whatever the lag. A norm is the largest singular value: how far a small change at t moves the state at T,
at the most.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from seqlab.nn.attention import MultiHeadAttention

LEFT = 0.1
"""What has to be left of a gradient for it to count as remembered, of what it is one step back."""
SHUT, OPEN = 0.1, 0.9
"""A gate below or above this hardly learns any more: its slope is less than 0.09, of 0.25 at the most."""
SLOPES = {"tanh": lambda h: 1 - h.square(), "relu": lambda h: (h > 0).to(h), "linear": torch.ones_like}
"""The derivative of each activation of a vanilla RNN, by its value. torch has no linear one: ours has."""
VALUES = {"tanh": torch.tanh, "relu": torch.relu, "linear": lambda x: x}


@dataclass(frozen=True)
class Flow:
    """Norms by lag."""

    lags: tuple[int, ...]
    norms: tuple[float, ...]
    """Medians over rows."""

    @classmethod
    def of(cls, lags: Sequence[int], norms: Float[Tensor, "B L"]) -> Flow:
        """Of rows; NaN where a row is shorter than a lag."""
        return cls(tuple(lags), tuple(norms.nanmedian(dim=0).values.tolist()))

    @property
    def memory(self) -> int:
        """The effective memory: the longest lag up to which a tenth of the norm one step back is left."""
        kept = [norm >= LEFT * self.norms[0] for norm in self.norms]
        return self.lags[kept.index(False) - 1] if False in kept else self.lags[-1]

    @property
    def lasts(self) -> bool:
        """Whether that is all there was to look at: the true memory may be longer."""
        return self.memory == self.lags[-1]

    @property
    def rate(self) -> float:
        """The factor by which the norm changes with each step, from lag 1 to the end of the memory."""
        place = max(1, self.lags.index(self.memory))
        if len(self.lags) < 2 or self.norms[0] <= 0:
            return 1.0
        return float((self.norms[place] / self.norms[0]) ** (1 / (self.lags[place] - self.lags[0])))


def lags_up_to(most: int) -> tuple[int, ...]:
    """1, 2, 3 ... 8, then four to each doubling (10, 12, 14, 16, 20 ...), up to `most` and with it."""
    doublings = [4 << power for power in range(most.bit_length())]
    lags = {1, 2, 3, most, *(start * quarters // 4 for start in doublings for quarters in (4, 5, 6, 7))}
    return tuple(sorted(lag for lag in lags if 0 < lag <= most))


def largest_singular(matrices: Float[Tensor, "B N M"]) -> Float[Tensor, " B"]:
    """The largest singular value of each, by the eigenvalues of the square, which are quicker to have."""
    scale = matrices.abs().amax(dim=(1, 2)).clamp(min=torch.finfo(matrices.dtype).tiny)
    scaled = matrices / scale.view(-1, 1, 1)
    roots = torch.linalg.eigvalsh(scaled.mT @ scaled)[:, -1].clamp(min=0).sqrt()
    found: Tensor = scale * roots
    return found


# Recurrent layers -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CellStep:
    """One step of a layer: S is D, of an LSTM 2D (h and c side by side)."""

    after: Float[Tensor, "B S"]
    gates: dict[str, Float[Tensor, "B D"]]
    """By name; of a vanilla tanh RNN, which has none, |h|."""
    jacobian: Float[Tensor, "B S S"] | None = None
    """Of the state after the step by the state before it."""


def step(
    cell: nn.RNNBase, x: Float[Tensor, "B E"], state: Float[Tensor, "B S"], whole: bool = False
) -> CellStep:
    """What one layer of torch does with the next vector; with `whole`, also the Jacobian of that."""
    width = cell.hidden_size
    h = state[:, :width]
    given, recurrent, bias, kept_bias = cell.all_weights[0]
    fed, kept = functional.linear(x, given, bias), functional.linear(h, recurrent, kept_bias)
    matrices = recurrent.unflatten(0, (-1, width))  # G D D, a matrix for each gate

    def through(*slopes: Tensor) -> Tensor:
        """Σ over gates of diag(slope) · matrix."""
        return torch.einsum("bgd,gde->bde", torch.stack(slopes, dim=1), matrices)

    if isinstance(cell, nn.LSTM):
        c = state[:, width:]
        i, f, g, o = (fed + kept).chunk(4, dim=1)
        i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
        inner = f * c + i * g
        told, slope = inner.tanh(), o * (1 - inner.tanh().square())
        found = CellStep(torch.cat([o * told, inner], dim=1), {"input": i, "forget": f, "output": o})
        if not whole:
            return found
        none = torch.zeros_like(o)
        by_h = through(g * i * (1 - i), c * f * (1 - f), i * (1 - g.square()), none)
        opened = through(none, none, none, told * o * (1 - o))
        lower = torch.cat([by_h, f.diag_embed()], dim=2)
        upper = slope.unsqueeze(2) * lower + torch.cat([opened, torch.zeros_like(opened)], dim=2)
        return CellStep(found.after, found.gates, torch.cat([upper, lower], dim=1))
    if isinstance(cell, nn.GRU):
        (fed_r, fed_z, fed_n), (kept_r, kept_z, kept_n) = fed.chunk(3, dim=1), kept.chunk(3, dim=1)
        r, z = (fed_r + kept_r).sigmoid(), (fed_z + kept_z).sigmoid()
        n = (fed_n + r * kept_n).tanh()
        found = CellStep((1 - z) * n + z * h, {"reset": r, "update": z})
        if not whole:
            return found
        slope = (1 - z) * (1 - n.square())
        by_h = through(slope * kept_n * r * (1 - r), (h - n) * z * (1 - z), slope * r)
        return CellStep(found.after, found.gates, by_h + z.diag_embed())
    activation = str(getattr(cell, "nonlinearity", "tanh"))
    after = VALUES[activation](fed + kept)
    gates = {"|h|": after.abs()} if activation == "tanh" else {}
    return CellStep(after, gates, through(SLOPES[activation](after)) if whole else None)


def state_width(cell: nn.RNNBase) -> int:
    return cell.hidden_size * (2 if isinstance(cell, nn.LSTM) else 1)


@torch.no_grad()
def recurrent_norms(
    cell: nn.RNNBase,
    inputs: Float[Tensor, "B T E"],
    lags: Sequence[int],
    first: Float[Tensor, "B S"] | None = None,
) -> tuple[Float[Tensor, "B L"], dict[str, Float[Tensor, "B T D"]]]:
    """‖∂S_T/∂S_{T−lag}‖ for each lag (below T), of one layer over rows without padding, and its gates.

    In double precision: a product of a hundred matrices would else lose digits.
    """
    rows, length = inputs.shape[:2]
    exact = copy.deepcopy(cell).double()
    vectors = inputs.double().unbind(dim=1)
    state = inputs.new_zeros(rows, state_width(cell)).double() if first is None else first.double()
    states, gates = [state], []
    for vector in vectors:
        found = step(exact, vector, states[-1])
        states.append(found.after)
        gates.append(found.gates)
    product = torch.eye(state_width(cell), dtype=torch.float64, device=inputs.device).expand(rows, -1, -1)
    norms: dict[int, Tensor] = {}
    for lag in range(1, min(max(lags), length) + 1):
        place = length - lag
        jacobian = step(exact, vectors[place], states[place], whole=True).jacobian
        assert jacobian is not None
        product = product @ jacobian
        if lag in lags:
            norms[lag] = largest_singular(product)
    missing = product.new_full((rows,), torch.nan)
    return (
        torch.stack([norms.get(lag, missing) for lag in lags], dim=1),
        {name: torch.stack([one[name] for one in gates], dim=1) for name in gates[0]},
    )


# Self-attention ---------------------------------------------------------------------------------------------


def attention_norms(
    attention: MultiHeadAttention, inputs: Float[Tensor, "B T D"], lags: Sequence[int]
) -> Float[Tensor, "B L"]:
    """‖∂y_T/∂x_{T−lag}‖ of a layer of self-attention over rows without padding, for lags from 1 to T − 1.

    y_T = Σ_h O_h Σ_t a_t V_h x_t, so for t < T the Jacobian is Σ_h O_h (a_t V_h + a_t (v_t − ȳ) s_tᵀ): what
    is looked at, and what draws the look there; s_t is the gradient of the score of t by x_t. (At lag 0 x_T
    asks, too, which is no matter of distance.)
    """
    form, length = attention.form, inputs.shape[1]
    leaf = inputs.detach().clone().requires_grad_()
    before, attention.tape = attention.tape, []
    try:
        with torch.no_grad():
            attention(leaf)
        weights = attention.tape[0][:, :, -1]  # B H T
    finally:
        attention.tape = before
    with torch.enable_grad():
        keys, values = attention.remember(leaf)  # B H T U, B H T I
        asked = attention.query(leaf.detach()).unflatten(-1, (form.heads, -1)).transpose(1, 2)
        asked = asked if attention.rotary is None else attention.rotary.turn(asked)
        scores = attention.factor * torch.einsum("bhu,bhtu->bht", asked[:, :, -1], keys.expand_as(asked))
        by_score = [
            torch.autograd.grad(scores[:, head].sum(), leaf, retain_graph=True)[0]
            for head in range(form.heads)
        ]
    slopes = torch.stack(by_score, dim=1)  # B H T D: the score of t depends on x_t alone
    values = values.detach()
    drawn = values - torch.einsum("bht,bhti->bhi", weights, values).unsqueeze(2)  # B H T I
    seen = attention.value.weight.detach().unflatten(0, (form.heads, -1))  # H I D
    mixed = (
        attention.output.weight.detach()
        if isinstance(attention.output, nn.Linear)
        else torch.eye(form.heads * form.value).to(values)
    ).unflatten(1, (form.heads, -1))  # E H I
    norms = inputs.new_full((len(inputs), len(lags)), torch.nan, dtype=torch.float64)
    for place, lag in enumerate(lags):
        at = length - 1 - lag
        if at < 0:
            continue
        each = seen + drawn[:, :, at].unsqueeze(3) * slopes[:, :, at].unsqueeze(2)  # B H I D
        whole = torch.einsum("bh,ehi,bhid->bed", weights[:, :, at], mixed, each)
        norms[:, place] = largest_singular(whole)
    return norms


def saturation(values: Tensor) -> tuple[float, float]:
    """The shares of gate values that are nearly shut and nearly open."""
    return float((values < SHUT).double().mean()), float((values > OPEN).double().mean())

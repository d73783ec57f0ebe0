"""Attention: softmax(Q Kᵀ/√d) V, with any number of heads, full, causal or local, fused or recorded."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from seqlab.nn.layers import start_linear
from seqlab.nn.positions import RotaryPositions
from seqlab.parts import Attends, Cost

LEAST_BLOCK = 16
"""Local attention works on blocks of at least this many queries: smaller ones are no faster."""


def masked_softmax(scores: Float[Tensor, "*B T"], mask: Bool[Tensor, "*#B T"]) -> Float[Tensor, "*B T"]:
    """Softmax over the last axis, over real positions alone."""
    weights = scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
    return weights.masked_fill(~mask, 0.0)  # a row with nothing to attend to gets zeros, not NaN


@dataclass(frozen=True, kw_only=True)
class Form:
    """The shape of an attention layer. Queries come from `width` features, keys and values from `memory`
    features."""

    width: int
    """Width of what asks, and of the answer when there is an output projection."""
    memory: int
    """Width of what is looked at."""
    heads: int
    key: int
    """Width of the queries and keys of one head."""
    value: int
    """Width of the values of one head."""
    biases: bool = True
    """A bias for queries, keys and values."""
    output_bias: bool = True
    scale: bool = True
    """Divide scores by the root of the key width."""
    output: bool = True
    """Mix the heads by a last linear layer; without it they are only put side by side."""
    merged: bool = False
    """One matrix (memory × width) a head instead of a query matrix and a key matrix."""
    causal: bool = False
    """Position t sees positions up to t alone."""
    local: int | None = None
    """Each position sees this many, itself included; when causal the last ones, else half on each side."""

    @staticmethod
    def standard(width: int, heads: int) -> Form:
        """Self-attention whose heads share the width out among them."""
        return Form(width=width, memory=width, heads=heads, key=width // heads, value=width // heads)


class MultiHeadAttention(Attends):
    """Each of Q positions gets a weighted mean of K positions: queries (B Q D), memory (B K M) → (B Q D').

    Per head, softmax(Q Kᵀ/√U) V with keys of width U and values of width I; the heads' results are
    concatenated and mixed by the output projection (Vaswani et al. 2017, section 3.2). Both the scale and the
    projection can be off.

    Merged form: scores are x W̃ m with one matrix W̃ = W_Qᵀ W_K/√U a head, and with biases also u · m, u =
    W_Kᵀ b_Q/√U. What the key bias adds is the same for all positions of the memory, so softmax cancels it and
    the merged form has none. There is no dropout on the weights: it would leave the fused kernel. Values of
    another width than the keys leave it, too, on a CPU: torch then keeps the weights.
    """

    def __init__(self, form: Form, rotary: RotaryPositions | None = None) -> None:
        super().__init__()
        if form.merged and rotary is not None:
            raise ValueError(
                "A merged query-key matrix cannot be had with rotary positions: they turn queries and keys"
                " apart."
            )
        self.form = form
        self.rotary = rotary
        self.width = form.width if form.output else form.heads * form.value
        keys = form.memory if form.merged else form.key
        self.factor = form.key**-0.5 if form.scale and not form.merged else 1.0
        self.query = nn.Linear(form.width, form.heads * keys, bias=form.biases)
        self.key = (
            nn.Identity() if form.merged else nn.Linear(form.memory, form.heads * keys, bias=form.biases)
        )
        self.value = nn.Linear(form.memory, form.heads * form.value, bias=form.biases)
        self.output = (
            nn.Linear(form.heads * form.value, form.width, bias=form.output_bias)
            if form.output
            else nn.Identity()
        )
        for layer in (self.query, self.key, self.value, self.output):
            if isinstance(layer, nn.Linear):
                start_linear(layer)
        if form.merged:  # scores as spread as those of two Xavier matrices
            nn.init.normal_(self.query.weight, std=(form.width * form.memory) ** -0.5)

    def forward(
        self,
        x: Float[Tensor, "B Q D"],
        mask: Bool[Tensor, "B K"] | None = None,
        memory: Float[Tensor, "B K M"] | None = None,
    ) -> Float[Tensor, "B Q E"]:
        """`mask` is True at the real positions of the memory, None when all are. No memory: x looks at
        itself."""
        form = self.form
        assert memory is None or not (form.causal or form.local), (
            "causal and local attention look at their own input"
        )
        keys, values = self.remember(x if memory is None else memory)
        queries = self._queries(x)
        if form.local:
            mixed, weights = self._look_near(queries, self._spread(keys), values, mask)
        else:
            allowed = None if mask is None else mask[:, None, None]
            mixed, weights = self._look(queries, self._spread(keys), values, allowed, form.causal)
        return self._answer(mixed, weights)

    def remember(self, memory: Float[Tensor, "B K M"], before: int = 0) -> tuple[Tensor, Tensor]:
        """Keys (B H K U; merged: B 1 K M) and values (B H K I) of what is looked at; `before` positions came
        before it."""
        form = self.form
        keys = self.key(memory).unflatten(-1, (1 if form.merged else form.heads, -1)).transpose(1, 2)
        values = self.value(memory).unflatten(-1, (form.heads, -1)).transpose(1, 2)
        return (keys if self.rotary is None else self.rotary.turn(keys, before)), values

    def recall(
        self, x: Float[Tensor, "B Q D"], keys: Tensor, values: Tensor, mask: Bool[Tensor, "B K"] | None
    ) -> Float[Tensor, "B Q E"]:
        """Look at a memory whose keys and values are there already."""
        allowed = None if mask is None else mask[:, None, None]
        return self._answer(*self._look(self._queries(x), self._spread(keys), values, allowed, causal=False))

    def extend(
        self, x: Float[Tensor, "B U D"], past: tuple[Tensor, Tensor] | None, before: int
    ) -> tuple[Float[Tensor, "B U E"], tuple[Tensor, Tensor]]:
        """Causal self-attention of the next positions, given keys and values of the `before` positions so
        far.

        Local attention keeps of the past what the next position can still reach, and no more.
        """
        form = self.form
        assert form.causal
        keys, values = self.remember(x, before)
        if past is not None and before > 0:
            keys, values = torch.cat([past[0], keys], dim=2), torch.cat([past[1], values], dim=2)
        kept = slice(None) if form.local is None else slice(max(0, keys.shape[2] - form.local + 1), None)
        queries, count, seen = self._queries(x, before), x.shape[1], keys.shape[2]
        if before == 0 and form.local:
            mixed, weights = self._look_near(queries, self._spread(keys), values, None)
        elif before == 0 or (count == 1 and seen <= (form.local or seen)):
            mixed, weights = self._look(queries, self._spread(keys), values, None, causal=count > 1)
        else:
            ahead = torch.arange(seen - count, seen, device=x.device).unsqueeze(1) - torch.arange(
                seen, device=x.device
            )
            allowed = (ahead >= 0) & (ahead < (form.local or seen))  # U K
            mixed, weights = self._look(
                queries, self._spread(keys), values, allowed.expand(len(x), 1, -1, -1), causal=False
            )
        return self._answer(mixed, weights), (keys[:, :, kept], values[:, :, kept])

    def _queries(self, x: Tensor, before: int = 0) -> Float[Tensor, "B H Q U"]:
        queries: Tensor = self.query(x).unflatten(-1, (self.form.heads, -1)).transpose(1, 2)
        return queries if self.rotary is None else self.rotary.turn(queries, before)

    def _spread(self, keys: Tensor) -> Float[Tensor, "B H K U"]:
        """In the merged form all heads look at the memory itself."""
        return keys.expand(-1, self.form.heads, -1, -1) if self.form.merged else keys

    def _answer(self, mixed: Tensor, weights: Tensor | None) -> Tensor:
        if self.tape is not None and weights is not None:
            self.tape.append(weights.detach())
        result: Tensor = self.output(mixed.transpose(1, 2).flatten(2))
        return result

    def _look(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        allowed: Bool[Tensor, "B 1 #Q K"] | None,
        causal: bool,
    ) -> tuple[Tensor, Tensor | None]:
        """The mix (B H Q I), and the weights (B H Q K) when they are recorded."""
        if self.tape is None:
            # Padding is on the right, where a causal row never looks: it needs no mask beside the triangle.
            mask = None if causal else allowed
            return (
                F.scaled_dot_product_attention(
                    queries, keys, values, mask, is_causal=causal, scale=self.factor
                ),
                None,
            )
        scores = queries @ keys.transpose(-1, -2) * self.factor
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device)
        seen = seen.tril() if causal else seen
        weights = masked_softmax(scores, (seen if allowed is None else seen & allowed).expand_as(scores))
        return weights @ values, weights

    def _look_near(
        self, queries: Tensor, keys: Tensor, values: Tensor, mask: Bool[Tensor, "B T"] | None
    ) -> tuple[Tensor, Tensor | None]:
        """Local attention: blocks of queries, each beside the window of keys it can reach, so the work is
        O(r·n·d)."""
        rows, _, length, _ = queries.shape
        reach = self.form.local or 1
        left, right = (reach - 1, 0) if self.form.causal else ((reach - 1) // 2, reach // 2)
        block = max(reach, LEAST_BLOCK)
        blocks = -(-length // block)
        window = left + block + right
        spare = blocks * block - length

        def windows(x: Tensor) -> Tensor:
            wide = F.pad(x, (0, 0, left, spare + right)).unfold(2, window, block)  # B H blocks U window
            return wide.permute(0, 2, 1, 4, 3).flatten(0, 1)  # B·blocks H window U

        real = torch.ones(rows, length, dtype=torch.bool, device=queries.device) if mask is None else mask
        real = F.pad(real, (left, spare + right)).unfold(1, window, block)  # B blocks window
        places = torch.arange(window, device=queries.device)
        ahead = places - places[:block].unsqueeze(1)  # block window
        allowed = ((ahead >= 0) & (ahead <= left + right) & real.unsqueeze(2)).flatten(0, 1).unsqueeze(1)
        asked = F.pad(queries, (0, 0, 0, spare)).unflatten(2, (blocks, block)).transpose(1, 2).flatten(0, 1)
        mixed, weights = self._look(asked, windows(keys), windows(values), allowed, causal=False)
        mixed = mixed.unflatten(0, (rows, blocks)).transpose(1, 2).flatten(2, 3)[:, :, :length]
        if weights is None:
            return mixed, None
        near = weights.unflatten(0, (rows, blocks)).transpose(1, 2)  # B H blocks block window
        columns = places + block * torch.arange(blocks, device=queries.device).view(
            -1, 1, 1
        )  # blocks 1 window
        whole = near.new_zeros(*near.shape[:-1], left + blocks * block + right)
        whole = whole.scatter(-1, columns.expand_as(near), near).flatten(2, 3)
        return mixed, whole[:, :, :length, left : left + length]  # B H T T

    def cost(self, length: int) -> Cost:
        """For self-attention over `length` positions. Each of its two products takes the work told here, on
        average where keys and values differ in width."""
        form = self.form
        keys = form.heads * (form.memory if form.merged else form.key)
        values = form.heads * form.value
        both = 2 * keys if form.merged else keys + values  # widths of the two products: scores, and the mix
        parameters = form.width * keys + form.memory * values + form.biases * (keys + values)
        if not form.merged:
            parameters += form.memory * keys + form.biases * keys
        if form.output:
            parameters += values * form.width + form.output_bias * form.width
        products = (
            form.width * keys * (1 if form.merged else 2)
            + form.memory * values
            + form.output * values * form.width
        )
        near = min(form.local or length, length)
        return Cost(
            name="attention",
            parameters=parameters,
            parameters_formula=self._formula() + (" + biases" if form.biases else ""),
            work=near * length * both // 2,
            work_formula=("rn" if form.local else "n²")
            + ("hd" if form.merged else "d" if both == 2 * form.width else "h(u + v)/2"),
            projections=length * products,
            sequential_steps=1,
            longest_path=-(-length // near),
            memory=length * (2 * keys + 2 * values),  # the fused kernel keeps no weights
        )

    def _formula(self) -> str:
        """Weights of a layer with h heads, keys of width u and values of width v, from d features and m of
        the memory."""
        form = self.form
        shared = form.heads * form.value == form.width == form.memory and form.output
        if shared and (form.merged or form.key == form.value):
            return "h·d² + 2d²" if form.merged else "4d²"
        own = form.width == form.memory
        both, memory = ("2d", "d") if own else ("(d + m)", "m")
        asked = ("h·d²" if own else "h·d·m") if form.merged else f"hu·{both}"
        return f"{asked} + hv·{both if form.output else memory}"


@torch.no_grad()
def merge_query_key(attention: MultiHeadAttention) -> MultiHeadAttention:
    """The same attention with one query-key matrix a head."""
    form = attention.form
    assert not form.merged and isinstance(attention.key, nn.Linear)
    merged = MultiHeadAttention(replace(form, merged=True), attention.rotary).to(attention.query.weight)
    asking = attention.query.weight.unflatten(0, (form.heads, form.key))  # H U D
    keys = attention.key.weight.unflatten(0, (form.heads, form.key)) * attention.factor  # H U M
    merged.query.weight.copy_(torch.einsum("hud,hum->hmd", asking, keys).flatten(0, 1))
    if form.biases:
        bias = attention.query.bias.unflatten(0, (form.heads, form.key))
        merged.query.bias.copy_(torch.einsum("hu,hum->hm", bias, keys).flatten())
    _share(attention, merged)
    return merged


@torch.no_grad()
def separate(attention: MultiHeadAttention) -> MultiHeadAttention:
    """The same attention with a query and a key matrix a head: exact when each merged matrix has rank ≤ key
    width.

    Otherwise the scores are the nearest that keys of this width can give (the singular values that are left
    out are the smallest). The vector u is one more row of the matrix, because it multiplies an input that is
    always 1.
    """
    form = attention.form
    assert form.merged
    plain = MultiHeadAttention(replace(form, merged=False), attention.rotary).to(attention.query.weight)
    assert isinstance(plain.key, nn.Linear)
    both = attention.query.weight.unflatten(0, (form.heads, form.memory)).transpose(1, 2)  # H D M
    if form.biases:
        both = torch.cat([both, attention.query.bias.view(form.heads, 1, form.memory)], dim=1)  # H D+1 M
    left, sizes, right = torch.linalg.svd(both.double(), full_matrices=False)
    rank = min(form.key, sizes.shape[-1])
    root = (sizes[:, :rank] / plain.factor).sqrt()
    asking = both.new_zeros(form.heads, form.key, both.shape[1])
    keys = both.new_zeros(form.heads, form.key, form.memory)
    asking[:, :rank] = (left[:, :, :rank] * root.unsqueeze(1)).transpose(1, 2)
    keys[:, :rank] = right[:, :rank] * root.unsqueeze(2)
    plain.query.weight.copy_(asking[:, :, : form.width].flatten(0, 1))
    plain.key.weight.copy_(keys.flatten(0, 1))
    if form.biases:
        plain.query.bias.copy_(asking[:, :, form.width].flatten())
    _share(attention, plain)
    return plain


def _share(source: MultiHeadAttention, target: MultiHeadAttention) -> None:
    """Values and output are the same in both forms."""
    target.value.load_state_dict(source.value.state_dict())
    target.output.load_state_dict(source.output.state_dict())

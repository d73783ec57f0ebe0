"""Writing numbers: each step is fed the numbers that were said before it, the mean of them or a draw."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from seqlab.errors import UserError
from seqlab.outputs import GaussianReply
from seqlab.parts import Decoder, State


def noise_of(seed: int, draws: int, steps: int, channels: int) -> Float[Tensor, "S U C"]:
    """What draws deviate by, in standard deviations. All rows share it, so that what is drawn of a row does
    not depend on its batch-mates."""
    return torch.randn(draws, steps, channels, generator=torch.Generator().manual_seed(seed))


def refuse_sampling(why: str) -> UserError:
    """Where there is nothing to draw from."""
    return UserError(
        what="decode.sample is true, but this model can't draw numbers.",
        why=why,
        fix="Leave it out; or train a decoder that says variances, too: model.decoder.variance=learned",
    )


UNIT = "Its decoder was trained with a variance of 1, which says nothing of how sure it is."


def write_numbers(
    decoder: Decoder,
    state: State,
    first: Float[Tensor, "B C"],
    steps: int,
    beside: Float[Tensor, "B U K"] | None = None,
    noise: Float[Tensor, "S U C"] | None = None,
) -> Float[Tensor, "N U C"]:
    """The means that a decoder writes when it is fed its own; or, with noise (in standard deviations), what
    it draws: S trajectories for each row, one after the other. `beside` is what it is told of each step."""
    said = first
    if noise is not None:
        rows = torch.arange(len(first), device=first.device).repeat_interleave(len(noise))
        state, said = state.pick(rows), first.index_select(0, rows)
        beside = None if beside is None else beside.index_select(0, rows)
        noise = noise.repeat(len(first), 1, 1)
    found = []
    for step in range(steps):
        fed = said if beside is None else torch.cat([said, beside[:, step]], dim=-1)
        states, state = decoder.advance(fed.unsqueeze(1), state)
        reply = decoder.answer(states.squeeze(1))
        said = reply.scores
        if noise is not None:
            assert isinstance(reply, GaussianReply)
            logs = torch.zeros_like(said) if reply.log_variance is None else reply.log_variance
            said = said + torch.exp(logs / 2) * noise[:, step]
        found.append(said)
    return torch.stack(found, dim=1)

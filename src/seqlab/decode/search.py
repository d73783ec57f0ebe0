"""Greedy and beam search, one loop for every decoder. Sampling runs through the same loop and only chooses
otherwise.

Axis letters beside the usual ones: a source has W hypotheses, 1 at the start and K afterwards; a Seq of
memory has one row a source, the decoder's State one row a hypothesis, those of a source next to each other.
"""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor

from seqlab.decode.choose import Best, Choose, Chosen
from seqlab.decode.limits import next_scores
from seqlab.decode.settings import DecodeConfig, Hypothesis, SpecialIds
from seqlab.parts import Decoder
from seqlab.seq import Seq

LEAVING = 1 / 8
"""Finished sources leave the batch when they are this share of it: copying the states of the others has its
price, too."""


def search(
    decoder: Decoder,
    memory: Seq | None,
    opening: Int[Tensor, "B P"],
    *,
    config: DecodeConfig,
    special: SpecialIds,
    longest: Int[Tensor, " B"],
) -> list[list[Hypothesis]]:
    """The n best texts that a beam finds for each row, best first; a beam of one is greedy.

    The beam has K places for each source. In every step the best continuations of all its hypotheses are
    kept, as many as there are places. One that writes the end keeps its place and is not continued, so the
    beam narrows as hypotheses finish (Bahdanau et al. 2015), and it ends at the latest when all K have. Other
    libraries refill the beam; then a beam of one would not be greedy.

    Stopping. Finished hypotheses are ranked by log p / length^a (a = length_penalty). log p only falls as a
    hypothesis grows and its length is at most `longest`, so one with log p = s < 0 can at best come to s /
    longest^a. A source is done as soon as it has n finished ones and none of the others can come above the
    worst of the n best: nothing that running on to the limit would find is lost.

    A hypothesis at the limit without an end is given back only where there are fewer than n finished ones,
    after them.

    What `opening` (the start, and ids that a row must begin with) has of probability and length does not
    count.
    """
    return write(
        decoder, memory, opening, config=config, special=special, longest=longest, choose=Best(config.beam)
    )


@torch.no_grad()
def write(
    decoder: Decoder,
    memory: Seq | None,
    opening: Int[Tensor, "B P"],
    *,
    config: DecodeConfig,
    special: SpecialIds,
    longest: Int[Tensor, " B"],
    choose: Choose,
) -> list[list[Hypothesis]]:
    """The loop: score, choose, take, advance, until every source is done."""
    front = Front(opening, longest, config, special)
    states, state = decoder.advance(opening, decoder.start(memory, len(opening)))
    while True:
        scores = next_scores(decoder.answer, states[:, -1], front.history.flatten(0, 1), config, special)
        sources, width = front.totals.shape
        chosen = choose(scores.unflatten(0, (sources, width)), front.totals, front.rows, front.step)
        front.take(chosen)
        staying = front.leave()
        if staying is not None and len(staying) == 0:
            return front.best()
        first = (
            torch.arange(sources, device=opening.device).unsqueeze(1) * width
        )  # its row of the state, by source
        rows = first + chosen.parents  # B K
        if staying is not None:
            state = state.pick(rows[staying].flatten())
        elif rows.shape[1] > 1:
            state = state.pick(rows.flatten(), same_memory=width > 1)  # the first step widens
        states, state = decoder.advance(front.history[:, :, -1].reshape(-1, 1), state)


class Front:
    """The hypotheses of all sources that are not done, and what has been found so far."""

    def __init__(
        self,
        opening: Int[Tensor, "B P"],
        longest: Int[Tensor, " B"],
        config: DecodeConfig,
        special: SpecialIds,
    ) -> None:
        assert int(longest.min()) > 0, "there is at least the end to write"
        sources, device = len(opening), opening.device
        self.beam, self.wanted, self.alpha, self.end = (
            config.beam,
            config.n_best,
            config.length_penalty,
            special.end,
        )
        self.given, self.step = opening.shape[1], 0
        self.finished: list[list[Hypothesis]] = [[] for _ in range(sources)]
        self.cut: list[list[Hypothesis]] = [[] for _ in range(sources)]
        # One entry for each source in the batch:
        self.rows = torch.arange(sources, device=device)
        self.history = opening.unsqueeze(1)  # B W P: what each hypothesis reads
        self.totals = torch.zeros(sources, 1, device=device)  # B W: log p, -inf where there is none
        self.places = torch.full((sources, 1), config.beam, device=device)  # K less those that finished
        self.limits = longest.to(device)
        self.worst = torch.full(
            (sources,), -torch.inf, dtype=torch.float64, device=device
        )  # score of the n-th best
        self.done = torch.zeros(sources, dtype=torch.bool, device=device)  # still in the batch, for nothing

    def take(self, chosen: Chosen) -> None:
        """Put the chosen hypotheses in the place of those they go on from; see which are finished, and who is
        done."""
        self.step += 1
        rank = torch.arange(chosen.totals.shape[1], device=self.rows.device)
        totals = chosen.totals.masked_fill(rank >= self.places, -torch.inf)
        parents = chosen.parents.unsqueeze(-1).expand(-1, -1, self.history.shape[-1])
        self.history = torch.cat([self.history.gather(1, parents), chosen.ids.unsqueeze(-1)], dim=-1)

        ended = (chosen.ids == self.end) & (totals > -torch.inf)
        self.totals = totals.masked_fill(ended, -torch.inf)
        if ended.any():
            self.places = self.places - ended.sum(dim=1, keepdim=True)
            self._finish(ended.nonzero().tolist(), totals[ended].tolist())

        reach = (
            self.totals.amax(dim=1).double() / self.limits.double() ** self.alpha
        )  # the best that can still come
        over = self.limits <= self.step
        self.done = (reach <= self.worst) | over
        if self.done.any():
            self._cut(over.nonzero().flatten().tolist())
            self.totals = self.totals.masked_fill(
                self.done.unsqueeze(1), -torch.inf
            )  # from now on it reaches nothing

    def leave(self) -> Int[Tensor, " M"] | None:
        """Let the sources that are done leave, if it is worth it: the places of those that stay, None for
        all."""
        done = int(self.done.sum())
        if done < max(1, LEAVING * len(self.rows)):
            return None
        staying = (~self.done).nonzero().flatten()
        for name in ("rows", "history", "totals", "places", "limits", "worst", "done"):
            setattr(self, name, getattr(self, name).index_select(0, staying))
        return staying

    def best(self) -> list[list[Hypothesis]]:
        """The n best of each source: those that finished, then those that were cut."""
        ranked = (
            sorted(finished, key=_score, reverse=True) + sorted(cut, key=_score, reverse=True)
            for finished, cut in zip(self.finished, self.cut, strict=True)
        )
        return [found[: self.wanted] for found in ranked]

    def _finish(self, ended: list[list[int]], totals: list[float]) -> None:
        for (source, place), total in zip(ended, totals, strict=True):
            found = self.finished[int(self.rows[source])]
            found.append(self._found(source, place, total, finished=True))
            if len(found) >= self.wanted:
                self.worst[source] = sorted((one.score for one in found), reverse=True)[self.wanted - 1]

    def _cut(self, sources: list[int]) -> None:
        for source in sources:
            for place, total in enumerate(self.totals[source].tolist()):
                if total != -torch.inf:
                    self.cut[int(self.rows[source])].append(self._found(source, place, total, finished=False))

    def _found(self, source: int, place: int, total: float, *, finished: bool) -> Hypothesis:
        ids = self.history[source, place, self.given :].tolist()
        return Hypothesis(
            tuple(ids[:-1] if finished else ids), total / self.step**self.alpha, total, finished
        )


def _score(found: Hypothesis) -> float:
    return found.score

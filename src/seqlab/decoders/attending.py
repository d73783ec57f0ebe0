"""The decoder that begins from a memory and attends to it: late, early, or not at all (SPEC R3, R6, R9)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from seqlab.config import Positive
from seqlab.decoders.causal import WritingDecoder, WrittenConfig, linear_cost, side_by_side, summary_of
from seqlab.encoders.recurrent import Lstm, RecurrentConfig, RecurrentEncoder
from seqlab.encoders.transformer import Transformer
from seqlab.errors import UserError
from seqlab.nn.attention import masked_softmax
from seqlab.nn.layers import start_linear
from seqlab.parts import Attends, Cost, EncoderConfig, Numbers, State
from seqlab.seq import Seq

ScoreFunction = Literal["bilinear", "additive", "dot", "scaled-dot"]


@dataclass(frozen=True, kw_only=True)
class Attending(WrittenConfig, kind="attending"):
    """A recurrent or convolutional body that begins from the memory and attends to it."""

    body: EncoderConfig = field(default_factory=Lstm)
    """What reads the written symbols: lstm, gru, rnn or conv."""
    attend: Literal["none", "late", "early"] = "late"
    """late: attention after the body, all positions at once. early: attention before it, and what was seen is
    fed to the cell, a loop over positions (SPEC R9). none: begin from the memory's summary, without
    attention."""
    score: ScoreFunction = "bilinear"
    """How well a state fits a slot: h·W·m, v·tanh(W h + U m), h·m, or h·m divided by the root of the
    width."""
    hidden: Positive = 128
    """Width inside the additive score."""
    feeding: bool = False
    """Feed the answer of one position to the body at the next one (input feeding, Luong et al. 2015); a
    loop."""
    context: Literal["start", "every-step"] = "start"
    """Where the memory's summary goes: into the first state, or beside every symbol that is read, too."""
    begin: Literal["summary", "backward"] = "summary"
    """The first state: a linear layer and tanh over the summary; or, as it is, the last state of the
    right-to-left pass."""

    def __post_init__(self) -> None:
        if self.feeding and self.attend != "late":
            raise ValueError(f"feeding needs attend: late, not {self.attend}.")

    def build(self, memory: int | None, written: int | Numbers) -> AttendingDecoder:
        return AttendingDecoder(self, memory, written)


class MemoryAttention(Attends):
    """Attention of states (B U D) to the slots of a memory (B T M): their weighted mean for each state
    (B U M), one head."""

    def __init__(self, score: ScoreFunction, width: int, memory: int, hidden: int) -> None:
        super().__init__()
        if score in ("dot", "scaled-dot") and width != memory:
            raise UserError(
                what=(
                    f'model.decoder.score is "{score}", but states are {width} wide and what is read is'
                    f" {memory} wide."
                ),
                why="A product of two vectors needs them to be of one width.",
                fix=f"Set model.decoder.score=bilinear, or model.decoder.body.width={memory}.",
            )
        self.score, self.width, self.memory = score, width, memory
        self.query = self.key = self.value = None
        if score == "bilinear":
            self.query = nn.Linear(width, memory, bias=False)
        if score == "additive":
            self.query, self.key = nn.Linear(width, hidden), nn.Linear(memory, hidden, bias=False)
            self.value = nn.Linear(hidden, 1, bias=False)
        for layer in (self.query, self.key, self.value):
            if layer is not None:
                start_linear(layer)

    def keys(self, memory: Float[Tensor, "B T M"]) -> Float[Tensor, "B T K"]:
        """What states are compared with; the same for all of them, so it is made once."""
        if self.key is None:
            return memory
        keys: Tensor = self.key(memory)
        return keys

    def forward(
        self,
        states: Float[Tensor, "B U D"],
        keys: Float[Tensor, "B T K"],
        memory: Float[Tensor, "B T M"],
        mask: Bool[Tensor, "B T"],
    ) -> Float[Tensor, "B U M"]:
        asked = states if self.query is None else self.query(states)
        if self.value is not None:
            scores = self.value(torch.tanh(asked.unsqueeze(2) + keys.unsqueeze(1))).squeeze(-1)  # B U T
        else:
            factor = self.memory**-0.5 if self.score == "scaled-dot" else 1.0
            if self.tape is None:
                queries, heads, values = (
                    asked.unsqueeze(1),
                    keys.unsqueeze(1),
                    memory.unsqueeze(1),
                )  # one head: B 1 T M
                return F.scaled_dot_product_attention(
                    queries, heads, values, mask[:, None, None], scale=factor
                ).squeeze(1)
            scores = factor * asked @ keys.transpose(1, 2)
        weights = masked_softmax(scores, mask.unsqueeze(1).expand_as(scores))
        if self.tape is not None:
            self.tape.append(weights.detach().unsqueeze(1))  # one head: B 1 U T
        return weights @ memory

    def cost(self, length: int) -> Cost:
        hidden = 0 if self.key is None else self.key.out_features
        parameters = {
            "bilinear": self.width * self.memory,
            "additive": hidden * (self.width + self.memory + 2),
        }
        formula = {"bilinear": "d·m", "additive": "a(d + m + 2)"}
        return Cost(
            name="look",
            parameters=parameters.get(self.score, 0),
            parameters_formula=formula.get(self.score, "0"),
            work=length * length * (hidden or self.memory),
            work_formula="n²a" if hidden else "n²m",
            projections=length * (parameters.get(self.score, 0)),
            memory=length * (self.width + self.memory),
        )


class AttendingDecoder(WritingDecoder):
    """Ids (B U), or numbers (B U F), to states (B U E), from a memory of T slots, of one slot, or of none.

    late (Luong et al. 2015): h[t] = body(h[t−1], w_t), v = look(h[t]), and tanh(W [h[t]; v]) is scored.
    Nothing seen is fed back, so a whole target runs on the fused kernels and attends in one batch; with
    `feeding`, what is scored is read beside the next symbol, in a loop. early (SPEC R9): v = look(h[t−1]),
    h[t] = body(h[t−1], [e[w_t]; v]), and W h[t] is scored. BOS is no symbol there: the
    first word is scored from h[0], with no step of the cell before it. Of numbers the first ones are read.
    none: W h[t] is scored. Where there is no memory at all, this is a plain language model.
    """

    def __init__(self, config: Attending, memory: int | None, written: int | Numbers) -> None:
        super().__init__(config, written)
        self.config: Attending = config
        if isinstance(config.body, Transformer):
            raise UserError(
                what='model.decoder.kind is "attending" and its body is a transformer.',
                why="A Transformer looks at what the encoder has read in every layer by itself.",
                fix="Set model.decoder.kind=causal.",
            )
        self.memory = memory
        recurrent = isinstance(config.body, RecurrentConfig)
        attend = config.attend if memory is not None else "none"
        if not recurrent and (attend == "early" or config.feeding):
            raise UserError(
                what=(
                    f'model.decoder looks early or is fed its answers, but its body is "{config.body.kind}".'
                ),
                why="Only a recurrent body goes on step by step from what it has just seen.",
                fix=(
                    "Set model.decoder.attend=late and model.decoder.feeding=false, or"
                    " model.decoder.body.kind=lstm."
                ),
            )
        self.attend = attend
        self.loops = memory is not None and (attend == "early" or config.feeding)
        # A body without a state of its own can only be told of the memory beside every symbol.
        self.told = memory is not None and (
            config.context == "every-step" or (attend == "none" and not recurrent)
        )
        beside = (memory or 0) * (self.told + (attend == "early")) + (
            config.width if config.feeding and memory else 0
        )
        self.body = config.body.as_causal().build(config.width + beside)
        looks = memory is not None and attend != "none"
        self.look = (
            MemoryAttention(config.score, self.body.width, memory or 0, config.hidden) if looks else None
        )
        self.bridge = (
            self._bridge() if memory is not None and recurrent and config.begin == "summary" else None
        )
        if config.begin == "backward" and memory is not None and self.body.width > memory:
            raise UserError(
                what=(
                    f'model.decoder.begin is "backward", but the state is {self.body.width} wide and what is'
                    f" read is {memory}."
                ),
                why="The last state of the right-to-left pass becomes the first state as it is.",
                fix=(
                    "Set model.decoder.body.width to that of one direction of the encoder, for instance"
                    f" {memory}."
                ),
            )
        late = attend == "late"
        self.combine = nn.Linear(self.body.width + (memory or 0) * late, config.width, bias=late)
        start_linear(self.combine)
        self.answer_from(config.width)

    def _bridge(self) -> nn.Linear:
        assert self.memory is not None
        states = len(self.body.begin(1).moving)
        bridge = nn.Linear(self.memory, states * self.body.width)
        start_linear(bridge)
        return bridge

    def start(self, memory: Seq | None, rows: int) -> State:
        if memory is None:
            return self.body.begin(rows)
        summary = summary_of(memory)
        moving = self.body.begin(memory.rows).moving
        if self.bridge is not None:
            first = torch.tanh(self.bridge(summary)).split(self.body.width, dim=-1)
            moving = dict(zip(moving, first, strict=True))
        elif isinstance(self.body, RecurrentEncoder):
            last = summary[:, -self.body.width :]  # the backward half, where there are two
            moving = {name: last if name.startswith("state") else tensor for name, tensor in moving.items()}
        fixed: dict[str, Tensor] = {}
        if self.look is not None:
            fixed = {"memory": memory.values, "keys": self.look.keys(memory.values), "mask": memory.mask}
        if self.told:
            fixed["summary"] = summary
        if self.config.feeding:
            moving["answer"] = summary.new_zeros(memory.rows, self.config.width)
        return State(fixed, moving)

    def advance(self, fed: Tensor, state: State) -> tuple[Float[Tensor, "B U E"], State]:
        vectors = self.dropout(self.embedding(fed))
        if self.told:
            vectors = side_by_side(
                [vectors, state.fixed["summary"].unsqueeze(1).expand(-1, fed.shape[1], -1)]
            )
        if not self.loops:
            states, state = self.body.extend(vectors, state)
            return self.output_dropout(self._answers(states, state)), state
        answers = []
        for place in range(fed.shape[1]):
            answer, state = self._step(vectors[:, place : place + 1], state)
            answers.append(answer)
        return self.output_dropout(torch.cat(answers, dim=1)), state

    def _step(self, vector: Float[Tensor, "B 1 D"], state: State) -> tuple[Float[Tensor, "B 1 E"], State]:
        """One turn of the loop."""
        if self.attend == "early":
            assert isinstance(self.body, RecurrentEncoder)
            top = f"state.{self.body.config.layers - 1}"
            states = state.moving[top].unsqueeze(1)
            if state.done == 0 and not isinstance(self.written, Numbers):  # BOS is no symbol
                return self._answers(states, state), State(state.fixed, state.moving, 1)
            states, state = self.body.extend(side_by_side([vector, self._seen(states, state)]), state)
            return self._answers(states, state), state
        states, after = self.body.extend(side_by_side([vector, state.moving["answer"].unsqueeze(1)]), state)
        answer = self._answers(states, after)
        return answer, State(after.fixed, {**after.moving, "answer": answer.squeeze(1)}, after.done)

    def _seen(self, states: Tensor, state: State) -> Float[Tensor, "B U M"]:
        assert self.look is not None
        fixed = state.fixed
        seen: Tensor = self.look(states, fixed["keys"], fixed["memory"], fixed["mask"])
        return seen

    def _answers(self, states: Tensor, state: State) -> Float[Tensor, "B U E"]:
        if self.attend == "late":
            return torch.tanh(self.combine(side_by_side([states, self._seen(states, state)])))
        answers: Tensor = self.combine(states)
        return answers

    def costs(self, length: int) -> list[Cost]:
        """Steps are those of teacher forcing: what stands in the loop takes one for each turn."""
        embedding, *answer = self.answer_costs(length)
        body = [cost.below("body") for cost in self.body.costs(length)]
        bridge = [] if self.bridge is None else [linear_cost("bridge", self.bridge, 1)]
        look = [] if self.look is None else [self.look.cost(length)]
        combine = linear_cost("combine", self.combine, length)
        if self.loops:
            turns = length - (
                self.attend == "early" and not isinstance(self.written, Numbers)
            )  # h[0] is there
            body, look = ([replace(cost, sequential_steps=turns) for cost in part] for part in (body, look))
            combine = replace(combine, sequential_steps=length)
        return [embedding, *body, *bridge, *look, combine, *answer]

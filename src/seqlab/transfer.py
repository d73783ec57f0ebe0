"""A trained run's body under another task: which settings come along, which weights fit where (SPEC T4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from seqlab import rules
from seqlab.config import Tree
from seqlab.data.tokenizers import FromRun
from seqlab.decoders.causal import WrittenConfig
from seqlab.encoders import BothWays, Stack, Transformer
from seqlab.errors import UserError
from seqlab.files import sha256, written_beside
from seqlab.folder import START, TOKENIZER, WEIGHTS
from seqlab.inputs import Tokens
from seqlab.model import ModelConfig
from seqlab.nn.positions import Learned, Rotary
from seqlab.outputs import Vocabulary
from seqlab.parts import EncoderConfig, Facts
from seqlab.run import load, read_facts, read_settings
from seqlab.settings import Settings, task_class
from seqlab.training.checkpoint import first_names

NEW = ("cross.", "cross_norm.", "encoder.weights", "encoder.scale", "segments.", "vocabulary.bias")
"""Weights of a body that may be new: attention to another memory, the mix of layers, segments."""
Renaming = tuple[tuple[str, str], ...]
"""Beginnings of names: in the new model, in the old one."""


class PretrainedRun:
    """A trained run, as something to start from."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.settings = read_settings(self.folder)
        self.facts = read_facts(self.folder, self.settings.task)
        model = self.settings.model
        self.reads = model.input is not None
        self.writes = model.decoder is not None
        if not (self.folder / TOKENIZER).exists() or (self.reads and not isinstance(model.input, Tokens)):
            kind = model.input.kind if model.input is not None else "none"
            raise UserError(
                what=(
                    f'{self.folder} has an input of kind "{kind}", whose body can\'t be put under another'
                    " task."
                ),
                why="A body that moves reads tokens, or writes them.",
                fix="Start from a run whose input is of kind tokens, or that has a decoder alone.",
            )

    @property
    def model(self) -> ModelConfig:
        return self.settings.model

    @cached_property
    def parts(self) -> Facts:
        """What the data decided, as far as the parts of its model need it."""
        return load(self.folder).answer.parts

    @cached_property
    def weights(self) -> dict[str, Tensor]:
        path = self.folder / WEIGHTS
        try:
            return load_file(path)
        except (OSError, SafetensorError) as error:
            fix = f"If its training was stopped: seqlab train --resume {self.folder}"
            raise UserError(
                what=f"{path} can't be read: {error}.", why="The body is kept there.", fix=fix
            ) from None

    # Settings -----------------------------------------------------------------------------------------------

    def adapt(self, tree: Tree, task: str) -> Tree:
        """The settings of a task with this body put in: parts, tokenizer and what stands around a text come
        along."""
        path = self.folder / TOKENIZER
        tokens = {"kind": FromRun.kind, "folder": str(self.folder), "mark": sha256(path)}
        adopted = task_class(task).adopt(self, dict(tree.get("transfer", {})).get("parts", "all"))
        return with_parts(
            tree, {**adopted, "data": {"tokens": tokens, "target_tokens": None, **adopted.get("data", {})}}
        )

    def reader(self) -> tuple[Tokens, EncoderConfig]:
        """What reads; a decoder alone reads what it has written."""
        model = self.model
        if isinstance(model.input, Tokens) and model.encoder is not None:
            segments = 2 if self.parts.segments > 1 else None
            halves = (
                isinstance(model.places, Vocabulary) and model.places.halves
            )  # each direction answered by itself
            return replace(model.input, segments=segments), seeing(model.encoder, mix=halves)
        decoder = model.decoder
        assert isinstance(decoder, WrittenConfig) and model.body is not None
        return (
            Tokens(width=decoder.width, dropout=decoder.dropout, scale=decoder.width**-0.5),
            model.body.as_causal(),
        )

    def longest(self, encoder: EncoderConfig) -> int:
        """Tokens of a text that a Transformer reads under another task.

        What it has learnt to tell the places of; with rotary positions, which tell distances alone, at least
        so many that it learns some along.
        """
        seen = self.settings.task.seen
        positions = encoder.positions if isinstance(encoder, Transformer) else None
        if isinstance(positions, Rotary) and seen is not None:
            return rules.fine_tuning_length(seen)
        most = self.settings.data.length if seen is None else seen
        return min(most, positions.length) if isinstance(positions, Learned) else most

    # Weights ------------------------------------------------------------------------------------------------

    def taken(self, model: nn.Module, settings: Settings) -> dict[str, Tensor]:
        """The weights that this body gives to a model (which may be a sketch), by their names there."""
        self.refuse_other_tokens(settings)
        renaming = self._renaming(settings)
        found: dict[str, Tensor] = {}
        unfit: list[str] = []
        for name, wanted in _own(model):
            old = next(
                (theirs + name[len(mine) :] for mine, theirs in renaming if name.startswith(mine)), None
            )
            if old is None:
                continue
            tensor = self._weight(old)
            if tensor is not None and tensor.shape == wanted.shape:
                found[name] = tensor
            elif not any(part in name for part in NEW):
                unfit.append(
                    f"{name} is {_size(wanted)}, there {'nothing' if tensor is None else _size(tensor)}"
                )
        if unfit or not found:
            raise UserError(
                what=(
                    f"The body of {self.folder} does not fit:"
                    f" {'; '.join(unfit[:3]) or 'nothing of it has a place here'}."
                ),
                why=(
                    "Each weight keeps its shape when it moves: widths, layers and kinds have to be those of"
                    " the run."
                ),
                fix=(
                    "Leave out the settings under model.input, model.encoder and model.decoder that change"
                    " them."
                ),
            )
        return found

    def _weight(self, name: str) -> Tensor | None:
        """A weight of the run; a matrix with two names is saved under the first."""
        other = {
            "decoder.vocabulary.weight": "decoder.embedding.weight",
            "decoder.embedding.weight": "input.embedding.weight",
        }
        while name not in self.weights and name in other:
            name = other[name]
        return self.weights.get(name)

    def _renaming(self, settings: Settings) -> Renaming:
        model, parts = settings.model, settings.transfer.parts
        if settings.task.goes_on:
            return (("", ""),)
        if model.input is None:
            return (("decoder.", "decoder."),)
        mine = self.model.encoder or self.model.body
        above = isinstance(model.encoder, Stack) and not isinstance(mine, Stack)
        encoder = "encoder.encoders.0." if above else "encoder."  # what is stacked above the body is new
        reading = (("input.", "input."), (encoder, "encoder."))
        if model.decoder is None:
            return (
                reading
                if self.reads
                else (("input.embedding.", "decoder.embedding."), (encoder, "decoder.body."))
            )
        shared = (
            (("input.embedding.", "decoder.embedding."),)
            if model.shared is not False and not self.reads
            else ()
        )
        wanted: Renaming = ()
        if self.reads and parts != "decoder":
            wanted += reading
        if self.writes and parts != "encoder":
            wanted += (("decoder.", "decoder."), *shared)
        elif self.reads:
            wanted += (("decoder.embedding.", "input.embedding."),)
        return wanted

    def refuse_other_tokens(self, settings: Settings) -> None:
        """The ids have to mean what they meant when the body learnt them."""
        tokens = settings.data.tokens
        if not isinstance(tokens, FromRun) or tokens.mark != sha256(self.folder / TOKENIZER):
            raise UserError(
                what=(
                    f'data.tokens is of kind "{tokens.kind}", but the body of {self.folder} has learnt other'
                    " tokens."
                ),
                why="An id would stand for another piece of text than the one that the body knows.",
                fix="Leave data.tokens out: the tokenizer of the run comes along.",
            )


def with_parts(tree: Tree, parts: Tree) -> Tree:
    """The tree with parts put in: one that says its kind replaces what was there, any other is merged into
    it."""
    made = dict(tree)
    for key, value in parts.items():
        old = made.get(key)
        merges = isinstance(value, dict) and "kind" not in value and isinstance(old, dict)
        made[key] = with_parts(dict(old or {}), value) if merges else value
    return made


def seeing(encoder: EncoderConfig, mix: bool) -> EncoderConfig:
    """An encoder that hid each word from its own position shows it now."""
    return (
        replace(encoder, hides=False, mix=mix) if isinstance(encoder, BothWays) and encoder.hides else encoder
    )


def _own(model: nn.Module) -> Iterable[tuple[str, Tensor]]:
    """The weights of a model, each under its first name."""
    state = model.state_dict(keep_vars=True)
    return [(name, state[name]) for name, first in first_names(model).items() if name == first]


def _size(tensor: Tensor) -> str:
    return " × ".join(map(str, tensor.shape)) or "one number"


def save_start(weights: Mapping[str, Tensor], folder: Path) -> None:
    """Keep the weights to start from in the run, which then needs the other one no longer."""
    with written_beside(folder / START) as beside:
        save_file({name: tensor.contiguous() for name, tensor in weights.items()}, beside)


def put_in(model: nn.Module, folder: Path) -> list[str]:
    """Fill what a run starts from into its model; the names of those weights, none where it starts from
    nothing."""
    if not (folder / START).exists():
        return []
    weights = load_file(folder / START)
    state: dict[str, Any] = model.state_dict()
    for name, tensor in weights.items():
        state[name].copy_(tensor)
    return list(weights)

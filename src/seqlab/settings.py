"""The whole tree of settings of a run, put together from a preset, a file and the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from seqlab import config
from seqlab.config import Tree
from seqlab.data.read import DataConfig
from seqlab.decode import DecodeConfig
from seqlab.encoders import Transformer
from seqlab.errors import UserError, did_you_mean, one_of
from seqlab.model import ModelConfig
from seqlab.tasks import classify_presets, generate_presets, pretrain_presets, rules, translate_presets
from seqlab.tasks.classify import Classify
from seqlab.tasks.generate import Generate
from seqlab.tasks.pretrain import Pretrain
from seqlab.tasks.task import Size, TaskConfig
from seqlab.tasks.translate import Translate
from seqlab.training.layering import TransferConfig
from seqlab.training.loop import TrainConfig

PRESETS = {
    "classify": classify_presets.presets, "translate": translate_presets.presets, "generate": generate_presets.presets,
    "pretrain": pretrain_presets.presets,
}
"""One table a task."""
assert set(PRESETS) == {task.kind for task in (Classify, Generate, Pretrain, Translate)}
DEFAULT = {"classify": "bilstm", "translate": "transformer", "generate": "lstm", "pretrain": "roberta"}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything that a person can choose; what the data decides is in facts.json."""

    task: TaskConfig = Classify()
    data: DataConfig = DataConfig()
    model: ModelConfig = ModelConfig()
    training: TrainConfig = TrainConfig()
    transfer: TransferConfig = TransferConfig()
    decode: DecodeConfig = DecodeConfig()


@dataclass(frozen=True)
class Wishes:
    """What a user asked for, before the data is known."""

    task: str = ""
    preset: str = ""
    tree: Tree | None = None
    """From a settings file, instead of a preset."""
    overrides: Mapping[str, Any] | None = None
    where: str = "settings"
    adapt: Callable[[Tree, str], Tree] | None = None
    """What puts the body of a trained run into a tree of settings, given the task."""

    def settings(self, size: Size | None = None) -> Settings:
        """The settings for data of this size. Called once before the data is read, to refuse mistakes early."""
        if self.tree is None:
            tree = preset_tree(self.task, self.preset, size or Size())
        elif self.preset:    # the model of the preset, the rest as the file says
            rest = {part: below for part, below in self.tree.items() if part != "model"}
            if isinstance(how := rest.get("decode"), dict):
                rest["decode"] = searching(how)
            tree = merge(preset_tree(self.task, self.preset, size or Size()), rest)
        else:
            tree = self.tree
        if self.adapt is not None:
            parts = dict(self.overrides or {}).get("transfer.parts")
            told = merge(tree, {"transfer": {"parts": str(parts)}}) if parts else tree
            tree = self.adapt(told, self.task or str(dict(tree.get("task", {})).get("kind", "")))
        tree = config.override(tree, searching(self.overrides or {}, "decode."), Settings)
        return config.build(Settings, tree, self.where)

    def depend_on_speed(self, size: Size) -> bool:
        """Whether a speed that is not known yet would make other settings on a slow machine than on a fast one."""
        if size.minutes is None or size.speed is not None:
            return False
        slow, fast = (self.settings(replace(size, speed=speed)) for speed in (1e-9, 1e12))
        return slow != fast

    def model_name(self, settings: Settings) -> str:
        """What to call the model in the name of a folder: its preset, or the encoder that a settings file asks for."""
        if start := settings.transfer.start:
            return f"from-{Path(start).name}"
        if self.preset or self.tree is None:
            return self.preset or DEFAULT[self.task]
        return (settings.model.encoder or settings.model.decoder or settings.task).kind


def preset_tree(task: str, preset: str, size: Size) -> Tree:
    """The settings tree of a preset."""
    table = PRESETS[known_task(task)](size)
    name = preset or DEFAULT[task]
    if name not in table:
        raise UserError(
            what=f'There is no model "{name}" for {task}.{did_you_mean(name, table)}',
            why=f"The presets of {task} are {one_of(table)}.",
            fix=f"Choose one with --model, for instance --model {DEFAULT[task]}; its parts can be changed with key.path=value.",
        )
    return {"task": {"kind": task}, **{part: dict(below) for part, below in merge({"task": {"kind": task}}, table[name]).items()}}


def known_task(task: str) -> str:
    if task not in PRESETS:
        raise UserError(
            what=f'There is no task "{task}".{did_you_mean(task, PRESETS)}',
            why=f"seqlab has {one_of(PRESETS)}.",
            fix="Write: seqlab train classify reviews.csv",
        )
    return task


def merge(below: Tree, above: Tree) -> Tree:
    """Two trees as one; where both have a key, `above` wins."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        merged[key] = merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def searching(asked: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Settings of decoding with what follows from them: a beam turns `sample` off, unless that is given, too.

    `before` is what stands before the keys: "decode." in dotted ones.
    """
    beam, sample = f"{before}beam", f"{before}sample"
    follows = str(asked.get(beam, 1)) != "1" and sample not in asked
    return {**asked, sample: False} if follows else dict(asked)


def read_file(path: Path) -> Tree:
    """A settings file as a tree."""
    try:
        return config.read_yaml(path.read_text(encoding="utf-8"), str(path))
    except UnicodeDecodeError:
        raise UserError(what=f"{path} is not UTF-8 text.", fix="Save the settings file as UTF-8.") from None
    except OSError as error:
        raise UserError(what=f"{path} can't be read: {error.strerror}.", fix="Check the name of the settings file.") from None


def completed(settings: Settings, size: Size) -> Settings:
    """The settings with every empty number that follows from the size of the data filled in."""
    training = settings.training
    tokens = training.batch_tokens or rules.batch(size.words)
    workers = training.workers or (training.threads or torch.get_num_threads() if looks_everywhere(settings.model) else 1)
    rate = training.rate or rules.usual_rate(training.optimiser)
    pull = rules.usual_decay(training.optimiser) if training.weight_decay is None else training.weight_decay
    filled = replace(training, batch_tokens=tokens, rate=rate, weight_decay=pull, workers=workers)
    return replace(settings, training=replace(filled, speed=size.speed))


def looks_everywhere(model: ModelConfig) -> bool:
    """Whether it is a Transformer, whose many small products use several workers better than several threads."""
    body = getattr(model.decoder, "body", None)
    return any(isinstance(part, Transformer) for part in (model.encoder, body))


def planned(settings: Settings, rows: int, batches_an_epoch: int) -> Settings:
    """The settings with the budget in steps, unless it is in minutes: what config.yaml shows."""
    training = settings.training
    if training.steps or training.minutes:
        return settings
    epochs = training.epochs or settings.task.epochs(rows)
    steps = max(1, round(epochs * batches_an_epoch / training.accumulate))
    return replace(settings, training=replace(training, epochs=None, steps=steps))

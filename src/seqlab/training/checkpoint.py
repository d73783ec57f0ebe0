"""The state of a stopped run: everything that makes the next step what it would have been.

`resume/step-N/` holds `state.safetensors` (weights, averaged weights, optimiser, random state) and
`state.json` (counters, data position). `resume/manifest.json` names the folder to trust and the hash of its
files, and is replaced last: a kill at any moment leaves the old state or the new one, never a mixture.
`resume/good/` holds in the same way the state at the last validation that went well, for a run that diverges.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from seqlab.errors import UserError
from seqlab.files import disk_trouble, flush, sha256, usual_permissions, write_json, written_beside


def save_weights(model: nn.Module, path: Path) -> None:
    with written_beside(path) as beside:
        save_file(weights_of(model), beside)


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """All weights by name; a matrix with several names (tied embeddings) once, under the first of them."""
    first = first_names(model)
    return {
        name: tensor.detach().cpu().contiguous()
        for name, tensor in model.state_dict().items()
        if first[name] == name
    }


def fill(model: nn.Module, weights: dict[str, Tensor]) -> None:
    """Put these weights, named as `weights_of` names them, into the model."""
    model.load_state_dict({name: weights[first] for name, first in first_names(model).items()})


def first_names(model: nn.Module) -> dict[str, str]:
    """For each name in the model's state the first name that its tensor has."""
    first: dict[int, str] = {}
    return {
        name: first.setdefault(id(tensor), name) for name, tensor in model.state_dict(keep_vars=True).items()
    }


def load_weights(model: nn.Module, path: Path) -> None:
    """Fill the model, or say what is wrong with the file."""
    fix = "Train again, or copy the whole run folder once more from where it came."
    try:
        weights = load_file(path)
    except FileNotFoundError:
        raise UserError(
            what=f"{path} is missing.",
            why="The weights of the model are kept there; it appears at the first validation.",
            fix=f"If training was stopped: seqlab train --resume {path.parent}",
        ) from None
    except (SafetensorError, OSError) as error:
        raise UserError(
            what=f"{path} is damaged: {error}.", why="The weights can't be read.", fix=fix
        ) from None
    wanted = {name: tuple(tensor.shape) for name, tensor in weights_of(model).items()}
    found = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    if wanted != found:
        odd = sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))[:3]
        raise UserError(
            what=f"{path} does not fit config.yaml: {', '.join(odd)}.",
            why="The weights belong to a model with other settings or other data.",
            fix=fix,
        )
    fill(model, weights)


class Checkpoints:
    """Saves and loads the state under one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manifest = folder / "manifest.json"

    def save(self, tensors: dict[str, Tensor], counters: dict[str, Any]) -> None:
        name = f"step-{counters['step']:08d}"
        while (
            self.folder / name
        ).exists():  # the state to trust is never touched before the manifest names another
            name += "-again"
        beside, final = self.folder / f".{name}.part", self.folder / name
        with disk_trouble(f"the state in {self.folder} could not be saved"):
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                shutil.rmtree(beside, ignore_errors=True)
                beside.mkdir()
                plain = {key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()}
                save_file(plain, beside / "state.safetensors")
                usual_permissions(beside / "state.safetensors")
                (beside / "state.json").write_text(json.dumps(counters))
                files = {file.name: sha256(file) for file in sorted(beside.iterdir())}
                for file in (*beside.iterdir(), beside):
                    flush(file)
                beside.rename(final)
                flush(self.folder)
            finally:
                shutil.rmtree(beside, ignore_errors=True)
        write_json(self.manifest, {"folder": name, "files": files})
        for old in self.folder.glob("*step-*"):
            if old.name != name:
                shutil.rmtree(old, ignore_errors=True)

    def load(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """The last state that was saved whole, or None when there is none yet."""
        if not self.manifest.exists():
            return None
        try:
            manifest = json.loads(self.manifest.read_text())
            folder = self.folder / manifest["folder"]
            for name, digest in manifest["files"].items():
                if sha256(folder / name) != digest:
                    raise ValueError(f"{folder / name} is not what was saved")
            return load_file(folder / "state.safetensors"), json.loads((folder / "state.json").read_text())
        except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
            raise UserError(
                what=f"The state in {self.folder} is damaged: {error}.",
                why="Going on from it would not give the run that was stopped.",
                fix=(
                    f"Remove {self.folder} and resume again: training then starts anew from the stored"
                    " settings."
                ),
            ) from None


def optimiser_tensors(optimiser: torch.optim.Optimizer, names: dict[Tensor, str]) -> dict[str, Tensor]:
    """The optimiser's memory, named after the parameters it belongs to."""
    return {
        f"optimiser.{kind}.{names[parameter]}": tensor
        for parameter, memory in optimiser.state.items()
        for kind, tensor in memory.items()
    }


def restore_optimiser(
    optimiser: torch.optim.Optimizer, names: dict[Tensor, str], tensors: dict[str, Tensor]
) -> None:
    optimiser.state.clear()
    for parameter, name in names.items():
        kinds = [
            key.split(".", 2)[1]
            for key in tensors
            if key.startswith("optimiser.") and key.split(".", 2)[2] == name
        ]
        if kinds:
            optimiser.state[parameter] = {kind: tensors[f"optimiser.{kind}.{name}"].clone() for kind in kinds}

"""What holds for every part: it can be saved and loaded, and its settings survive YAML."""

import pytest
import torch
from safetensors.torch import load_file, save_file
from variants import ENCODERS, FACTS, HEADS, INPUTS, POOLS, WIDTH, batch, documents, vectors

from seqlab.config import build, dump, read_yaml, write_yaml
from seqlab.parts import EncoderConfig, HeadConfig, InputConfig, Part, PoolConfig

SETTINGS = {
    f"{role}: {name}": config
    for role, table in {"encoder": ENCODERS, "pool": POOLS, "input": INPUTS, "head": HEADS}.items()
    for name, config in table.items()
}


def made(config: object, seed: int) -> Part:
    torch.manual_seed(seed)
    if isinstance(config, InputConfig):
        part: Part = config.build(FACTS)
    elif isinstance(config, HeadConfig):
        part = config.build(FACTS.outputs["row"], FACTS.outputs["row"])
    else:
        assert isinstance(config, EncoderConfig | PoolConfig)
        part = config.build(WIDTH)
    return part.eval()


def answer(part: Part, config: object) -> torch.Tensor:
    if isinstance(config, InputConfig):
        return part(batch(config, documents())).zeroed
    if isinstance(config, HeadConfig):
        return part(vectors((4,), width=3).values[0]).scores
    found = part(vectors())
    return found.vector if isinstance(config, PoolConfig) else found.zeroed


@pytest.mark.parametrize("name", SETTINGS)
def test_saving_and_loading_changes_nothing(name, tmp_path):
    config = SETTINGS[name]
    first, second = made(config, seed=0), made(config, seed=1)
    said = answer(first, config)  # runs first: what a forward pass caches must not be saved
    save_file(first.state_dict(), tmp_path / "part.safetensors")
    second.load_state_dict(load_file(tmp_path / "part.safetensors"))
    assert torch.equal(answer(second, config), said)
    assert {name for name, _ in first.named_parameters()} == set(first.state_dict())


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_survive_yaml(name):
    config = SETTINGS[name]
    family = next(
        role for role in (InputConfig, EncoderConfig, PoolConfig, HeadConfig) if isinstance(config, role)
    )
    assert build(family, read_yaml(write_yaml(dump(config)), "here"), "here") == config


@pytest.mark.parametrize("name", SETTINGS)
def test_training_under_the_same_seed_is_the_same(name):
    """Dropout draws from torch's own generator alone, so a resumed run can restore it."""
    config = SETTINGS[name]
    part = made(config, seed=0).train()
    torch.manual_seed(3)
    first = answer(part, config)
    torch.manual_seed(3)
    assert torch.equal(answer(part, config), first)

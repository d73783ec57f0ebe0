"""What `inspect` counts is what is there and what is done, for every preset of every task."""

import numpy as np
import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from variants import FACTS, INPUTS

from seqlab.model import Model, count_parameters, sketch
from seqlab.parts import Batch
from seqlab.report.cost import inspect_model
from seqlab.seq import Nested
from seqlab.settings import TrainRequest, task_classes
from seqlab.tasks.task import Size
from seqlab.training.imagined import ImaginedRows

LENGTH = 24
PRESETS = [
    pytest.param(task, reads, preset, id=f"{task}-{reads}-{preset}")
    for task, kind in task_classes().items()
    for reads, table in kind.tables(Size()).items()
    for preset in table
]
SMALL = [case for case in PRESETS if case.values[2] not in task_classes()[case.values[0]].published]


def made(task, reads, preset):
    """The settings of a preset, and what the data would have decided."""
    kind = task_classes()[task]
    usual = next(iter(kind.tables(Size())))
    overrides = {} if reads == usual else {f"task.{kind.choice}": reads}
    settings = TrainRequest(task=task, preset=preset, overrides=overrides).settings()
    published = kind.published.get(preset)
    return settings, settings.task.imagined(published.symbols if published else 200, 3)


@pytest.mark.parametrize(("task", "reads", "preset"), PRESETS)
def test_parameters_by_formula_are_those_that_are_there(task, reads, preset):
    settings, facts = made(task, reads, preset)
    model = sketch(settings.model, facts)
    found = inspect_model(model, LENGTH)
    assert found.formula_total == found.total == count_parameters(model) > 0
    assert sum(found.by_part.values()) == found.total


@pytest.mark.parametrize(("task", "reads", "preset"), SMALL)
def test_work_is_what_torch_counts_while_it_computes(task, reads, preset):
    """Multiply-adds forward and backward against those of torch's own counter, of which two operations are
    one.

    It does not see sums over n-grams or labels. The first step of a recurrent layer asks for no gradient of a
    state, and attention before the cell skips the cell's first step: 1/n each.
    """
    settings, facts = made(task, reads, preset)
    torch.manual_seed(0)
    model = Model(settings.model, facts).train()
    found = inspect_model(model, LENGTH)
    rows = ImaginedRows(model, facts, settings.task.objectives(settings.model), LENGTH)
    forward, backward = counted(model, rows.batch(np.arange(2)))
    if model.input is not None and model.input.imagined(1, 1).keys() >= {"grams"}:
        assert forward == 0 and found.forward == found.backward == LENGTH * 3  # a number for each class
        return
    assert found.forward == pytest.approx(forward, rel=1.5 / LENGTH)
    assert found.backward == pytest.approx(backward, rel=1.5 / LENGTH)
    if not any(layer.sequential_steps > 1 for layer in found.layers):
        assert (found.forward, found.backward) == (forward, backward)


def counted(model, batch):
    """Multiply-adds of one row, forward and backward, of all that is said at every position."""
    with torch.backends.mkldnn.flags(enabled=False), sdpa_kernel(SDPBackend.MATH):
        with FlopCounterMode(display=False) as ahead:
            scores = [reply.scores for reply in model(batch).answers.values()]
        with FlopCounterMode(display=False) as back:
            sum(one.sum() for one in scores).backward()
    return ahead.get_total_flops() / 2 / batch.size, back.get_total_flops() / 2 / batch.size


@pytest.mark.parametrize("name", INPUTS)
def test_an_input_reads_what_it_imagines(name):
    """As many rows, and as many positions as it says come out."""
    torch.manual_seed(0)
    reader = INPUTS[name].build(FACTS)
    fields = reader.imagined(3, 15)
    with torch.no_grad():
        read = reader(Batch(fields, torch.arange(3)))
    assert read.rows == 3 and read.mask.shape[1] == reader.length_after(15) and bool(read.mask.all())
    assert read.values.shape[2] == reader.width
    for field in fields.values():
        assert bool(field.mask.all()) and (not isinstance(field, Nested) or field.inner.mask.all())

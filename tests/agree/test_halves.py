"""The question which halves of texts belong together: its formula, and what is learnt from it."""

import math
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

import seqlab as package
from seqlab.errors import UserError
from seqlab.objectives import SHARPNESS, Halves
from seqlab.parts import Batch, Output
from seqlab.seq import Seq, mask_of
from seqlab.settings import TrainRequest
from seqlab.tasks.pretrain_presets import presets
from seqlab.tasks.task import Size

BETWEEN = 2
"""The id that stands between two texts."""


def asked(values: torch.Tensor, lengths: list[int], marks: Sequence[tuple[int, int]] = ()) -> float:
    """The mean loss of rows of vectors (B T D), with a mark between two texts at these rows and positions."""
    read = Seq(values, torch.arange(values.shape[1]) < torch.tensor(lengths).unsqueeze(1))
    output = Output({}, read, read)
    ids = torch.zeros(read.mask.shape, dtype=torch.long)
    for row, place in marks:
        ids[row, place] = BETWEEN
    term = Halves(BETWEEN)(output, Batch({"text": Seq(ids, read.mask)}, torch.arange(len(lengths))))
    return float(term.total) / term.count


def test_it_is_the_mean_of_two_softmaxes_over_cosines():
    """Against a loop over rows, written from the formula."""
    torch.manual_seed(0)
    lengths, values = [6, 3, 5, 1], torch.randn(4, 6, 3, dtype=torch.float64)

    def centred(parts: list[torch.Tensor]) -> list[torch.Tensor]:
        means = [part.mean(dim=0) if len(part) else torch.zeros(3, dtype=torch.float64) for part in parts]
        middle = sum(means) / len(means)
        return [mean - middle for mean in means]

    first = centred([values[row, : length // 2] for row, length in enumerate(lengths)])
    second = centred([values[row, length // 2 : length] for row, length in enumerate(lengths)])
    cosine = [[float(one @ two / (one.norm() * two.norm())) for two in second] for one in first]
    expected = 0.0
    for row in range(4):
        there = sum(math.exp(SHARPNESS * (cosine[row][other] - cosine[row][row])) for other in range(4))
        back = sum(math.exp(SHARPNESS * (cosine[other][row] - cosine[row][row])) for other in range(4))
        expected += (math.log(there) + math.log(back)) / 2 / 4
    assert_close(asked(values, lengths), expected, atol=1e-9, rtol=1e-9)


def test_padding_changes_nothing():
    torch.manual_seed(1)
    values = torch.randn(3, 5, 4)
    padded = torch.cat([values, torch.full((3, 2, 4), 7.0)], dim=1)
    assert_close(asked(padded, [5, 4, 2]), asked(values, [5, 4, 2]))


def test_of_several_texts_in_a_row_the_longest_is_halved():
    """Each row alone has its longest text cut out by hand; of two that are as long it is the first."""
    torch.manual_seed(2)
    values = torch.randn(4, 8, 3)
    marks = [(0, 2), (1, 5), (2, 3), (2, 7), (3, 0), (3, 7)]
    longest = [values[0, 3:8], values[1, :5], values[2, :3], values[3, 1:6]]
    alone = torch.zeros(4, 5, 3)
    for row, some in enumerate(longest):
        alone[row, : len(some)] = some
    assert_close(asked(values, [8, 8, 8, 6], marks), asked(alone, [len(some) for some in longest]))


def test_one_row_has_nothing_to_be_compared_with():
    values = torch.randn(1, 4, 2, requires_grad=True)
    read = Seq(values, mask_of(torch.tensor([4])))
    output = Output({}, read, read)
    batch = Batch({"text": Seq(torch.zeros(1, 4, dtype=torch.long), read.mask)}, torch.tensor([0]))
    total = Halves(BETWEEN)(output, batch).total
    [gradient] = torch.autograd.grad(total, values)
    assert float(total.detach()) == 0.0 and bool((gradient == 0).all())


MOODS = (["great", "lovely", "superb", "clever"], ["awful", "boring", "stupid", "clumsy"])


@pytest.fixture
def reviews(tmp_path):
    """Each text is of one mood; what stands beside its words is the same in both."""
    draw = random.Random(0)
    texts = []
    for _ in range(200):
        mood, things = draw.choice(MOODS), draw.choices(["plot", "cast", "music", "end"], k=24)
        texts.append(" ".join(f"the {thing} is {draw.choice(mood)}" for thing in things))
    path = tmp_path / "reviews.txt"
    path.write_text("\n\n".join(texts) + "\n")
    return path


SMALL = {
    "data.tokens.kind": "words",
    "task.context": 32,
    "training.batch_tokens": 512,
    "training.threads": 1,
    "training.rate": 0.01,
    "training.baseline": False,
    "training.validations": 2,
}


def test_words_of_one_mood_come_together_only_when_it_is_asked(reviews, tmp_path):
    """Of two words that fit the same gap, only the rest of the text tells which moods they are of."""
    apart = {}
    for weight in (0.0, 1.0):
        keys = {"model.input.width": 16, "model.encoder.body.width": 16, "task.halves_weight": weight}
        words = {"model": "blank-bilstm", "steps": 80, "settings": SMALL | keys, "quiet": True}
        run = package.train("pretrain", str(reviews), out=tmp_path / str(weight), **words)
        ids = [[run.reads.tokenizer.ids([word])[0] for word in words] for words in MOODS]
        table = torch.nn.functional.normalize(run.model.input.embedding.weight.detach(), dim=1)
        good, bad = table[ids[0]], table[ids[1]]
        within = ((good @ good.T).sum() + (bad @ bad.T).sum() - 8) / 24
        apart[weight] = float(within - (good @ bad.T).mean())
    assert apart[1.0] > 1.0 and abs(apart[0.0]) < 0.3


def test_workers_do_not_share_out_rows_that_are_compared(reviews, tmp_path):
    """A Transformer whose rows would be compared in two smaller groups would learn something else."""
    layer = {
        "model.input.width": 16,
        "model.encoder.layers": 1,
        "model.encoder.heads": 2,
        "model.encoder.feed_forward": 16,
    }
    for workers in (1, 2):
        keys = SMALL | layer | {"task.halves_weight": 0.5, "training.workers": workers}
        package.train(
            "pretrain",
            str(reviews),
            model="roberta",
            steps=6,
            out=tmp_path / str(workers),
            settings=keys,
            quiet=True,
        )
    one, two = ((tmp_path / str(workers) / "model.safetensors").read_bytes() for workers in (1, 2))
    assert one == two


def test_only_the_preset_of_that_name_asks_it():
    """Presets that bear the name of a published model learn what was published."""
    made = {name: TrainRequest(task="pretrain", preset=name).settings() for name in presets(Size())}
    assert [name for name, settings in made.items() if settings.task.halves_weight] == ["blank-bilstm-halves"]
    plain, asked = made["blank-bilstm"], made["blank-bilstm-halves"]
    assert replace(plain, task=replace(plain.task, halves_weight=asked.task.halves_weight)) == asked


def test_other_objectives_refuse_it(reviews, tmp_path):
    with pytest.raises(UserError, match="halves_weight"):
        package.train(
            "pretrain",
            str(reviews),
            model="gpt",
            steps=2,
            out=tmp_path / "run",
            settings={"task.halves_weight": 1.0},
        )
    assert not (tmp_path / "run").exists()

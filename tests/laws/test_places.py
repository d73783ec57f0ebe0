"""What holds for every model with a head at positions, and that the blank model never sees what it has to
find (SPEC R8)."""

import pytest
import torch
from torch.testing import assert_close
from variants import padded, small, vectors, weighted_sum

from seqlab.encoders import BothWays, Conv, Gru, Lstm, Rnn
from seqlab.errors import UserError
from seqlab.inputs import Tokens
from seqlab.model import Model, ModelConfig, count_parameters, sketch
from seqlab.nn.positions import Learned, Rotary
from seqlab.objectives import CrossEntropy
from seqlab.outputs import First, Linear, Mean, Vocabulary
from seqlab.parts import Batch, Facts, Places
from seqlab.seq import Seq
from seqlab.settings import TrainRequest
from seqlab.tasks.pretrain import Pretrain
from seqlab.tasks.task import Size
from seqlab.training.checkpoint import load_weights, save_weights

SYMBOLS, WIDTH = 23, 6
FACTS = Facts(
    symbols={"text": SYMBOLS, "written": SYMBOLS},
    outputs={"row": 2, "places": SYMBOLS},
    segments=2,
    joint=True,
)


def filler(encoder, places, pool=None, head=None, width=WIDTH):
    return ModelConfig(input=Tokens(width=width), encoder=encoder, pool=pool, head=head, places=places)


def apart(body):
    return BothWays(body=body, hides=True)


LINEAR = Vocabulary(transform="linear")
POST = {"norm": "post", "embedding_norm": True, "scale_embedding": False, "activation": "gelu"}
FILLERS = {
    "bert": filler(
        small(positions=Learned(length=12), **POST),
        Vocabulary(),
        First(),
        Linear(hidden=(6,), activation="tanh"),
    ),
    "rotary": filler(small(positions=Rotary(), layers=1), Vocabulary(epsilon=1e-12), width=8),
    "mean answer": filler(small(), Vocabulary(activation="tanh", bias=False), Mean(), Linear()),
    "untied": filler(Gru(width=5, directions="both"), Vocabulary(transform="none", tied=False)),
    "untied dense": filler(Conv(width=4), Vocabulary(tied=False)),
    "as wide as the tokens": filler(Lstm(width=3, directions="both"), Vocabulary(transform="none")),
    "blank": filler(apart(Lstm(width=5)), LINEAR),
    "blank deep": filler(apart(Gru(width=5, layers=3)), Vocabulary(transform="linear", bias=False)),
    "blank dense": filler(apart(Rnn(width=5)), Vocabulary()),
    "both-ways": filler(apart(Lstm(width=5, layers=2)), Vocabulary(transform="linear", halves=True)),
    "both-ways dense": filler(apart(Lstm(width=5)), Vocabulary(halves=True)),
    "both-ways plain": filler(
        apart(Lstm(width=WIDTH, layers=2)), Vocabulary(transform="none", halves=True), Mean(), Linear()
    ),
}
ROWS = [[3, 8, 9, 10, 2], [3, 7, 2, 14, 15, 16, 17, 18, 2], [9], [3, 11, 12, 2]]
PLACES = [[1, 3], [1, 4, 5, 7], [0], [2]]


def made(name, seed=0):
    torch.manual_seed(seed)
    return Model(FILLERS[name], FACTS).eval()


def batch(rows=ROWS, places=PLACES):
    """Texts of two segments, with an answer at some places and one for each row."""
    text = padded(rows)
    segments = Seq((torch.arange(text.mask.shape[1]) > 2).long().expand_as(text.values), text.mask)
    flat = [row * text.mask.shape[1] + place for row, some in enumerate(places) for place in some]
    answers = [(7 * row[place]) % SYMBOLS for row, some in zip(rows, places, strict=True) for place in some]
    return Batch(
        {"text": text, "segments": segments}, torch.arange(len(rows)),
        {
            "row": torch.tensor([sum(row) % 2 for row in rows]),
            "places": Places(torch.tensor(flat, dtype=torch.long), torch.tensor(answers, dtype=torch.long)),
        },
    )  # fmt: skip


def assert_near(a, b):
    assert_close(a, b, atol=1e-5, rtol=1e-5)


EVERY = pytest.mark.parametrize("name", FILLERS)

# Every model with a head at positions -----------------------------------------------------------------------


@EVERY
def test_batch_mates_and_padding_change_nothing_at_the_places(name):
    """Padding holds other ids than zero, and a row beside a longer one is filled as it is alone."""
    model = made(name)
    together = model(batch()).answers
    alone = [model(batch([row], [places])).answers for row, places in zip(ROWS, PLACES, strict=True)]
    by_side = zip(*(one["places"].vectors.chunk(one["places"].directions) for one in alone), strict=True)
    assert_near(together["places"].vectors, torch.cat([vector for side in by_side for vector in side]))
    if "row" in together:
        assert_near(together["row"].scores, torch.cat([one["row"].scores for one in alone]))


@EVERY
def test_only_positions_with_an_answer_are_scored(name):
    model = made(name)
    filled = model(batch())
    reply = filled.answers["places"]
    times = 2 if model.places.halves else 1
    assert reply.directions == times and len(reply.vectors) == times * sum(map(len, PLACES))
    total = CrossEntropy("places")(filled, batch())
    scores, wanted = model.places.output(reply.vectors), batch().places.values.repeat(times)
    assert total.count == sum(map(len, PLACES))
    assert_near(times * total.total, torch.nn.functional.cross_entropy(scores, wanted, reduction="sum"))


@EVERY
def test_every_parameter_gets_a_gradient(name):
    model = made(name).train()
    filled = model(batch())
    loss = CrossEntropy("places")(filled, batch()).total
    if "row" in filled.answers:
        loss = loss + CrossEntropy()(filled, batch()).total
    loss.backward()
    for parameter, tensor in model.named_parameters():
        assert tensor.grad is not None and tensor.grad.abs().sum() > 0, parameter


@EVERY
def test_tied_weights_are_one_tensor(name):
    model = made(name)
    tied = FILLERS[name].places.tied
    assert (model.places.output.weight is model.input.embedding.weight) == tied
    assert sum(tensor.shape[0] == SYMBOLS and tensor.dim() == 2 for tensor in model.parameters()) == (
        1 if tied else 2
    )


@EVERY
def test_saving_and_loading_changes_nothing(name, tmp_path):
    first, second = made(name), made(name, seed=1)
    said = first(batch()).answers
    save_weights(first, tmp_path / "model.safetensors")
    load_weights(second, tmp_path / "model.safetensors")
    again = second(batch()).answers
    assert again.keys() == said.keys()
    for answer, reply in said.items():
        assert torch.equal(again[answer].vectors, reply.vectors)
        assert torch.equal(again[answer].scores, reply.scores)
    assert (second.places.output.weight is second.input.embedding.weight) == FILLERS[name].places.tied


@EVERY
def test_parameters_by_formula_are_those_that_are_there(name):
    model = made(name)
    assert sum(cost.parameters for cost in model.costs(9)) == count_parameters(model)


@pytest.mark.parametrize("name", Pretrain.presets(Size()))
@pytest.mark.parametrize("minutes", [2.0, 100.0])
def test_parameters_of_every_pretrain_preset_by_formula(name, minutes):
    settings = TrainRequest(task="pretrain", preset=name).settings(Size(minutes=minutes))
    model = sketch(settings.model, settings.task.imagined(8_000, 2))
    assert sum(cost.parameters for cost in model.costs(128)) == count_parameters(model)


def test_two_halves_together_say_the_sum_of_their_log_probabilities():
    model = made("both-ways")
    filled = model(batch())
    states = filled.states.values.flatten(0, 1)[batch().places.positions]
    ahead, back = model.places.output(filled.answers["places"].vectors).log_softmax(dim=-1).chunk(2)
    assert_near(model.places(states).scores, ahead + back)


def test_a_tied_vocabulary_needs_states_as_wide_as_the_tokens():
    config = filler(Lstm(width=4), Vocabulary(transform="none"))
    with pytest.raises(UserError, match="scores vectors of width 4, and the tokens have 6"):
        Model(config, FACTS)


def test_a_stride_leaves_no_state_for_each_position():
    with pytest.raises(UserError, match="fewer states than there are positions"):
        Model(filler(Conv(width=6, stride=2), Vocabulary()), FACTS)


# The blank model, and each direction by itself --------------------------------------------------------------

BODIES = {"rnn": Rnn, "gru": Gru, "lstm": Lstm}
HEADS = {"blank": LINEAR, "both-ways": Vocabulary(transform="linear", halves=True)}
LENGTHS = (4, 1, 6, 2)


def hiding(kind, layers, head, hides=True):
    """An encoder of two stacks and its head; all biases are random, too."""
    torch.manual_seed(1)
    encoder = BothWays(body=BODIES[kind](width=5, layers=layers), hides=hides).build(WIDTH).eval()
    for tensor in encoder.parameters():
        torch.nn.init.normal_(tensor, std=0.5)
    return encoder, HEADS[head].build_for(encoder.width, SYMBOLS, WIDTH).eval()


def input_gradient(encoder, places, x, row, place):
    """How the prediction at one place depends on every input vector (B T D)."""
    values = x.values.clone().requires_grad_()
    states = encoder(Seq(values, x.mask)).values[row, place]
    weighted_sum(places(states.unsqueeze(0)).scores).backward()
    return values.grad


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("kind", BODIES)
def test_a_prediction_does_not_depend_on_the_word_at_its_own_place(kind, layers, head):
    """Exactly zero at t itself, at the padding and in other rows; not zero at every other word of the row."""
    encoder, places = hiding(kind, layers, head)
    x = vectors(LENGTHS, WIDTH)
    for row, length in enumerate(LENGTHS):
        for place in range(length):
            sizes = input_gradient(encoder, places, x, row, place).abs().sum(dim=-1)
            others = [at for at in range(length) if at != place]
            assert (sizes[row, others] > 0).all()
            assert sizes.count_nonzero() == len(others)


@pytest.mark.parametrize("kind", BODIES)
def test_without_hiding_every_prediction_sees_its_word(kind):
    encoder, places = hiding(kind, 2, "blank", hides=False)
    x = vectors(LENGTHS, WIDTH)
    for row, length in enumerate(LENGTHS):
        for place in range(length):
            assert input_gradient(encoder, places, x, row, place)[row, place].abs().sum() > 0


@pytest.mark.parametrize("name", ["blank", "blank deep", "blank dense", "both-ways"])
def test_another_word_changes_all_predictions_but_its_own(name):
    """From ids on, bit for bit."""
    model = made(name)
    row = ROWS[1]
    every = list(range(len(row)))
    before = model(batch([row], [every])).answers["places"].vectors.view(-1, len(row), WIDTH)
    for place in every:
        changed = [*row[:place], 21, *row[place + 1 :]]
        after = model(batch([changed], [every])).answers["places"].vectors.view(-1, len(row), WIDTH)
        differs = (after != before).any(dim=2).any(dim=0).tolist()
        assert differs == [at != place for at in every]


def states_by_hand(stack, x, edge):
    """The states of tanh layers, one word after the other: before word t the state after word t-1; `edge`
    before the first."""
    for layer in stack:
        cell = layer.ahead[0]
        state, found = torch.zeros(cell.hidden_size), []
        for word in x:
            state = torch.tanh(
                cell.weight_ih_l0 @ word + cell.bias_ih_l0 + cell.weight_hh_l0 @ state + cell.bias_hh_l0
            )
            found.append(state)
        x = found
    return [edge, *x[:-1]]


@pytest.mark.parametrize("layers", [1, 2])
def test_the_blank_model_is_the_formula_of_r8(layers):
    """P(w_t | rest) = softmax_w e[w] · (W→ h→[t-1] + W← h←[t+1]), word vectors of another size than
    states."""
    torch.manual_seed(0)
    config = ModelConfig(
        input=Tokens(width=WIDTH, segments=1),
        encoder=apart(Rnn(width=5, layers=layers)),
        pool=None,
        head=None,
        places=Vocabulary(transform="linear", bias=False),
    )
    model = Model(config, FACTS).eval()
    for tensor in model.encoder.parameters():
        torch.nn.init.normal_(tensor, std=0.5)
    every = [list(range(len(row))) for row in ROWS]
    filled = model(batch(ROWS, every))
    said = filled.answers["places"].scores.softmax(dim=-1).split([len(row) for row in ROWS])

    table, encoder = model.input.embedding.weight, model.encoder
    ahead_matrix, back_matrix = model.places.transform.weight.chunk(2, dim=1)
    for row, probabilities in zip(ROWS, said, strict=True):
        words = [table[word] for word in row]
        ahead = states_by_hand(encoder.ahead, words, encoder.edges[0])
        back = states_by_hand(encoder.back, words[::-1], encoder.edges[1])[::-1]
        for place in range(len(row)):
            scores = [word @ (ahead_matrix @ ahead[place] + back_matrix @ back[place]) for word in table]
            assert_near(probabilities[place], torch.stack(scores).softmax(dim=0))

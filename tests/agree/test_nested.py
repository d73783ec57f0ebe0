"""Nested inputs against plain loops over sentences, and the bag against a plain sum."""

import pytest
import torch
from torch.testing import assert_close

from seqlab.encoders import Gru
from seqlab.inputs import Bag, NestedConfig, NestedContextConfig, Tokens
from seqlab.outputs import Attention
from seqlab.parts import Batch, Facts, record
from seqlab.seq import Nested, Seq, mask_of, pad

FACTS = Facts(symbols={"text": 20, "characters": 9, "grams": 30}, outputs={"row": 2})
INNER = {"inner": Tokens(width=6), "encoder": Gru(width=4, directions="both"), "pool": Attention(hidden=5)}


def documents():
    """Six documents of 2 to 17 sentences of different lengths: 57 inner rows, so several groups."""
    torch.manual_seed(5)
    return [
        [torch.randint(1, 20, (1 + (7 * row + 5 * place) % 11,)) for place in range(2 + 3 * row)]
        for row in range(6)
    ]


def nested(rows):
    return Nested(
        pad([inner for row in rows for inner in row]), mask_of(torch.tensor([len(row) for row in rows]))
    )


def states_of(read, ids):
    """The word states of one sentence, alone (1 W D)."""
    return read.encoder(
        Seq(read.inner.embedding(ids).unsqueeze(0), torch.ones(1, len(ids), dtype=torch.bool))
    )


def test_a_hierarchical_network_reads_each_sentence_alone():
    """A6 against a loop over documents and sentences."""
    read, rows = NestedConfig(**INNER).build(FACTS), documents()
    states = read(Batch({"text": nested(rows)}, torch.arange(6)))
    assert states.mask.sum(dim=1).tolist() == [len(row) for row in rows]
    for row, document in enumerate(rows):
        for place, ids in enumerate(document):
            expected = read.pool(states_of(read, ids)).vector[0]
            assert_close(states.values[row, place], expected, atol=1e-5, rtol=1e-5)


def test_words_from_characters_stand_beside_the_words_themselves():
    config = NestedConfig(of="characters", words=Tokens(width=3), **INNER)
    assert config.reads == "characters"
    read = config.build(FACTS)
    rows = [[ids % 9 for ids in row] for row in documents()]
    words = pad([torch.arange(len(row)) for row in rows])
    states = read(Batch({"characters": nested(rows), "text": words}, torch.arange(6)))
    assert read.width == 8 + 3 and read.inner.embedding.num_embeddings == 9
    assert_close(
        states.values[4, 3, :8], read.pool(states_of(read, rows[4][3])).vector[0], atol=1e-5, rtol=1e-5
    )
    assert_close(states.values[4, 3, 8:], read.words.embedding.weight[3])


@pytest.mark.parametrize("context", ["forward", "both"])
def test_in_context_the_weights_of_a_sentence_depend_on_the_sentences_before_it(context):
    """A6's variant against a loop: c_i is the sentence-level state after sentence i-1 (backward: after
    i+1)."""
    read, rows = NestedContextConfig(**INNER, width=3, context=context).build(FACTS), documents()
    given = Batch({"text": nested(rows)}, torch.arange(6))
    states = read(given)
    with record(read) as maps:
        assert_close(read(given).values, states.values)
    inner = 0
    for row, document in enumerate(rows):
        for part, reader in enumerate(read.readers):
            order = list(range(len(document)))[:: -1 if part else 1]
            state = torch.zeros(1, 3)
            for place in order:
                words = states_of(read, document[place])
                scores = reader.pool.hidden(words.values) + reader.pool.context(state).unsqueeze(1)
                weights = reader.pool.score(torch.tanh(scores)).squeeze(-1).softmax(dim=-1)  # 1 W
                state = reader.cell((weights.unsqueeze(-1) * words.values).sum(dim=1), state)
                assert_close(
                    states.values[row, place, 3 * part : 3 * part + 3], state[0], atol=1e-5, rtol=1e-5
                )
                recorded = maps[f"readers.{part}.pool"][0][inner + place, 0, 0, : weights.shape[1]]
                assert_close(recorded, weights[0].detach(), atol=1e-5, rtol=1e-5)
            assert_close(states.summary[row, 3 * part : 3 * part + 3], state[0], atol=1e-5, rtol=1e-5)
        inner += len(document)


def test_a_bag_is_the_weighted_sum_of_its_rows():
    torch.manual_seed(0)
    read = Bag(width=4).build(FACTS)
    grams = pad([torch.tensor([3, 5, 3]), torch.tensor([7])])
    weights = Seq(torch.tensor([[0.5, 1, 2], [3, 9, 9]]), grams.mask)  # 9 stands at the padding
    vectors = read(Batch({"grams": grams, "weights": weights}, torch.arange(2)))
    table = read.embedding
    assert vectors.mask.tolist() == [[True], [True]]
    assert_close(vectors.values[:, 0], torch.stack([2.5 * table[3] + table[5], 3 * table[7]]))


def test_a_bag_without_width_is_a_linear_model_that_starts_at_zero():
    read = Bag().build(FACTS)
    assert read.width == FACTS.outputs["row"] and not read.embedding.any()

"""BERT, RoBERTa, GPT-2 and BART against the `transformers` library: its weights in our models give its
numbers.

Ours are the published presets with smaller sizes; theirs are random in every weight, biases and norms
included, so that nothing is hidden by a zero or a one. Every parameter of theirs has to find its place in
ours, and the other way round.
"""

import re

import pytest
import torch
from torch import nn
from torch.testing import assert_close
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    BertConfig,
    BertForPreTraining,
    CamembertConfig,
    CamembertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    MarianConfig,
    MarianMTModel,
    OpenAIGPTConfig,
    OpenAIGPTLMHeadModel,
    RobertaConfig,
    RobertaForMaskedLM,
)

from seqlab.model import Model, count_parameters, sketch
from seqlab.parts import Batch, Places
from seqlab.seq import Seq, mask_of
from seqlab.settings import TrainRequest, task_classes

SYMBOLS, WIDTH, LAYERS, HEADS, INNER, LENGTH = 60, 32, 3, 4, 80, 24
LENGTHS = (5, 20, 1, 11)
PADDING = 1
"""What RoBERTa and BART count positions from: id 1, so that their first position has number 2."""


def ours(preset, parts):
    """The published preset, smaller."""
    sizes = {"layers": LAYERS, "heads": HEADS, "feed_forward": INNER, "positions.length": LENGTH}
    changes = {f"model.{part}.{name}": size for part in parts for name, size in sizes.items()}
    if "encoder" in parts:
        changes["model.input.width"] = WIDTH
    if "decoder.body" in parts:
        changes["model.decoder.width"] = WIDTH
    if preset == "bert-base":
        changes["model.head.hidden"] = (WIDTH,)
    settings = TrainRequest(
        task="pretrain", preset=preset, overrides=changes | {"task.context": LENGTH}
    ).settings()
    return Model(settings.model, settings.task.imagined(SYMBOLS, 2)).eval()


@torch.no_grad()
def random_all(model):
    """Every parameter drawn anew."""
    generator = torch.Generator().manual_seed(7)
    for name, tensor in model.named_parameters():
        tensor.copy_(0.2 * torch.randn(tensor.shape, generator=generator))
        if re.search(r"(norm\w*|ln_\w)\.weight$", name.lower()):
            tensor.add_(1.0)
    return model.eval()


@torch.no_grad()
def carry_over(given, model, names):
    """Their parameters into ours by name. A * stands for the number of a layer; what follows a module's name
    is kept."""
    found = {}
    for name, tensor in given.items():
        numbers = re.findall(r"\.(\d+)\.", name)
        plain = re.sub(r"\.\d+\.", ".*.", name)
        module, _, last = plain.rpartition(".")
        new = names[plain] if plain in names else f"{names[module]}.{last}"
        found[new.replace("*", numbers[0]) if numbers else new] = tensor
    mine = dict(model.named_parameters())
    assert found.keys() == mine.keys()
    for name, tensor in mine.items():
        tensor.copy_(found[name])


def layer_outputs(layers, norm):
    """A list that fills with what the layers give: after their last norm, or what goes into the norm of the
    next one."""
    seen = []
    for layer in layers:
        if norm == "post":
            layer.feed_forward_norm.register_forward_hook(lambda _, given, result: seen.append(result))
        else:
            layer.attention_norm.register_forward_hook(lambda _, given, result: seen.append(given[0]))
    return seen


def ids(seed=0, lengths=LENGTHS):
    """Random ids, none of them a mark, with padding after them."""
    mask = mask_of(torch.tensor(lengths))
    drawn = torch.randint(7, SYMBOLS, mask.shape, generator=torch.Generator().manual_seed(seed))
    return Seq(drawn.masked_fill(~mask, PADDING), mask)


def everywhere(text, **more):
    """A batch whose every real position asks for its id."""
    places = text.mask.flatten().nonzero().squeeze(1)
    target = Places(places, text.values.flatten()[places])
    return Batch({"text": text, **more}, torch.arange(text.rows), {"places": target})


def assert_same(mine, theirs):
    assert_close(mine, theirs, atol=1e-4, rtol=0)


def inside(theirs, mine):
    """The names of a BERT layer's parts, theirs and ours."""
    return {
        f"{theirs}.attention.self.query": f"{mine}.attention.query",
        f"{theirs}.attention.self.key": f"{mine}.attention.key",
        f"{theirs}.attention.self.value": f"{mine}.attention.value",
        f"{theirs}.attention.output.dense": f"{mine}.attention.output",
        f"{theirs}.attention.output.LayerNorm": f"{mine}.attention_norm",
        f"{theirs}.intermediate.dense": f"{mine}.feed_forward.hidden",
        f"{theirs}.output.dense": f"{mine}.feed_forward.output",
        f"{theirs}.output.LayerNorm": f"{mine}.feed_forward_norm",
    }


SMALL_BERT = {
    "vocab_size": SYMBOLS, "hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
    "intermediate_size": INNER,
}  # fmt: skip
BERT = {
    "bert.embeddings.word_embeddings": "input.embedding",
    "bert.embeddings.token_type_embeddings": "input.segments",
    "bert.embeddings.position_embeddings.weight": "encoder.positions.table",
    "bert.embeddings.LayerNorm": "encoder.embedding_norm",
    **inside("bert.encoder.layer.*", "encoder.layers.*"),
    "bert.pooler.dense": "head.hidden.0",
    "cls.seq_relationship": "head.output",
    "cls.predictions.transform.dense": "places.transform",
    "cls.predictions.transform.LayerNorm": "places.norm",
    "cls.predictions.bias": "places.output.bias",
}
ROBERTA = {
    "roberta.embeddings.word_embeddings": "input.embedding",
    "roberta.embeddings.position_embeddings.weight": "encoder.positions.table",
    "roberta.embeddings.LayerNorm": "encoder.embedding_norm",
    **inside("roberta.encoder.layer.*", "encoder.layers.*"),
    "lm_head.dense": "places.transform",
    "lm_head.layer_norm": "places.norm",
    "lm_head.bias": "places.output.bias",
}


@torch.no_grad()
def test_bert_with_segments_masked_head_and_next_sentence_head():
    theirs = random_all(BertForPreTraining(BertConfig(**SMALL_BERT, max_position_embeddings=LENGTH)))
    model = ours("bert-base", ["encoder"])
    carry_over(dict(theirs.named_parameters()), model, BERT)
    layers = layer_outputs(model.encoder.layers, "post")
    text = ids()
    segments = (torch.arange(text.mask.shape[1]) > 3).long().expand_as(text.values)

    said = theirs(
        input_ids=text.values,
        attention_mask=text.mask.long(),
        token_type_ids=segments,
        output_hidden_states=True,
    )
    filled = model(everywhere(text, segments=Seq(segments, text.mask)))

    assert len(layers) == LAYERS
    for mine, other in zip(
        [*layers, filled.states.values], [*said.hidden_states[1:], said.hidden_states[-1]], strict=True
    ):
        assert_same(mine[text.mask], other[text.mask])
    assert_same(filled.answers["places"].scores, said.prediction_logits[text.mask])
    assert_same(filled.answers["row"].scores, said.seq_relationship_logits)


@torch.no_grad()
def test_roberta_with_its_one_segment_in_the_positions():
    """Its single token-type vector is added at every position, so it can be part of the positions'
    vectors."""
    config = RobertaConfig(
        **SMALL_BERT,
        max_position_embeddings=LENGTH + PADDING + 1,
        type_vocab_size=1,
        pad_token_id=PADDING,
        layer_norm_eps=1e-5,
    )
    theirs = random_all(RobertaForMaskedLM(config))
    given = dict(theirs.named_parameters())
    positions = "roberta.embeddings.position_embeddings.weight"
    given[positions] = given[positions] + given.pop("roberta.embeddings.token_type_embeddings.weight")
    model = ours("roberta-base", ["encoder"])
    carry_over(given, model, ROBERTA)
    layers = layer_outputs(model.encoder.layers, "post")
    text = ids(1)

    said = theirs(input_ids=text.values, attention_mask=text.mask.long(), output_hidden_states=True)
    filled = model(everywhere(text))

    for mine, other in zip(layers, said.hidden_states[1:], strict=True):
        assert_same(mine[text.mask], other[text.mask])
    assert_same(filled.answers["places"].scores, said.logits[text.mask])


GPT2 = {
    "transformer.wte": "decoder.embedding",
    "transformer.wpe.weight": "decoder.body.positions.table",
    **{
        f"transformer.h.*.attn.{part}": f"decoder.body.layers.*.attention.{part}"
        for part in ("query", "key", "value")
    },
    "transformer.h.*.attn.c_proj": "decoder.body.layers.*.attention.output",
    "transformer.h.*.mlp.c_fc": "decoder.body.layers.*.feed_forward.hidden",
    "transformer.h.*.mlp.c_proj": "decoder.body.layers.*.feed_forward.output",
    "transformer.h.*.ln_1": "decoder.body.layers.*.attention_norm",
    "transformer.h.*.ln_2": "decoder.body.layers.*.feed_forward_norm",
    "transformer.ln_f": "decoder.body.final_norm",
}


def straightened(given):
    """Its linear layers have their matrices the other way round, and queries, keys and values in one."""
    found = {}
    for name, tensor in given.items():
        tensor = tensor.T if re.search(r"\.c_\w+\.weight$", name) else tensor
        if ".c_attn." in name:
            found |= {
                name.replace("c_attn", part): third
                for part, third in zip(("query", "key", "value"), tensor.chunk(3), strict=True)
            }
        else:
            found[name] = tensor
    return found


def written(text):
    """A batch to be written: what is fed is `text`, what is asked for does not matter here."""
    more = torch.ones(text.rows, 1, dtype=torch.bool)
    ends = Seq(nn.functional.pad(text.values, (0, 1), value=7), torch.cat([more, text.mask], dim=1))
    return Batch({}, torch.arange(text.rows), {"written": ends})


@torch.no_grad()
def test_gpt_2():
    config = GPT2Config(
        vocab_size=SYMBOLS, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS, n_inner=INNER, n_positions=LENGTH
    )
    theirs = random_all(GPT2LMHeadModel(config))
    model = ours("gpt-2-small", ["decoder.body"])
    carry_over(straightened(dict(theirs.named_parameters())), model, GPT2)
    layers = layer_outputs(model.decoder.body.layers, "pre")
    text = ids(2)

    said = theirs(input_ids=text.values, attention_mask=text.mask.long(), output_hidden_states=True)
    writing = model(written(text))

    for mine, other in zip(layers, said.hidden_states[:-1], strict=True):
        assert_same(mine[text.mask], other[text.mask])
    assert_same(writing.answers["written"].vectors, said.hidden_states[-1][text.mask])  # after the last norm
    assert_same(writing.answers["written"].scores, said.logits[text.mask])


def side(theirs, mine):
    """The names of BART's encoder or decoder, theirs and ours."""
    found = {
        f"{theirs}.embed_positions.weight": f"{mine}.positions.table",
        f"{theirs}.layernorm_embedding": f"{mine}.embedding_norm",
        f"{theirs}.layers.*.fc1": f"{mine}.layers.*.feed_forward.hidden",
        f"{theirs}.layers.*.fc2": f"{mine}.layers.*.feed_forward.output",
        f"{theirs}.layers.*.self_attn_layer_norm": f"{mine}.layers.*.attention_norm",
        f"{theirs}.layers.*.encoder_attn_layer_norm": f"{mine}.layers.*.cross_norm",
        f"{theirs}.layers.*.final_layer_norm": f"{mine}.layers.*.feed_forward_norm",
    }
    for attention, own in (("self_attn", "attention"), ("encoder_attn", "cross")):
        for one, two in (("q_proj", "query"), ("k_proj", "key"), ("v_proj", "value"), ("out_proj", "output")):
            found[f"{theirs}.layers.*.{attention}.{one}"] = f"{mine}.layers.*.{own}.{two}"
    return found


BART = {
    "model.shared": "input.embedding",
    **side("model.encoder", "encoder"),
    **side("model.decoder", "decoder.body"),
}


@torch.no_grad()
def test_bart():
    config = BartConfig(
        vocab_size=SYMBOLS,
        d_model=WIDTH,
        encoder_layers=LAYERS,
        decoder_layers=LAYERS,
        encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS,
        encoder_ffn_dim=INNER,
        decoder_ffn_dim=INNER,
        max_position_embeddings=LENGTH,
    )
    theirs = random_all(BartForConditionalGeneration(config))
    assert not theirs.final_logits_bias.any()
    model = ours("bart-base", ["encoder", "decoder.body"])
    carry_over(dict(theirs.named_parameters()), model, BART)
    read, fed = ids(3), ids(4, lengths=(9, 2, 14, 6))
    below, above = (layer_outputs(part.layers, "post") for part in (model.encoder, model.decoder.body))

    said = theirs(
        input_ids=read.values,
        attention_mask=read.mask.long(),
        decoder_input_ids=fed.values,
        decoder_attention_mask=fed.mask.long(),
        output_hidden_states=True,
    )
    writing = model(Batch({"text": read}, torch.arange(read.rows), written(fed).targets))

    for mine, other in zip(below, said.encoder_hidden_states[1:], strict=True):
        assert_same(mine[read.mask], other[read.mask])
    for mine, other in zip(above, said.decoder_hidden_states[1:], strict=True):
        assert_same(mine[fed.mask], other[fed.mask])
    assert_same(writing.answers["written"].scores, said.logits[fed.mask])


LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
ROBERTA_TEXT = {
    "vocab_size": 50_265,
    "max_position_embeddings": 514,
    "type_vocab_size": 1,
    "layer_norm_eps": 1e-5,
}
BART_BASE = {
    "d_model": 768,
    "encoder_layers": 6,
    "decoder_layers": 6,
    "encoder_attention_heads": 12,
    "decoder_attention_heads": 12,
    "encoder_ffn_dim": 3072,
    "decoder_ffn_dim": 3072,
}
OF_2017 = {
    "vocab_size": 37_000,
    "decoder_vocab_size": 37_000,
    "d_model": 512,
    "encoder_layers": 6,
    "decoder_layers": 6,
    "encoder_attention_heads": 8,
    "decoder_attention_heads": 8,
    "encoder_ffn_dim": 2048,
    "decoder_ffn_dim": 2048,
    "pad_token_id": 0,
    "decoder_start_token_id": 0,
    "eos_token_id": 1,
}
"""The Transformer of 2017 in the words of Marian, whose sinusoids are a table that is not learned."""


def wide(width, layers, heads, context):
    return GPT2LMHeadModel(GPT2Config(n_embd=width, n_layer=layers, n_head=heads, n_positions=context))


THEIRS = {
    "bert-base": lambda: BertForPreTraining(BertConfig()),
    "bert-large": lambda: BertForPreTraining(BertConfig(**LARGE)),
    "roberta-base": lambda: RobertaForMaskedLM(RobertaConfig(**ROBERTA_TEXT)),
    "roberta-large": lambda: RobertaForMaskedLM(RobertaConfig(**ROBERTA_TEXT, **LARGE)),
    "camembert-base": lambda: CamembertForMaskedLM(
        CamembertConfig(**ROBERTA_TEXT | {"vocab_size": 32_005}, pad_token_id=PADDING)
    ),
    "gpt-1": lambda: OpenAIGPTLMHeadModel(OpenAIGPTConfig()),
    "gpt-2-small": lambda: GPT2LMHeadModel(GPT2Config()),
    "gpt-2": lambda: wide(1600, 48, 25, 1024),
    "gpt-3": lambda: wide(12_288, 96, 96, 2048),
    "transformer-base": lambda: MarianMTModel(MarianConfig(**OF_2017)),
    "bart-base": lambda: BartForConditionalGeneration(BartConfig(**BART_BASE)),
    "bart-large": lambda: BartForConditionalGeneration(BartConfig()),
}


PUBLISHED = [(task, name) for task, kind in task_classes().items() for name in kind.published]


@pytest.mark.parametrize(("task", "name"), PUBLISHED)
def test_the_published_sizes_and_norms_are_those_of_the_library(task, name):
    """Counted without memory for the weights. RoBERTa's token-type vector is part of the positions here: one
    vector fewer."""
    settings = TrainRequest(task=task, preset=name).settings()
    symbols = settings.task.published[name].symbols
    model = sketch(settings.model, settings.task.imagined(symbols, 2))
    with torch.device("meta"):
        theirs = THEIRS[name]()
    fewer = theirs.config.hidden_size if "bert" in name and not name.startswith("bert") else 0
    learned = sum(tensor.numel() for tensor in theirs.parameters() if tensor.requires_grad)
    assert count_parameters(model) == learned - fewer
    assert epsilons(model) == epsilons(theirs)


def test_the_transformer_of_2017_with_three_matrices():
    apart = {"model.shared": False, "model.decoder.tied": False}
    settings = TrainRequest(task="translate", preset="transformer-base", overrides=apart).settings()
    with torch.device("meta"):
        theirs = MarianMTModel(
            MarianConfig(**OF_2017, share_encoder_decoder_embeddings=False, tie_word_embeddings=False)
        )
    learned = sum(tensor.numel() for tensor in theirs.parameters() if tensor.requires_grad)
    model = sketch(settings.model, settings.task.imagined(37_000, 2))
    assert count_parameters(model) == learned == 100_970_496


def epsilons(model):
    return {module.eps for module in model.modules() if isinstance(module, nn.LayerNorm)}

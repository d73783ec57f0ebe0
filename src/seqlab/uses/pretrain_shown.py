"""What a pretrained run shows of itself: maps of what it looked at, and what its report tells."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from seqlab.data.text import BOS, EOS, SEP, SPECIAL
from seqlab.errors import UserError
from seqlab.likelihood import decoder_of
from seqlab.parts import Batch, record
from seqlab.report.alignment import align, looks
from seqlab.report.attention import FIRST_ORDER, NONE, Explanation, Map, attention_maps
from seqlab.report.gradients import blank_contributions
from seqlab.report.page import Example
from seqlab.tasks.cloze import BLANK, around, make_batch, next_blank, piece_scores
from seqlab.tasks.exercises import Exercise, padded
from seqlab.tasks.pretrain import CHECKED, PretrainPrepared
from seqlab.tasks.tally import NATS, PIECES, Tally, scored
from seqlab.uses.generate import layer_maps
from seqlab.uses.pretrain_answers import Filled
from seqlab.uses.run import Findings, Text
from seqlab.uses.translate import written_pieces

if TYPE_CHECKING:
    from seqlab.uses.pretrain import PretrainRun

WORST = 12
AROUND = 12
"""Pieces that are shown on each side of a mistake."""
TELLING = 20
"""Characters from which on a sentence can be among the most surprising ones."""
SAMPLES = 4
BARE = ("blank", "both-ways")
"""Objectives that read texts without marks around them."""

# Maps ----------------------------------------------------------------------------------------------------------------


def explain(run: PretrainRun, text: Text) -> Explanation:
    if run.objective == "causal":
        return _surprise(run, run.single([text])[0])
    if run.objective == "denoise":
        return _alignment(run, run.single([text])[0])
    parts = [text] if isinstance(text, str) else list(text)
    if run.objective in BARE and BLANK not in "".join(parts):
        return _surprise(run, run.single([text])[0])
    if len(parts) == 1 and BLANK not in parts[0] and record(run.model).modules:
        return _filled(run, parts, Filled(run.single(parts)[0], ()))
    [answer] = run.predict([text])
    assert isinstance(answer, Filled)
    return _filled(run, parts, answer)


def _filled(run: PretrainRun, parts: Sequence[str], answer: Filled) -> Explanation:
    """Attention over a text and its marks, or what each piece adds to the answer at the first blank."""
    clozes = [run.words.cut(part) for part in parts]
    if run.objective in BARE:
        row = next_blank(around(clozes[0].ids, clozes[0].blanks, run.context)[0], ())
    else:
        row = run.as_shown(clozes)
    pieces = [SPECIAL[number] if number < len(SPECIAL) else run.words.shown(number) for number in row.ids.tolist()]
    batch = make_batch([row])
    with record(run.model) as tapes, torch.no_grad():
        run.model(batch)
    maps = attention_maps({name: tape for name, tape in tapes.items() if tape}, pieces)
    first = answer.blanks[0] if answer.blanks else None
    scores = {first.token: first.score, **dict(first.others)} if first else answer.scores or {}
    text, label = "\t".join(parts), f"{answer.label}: {answer.text}" if answer.label else answer.text
    if maps:
        return Explanation(text=text, label=label, scores=scores, maps=tuple(maps), method="attention", note=answer.note)
    if not len(row.places):
        raise UserError(
            what=f"There is no {BLANK} in the pair.",
            why="This model has no attention, and what each piece adds is told of the answer at a blank.",
            fix=f"Write {BLANK} where a word is missing.",
        )
    assert first is not None
    weights = blank_contributions(run.model, batch, first.id)
    name = f"what each piece adds to the score of “{first.token}” at the first blank"
    shown = Map(name=name, kind="tokens", weights=weights, pieces=tuple(pieces), signed=True)
    note = " ".join(part for part in (NONE + FIRST_ORDER, answer.note) if part)
    return Explanation(text=text, label=label, scores=scores, maps=(shown,), method="gradient × input", note=note)


def _surprise(run: PretrainRun, text: str) -> Explanation:
    """How much each piece surprised the model and, of a Transformer, where it looked; of a long text the last pieces."""
    ids, pieces = np.array(run.ids(text), np.int64), run.written(text)
    bits = run.nats(run.whole(text)) / np.log(2)
    most = run.context
    note = f"Shown are the last {most} pieces." if len(ids) > most else ""
    name = "how much each piece surprised the model" + (", from both sides" if run.objective in BARE else "")
    surprise = Map(name=name, kind="tokens", weights=bits[-most:], pieces=tuple(pieces[-most:]), unit="bits")
    looked: list[Map] = []
    if run.objective == "causal":
        fed = torch.tensor([[SEP, *ids.tolist()][-most - 1 : -1]])
        decoder = decoder_of(run.model)
        with record(run.model) as tapes, torch.no_grad():
            decoder.advance(fed, decoder.start(None, 1))
        before = [SPECIAL[SEP], *pieces][-most - 1 : -1]
        looked = layer_maps([tape[-1][0].float().cpu().numpy() for tape in tapes.values() if tape], before)
    return Explanation(
        text=text, label=f"{bits.sum() / len(text):.2f} {'pseudo-' if run.objective in BARE else ''}bits per character",
        scores={}, maps=(*looked[:1], surprise, *looked[1:]), method="attention" if looked else "surprise", note=note,
    )


def _alignment(run: PretrainRun, text: str) -> Explanation:
    """Where the decoder looked in the noisy text as it wrote its repair."""
    ids = run.words.cut(text).ids
    [[best, *_]] = run.search([ids], run.decoding())
    written = [*best.ids, EOS] if best.finished else list(best.ids)
    batch = Batch(
        {"text": padded([np.concatenate([ids, [EOS]])])}, torch.tensor([0]), {"written": padded([np.array([BOS, *written])])}
    )
    read = [SPECIAL[number] if number < len(SPECIAL) else run.words.shown(number) for number in [*ids.tolist(), EOS]]
    return align(
        run.model, batch, text=text, said=run.tokenizer.decode(best.ids), read=read,
        written=written_pieces(run.tokenizer, written),
    )


# For the report ------------------------------------------------------------------------------------------------------


def findings(run: PretrainRun, prepared: PretrainPrepared, split: str) -> Findings:
    began = time.monotonic()
    exercise, offsets, units = prepared.checked(split)
    tally = scored(run.model, exercise, CHECKED)
    scores = run.scored(tally, exercise, units, began, CHECKED)
    if run.objective in ("masked", "masked+next"):
        worst = _surest_mistakes(run, exercise)
    elif run.objective == "denoise":
        worst = _worst_blocks(run, exercise, tally)
    else:
        worst = _worst_sentences(run, exercise, *tally.for_metrics(offsets, units))
    sentences = _sentences(run, exercise)
    return Findings(scores, worst, _maps(run, sentences), _samples(run, sentences))


def _surest_mistakes(run: PretrainRun, exercise: Exercise) -> list[Example]:
    """Of the first blocks, the wrong pieces that it held likeliest."""
    batch = exercise.batch(next(iter(exercise.fixed(CHECKED))))
    answers = batch.places.values
    with torch.no_grad():
        chances = piece_scores(run.model(batch).answers["places"]).softmax(dim=-1)
    score, said = chances.max(dim=-1)
    sure = torch.where(said == answers, -1.0, score)
    text = batch.inputs["text"].values.clone()    # type: ignore[union-attr]
    text.view(-1)[batch.places.positions] = answers
    found = []
    for place in sure.argsort(descending=True, stable=True)[: min(WORST, int((sure > 0).sum()))].tolist():
        row, at = divmod(int(batch.places.positions[place]), text.shape[1])
        before = within(text[row, max(0, at - AROUND) : at].tolist()[::-1])[::-1]
        after = within(text[row, at + 1 : at + 1 + AROUND].tolist())
        gap = "" if run.words.letters else " "
        shown = f"{run.tokenizer.decode(before)}{gap}{BLANK}{gap}{run.tokenizer.decode(after)}"
        pieces = [run.words.shown(int(number)) for number in (answers[place], said[place])]
        found.append(Example(text=" ".join(shown.split()), meant=pieces[0], said=pieces[1], score=float(sure[place])))
    return found


def within(ids: list[int]) -> list[int]:
    """The ids up to the end of the document."""
    return ids[: ids.index(SEP)] if SEP in ids else ids


def _worst_blocks(run: PretrainRun, exercise: Exercise, tally: Tally) -> list[Example]:
    """The blocks whose pieces it foresaw worst, though it read a noisy copy."""
    nats = tally.rows[:, NATS] / np.maximum(tally.rows[:, PIECES], 1)
    blocks = np.concatenate(list(exercise.fixed(CHECKED)))
    return [
        Example(text=run.tokenizer.decode(exercise.ids(blocks[row]).tolist()).strip(), meant="", said="", score=float(nats[row]))
        for row in np.argsort(-nats, kind="stable")[:WORST].tolist()
    ]


def _worst_sentences(run: PretrainRun, exercise: Exercise, nats: np.ndarray, units: np.ndarray) -> list[Example]:
    """The sentences that surprised it most, by bits per character."""
    bits = nats / np.log(2) / np.maximum(units[:, 0], 1)
    telling = np.flatnonzero(units[:, 0] >= TELLING) if (units[:, 0] >= TELLING).any() else np.arange(len(bits))
    return [
        Example(text=_sentence(run, exercise, row), meant="", said="", score=float(bits[row]))
        for row in telling[np.argsort(-bits[telling], kind="stable")[:WORST]].tolist()
    ]


def _sentence(run: PretrainRun, exercise: Exercise, number: int, most: int | None = None) -> str:
    """A sentence, or its beginning: so many pieces at the most."""
    start, end = exercise.text.offsets[number : number + 2].tolist()
    return " ".join(run.tokenizer.decode(exercise.text.values[start:end][:most].tolist()).split())


def _sentences(run: PretrainRun, exercise: Exercise) -> list[str]:
    """Some of middling length, from the beginning of the text; of very long ones, as much as the model can see with ease."""
    some = [_sentence(run, exercise, number, run.context // 2) for number in range(min(200, len(exercise.text.offsets) - 1))]
    return sorted(some, key=lambda sentence: abs(len(sentence) - 70))[:SAMPLES]


def with_blanks(sentence: str, letters: bool = False) -> tuple[str, list[str]]:
    """A sentence with a word (or a letter) missing after a third of it and one after two thirds, and what is missing."""
    words = list(re.finditer(r"\w" if letters else r"\w+", sentence))
    chosen = [words[place] for place in sorted({len(words) // 3, 2 * len(words) // 3})] if words else []
    for word in reversed(chosen):
        sentence = sentence[: word.start()] + BLANK + sentence[word.end() :]
    return sentence, [word[0] for word in chosen]


def _samples(run: PretrainRun, sentences: Sequence[str]) -> list[str]:
    """What it puts into blanks, how it goes on, what it repairs: first what it was given, then what it made of it."""
    samples = []
    for sentence in sentences:
        if run.objective == "causal":
            begun = " ".join(sentence.split()[:4])
            [said] = run.predict([begun], {"decode.longest": 60}) if begun else [None]
            samples += [f"From “{begun}”:\n{said.to_json()['text']}"] if said else []
            continue
        asked, meant = with_blanks(sentence, run.words.letters)
        if not meant:
            continue
        [said] = run.predict([asked])
        told = [said.to_json()["text"]]
        if isinstance(said, Filled):
            told += [f"{blank.shown()}  (was: {word})" for blank, word in zip(said.blanks, meant, strict=True)]
        samples.append("\n".join([asked, *told]))
    return samples


def _maps(run: PretrainRun, sentences: Sequence[str]) -> list[Explanation]:
    """What it looked at in one of these sentences."""
    if run.objective == "denoise" and not looks(run.model):
        return []
    asked = [sentence if run.objective == "causal" else with_blanks(sentence, run.words.letters)[0] for sentence in sentences]
    telling = [text for text in asked if text.strip() and (run.objective == "causal" or BLANK in text)]
    return [run.explain(text) for text in telling[:1]]

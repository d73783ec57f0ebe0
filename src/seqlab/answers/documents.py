"""What all pretrained models answer to: documents without labels, from which exercises are made."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from seqlab.answers.answer import Answer, Extent, Findings, Judged, Known, TextScore, refuse_empty
from seqlab.answers.exercise_counts import ExerciseCounts, scored
from seqlab.answers.exercises import INFERENCE_TOKENS, DocumentExercise, Noises, VocabularyFacts, padded
from seqlab.answers.fill_blanks import BLANK, Cloze, TokenTexts, in_blocks
from seqlab.data.batches import Rows, in_order
from seqlab.data.store import Store
from seqlab.data.tokenizers import CLS, MASK, SEP, UNK
from seqlab.decode import DecodeConfig
from seqlab.errors import UserError
from seqlab.fields.field import Given
from seqlab.fields.running import DocumentsField
from seqlab.inference import computed
from seqlab.metrics import Metric
from seqlab.model import Model
from seqlab.parts import Batch, Facts
from seqlab.report.evaluate import Scores
from seqlab.report.explanation import MANY_ANSWERS, Attributions, Explanation, Map
from seqlab.report.words import Example

SCORED = 65_536
"""Ids of the validation text that are scored while training and for the report; `seqlab evaluate` scores a
whole text."""
WORST = 12
TELLING = 20
"""Characters from which on a sentence can be among the most surprising ones."""
SAMPLES = 4


@dataclass(frozen=True)
class TextEmbedding:
    """What a model makes of a text: the vector of each token, and their mean."""

    vector: tuple[float, ...]
    tokens: tuple[tuple[str, tuple[float, ...]], ...]
    """Each token as it is written, and its vector."""

    def to_json(self) -> dict[str, Any]:
        tokens = [{"token": token, "vector": list(vector)} for token, vector in self.tokens]
        return {"vector": list(self.vector), "tokens": tokens}

    def shown(self) -> str:
        return " ".join(f"{number:.4g}" for number in self.vector)

    def columns(self) -> dict[str, Any]:
        return {"vector": list(self.vector)}


@dataclass(frozen=True)
class Done:
    """An exercise on the first ids of a data set, where its sentences begin, and their characters and words
    (N 2)."""

    exercise: DocumentExercise
    offsets: np.ndarray
    units: np.ndarray
    most: int | None
    """So many ids; None: all."""

    def for_metrics(self, tally: ExerciseCounts) -> tuple[np.ndarray, np.ndarray]:
        """What the metrics take of how it was done."""
        return tally.for_metrics(self.offsets, self.units)


@dataclass(frozen=True, kw_only=True)
class Learning:
    """The settings of a pretraining that its answer depends on."""

    objective: str
    """As the user calls it."""
    context: int
    noises: Noises
    sampled: int | None


class DocumentsAnswer(Answer):
    """The answer of a pretrained model; each kind of exercise has one of its own."""

    together = 256
    kind: ClassVar[type[DocumentExercise]]
    around: ClassVar[tuple[tuple[int, ...], tuple[int, ...]]] = ((CLS,), (SEP,))
    """What stands before and after a text that is read."""
    pseudo: ClassVar[bool] = True
    """Whether tokens are predicted from both sides, so that the product is no probability of the text."""
    outputs: ClassVar[Mapping[str, int | None]] = {"places": None}
    """How many numbers each of its heads gives; None: one for each symbol."""

    def __init__(self, known: Known, text: DocumentsField, learning: Learning) -> None:
        super().__init__(known)
        self.text, self.learning = text, learning

    @property
    def context(self) -> int:
        return self.learning.context

    @cached_property
    def tokens(self) -> TokenTexts:
        return TokenTexts(self.text.tokenizer)

    @property
    def parts(self) -> Facts:
        return document_parts(type(self), self.facts.symbols["text"])

    @property
    def example(self) -> str:
        return ""

    # Learning and scoring -----------------------------------------------------------------------------------

    def exercise(self, store: Store) -> DocumentExercise:
        vocabulary = VocabularyFacts.of(self.text.tokenizer)
        return self.kind(store.fields["text"], vocabulary, self.context, self.learning.noises)

    def part(self, store: Store, extent: Extent) -> Done:
        units = np.stack([store.arrays["characters"], store.arrays["words"]], axis=1).astype(np.int64)
        return Done(
            self.exercise(store), store.fields["text"].offsets, units, None if extent == "whole" else SCORED
        )

    def judge(self, model: Model, part: Done, extent: Extent, how: DecodeConfig) -> Judged:
        tally = scored(model, part.exercise, part.most)
        return Judged(*part.for_metrics(tally), loss=tally.loss, score=-tally.loss, detail=tally)

    def scores(self, said: np.ndarray, meant: np.ndarray, metrics: Sequence[Metric]) -> Scores:
        return self.signed(super().scores(said, meant, metrics), self.learning.sampled)

    # Texts --------------------------------------------------------------------------------------------------

    def single(self, given: Sequence[Given]) -> list[str]:
        """Texts, none of them a pair."""
        if any(not isinstance(text, str) for text in given):
            raise UserError(
                what="There is a pair of texts (a tab joins two).",
                why=(
                    "Only predict and explain of a run that judges pairs of texts take pairs; "
                    f"this run learnt {self.learning.objective}."
                ),
                fix="Give one text, without a tab.",
            )
        single = [text for text in given if isinstance(text, str)]
        refuse_empty(single)
        return single

    def ids(self, text: str) -> list[int]:
        ids: list[int] = self.text.tokenizer.encode([text], empty=True).values.tolist()
        return ids

    def written(self, text: str) -> list[str]:
        """The tokens of a text as it is written, one for each id."""
        return [piece.replace("\n", "⏎") for piece in self.text.tokenizer.pieces(text)]

    def cut(self, text: str) -> Cloze:
        """A text cut at its blanks, of which there must be one."""
        cloze = self.tokens.cut(text)
        if not len(cloze.blanks):
            raise UserError(
                what=f"There is no {BLANK} in “{clipped(text)}”.",
                why=(
                    f"This model learnt to find what is missing ({self.learning.objective}): it has to know"
                    " where."
                ),
                fix=(
                    f'Write {BLANK} where a word is missing: "the {BLANK} was". Or ask how likely the text'
                    " is, with --score; for its vector, with --embed."
                ),
            )
        return cloze

    # How likely ---------------------------------------------------------------------------------------------

    def score(self, model: Model, given: Sequence[Given]) -> list[TextScore]:
        found = []
        for text in self.single(given):
            nats = self.nats(model, self.whole(text))
            found.append(TextScore.of(float(nats.sum()), len(nats), len(text), pseudo=self.pseudo))
        return found

    @abstractmethod
    def nats(self, model: Model, ids: np.ndarray) -> np.ndarray:
        """−log p of each id of a text."""

    def whole(self, text: str) -> np.ndarray:
        """The ids of a text without blanks."""
        ids = np.array(self.ids(text), np.int64)
        if (ids == MASK).any():
            raise UserError(
                what=f"There is a {BLANK} in “{clipped(text)}”.",
                why="How likely a text is can be said of a whole one alone.",
                fix="Put a word there.",
            )
        return ids if len(ids) else np.array([UNK])

    # Vectors ------------------------------------------------------------------------------------------------

    def embed(self, model: Model, given: Sequence[Given]) -> list[TextEmbedding]:
        """The last states of the tokens of each text, without what stands around it, and their mean.

        A state has always read its own token. A long text is read in blocks.
        """
        texts = self.single(given)
        before, after = map(len, self.around)
        ids = [np.array(self.ids(text) or [UNK]) for text in texts]
        room = self.context - before - after
        blocks = [(row, block) for row, some in enumerate(ids) for block in in_blocks(some, room)]
        states: dict[int, Tensor] = {}
        groups = in_order(np.array([len(block) for _, block in blocks]), INFERENCE_TOKENS)
        read = partial(self._read, [block for _, block in blocks])
        for places, made in computed(model, groups, read, model.seen):
            for number, place in enumerate(places.tolist()):
                states[place] = made[number, before : before + len(blocks[place][1])].cpu()
        found = []
        for row, text in enumerate(texts):
            each = (
                torch.cat([states[place] for place, (of, _) in enumerate(blocks) if of == row])
                .double()
                .numpy()
            )
            vectors = [tuple(vector) for vector in each.tolist()]
            tokens = tuple(zip(self.written(text), vectors, strict=True))
            found.append(TextEmbedding(tuple(each.mean(axis=0).tolist()), tokens))
        return found

    def _read(self, blocks: Sequence[np.ndarray], places: Rows) -> Batch:
        """Blocks of ids as they were read in training, with what stands around them."""
        before, after = self.around
        rows = [np.concatenate([before, blocks[place], after]).astype(np.int64) for place in places]
        return Batch({"text": padded(rows)}, torch.from_numpy(places))

    # Looking inside -----------------------------------------------------------------------------------------

    def surprise(self, model: Model, text: str, looked: Sequence[Map] = ()) -> Explanation:
        """How much each token surprised the model, and where it looked; of a long text the last tokens."""
        pieces, most = self.written(text), self.context
        bits = self.nats(model, self.whole(text)) / np.log(2)
        note = f"Shown are the last {most} pieces." if len(pieces) > most else ""
        name = "how much each piece surprised the model" + (", from both sides" if self.pseudo else "")
        shown = Map(name=name, kind="tokens", weights=bits[-most:], pieces=tuple(pieces[-most:]), unit="bits")
        return Explanation(
            text=text,
            label=f"{bits.sum() / len(text):.2f} {'pseudo-' if self.pseudo else ''}bits per character",
            scores={},
            maps=(*looked[:1], shown, *looked[1:]),
            method="attention" if looked else "surprise",
            note=note,
            beside=Attributions(note=MANY_ANSWERS),
        )

    # For the report -----------------------------------------------------------------------------------------

    def findings(self, model: Model, store: Store, part: Done, judged: Judged) -> Findings:
        exercise = part.exercise
        count = min(200, len(exercise.text.offsets) - 1)
        sentences = [self.sentence(exercise, number, self.context // 2) for number in range(count)]
        some = sorted(sentences, key=lambda sentence: abs(len(sentence) - 70))[:SAMPLES]
        return Findings(self.worst(model, part, judged), self.maps(model, some), self.samples(model, some))

    def worst(self, model: Model, part: Done, judged: Judged) -> list[Example]:
        """The sentences that surprised it most, by bits per character."""
        nats, units = judged.said, judged.meant
        bits = nats / np.log(2) / np.maximum(units[:, 0], 1)
        telling = (
            np.flatnonzero(units[:, 0] >= TELLING) if (units[:, 0] >= TELLING).any() else np.arange(len(bits))
        )
        rows = telling[np.argsort(-bits[telling], kind="stable")[:WORST]].tolist()
        return [Example(text=self.sentence(part.exercise, row), score=float(bits[row])) for row in rows]

    def sentence(self, exercise: DocumentExercise, number: int, most: int | None = None) -> str:
        """A sentence, or its beginning: so many tokens at the most."""
        start, end = exercise.text.offsets[number : number + 2].tolist()
        return " ".join(self.text.tokenizer.decode(exercise.text.values[start:end][:most].tolist()).split())

    def samples(self, model: Model, sentences: Sequence[str]) -> list[str]:
        """What it makes of sentences with blanks: first what it was given, then what it wrote."""
        samples = []
        for sentence in sentences:
            asked, meant = with_blanks(sentence, self.tokens.letters)
            if meant:
                samples.append("\n".join([asked, *self.told(model, asked, meant)]))
        return samples

    def told(self, model: Model, asked: str, meant: Sequence[str]) -> list[str]:
        """What it makes of a text with blanks, in a few lines."""
        [said] = self.predict(model, [asked], self.known.decode)
        return [said.to_json()["text"]]

    def maps(self, model: Model, sentences: Sequence[str]) -> list[Explanation]:
        """What it looked at in one of these sentences."""
        asked = [with_blanks(sentence, self.tokens.letters)[0] for sentence in sentences]
        return [
            self.explain(model, text, self.known.decode) for text in asked if text.strip() and BLANK in text
        ][:1]


def document_parts(answer: type[DocumentsAnswer], symbols: int) -> Facts:
    """What the parts of a model need to know when there are so many symbols."""
    outputs = {name: symbols if count is None else count for name, count in answer.outputs.items()}
    names = {"text": symbols, "written": symbols}
    return Facts(symbols=names, outputs=outputs, segments=2 if "row" in outputs else 1, joint=True)


def with_blanks(sentence: str, letters: bool = False) -> tuple[str, list[str]]:
    """A sentence with a word (or a letter) missing after a third of it and one after two thirds, and what is
    missing."""
    words = list(re.finditer(r"\w" if letters else r"\w+", sentence))
    chosen = [words[place] for place in sorted({len(words) // 3, 2 * len(words) // 3})] if words else []
    for word in reversed(chosen):
        sentence = sentence[: word.start()] + BLANK + sentence[word.end() :]
    return sentence, [word[0] for word in chosen]


def clipped(text: str, most: int = 60) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"

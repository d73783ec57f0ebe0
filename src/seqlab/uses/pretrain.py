"""What a pretrained run can do by itself: fill blanks, judge pairs, write on, repair; score, embed, explain."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from seqlab.data.batches import Rows, in_order
from seqlab.data.read import Role, Row
from seqlab.data.store import concatenate
from seqlab.data.stream import TEXT
from seqlab.data.text import BOS, CLS, EOS, MASK, PAD, SEP, UNK
from seqlab.decode import DecodeConfig, Found, Marks, decode, decode_all
from seqlab.decode.many import by_length
from seqlab.errors import UserError
from seqlab.folder import BASELINE
from seqlab.inference import computed
from seqlab.likelihood import decoder_of, grows, stream_nats
from seqlab.parts import Batch
from seqlab.report.attention import Explanation
from seqlab.report.evaluate import Scores, evaluate_pieces
from seqlab.settings import Settings
from seqlab.tasks import pretrain
from seqlab.tasks.classify import TEXT2
from seqlab.tasks.cloze import (
    BLANK,
    Candidate,
    Cloze,
    Said,
    Shown,
    Words,
    all_at_once,
    ask,
    bracketed,
    each_hidden,
    fill_all,
    in_blocks,
    nats_of,
    paired,
)
from seqlab.tasks.continuing import Pen
from seqlab.tasks.exercises import INFERENCE_TOKENS, Exercise, Pieces, padded
from seqlab.tasks.ngrams import NGrams
from seqlab.tasks.pretrain import Pretrain, PretrainFacts, PretrainPrepared
from seqlab.tasks.tally import Tally, foreseen, scored
from seqlab.tasks.task import Files, Prepared, TaskFacts, chunks, same_columns
from seqlab.tasks.text_files import load_tokenizer, open_table
from seqlab.uses import pretrain_shown
from seqlab.uses.generate import LONGEST, Generated, refuse_empty, text_after
from seqlab.uses.pretrain_answers import LABELS, Blank, Filled, Repaired, Vectors
from seqlab.uses.run import Findings, Run, Text, TextScore, one_or_many

MARKS = Marks(start=BOS, end=EOS, banned=(PAD, UNK, SEP, CLS, MASK, BOS))


class PretrainRun(Run):
    """A model that was pretrained on text alone."""

    together = 256
    facts: PretrainFacts

    def __init__(self, folder: Path, settings: Settings, facts: TaskFacts) -> None:
        super().__init__(folder, settings, facts)
        self.tokenizer = load_tokenizer(folder)
        self.refuse_other_symbols({"text": self.tokenizer.size})
        self.words = Words(self.tokenizer)

    @property
    def task(self) -> Pretrain:
        assert isinstance(self.settings.task, Pretrain)
        return self.settings.task

    @property
    def context(self) -> int:
        return self.task.context

    @property
    def objective(self) -> pretrain.Objective:
        return self.facts.objective

    @property
    def example(self) -> str:
        return "the" if self.objective == "causal" else self.task.example

    @cached_property
    def pen(self) -> Pen:
        return Pen(self.model, SEP, endless=True, window=self.context if grows(decoder_of(self.model)) else None)

    @cached_property
    def baseline(self) -> NGrams | None:
        """The n-grams that were counted beside this model."""
        folder = self.folder / BASELINE
        return NGrams.load(folder) if folder.exists() else None

    def roles(self, labelled: bool) -> list[Role]:
        return [TEXT, TEXT2] if self.objective == "masked+next" else [TEXT]

    # Answering -----------------------------------------------------------------------------------------------------

    @one_or_many
    def predict(
        self, texts: Sequence[Text], settings: Mapping[str, Any] | None = None
    ) -> Sequence[Filled] | Sequence[Generated] | Sequence[Repaired]:
        """One answer a text, in order.

        masked, masked+next, blank, both-ways: each [MASK] of a text is filled, with the next best pieces beside it; of a
        pair of texts (masked+next) it is also said whether the second follows the first. causal: the text is continued;
        denoise: it is repaired. Both write as `settings` say: {"decode.temperature": 1.0}, {"decode.beam": 4}.
        """
        if not texts:
            return []
        if self.objective == "causal":
            return self._continued(self.single(texts), self.decoding(settings))
        if self.objective == "denoise":
            return self._repaired(self.single(texts), self.decoding(settings))
        if self.objective in ("blank", "both-ways"):
            return self._filled_in_turn(self.single(texts))
        return self._filled(texts)

    def text_of(self, row: Row) -> Text:
        """A tab in the text of a row joins a pair; so does a second column of a table."""
        first, tab, second = row.cells["text"].partition("\t")
        second = row.cells.get("text2", second)
        return (first, second) if tab or "text2" in row.cells else first

    def single(self, texts: Sequence[Text]) -> list[str]:
        if any(not isinstance(text, str) for text in texts):
            raise UserError(
                what="There is a pair of texts (a tab joins two).",
                why="Only predict and explain of a run with task.objective=masked+next take pairs; "
                f"this run learnt {self.objective}.",
                fix="Give one text, without a tab.",
            )
        single = [text for text in texts if isinstance(text, str)]
        refuse_empty(single)
        return single

    def _cut(self, text: str) -> Cloze:
        cloze = self.words.cut(text)
        if not len(cloze.blanks):
            raise UserError(
                what=f"There is no {BLANK} in “{_shortened(text)}”.",
                why=f"This model learnt to find what is missing ({self.objective}): it has to know where.",
                fix=f'Write {BLANK} where a word is missing: "{self.example}". Or ask how likely the text is, with --score; '
                "for its vector, with --embed.",
            )
        return cloze

    def _filled(self, texts: Sequence[Text]) -> list[Filled]:
        """[CLS] text [SEP], or [CLS] x [SEP] y [SEP]; all blanks at once, as they were masked in training."""
        clozes: list[list[Cloze]] = []
        for text in texts:
            if isinstance(text, str) or self.objective != "masked+next":
                clozes.append([self._cut(one) for one in self.single([text])])
            else:
                refuse_empty(text)
                clozes.append([self.words.cut(one) for one in text])
        rows = [self.as_shown(some) for some in clozes]

        def rank(row: int, blank: int, chances: np.ndarray) -> tuple[Candidate, ...]:
            fits = [self.words.fits(cloze, number) for cloze in clozes[row] for number in range(len(cloze.blanks))]
            return self.words.ranked(chances, fits[blank])

        return [
            self._answer(some, said, row.cut) for some, said, row in zip(clozes, ask(self.model, rows, rank), rows, strict=True)
        ]

    def as_shown(self, clozes: Sequence[Cloze]) -> Shown:
        if len(clozes) == 2:
            return paired(clozes[0].ids, clozes[1].ids, self.context)
        return bracketed(clozes[0].ids, clozes[0].blanks, self.context)

    def _filled_in_turn(self, texts: Sequence[str]) -> list[Filled]:
        """The bare text, blank after blank from left to right."""
        clozes = [self._cut(text) for text in texts]
        found = fill_all(self.model, self.words, clozes, self.context)
        return [self._answer([cloze], said, cut) for cloze, (said, cut) in zip(clozes, found, strict=True)]

    def _answer(self, clozes: Sequence[Cloze], said: Said, cut: int) -> Filled:
        best = iter([blank[0].id for blank in said.blanks])
        text = "\t".join(self.words.fill(cloze, [next(best) for _ in cloze.blanks]) for cloze in clozes)
        pieces = sum(len(cloze.ids) for cloze in clozes)
        note = f"The text has {pieces:,} pieces; the model looked at {pieces - cut:,} of them." if cut else ""
        blanks = tuple(Blank.of(candidates) for candidates in said.blanks)
        if len(clozes) == 1 or said.follows is None:
            return Filled(text, blanks, note=note)
        scores = {label: round(share, 6) for label, share in zip(LABELS, said.follows, strict=True)}
        return Filled(text, blanks, LABELS[int(np.argmax(said.follows))], scores, note)

    def _continued(self, prompts: Sequence[str], how: DecodeConfig) -> list[Generated]:
        if any(BLANK in prompt for prompt in prompts):
            raise UserError(
                what=f"There is a {BLANK} in a text.",
                why="This model learnt to continue texts (causal): it sees what is before a word, not what is after it.",
                fix="Give the beginning of a text alone, or pretrain with task.objective=masked to fill blanks.",
            )
        given = [self.ids(prompt) for prompt in prompts]
        unit = "character" if self.words.letters else "subword" if self.words.carries else "word"
        written = self.pen.write(given, how, how.longest or LONGEST[unit])
        answers = []
        for prompt, ids, more in zip(prompts, given, written, strict=True):
            seen = len(self.pen.seen(self.pen.opened(ids))) - 1
            note = f"The prompt has {len(ids):,} pieces; the model looked at the last {seen:,}." if seen < len(ids) else ""
            answers.append(Generated(prompt + text_after(self.tokenizer, ids, more), note))
        return answers

    def _repaired(self, texts: Sequence[str], how: DecodeConfig) -> list[Repaired]:
        found = self.search([self.words.cut(text).ids for text in texts], how)
        return [Repaired(self.tokenizer.decode(best[0].ids), best[0].score) for best in found]

    def search(self, texts: Sequence[np.ndarray], how: DecodeConfig) -> list[list[Found]]:
        """What the decoder writes for noisy texts, best first."""
        room = self.context + round(self.context * self.task.masking)    # noise adds masks where nothing is missing
        if long := max((len(ids) for ids in texts if len(ids) > room), default=0):
            raise UserError(
                what=f"A text has {long:,} pieces.",
                why=f"This model learnt to repair texts of up to {room:,} (task.context).",
                fix="Give its sentences one by one.",
            )
        rows = [np.concatenate([ids, [EOS]]) for ids in texts]

        def one(places: Sequence[int]) -> list[list[Found]]:
            read = padded([rows[place] for place in places])
            memory = self.model.encoded(Batch({"text": read}, torch.tensor(places)))[1]
            opening, longest = MARKS.opening([[]] * len(places)), how.limits(read.lengths)
            return decode(decoder_of(self.model), memory, opening, config=how, marks=MARKS, longest=longest, numbers=list(places))

        self.model.eval()
        return decode_all(by_length([len(row) for row in rows]), one, how.workers)

    def ids(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode([text], empty=True).values.tolist()
        return ids

    # Scoring -------------------------------------------------------------------------------------------------------

    @one_or_many
    def score(self, texts: Sequence[Text]) -> list[TextScore]:
        """Perplexity per piece and bits per character of each text.

        causal: each piece from those before it, [SEP] before the first; so it is a true perplexity. masked: each piece
        masked in turn, with [CLS] and [SEP] around the text; blank and both-ways: all pieces in one pass over each block of
        task.context pieces. These see both sides of a piece, so theirs is a pseudo-perplexity (Salazar et al. 2020).
        """
        if self.objective == "denoise":
            raise UserError(
                what=f"{self.folder} learnt to repair texts (denoise).",
                why="How likely a text is, it says only beside a noisy copy of it.",
                fix="Leave --score out, or pretrain with task.objective=causal or masked.",
            )
        found = []
        for text in self.single(texts):
            nats = self.nats(self.whole(text))
            found.append(TextScore.of(float(nats.sum()), len(nats), len(text), pseudo=self.objective != "causal"))
        return found

    def whole(self, text: str) -> np.ndarray:
        """The ids of a text without blanks."""
        ids = np.array(self.ids(text), np.int64)
        if (ids == MASK).any():
            raise UserError(
                what=f"There is a {BLANK} in “{_shortened(text)}”.",
                why="How likely a text is can be said of a whole one alone.",
                fix="Put a word there.",
            )
        return ids if len(ids) else np.array([UNK])

    def nats(self, ids: np.ndarray) -> np.ndarray:
        """−log p of each id of a text."""
        if self.objective == "causal":
            return stream_nats(self.model, ids, SEP, self.context)
        asked = all_at_once if self.objective in ("blank", "both-ways") else each_hidden
        return nats_of(self.model, asked(ids, self.context))

    def evaluate(self, data: str | Sequence[str], settings: Mapping[str, Any] | None = None) -> Scores:
        """Every metric of the objective on a whole text, with its interval and the n-grams beside it."""
        began = time.monotonic()
        names = [data] if isinstance(data, str) else list(data)
        flow = self.facts.flow
        table = open_table(names, same_columns(self.data_with(settings), self.facts.columns), flow)
        documents = pretrain.read_documents(table, flow == "text")
        parts = [pretrain.encode_texts(self.tokenizer, some) for some in chunks(documents, pretrain.CHUNK)]
        if not parts:
            raise UserError(
                what=f"{' '.join(names)}: there is no text to score.",
                why="The file is empty, or every row was left out as faulty (data.on_bad=skip).",
                fix="See the faults with: seqlab check pretrain FILE",
            )
        text, units = concatenate([rows for rows, _ in parts]), np.concatenate([counts for _, counts in parts])
        exercise = self.task.exercise(text, Pieces.of(self.tokenizer))
        return self.scored(scored(self.model, exercise, None), exercise, units, began, None)

    def scored(self, tally: Tally, exercise: Exercise, units: np.ndarray, began: float, most: int | None) -> Scores:
        """Scores of what the model made of an exercise, beside what n-grams make of it."""
        metrics, offsets = self.task.metrics, exercise.text.offsets
        beside: dict[str, Scores] = {}
        if self.baseline is not None:
            simple = foreseen(self.baseline, exercise, most).for_metrics(offsets, units)
            beside[f"{self.baseline.order}-gram"] = evaluate_pieces(*simple, metrics)
        seconds = time.monotonic() - began
        told = tally.for_metrics(offsets, units)
        scores = evaluate_pieces(*told, metrics, seconds=seconds, baselines=beside)
        return self.signed(scores, self.task.sampled)

    # Vectors -------------------------------------------------------------------------------------------------------

    @one_or_many
    def embed(self, texts: Sequence[Text]) -> list[Vectors]:
        """The last states of the pieces of each text, marks left out, and their mean. A long text is read in blocks.

        blank and both-ways: of each piece the states that have read it, too. causal: what has read it and all before it.
        denoise: the encoder's.
        """
        single = self.single(texts)
        found = []
        marks = {"causal": (1, 0), "denoise": (0, 1), "blank": (0, 0), "both-ways": (0, 0)}.get(self.objective, (1, 1))
        ids = [np.array(self.ids(text) or [UNK]) for text in single]
        blocks = [(row, block) for row, some in enumerate(ids) for block in in_blocks(some, self.context - sum(marks))]
        states: dict[int, Tensor] = {}
        groups = in_order(np.array([len(block) for _, block in blocks]), INFERENCE_TOKENS)
        read = partial(self._read, [block for _, block in blocks])
        for places, made in computed(self.model, groups, read, self.model.seen):
            for number, place in enumerate(places.tolist()):
                states[place] = made[number, marks[0] : marks[0] + len(blocks[place][1])].cpu()
        for row, text in enumerate(single):
            each = torch.cat([states[place] for place, (of, _) in enumerate(blocks) if of == row]).double().numpy()
            vectors = [tuple(vector) for vector in each.tolist()]
            found.append(Vectors(tuple(each.mean(axis=0).tolist()), tuple(zip(self.written(text), vectors, strict=True))))
        return found

    def _read(self, blocks: Sequence[np.ndarray], places: Rows) -> Batch:
        """Blocks of ids as they were read in training, with what stands around them."""
        around = {"causal": ([SEP], []), "denoise": ([], [EOS]), "blank": ([], []), "both-ways": ([], [])}
        before, after = around.get(self.objective, ([CLS], [SEP]))
        rows = [np.concatenate([before, blocks[place], after]).astype(np.int64) for place in places]
        return Batch({"text": padded(rows)}, torch.from_numpy(places))

    def written(self, text: str) -> list[str]:
        """The pieces of a text as it is written, one for each id."""
        return [piece.replace("\n", "⏎") for piece in self.tokenizer.pieces(text)]

    # Looking inside ------------------------------------------------------------------------------------------------

    def explain(self, text: Text) -> Explanation:
        """Where the model looked: attention; without any, gradient × input of the answer at the first blank.

        Of a text without blanks, how much each piece surprised it (where one pass tells); denoise: the alignment of what it
        writes with what it reads.
        """
        return pretrain_shown.explain(self, text)

    def findings(self, prepared: Prepared, files: Files, split: str) -> Findings:
        assert isinstance(prepared, PretrainPrepared)
        return pretrain_shown.findings(self, prepared, split)


def _shortened(text: str, most: int = 60) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"

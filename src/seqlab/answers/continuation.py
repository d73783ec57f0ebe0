"""A language model's answer: how a text goes on, and how likely it is."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from seqlab.answers.answer import Answer, Exercise, Extent, Findings, Judged, Known, TextScore, refuse_empty
from seqlab.answers.writer import LONGEST, Generated, Writer, text_after
from seqlab.data.batches import FIXED, Plan, Rows, Seeds
from seqlab.data.cells import Cells
from seqlab.data.store import Ragged, Store, pad_rows
from seqlab.data.stream import FOLLOWS, START, Blocks, Streams, encode_text, split_text, stretches
from seqlab.data.tokenizers import BOS
from seqlab.decode import DecodeConfig
from seqlab.errors import UserError
from seqlab.fields.field import Given, GivenField
from seqlab.fields.running import SCORED, WrittenFacts, WrittenRunningField
from seqlab.likelihood import decoder_of, grows, row_nats, stream_nats, sums
from seqlab.metrics import Metric
from seqlab.model import Model, device_of
from seqlab.parts import Batch, Facts, record
from seqlab.report.attention import layer_maps
from seqlab.report.evaluate import Scores
from seqlab.report.explanation import MANY_ANSWERS, Attributions, Explanation, Map
from seqlab.report.words import Example
from seqlab.seq import Nested, Seq
from seqlab.text_metrics import (
    BitsPerCharacter,
    BitsPerCharacterMisled,
    PerplexityPerWord,
    PerplexityPerWordOrEnd,
)

SAMPLED = {"character": 80, "word": 20, "subword": 25}
"""Ids of the sample that is shown at a validation."""
EXPLAINED = 512
"""Ids of a text that are explained, at most: the last ones."""
TELLING = 20
"""Characters from which on a line can be among the most surprising ones."""
WORST = 12
ReadBeside = Mapping[str, Ragged]
"""What a model reads beside each row, by the names of its inputs; empty: nothing."""


class PerplexityPerPiece(PerplexityPerWord):
    """exp(nats / ids) of a model of words that neither sees nor writes spaces and line ends."""

    unit = "perplexity per word or mark, unknown words as one"


class PerplexityPerPieceOrEnd(PerplexityPerPiece):
    """The same where each row has an end that is predicted, too."""

    unit = "perplexity per word, mark or end of a row, unknown words as one"


@dataclass(frozen=True)
class ScoredText:
    """The lines or rows that are scored, their characters and words (N 2), and the lines themselves, where
    they were kept."""

    written: Ragged
    units: np.ndarray
    raw: Store


class ContinueExercise(Exercise):
    """Each next id: of rows, of blocks of running text, or of streams whose state is carried along."""

    def __init__(
        self,
        written: Ragged,
        rows: bool,
        opening: int,
        context: int,
        carries: bool,
        read: ReadBeside | None = None,
    ) -> None:
        """read: what is read beside each row, by the names of the model's inputs."""
        self.written, self.rows, self.opening = written, rows, opening
        self.context, self.carries, self.read = context, carries, read or {}

    def plan(self, budget: int, seed: int) -> Plan:
        if self.rows:
            return Plan(self.written.sizes(), budget, seed)
        kind = Streams if self.carries else Blocks
        return kind(len(self.written.values), self.context, budget // self.context, seed)

    def batch(self, rows: Rows, seeds: Seeds = FIXED) -> Batch:
        if self.rows:
            some = pad_rows(self.written, rows)
            assert isinstance(some, Seq)
            return Batch(_inputs(self.read, rows), torch.from_numpy(rows), {"written": some})
        ids = torch.from_numpy(stretches(self.written.values, rows, self.opening))
        target = Seq(ids, torch.ones(ids.shape, dtype=torch.bool))
        return Batch(
            {}, torch.from_numpy(rows[:, START]), {"written": target}, follows=bool(rows[0, FOLLOWS])
        )


class ContinuationAnswer(Answer):
    """How a text goes on, from a decoder alone; or from what is given for all of it, a label or a vector.

    context: ids that are seen at once in training; stride: how far the window moves when a longer text is
    scored (None: half of that); carries: whether training takes the state along; sampled: symbols that
    training compares with; given: what is read beside each row (None: nothing).
    """

    together = 256
    joins = False
    begins = True

    def __init__(
        self,
        known: Known,
        text: WrittenRunningField,
        context: int,
        stride: int | None,
        carries: bool,
        sampled: int | None,
        given: GivenField | None = None,
    ) -> None:
        super().__init__(known)
        self.text, self.context, self.stride = text, context, stride
        self.carries, self.sampled, self.given = carries, sampled, given

    @property
    def learnt(self) -> WrittenFacts:
        return self.text.facts

    @property
    def by_rows(self) -> bool:
        return self.learnt.flow == "rows"

    @property
    def metrics(self) -> list[Metric]:
        return self._plain_metrics + ([BitsPerCharacterMisled()] if self.given else [])

    @property
    def _plain_metrics(self) -> list[Metric]:
        if self.learnt.unit == "word":
            if self.learnt.spaced:
                return [PerplexityPerWordOrEnd(), BitsPerCharacter()]
            return [PerplexityPerPieceOrEnd() if self.learnt.line_ends else PerplexityPerPiece()]
        return [BitsPerCharacter(), PerplexityPerWordOrEnd()]

    @property
    def parts(self) -> Facts:
        return Facts(symbols=self.facts.symbols, features=self.given.features if self.given else {})

    @property
    def example(self) -> str:
        return ""

    @property
    def ask(self) -> str:
        return self.beside.strip()

    @property
    def beside(self) -> str:
        return f" --given {shlex.quote(self.given.examples[0])}" if self.given else ""

    # Learning and scoring -----------------------------------------------------------------------------------

    def exercise(self, store: Store) -> ContinueExercise:
        written, read = store.fields["written"], self._beside(store)
        return ContinueExercise(written, self.by_rows, self.learnt.opening, self.context, self.carries, read)

    def _beside(self, store: Store) -> ReadBeside:
        """What is read beside the rows of a store."""
        return {name: store.fields[name] for name in self.given.names} if self.given else {}

    def part(self, store: Store, extent: Extent) -> ScoredText:
        """The first lines or rows, as many as are scored while training and for the report; or all."""
        written = store.fields["written"]
        rows = written.rows
        if extent != "whole":
            rows = max(1, int(np.searchsorted(written.offsets, SCORED, side="right")) - 1)
        units = np.stack([store.arrays["characters"][:rows], store.arrays["words"][:rows]], axis=1).astype(
            np.int64
        )
        ids = Ragged(
            np.asarray(written.values[: written.offsets[rows]], np.int64), written.offsets[: rows + 1]
        )
        return ScoredText(ids, units, store)

    def judge(self, model: Model, part: ScoredText, extent: Extent, how: DecodeConfig) -> Judged:
        """The nats of each row; in a second column, those with what was given for other rows."""
        written = part.written
        nats = sums(self.nats(model, written, self._beside(part.raw)), written.offsets)
        loss = float(nats.sum() / self.predicted(written))
        if self.given is None or extent == "watched":
            return Judged(nats, part.units, loss)
        others = self.given.others(part.raw, written.rows)
        misled = sums(self.nats(model, written, others), written.offsets)
        return Judged(np.stack([nats, misled], axis=1), part.units, loss)

    def scores(self, said: np.ndarray, meant: np.ndarray, metrics: Sequence[Metric]) -> Scores:
        return self.signed(super().scores(said, meant, metrics), self.sampled)

    def nats(self, model: Model, written: Ragged, read: ReadBeside | None = None) -> np.ndarray:
        """−log p of each id, [BOS] having none; `read` is what is read beside the rows."""
        if self.by_rows:
            return row_nats(model, written, read)
        return stream_nats(model, written.values, self.learnt.opening, self.context, self.stride)

    def predicted(self, written: Ragged) -> int:
        """Ids that have to be predicted: all but [BOS]."""
        return len(written.values) - (written.rows if self.by_rows else 0)

    def sample(self, model: Model, part: ScoredText, judged: Judged, how: DecodeConfig) -> str:
        """A few words out of nothing, with the same random choices each time."""
        most = SAMPLED[self.learnt.unit]
        pen = self.pen(model, self._numbers(self.given.examples[:1]) if self.given else {})
        ids = pen.write([[]], how, min(most, how.longest or most))[0]
        return " ".join(self.text.tokenizer.decode(ids).split())

    # What is given ------------------------------------------------------------------------------------------

    def asked_of(self, cells: Cells) -> Given:
        text = super().asked_of(cells)
        return (text, self.given.given_of(cells)) if self.given else text

    def joined(self, texts: Sequence[Given], given: Any) -> Sequence[Given]:
        """Pairs of a text and what is given for it: one for all of them, or a list with one for each."""
        if self.given is None:
            return super().joined(texts, given)
        if given is None:
            return texts
        single = isinstance(given, str) or all(isinstance(one, (int, float)) for one in given)
        each = [given] * len(texts) if single else list(given)
        if len(each) != len(texts):
            raise UserError(
                what=f"{len(each)} {self.given.noun}s are given for {len(texts)} texts.",
                why="Each text is written for one of them.",
                fix=f"Give one {self.given.noun} for all texts, or one for each.",
            )
        return list(zip(texts, each, strict=True))

    def _apart(self, asked: Sequence[Given]) -> tuple[list[str], ReadBeside]:
        """The texts or prompts, and what is given for them, as numbers."""
        if self.given is None:
            return [self.text.cells_of(one)["text"] for one in asked], {}
        if lacks := [one for one in asked if not (isinstance(one, tuple) and len(one) == 2)]:
            noun, example = self.given.noun, self.given.examples[0]
            raise UserError(
                what=f'No {noun} is given for "{str(lacks[0])[:60]}".',
                why=f"This model writes a text for a {noun}.",
                fix=f"Add --given {shlex.quote(example)}; in Python, given={example!r}",
            )
        return [self.text.cells_of(one)["text"] for one, _ in asked], self._numbers([one for _, one in asked])

    def _numbers(self, given: Sequence[Given]) -> ReadBeside:
        assert self.given is not None
        return self.given.encode([self.given.cells_of(one) for one in given], None, keep=False).values

    # Writing ------------------------------------------------------------------------------------------------

    def pen(self, model: Model, read: ReadBeside | None = None) -> Writer:
        """The model, ready to write; `read` is what it reads beside each prompt."""
        model.eval()
        memory = _memory(model, read) if read else None
        sees_all = not grows(decoder_of(model), memory)
        window = None if sees_all else self.learnt.longest if self.by_rows else self.context
        opening = self.learnt.opening
        return Writer(
            model, self.text.tokenizer, opening, endless=not self.by_rows, window=window, memory=memory
        )

    def predict(self, model: Model, given: Sequence[Given], how: DecodeConfig) -> list[Generated]:
        """Each prompt and its continuation; an empty prompt starts from nothing."""
        if not given:
            return []
        prompts, read = self._apart(given)
        pen = self.pen(model, read)
        ids = [self._ids(pen, prompt) for prompt in prompts]
        written = pen.write(ids, how, self._longest(how))
        after = [
            text_after(self.text.tokenizer, begun, more) for begun, more in zip(ids, written, strict=True)
        ]
        return [
            Generated(prompt + more, self._note(pen, begun))
            for prompt, begun, more in zip(prompts, ids, after, strict=True)
        ]

    def stream(self, model: Model, given: Given, how: DecodeConfig) -> Iterator[str]:
        """What follows the prompt. A piece that ends within a character waits for its rest."""
        if how.beam > 1:
            raise UserError(
                what=f"decode.beam is {how.beam}, but the text is to come piece by piece.",
                why="A beam does not know its first word before its last.",
                fix="Set decode.beam=1, or use predict.",
            )
        [prompt], read = self._apart([given])
        if how.ignore_end:  # what comes after the end is known when all is written
            yield self.predict(model, [given], how)[0].text[len(prompt) :]
            return
        pen, tokenizer = self.pen(model, read), self.text.tokenizer
        begun = self._ids(pen, prompt)
        more: list[int] = []
        told = ""
        for number in pen.stream(begun, how, self._longest(how)):
            more.append(number)
            text = text_after(tokenizer, begun, more)
            if not text.endswith("\ufffd") and len(text) > len(told):
                yield text[len(told) :]
                told = text
        if rest := text_after(tokenizer, begun, more)[len(told) :]:
            yield rest

    def _longest(self, how: DecodeConfig) -> int:
        return how.longest or (self.learnt.longest if self.by_rows else LONGEST[self.learnt.unit])

    def _ids(self, pen: Writer, prompt: str) -> list[int]:
        tokenizer = self.text.tokenizer
        if not self.by_rows:
            return [int(number) for number in encode_text(tokenizer, prompt)]
        ids = [int(number) for number in tokenizer.encode([prompt], empty=True).values]
        if pen.window is not None and len(ids) + 1 >= pen.window:
            raise UserError(
                what=f"The prompt has {len(ids)} {self.learnt.unit}s.",
                why=(
                    f"The model has learnt texts of up to {pen.window - 2}, and a Transformer does not know"
                    " what comes after that."
                ),
                fix="Shorten the prompt, or train with longer texts (data.length).",
            )
        return ids

    def _note(self, pen: Writer, ids: list[int]) -> str:
        if pen.window is None or len(ids) < pen.window:
            return ""
        return (
            f"The prompt has {len(ids)} {self.learnt.unit}s; the model looked at the last"
            f" {len(pen.seen(ids))}."
        )

    # How likely ---------------------------------------------------------------------------------------------

    def score_texts(self, model: Model, given: Sequence[Given]) -> list[float]:
        """log p of each text, in nats; each begins after nothing, and a model of rows also predicts its
        end."""
        texts, read = self._apart(given)
        if self.by_rows:
            written = self.text.ids(texts)[0]
            return [-float(total) for total in sums(self.nats(model, written, read), written.offsets)]
        tokenizer = self.text.tokenizer
        return [-float(self.nats(model, _one_row(encode_text(tokenizer, text))).sum()) for text in texts]

    def score(self, model: Model, given: Sequence[Given]) -> list[TextScore]:
        """Perplexity per id and bits per character of each text; the end of a row counts as one more of
        both."""
        whole, _ = self._apart(given)
        refuse_empty(whole)
        found = []
        for text, total in zip(whole, self.score_texts(model, given), strict=True):
            rows, units, _ = self.text.ids([text])
            found.append(TextScore.of(-total, self.predicted(rows), int(units[0, 0])))
        return found

    # Looking inside -----------------------------------------------------------------------------------------

    def explain(
        self, model: Model, given: Given, how: DecodeConfig, target: str | None = None
    ) -> Explanation:
        """How much each piece of a text surprised the model and, of a Transformer, where it looked."""
        [text], read = self._apart([given])
        ids, pieces = self._pieces(text)
        pen = self.pen(model, read)
        window = pen.window
        most = min(EXPLAINED, window or EXPLAINED)
        note = f"Shown are the last {most} {self.learnt.unit}s." if len(ids) > most else ""
        opened = [BOS, *ids] if self.by_rows else ids
        bits = self.nats(model, _one_row(np.array(opened)), read)[-len(ids) :] / np.log(2)
        surprise = Map(
            name="how much each piece surprised the model",
            kind="tokens",
            weights=bits[-most:],
            pieces=tuple(pieces[-most:]),
            unit="bits",
        )
        fed = torch.tensor([[self.learnt.opening, *ids][-most - 1 :]])
        with record(model) as tapes, torch.no_grad():
            decoder = decoder_of(model)
            decoder.advance(fed[:, :-1], decoder.start(pen.memory, 1))
        before = self._shown(self.learnt.opening) if len(ids) <= most else pieces[-most - 1]
        shown = [before, *pieces[-most:-1]]
        layers = [tape[-1][0].float().cpu().numpy() for tape in tapes.values() if tape]
        layers = [layer for layer in layers if layer.shape[-1] == len(shown)]  # not those over what is given
        looked = layer_maps(layers, shown)
        whole, unit = (len(ids), "word") if self.learnt.unit == "word" else (len(text), "character")
        return Explanation(
            text=text,
            label=f"{bits.sum() / whole:.2f} bits per {unit}",
            scores={},
            maps=(*looked[:1], surprise, *looked[1:]),
            method="attention" if looked else "surprise",
            note=note,
            beside=Attributions(note=MANY_ANSWERS),
        )

    def _pieces(self, text: str) -> tuple[list[int], list[str]]:
        """The ids of a text, and what each stands for."""
        tokenizer = self.text.tokenizer
        ids: list[int] = []
        pieces: list[str] = []
        for part in [text] if self.by_rows else split_text(text):
            found = tokenizer.encode([part], empty=True).values.tolist()
            ids += found
            pieces += tokenizer.pieces(part) if found else []
        if not ids:
            raise UserError(
                what="The text is empty.",
                why="There is nothing to explain.",
                fix='Give a text, such as "the time"',
            )
        return ids, [piece.replace("\n", "⏎") for piece in pieces]

    def _shown(self, number: int) -> str:
        return self.text.tokenizer.decode([number]).replace("\n", "⏎") or "[BOS]"

    # For the report -----------------------------------------------------------------------------------------

    def findings(self, model: Model, store: Store, part: ScoredText, judged: Judged) -> Findings:
        lines = [str(text) for text in self.text.texts(store, np.arange(min(8, part.written.rows)))]
        telling = [" ".join(line.split()[:4]) for line in lines if len(line.split()) > 5]
        samples = self._samples_given(model) if self.given else self._samples(model, telling[:1])
        return Findings(self._worst(judged, store), self._maps(model, store, lines), samples=samples)

    def _samples(self, model: Model, prompts: Sequence[str]) -> list[str]:
        """What it writes out of nothing and from a prompt, nearer to the likeliest or farther from it."""
        samples = []
        for temperature in (0.5, 0.8, 1.0):
            said = self.predict(model, ["", *prompts], self._drawing(temperature))
            for prompt, one in zip(["", *prompts], said, strict=True):
                begin = f", from “{prompt}”" if prompt else ""
                samples.append(f"At temperature {temperature}{begin}:\n{one.text.strip()}")
        return samples

    def _samples_given(self, model: Model) -> list[str]:
        """What it writes for some of what may be given."""
        assert self.given is not None
        samples, given = [], self.given.examples
        for temperature in (0.5, 0.8):
            said = self.predict(model, [("", one) for one in given], self._drawing(temperature))
            samples += [
                f"Given “{one}”, at temperature {temperature}:\n{text.text.strip()}"
                for one, text in zip(given, said, strict=True)
            ]
        return samples

    def _drawing(self, temperature: float) -> DecodeConfig:
        most = LONGEST[self.learnt.unit] // 2
        how = self.known.decode
        return replace(how, temperature=temperature, sample=True, longest=most, beam=1, n_best=1)

    def _worst(self, judged: Judged, store: Store) -> list[Example]:
        """The lines that surprised it most, by bits per character."""
        nats, units = judged.said.reshape(len(judged.said), -1)[:, 0], judged.meant
        bits = nats / np.log(2) / np.maximum(units[:, 0], 1)
        telling = (
            np.flatnonzero(units[:, 0] >= TELLING) if (units[:, 0] >= TELLING).any() else np.arange(len(bits))
        )
        rows = telling[np.argsort(-bits[telling], kind="stable")[:WORST]]
        given = [f"{one}: " for one in self.given.given(store, rows)] if self.given else [""] * len(rows)
        return [
            Example(
                text=before + str(text).strip(),
                said=f"{bits[row]:.2f} bits per character",
                score=float(bits[row]),
            )
            for before, text, row in zip(given, self.text.texts(store, rows), rows, strict=True)
        ]

    def _maps(self, model: Model, store: Store, lines: Sequence[str]) -> list[Explanation]:
        """What surprised it in the first lines that were scored."""
        text = max(lines, key=len, default="") if self.by_rows else "".join(lines)
        if not text.strip():
            return []
        asked: Given = text[:400]
        if self.given is not None:
            asked = (asked, self.given.given(store, np.array([lines.index(text)]))[0])
        return [self.explain(model, asked, self.known.decode)]


def _inputs(read: ReadBeside, rows: Rows) -> dict[str, Seq | Nested]:
    return {name: pad_rows(one, rows) for name, one in read.items()}


@torch.no_grad()
def _memory(model: Model, read: ReadBeside) -> Seq | None:
    """What a model makes of what is given, a row for each."""
    rows = np.arange(next(iter(read.values())).rows)
    return model.encoded(Batch(_inputs(read, rows), torch.from_numpy(rows)).to(device_of(model)))[1]


def _one_row(ids: np.ndarray) -> Ragged:
    return Ragged(np.asarray(ids, np.int64), np.array([0, len(ids)]))

"""A language model's answer: how a text goes on, and how likely it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from seqlab.answers.answer import Answer, Exercise, Extent, Findings, Judged, Known, TextScore, refuse_empty
from seqlab.answers.writer import LONGEST, Generated, Writer, text_after
from seqlab.data.batches import FIXED, Plan, Rows, Seeds
from seqlab.data.store import Ragged, Store, pad_rows
from seqlab.data.stream import FOLLOWS, START, Blocks, Streams, encode_text, split_text, stretches
from seqlab.data.tokenizers import BOS
from seqlab.decode import DecodeConfig
from seqlab.errors import UserError
from seqlab.fields.field import Given
from seqlab.fields.running import SCORED, WrittenFacts, WrittenRunningField
from seqlab.likelihood import decoder_of, grows, row_nats, stream_nats, sums
from seqlab.metrics import Metric
from seqlab.model import Model
from seqlab.parts import Batch, Facts, record
from seqlab.report.attention import Explanation, Map, layer_maps
from seqlab.report.evaluate import Scores
from seqlab.report.words import Example
from seqlab.seq import Seq
from seqlab.text_metrics import BitsPerCharacter, PerplexityPerWord, PerplexityPerWordOrEnd

SAMPLED = {"character": 80, "word": 20, "subword": 25}
"""Ids of the sample that is shown at a validation."""
EXPLAINED = 512
"""Ids of a text that are explained, at most: the last ones."""
TELLING = 20
"""Characters from which on a line can be among the most surprising ones."""
WORST = 12


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

    def __init__(self, written: Ragged, rows: bool, opening: int, context: int, carries: bool) -> None:
        self.written, self.rows, self.opening, self.context, self.carries = (
            written,
            rows,
            opening,
            context,
            carries,
        )

    def plan(self, budget: int, seed: int) -> Plan:
        if self.rows:
            return Plan(self.written.sizes(), budget, seed)
        kind = Streams if self.carries else Blocks
        return kind(len(self.written.values), self.context, budget // self.context, seed)

    def batch(self, rows: Rows, seeds: Seeds = FIXED) -> Batch:
        if self.rows:
            some = pad_rows(self.written, rows)
            assert isinstance(some, Seq)
            return Batch({}, torch.from_numpy(rows), {"written": some})
        ids = torch.from_numpy(stretches(self.written.values, rows, self.opening))
        target = Seq(ids, torch.ones(ids.shape, dtype=torch.bool))
        return Batch(
            {}, torch.from_numpy(rows[:, START]), {"written": target}, follows=bool(rows[0, FOLLOWS])
        )


class ContinuationAnswer(Answer):
    """How a text goes on, from a decoder alone.

    context: ids that are seen at once in training; stride: how far the window moves when a longer text is
    scored (None: half of that); carries: whether training takes the state along; sampled: symbols that
    training compares with.
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
    ) -> None:
        super().__init__(known)
        self.text, self.context, self.stride, self.carries, self.sampled = (
            text,
            context,
            stride,
            carries,
            sampled,
        )

    @property
    def learnt(self) -> WrittenFacts:
        return self.text.facts

    @property
    def by_rows(self) -> bool:
        return self.learnt.flow == "rows"

    @property
    def metrics(self) -> list[Metric]:
        if self.learnt.unit == "word":
            if self.learnt.spaced:
                return [PerplexityPerWordOrEnd(), BitsPerCharacter()]
            return [PerplexityPerPieceOrEnd() if self.learnt.line_ends else PerplexityPerPiece()]
        return [BitsPerCharacter(), PerplexityPerWordOrEnd()]

    @property
    def parts(self) -> Facts:
        return Facts(symbols=self.facts.symbols)

    @property
    def example(self) -> str:
        return ""

    # Learning and scoring -----------------------------------------------------------------------------------

    def exercise(self, store: Store) -> ContinueExercise:
        return ContinueExercise(
            store.fields["written"], self.by_rows, self.learnt.opening, self.context, self.carries
        )

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
        nats = sums(self.nats(model, part.written), part.written.offsets)
        return Judged(nats, part.units, float(nats.sum() / self.predicted(part.written)))

    def scores(self, said: np.ndarray, meant: np.ndarray, metrics: Sequence[Metric]) -> Scores:
        return self.signed(super().scores(said, meant, metrics), self.sampled)

    def nats(self, model: Model, written: Ragged) -> np.ndarray:
        """−log p of each id, [BOS] having none."""
        if self.by_rows:
            return row_nats(model, written)
        return stream_nats(model, written.values, self.learnt.opening, self.context, self.stride)

    def predicted(self, written: Ragged) -> int:
        """Ids that have to be predicted: all but [BOS]."""
        return len(written.values) - (written.rows if self.by_rows else 0)

    def sample(self, model: Model, part: ScoredText, judged: Judged, how: DecodeConfig) -> str:
        """A few words out of nothing, with the same random choices each time."""
        most = SAMPLED[self.learnt.unit]
        ids = self.pen(model).write([[]], how, min(most, how.longest or most))[0]
        return " ".join(self.text.tokenizer.decode(ids).split())

    # Writing ------------------------------------------------------------------------------------------------

    def pen(self, model: Model) -> Writer:
        """The model, ready to write."""
        model.eval()
        window = (self.learnt.longest if self.by_rows else self.context) if grows(decoder_of(model)) else None
        return Writer(model, self.learnt.opening, endless=not self.by_rows, window=window)

    def predict(self, model: Model, given: Sequence[Given], how: DecodeConfig) -> list[Generated]:
        """Each prompt and its continuation; an empty prompt starts from nothing."""
        pen = self.pen(model)
        prompts = [self.text.cells_of(text)["text"] for text in given]
        ids = [self._ids(pen, prompt) for prompt in prompts]
        written = pen.write(ids, how, self._longest(how))
        after = [
            text_after(self.text.tokenizer, begun, more) for begun, more in zip(ids, written, strict=True)
        ]
        return [
            Generated(prompt + more, self._note(pen, begun))
            for prompt, begun, more in zip(prompts, ids, after, strict=True)
        ]

    def stream(self, model: Model, given: str, how: DecodeConfig) -> Iterator[str]:
        """What follows the prompt. A piece that ends within a character waits for its rest."""
        if how.beam > 1:
            raise UserError(
                what=f"decode.beam is {how.beam}, but the text is to come piece by piece.",
                why="A beam does not know its first word before its last.",
                fix="Set decode.beam=1, or use predict.",
            )
        pen, tokenizer = self.pen(model), self.text.tokenizer
        begun = self._ids(pen, given)
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

    def score_texts(self, model: Model, given: Sequence[str]) -> list[float]:
        """log p of each text, in nats; each begins after nothing, and a model of rows also predicts its
        end."""
        if self.by_rows:
            written = self.text.ids(given)[0]
            return [-float(total) for total in sums(self.nats(model, written), written.offsets)]
        tokenizer = self.text.tokenizer
        return [-float(self.nats(model, _one_row(encode_text(tokenizer, text))).sum()) for text in given]

    def score(self, model: Model, given: Sequence[Given]) -> list[TextScore]:
        """Perplexity per id and bits per character of each text; the end of a row counts as one more of
        both."""
        whole = [self.text.cells_of(text)["text"] for text in given]
        refuse_empty(whole)
        found = []
        for text, total in zip(whole, self.score_texts(model, whole), strict=True):
            rows, units, _ = self.text.ids([text])
            found.append(TextScore.of(-total, self.predicted(rows), int(units[0, 0])))
        return found

    # Looking inside -----------------------------------------------------------------------------------------

    def explain(
        self, model: Model, given: Given, how: DecodeConfig, target: str | None = None
    ) -> Explanation:
        """How much each piece of a text surprised the model and, of a Transformer, where it looked."""
        text = self.text.cells_of(given)["text"]
        ids, pieces = self._pieces(text)
        window = self.pen(model).window
        most = min(EXPLAINED, window or EXPLAINED)
        note = f"Shown are the last {most} {self.learnt.unit}s." if len(ids) > most else ""
        opened = [BOS, *ids] if self.by_rows else ids
        bits = self.nats(model, _one_row(np.array(opened)))[-len(ids) :] / np.log(2)
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
            decoder.advance(fed[:, :-1], decoder.start(None, 1))
        before = self._shown(self.learnt.opening) if len(ids) <= most else pieces[-most - 1]
        layers = [tape[-1][0].float().cpu().numpy() for tape in tapes.values() if tape]
        looked = layer_maps(layers, [before, *pieces[-most:-1]])
        whole, unit = (len(ids), "word") if self.learnt.unit == "word" else (len(text), "character")
        return Explanation(
            text=text,
            label=f"{bits.sum() / whole:.2f} bits per {unit}",
            scores={},
            maps=(*looked[:1], surprise, *looked[1:]),
            method="attention" if looked else "surprise",
            note=note,
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
        return Findings(
            self._worst(judged, store), self._maps(model, lines), self._samples(model, telling[:1])
        )

    def _samples(self, model: Model, prompts: Sequence[str]) -> list[str]:
        """What it writes out of nothing and from a prompt, nearer to the likeliest or farther from it."""
        samples, most = [], LONGEST[self.learnt.unit] // 2
        for temperature in (0.5, 0.8, 1.0):
            how = replace(
                self.known.decode, temperature=temperature, sample=True, longest=most, beam=1, n_best=1
            )
            for prompt, said in zip(["", *prompts], self.predict(model, ["", *prompts], how), strict=True):
                begin = f", from “{prompt}”" if prompt else ""
                samples.append(f"At temperature {temperature}{begin}:\n{said.text.strip()}")
        return samples

    def _worst(self, judged: Judged, store: Store) -> list[Example]:
        """The lines that surprised it most, by bits per character."""
        nats, units = judged.said, judged.meant
        bits = nats / np.log(2) / np.maximum(units[:, 0], 1)
        telling = (
            np.flatnonzero(units[:, 0] >= TELLING) if (units[:, 0] >= TELLING).any() else np.arange(len(bits))
        )
        rows = telling[np.argsort(-bits[telling], kind="stable")[:WORST]]
        return [
            Example(
                text=str(text).strip(), said=f"{bits[row]:.2f} bits per character", score=float(bits[row])
            )
            for text, row in zip(self.text.texts(store, rows), rows, strict=True)
        ]

    def _maps(self, model: Model, lines: Sequence[str]) -> list[Explanation]:
        """What surprised it in the first lines that were scored."""
        text = max(lines, key=len, default="") if self.by_rows else "".join(lines)
        return [self.explain(model, text[:400], self.known.decode)] if text.strip() else []


def _one_row(ids: np.ndarray) -> Ragged:
    return Ragged(np.asarray(ids, np.int64), np.array([0, len(ids)]))

"""What a run of `generate` can do: write on from a prompt, score texts and itself, show what surprised it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from seqlab.data.read import Role
from seqlab.data.store import Ragged, concatenate
from seqlab.data.stream import TEXT, encode_text, split_text
from seqlab.data.text import BOS, Tokenizer
from seqlab.decode import DecodeConfig
from seqlab.errors import UserError
from seqlab.folder import BASELINE
from seqlab.likelihood import decoder_of, sums
from seqlab.parts import record
from seqlab.report.attention import Explanation, Map
from seqlab.report.evaluate import Scores, evaluate_language_model
from seqlab.report.page import Example
from seqlab.settings import Settings
from seqlab.tasks import generate
from seqlab.tasks.continuing import Pen
from seqlab.tasks.generate import Generate, GenerateFacts, Reading
from seqlab.tasks.ngrams import NGrams
from seqlab.tasks.task import Files, Prepared, TaskFacts, chunks, same_columns, texts_of
from seqlab.tasks.text_files import load_tokenizer, open_table
from seqlab.uses.run import Findings, Run, Text, TextScore, one_or_many

LONGEST = {"character": 400, "word": 100, "subword": 120}
"""Ids that are written unless told."""
EXPLAINED = 512
"""Ids of a text that are explained, at most: the last ones."""
TELLING = 20
"""Characters from which on a line can be among the most surprising ones."""


@dataclass(frozen=True)
class Generated:
    """A prompt and how the model goes on."""

    text: str
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"text": self.text} | ({"note": self.note} if self.note else {})

    def shown(self) -> str:
        return self.text

    def columns(self) -> dict[str, Any]:
        return {"generated": self.text}


class GenerateRun(Run):
    """A trained language model."""

    together = 256
    facts: GenerateFacts

    def __init__(self, folder: Path, settings: Settings, facts: TaskFacts) -> None:
        super().__init__(folder, settings, facts)
        self.tokenizer = load_tokenizer(folder)
        self.refuse_other_symbols({"written": self.tokenizer.size})
        self.reading = Reading(self.tokenizer, self.facts.flow, self.facts.unit, settings.data.length)

    @property
    def _task(self) -> Generate:
        assert isinstance(self.task, Generate)
        return self.task

    @cached_property
    def pen(self) -> Pen:
        return generate.pen_for(self.model, self.facts, self._task)

    @cached_property
    def baseline(self) -> NGrams | None:
        """The n-grams that were counted beside this model."""
        folder = self.folder / BASELINE
        return NGrams.load(folder) if folder.exists() else None

    def roles(self, labelled: bool) -> list[Role]:
        return [TEXT]

    # Writing -------------------------------------------------------------------------------------------------------

    @one_or_many
    def predict(self, texts: Sequence[Text], settings: Mapping[str, Any] | None = None) -> list[Generated]:
        """Each prompt and its continuation; an empty prompt starts from nothing.

        It writes as `decode` in config.yaml says (presets draw at a temperature of 0.8) or as `settings` say:
        {"decode.temperature": 1.0}, {"decode.beam": 4} (which searches instead), {"decode.longest": 1000},
        {"decode.seed": 1}.
        """
        how = self.decoding(settings)
        prompts = [text if isinstance(text, str) else "\t".join(text) for text in texts]
        given = [self._ids(prompt) for prompt in prompts]
        written = self.pen.write(given, how, self._longest(how))
        return [
            Generated(prompt + self._after(ids, more), self._note(ids))
            for prompt, ids, more in zip(prompts, given, written, strict=True)
        ]

    def stream(self, prompt: str = "", settings: Mapping[str, Any] | None = None) -> Iterator[str]:
        """What follows the prompt, piece by piece, as it is written. A piece that ends within a character waits for its rest."""
        how = self.decoding(settings)
        if how.beam > 1:
            raise UserError(
                what=f"decode.beam is {how.beam}, but the text is to come piece by piece.",
                why="A beam does not know its first word before its last.",
                fix="Set decode.beam=1, or use predict.",
            )
        given = self._ids(prompt)
        more: list[int] = []
        told = ""
        for number in self.pen.stream(given, how, self._longest(how)):
            more.append(number)
            text = self._after(given, more)
            if not text.endswith("\ufffd") and len(text) > len(told):
                yield text[len(told) :]
                told = text
        if rest := self._after(given, more)[len(told) :]:
            yield rest

    def _longest(self, how: DecodeConfig) -> int:
        return how.longest or (self.facts.longest if self.facts.flow == "rows" else LONGEST[self.facts.unit])

    def _ids(self, prompt: str) -> list[int]:
        if self.facts.flow == "text":
            return [int(number) for number in encode_text(self.tokenizer, prompt)]
        ids = [int(number) for number in self.tokenizer.encode([prompt], empty=True).values]
        window = self.pen.window
        if window is not None and len(ids) + 1 >= window:
            raise UserError(
                what=f"The prompt has {len(ids)} {self.facts.unit}s.",
                why=f"The model has learnt texts of up to {window - 2}, and a Transformer does not know what comes after that.",
                fix="Shorten the prompt, or train with longer texts (data.length).",
            )
        return ids

    def _note(self, ids: list[int]) -> str:
        window = self.pen.window
        if window is None or len(ids) < window:
            return ""
        return f"The prompt has {len(ids)} {self.facts.unit}s; the model looked at the last {len(self.pen.seen(ids))}."

    def _after(self, given: list[int], more: Sequence[int]) -> str:
        return text_after(self.tokenizer, given, more)

    # Scoring -------------------------------------------------------------------------------------------------------

    @one_or_many
    def score_texts(self, texts: Sequence[str]) -> list[float]:
        """log p of each text, in nats; each begins after nothing, and a model of rows also foresees its end."""
        if self.facts.flow == "rows":
            written = self.reading.encode(texts)[0]
            return [-float(total) for total in sums(self._nats(written), written.offsets)]
        return [-float(self._nats(_one_row(encode_text(self.tokenizer, text))).sum()) for text in texts]

    @one_or_many
    def score(self, texts: Sequence[Text]) -> list[TextScore]:
        """Perplexity per id and bits per character of each text; the end of a row counts as one more of both."""
        whole = [text if isinstance(text, str) else "\t".join(text) for text in texts]
        refuse_empty(whole)
        found = []
        for text, total in zip(whole, self.score_texts(whole), strict=True):
            rows, units, _ = self.reading.encode([text])
            found.append(TextScore.of(-total, generate.foreseen(rows, self.facts), int(units[0, 0])))
        return found

    def evaluate(self, data: str | Sequence[str], settings: Mapping[str, Any] | None = None) -> Scores:
        """Bits per character and perplexity per word of a whole text, with intervals and the n-grams beside them."""
        began = time.monotonic()
        names = [data] if isinstance(data, str) else list(data)
        table = open_table(names, same_columns(self.data_with(settings), self.facts.columns), self.facts.flow)
        parts = [self.reading.encode([row.cells["text"] for row in rows]) for rows in chunks(table.rows(), generate.CHUNK)]
        if not parts:
            raise UserError(
                what=f"{' '.join(names)}: there is no row to score.",
                why="Every row was left out as faulty (data.on_bad=skip).",
                fix="See the faults with: seqlab check generate FILE",
            )
        written = concatenate([rows for rows, _, _ in parts])
        units = np.concatenate([counts for _, counts, _ in parts])
        return self.scored(sums(self._nats(written), written.offsets), written, units, began)

    def scored(self, nats: np.ndarray, written: Ragged, units: np.ndarray, began: float) -> Scores:
        """Scores from the nats, characters and words of each line or row."""
        beside: dict[str, Scores] = {}
        if self.baseline is not None:
            simple = sums(generate.gram_nats(self.baseline, written, self.facts), written.offsets)
            beside[f"{self.baseline.order}-gram"] = evaluate_language_model(simple, units, self.facts.metrics)
        seconds = time.monotonic() - began
        scores = evaluate_language_model(nats, units, self.facts.metrics, seconds=seconds, baselines=beside)
        return self.signed(scores, self._task.sampled)

    def _nats(self, written: Ragged) -> np.ndarray:
        return generate.all_nats(self.model, written, self.facts, self._task)

    # Looking inside ------------------------------------------------------------------------------------------------

    def explain(self, text: Text) -> Explanation:
        """How much each piece of a text surprised the model and, of a Transformer, where it looked."""
        text = text if isinstance(text, str) else "\t".join(text)
        ids, pieces = self._pieces(text)
        most = min(EXPLAINED, self.pen.window or EXPLAINED)
        note = f"Shown are the last {most} {self.facts.unit}s." if len(ids) > most else ""
        opened = [BOS, *ids] if self.facts.flow == "rows" else ids
        bits = self._nats(_one_row(np.array(opened)))[-len(ids) :] / np.log(2)
        surprise = Map(
            name="how much each piece surprised the model", kind="tokens", weights=bits[-most:], pieces=tuple(pieces[-most:]),
            unit="bits",
        )
        fed = torch.tensor([[self.facts.opening, *ids][-most - 1 :]])
        with record(self.model) as tapes, torch.no_grad():
            decoder = decoder_of(self.model)
            decoder.advance(fed[:, :-1], decoder.start(None, 1))
        before = self._shown(self.facts.opening) if len(ids) <= most else pieces[-most - 1]
        looked = layer_maps([tape[-1][0].float().cpu().numpy() for tape in tapes.values() if tape], [before, *pieces[-most:-1]])
        whole, unit = (len(ids), "word") if self.facts.unit == "word" else (len(text), "character")
        return Explanation(
            text=text, label=f"{bits.sum() / whole:.2f} bits per {unit}", scores={},
            maps=(*looked[:1], surprise, *looked[1:]), method="attention" if looked else "surprise", note=note,
        )

    def _pieces(self, text: str) -> tuple[list[int], list[str]]:
        """The ids of a text, and what each stands for."""
        ids: list[int] = []
        pieces: list[str] = []
        for part in split_text(text) if self.facts.flow == "text" else [text]:
            found = self.tokenizer.encode([part], empty=True).values.tolist()
            ids += found
            pieces += self.tokenizer.pieces(part) if found else []
        if not ids:
            raise UserError(what="The text is empty.", why="There is nothing to explain.", fix='Give a text, such as "the time"')
        return ids, [piece.replace("\n", "⏎") for piece in pieces]

    def _shown(self, number: int) -> str:
        return self.tokenizer.decode([number]).replace("\n", "⏎") or "[BOS]"

    # For the report ------------------------------------------------------------------------------------------------

    def findings(self, prepared: Prepared, files: Files, split: str) -> Findings:
        began = time.monotonic()
        store = prepared.stores[split]
        written, units = generate.checked_part(store)
        nats = sums(self._nats(written), written.offsets)
        scores = self.scored(nats, written, units, began)
        first = texts_of(store.fields["raw"], np.arange(min(8, written.rows)))
        telling = [" ".join(line.split()[:4]) for line in first if len(line.split()) > 5]
        return Findings(scores, self._worst(nats, units, store.fields["raw"]), self._maps(first), self._samples(telling[:1]))

    def _samples(self, prompts: Sequence[str]) -> list[str]:
        """What it writes out of nothing and from a prompt, more or less by chance."""
        samples, most = [], LONGEST[self.facts.unit] // 2
        for temperature in (0.5, 0.8, 1.0):
            asked = {"decode.temperature": temperature, "decode.sample": True, "decode.longest": most}
            asked |= {"decode.beam": 1, "decode.n_best": 1}
            for prompt, said in zip(["", *prompts], self.predict(["", *prompts], asked), strict=True):
                begin = f", from “{prompt}”" if prompt else ""
                samples.append(f"At temperature {temperature}{begin}:\n{said.text.strip()}")
        return samples

    def _worst(self, nats: np.ndarray, units: np.ndarray, raw: Ragged, most: int = 12) -> list[Example]:
        """The lines that surprised it most, by bits per character."""
        bits = nats / np.log(2) / np.maximum(units[:, 0], 1)
        telling = np.flatnonzero(units[:, 0] >= TELLING) if (units[:, 0] >= TELLING).any() else np.arange(len(bits))
        rows = telling[np.argsort(-bits[telling], kind="stable")[:most]]
        return [
            Example(text=text.strip(), meant="", said=f"{bits[row]:.2f} bits per character", score=float(bits[row]))
            for text, row in zip(texts_of(raw, rows), rows, strict=True)
        ]

    def _maps(self, lines: Sequence[str]) -> list[Explanation]:
        """What surprised it in the first lines that were scored."""
        text = "".join(lines) if self.facts.flow == "text" else max(lines, key=len, default="")
        return [self.explain(text[:400])] if text.strip() else []


def text_after(tokenizer: Tokenizer, given: Sequence[int], more: Sequence[int]) -> str:
    """The text of ids that follow others: what stands between depends on both."""
    return tokenizer.decode([*given, *more])[len(tokenizer.decode(given)) :]


def refuse_empty(texts: Sequence[str]) -> None:
    if any(not text.strip() for text in texts):
        raise UserError(what="A text is empty.", why="There is nothing to read in it.", fix='Give a text, such as "the time"')


def _one_row(ids: np.ndarray) -> Ragged:
    return Ragged(np.asarray(ids, np.int64), np.array([0, len(ids)]))


def layer_maps(layers: Sequence[np.ndarray], pieces: Sequence[str]) -> list[Map]:
    """What each piece receives on average, then a matrix a layer."""
    if not layers:
        return []
    received = np.mean([layer.mean(axis=(0, 1)) for layer in layers], axis=0)
    shown = tuple(pieces)
    maps = [Map(name="attention each piece receives, on average", kind="tokens", weights=received, pieces=shown)]
    for place, layer in enumerate(layers, 1):
        maps.append(Map(name=f"self-attention, layer {place}", kind="matrix", weights=layer, pieces=shown))
    return maps

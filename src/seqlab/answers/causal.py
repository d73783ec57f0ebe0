"""What comes next in documents: the answer of a causal pretraining."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from seqlab.answers.answer import Prediction
from seqlab.answers.documents import DocumentsAnswer
from seqlab.answers.exercises import Continue
from seqlab.answers.fill_blanks import BLANK
from seqlab.answers.writer import LONGEST, Generated, Writer, text_after
from seqlab.data.tokenizers import SEP, SPECIAL
from seqlab.decode import DecodeConfig
from seqlab.errors import UserError
from seqlab.fields.field import Given
from seqlab.likelihood import decoder_of, grows, stream_nats
from seqlab.metrics import Metric
from seqlab.model import Model
from seqlab.parts import record
from seqlab.report.attention import layer_maps
from seqlab.report.explanation import Explanation
from seqlab.text_metrics import BitsPerCharacter, PerplexityPerWord, PiecePerplexity


class CausalAnswer(DocumentsAnswer):
    """How documents go on; [SEP] stands before the first token."""

    kind = Continue
    around = ((SEP,), ())
    pseudo = False

    @property
    def metrics(self) -> list[Metric]:
        return [PiecePerplexity(), BitsPerCharacter(), PerplexityPerWord()]

    @property
    def example(self) -> str:
        return "the"

    def pen(self, model: Model) -> Writer:
        model.eval()
        window = self.context if grows(decoder_of(model)) else None
        return Writer(model, self.text.tokenizer, SEP, endless=True, window=window)

    def predict(self, model: Model, given: Sequence[Given], how: DecodeConfig) -> Sequence[Prediction]:
        prompts = self.single(given)
        if any(BLANK in prompt for prompt in prompts):
            raise UserError(
                what=f"There is a {BLANK} in a text.",
                why=(
                    f"This model learnt to continue texts ({self.learning.objective}): it sees what is before"
                    " a word, not what is after it."
                ),
                fix="Give the beginning of a text alone, or pretrain with --model roberta to fill blanks.",
            )
        pen, ids = self.pen(model), [self.ids(prompt) for prompt in prompts]
        unit = "character" if self.tokens.letters else "subword" if self.tokens.carries else "word"
        answers = []
        for prompt, begun, more in zip(
            prompts, ids, pen.write(ids, how, how.longest or LONGEST[unit]), strict=True
        ):
            seen = len(pen.seen(pen.opened(begun))) - 1
            note = (
                f"The prompt has {len(begun):,} pieces; the model looked at the last {seen:,}."
                if seen < len(begun)
                else ""
            )
            answers.append(Generated(prompt + text_after(self.text.tokenizer, begun, more), note))
        return answers

    def nats(self, model: Model, ids: np.ndarray) -> np.ndarray:
        """Each from those before it, so that the perplexity is a true one."""
        return stream_nats(model, ids, SEP, self.context)

    def explain(
        self, model: Model, given: Given, how: DecodeConfig, target: str | None = None
    ) -> Explanation:
        """How much each token surprised the model and, of a Transformer, where it looked."""
        [text] = self.single([given])
        self.whole(text)
        most = self.context
        fed = torch.tensor([[SEP, *self.ids(text)][-most - 1 : -1]])
        decoder = decoder_of(model)
        with record(model) as tapes, torch.no_grad():
            decoder.advance(fed, decoder.start(None, 1))
        before = [SPECIAL[SEP], *self.written(text)][-most - 1 : -1]
        layers = [tape[-1][0].float().cpu().numpy() for tape in tapes.values() if tape]
        return self.surprise(model, text, layer_maps(layers, before))

    # For the report -----------------------------------------------------------------------------------------

    def samples(self, model: Model, sentences: Sequence[str]) -> list[str]:
        samples = []
        for sentence in sentences:
            if begun := " ".join(sentence.split()[:4]):
                [said] = self.predict(model, [begun], replace(self.known.decode, longest=60))
                samples.append(f"From “{begun}”:\n{said.to_json()['text']}")
        return samples

    def maps(self, model: Model, sentences: Sequence[str]) -> list[Explanation]:
        return [self.explain(model, text, self.known.decode) for text in sentences if text.strip()][:1]

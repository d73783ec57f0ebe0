"""How good written text is: overlap with references, edits away from them, and how well a language model
predicts it.

As in metrics.py every metric gives a row of counts an example. `said` is a list of texts and `meant` a list
of lists: the references of each example, at least one. BLEU and chrF are counted by sacreBLEU itself, which
is imported on first use.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from jaxtyping import Float, Int, Num

from seqlab.metrics import Metric, share

Texts = Sequence[str]
References = Sequence[Sequence[str]]

# Overlap ----------------------------------------------------------------------------------------------------


class SacreMetric(Metric):
    """A metric of sacreBLEU: texts as people write them (not tokenised), any number of references an
    example."""

    inner: Any
    """sacreBLEU's metric."""

    def count(self, said: Texts, meant: References) -> Num[np.ndarray, "N K"]:
        # The rows that sacreBLEU's own bootstrap adds up; it has no public name for them.
        return np.array(self.inner._extract_corpus_statistics(said, _by_rank(meant)), np.int64)

    def signature(self, meant: References) -> str:
        """What another person needs to know to get the same figure, in sacreBLEU's form."""
        many = {len(references) for references in meant}
        self.inner.num_refs = many.pop() if len(many) == 1 else -1  # -1 is written "var"
        return str(self.inner.get_signature())


class Bleu(SacreMetric):
    """BLEU (Papineni et al. 2002) as sacreBLEU has it: its own 13a tokens, orders 1 to 4, exponential
    smoothing.

    Counts: length, length of the nearest reference, matching n-grams of each order, n-grams of each order; so
    K = 10.
    """

    name, title, unit = "bleu", "BLEU", "0 to 100, sacreBLEU, cased"
    scale = "hundred"
    order: ClassVar[int] = 4
    """The longest n-grams that count."""

    def __init__(self) -> None:
        from sacrebleu.metrics.bleu import BLEU

        self.inner = BLEU(force=True)  # force: no warning about lines that end in " ."

    def score(self, counts: Num[np.ndarray, "*S K"]) -> Float[np.ndarray, "*S"]:
        length, wanted = counts[..., 0], counts[..., 1]
        right = counts[..., 2 : 2 + self.order].astype(np.float64)
        total = counts[..., 2 + self.order : 2 + 2 * self.order]
        halvings = np.cumsum(right == 0, axis=-1)  # the k-th order without a match
        smoothed = np.where(right == 0, 0.5**halvings, right)  # counts as 1/2^k matches
        with np.errstate(divide="ignore"):
            logs = np.log(
                np.where(total == 0, 0.0, share(smoothed, total))
            )  # an order without n-grams: −∞, score 0
        brevity = np.minimum(0.0, 1 - wanted / np.maximum(length, 1))
        score = 100 * np.exp(brevity + logs.mean(axis=-1))
        return np.asarray(np.where((right == 0).all(axis=-1), 0.0, score), dtype=np.float64)


class Chrf(SacreMetric):
    """chrF2 (Popović 2015): F-score of the 1- to 6-grams of characters without spaces, recall counting twice
    as much.

    Against the reference with the best F-score. Counts: n-grams said, n-grams meant, matches, for each order;
    K = 18.
    """

    name, title, unit = "chrf", "chrF", "0 to 100, sacreBLEU, cased"
    scale = "hundred"

    def __init__(self) -> None:
        from sacrebleu.metrics.chrf import CHRF

        self.inner = CHRF()

    def score(self, counts: Num[np.ndarray, "*S K"]) -> Float[np.ndarray, "*S"]:
        said, meant, right = np.moveaxis(counts.reshape(*counts.shape[:-1], 6, 3), -1, 0)  # ... 6 each
        both = (said > 0) & (meant > 0)  # orders longer than the texts do not count
        orders = both.sum(axis=-1)
        precision = share(np.where(both, share(right, said), 0.0).sum(axis=-1), orders)
        recall = share(np.where(both, share(right, meant), 0.0).sum(axis=-1), orders)
        return np.asarray(100 * share(5 * precision * recall, 4 * precision + recall))


def _by_rank(meant: References) -> list[list[str | None]]:
    """The first references of all examples, then the second ones; None where an example has no more."""
    most = max(len(references) for references in meant)
    return [
        [references[rank] if rank < len(references) else None for references in meant] for rank in range(most)
    ]


# Edits ------------------------------------------------------------------------------------------------------


class _ErrorRate(Metric):
    """Edits (insertions, deletions, replacements) / length of the reference, of the reference with the fewest
    edits.

    Of references with equally few edits the longest counts, so that their order does not matter. Counts:
    edits, length.
    """

    better = "lower"

    @abstractmethod
    def cut(self, text: str) -> Sequence[str]:
        """The tokens of a text."""

    def count(self, said: Texts, meant: References) -> Num[np.ndarray, "N K"]:
        rows = []
        for text, references in zip(said, meant, strict=True):
            tokens = self.cut(text)
            wanted = [self.cut(reference) for reference in references]
            edits, length = min((edit_distance(tokens, other), -len(other)) for other in wanted)
            rows.append((edits, -length))
        return np.array(rows, np.int64).reshape(-1, 2)

    def score(self, counts: Num[np.ndarray, "*S K"]) -> Float[np.ndarray, "*S"]:
        return share(counts[..., 0], counts[..., 1])


class TokenErrorRate(_ErrorRate):
    """Error rate of the tokens between white space: of phonemes, or of words."""

    name, title, unit = "token_error_rate", "token error rate", "edits as a share of the reference's tokens"
    scale = "share"
    logged = "valid_errors"

    def cut(self, text: str) -> Sequence[str]:
        return text.split()


class WordErrorRate(TokenErrorRate):
    """The same under the name that it has for speech: of the words."""

    name, title, unit = "wer", "word error rate", "edits as a share of the reference's words"
    logged = ""


class CharacterErrorRate(_ErrorRate):
    """Error rate of the characters, white space between words being one of them."""

    name, title, unit = "cer", "character error rate", "edits as a share of the reference's characters"
    scale = "share"

    def cut(self, text: str) -> Sequence[str]:
        return " ".join(text.split())


class SequenceErrorRate(Metric):
    """The share of examples that equal none of their references, token by token. Counts: wrong, all."""

    name, title, unit, better = (
        "sequence_error_rate",
        "sequence error rate",
        "share of examples with any error",
        "lower",
    )
    scale = "share"
    watched = False

    def count(self, said: Texts, meant: References) -> Num[np.ndarray, "N K"]:
        wrong = [
            text.split() not in [reference.split() for reference in references]
            for text, references in zip(said, meant, strict=True)
        ]
        return np.stack([np.array(wrong, np.int64), np.ones(len(wrong), np.int64)], axis=1)

    def score(self, counts: Num[np.ndarray, "*S K"]) -> Float[np.ndarray, "*S"]:
        return share(counts[..., 0], counts[..., 1])


def edit_distance(one: Sequence[Hashable], two: Sequence[Hashable]) -> int:
    """The fewest insertions, deletions and replacements that turn one into the other.

    A column of the usual table is kept as two numbers, whose bits say where it rises and where it falls by
    one (Myers 1999, in the form of Hyyrö 2003). Python's integers are as long as needed, so it is one pass
    over `two`.
    """
    if one == two:
        return 0
    if not one or not two:
        return max(len(one), len(two))
    places: dict[Hashable, int] = {}
    for place, token in enumerate(one):
        places[token] = places.get(token, 0) | 1 << place
    every, last = (1 << len(one)) - 1, 1 << len(one) - 1
    rises, falls, distance = every, 0, len(one)
    for token in two:
        same = places.get(token, 0) | falls
        level = ((((same & rises) + rises) ^ rises) | same) & every  # where the diagonal does not rise
        more, fewer = (
            falls | (every & ~(level | rises)),
            rises & level,
        )  # what this column adds to the last one
        distance += bool(more & last) - bool(fewer & last)
        more, fewer = more << 1 | 1, fewer << 1  # the edge of the table rises by one
        rises, falls = (fewer | ~(level | more)) & every, more & level & every
    return distance


# Likelihood -------------------------------------------------------------------------------------------------


Nats = Float[np.ndarray, "N ..."]
"""−log p of each example, or two of them: the second where what was given belongs to another text."""


class _Likelihood(Metric):
    """What a language model makes of a text. `said`: nats of each example, −log p of all that it had to
    predict.

    `meant`: characters and words of each example (`units_of`), whatever the model's own tokens are, so that
    models with different tokens compare; a third column, where it is needed, has the pieces. Counts: nats,
    characters, words, pieces. A second column of `said` has the nats where something else was given than what
    belongs to the text.
    """

    better: ClassVar[Literal["higher", "lower"]] = "lower"

    def count(self, said: Nats, meant: Int[np.ndarray, "N M"]) -> Num[np.ndarray, "N K"]:
        nats = said.reshape(len(said), -1)
        return np.concatenate([nats[:, :1], meant], axis=1).astype(np.float64)


class BitsPerCharacter(_Likelihood):
    """log₂ 1/p, divided by the number of characters."""

    name, title, unit = "bpc", "bits per character", "bits per character, spaces and line ends included"

    def score(self, counts: Num[np.ndarray, "*S K"]) -> Float[np.ndarray, "*S"]:
        return np.asarray(share(counts[..., 0], counts[..., 1]) / np.log(2))


class BitsPerCharacterMisled(BitsPerCharacter):
    """The same where the label or vector of another text was given. A model that makes nothing of it has as
    many bits as with its own."""

    name, title = "bpc_misled", "bits per character, misled"
    unit = "bits per character, given what belongs to another text"
    better = "higher"
    watched = False

    def count(self, said: Nats, meant: Int[np.ndarray, "N M"]) -> Num[np.ndarray, "N K"]:
        return super().count(said.reshape(len(said), -1)[:, -1], meant)


class PerplexityPerWord(_Likelihood):
    """exp(nats / words), words being what stands between white space."""

    name, title = "perplexity", "perplexity per word"
    unit = "perplexity per word between spaces, all characters paid for"

    def score(self, counts: Num[np.ndarray, "*S K"]) -> Float[np.ndarray, "*S"]:
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(share(counts[..., 0], counts[..., 2])), dtype=np.float64)


class PerplexityPerWordOrEnd(PerplexityPerWord):
    """The same with every line end counted as one more word, as is usual for WikiText and the Penn
    Treebank."""

    unit = "perplexity per word between spaces or line end"


class PiecePerplexity(_Likelihood):
    """exp(nats / pieces), pieces being the model's own tokens. `meant` has a third column: the pieces of each
    example."""

    name, title, unit = (
        "piece_perplexity",
        "perplexity per piece",
        "perplexity per piece of the model's own vocabulary",
    )

    def score(self, counts: Num[np.ndarray, "*S K"]) -> Float[np.ndarray, "*S"]:
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(share(counts[..., 0], counts[..., 3])), dtype=np.float64)


# Of a model that sees both sides of a piece: its factors are no probability of the text, so the names say
# "pseudo".


class PseudoPiecePerplexity(PiecePerplexity):
    """exp(nats / pieces), each piece predicted from those before and after it."""

    name, title = "pseudo_piece_perplexity", "pseudo-perplexity per piece"
    unit = "pseudo-perplexity per piece of the model's own vocabulary, seen from both sides"


class PseudoBitsPerCharacter(BitsPerCharacter):
    """log₂ of the same, divided by the number of characters."""

    name, title = "pseudo_bpc", "pseudo-bits per character"
    unit = "pseudo-bits per character, pieces seen from both sides"


class PseudoPerplexityPerWord(PerplexityPerWord):
    """exp(nats / words) of the same."""

    name, title = "pseudo_perplexity", "pseudo-perplexity per word"
    unit = "pseudo-perplexity per word between spaces, pieces seen from both sides"


# Pieces to be found -----------------------------------------------------------------------------------------


class _OfPieces(Metric):
    """About pieces to be found. `said` are the counts: pieces found, their nats, pieces asked for; pairs
    right, pairs."""

    def count(self, said: Float[np.ndarray, "N K"], meant: object) -> Num[np.ndarray, "N K"]:
        return np.asarray(said, np.float64)


class HiddenLoss(_OfPieces):
    """Mean −log p of the hidden pieces."""

    name, title, unit, better = "loss", "loss in nats per piece", "nats per hidden piece", "lower"

    def score(self, counts: Num[np.ndarray, "*S K"]) -> Float[np.ndarray, "*S"]:
        return share(counts[..., 1], counts[..., 2])


class HiddenAccuracy(_OfPieces):
    """The share of the hidden pieces that were held likeliest."""

    name, title, unit = "masked_accuracy", "accuracy on hidden pieces", "share of hidden pieces"
    scale = "share"

    def score(self, counts: Num[np.ndarray, "*S K"]) -> Float[np.ndarray, "*S"]:
        return share(counts[..., 0], counts[..., 2])


class WrittenLoss(HiddenLoss):
    """Mean −log p of the pieces that are written, each after the right ones; EOS does not count."""

    unit = "nats per written piece, each after the right ones"


class WrittenAccuracy(HiddenAccuracy):
    """The share of them that were held likeliest."""

    name, title, unit = (
        "written_accuracy",
        "accuracy on written pieces",
        "share of written pieces, each after the right ones",
    )


class NextAccuracy(_OfPieces):
    """The share of pairs that were rightly said to follow each other, or not."""

    name, title, unit = "next_accuracy", "next-sentence accuracy", "share of pairs"
    scale = "share"

    def score(self, counts: Num[np.ndarray, "*S K"]) -> Float[np.ndarray, "*S"]:
        return share(counts[..., 3], counts[..., 4])


def units_of(texts: Texts, line_ends: bool = False) -> Int[np.ndarray, "N 2"]:
    """Characters (code points) and words of each text; `line_ends`: each of them is a word, too. Cut no text
    within a word."""
    return np.array(
        [(len(text), len(text.split()) + (text.count("\n") if line_ends else 0)) for text in texts], np.int64
    ).reshape(-1, 2)

"""How good captions are: BLEU of orders 1 to 4, chrF, and CIDEr-D, all in small letters."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Num

from seqlab.metrics import Metric, share
from seqlab.text_metrics import Bleu, Chrf, References, Texts

SIGMA = 6.0
ORDERS = 4
Grams = Counter[tuple[str, ...]]


class CaptionBleu(Bleu):
    """BLEU-4 against all references of a picture, in small letters as is usual for captions."""

    title, unit = "BLEU-4", "0 to 100, sacreBLEU, small letters"

    def __init__(self) -> None:
        from sacrebleu.metrics.bleu import BLEU

        self.inner = BLEU(force=True, lowercase=True, max_ngram_order=self.order)

    def signature(self, meant: References) -> str:
        """sacreBLEU's does not tell the orders apart."""
        return f"{super().signature(meant)}|n:1-{self.order}"


class CaptionBleu1(CaptionBleu):
    """The same of single words."""

    name, title, watched, order = "bleu1", "BLEU-1", False, 1


class CaptionBleu2(CaptionBleu):
    """The same of n-grams of up to two words."""

    name, title, watched, order = "bleu2", "BLEU-2", False, 2


class CaptionBleu3(CaptionBleu):
    """The same of n-grams of up to three words."""

    name, title, watched, order = "bleu3", "BLEU-3", False, 3


class CaptionChrf(Chrf):
    """chrF in small letters."""

    unit = "0 to 100, sacreBLEU, small letters"

    def __init__(self) -> None:
        from sacrebleu.metrics.chrf import CHRF

        self.inner = CHRF(lowercase=True)


class CiderD(Metric):
    """CIDEr-D (Vedantam et al. 2015): how alike the TF-IDF vectors of a caption and its references are.

    For n-grams of each order n = 1 to 4, with g the vector of counts times log(N / max(1, df)):

        10 · mean over references r of  Σ min(g_c, g_r) · g_r / (‖g_c‖ ‖g_r‖) · exp(−(l_c − l_r)² / 2σ²)

    and the mean over n. df counts among the N pictures that are scored those that have an n-gram in any
    reference, so that a score belongs to its data set; l are words, σ = 6. Words are runs of letters, digits
    and apostrophes in small letters; the published script has the tokens of the Penn Treebank without
    punctuation. Counts: score, 1.
    """

    name, title, unit = "cider", "CIDEr-D", "0 to 10, document frequencies of the references scored"

    def count(self, said: Texts, meant: References) -> Num[np.ndarray, "N K"]:
        references = [[grams_of(text) for text in some] for some in meant]
        frequencies: Grams = Counter()
        for some in references:
            frequencies.update({gram for grams in some for gram in grams})
        pictures = np.log(len(meant)) if len(meant) else 0.0

        def vector(grams: Grams) -> list[dict[tuple[str, ...], float]]:
            made: list[dict[tuple[str, ...], float]] = [{} for _ in range(ORDERS)]
            for gram, many in grams.items():
                made[len(gram) - 1][gram] = many * (pictures - np.log(max(1, frequencies[gram])))
            return made

        rows = []
        for text, some in zip(said, references, strict=True):
            own = grams_of(text)
            ours, length = vector(own), _length(own)
            each = [
                _alike(ours, vector(other)) * np.exp(-((length - _length(other)) ** 2) / (2 * SIGMA**2))
                for other in some
            ]
            rows.append((10 * float(np.mean(each)), 1.0))
        return np.array(rows, np.float64).reshape(-1, 2)

    def score(self, counts: Num[np.ndarray, "*S K"]) -> Float[np.ndarray, "*S"]:
        return share(counts[..., 0], counts[..., 1])

    def signature(self, meant: References) -> str:
        return (
            f"CIDEr-D|n:1-{ORDERS}|sigma:{SIGMA:g}|x10|tok:words of letters, digits and '|case:lc"
            f"|df:references of the {len(meant):,} scored"
        )


def words_of(text: str) -> list[str]:
    return re.findall(r"[^\W_]+(?:['’][^\W_]+)*", text.lower())


def grams_of(text: str) -> Grams:
    """How often each n-gram of one to four words stands in a text."""
    words = words_of(text)
    return Counter(
        tuple(words[start : start + order])
        for order in range(1, ORDERS + 1)
        for start in range(len(words) - order + 1)
    )


def _length(grams: Grams) -> int:
    """Words of the text that has these n-grams."""
    return sum(many for gram, many in grams.items() if len(gram) == 1)


def _alike(
    ours: Sequence[dict[tuple[str, ...], float]], theirs: Sequence[dict[tuple[str, ...], float]]
) -> float:
    """The mean over orders of the clipped cosines."""
    found = []
    for one, two in zip(ours, theirs, strict=True):
        product = sum(min(weight, two[gram]) * two[gram] for gram, weight in one.items() if gram in two)
        sizes = [float(np.sqrt(sum(weight**2 for weight in some.values()))) for some in (one, two)]
        found.append(product / (sizes[0] * sizes[1]) if min(sizes) > 0 else 0.0)
    return float(np.mean(found))

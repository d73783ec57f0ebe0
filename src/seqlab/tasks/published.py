"""What is known of the published models that are presets of some task.

Costs are those that their authors told, or that are usually told of them (GPT-2). Tokens are told where a
paper says how many steps of how many tokens were taken, or how many passes.
"""

from __future__ import annotations

from dataclasses import replace

from seqlab.report.amounts import PETAFLOP_DAY
from seqlab.report.published import Published

BOOKS_AND_WIKIPEDIA = "BooksCorpus and English Wikipedia, 3.3 G words"
FIVE_CORPORA = "five corpora of English, 160 GB"
ROBERTA = Published(  # Liu et al. 2019
    symbols=50_265,
    data=FIVE_CORPORA,
    year=2019,
    tokens=500_000 * 8_192 * 512.0,
    counted="500,000 steps of 8,192 × 512",
)

PUBLISHED = {
    "transformer-base": Published(  # Vaswani et al. 2017, sections 5 and 6.1
        symbols=37_000,
        size="65 M",
        data="WMT 2014 English-German, 4.5 M pairs",
        year=2017,
        cost="12 hours on 8 P100, 3.3e18 FLOP",
        operations=3.3e18,
        tokens=100_000 * 25_000.0,
        counted="100,000 steps of 25,000 a side",
    ),
    "gpt-1": Published(  # Radford et al. 2018
        symbols=40_478,
        size="117 M",
        data="BookCorpus, 4.5 GB",
        year=2018,
        cost="1 petaflop/s-day",
        operations=PETAFLOP_DAY,
        tokens=100 * 985e6,
        counted="100 passes, 985 M words",
    ),
    "gpt-2-small": Published(symbols=50_257, size="117 M", data="WebText, 40 GB", year=2019),
    "gpt-2": Published(  # Radford et al. 2019: neither passes nor tokens are told
        symbols=50_257, size="1.5 G", data="WebText, 40 GB", year=2019, cost="1.5e21 FLOP", operations=1.5e21
    ),
    "gpt-3": Published(  # Brown et al. 2020, tables 2.2 and D.1
        symbols=50_257,
        size="175 G",
        data="499 G tokens, of the web, books and Wikipedia",
        year=2020,
        cost="3,640 petaflop/s-days",
        operations=3_640 * PETAFLOP_DAY,
        tokens=300e9,
    ),
    "bert-base": Published(  # Devlin et al. 2019, appendix A.2
        symbols=30_522, size="110 M", data=BOOKS_AND_WIKIPEDIA, year=2018, cost="4 days on 16 TPU chips"
    ),
    "bert-large": Published(
        symbols=30_522, size="340 M", data=BOOKS_AND_WIKIPEDIA, year=2018, cost="4 days on 64 TPU chips"
    ),
    "roberta-base": replace(ROBERTA, size="125 M"),
    "roberta-large": replace(ROBERTA, size="355 M"),
    "camembert-base": Published(  # Martin et al. 2020
        symbols=32_005,
        size="110 M",
        data="OSCAR, French of the web, 138 GB",
        year=2019,
        tokens=100_000 * 8_192 * 512.0,
        counted="100,000 steps of 8,192 × 512",
    ),
    "bart-base": Published(symbols=50_265, size="139 M", data=FIVE_CORPORA, year=2019),  # Lewis et al. 2020
    "bart-large": Published(symbols=50_265, size="406 M", data=FIVE_CORPORA, year=2019),
}
"""By the name of the preset."""

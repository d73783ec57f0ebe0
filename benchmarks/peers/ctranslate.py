"""CTranslate2: a Marian model of transformers, converted; its own C++ kernels, several batches side by
side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from seqlab.data.tokenizers import EOS, UNK


def convert(model: Any, folder: Path, kind: str) -> Path:
    """The model in a folder as CTranslate2 reads it; `kind` is float32 or int8. Symbols are called by their
    numbers."""
    from ctranslate2.converters.transformers import MarianMTLoader

    loader = MarianMTLoader()
    spec = loader.get_model_spec(model.eval())
    loader.set_vocabulary(
        spec, [str(number) for number in range(model.config.vocab_size - 1)]
    )  # without the padding
    loader.set_config(spec.config, model, SimpleNamespace(eos_token=str(EOS), unk_token=str(UNK)))
    spec.validate()
    spec.optimize(quantization=kind)
    folder.mkdir()
    spec.save(str(folder))
    return folder


def translator(folder: Path, kind: str, workers: int) -> Any:
    import ctranslate2

    threads = torch.get_num_threads()
    made = ctranslate2.Translator(
        str(folder), device="cpu", compute_type=kind, inter_threads=workers, intra_threads=1
    )
    torch.set_num_threads(threads)  # which it sets to one for the whole process, its rivals too
    return made


def writer(translator: Any, sources: Sequence[np.ndarray], rows: int, length: int) -> Callable[[int], int]:
    """Write exactly so many ids for each source, with a beam of the given size; how many sources there
    were."""
    words = [[str(number) for number in source] for source in sources]

    def write(beam: int) -> int:
        found = translator.translate_batch(
            words, beam_size=beam, max_batch_size=rows, min_decoding_length=length, max_decoding_length=length
        )
        assert all(len(one.hypotheses[0]) == length for one in found)
        return len(found)

    return write

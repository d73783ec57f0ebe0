"""Every annotation of seqlab is checked while the tests run, shapes included."""

from jaxtyping import install_import_hook

install_import_hook(
    "seqlab", "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))"
)  # an int is a float

import torch  # noqa: E402

torch.set_num_threads(1)

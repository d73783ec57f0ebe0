"""Every annotation of seqlab is checked while the tests run, shapes included."""

from jaxtyping import install_import_hook

install_import_hook("seqlab", "beartype.beartype")

import torch  # noqa: E402

torch.set_num_threads(1)

"""Every annotation of seqlab is checked while the tests run, shapes included."""

from jaxtyping import install_import_hook

install_import_hook(
    "seqlab", "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))"
)  # an int is a float

import torch  # noqa: E402
from hypothesis import settings  # noqa: E402

settings.register_profile("busy machines", deadline=None)  # a claim holds however long it takes to check
settings.load_profile("busy machines")
torch.set_num_threads(1)

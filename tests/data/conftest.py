"""Files that are looked at keep their rows in a cache of their own."""

import pytest


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("SEQLAB_CACHE", str(tmp_path_factory.mktemp("cache")))

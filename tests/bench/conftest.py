from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="package")
def _small_heap() -> Iterator[None]:
    """An engine starts from a collected heap; what the test run itself holds need not be looked through each time."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()

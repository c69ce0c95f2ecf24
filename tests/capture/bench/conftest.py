import gc
from collections.abc import Iterator

import pytest

from perfmagic.capture.bench import watchers


@pytest.fixture(autouse=True, scope="package")
def _small_heap() -> Iterator[None]:
    """An engine starts from a collected heap; what the test run itself holds need not be looked through each time."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def _nothing_profiled_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests of this process may have opened the profiler, which a result would say."""
    monkeypatch.setattr(watchers, "profiled_before", lambda: False)

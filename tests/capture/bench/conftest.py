import pytest

from perfmagic.capture.bench import watchers


@pytest.fixture(autouse=True)
def _nothing_profiled_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests of this process may have opened the profiler, which a result would say."""
    monkeypatch.setattr(watchers, "profiled_before", lambda: False)

"""Room for a shell in which a test runs a lesson's cells."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell

from perfmagic import sim
from tests.lessons.lesson import DEMOS
from tests.shell.conftest import RecordingShell


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No shell yet; clock and pace of devices are as before afterwards."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setenv("PERFMAGIC_DISPLAY", "static")
    monkeypatch.chdir(DEMOS)
    main, hook, back = sys.modules["__main__"], sys.displayhook, sim.state()
    InteractiveShell.clear_instance()
    yield
    RecordingShell.clear_instance()
    sys.modules["__main__"], sys.displayhook = main, hook
    back()

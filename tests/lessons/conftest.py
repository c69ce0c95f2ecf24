"""Room for a shell in which a test runs a lesson's cells, in a process of its own."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell

from tests.forked import started
from tests.lessons.lesson import DEMOS
from tests.shell.conftest import RecordingShell

OWN_PROCESS = "PERFMAGIC_LESSON_IN_OWN_PROCESS"
LONGEST_S = 540


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No shell yet."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setenv("PERFMAGIC_DISPLAY", "static")
    monkeypatch.chdir(DEMOS)
    main, hook = sys.modules["__main__"], sys.displayhook
    InteractiveShell.clear_instance()
    yield
    RecordingShell.clear_instance()
    sys.modules["__main__"], sys.displayhook = main, hook


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Lessons make devices and leave tensors on them, which other tests of this process would count."""
    if "shell" not in pyfuncitem.fixturenames or OWN_PROCESS in os.environ:
        return None
    command = ["-m", "pytest", "-q", "-n0", "-p", "no:nbval", "-p", "no:cacheprovider", f"--rootdir={DEMOS.parent}"]
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    process = started([*command, str(DEMOS.parent / pyfuncitem.nodeid)], {**own, OWN_PROCESS: "1"})
    printed, _ = process.communicate(timeout=LONGEST_S)
    assert process.returncode == 0, printed[-4000:]
    return True

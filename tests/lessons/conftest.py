"""Room for a shell in which a test runs a lesson's cells, in a process of its own."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell

from perfmagic import sim
from tests.lessons.lesson import DEMOS
from tests.shell.conftest import RecordingShell

OWN_PROCESS = "PERFMAGIC_LESSON_IN_OWN_PROCESS"


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


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Lessons make devices and leave tensors on them, which other tests of this process would count."""
    if "shell" not in pyfuncitem.fixturenames or OWN_PROCESS in os.environ:
        return None
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:nbval", "-p", "no:cacheprovider"]
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [*command, pyfuncitem.nodeid], cwd=DEMOS.parent, env={**own, OWN_PROCESS: "1"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-4000:]
    return True

"""Real kernels on the newest IPython and on the floor."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .session import Session


@pytest.fixture(scope="session", autouse=True)
def _private_jupyter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No profile, kernel or history of the user's takes part."""
    private = tmp_path_factory.mktemp("jupyter")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
            patch.setenv(name, str(private / name.lower()))
        patch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[2]))
        patch.setenv("PERFMAGIC_DISPLAY", "static")  # as make test has it, also for what runs after these tests
        yield


@pytest.fixture(scope="session", params=["newest", "floor"])
def python(request: pytest.FixtureRequest) -> str:
    """The interpreter of each environment in turn."""
    if request.param == "newest":
        return sys.executable
    floor = os.environ.get("PERFMAGIC_FLOOR_PYTHON", "")
    if not Path(floor).is_file():
        pytest.skip("no floor environment: PERFMAGIC_FLOOR_PYTHON names none (make floor builds it)")
    return floor


@pytest.fixture(scope="session")
def kernel(python: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """One kernel for all tests of an environment, with perfmagic loaded."""
    session = Session(python, tmp_path_factory.mktemp("notebooks"))
    assert session.run("%load_ext perfmagic").status == "ok"
    yield session
    session.close()


@pytest.fixture(params=["%%timeline", "%%memory", "%%graph", "%%bench -r 6 --warmup 0", "%%syncbench -r 6 --time 0.05"])
def head(request: pytest.FixtureRequest) -> str:
    """The first line of a cell with each magic."""
    return str(request.param)

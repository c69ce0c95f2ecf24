"""What pip installs for Jupyter: the extension's two halves, where Jupyter looks for them."""

import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import perfmagic
from perfmagic.base.language import LOCALE

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
EXTENSION = ROOT / "perfmagic" / "labextension"
SHARE = "share/jupyter/labextensions/perfmagic/"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    pytest.importorskip("hatchling", reason="hatchling is not installed")
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr[-2000:]
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as opened:
        yield opened


def data(wheel: zipfile.ZipFile) -> dict[str, bytes]:
    """The files that go into the environment itself, by their places there."""
    matches = (re.fullmatch(r"perfmagic-[^/]+\.data/data/(.+)", name) for name in wheel.namelist())
    return {match[1]: wheel.read(match[0]) for match in matches if match}


def test_the_wheel_puts_the_built_extension_where_jupyterlab_looks(wheel: zipfile.ZipFile) -> None:
    there = {name.removeprefix(SHARE): text for name, text in data(wheel).items() if name.startswith(SHARE)}
    built = {path.relative_to(EXTENSION).as_posix(): path.read_bytes() for path in EXTENSION.rglob("*.*")}
    assert there == built
    about = json.loads(there["package.json"])
    assert about["version"] == perfmagic.__version__
    assert about["jupyterlab"]["_build"]["load"] in there


def test_the_wheel_enables_the_server_s_half(wheel: zipfile.ZipFile) -> None:
    settings = json.loads(data(wheel)["etc/jupyter/jupyter_server_config.d/perfmagic.json"])
    assert settings == {"ServerApp": {"jpserver_extensions": {"perfmagic": True}}}
    assert "perfmagic/server/work.py" in wheel.namelist()
    assert not [name for name in wheel.namelist() if name.startswith(("perfmagic/labextension", "perfmagic/frontend"))]


def test_the_wheel_has_the_translations_of_answers(wheel: zipfile.ZipFile) -> None:
    translations = {path.relative_to(ROOT).as_posix(): path.read_bytes() for path in LOCALE.rglob("*.mo")}
    assert translations
    assert {name: wheel.read(name) for name in wheel.namelist() if name.endswith(".mo")} == translations


def test_files_cached_for_a_year_have_a_hash_in_their_name() -> None:
    names = [path.name for path in (EXTENSION / "static").iterdir()]
    assert names
    assert [name for name in names if not re.fullmatch(r"\w+\.[0-9a-f]{16}\.js", name)] == []

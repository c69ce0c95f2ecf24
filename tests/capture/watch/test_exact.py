"""At every launch the chain of the user's lines is the one on the stack, by each way to follow lines."""

import json
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.capture.watch.programs import PROGRAMS

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
NEWER = ("3.12", "3.13", "3.14")  # these have sys.monitoring


def interpreters() -> dict[str, Path]:
    """Those of Python 3.12 and later that are at hand, on the path or below pyenv's folder."""
    pythons = {} if sys.version_info < (3, 12) else {"{}.{}".format(*sys.version_info): Path(sys.executable)}
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for version in NEWER:
        known = [*sorted(pyenv.glob(f"{version}.*/bin/python"))]
        known += [Path(path)] if (path := shutil.which(f"python{version}")) else []
        works = [python for python in known if runs(python, version)]
        if works:
            pythons.setdefault(version, works[0])
    return pythons


def runs(python: Path, version: str) -> bool:
    """Whether an interpreter starts and is what its name says: a shim of pyenv's may lead nowhere."""
    asked = subprocess.run([python, "-c", "import sys; print(*sys.version_info[:2], sep='.')"], capture_output=True)
    return asked.returncode == 0 and asked.stdout.decode().strip() == version


def followed(python: Path, kind: str, name: str = "programs.py", *more: Path) -> dict[str, Any]:
    """What a script of this folder prints.  more: folders with packages for it."""
    script, path = Path(__file__).with_name(name), os.pathsep.join(map(str, (ROOT, *more)))
    done = subprocess.run(
        [python, script, kind], capture_output=True, text=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}
    )
    assert done.returncode == 0, done.stderr
    results: dict[str, Any] = json.loads(done.stdout)
    return results


def check(results: dict[str, Any]) -> None:
    assert list(results) == list(PROGRAMS)
    for name, program in results.items():
        assert program["launches"] > 0, name
        assert program["wrong"] == [], name
        assert program["left"] == [], name


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="lines are followed by sys.monitoring")
def test_by_settrace_here() -> None:
    check(followed(Path(sys.executable), "settrace"))


@pytest.mark.parametrize("kind", ["monitoring", "settrace"])
def test_on_every_newer_python_at_hand(kind: str) -> None:
    """Not a case for each: where there is none this is said, and what CI runs does not depend on the machine."""
    pythons = interpreters()
    if not pythons:
        warnings.warn(f"no Python {' or '.join(NEWER)} at hand: lines by sys.monitoring were not tested", stacklevel=1)
    for python in pythons.values():
        check(followed(python, kind))

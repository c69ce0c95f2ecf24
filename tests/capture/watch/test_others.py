"""Beside debuggers, coverage, profilers and other watches: all see what they saw before, and nothing is left behind."""

import sys
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.capture.watch.test_exact import NEWER, followed, interpreters

pytestmark = pytest.mark.slow

TRACED = "lines in functions cannot be followed: a debugger, a coverage tool or another recording traces this process"
FULL = "lines in functions cannot be followed: other tools of this process hold sys.monitoring's numbers 2, 3 and 4"


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A folder with this environment's coverage alone, for interpreters that have none: it runs without its C parts."""
    spec = find_spec("coverage")
    assert spec.submodule_search_locations
    (tmp_path / "coverage").symlink_to(spec.submodule_search_locations[0])
    return tmp_path


def check_all(results: dict[str, Any]) -> None:
    assert results["alone"] == {"right": True, "after": []}
    assert results["cProfile"] == {"right": True, "theirs": [1]}
    assert results["a hook for threads"] == {"right": True, "stays": True}
    assert results["a thread that goes on"] == {"right": True, "left": []}
    assert results["interrupts"]["points"] > 100
    assert results["interrupts"]["wrong"] == []
    assert results["left"] == {"left": []}


def check_settrace(results: dict[str, Any]) -> None:
    check_all(results)
    assert results["a debugger at work"] == {"refused": TRACED, "seen": False, "theirs": True, "stays": True}
    # pdb takes the one trace function there is, and what follows is not known
    assert results["a debugger in the cell"] == {"result": 2, "stopped": True, "lines": [8, 9], "lost": True}
    assert results["a watch in a watch"] == {"refused": TRACED, "inner": False, "outer": True, "lost": False}
    assert results["threads from before"] == {"right": False}  # docs/lines.md, "Limits"
    assert results["coverage by a trace function"] == {"refused": TRACED, "right": False, "theirs": True}


def check_monitoring(results: dict[str, Any]) -> None:
    check_all(results)
    assert results["a debugger at work"] == {"refused": "", "seen": True, "theirs": True, "stays": True}
    lines = [8, 9, 10, 11, 2, *[3, 4] * 3, 3, 5]
    assert results["a debugger in the cell"] == {"result": 2, "stopped": True, "lines": lines, "lost": False}
    assert results["a watch in a watch"] == {"refused": "", "inner": True, "outer": True, "lost": False}
    assert results["threads from before"] == {"right": True}
    assert results["another tool"] == {"right": True, "before": 5, "after": 5, "name": "profiler"}
    assert results["all numbers taken"] == {"refused": FULL, "names": ["another"] * 3}
    for core in ("a trace function", "sys.monitoring"):
        assert results[f"coverage by {core}"] == {"refused": "", "right": True, "theirs": True}


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="lines are followed by sys.monitoring")
def test_by_settrace_here() -> None:
    check_settrace(followed(Path(sys.executable), "settrace", "others.py"))


@pytest.mark.parametrize(("kind", "check"), [("monitoring", check_monitoring), ("settrace", check_settrace)])
def test_on_every_newer_python_at_hand(kind: str, check: Any, packages: Path) -> None:
    pythons = interpreters()
    if not pythons:
        message = f"no Python {' or '.join(NEWER)} at hand: sys.monitoring beside others was not tested"
        warnings.warn(message, stacklevel=1)
    for python in pythons.values():
        check(followed(python, kind, "others.py", packages))

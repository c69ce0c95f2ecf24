"""The source tree is as its README says, and no larger than agreed."""

import fnmatch
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.structure import longest_chain, measure_job, size
from tests.json_rows import json_rows, other_form

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]


def test_every_part_of_the_tree_has_its_line() -> None:
    tree = (ROOT / "perfmagic" / "README.md").read_text()
    parts = [p for p in (ROOT / "perfmagic").iterdir() if p.suffix == ".py" or (p / "__init__.py").is_file()]
    named = set(re.findall(r"^    (\w+(?:\.py)?)/? ", tree, re.MULTILINE)) | {"__main__.py"}
    missing = [part.name for part in parts if part.name not in named]
    assert missing == []


def test_files_folders_and_functions_keep_their_budgets() -> None:
    found = size()
    assert found["files at the root"] <= 8
    assert found["most files of a folder"] <= 20
    assert 90 <= found["median lines of a file"] <= 150
    assert found["most lines of a file"] <= 400
    assert found["median lines of a function"] <= 10
    assert found["most lines of a function"] <= 60


def test_the_longest_import_chain_keeps_its_budget() -> None:
    chain = [str(path.relative_to(ROOT)) for path in longest_chain()]
    assert len(chain) <= 16, chain


def test_the_repository_keeps_its_budgets() -> None:
    contents = [path.read_bytes() for path in kept_files()]
    assert len(contents) > 900
    assert sum(map(len, contents)) <= 14_955_000
    texts = [content for content in contents if b"\0" not in content[:8000]]  # as git tells texts from other files
    assert sum(len(text.splitlines()) for text in texts) <= 205_450


def kept_files() -> list[Path]:
    """What git tracks, or in a copy without git what .gitignore does not name."""
    if (ROOT / ".git").exists():
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]
    ignored = [pattern.rstrip("/") for pattern in (ROOT / ".gitignore").read_text().split()]
    return [
        path
        for path in ROOT.rglob("*")
        if path.is_file()
        and not any(fnmatch.fnmatch(part, name) for part in path.relative_to(ROOT).parts for name in ignored)
    ]


def test_json_is_stored_an_item_a_line() -> None:
    assert [str(path.relative_to(ROOT)) for path in other_form()] == [], "run make format"
    long = "x" * 100
    rows = '{"cells": [\n {"id": 1, "source": [\n  "a",\n  "b"]},\n {"source": [\n  "LONG"]}]}\n'
    assert json_rows({"cells": [{"id": 1, "source": ["a", "b"]}, {"source": [long]}]}) == rows.replace("LONG", long)
    assert json_rows({"a": {"n": 1}, "b": {}}) == '{\n "a": {"n": 1},\n "b": {}}\n'


def test_jobs_enter_no_more_files_than_agreed() -> None:
    assert measure_job("open_trace(FILE).text()")["files"] <= 50
    assert measure_job("view FILE --html PAGE")["files"] <= 69
    assert measure_job("report FILE --json")["files"] <= 59
    assert measure_job("explain(TRACE, 'pageable')")["files"] <= 19


def test_make_prints_its_targets() -> None:
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    printed = subprocess.run(
        ["make", "--no-print-directory"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert [line.split()[1] for line in printed.splitlines()] == [
        "help", "setup", "demo", "lab", "slides", "lessons", "class", "test", "notebooks", "suite", "interrupts",
        "loaded", "quick", "test-gpu", "record-gpu", "bench-gpu", "lint", "format", "floor", "matrix", "docs",
        "release-check", "front", "screenshots", "clean",
    ]  # fmt: skip


def test_the_profile_snippet_loads_the_extension(tmp_path: Path) -> None:
    profile = tmp_path / "profile_default"
    profile.mkdir()
    shutil.copy(ROOT / "jupyter-config" / "ipython_config.py", profile)
    done = subprocess.run(
        [sys.executable, "-m", "IPython", "-c", "print(get_ipython().find_cell_magic('timeline') is not None)"],
        env={"IPYTHONDIR": str(tmp_path), "PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "PATH": ""},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.stdout.strip().endswith("True"), done.stderr

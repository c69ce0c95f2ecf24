"""The commands that prove the benchmarks work; what they find is for a calm machine, not for a test."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


@pytest.mark.parametrize(
    ("command", "rows"),
    [
        (("bench_coverage.py", "--series", "4", "--real", "0"), 10),
        (("bench_verdicts.py", "--kinds", "jitter", "steps", "--times", "1", "--seconds", "1"), 2),
        (("bench_accuracy.py", "--rounds", "1", "--alone", "1", "--bodies", "1 µs"), 2),
    ],
)
def test_a_command_measures_and_writes_its_rows_with_versions(
    tmp_path: Path, command: tuple[str, ...], rows: int
) -> None:
    out = tmp_path / "out.json"
    done = subprocess.run(
        [sys.executable, BENCHMARKS / command[0], *command[1:], "--out", out], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(out.read_text("utf-8"))
    assert len(found["rows"]) == rows
    assert found["environment"]["cores"] >= 1
    assert "nan" not in out.read_text("utf-8").lower()


def test_a_planted_fault_is_fixed_by_what_its_brief_says(tmp_path: Path) -> None:
    out = tmp_path / "out.md"
    command = [sys.executable, BENCHMARKS / "planted_faults.py", "pageable batches", "branch on a value", "--out", out]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    pageable, branch = [row for row in out.read_text("utf-8").splitlines() if row.endswith((" yes |", " no |"))]
    assert "`exposed_copy@cell:3` pin" in pageable
    assert pageable.endswith("yes |")
    assert "| no edit |" in branch  # a branch needs its value: nothing mechanical takes the wait away
    assert out.read_text("utf-8").endswith("1 of 2 fixed\n")

"""The reference numbers of recorded traces; tests/analysis/test_report.py compares every report with them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.trace.recorded import EXPECTED, FOLDER, real, real_trace

pytestmark = pytest.mark.slow


def test_the_reference_numbers_are_what_the_sweep_prints() -> None:
    for name in ("a100_alexnet_cuda_sync", "a100_event_sync_3streams", "gp100_gpu_user_annotation"):
        printed = subprocess.run(
            [sys.executable, FOLDER / "reference_sweep.py", real(name)], capture_output=True, text=True, check=True
        ).stdout
        assert json.loads(printed) == json.loads((FOLDER / "expected" / f"{name}.json").read_text())


@pytest.mark.parametrize("expected", EXPECTED, ids=lambda path: path.stem)
def test_no_trace_with_reference_numbers_is_repaired(expected: Path) -> None:
    assert real_trace(expected.stem.replace("__", "/")).meta.repairs == ()

"""Idle time by cause on real traces, met to the nanosecond by a sweep that shares no code with ours."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from perfmagic.analysis.timeline.idle import idle_gaps
from perfmagic.analysis.timeline.overlap import breakdown
from perfmagic.trace.kineto.reader import read_trace
from tests.trace.recorded import EXPECTED, FOLDER, real

pytestmark = pytest.mark.slow
IDLE: dict[str, dict[str, dict[str, int]]] = json.loads((FOLDER / "expected_idle.json").read_text("utf-8"))


def test_the_reference_numbers_are_what_the_sweep_prints() -> None:
    names = ("a100_alexnet_cuda_sync", "gp100_gpu_user_annotation", "mi300_sglang_hipgraph")
    command = [sys.executable, FOLDER / "reference_idle.py", *(real(name) for name in names)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert json.loads(printed) == {name: IDLE[name] for name in names}


def test_every_reference_trace_has_its_idle_time() -> None:
    assert set(IDLE) == {path.stem for path in EXPECTED}
    found = {cause for devices in IDLE.values() for causes in devices.values() for cause in causes}
    assert found == {"in_python", "in_call", "launching", "between_ops", "blocked", "unexplained"}


@pytest.mark.parametrize("name", sorted(IDLE))
def test_a_real_trace_waited_for_exactly_what_the_sweep_says(name: str) -> None:
    trace = read_trace(Path(real(name.replace("__", "/"))))
    assert {str(device) for device in trace.device_ids} == set(IDLE[name])
    for device, causes in IDLE[name].items():
        sums = idle_gaps(trace, int(device)).by_cause_ns
        assert {cause: ns for cause, ns in sums.items() if ns} == causes
        assert sum(causes.values()) == breakdown(trace, int(device)).idle_ns

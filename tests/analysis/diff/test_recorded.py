"""Two recorded traces compared: counts, durations and parts agree with a sweep of the raw files that is not ours."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest

from perfmagic.analysis.diff.diff import TraceDiff, trace_diff
from perfmagic.trace.kineto.reader import read_trace
from tests.data.traces import reference_diff as reference
from tests.trace.recorded import real

PAIRS = [
    ("sampled_rank0of128", "sampled_rank1of128"),
    ("dlrm_8ranks/worker0_step_12.1694128201545", "dlrm_8ranks/worker3_step_12.1694128201557"),
    ("h100_qwen_orphans", "mi300_qwen"),
    ("a100_event_sync_3streams", "gp100_gpu_user_annotation"),
]
NCCL = "nccl|rccl"  # the rule of the reference


@pytest.fixture(params=PAIRS, ids=lambda pair: pair[1], scope="module")
def pair(request: pytest.FixtureRequest) -> tuple[TraceDiff, list[list[dict[str, object]]]]:
    paths: list[Path] = [real(name) for name in request.param]
    first, second = (read_trace(path) for path in paths)
    found = trace_diff(first, second, comm_names=(NCCL, NCCL))
    return found, [reference.complete_events(path) for path in paths]


def test_kernels_are_counted_and_timed_as_by_the_plainest_sweep(pair: tuple[TraceDiff, list[list[dict]]]) -> None:
    found, files = pair
    for which, events in zip("ab", files, strict=True):
        mine: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        for row in found.kernels:
            mine[row.name][0] += getattr(row, f"n_{which}")
            mine[row.name][1] += getattr(row, f"total_{which}_ns")
        assert {name: tuple(row) for name, row in mine.items() if row[0]} == reference.kernels(events)


def test_operators_are_counted_and_timed_as_by_the_plainest_sweep(pair: tuple[TraceDiff, list[list[dict]]]) -> None:
    found, files = pair
    for which, events in zip("ab", files, strict=True):
        mine: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
        for row in found.operators:
            shape = json.dumps(json.loads(row.shape)) if row.shape else ""
            for i, column in enumerate(("n_calls_{}", "n_ops_{}", "device_{}_ns")):
                mine[row.name, shape][i] += getattr(row, column.format(which))
        theirs: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
        for (name, shape), (n, _, n_ops, device_ns) in reference.operators(events).items():
            key = (name, shape if found.by_shape else "")
            theirs[key] = [a + b for a, b in zip(theirs[key], (n, n_ops, device_ns), strict=True)]
        assert {key: row for key, row in mine.items() if row[0]} == dict(theirs)


def test_the_parts_are_those_of_an_instant_by_instant_sweep(pair: tuple[TraceDiff, list[list[dict]]]) -> None:
    found, files = pair
    classes = {"matrix": "compute", "htod": "copy", "dtoh": "copy", "dtod": "copy", "ptop": "copy"}
    for which, events, repeat in zip("ab", files, found.repeats, strict=True):
        assert repeat == 1
        mine: dict[str, int] = defaultdict(int)
        for part in found.parts:
            mine[classes.get(part.op_class, part.op_class) or part.kind] += getattr(part, f"{which}_ns")
        assert {name: ns for name, ns in mine.items() if ns} == {
            name: ns for name, ns in reference.charged(events).items() if ns
        }
        assert sum(mine.values()) == getattr(found, which).whole_ns

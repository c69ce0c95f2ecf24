"""Two recorded traces compared: counts, durations and parts agree with a sweep of the raw files that is not ours."""

import json
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from perfmagic.analysis.diff.diff import TraceDiff, trace_diff
from perfmagic.trace.kineto.reader import read_trace
from tests.data.traces import reference_diff as reference
from tests.trace.recorded import real, real_trace

pytestmark = pytest.mark.slow

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
    diff = trace_diff(first, second, comm_names=(NCCL, NCCL))
    return diff, [reference.complete_events(path) for path in paths]


def test_kernels_are_counted_and_timed_as_by_the_simplest_sweep(pair: tuple[TraceDiff, list[list[dict]]]) -> None:
    found, files = pair
    for which, events in zip("ab", files, strict=True):
        swept: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        for row in found.kernels:
            swept[row.name][0] += getattr(row, f"n_{which}")
            swept[row.name][1] += getattr(row, f"total_{which}_ns")
        assert {name: tuple(row) for name, row in swept.items() if row[0]} == reference.kernels(events)


def test_operators_are_counted_and_timed_as_by_the_simplest_sweep(pair: tuple[TraceDiff, list[list[dict]]]) -> None:
    found, files = pair
    for which, events in zip("ab", files, strict=True):
        swept: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
        for row in found.operators:
            shape = json.dumps(json.loads(row.shape)) if row.shape else ""
            for i, column in enumerate(("n_calls_{}", "n_ops_{}", "device_{}_ns")):
                swept[row.name, shape][i] += getattr(row, column.format(which))
        theirs: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
        for (name, shape), (n, _, n_ops, device_ns) in reference.operators(events).items():
            key = (name, shape if found.by_shape else "")
            theirs[key] = [a + b for a, b in zip(theirs[key], (n, n_ops, device_ns), strict=True)]
        assert {key: row for key, row in swept.items() if row[0]} == dict(theirs)


def test_the_parts_are_those_of_an_instant_by_instant_sweep(pair: tuple[TraceDiff, list[list[dict]]]) -> None:
    found, files = pair
    classes = {"matrix": "compute", "htod": "copy", "dtoh": "copy", "dtod": "copy", "ptop": "copy"}
    for which, events, repeat in zip("ab", files, found.repeats, strict=True):
        assert repeat == 1
        swept: dict[str, int] = defaultdict(int)
        early_ns = 0  # of orphans, which are one part whatever their class
        for part in found.parts:
            ns = getattr(part, f"{which}_ns")
            if part.name == "launched before the recording":
                early_ns = ns
            else:
                swept[classes.get(part.op_class, part.op_class) or part.kind] += ns
        theirs = reference.charged(events)
        edges_ns = swept.pop("edge", 0)  # before the first op, and after the last
        assert edges_ns + sum(theirs.values()) == recorded_ns(events)
        more = {name: ns - swept[name] for name, ns in theirs.items()}
        assert swept.keys() <= theirs.keys() | {name for name, ns in swept.items() if not ns}
        assert more["idle"] == 0
        assert min(more.values()) >= 0
        assert sum(more.values()) == early_ns
        if not early_ns:
            assert {name: ns for name, ns in swept.items() if ns} == {name: ns for name, ns in theirs.items() if ns}
        assert edges_ns + sum(swept.values()) + early_ns == getattr(found, which).whole_ns == recorded_ns(events)


def recorded_ns(events: list[dict]) -> int:
    """From the first operator, call or device op of a file to the last end of one."""
    kinds = {*reference.OPS, *reference.CALLS, "cuda_driver", "cuda_sync", "cpu_op", "Operator"}
    spans = [reference.span_ns(event) for event in events if event.get("cat") in kinds]
    return max(end for _, end in spans) - min(start for start, _ in spans)


def launched_in_steps(name: str) -> tuple[Counter[str], int, int]:
    """By the raw file: the device ops by name that a step launched, all device ops, and the number of steps."""
    events = reference.complete_events(real(name))
    steps = [reference.span_ns(e) for e in events if e["name"].startswith("ProfilerStep#")]
    calls: dict[int, int] = {}
    for event in events:
        if event.get("cat") in reference.CALLS:
            calls.setdefault(event["args"]["correlation"], reference.span_ns(event)[0])
    ops = [event for event in events if event.get("cat") in reference.OPS]
    inside = Counter(
        event["name"]
        for event in ops
        for at in (calls.get(event["args"]["correlation"], -1),)
        if any(start <= at < end for start, end in steps)
    )
    return inside, len(ops), len(steps)


def test_of_a_mean_step_only_what_steps_launched_is_compared() -> None:
    """The second file is the step after the two of the first: 614 and 1,018 ops were launched before these steps."""
    names = ("v100_4streams_nccl_graphs", "v100_4streams_nccl_step")
    diff = trace_diff(*(real_trace(name) for name in names))
    for which, name, repeat in zip("ab", names, diff.repeats, strict=True):
        inside, n_ops, n_steps = launched_in_steps(name)
        swept: Counter[str] = Counter()
        for row in diff.kernels:
            swept[row.name] += getattr(row, f"n_{which}")
        assert repeat == n_steps
        assert +swept == inside
        left_out = f"{n_ops - inside.total():,} device ops were launched by none of its steps and are left out"
        assert any(left_out in note.replace("\u00a0", " ") for note in diff.notes)
    assert sum(part.b_ns for part in diff.parts) == diff.whole.b_ns
    assert abs(diff.whole.diff_ns) < 0.01 * diff.whole.a_ns  # with those ops the step seemed a third longer


def test_ops_that_were_launched_before_the_recording_are_a_part_of_their_own_and_nothing_new() -> None:
    names = ("dlrm_8ranks/worker0_step_12.1694128201545", "dlrm_8ranks/worker1_step_12.1694128201556")
    diff = trace_diff(*(real_trace(name) for name in names), comm_names=(NCCL, NCCL))
    early_us = []
    for name in names:
        events = reference.complete_events(real(name))
        launched = {e["args"]["correlation"] for e in events if e.get("cat") in reference.CALLS and "args" in e}
        ops = [e for e in events if e.get("cat") in reference.OPS]
        early_us.append(sum(int(e["dur"]) for e in ops if e["args"]["correlation"] not in launched))
    (part,) = (part for part in diff.parts if part.name == "launched before the recording")
    assert (part.a_ns, part.b_ns) == (1000 * early_us[0], 1000 * early_us[1]) == (0, 203_000)
    early = [row for row in diff.kernels if row.change == "launched before"]
    assert sum(row.n_b for row in early) == 64
    assert sum(row.total_b_ns for row in early) == 203_000
    assert not [row.name for row in diff.kernels if row.change == "new" and row.operator is None]

import json
from pathlib import Path
from typing import Any

import pytest

from perfmagic.analysis.report import report
from perfmagic.trace.columns import HostKind
from tests.analysis.build import US, Builder
from tests.trace.recorded import EXPECTED, real_trace

pytestmark = pytest.mark.slow

# the reference's keys by ours; what is not listed is called the same, or is looked at apart
RENAMED = {
    "n_events": "n_ops",
    "n_kernel": "n_kernels",
    "n_memcpy": "n_copies",
    "n_memset": "n_memsets",
    "span_ns": "extent_ns",
    "sum_dur_ns": "ops_total_ns",
    "comm_ns": "communication_ns",
    "overlap_compute_comm_ns": "overlap_compute_communication_ns",
    "overlap_comm_copy_ns": "overlap_communication_copy_ns",
}
DISTRIBUTION = {
    "mean": "mean_ns",
    "p0": "min_ns",
    "p50": "median_ns",
    "p90": "p90_ns",
    "p99": "p99_ns",
    "p100": "max_ns",
}
TABLES = {"idle_by_cause_ns", "streams", "launch", "queue_length", "top_kernels", "memcpy"}


@pytest.mark.parametrize("path", EXPECTED, ids=lambda p: p.stem)
def test_the_numbers_of_a_real_trace_are_those_of_an_independent_sweep(path: Path) -> None:
    expected = json.loads(path.read_text())
    devices = report(real_trace(path.stem.replace("__", "/")), comm_names="nccl|rccl")["devices"]
    assert devices.keys() == expected["devices"].keys()
    for number, numbers in expected["devices"].items():
        device = devices[number]
        totals = {RENAMED.get(key, key): value for key, value in numbers.items() if key not in TABLES}
        assert {key: device[key] for key in totals} == totals
        assert _streams(device) == {_number(s): found for s, found in numbers["streams"].items()}
        assert _launch(device) == numbers["launch"]
        assert [
            {"name": k["name"][:160], "calls": k["n_ops"], "total_ns": k["total_ns"]} for k in device["kernels"][:3]
        ] == [kernel | {"name": kernel["name"][:160]} for kernel in numbers["top_kernels"]]  # the sweep cuts them
        assert {copy["name"]: _copied(copy) for copy in device["copies"]} == numbers["memcpy"]
        assert _idle(device) == _in_python(numbers["idle_by_cause_ns"])
        _compare_queues(device, {_number(s): found for s, found in numbers["queue_length"].items()})


def _idle(device: dict[str, Any]) -> dict[str, int]:
    return {cause: ns for cause, ns in device["idle"]["by_cause_ns"].items() if ns}


def _in_python(causes: dict[str, int]) -> dict[str, int]:
    """The causes as a report has them: launched one by one is Python's time, too."""
    found = {cause: ns for cause, ns in causes.items() if cause != "one_by_one"}
    in_python = found.pop("in_python", 0) + causes.get("one_by_one", 0)
    return found | ({"in_python": in_python} if in_python else {})


def _number(stream: str) -> int:
    return int(stream.removeprefix("stream "))  # files of 2021 call a stream "stream 7"


def _streams(device: dict[str, Any]) -> dict[int, dict[str, int]]:
    keys = {"n": "n_ops", "busy_ns": "busy_ns", "same_stream_overlaps": "n_overlaps", "zero_dur": "n_zero_durations"}
    return {row["stream"]: {theirs: row[ours] for theirs, ours in keys.items()} for row in device["streams"]}


def _launch(device: dict[str, Any]) -> dict[str, Any]:
    launch = device["launch"]
    delay, latency = (
        {theirs: launch[times][ours] for theirs, ours in DISTRIBUTION.items()}
        for times in ("call_to_start", "return_to_start")
    )
    return {
        "matched": launch["n_with_launch"],
        "unmatched": launch["n_without_launch"],
        "start_before_launch": launch["n_before_launch"],
        "launch_apis": launch["n_ops_by_call"],
        "queue_delay_ns": delay,
        "latency_after_call_ns": latency | {"negative": launch["n_before_return"]},
    }


def _copied(copy: dict[str, Any]) -> dict[str, Any]:
    bytes_per_ns = round(copy["size_bytes"] / copy["total_ns"], 3) if copy["total_ns"] else None
    return {"n": copy["n_ops"], "ns": copy["total_ns"], "bytes": copy["size_bytes"], "GBps": bytes_per_ns}


def _compare_queues(device: dict[str, Any], reference: dict[int, dict[str, float]]) -> None:
    """The reference knows of ops with a launch record alone: where no op lacks one, its queue is ours."""
    assert {queue["stream"] for queue in device["queues"]} >= reference.keys()
    if not device["launch"]["n_without_launch"]:
        assert {queue["stream"]: queue["ops_max"] for queue in device["queues"]} == {
            stream: found["max"] for stream, found in reference.items()
        }
        if not device["launch"]["n_before_launch"]:  # the reference lets such an op wait less than no time
            assert {queue["stream"]: round(queue["ops_mean"], 4) for queue in device["queues"]} == {
                stream: found["time_weighted_mean"] for stream, found in reference.items()
            }


def test_a_report_is_ready_for_json() -> None:
    b = Builder()
    b.op(10, 30, launch=1)
    b.op(40, 50, launch=2, name="Memcpy HtoD (Pinned -> Device)", size=20_000)
    result = json.loads(json.dumps(report(b.trace(end=60))))
    device = result["devices"]["0"]
    assert device["copies"] == [
        {
            "name": "Memcpy HtoD (Pinned -> Device)",
            "direction": "htod",
            "pageable": False,
            "n_ops": 1,
            "total_ns": 10 * US,
            "size_bytes": 20_000,
            "sized_ns": 10 * US,
            "bandwidth_bytes_per_s": 2e9,
        }
    ]
    assert device["queues"] == [
        {
            "stream": 7,
            "ops_max": 2,
            "ops_mean": (1 * 1 + 8 * 2 + 30 * 1) / 39,
            "launches_max": 2,
            "run_ahead_max_ns": 48 * US,
            "run_ahead_at_least": False,
        }
    ]
    assert (device["exposed_copy_ns"], device["partition"]["copy_alone_ns"]) == (10 * US, 10 * US)
    assert (result["schema_version"], result["trust"]["n_orphans"]) == (3, 0)


def test_a_report_has_the_tables_by_name() -> None:
    b = Builder()
    b.host_op(0, 100, "ProfilerStep#3", kind=HostKind.ANNOTATION)
    b.host_op(0, 50, "aten::mm")
    b.op(110, 130, launch=1, name="volta_sgemm_" + "x" * 200)
    b.op(120, 135, launch=2, name="Memcpy HtoD (Pinned -> Device)", stream=8)
    for i in range(10):
        b.op(150 + 20 * i, 155 + 20 * i, launch=145 + 20 * i, name="add")
    result = json.loads(json.dumps(report(b.trace())))
    device = result["devices"]["0"]
    assert [(k["name"][:12], len(k["name"]), k["total_ns"]) for k in device["kernels"]] == [
        ("add", 3, 50 * US),
        ("volta_sgemm_", 212, 20 * US),  # names are whole in JSON
    ]
    assert [k["short_name"] for k in device["kernels"]] == ["add", "volta_sgemm_…"]
    assert device["tensor_cores"] == {
        "tensor_ns": 0,
        "undecided_ns": 0,
        "matrix_ns": 20 * US,
        "kernel_ns": 70 * US,
        "frac_of_matrix": 0.0,
        "frac_of_kernels": 0.0,
    }
    assert [(o["first"], o["second"], o["overlap_ns"]) for o in device["overlaps"]] == [("compute", "htod", 10 * US)]
    assert "device" not in device["overlaps"][0]
    bound = device["launch_bound"]
    assert (bound["n_stretches"], bound["n_ops"], bound["lost_ns"]) == (1, 11, (15 + 9 * 15) * US)
    assert [o["name"] for o in result["operators"]] == ["aten::mm"]
    assert [(s["number"], s["n_ops"]) for s in result["steps"]] == [(3, 2)]
    assert [(a["name"], a["n_ops"]) for a in result["annotations"]] == [("ProfilerStep#3", 2)]


def test_idle_time_blocking_and_queueing_add_up_in_the_report() -> None:
    b = Builder()
    b.line(0, 2)
    b.op(10, 30, launch=(0, 4))
    b.op(130, 150, launch=120)
    b.host_op(35, 65, "aten::item")
    b.sync(40, 60)
    device = report(b.trace(end=160))["devices"]["0"]
    assert device["idle"]["by_cause_ns"] == {
        "in_python": 70 * US,
        "in_call": 0,
        "launching": 10 * US,
        "between_ops": 0,
        "blocked": 20 * US,
        "other_device": 0,
        "other_stream": 0,
        "unexplained": 0,
    }
    assert sum(device["idle"]["by_cause_ns"].values()) == device["idle_ns"]
    (gap,) = device["idle"]["longest"]
    assert (gap["start_ns"], gap["length_ns"], gap["line"]) == (30 * US, 100 * US, 2)
    assert device["queued"] == {"in_call_ns": 5 * US, "behind_ns": 0, "waiting_ns": 15 * US}
    (sync,) = report(b.trace(end=160))["syncs"]
    assert sync == {
        "asked_by": ".item()",
        "n_asked": 1,
        "n_calls": 1,
        "blocked_ns": 20 * US,
        "busy_ns": 0,
        "lines": [2],
    }


def test_one_request_that_blocked_in_two_calls_counts_once() -> None:
    b = Builder()
    for start in (0, 300, 600):
        b.op(start + 5, start + 150, launch=start)
        b.host_op(start + 10, start + 260, "aten::item")
        b.sync(start + 20, start + 100)
        b.sync(start + 110, start + 250)
    b.op(900, 950, launch=890)
    (row,) = report(b.trace())["syncs"]
    assert (row["asked_by"], row["n_asked"], row["n_calls"]) == (".item()", 3, 6)

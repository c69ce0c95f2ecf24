from __future__ import annotations

import json
from pathlib import Path

import pytest

from perfmagic.analysis.report import report
from perfmagic.trace.columns import HostKind
from perfmagic.trace.kineto.reader import read_trace
from tests.analysis.build import US, Builder
from tests.trace.recorded import EXPECTED, real


@pytest.mark.parametrize("path", EXPECTED, ids=lambda p: p.stem)
def test_the_numbers_of_a_real_trace_are_those_of_an_independent_sweep(path: Path) -> None:
    expected = json.loads(path.read_text())
    devices = report(read_trace(real(path.stem.replace("__", "/"))), comm_names="nccl|rccl")["devices"]
    assert devices.keys() == expected["devices"].keys()
    for device, numbers in expected["devices"].items():
        for key in ("streams", "queue_length"):  # files of 2021 call a stream "stream 7"
            numbers[key] = {stream.removeprefix("stream "): v for stream, v in numbers[key].items()}
        assert {key: devices[device][key] for key in numbers} == numbers


def test_a_report_is_ready_for_json() -> None:
    b = Builder()
    b.op(10, 30, launch=1)
    b.op(40, 50, launch=2, name="Memcpy HtoD (Pinned -> Device)", size=20_000)
    result = json.loads(json.dumps(report(b.trace(end=60))))
    assert result["devices"]["0"]["memcpy"]["Memcpy HtoD (Pinned -> Device)"] == {
        "n": 1,
        "ns": 10 * US,
        "bytes": 20_000,
        "GBps": 2.0,
    }
    assert result["devices"]["0"]["queue_length"] == {
        "7": {"max": 2, "time_weighted_mean": round((1 * 1 + 8 * 2 + 30 * 1) / 39, 4)}
    }
    assert result["trust"]["orphans"] == 0


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
        ("volta_sgemm_", 160, 20 * US),
    ]
    assert device["tensor_core"] == {
        "tensor_ns": 0,
        "undecided_ns": 0,
        "matrix_ns": 20 * US,
        "kernel_ns": 70 * US,
        "frac_of_matrix": 0.0,
        "frac_of_kernels": 0.0,
    }
    assert [(o["first"], o["second"], o["ns"]) for o in device["overlap"]] == [("compute", "htod", 10 * US)]
    assert "device" not in device["overlap"][0]
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
        "host": 70 * US,
        "sync_drain": 20 * US,
        "dependency": 0,
        "launch_latency": 0,
        "unknown": 10 * US,
    }
    assert sum(device["idle"]["by_cause_ns"].values()) == device["idle_ns"]
    (gap,) = device["idle"]["longest"]
    assert (gap["start_ns"], gap["length_ns"], gap["line"]) == (30 * US, 100 * US, 2)
    assert device["queued"] == {"in_call": 5 * US, "behind": 0, "waiting": 15 * US}
    (sync,) = report(b.trace(end=160))["syncs"]
    assert sync == {"asked_by": ".item()", "n": 1, "blocked_ns": 20 * US, "busy_ns": 0, "lines": [2]}

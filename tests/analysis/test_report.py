from __future__ import annotations

import json
from pathlib import Path

import pytest

from perfmagic.analysis.report import report
from perfmagic.trace.kineto import read_trace

from .build import US, Builder

TRACES = Path(__file__).parents[3] / "shared" / "traces"
EXPECTED = sorted(TRACES.glob("expected/*.json"))


@pytest.mark.skipif(not EXPECTED, reason="shared/traces is absent")
@pytest.mark.parametrize("path", EXPECTED, ids=lambda p: p.stem)
def test_the_numbers_of_a_real_trace_are_those_of_an_independent_sweep(path: Path) -> None:
    expected = json.loads(path.read_text())
    name = Path(expected["trace"]).name
    devices = report(read_trace(next(TRACES.glob(f"real/**/{name}*"))), comm_names="nccl|rccl")["devices"]
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

"""The maker of large traces: real rows, repeated in time, nothing lost and nothing mixed up."""

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfmagic.trace.columns import NONE
from perfmagic.trace.kineto.reader import read_trace
from perfmagic.trace.model import Trace
from tests.trace.recorded import FOLDER, NAMES

pytestmark = pytest.mark.slow


MAKER = Path(__file__).resolve().parents[3] / "benchmarks" / "repeat_trace.py"


def repeat(source: Path, out: Path, *options: str) -> dict[str, Any]:
    command = [sys.executable, str(MAKER), str(out), "--source", str(source), *options]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout)


def sums(trace: Trace) -> dict[str, Any]:
    ops, calls, host = trace.ops, trace.calls, trace.host_ops
    return {
        "rows": [len(t) for t in (ops, calls, host, trace.waits, trace.counters)],
        "durations_ns": [int((t.end_ns - t.start_ns).sum()) for t in (ops, calls, host)],
        "launched": int((trace.launch_start_ns() != NONE).sum()),
        "launch_to_start_ns": int((ops.start_ns - trace.launch_start_ns())[trace.launch_start_ns() != NONE].sum()),
        "bytes": int(ops.size_bytes[ops.size_bytes != NONE].sum()),
    }


@pytest.mark.parametrize("name", NAMES)
def test_three_rounds_hold_three_times_the_ops_times_and_matched_launches(name: str, tmp_path: Path) -> None:
    written = repeat(FOLDER / name, tmp_path / "three.json", "--rounds", "3")
    once, three = read_trace(FOLDER / name), read_trace(tmp_path / "three.json")
    assert three.meta.repairs == ()
    assert sums(three) == {k: [3 * n for n in v] if isinstance(v, list) else 3 * v for k, v in sums(once).items()}
    assert written["bytes"] == (tmp_path / "three.json").stat().st_size
    assert len(np.unique(three.ops.correlation)) == 3 * len(np.unique(once.ops.correlation))


@pytest.mark.parametrize("name", NAMES)
def test_one_round_is_the_source_itself(name: str, tmp_path: Path) -> None:
    written = repeat(FOLDER / name, tmp_path / "one.json", "--rounds", "1")
    one, source = (
        json.loads((tmp_path / "one.json").read_bytes()),
        json.loads(gzip.decompress((FOLDER / name).read_bytes())),
    )
    assert {k: v for k, v in one.items() if k != "traceEvents"} == {
        k: v for k, v in source.items() if k != "traceEvents"
    }
    assert sorted(map(json.dumps, one["traceEvents"])) == sorted(map(json.dumps, source["traceEvents"]))
    assert written["events"] == len(source["traceEvents"])


def test_the_three_forms_hold_the_same(tmp_path: Path) -> None:
    source = FOLDER / "mi300_sglang_hipgraph.json.gz"
    repeat(source, tmp_path / "line.json", "--events", "10_000")
    repeat(source, tmp_path / "indented.json", "--events", "10_000", "--indented")
    packed = repeat(source, tmp_path / "packed.json.gz", "--events", "10_000", "--indented")
    line, indented = (tmp_path / "line.json").read_text(), (tmp_path / "indented.json").read_text()
    assert line.count("\n") == 0
    assert indented.count("\n") > 4 * packed["events"]
    assert json.loads(line) == json.loads(indented)
    assert gzip.decompress((tmp_path / "packed.json.gz").read_bytes()).decode() == indented
    assert abs(packed["events"] - 10_000) < 2058 / 2  # events of the source


def test_times_keep_the_digits_of_the_source(tmp_path: Path) -> None:
    rows = [
        {"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": "AT", "dur": "LONG", "args": {}},
    ]
    text = json.dumps({"traceEvents": rows}).replace('"AT"', "1712195495519689.047").replace('"LONG"', "63.810")
    (tmp_path / "in.json").write_text(text)
    repeat(tmp_path / "in.json", tmp_path / "out.json", "--rounds", "2")
    out = (tmp_path / "out.json").read_text()
    assert '"ts": 1712195495519689.047, "dur": 63.810' in out
    assert '"ts": 1712195495519853.047, "dur": 63.810' in out  # 164 µs: 63.810 and a pause of 100, as a whole number


def test_a_rank_is_added_where_there_is_none(tmp_path: Path) -> None:
    source = FOLDER / "v100_4streams_nccl_step.json.gz"
    repeat(source, tmp_path / "ranked.json", "--rounds", "1", "--rank", "5")
    assert read_trace(tmp_path / "ranked.json").meta.rank == read_trace(source).meta.rank
    (tmp_path / "bare.json").write_text(
        '{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 5, "dur": 2}]}'
    )
    repeat(tmp_path / "bare.json", tmp_path / "bare_ranked.json", "--rounds", "1", "--rank", "5")
    assert read_trace(tmp_path / "bare_ranked.json").meta.rank == 5


@pytest.mark.parametrize(("more", "tool"), [([], "perfmagic"), (["--text"], "text")])
def test_the_benchmark_measures_perfmagic_alone_where_there_are_no_peers(more: list[str], tool: str) -> None:
    source = FOLDER / "a100_event_sync_3streams.json.gz"
    options = ["--source", str(source), "--events", "400", "--rounds", "1", "--forms", "gzip", *more]
    command = [sys.executable, str(MAKER.with_name("open_trace.py")), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    row, _, *table = done.stdout.splitlines()
    found = json.loads(row)
    assert (found["tool"], found["form"], found["wall_ratio"]) == (tool, "gzip", 1.0)
    assert found["events"] == 43 + 3 * 106  # said once; in a round
    if tool == "perfmagic":
        assert found["found"]["device_ops"] == 3 * len(read_trace(source).ops)
    else:
        assert found["found"]["status"] == 0
        assert found["found"]["lines"] > 2
    assert found["us_per_event"] == pytest.approx(found["wall_s"] * 1e6 / found["events"], rel=0.01)
    assert found["cpu_us_per_event"] == pytest.approx(found["cpu_s"] * 1e6 / found["events"], rel=0.01)
    assert found["peak_mb"] > 10
    assert [line.split()[0] for line in table] == ["tool", tool]
    assert "--peers DIR" in done.stderr

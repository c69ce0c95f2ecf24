"""Chrome JSON written by us: everything comes back, every viewer finds what it needs, nothing private is in it."""

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perfmagic.base.errors import OptionError
from perfmagic.trace.columns import NONE, CallKind, HostKind, OpKind, Remark
from perfmagic.trace.formats.chrome import without_folders, write_chrome
from perfmagic.trace.formats.npz import write_npz
from perfmagic.trace.formats.sources import read_file
from perfmagic.trace.kineto.reader import read_trace
from perfmagic.trace.model import Cell, Collective, DeviceInfo, Trace, TraceMeta, make_trace
from tests.trace.recorded import NAMES, as_bytes, columns_by_name, launch_and_kernel, recorded

TABLES = ("ops", "calls", "host_ops", "python_frames", "waits", "counters", "marks")


def _simulated() -> Trace:
    """A simulated run with lines, counters, a wait, and names that need quoting."""
    names = ['矩阵 "mm"', "sim_launch", "aten::mm\n", "memory", "/home/ann/lab/train.py(3): step"]
    meta = TraceMeta(
        "cell",
        base_unix_ns=1_700_000_000_000_000_123,
        start_ns=-5,
        end_ns=80_000_000_000_993,
        returned_ns=77,
        devices=(DeviceInfo(0, "sim", "simulated device", "2 ms an op"),),
        rank=1,
        world_size=2,
        torch_version="2.13.0",
        failed="ValueError: no",
        dropped_events=3,
        notes=(Remark("short", "a short one", {"n": 2}),),
        pace='{"kernel_s": 0.002}',
    )
    return make_trace(
        names,
        meta,
        ops={
            "start_ns": [10, 80_000_000_000_001],
            "end_ns": [1_234_567, 80_000_000_000_993],
            "kind": [OpKind.KERNEL, OpKind.MEMCPY],
            "name": [0, 0],
            "stream": [7, -1],
            "correlation": [1, 2],
            "size_bytes": [-1, 4096],
            "collective": [0, NONE],
            "sequence": [17, NONE],
        },
        calls={
            "start_ns": [-3, 5],
            "end_ns": [1, 6],
            "kind": [CallKind.LAUNCH] * 2,
            "name": [1, 1],
            "correlation": [1, 2],
        },
        host_ops={"start_ns": [-4, -5], "end_ns": [8, 70], "kind": [HostKind.OP, HostKind.ANNOTATION], "name": [2, 0]},
        waits={"at_ns": [4], "correlation": [9], "stream": [7], "on_stream": [0], "on_correlation": [1]},
        counters={"at_ns": [1, 2], "series": [3, 3], "value": [0.1, 2e9]},
        marks={"at_ns": [-5, 3], "line": [2, 4], "top_line": [2, 3]},
        cell=Cell("%%timeline\n甲 = a @ b\n\nx"),
        collectives=[Collective("allreduce", 4096, 4096, "Float", 8, "default_pg", (0, 1, 2, 3, 4, 5))],
    )


def _assert_equal(found: Trace, expected: Trace) -> None:
    for table in TABLES:
        columns = columns_by_name(expected, table)
        if table in ("host_ops", "python_frames"):
            columns["name"] = [without_folders(name) for name in columns["name"]]
        assert columns_by_name(found, table) == columns, table
    assert replace(found.meta, origin=expected.meta.origin) == expected.meta
    assert found.cell == expected.cell


@pytest.mark.parametrize("name", ["run.json", "run.json.gz"])
def test_a_written_simulated_run_reads_back_equal(tmp_path: Path, name: str) -> None:
    trace = _simulated()
    found = read_trace(write_chrome(trace, tmp_path / name))
    _assert_equal(found, trace)
    assert found.ops.line.tolist() == [2, 4]
    assert found.device_info(0).label == "simulated device, 2 ms an op"
    assert found.meta.origin == name


@pytest.mark.parametrize("name", NAMES)
def test_a_written_recording_reads_back_equal(tmp_path: Path, name: str) -> None:
    trace = recorded(name.removesuffix(".json.gz"))
    _assert_equal(read_trace(write_chrome(trace, tmp_path / "again.json")), trace)


def test_viewers_find_names_flows_and_arguments(tmp_path: Path) -> None:
    events = _events(write_chrome(_simulated(), tmp_path / "run.json"))
    processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert processes[0] == "simulated device, 2 ms an op"
    kernel = next(e for e in events if e.get("cat") == "kernel")
    expected = {"device": 0, "stream": 7, "correlation": 1, "line": 2}
    expected |= {"Collective name": "allreduce", "In msg nelems": 4096, "Out msg nelems": 4096, "dtype": "Float"}
    assert kernel["args"] == expected | {
        "Group size": 8,
        "Process Group Name": "default_pg",
        "Process Group Ranks": "[0, 1, 2, 3, 4, 5, ...]",
        "Seq": 17,
    }
    starts = {e["id"]: e["ts"] for e in events if e["ph"] == "s"}
    ends = {e["id"]: e["ts"] for e in events if e["ph"] == "f"}
    assert (starts[0], ends[0]) == (-0.003, 0.010)
    assert starts.keys() == ends.keys() == {0, 1}


def test_no_folder_is_written(tmp_path: Path) -> None:
    trace = _simulated()
    rows: dict[str, Any] = {"start_ns": [0], "end_ns": [1], "kind": [HostKind.PYTHON], "name": [4]}
    trace = make_trace(trace.names, replace(trace.meta, failed="OSError: /home/ann/x/y.bin"), host_ops=rows)
    path = write_chrome(trace, tmp_path / "run.json")
    assert "ann" not in path.read_text(encoding="utf-8")
    assert columns_by_name(read_trace(path), "python_frames")["name"] == ["train.py(3): step"]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("/home/ann/train.py(3): step", "train.py(3): step"),
        (r"C:\Users\ann\train.py(3): step", "train.py(3): step"),
        ("torch/nn/modules/module.py(1518): _call_impl", "torch/nn/modules/module.py(1518): _call_impl"),
        ("OSError: '~/lab/a.bin' and /tmp/b", "OSError: 'a.bin' and b"),
        ("3 / 4 launches", "3 / 4 launches"),
    ],
)
def test_absolute_folders_are_cut_and_relative_ones_stay(text: str, left: str) -> None:
    assert without_folders(text) == left


def test_a_file_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "run.json").mkdir()
    with pytest.raises(OptionError, match="cannot be written"):
        write_chrome(_simulated(), tmp_path / "run.json")
    with pytest.raises(OptionError, match="cannot be written"):
        write_chrome(_simulated(), tmp_path / "no" / "run.json")
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_the_same_trace_gives_the_same_bytes(tmp_path: Path) -> None:
    first, second = (write_chrome(_simulated(), tmp_path / name).read_bytes() for name in ("a.json.gz", "b.json.gz"))
    assert gzip.decompress(first) == gzip.decompress(second)
    assert first == second


def _events(path: Path) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    return events


def test_a_path_from_the_home_folder_is_taken_as_a_shell_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert write_chrome(_simulated(), "~/run.json") == tmp_path / "run.json"
    assert (tmp_path / "run.json").exists()


@pytest.mark.parametrize("ending", ["json", "npz"])
def test_how_many_durations_were_repaired_is_kept_and_not_counted_again(tmp_path: Path, ending: str) -> None:
    events = launch_and_kernel(1, 0, 10) + launch_and_kernel(2, 30, 40)
    del events[1]["dur"], events[2]["dur"]
    events[3]["dur"] = -4
    trace = read_trace(as_bytes(events))
    assert (trace.meta.repaired_ops, trace.meta.repaired_ns, trace.meta.repaired_calls) == (2, 0, 1)
    path = tmp_path / f"again.{ending}"
    (write_npz if ending == "npz" else write_chrome)(trace, path)
    assert read_file(path).meta.repaired_ops == 2
    assert read_file(path).meta.repaired_calls == 1


def test_a_duration_cut_at_the_end_counts_with_the_time_it_was_given() -> None:
    events = launch_and_kernel(1, 0, 10) + launch_and_kernel(2, 30, 40)
    events[1]["dur"] = 1e12
    meta = read_trace(as_bytes(events)).meta
    assert (meta.repaired_ops, meta.repaired_ns) == (1, 40_000)

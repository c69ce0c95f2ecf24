"""Reading sound traces: every record in its table, every time exact."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfmagic.base.errors import TraceError
from perfmagic.trace.columns import NONE, CallKind, HostKind, OpKind, Remark
from perfmagic.trace.kineto import file as kineto_file
from perfmagic.trace.kineto.reader import read_trace
from perfmagic.trace.model import Collective, LaunchShape
from tests.trace.recorded import FOLDER, NAMES, as_bytes, event, launch_and_kernel, recorded


@pytest.mark.parametrize("name", NAMES)
def test_a_sound_file_reports_no_repair(name: str) -> None:
    assert read_trace(FOLDER / name).meta.repairs == ()


def test_the_records_of_a_small_trace_go_to_their_tables() -> None:
    trace = recorded("a100_event_sync_3streams")
    assert (len(trace.ops), len(trace.calls), len(trace.host_ops), len(trace.waits)) == (6, 39, 6, 1)
    assert np.bincount(trace.ops.kind).tolist() == [3, 0, 3]
    assert sorted(set(trace.ops.stream.tolist())) == [20, 24, 28]
    assert trace.ops.size_bytes[trace.ops.kind == OpKind.MEMSET].tolist() == [512, 512, 512]
    assert trace.names[trace.ops.name[1]] == "ampere_sgemm_128x64_nn"
    assert trace.meta.devices[0].name == "NVIDIA A100-PG509-200"
    assert (trace.meta.rank, trace.meta.world_size) == (0, None)
    assert trace.meta.base_unix_ns == 1_712_867_402_348_256_000
    assert int((trace.calls.kind == CallKind.SYNC).sum()) == 1


def test_kernels_keep_the_shape_they_were_launched_in() -> None:
    trace = recorded("a100_event_sync_3streams")
    kernels = trace.ops.kind == OpKind.KERNEL
    assert {trace.shapes[row] for row in trace.ops.shape[kernels].tolist()} == {
        LaunchShape((8, 16, 5), (128, 1, 1), 122, 12_544)
    }
    assert (trace.ops.shape[~kernels] == NONE).all()


@pytest.mark.parametrize("grid", [None, [2, 3], [2, 3, "4"], [0, 1, 1], "[2, 3, 4]"])
def test_a_kernel_whose_grid_makes_no_sense_has_none(grid: Any) -> None:
    launch, kernel = launch_and_kernel(1, 0, 5)
    kernel["args"] |= {"grid": grid, "block": [32, 1, 1]}
    trace = read_trace(as_bytes([launch, kernel]))
    assert (trace.ops.shape.tolist(), trace.shapes) == ([NONE], ())


def test_a_stream_wait_says_which_stream_waits_for_which() -> None:
    waits = recorded("a100_event_sync_3streams").waits
    assert (waits.stream.tolist(), waits.on_stream.tolist()) == ([24], [20])
    first = recorded("a100_alexnet_cuda_sync").waits.select(np.array([0]))
    assert (first.stream[0], first.on_stream[0]) == (20, 7)
    assert (first.correlation[0], first.on_correlation[0]) == (5170, 5169)


def test_all_ops_of_a_graph_belong_to_its_one_launch() -> None:
    trace = recorded("mi300_sglang_hipgraph")
    rows, counts = np.unique(trace.ops.launch, return_counts=True)
    assert trace.names[trace.calls.name[rows[counts.argmax()]]] == "hipGraphLaunch"
    assert counts.max() == 544
    assert trace.meta.devices[0].kind == "rocm"


def test_python_frames_are_host_rows_of_their_own_kind() -> None:
    trace = recorded("mi300_sglang_hipgraph")
    assert np.bincount(trace.host_ops.kind).tolist() == [61, 2]
    assert len(trace.python_frames) == 821
    assert set(trace.python_frames.table.kind) == {HostKind.PYTHON}


def test_device_rows_of_annotations_are_no_device_ops() -> None:
    assert len(recorded("gp100_gpu_user_annotation").ops) == 140


@pytest.mark.parametrize(
    ("ts", "start_ns"),
    [(1.001, 1_001), (4458676983543.183, 4_458_676_983_543_183), (2241346127176.383, 2_241_346_127_176_383)],
)
def test_relative_microseconds_are_exact_to_the_nanosecond(ts: float, start_ns: int) -> None:
    trace = read_trace(as_bytes([event("kernel", "k", ts, 41.407)], baseTimeNanoseconds=10**18))
    assert trace.meta.base_unix_ns == 10**18 + start_ns
    assert int(trace.ops.end_ns[0] - trace.ops.start_ns[0]) == 41_407


def test_float_microseconds_of_the_epoch_keep_the_digits_of_the_file() -> None:
    text = as_bytes([event("kernel", "k", 1, 1), event("kernel", "k", 2, 1)]).decode()
    text = text.replace('"ts": 1,', '"ts": 1712195495519689.047,').replace('"ts": 2,', '"ts": 1712195495519695.812,')
    trace = read_trace(text.encode())
    assert trace.meta.base_unix_ns == 1_712_195_495_519_689_047
    assert trace.ops.start_ns.tolist() == [0, 6_765]


def test_categories_and_streams_of_2021_are_read() -> None:
    trace = read_trace(
        as_bytes(
            [
                event("Runtime", "cudaLaunchKernel", 100, 5, pid=5, tid="5 (python)", correlation=3),
                event("Kernel", "k", 110, 5, tid="stream 7", correlation=3),
                event("Memcpy", "Memcpy HtoD (Pageable -> Device)", 120, 5, tid="stream 8", bytes=40),
                event("Operator", "aten::mm", 90, 20, pid=5, tid="5 (python)"),
            ]
        )
    )
    assert trace.ops.stream.tolist() == [7, 8]
    assert trace.ops.launch.tolist() == [0, NONE]
    assert (trace.calls.thread.tolist(), trace.host_ops.thread.tolist()) == ([5], [5])


def test_an_operator_row_with_a_stream_is_no_device_op() -> None:
    events = [*launch_and_kernel(1, 0, 10), event("cpu_op", "triton_poi_fused_0", 0, 1, stream="0", device="cuda:0")]
    trace = read_trace(as_bytes(events))
    assert (len(trace.ops), len(trace.host_ops), trace.meta.repairs) == (1, 1, ())


def test_the_window_ends_with_the_records_and_not_with_a_step_annotation() -> None:
    step = event("user_annotation", "ProfilerStep#3", 0, 9_000_000, pid=99, tid=99)
    trace = read_trace(as_bytes([*launch_and_kernel(1, 100, 110), step]))
    assert (trace.meta.start_ns, trace.meta.end_ns) == (100_000, 120_000)
    assert int(trace.host_ops.start_ns[0]) == 0


def test_memory_events_and_counters_become_counters() -> None:
    memory = {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "ts": 5, "pid": 99, "tid": 99}
    memory["args"] = {"Total Allocated": 512, "Total Reserved": 2048, "Device Id": 1, "Device Type": 1}
    power = {"ph": "C", "name": "Power", "ts": 6, "pid": 0, "args": {"value": 71.5}}
    trace = read_trace(as_bytes([*launch_and_kernel(1, 0, 10), memory, power]))
    found = zip(trace.counters.series, trace.counters.device, trace.counters.value, strict=True)
    assert [(trace.names[s], int(d), float(v)) for s, d, v in found] == [
        ("Total Allocated", 1, 512.0),
        ("Total Reserved", 1, 2048.0),
        ("Power", 0, 71.5),
    ]


def test_a_kernel_row_with_a_collective_name_is_marked() -> None:
    rows = launch_and_kernel(1, 0, 10)
    rows[1]["args"]["Collective name"] = "allreduce"
    rows[1]["args"] |= {"In msg nelems": 12, "dtype": "Float", "Group size": 8}
    trace = read_trace(as_bytes(rows))
    assert trace.ops.collective.tolist() == [0]
    assert trace.collectives == (Collective("allreduce", 12, None, "Float", 8),)


@pytest.mark.parametrize(
    ("written", "ranks"),
    [
        ("[0, 1, 2, 3]", (0, 1, 2, 3)),
        (f"[{', '.join(map(str, range(30)))}, ...]", tuple(range(30))),
        ([8, 16], (8, 16)),
        ("[]", ()),
        ("", ()),
        (7, ()),
        (None, ()),
    ],
)
def test_ranks_of_a_group_and_the_number_of_a_collective_are_kept(written: Any, ranks: tuple[int, ...]) -> None:
    first, second = launch_and_kernel(1, 0, 10), launch_and_kernel(2, 20, 30)
    first[1]["args"] |= {"Collective name": "allreduce", "Process Group Ranks": written, "Seq": 41}
    second[1]["args"] |= {"Collective name": "allreduce", "Process Group Ranks": written}
    damaged = as_bytes([*first, *second, event("kernel", "k", 50, 1)])[:-2]
    for content in (as_bytes([*first, *second]), damaged):
        trace = read_trace(content)
        assert trace.collectives == (Collective("allreduce", ranks=ranks),)
        assert trace.ops.sequence.tolist()[:2] == [41, NONE]


def test_a_message_names_its_other_rank_where_the_record_does() -> None:
    rows = [launch_and_kernel(i, 20 * i, 20 * i + 10) for i in range(1, 5)]
    for (_, kernel), args in zip(
        rows,
        (
            {"Collective name": "send", "Dst Rank": 3},
            {"Collective name": "recv", "Src Rank": "1"},
            {"Collective name": "send"},
            {"Collective name": "broadcast", "Src Rank": 2},
        ),
        strict=True,
    ):
        kernel["args"] |= args
    trace = read_trace(as_bytes([row for pair in rows for row in pair]))
    names = [trace.collectives[i].name for i in trace.ops.collective.tolist()]
    assert names == ["send to 3", "recv from 1", "send", "broadcast"]


def test_chunks_without_collectives_and_chunks_with_them_are_one_table(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [launch_and_kernel(i, 20 * i, 20 * i + 10) for i in range(1, 60)]
    rows[40][1]["args"] |= {"Collective name": "allreduce", "Seq": 5}
    monkeypatch.setattr(kineto_file, "BLOCK_BYTES", 2_000)
    trace = read_trace(as_bytes([row for pair in rows for row in pair]))
    assert trace.ops.sequence.tolist() == [NONE] * 40 + [5] + [NONE] * 18
    assert trace.ops.sequence.dtype == np.int64


def test_shapes_of_inputs_are_kept_by_operator() -> None:
    dims = [[[64, 64], []], [[64, 64], []], [[8]]]
    rows = [event("cpu_op", "aten::mm", 10 * n, 5, **{"Input Dims": d}) for n, d in enumerate(dims)]
    trace = read_trace(as_bytes([*rows, event("cpu_op", "aten::add", 50, 1)]))
    assert trace.host_ops.shape.tolist() == [0, 0, 1, -1]
    assert trace.input_shapes == ("[[64, 64], []]", "[[8]]")


def test_begin_and_end_events_make_one_op() -> None:
    begin = event("kernel", "k", 10, None, stream=7) | {"ph": "B"}
    del begin["dur"]
    end = {"ph": "E", "pid": 0, "tid": 7, "ts": 25}
    trace = read_trace(as_bytes([end, begin]))
    assert (trace.ops.end_ns - trace.ops.start_ns).tolist() == [15_000]
    assert trace.meta.repairs == ()


def test_the_content_decides_and_not_the_ending_of_the_name(tmp_path: Path) -> None:
    text = as_bytes(launch_and_kernel(1, 0, 10))
    (tmp_path / "packed.json").write_bytes(gzip.compress(text[:50]) + gzip.compress(text[50:]))
    (tmp_path / "plain.json.gz").write_bytes(text)
    for name in ("packed.json", "plain.json.gz"):
        trace = read_trace(tmp_path / name)
        assert (len(trace.ops), trace.meta.origin, trace.meta.repairs) == (1, name, ())


def test_the_unpacked_size_is_limited(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.json.gz"
    bomb.write_bytes(gzip.compress(b" " * 10_000_000))
    with pytest.raises(TraceError, match="more than the limit") as caught:
        read_trace(bomb, max_unpacked_bytes=5_000_000)
    assert caught.value.hint


def test_a_device_without_properties_is_named_by_its_number() -> None:
    device = read_trace(as_bytes(launch_and_kernel(1, 0, 10))).meta.devices[0]
    assert (device.name, device.kind) == ("device 0", "cuda")


def test_top_level_keys_of_others_are_not_kept() -> None:
    trace = read_trace(as_bytes(launch_and_kernel(1, 0, 10), host_name="twshared1", username="ann"))
    assert "ann" not in json.dumps([trace.names, str(trace.meta)])


def test_what_was_not_recorded_and_what_recording_took_is_noted() -> None:
    launch, kernel = launch_and_kernel(1, 0, 10)
    operator = event("cpu_op", "aten::mm", 0, 5, tid=99)
    overhead = [event("overhead", "Activity Buffer Request", n, 1500.5, tid=-1) for n in (0, 2000)]
    assert read_trace(as_bytes([launch, kernel, operator])).meta.notes == ()
    (no_host,) = read_trace(as_bytes([launch, kernel])).meta.notes
    assert no_host == Remark("no_host_ops", "no host operator was recorded: what Python did is unknown")
    (no_launch,) = read_trace(as_bytes([kernel, operator])).meta.notes
    assert no_launch == Remark("no_launches", "no launch was recorded: when ops were queued is unknown")
    (took,) = read_trace(as_bytes([launch, kernel, operator, *overhead])).meta.notes
    assert (took.kind, took.numbers) == ("profiler_overhead", {"host_ns": 3_001_000, "n_records": 2})
    assert took.words.replace("\u00a0", " ") == "profiler overhead: 3.00 ms of host time in 2 records"

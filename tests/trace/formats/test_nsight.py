"""What Nsight Systems exports, read into traces: numbers as SQL alone gives them, tables of all versions, bad files."""

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import perfmagic
from perfmagic.base.errors import TraceError
from perfmagic.trace.columns import NONE, CallKind, HostKind, OpKind
from perfmagic.trace.formats.sources import read_file, read_traces
from perfmagic.trace.model import LaunchShape, Trace
from tests.trace.formats.nsight_made import MS, PID, THREAD, call, h100, kernel, made, mark, small, strings

pytestmark = pytest.mark.slow

OPS = " union all ".join(
    f"select start, end, {size} as bytes from CUPTI_ACTIVITY_KIND_{kind} where deviceId = :device"
    for kind, size in (("KERNEL", "null"), ("MEMCPY", "bytes"), ("MEMSET", "bytes"))
)
NUMBERS = f"""
with op as ({OPS}),
 before as (select *, max(end) over (order by start rows between unbounded preceding and 1 preceding) as last from op)
select count(*), max(end) - min(start), max(end) - min(start) - sum(max(0, start - ifnull(last, start))), sum(bytes)
from before"""
LAUNCHED = """
select count(*) from CUPTI_ACTIVITY_KIND_KERNEL k where deviceId = :device and exists (
 select 1 from CUPTI_ACTIVITY_KIND_RUNTIME r
 where r.correlationId = k.correlationId and r.globalTid - r.globalTid % 16777216 = k.globalPid)"""


def test_numbers_of_a_recorded_export_are_those_of_sql_alone() -> None:
    job = perfmagic.open_ranks(h100())
    assert job.ranks.ranks == [0, 1]
    with closing(sqlite3.connect(f"file:{h100()}?mode=ro&immutable=1", uri=True)) as database:
        for device in (0, 1):
            timeline = job.rank(device)
            found, ops = timeline.to_dict()["devices"][str(device)], timeline.trace.ops
            sizes = int(ops.size_bytes[ops.size_bytes != NONE].sum())
            expected = database.execute(NUMBERS, {"device": device}).fetchone()
            assert (found["n_ops"], found["extent_ns"], found["busy_ns"], sizes) == expected
            launched = int((ops.launch[ops.kind == OpKind.KERNEL] != NONE).sum())
            assert (launched,) == database.execute(LAUNCHED, {"device": device}).fetchone()
            assert launched > 100
        for table, of in (("CUPTI_ACTIVITY_KIND_RUNTIME", "calls"), ("NVTX_EVENTS", "host_ops")):
            (n,) = database.execute(f"select count(*) from {table}").fetchone()
            assert sum(len(getattr(job.rank(rank).trace, of)) for rank in (0, 1)) == n


def test_a_recorded_export_gives_its_verdict_and_says_what_it_lacks() -> None:
    first, second = perfmagic.open_traces(h100())
    assert (first.title, second.title) == ("h100_2gpu.sqlite, rank 0", "h100_2gpu.sqlite, rank 1")
    assert second.verdict.kind == "copy-bound"
    assert "aten::copy_" in first.trace.names
    (incomplete,) = [finding for finding in first.findings if finding.rule == "incomplete"]
    assert "160 of 338 launches have no device record. The record ends before they ran" in incomplete.sentence
    assert any("numbered by device and process" in note for note in first.trust.sentences)
    with pytest.raises(TraceError, match="holds 2 processes: ranks 0, 1") as caught:
        perfmagic.open_trace(h100())
    assert "open_ranks" in str(caught.value.hint)


def test_two_exports_of_before_and_after_are_compared(tmp_path: Path) -> None:
    before = small(tmp_path / "before.sqlite")
    after = small(tmp_path / "after.sqlite", CUPTI_ACTIVITY_KIND_KERNEL=[kernel(110, 120, 1), kernel(120, 130, 2)])
    found = perfmagic.compare(before, after)
    assert [found.to_dict()[of]["whole_ns"] for of in ("a", "b")] == [90, 30]
    assert "60 ns shorter than A" in found.headline.replace("\u00a0", " ")


def test_ops_belong_to_launches_of_their_own_process(tmp_path: Path) -> None:
    other = PID + (1 << 24)
    calls = [call(100, 105, 1), call(90, 95, 1, tid=other | 43), call(96, 97, 2, tid=other | 43)]
    kernels = [kernel(110, 150, 1), kernel(120, 160, 1, pid=other, device=1), kernel(170, 180, 2)]
    path = tmp_path / "two.sqlite"
    first, second = read_traces(small(path, CUPTI_ACTIVITY_KIND_KERNEL=kernels, CUPTI_ACTIVITY_KIND_RUNTIME=calls))
    assert first.ops.launch.tolist() == [0, NONE]  # 2 was launched by the other process
    assert second.calls.correlation.tolist() == [1, 2]
    assert (first.meta.rank, second.meta.rank, second.meta.world_size) == (0, 1, 2)
    assert first.ops.start_ns[0] == 20  # both count from the first record of either
    assert first.meta.boot == second.meta.boot


def test_a_process_that_ran_nothing_on_a_device_is_no_rank(tmp_path: Path) -> None:
    launcher = call(90, 95, 1, tid=(PID - (1 << 24)) | 9)
    (trace,) = read_traces(small(tmp_path / "l.sqlite", CUPTI_ACTIVITY_KIND_RUNTIME=[launcher, call(100, 105, 1)]))
    assert (trace.meta.rank, trace.meta.boot, len(trace.ops), len(trace.calls)) == (None, "", 2, 1)


def test_ranks_are_those_of_mpi_where_the_export_has_them(tmp_path: Path) -> None:
    other = PID + (1 << 24)
    path = small(
        tmp_path / "mpi.sqlite",
        CUPTI_ACTIVITY_KIND_KERNEL=[kernel(110, 150, 1), kernel(120, 160, 1, pid=other, device=1)],
        MPI_RANKS=[{"globalTid": THREAD, "rank": 3}, {"globalTid": other | 43, "rank": 2}],
    )
    assert [trace.meta.rank for trace in read_traces(path)] == [2, 3]
    assert not any(note.kind == "ranks_guessed" for trace in read_traces(path) for note in trace.meta.notes)


def test_the_rank_of_one_process_is_that_of_its_environment(tmp_path: Path) -> None:
    given = [("CUDA_TRACE", "RANK=9"), ("PROCESS_0:ENVIRONMENT_VARIABLE", 'RANK="5"')]
    given.append(("PROCESS_0:ENVIRONMENT_VARIABLE", 'WORLD_SIZE="8"'))
    path = small(tmp_path / "one.sqlite", META_DATA_CAPTURE=[{"name": name, "value": value} for name, value in given])
    meta = read_file(path).meta
    assert (meta.rank, meta.world_size) == (5, 8)
    assert read_file(small(tmp_path / "none.sqlite")).meta.rank is None


def _ranges(trace: Trace) -> list[tuple[str, int, int, int]]:
    host = trace.host_ops
    rows = zip(host.name.tolist(), host.start_ns.tolist(), host.end_ns.tolist(), host.thread.tolist(), strict=True)
    return [(trace.names[name], start, end, thread) for name, start, end, thread in rows]


def test_nvtx_ranges_keep_their_domain_category_payload_and_registered_text(tmp_path: Path) -> None:
    events = [
        mark(75, -10, None, "NCCL", domainId=3),
        mark(33, -10, None, "io", domainId=0, category=4),
        mark(59, 100, 145, "step", domainId=0, uint64Value=0),
        mark(59, 110, 120, None, domainId=3, textId=3),
        mark(59, 125, 130, "load", domainId=0, category=4, int64Value=-2),
        mark(59, 131, 132, "send", domainId=0, jsonText='{"bytes": 8}'),
        mark(34, 140, None, "here", domainId=0),
        mark(59, 150, None, "open", domainId=0),
    ]
    texts = strings("k", "cudaLaunchKernel_v7000", "ncclAllReduce")
    trace = read_file(small(tmp_path / "nvtx.sqlite", StringIds=texts, NVTX_EVENTS=events))
    assert _ranges(trace) == [
        ("step", 0, 45, 42),
        ("NCCL: ncclAllReduce", 10, 20, 42),
        ("load [io] (-2)", 25, 30, 42),
        ('send ({"bytes": 8})', 31, 32, 42),
        ("here", 40, 40, 42),
        ("open", 50, 90, 42),  # until the last record
    ]


def test_ranges_that_do_not_nest_get_lanes_of_their_own(tmp_path: Path) -> None:
    events = [
        mark(60, 100, 140, "a"),
        mark(60, 110, 150, "b"),
        mark(60, 141, 160, "c"),
        mark(59, 100, 130, "outer"),
        mark(59, 120, 150, "crosses"),
    ]
    trace = read_file(small(tmp_path / "lanes.sqlite", NVTX_EVENTS=events))
    assert {name: thread for name, _, _, thread in _ranges(trace)} == {
        "outer": 42, "a": -1, "b": -2, "crosses": -3, "c": -1,
    }  # fmt: skip


def test_operators_of_torch_lose_their_numbers_and_are_operators(tmp_path: Path) -> None:
    said = ["aten::mul, seq = 7, op_id = 12, sizes = [[2, 3], []]", "aten::mul, op_id = 13", "epoch 1, lr = 0.1"]
    events = [mark(59, 100 + i, 101 + i, text) for i, text in enumerate(said)]
    trace = read_file(small(tmp_path / "torch.sqlite", NVTX_EVENTS=events))
    assert [name for name, *_ in _ranges(trace)] == ["aten::mul", "aten::mul", "epoch 1, lr = 0.1"]
    assert trace.host_ops.kind.tolist() == [HostKind.OP, HostKind.OP, HostKind.ANNOTATION]


def test_copies_memsets_and_graphs_are_ops(tmp_path: Path) -> None:
    place = {"deviceId": 0, "streamId": 7, "globalPid": PID}
    copy = {"start": 240, "end": 280, "correlationId": 5, "bytes": 4096, "copyKind": 1, "srcKind": 0, "dstKind": 2}
    path = small(
        tmp_path / "ops.sqlite",
        StringIds=strings("k", "cudaLaunchKernel_v7000", "cudaGraphLaunch_v10000", "cudaMemcpy_v3020"),
        CUPTI_ACTIVITY_KIND_KERNEL=[kernel(200, 210, 3), kernel(210, 220, 3), kernel(110, 150, 1)],
        CUPTI_ACTIVITY_KIND_RUNTIME=[call(100, 105, 1), *(call(190, 195, i, 3) for i in (3, 4)), call(230, 290, 5, 4)],
        CUPTI_ACTIVITY_KIND_GRAPH_TRACE=[{**place, "start": 220, "end": 230, "correlationId": 4, "graphId": 12}],
        CUPTI_ACTIVITY_KIND_MEMCPY=[{**place, **copy}],
        CUPTI_ACTIVITY_KIND_MEMSET=[{**place, "start": 281, "end": 282, "correlationId": 6, "bytes": 64, "memKind": 2}],
    )
    trace = read_file(path)
    names = [trace.names[name] for name in trace.ops.name]
    assert names == ["k", "k", "k", "CUDA graph 12", "Memcpy HtoD (Pageable -> Device)", "Memset (Device)"]
    assert trace.ops.size_bytes.tolist() == [NONE] * 4 + [4096, 64]
    assert trace.calls.kind.tolist() == [CallKind.LAUNCH] * 4
    assert trace.ops.launch.tolist() == [0, 1, 1, 2, 3, NONE]  # both nodes by one launch


def test_waits_name_the_stream_whose_event_they_wait_for(tmp_path: Path) -> None:
    place = {"deviceId": 0, "globalPid": PID}
    record = {**place, "timestamp": 0, "streamId": 7, "correlationId": 2, "eventId": 5, "eventSyncId": 31}
    sync = {**place, "end": 200, "eventId": 5}
    syncs = [
        {**sync, "start": 160, "streamId": 9, "correlationId": 11, "syncType": 2, "eventSyncId": 31},
        {**sync, "start": 170, "streamId": 0, "correlationId": 12, "syncType": 1, "eventSyncId": 31},
        {**sync, "start": 180, "streamId": 7, "correlationId": 13, "syncType": 3, "eventSyncId": 0},
        {**sync, "start": 190, "streamId": 7, "correlationId": 14, "syncType": 4, "eventSyncId": 0},
        {**sync, "start": 195, "streamId": 7, "correlationId": 15, "syncType": 2, "eventSyncId": 77, "eventId": 6},
    ]
    tables = {"CUPTI_ACTIVITY_KIND_CUDA_EVENT": [record], "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": syncs}
    trace = read_file(small(tmp_path / "waits.sqlite", **tables))
    waits = trace.waits  # the record of the last one is not known
    assert (waits.stream.tolist(), waits.on_stream.tolist(), waits.on_correlation.tolist()) == ([9], [7], [2])
    assert trace.host_waits.stream.tolist() == [7, 7, NONE]
    assert trace.host_waits.on_correlation.tolist() == [2, NONE, NONE]
    older = [{key: value for key, value in row.items() if key != "eventSyncId"} for row in (record, *syncs)]
    tables = {"CUPTI_ACTIVITY_KIND_CUDA_EVENT": older[:1], "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": older[1:]}
    assert read_file(small(tmp_path / "older.sqlite", **tables)).waits.on_stream.tolist() == [7]


def test_gpus_have_their_names_and_sizes_as_the_process_numbers_them(tmp_path: Path) -> None:
    gpus = [
        {"id": 0, "name": "NVIDIA A100", "totalMemory": 40 << 30, "smCount": 108, "computeMajor": 8},
        {"id": 1, "name": "NVIDIA H100", "totalMemory": 80 << 30, "smCount": 132, "computeMajor": 9},
    ]
    seen = [{"gpuId": 1, "cudaId": 0, "pid": 111}, {"gpuId": 0, "cudaId": 0, "pid": 112}]
    plain, chosen = small(tmp_path / "a.sqlite", TARGET_INFO_GPU=gpus), tmp_path / "b.sqlite"
    assert read_file(plain).meta.devices[0].name == "NVIDIA A100"
    (info,) = read_file(small(chosen, TARGET_INFO_GPU=gpus, TARGET_INFO_CUDA_DEVICE=seen)).meta.devices
    assert (info.name, info.memory_bytes, info.multiprocessors, info.compute_major) == ("NVIDIA H100", 80 << 30, 132, 9)


def test_memory_is_what_cuda_gave_out_and_took_back(tmp_path: Path) -> None:
    given = [(120, 1000, 0), (130, 500, 0), (140, 1000, 1), (150, 900, 1)]
    rows = [
        {"start": at, "globalPid": PID, "deviceId": 0, "bytes": n, "memKind": 2, "memoryOperationType": what}
        for at, n, what in given
    ]
    trace = read_file(small(tmp_path / "m.sqlite", CUDA_GPU_MEMORY_USAGE_EVENTS=[*rows, {**rows[0], "memKind": 1}]))
    assert trace.counters.value.tolist() == [1000, 1500, 500, 0]  # the last was allocated before
    assert trace.counters.at_ns.tolist() == [20, 30, 40, 50]


def test_calls_of_the_operating_system_stand_on_threads_that_use_the_device(tmp_path: Path) -> None:
    rows = [call(100, 180, 0, 3, tid=THREAD), call(100, 180, 0, 3, tid=PID | 99)]
    texts = strings("k", "cudaLaunchKernel_v7000", "pthread_cond_wait")
    trace = read_file(small(tmp_path / "os.sqlite", StringIds=texts, OSRT_API=rows))
    assert _ranges(trace) == [("pthread_cond_wait", 0, 80, 42)]


def test_an_old_export_without_processes_kinds_and_domains_opens(tmp_path: Path) -> None:
    old = kernel(110, 150, 1, gridX=2, gridY=1, gridZ=1, blockX=32, blockY=1, blockZ=1)
    del old["globalPid"]
    copy = {"start": 160, "end": 170, "deviceId": 0, "streamId": 7, "correlationId": 2, "bytes": 8, "copyKind": 2}
    events = [{"start": 100, "end": 200, "eventType": 59, "text": "push", "globalTid": THREAD}]
    tables = {"CUPTI_ACTIVITY_KIND_KERNEL": [old], "CUPTI_ACTIVITY_KIND_MEMCPY": [copy], "NVTX_EVENTS": events}
    trace = read_file(small(tmp_path / "2022.sqlite", **tables))
    assert [trace.names[name] for name in trace.ops.name] == ["void gemm<float>(int)", "Memcpy DtoH"]
    assert trace.ops.launch.tolist() == [0, 1]
    assert trace.shapes[trace.ops.shape[0]] == LaunchShape((2, 1, 1), (32, 1, 1), None, None)


def test_the_first_record_has_its_unix_time(tmp_path: Path) -> None:
    about = {
        "TARGET_INFO_SESSION_START_TIME": [{"utcEpochNs": 1_700_000_000_000_000_000}],
        "ANALYSIS_DETAILS": [{"startTime": 40}],
    }
    assert read_file(small(tmp_path / "t.sqlite", **about)).meta.base_unix_ns == 1_700_000_000_000_000_060
    assert read_file(small(tmp_path / "n.sqlite")).meta.base_unix_ns == 0


def test_what_nsys_says_it_lost_is_passed_on(tmp_path: Path) -> None:
    said = [{"text": "Not all CUDA events might have been collected."}, {"text": "Profiling has started."}]
    trace = read_file(small(tmp_path / "d.sqlite", DIAGNOSTIC_EVENT=said))
    assert [note.words for note in trace.meta.notes if note.kind == "nsys_lost"] == [
        "Nsight Systems says: Not all CUDA events might have been collected."
    ]


# Bad input.


def test_a_name_that_is_odd_for_urls_and_sql_opens(tmp_path: Path) -> None:
    path = small(tmp_path / "a b#?%20.sqlite", **{"we'ird": [{"x": 1}]})
    assert read_file(path).meta.origin == "a b#?%20.sqlite"


def test_nothing_is_written_beside_an_export(tmp_path: Path) -> None:
    path = small(tmp_path / "a.sqlite")
    content = path.read_bytes()
    path.chmod(0o444)
    read_file(path)
    assert ([entry.name for entry in tmp_path.iterdir()], path.read_bytes()) == (["a.sqlite"], content)


def test_a_report_names_the_command_that_exports_it(tmp_path: Path) -> None:
    (tmp_path / "run.nsys-rep").write_bytes(b"\x00\x01")
    with pytest.raises(TraceError, match=r"run\.nsys-rep is a report that only Nsight Systems reads") as caught:
        perfmagic.open_trace(tmp_path / "run.nsys-rep")
    assert "nsys export --type sqlite --output run.sqlite run.nsys-rep" in str(caught.value.hint)


def test_a_database_of_another_program_is_refused_by_what_it_has(tmp_path: Path) -> None:
    path = made(tmp_path / "mlflow.sqlite", experiments=[{"a": 1}], runs=[{"b": 2}])
    with pytest.raises(TraceError, match="another program: it has experiments, runs") as caught:
        read_file(path)
    assert "nsys export" in str(caught.value.hint)


def test_a_cut_export_says_how_much_is_missing(tmp_path: Path) -> None:
    path = small(tmp_path / "cut.sqlite")
    whole = path.read_bytes()
    path.write_bytes(whole[:-4096])
    with pytest.raises(TraceError, match=f"is cut: it has {len(whole) - 4096:,} of {len(whole):,} bytes"):
        read_file(path)
    path.write_bytes(whole[:50])
    with pytest.raises(TraceError, match="is cut: it has 50 of 16,384 bytes"):
        read_file(path)


def test_a_damaged_page_is_one_error_with_its_hint(tmp_path: Path) -> None:
    path = small(tmp_path / "bad.sqlite", CUPTI_ACTIVITY_KIND_RUNTIME=[call(i, i + 1, i) for i in range(1000)])
    content = bytearray(path.read_bytes())
    content[8192:] = b"\xff" * (len(content) - 8192)
    path.write_bytes(content)
    with pytest.raises(TraceError, match=r"bad\.sqlite is damaged: ") as caught:
        read_file(path)
    assert "nsys export" in str(caught.value.hint)


@pytest.mark.parametrize("ending", ["-journal", "-wal"])
def test_an_export_that_is_still_written_is_not_read_half(tmp_path: Path, ending: str) -> None:
    path = small(tmp_path / "now.sqlite")
    path.with_name(f"now.sqlite{ending}").write_bytes(bytes(2048))
    with pytest.raises(TraceError, match=rf"still being written.*now\.sqlite{ending} has 2\.0"):
        read_file(path)
    path.with_name(f"now.sqlite{ending}").write_bytes(b"")  # what a closed one leaves
    assert len(read_file(path).ops) == 2


def test_texts_in_place_of_numbers_are_named_with_their_table(tmp_path: Path) -> None:
    path = small(tmp_path / "text.sqlite", CUPTI_ACTIVITY_KIND_KERNEL=[kernel(110, 150, 1) | {"start": "soon"}])
    with pytest.raises(TraceError, match=r"text\.sqlite: CUPTI_ACTIVITY_KIND_KERNEL has .*'soon'.*, numbers were"):
        read_file(path)


def test_impossible_times_are_left_out_and_counted(tmp_path: Path) -> None:
    rows = [kernel(110, 150, 1), kernel(160, 120, 2), kernel(110, 2**62, 3), kernel(110, 120, 4) | {"start": None}]
    trace = read_file(small(tmp_path / "t.sqlite", CUPTI_ACTIVITY_KIND_KERNEL=rows))
    assert len(trace.ops) == 1
    assert [(remark.kind, remark.numbers["n"]) for remark in trace.meta.repairs] == [("impossible_times", 3)]


def test_rows_beyond_the_limit_are_refused_before_they_are_read(tmp_path: Path) -> None:
    path = small(tmp_path / "large.sqlite", CUPTI_ACTIVITY_KIND_RUNTIME=[call(i, i + 1, i) for i in range(5000)])
    with pytest.raises(TraceError, match=r"has up to 5,002 rows to read, 1\.50.MB in memory, more") as caught:
        read_file(path, max_unpacked_bytes=1 * MS)
    assert "--max-gb" in str(caught.value.hint)


def test_rows_beyond_the_free_memory_are_refused_whatever_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perfmagic.trace.formats.nsight.reader.available_bytes", lambda: MS)
    path = small(tmp_path / "large.sqlite", CUPTI_ACTIVITY_KIND_RUNTIME=[call(i, i + 1, i) for i in range(5000)])
    with pytest.raises(TraceError, match=r"1\.50.MB in memory, and 1\.00.MB are free on this machine"):
        read_file(path, max_unpacked_bytes=1 << 40)


def test_an_export_without_records_says_how_to_record(tmp_path: Path) -> None:
    path = made(tmp_path / "empty.sqlite", CUPTI_ACTIVITY_KIND_RUNTIME=[call(1, 2, 3)])
    with sqlite3.connect(path) as connection:
        connection.execute("delete from CUPTI_ACTIVITY_KIND_RUNTIME")
    connection.close()
    with pytest.raises(TraceError, match="without kernels, calls or ranges") as caught:
        read_file(path)
    assert "--trace=cuda,nvtx" in str(caught.value.hint)


def test_bytes_that_are_no_text_do_not_stop_a_name(tmp_path: Path) -> None:
    path = small(tmp_path / "b.sqlite")
    with sqlite3.connect(path) as connection:
        connection.execute("update StringIds set value = cast(x'6bff' as text) where id = 1")
    connection.close()
    trace = read_file(path)
    assert np.unique(trace.ops.name).tolist() == [trace.names.index("k\ufffd")]


def sampled(path: Path) -> Path:
    """Four samples of a thread, 10 ns apart, made by the schema of exports: no recorded file has stacks."""
    stacks = [(1, [3, 4]), (2, [3, 4]), (3, [3, 5, 6]), (4, [3, 5, 6])]
    chain = [
        {"id": number, "symbol": symbol, "module": 7, "unresolved": int(symbol == 6), "stackDepth": depth}
        for number, stack in stacks
        for depth, symbol in enumerate(reversed(stack))
    ]
    instants = [{"id": number, "start": 90 + 10 * number, "globalTid": THREAD} for number, _ in stacks]
    elsewhere = [{"id": 9, "start": 100, "globalTid": PID | 77}]
    texts = strings(
        "void gemm<float>(int)", "cudaLaunchKernel_v7000", "main", "load", "train", "0x7f", "/usr/lib/libx.so"
    )
    return small(path, StringIds=texts, COMPOSITE_EVENTS=[*instants, *elsewhere], SAMPLING_CALLCHAINS=chain)


def frames_in(trace: Trace) -> list[tuple[str, int, int]]:
    frames = trace.python_frames.table
    rows = zip(frames.name.tolist(), frames.start_ns.tolist(), frames.end_ns.tolist(), strict=True)
    return sorted((trace.names[name], start, end) for name, start, end in rows)


def test_samples_of_one_frame_are_one_frame_and_a_library_stands_for_an_address(tmp_path: Path) -> None:
    trace = read_file(sampled(tmp_path / "s.sqlite"))
    assert frames_in(trace) == [("[libx.so]", 20, 40), ("load", 0, 20), ("main", 0, 40), ("train", 20, 40)]
    assert [note.numbers for note in trace.meta.notes if note.kind == "sampled_frames"] == [{"apart_ns": 10}]


def test_a_thread_that_was_elsewhere_between_samples_has_no_frame_there(tmp_path: Path) -> None:
    path = sampled(tmp_path / "s.sqlite")
    with sqlite3.connect(path) as connection:
        connection.execute("update COMPOSITE_EVENTS set start = start + 100 where id > 2 and id < 9")
    connection.close()
    assert ("main", 0, 20) in frames_in(read_file(path))
    assert ("main", 120, 140) in frames_in(read_file(path))


def test_the_backtrace_of_a_call_lasts_as_long_as_the_call(tmp_path: Path) -> None:
    calls = [call(100, 105, 1) | {"callchainId": 1}, call(106, 109, 2) | {"callchainId": None}]
    chain = [{"id": 1, "symbol": symbol, "module": 5, "stackDepth": 4 - symbol} for symbol in (3, 4)]
    texts = strings("k", "cudaLaunchKernel_v7000", "main.py:1 <module>", "main.py:7 step", "python3")
    more = {"StringIds": texts, "CUPTI_ACTIVITY_KIND_RUNTIME": calls, "CUDA_CALLCHAINS": chain}
    trace = read_file(small(tmp_path / "b.sqlite", **more))
    assert frames_in(trace) == [("main.py:1 <module>", 0, 5), ("main.py:7 step", 0, 5)]

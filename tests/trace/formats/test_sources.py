"""Where traces come from: .npz files, folders, finished profilers."""

import io
import json
import warnings
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import perfmagic
from perfmagic.base.errors import CaptureError, TraceError
from perfmagic.trace.columns import NONE, Hazard, LineMarks
from perfmagic.trace.formats.chrome import write_chrome
from perfmagic.trace.formats.npz import write_npz
from perfmagic.trace.formats.sources import read_each, read_file, read_one, trace_files
from perfmagic.trace.json_form import typed
from perfmagic.trace.kineto.reader import read_trace
from perfmagic.trace.model import Cell, Race, Trace
from tests.trace.recorded import FOLDER, NAMES, as_bytes, launch_and_kernel, real_trace, recorded, repairs, table_of

pytestmark = pytest.mark.slow


TABLES = ("ops", "calls", "host_ops", "python_frames", "waits", "counters", "marks")


def _assert_equal(found: Trace, expected: Trace) -> None:
    for table in TABLES:
        for name, column in table_of(expected, table).to_dict().items():
            saved = getattr(table_of(found, table), name)
            assert saved.dtype == column.dtype, name
            assert not saved.flags.writeable, name
            np.testing.assert_array_equal(saved, column)
    for name in ("names", "meta", "cell", "shapes", "input_shapes", "input_dtypes", "input_values", "collectives"):
        assert getattr(found, name) == getattr(expected, name), name


@pytest.mark.parametrize("name", NAMES)
def test_columns_come_back_equal(tmp_path: Path, name: str) -> None:
    trace = recorded(name.removesuffix(".json.gz"))
    marks = LineMarks.make({"at_ns": [1, 5], "line": [2, 3], "top_line": [2, 3]})
    trace = replace(
        trace,
        cell=Cell("%%timeline\n甲 = 1"),
        marks=marks,
        meta=replace(trace.meta, races=(Race(1, 2, Hazard.WRITE_AFTER_READ),)),
    )
    _assert_equal(read_file(write_npz(trace, tmp_path / "trace.npz")), trace)


def test_an_npz_file_has_the_declared_types_whatever_a_trace_keeps(tmp_path: Path) -> None:
    trace = recorded("a100_event_sync_3streams")
    assert trace.calls.thread.dtype == np.int32
    with np.load(write_npz(trace, tmp_path / "trace.npz")) as saved:
        assert saved["calls.thread"].dtype == np.int64
    assert read_file(tmp_path / "trace.npz").calls.thread.dtype == np.int32


def test_an_npz_file_is_known_by_its_content(tmp_path: Path) -> None:
    trace = recorded("a100_event_sync_3streams")
    write_npz(trace, tmp_path / "trace.json")
    assert len(read_file(tmp_path / "trace.json").ops) == len(trace.ops)


def _damaged(tmp_path: Path, name: str, array: np.ndarray) -> Path:
    """A saved trace with one array changed."""
    path = write_npz(recorded("a100_event_sync_3streams"), tmp_path / "trace.npz")
    with np.load(path) as file:
        arrays = dict(file)
    arrays[name] = array
    np.savez_compressed(path, **arrays)
    return path


@pytest.mark.parametrize(
    ("name", "array", "words"),
    [
        ("ops.name", np.full(6, 10**6, np.int32), "row 1000000 of a table"),
        ("ops.name", np.full(6, -1, np.int32), "row -1 of a table"),
        ("ops.start_ns", np.arange(6)[::-1].astype(np.int64), "not in order"),
        ("ops.end_ns", np.zeros(6, np.int64) - 10, "end before they start"),
        ("ops.end_ns", np.full(6, np.nan), "is float64, expected int64"),
        ("ops.kind", np.full(6, 9, np.int8), "kinds that do not exist"),
        ("ops.kind", np.zeros((6, 1), np.int8), "has shape"),
        ("ops.launch", np.zeros(2, np.int64), "differ in length"),
        ("ops.line", np.full(6, 2**31 - 1, np.int32), "numbers from 2147483647 to 2147483647"),  # of 16 GiB
        ("ops.line", np.full(6, -1, np.int32), "possible are 0 to"),
        ("ops.size_bytes", np.full(6, 2**62), "possible are -1 to"),
        ("about", np.frombuffer(b"{", np.uint8), "is damaged"),
        ("about", np.frombuffer(json.dumps({"schema": 99}).encode(), np.uint8), "schema 99, this version"),
    ],
)
def test_a_damaged_npz_file_gives_one_error(tmp_path: Path, name: str, array: np.ndarray, words: str) -> None:
    with pytest.raises(TraceError, match=words) as caught:
        read_file(_damaged(tmp_path, name, array))
    assert caught.value.hint


def test_a_cut_npz_file_gives_one_error(tmp_path: Path) -> None:
    path = write_npz(recorded("a100_event_sync_3streams"), tmp_path / "trace.npz")
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(TraceError, match=r"zip archive|damaged"):
        read_file(path)


def test_a_header_that_promises_too_much_is_not_believed(tmp_path: Path) -> None:
    path = write_npz(recorded("a100_event_sync_3streams"), tmp_path / "trace.npz")
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    promise = io.BytesIO()
    np.lib.format.write_array_header_1_0(promise, {"descr": "<i4", "fortran_order": False, "shape": (10**13,)})
    parts["ops.name.npy"] = promise.getvalue() + bytes(24)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    with pytest.raises(TraceError, match=r"has shape \(10000000000000,\) of int32 in"):
        read_file(path)


def test_a_zip_of_something_else_is_named(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "run.zip", "w") as archive:
        archive.writestr("trace.json", "{}")
    with pytest.raises(TraceError, match="is a zip archive, not a Kineto trace"):
        read_file(tmp_path / "run.zip")


def test_a_file_larger_than_the_limit_is_not_unpacked(tmp_path: Path) -> None:
    path = write_npz(recorded("v100_4streams_nccl_step"), tmp_path / "trace.npz")
    with pytest.raises(TraceError, match=r"more than the limit of 1\.00"):
        read_file(path, max_unpacked_bytes=1000)


def test_a_folder_stands_for_its_traces_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    names = ["rank10.1.pt.trace.json.gz", "rank9.1.pt.trace.json", "a.npz"]
    for name in [*names, "notes.md", "x.json.bak"]:
        (tmp_path / name).touch()
    (tmp_path / "sub.json").mkdir()
    assert [path.name for path in trace_files(tmp_path)] == ["a.npz", "rank9.1.pt.trace.json", names[0]]
    with pytest.raises(TraceError, match=r"a folder with 3 trace files: a\.npz, rank9"):
        read_one(tmp_path, 1 << 30, {})


def test_a_folder_with_one_trace_opens_as_that_trace(tmp_path: Path) -> None:
    (tmp_path / "only.json").write_bytes(as_bytes(launch_and_kernel(1, 0, 10)))
    assert len(perfmagic.open_trace(tmp_path).trace.ops) == 1
    (tmp_path / "more.json").write_bytes(as_bytes(launch_and_kernel(1, 0, 10) + launch_and_kernel(2, 30, 40)))
    assert [len(result.trace.ops) for result in perfmagic.open_traces(tmp_path)] == [2, 1]


def test_of_a_folder_the_sound_files_open_and_each_other_one_is_one_warning(tmp_path: Path) -> None:
    (tmp_path / "rank1.json").write_bytes(as_bytes(launch_and_kernel(1, 0, 10)))
    (tmp_path / "config.json").write_text('{"lr": 1}')
    (tmp_path / "a.npz").write_bytes(b"PK\x03\x04")
    empty = tmp_path / "empty"
    empty.mkdir()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        results = perfmagic.open_traces(tmp_path, empty)
    assert [result.title for result in results] == ["rank1.json"]
    words = [str(warning.message) for warning in told]
    assert [text.split(" ")[0] for text in words] == ["a.npz", "config.json", "empty"]
    assert words[1] == "config.json has no traceEvents; it holds lr"
    assert not any("\n" in text for text in words)
    assert {warning.filename for warning in told} == {__file__}


def test_where_no_file_opens_the_first_error_is_raised_and_sound_files_give_no_warning(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}")
    (tmp_path / "b.json").write_text("")
    with pytest.raises(TraceError, match=r"a\.json has no traceEvents"):
        perfmagic.open_traces(tmp_path)
    for path in tmp_path.iterdir():
        path.write_bytes(as_bytes(launch_and_kernel(1, 0, 10)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(perfmagic.open_traces(tmp_path)) == 2
    assert perfmagic.open_traces() == ()


def test_each_file_is_read_when_it_is_asked_for_and_a_bad_one_says_why(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    sound, bad = tmp_path / "runs" / "a.json", tmp_path / "runs" / "b.json"
    sound.write_bytes(as_bytes(launch_and_kernel(1, 0, 10)))
    bad.write_text("{}")
    reads = read_each([tmp_path / "runs", sound, tmp_path / "none.json"])
    first, second = next(reads), next(reads)
    assert (first.path, first.in_folder, first.n_files, first.problem) == (sound, True, 4, None)
    assert len(first.trace.ops) == 1
    assert (second.path, second.in_folder, second.trace) == (bad, True, None)
    assert "b.json has no traceEvents" in str(second.problem)
    sound.write_text("{}")  # only now is it read again, by its own name
    named, missing = reads
    assert (named.path, named.in_folder, named.trace) == (sound, False, None)
    assert (missing.path, missing.in_folder) == (tmp_path / "none.json", False)
    assert "there is no file" in str(missing.problem)


def test_files_beyond_the_limit_are_left_out_like_other_bad_ones(tmp_path: Path) -> None:
    small, large = tmp_path / "a.json", tmp_path / "b.json"
    small.write_bytes(as_bytes(launch_and_kernel(1, 0, 10)))
    large.write_bytes(as_bytes([row for i in range(1, 40) for row in launch_and_kernel(i, i * 100, 10)]))
    limit = small.stat().st_size + 100
    with pytest.warns(UserWarning, match="b.json"):
        (result,) = perfmagic.open_traces(small, large, max_unpacked_bytes=limit)
    assert result.title == "a.json"


def test_an_empty_folder_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"a folder without \.json, \.json\.gz, \.sqlite, \.xplane\.pb or \.npz files"):
        perfmagic.open_trace(tmp_path)


def test_saving_by_the_ending_opens_again(tmp_path: Path) -> None:
    result = perfmagic.open_trace(FOLDER / "a100_event_sync_3streams.json.gz")
    for name in ("again.npz", "again.json", "again.json.gz"):
        again = perfmagic.open_trace(result.save(tmp_path / name))
        assert again.to_dict()["devices"] == result.to_dict()["devices"]


@pytest.mark.parametrize("kind", ["torch.profiler", "torch.autograd.profiler"])
def test_a_finished_profiler_opens_and_still_exports_as_often_as_asked(tmp_path: Path, kind: str) -> None:
    torch = pytest.importorskip("torch", reason="a profiler is torch's")
    made = torch.profiler.profile if kind == "torch.profiler" else torch.autograd.profiler.profile
    with made() as profiler:
        torch.ones(3) + 1
    result = perfmagic.open_trace(profiler)
    assert "aten::add" in {result.trace.names[row] for row in result.trace.host_ops.name}
    for name in ("first.json", "again.json", *(["packed.json.gz"] if kind == "torch.profiler" else [])):
        profiler.export_chrome_trace(str(tmp_path / name))
        assert perfmagic.open_trace(tmp_path / name).trace.names == result.trace.names
        assert perfmagic.open_trace(profiler).trace.names == result.trace.names
    assert "aten::add" in {row.key for row in profiler.key_averages()}


def test_each_cycle_of_a_profiler_exports_its_own_after_it_was_opened(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="a profiler is torch's")
    opened: list[Any] = []

    def ready(profiler: Any) -> None:
        opened.append(perfmagic.open_trace(profiler).trace)
        profiler.export_chrome_trace(str(tmp_path / f"{len(opened)}.json"))

    schedule = torch.profiler.schedule(wait=0, warmup=1, active=1, repeat=2)
    with torch.profiler.profile(schedule=schedule, on_trace_ready=ready, acc_events=True) as profiler:
        for i in range(4):
            torch.ones(3) + 1 if i < 2 else torch.ones(3) * 2
            profiler.step()
    exported = [perfmagic.open_trace(tmp_path / f"{i}.json").trace.names for i in (1, 2)]
    assert exported == [one.names for one in opened]
    assert ["aten::mul" in names for names in exported] == [False, True]


def test_a_profiler_that_was_exported_opens_no_more_nor_does_an_unfinished_one(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="a profiler is torch's")
    with torch.autograd.profiler.profile(use_kineto=True) as profiler:
        torch.ones(3) + 1
    profiler.export_chrome_trace(str(tmp_path / "mine.json"))
    with pytest.raises(CaptureError, match="saved before") as caught:
        perfmagic.open_trace(profiler)
    assert "open_trace(path)" in str(caught.value.hint)
    with pytest.raises(CaptureError, match="no result yet"):
        perfmagic.open_trace(torch.autograd.profiler.profile(use_kineto=True))


def test_the_handler_writes_a_file_a_cycle(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="a profiler is torch's")
    schedule = torch.profiler.schedule(wait=0, warmup=1, active=1, repeat=2)
    handler = perfmagic.trace_handler(tmp_path / "new" / "runs", worker='a "name"')
    with torch.profiler.profile(schedule=schedule, on_trace_ready=handler) as profiler:
        for _ in range(4):
            with torch.profiler.record_function('step "quoted"'):
                torch.ones(3) + 1
            profiler.step()
    results = perfmagic.open_traces(tmp_path / "new" / "runs")
    assert len(results) == 2
    for result in results:
        assert result.title.startswith('a "name".')
        assert result.title.endswith(".pt.trace.json.gz")
        assert 'step "quoted"' in result.trace.names
        # torch writes the quotes bare; what the handler writes needs no mending any more
        assert repairs(result.trace) in ((), ("1 name with an unescaped quote was repaired",))


def test_a_part_that_is_flagged_as_encrypted_is_damage(tmp_path: Path) -> None:
    path = write_npz(recorded("a100_event_sync_3streams"), tmp_path / "a.npz")
    data = bytearray(path.read_bytes())
    data[data.index(b"PK\x03\x04") + 6] |= 1  # the flags of the first part, beside it and in the directory
    data[data.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(data)
    with pytest.raises(TraceError, match="is damaged: RuntimeError"):
        read_file(path)


def test_a_trace_is_not_saved_under_a_foreign_ending_and_is_loaded_as_it_was(tmp_path: Path) -> None:
    result = perfmagic.open_trace(FOLDER / NAMES[0])
    with pytest.raises(perfmagic.OptionError, match=r"saved as \.npz"):
        result.save(tmp_path / "run.html")
    assert list(tmp_path.iterdir()) == []
    again = perfmagic.load(result.save(tmp_path / "run.npz"))
    assert again.to_dict() == result.to_dict()


def test_an_npz_file_of_the_last_format_still_opens(tmp_path: Path) -> None:
    trace = real_trace("a100_6streams_graphs_rank0")
    path = write_npz(trace, tmp_path / "trace.npz")
    with np.load(path) as saved:
        arrays = {name: saved[name] for name in saved.files if name not in ("host_ops.dtype", "host_ops.value")}
    about = json.loads(arrays["about"].tobytes())
    about["schema"] = 3
    del about["input_dtypes"], about["input_values"]
    for device in about["meta"]["devices"]:
        del device["memory_bytes"], device["multiprocessors"]
    arrays["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    np.savez_compressed(path, **arrays)
    again = read_file(path)
    assert again.input_shapes == trace.input_shapes
    assert (again.host_ops.dtype == NONE).all()
    assert again.device_info(0).multiprocessors is None
    assert read_file(write_npz(trace, path)).device_info(0).multiprocessors == 108


@pytest.mark.parametrize("ending", ["npz", "json"])
def test_types_and_values_of_inputs_survive_being_saved(tmp_path: Path, ending: str) -> None:
    trace = real_trace("mi300_resnet_2streams")
    path = tmp_path / f"trace.{ending}"
    again = read_file((write_npz if ending == "npz" else write_chrome)(trace, path))
    assert _inputs(again) == _inputs(trace)
    assert any("[2, 2]" in values for _, _, values in _inputs(trace))
    assert again.device_info(2).memory_bytes == trace.device_info(2).memory_bytes == 206141652992


def _inputs(trace: Trace) -> set[tuple[str, str, str]]:
    host = trace.host_ops
    tables = ((host.shape, trace.input_shapes), (host.dtype, trace.input_dtypes), (host.value, trace.input_values))
    return set(
        zip(*([texts[row] if row != NONE else "" for row in rows.tolist()] for rows, texts in tables), strict=True)
    )


@pytest.mark.parametrize("number", [-1, 2**60, 10**25])
def test_numbers_that_cannot_be_do_not_keep_a_saved_trace_from_opening(tmp_path: Path, number: int) -> None:
    header = {"distributedInfo": {"rank": number, "world_size": number}, "baseTimeNanoseconds": number}
    trace = read_trace(as_bytes(launch_and_kernel(1, 0, 5), **header))
    assert (trace.meta.rank, trace.meta.world_size) == (None, None)
    assert read_file(write_npz(trace, tmp_path / "t.npz")).meta == trace.meta


@pytest.mark.parametrize("row", [(1,), (1, 2, 3), (1, 2, 0, 0), ("a", "b")])
def test_a_race_of_a_file_has_two_ops_and_a_known_kind(row: tuple[object, ...]) -> None:
    assert typed([1, 2], Race) == Race(1, 2, Hazard.READ_AFTER_WRITE)  # as older files have it
    with pytest.raises(ValueError, match=r"Expected|Invalid|Array"):
        typed(row, Race)

"""Damaged files: repaired and reported, or one clear error. Never a traceback of a library, never silence."""

import gzip
import json
import random
from pathlib import Path

import pytest

import perfmagic
from perfmagic.base.errors import TraceError
from perfmagic.results import TimelineResult
from perfmagic.trace.columns import NONE
from perfmagic.trace.kineto import file as kineto_file
from perfmagic.trace.kineto.reader import EXPORT_SCHEMA, read_trace
from tests.trace import recorded
from tests.trace.damage import DAMAGED, SOUND
from tests.trace.recorded import FOLDER, NAMES, as_bytes, columns_by_name, event, launch_and_kernel, repairs

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_opens_and_says_what_was_repaired_or_gives_one_error(name: str, tmp_path: Path) -> None:
    make, n_ops, words = DAMAGED[name]
    path = tmp_path / name
    path.write_bytes(make())
    if n_ops is None:
        with pytest.raises(TraceError, match=words) as caught:
            read_trace(path)
        assert caught.value.hint
        return
    trace = read_trace(path)
    assert len(trace.ops) == n_ops
    assert words in " | ".join(repairs(trace))
    assert bool(trace.meta.repairs) == bool(words)


@pytest.fixture(params=["zlib", "isal.isal_zlib"])
def _inflate(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kineto_file, "inflate", pytest.importorskip(request.param, reason="isal is an extra"))


PACKED = gzip.compress(SOUND, mtime=0)


@pytest.mark.usefixtures("_inflate")
@pytest.mark.parametrize(
    ("data", "words"),
    [
        (PACKED, ""),
        (PACKED + b"\0" * 512, ""),
        (gzip.compress(SOUND[:5000]) + gzip.compress(SOUND[5000:]), ""),
        (PACKED[:-100], "the gzip stream ends too early"),
        (PACKED[:1500] + b"\xff" * 200 + PACKED[1700:], "the gzip stream is damaged"),
        (PACKED[:-8] + b"\0" * 8, "the gzip stream is damaged"),
    ],
    ids=["sound", "padded", "two members", "cut", "overwritten", "wrong checksum"],
)
def test_a_gzip_stream_is_read_as_far_as_it_goes(data: bytes, words: str) -> None:
    trace = read_trace(data)
    assert bool(trace.meta.repairs) == bool(words)
    assert words in " | ".join(repairs(trace))
    if not words:
        assert len(trace.ops) == 6


@pytest.mark.usefixtures("_inflate")
@pytest.mark.parametrize("offset", [-2, -1, 0, 1])
def test_a_member_that_begins_at_the_end_of_a_block_is_read(offset: int, monkeypatch: pytest.MonkeyPatch) -> None:
    events = [row for n in range(40) for row in launch_and_kernel(n, 20 * n, 20 * n + 5)]
    text = as_bytes(events)
    first, second = gzip.compress(text[:500], mtime=0), gzip.compress(text[500:], mtime=0)
    monkeypatch.setattr(kineto_file, "BLOCK_BYTES", len(first) - offset)
    trace = read_trace(first + second)
    assert (len(trace.ops), repairs(trace)) == (40, ())


@pytest.mark.usefixtures("_inflate")
def test_a_gzip_bomb_is_not_unpacked_beyond_the_limit() -> None:
    bomb = gzip.compress(b'{"traceEvents": [' + b" " * 200_000_000)
    with pytest.raises(TraceError, match=r"holds at least .* unpacked, more than the limit of 50"):
        read_trace(bomb, max_unpacked_bytes=50_000_000)


def test_a_file_cut_in_an_event_gives_the_whole_ones_before() -> None:
    events = [row for n in range(3) for row in launch_and_kernel(n, 20 * n, 20 * n + 5)]
    trace = read_trace(as_bytes(events)[:-30])
    assert (len(trace.ops), len(trace.calls)) == (2, 3)
    assert repairs(trace) == ("the file ends in the middle of event 6; 5 whole events were read",)


def test_an_endless_duration_is_cut_at_the_last_record() -> None:
    events = [*launch_and_kernel(1, 0, 10), event("kernel", "k", 5, 9.2e15, stream=8)]
    trace = read_trace(as_bytes(events))
    assert trace.ops.end_ns.tolist() == [20_000, 20_000]
    assert repairs(trace) == ("1 duration of more than a day, cut at the end of the records",)


def test_a_quote_in_a_name_does_not_cost_the_event() -> None:
    text = as_bytes(launch_and_kernel(1, 0, 10)).replace(b'"sgemm"', b'"op<"a">"')
    trace = read_trace(text)
    assert trace.names[trace.ops.name[0]] == 'op<"a">'


def test_an_event_beyond_repair_is_left_out_and_counted() -> None:
    events = [row for n in range(2) for row in launch_and_kernel(n, 20 * n, 20 * n + 5)]
    text = json.dumps({"traceEvents": events}).replace('"dur": 10, ', '"dur" 10 ', 1)
    trace = read_trace(text.encode())
    assert (len(trace.ops), repairs(trace)) == (1, ("1 damaged event was left out",))


def test_a_begun_event_without_an_end_ends_with_the_last_record() -> None:
    begun = event("kernel", "k", 5, None, stream=8) | {"ph": "B"}
    trace = read_trace(as_bytes([*launch_and_kernel(1, 0, 10), begun]))
    assert repairs(trace) == ("1 begun event without an end, ended with the last record",)
    assert int(trace.ops.end_ns[0]) == 10_000


def test_a_missing_file_and_a_folder_give_one_error(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="there is no file"):
        read_trace(tmp_path / "no.json")
    with pytest.raises(TraceError, match="is a folder"):
        read_trace(tmp_path)


def test_sizes_that_no_memory_has_are_left_out_and_counted() -> None:
    rows = launch_and_kernel(1, 0, 10) + launch_and_kernel(2, 30, 40)
    for row, size in zip(rows[1::2], (2**50, 2**50 + 1), strict=True):
        row["args"]["bytes"] = size
    counter = {"ph": "C", "name": "power", "ts": 5, "pid": 0, "args": {"value": 1e300}}
    trace = read_trace(as_bytes([*rows, counter]))
    assert trace.ops.size_bytes.tolist() == [2**50, -1]
    assert len(trace.counters) == 0
    assert [text.split(" beyond")[0] for text in repairs(trace)] == ["2 sizes or counts"]


def test_times_that_int64_cannot_hold_are_left_out_and_said() -> None:
    rows = launch_and_kernel(1, 1.7e18, 1.7e18 + 10) + launch_and_kernel(2, 30, 40)
    trace = read_trace(as_bytes(rows))
    assert len(trace.ops) == 1
    assert repairs(trace) == ("2 records without a time, or a day away from all others, left out",)
    with pytest.raises(TraceError):
        read_trace(as_bytes(launch_and_kernel(1, 1.7e18, 1.7e18 + 10)))


def test_device_numbers_beyond_all_do_not_become_others() -> None:
    rows = launch_and_kernel(1, 0, 10) + launch_and_kernel(2, 30, 40)
    rows[3]["args"]["device"] = 2**32
    trace = read_trace(as_bytes(rows))
    assert trace.device_ids == (-1, 0)
    assert repairs(trace) == ("1 device number beyond 2147483647, read as -1",)


def test_every_number_of_a_counter_is_a_series() -> None:
    counters = [
        {"ph": "C", "name": "sm", "ts": 5, "pid": 0, "args": {"active": 1, "idle": "2.5", "on": True, "x": 10**400}},
        {"ph": "C", "name": "power", "ts": 6, "pid": 0, "args": {"value": 300}},
    ]
    trace = read_trace(as_bytes([*launch_and_kernel(1, 0, 10), *counters]))
    named = [trace.names[row] for row in trace.counters.series]
    assert list(zip(named, trace.counters.value.tolist(), strict=True)) == [
        ("sm active", 1.0),
        ("sm idle", 2.5),
        ("power", 300.0),
    ]


@pytest.mark.parametrize(
    "part",
    [
        {"marks": {"at_ns": [10**30], "line": [1], "top_line": [1]}},
        {"marks": {"at_ns": [1, 2], "line": [1], "top_line": [1]}},
        {"meta": {"start_ns": "x", "end_ns": 1, "dropped_events": 0, "torch_version": "", "failed": ""}},
        {"meta": {"rank": 0.5}},
        {"meta": {"notes": [{"kind": "x", "words": 5, "numbers": {}}]}},
        {"devices": [{"index": 0, "kind": "sim", "name": 0.5, "pace": ""}]},
        {"devices": [{"index": 0, "kind": None, "name": "sim", "pace": ""}]},
        {"devices": [{"index": 0, "kind": "sim", "name": "sim", "pace": ["x"]}]},
        {"cell": 5},
    ],
)
def test_a_damaged_part_of_our_own_is_left_out_and_said(part: dict[str, object]) -> None:
    meta = {"start_ns": 0, "end_ns": 1, "dropped_events": 0, "torch_version": "", "failed": ""}
    sound = {
        "schema": EXPORT_SCHEMA,
        "meta": meta,
        "devices": [],
        "marks": {"at_ns": [], "line": [], "top_line": []},
        "cell": None,
    }
    trace = read_trace(as_bytes(launch_and_kernel(1, 0, 10), perfmagic=sound | part))
    assert [text.split(" (")[0] for text in repairs(trace)] == ["the perfmagic part is damaged"]
    assert TimelineResult(trace).text()
    assert read_trace(as_bytes(launch_and_kernel(1, 0, 10), perfmagic=sound)).meta.repairs == ()


def test_a_header_behind_the_events_may_look_like_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kineto_file, "BLOCK_BYTES", 5000)
    rows = [row for n in range(100) for row in launch_and_kernel(n, 20 * n, 20 * n + 5)]
    devices = [{"name": "GPU A", "id": 0}, {"name": "GPU B", "id": 1}]
    text = json.dumps({"traceEvents": rows, "deviceProperties": devices}).encode()
    monkeypatch.setattr("perfmagic.trace.kineto.repair.repair", None)  # not needed: the file is sound
    trace = read_trace(text)
    assert (len(trace.ops), trace.device_info(0).label) == (100, "GPU A")


def test_a_wait_on_a_device_beyond_all_is_read_as_none() -> None:
    wait = event("cuda_sync", "Stream Wait Event", 3, 0, stream=7, device=0, wait_on_stream=8, wait_on_device=2**40)
    trace = read_trace(as_bytes([*launch_and_kernel(1, 0, 10), wait]))
    assert trace.waits.on_device.tolist() == [-1]
    assert repairs(trace) == ("1 device number beyond 2147483647, read as -1",)


@pytest.mark.parametrize("share", [0.25, 0.9])
def test_a_recording_that_ends_too_early_is_told_in_every_face_with_its_inputs(tmp_path: Path, share: float) -> None:
    whole = recorded.real("v100_4streams_nccl_graphs").read_bytes()
    path = tmp_path / "cut.json.gz"
    path.write_bytes(whole[: int(len(whole) * share)])
    t = perfmagic.open_trace(path)
    assert "ends too early" in " ".join(repairs(t.trace))
    assert t.findings
    assert t.text()
    assert t.html()
    typed = t.trace.host_ops.dtype
    assert (typed != NONE).sum() == (t.trace.host_ops.shape != NONE).sum() > 0
    assert "" not in t.trace.input_dtypes


TABLES = ("ops", "calls", "host_ops", "python_frames", "waits", "counters")


@pytest.mark.parametrize("name", NAMES)
def test_blocks_of_any_size_give_the_same_trace(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = gzip.decompress((FOLDER / name).read_bytes())[:400_000]
    whole = text if text.rstrip().endswith(b"}") else text[: text.rindex(b"},") + 1] + b"]}"
    expected = read_trace(whole)
    assert expected.meta.repairs == ()
    chance = random.Random(name)
    for size in (len(whole) // 3, 100_000, chance.randint(20_000, 90_000), chance.randint(3_000, 9_000)):
        monkeypatch.setattr(kineto_file, "BLOCK_BYTES", size)
        found = read_trace(whole)
        assert found.meta == expected.meta
        for table in TABLES:
            assert columns_by_name(found, table) == columns_by_name(expected, table)

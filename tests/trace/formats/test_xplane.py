"""What jax.profiler writes. No GPU wrote these files: they are made here by its public schema (xspaces)."""

import gzip
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import perfmagic
from perfmagic.base.errors import TraceError
from perfmagic.trace.columns import NONE, HostKind, OpKind, Remark
from perfmagic.trace.formats.xplane import read_space, sniff
from perfmagic.trace.model import LaunchShape, Trace
from perfmagic.trace.names import OpClass, copy_direction
from tests.trace.formats.xspaces import Event, Line, field, plane, space

GEMM = "regs:64 static_shared:1024 dynamic_shared:512 grid:8,4,1 block:128,1,1 occ_pct:50"
COPY = "kind_src:pageable kind_dst:device size:4096 dest:0 async:1"
SAID = {"device_vendor": "Nvidia", "core_count": 132, "memory_size": 80 << 30, "compute_cap_major": 9}


def gpu(said: dict[str, Any] | None = None, **details: str) -> bytes:
    """A GPU that copies, computes twice and clears, with the lines that XLA derives from that."""
    kernel = {"kernel_details": GEMM, **details}
    return plane(
        "/device:GPU:0",
        Line("Stream #13(Compute)", [
            Event("gemm", 5_000, 9_000, {"correlation_id": 2, "hlo_op": "dot.1", **kernel}),
            Event("gemm", 9_500, 9_900.25, {"correlation_id": 3, **kernel}),
            Event("Memset", 10_000, 10_100, {"correlation_id": 9, "memset_details": "kind:device size:64 async:1"}),
        ], 13, 1_000),
        Line("Stream #15(MemcpyH2D)", [
            Event("MemcpyH2D", 2_000, 4_000, {"correlation_id": 1, "memcpy_details": COPY}),
        ], 15, 1_000),
        Line("XLA Ops", [Event("dot.1", 5_000, 9_900)], 1, 1_000),
        Line("XLA Modules", [Event("jit_step", 2_000, 10_100)], 2, 1_000),
        Line("Steps", [Event("0", 2_000, 10_100)], 3, 1_000),
        said=SAID if said is None else said,
    )  # fmt: skip


def host(prefix: str = "cu") -> bytes:
    """The thread that launched this, in two steps."""
    calls = [(1, "MemcpyHtoDAsync_v2"), (2, "LaunchKernel"), (3, "LaunchKernel")]
    return plane(
        "/host:CPU",
        Line("python", [
            Event("train", 0, 3_000, {"step_num": 7, "_r": 1}),
            Event("train", 3_000, 6_000, {"step_num": 8, "_r": 1}),
            Event("eval", 6_000, 7_000, {"step_num": 8}),
            Event("$train.py:3 step", 10, 2_900),
            Event("$builtins print", 20, 30),
            Event("PjitFunction(step)", 100, 2_800),
            Event("ThreadpoolListener::Record", 150, 150),
            *(Event(prefix + name, 200 * n, 200 * n + 90, {"correlation_id": n}) for n, name in calls),
        ], MOST_IDENT, 1_000),
    )  # fmt: skip


MOST_IDENT = 17371465566286689569  # beyond int64, as JAX numbers its threads
BEGAN = plane("Task Environment", said={"profile_start_time": 1_795_000_000_000_000_000})


def names(trace: Trace, table: Any) -> list[str]:
    return [trace.names[name] for name in table.name.tolist()]


def test_launches_join_what_ran_and_derived_lines_count_nothing() -> None:
    trace = read_space(space(gpu(), host(), BEGAN), "run")
    ops = trace.ops
    assert names(trace, ops) == ["Memcpy HtoD (Pageable -> Device)", "gemm", "gemm", "Memset"]
    assert ops.kind.tolist() == [OpKind.MEMCPY, OpKind.KERNEL, OpKind.KERNEL, OpKind.MEMSET]
    assert ops.start_ns.tolist() == [2_000, 5_000, 9_500, 10_000]  # from the first record on
    assert ops.end_ns.tolist() == [4_000, 9_000, 9_900, 10_100]
    assert ops.stream.tolist() == [15, 13, 13, 13]
    assert ops.size_bytes.tolist() == [4096, NONE, NONE, 64]
    assert ops.launch.tolist() == [0, 1, 2, NONE]
    assert trace.calls.start_ns.tolist() == [200, 400, 600]
    assert [trace.shapes[n] for n in ops.shape[1:3]] == [LaunchShape((8, 4, 1), (128, 1, 1), 64, 1536)] * 2
    assert copy_direction(names(trace, ops)[0]) == OpClass.HTOD
    (info,) = trace.meta.devices
    assert (info.kind, info.name, info.multiprocessors, info.memory_bytes) == ("cuda", "GPU 0", 132, 80 << 30)
    assert trace.meta.base_unix_ns == 1_795_000_000_000_001_000
    assert trace.meta.repairs == trace.meta.notes == ()


def test_the_host_has_steps_frames_and_operators_and_no_instants() -> None:
    trace = read_space(space(gpu(), host()), "run")
    rows = dict(zip(names(trace, trace.host_ops), trace.host_ops.kind.tolist(), strict=True))
    marks = dict.fromkeys(("ProfilerStep#7", "ProfilerStep#8", "eval"), HostKind.ANNOTATION)
    assert rows == {**marks, "PjitFunction(step)": HostKind.OP}
    assert names(trace, trace.python_frames.table) == ["train.py(3): step", "<built-in function print>"]
    assert {*trace.host_ops.thread.tolist(), *trace.calls.thread.tolist()} == {1}


def test_a_file_opens_by_its_content_and_its_text_has_the_verdict(tmp_path: Path) -> None:
    file = tmp_path / "any name"
    file.write_bytes(space(gpu(), host(), BEGAN))
    text = perfmagic.open_trace(file).text(details=True)
    assert "GPU 0" in text
    assert "1 of 4 device ops has no launch record" in text


def test_what_a_device_without_launches_cannot_say_is_said() -> None:
    trace = read_space(space(gpu()), "run")
    assert said(trace) == [
        "no launch was recorded: when ops were queued is unknown",
        "no host operator was recorded: what Python did is unknown",
    ]
    text = perfmagic.results.TimelineResult(trace).text(details=True)
    assert "4 of 4 device ops have no launch record" in text


def test_a_device_without_streams_shows_the_innermost_ops_of_xla() -> None:
    ops = [Event("while", 0, 100), Event("dot", 0, 40), Event("add", 40, 100), Event("dot", 100, 130)]
    tpu = plane("/device:TPU:1", Line("XLA Ops", ops), Line("Steps", [Event("0", 0, 130)]))
    trace = read_space(space(tpu), "run")
    assert names(trace, trace.ops) == ["dot", "add", "dot"]
    assert trace.meta.devices[0].kind == "unknown"
    assert "TPU 1 has no streams in the record: XLA's own list of ops is shown" in said(trace)


def test_amd_says_nothing_of_grids_and_no_registers_are_addresses() -> None:
    for vendor in ({"device_vendor": "AMD"}, {}):  # older files leave it out
        amd = read_space(space(gpu(vendor), host("hip")), "run")
        assert (amd.meta.devices[0].kind, amd.shapes, len(amd.calls)) == ("rocm", (), 3)
    rubbish = read_space(space(gpu(kernel_details=GEMM.replace("64", "2191487992"))), "run")
    assert [shape.registers for shape in rubbish.shapes] == [None]


def test_what_the_profiler_itself_says_is_passed_on() -> None:
    metadata = plane("/host:metadata", said={"cuda_version": "12"})
    trace = read_space(space(host(), metadata, errors=["CUPTI is missing"]), "run")
    assert said(trace)[:2] == [
        "JAX had a device, but its profiler recorded nothing of it", "the profiler said: CUPTI is missing"
    ]  # fmt: skip


def said(trace: Trace) -> list[str]:
    notes: tuple[Remark, ...] = trace.meta.notes
    return [note.words for note in notes]


# Damage.

SMALL_GPU = plane("/device:GPU:0", Line("Stream #7", [Event("k", 3, 9, {"correlation_id": 2, "kernel_details": GEMM})]))
SMALL = space(SMALL_GPU, plane("/host:CPU", Line("t", [Event("cuLaunch", 1, 2, {"correlation_id": 2})])))
ONE = field(4, field(1, 1) + field(2, field(1, 1) + field(2, "op")))
EMPTY_PLANE = field(2, "/host:CPU")
DAMAGED = {
    "a length beyond the file": (b"\n" + b"\xff" * 8 + b"\x7f" + EMPTY_PLANE, "ends .* bytes after"),
    "a number without an end": (space(EMPTY_PLANE + b"\x08" + b"\xff" * 11), "has more than 10 bytes"),
    "an event's number without an end": (
        space(EMPTY_PLANE + field(3, field(4, b"\x08" + b"\xff" * 11)) + ONE), "has more than 10 bytes"
    ),
    "a type that protobuf does not have": (space(EMPTY_PLANE + b"\x0f\x01"), "field 1 of type 7"),
    "an event of a type that protobuf does not have": (
        space(EMPTY_PLANE + field(3, field(4, b"\x0b\x01")) + ONE), "field 1 of type 3"
    ),
    "a number for a line": (space(EMPTY_PLANE + field(3, 5)), r"a number \(5\)"),
    "a text for an event's name": (space(EMPTY_PLANE + field(3, field(4, field(1, "x"))) + ONE), "field 1 .* type 2"),
    "bytes for a thread": (space(EMPTY_PLANE + field(3, field(1, "x"))), "where a number has to be"),
    "too many fields": (space(EMPTY_PLANE + field(3, field(4, field(9, 1) * 1001)) + ONE), "more than 1,000 fields"),
    "too many planes": (space(*[b""] * 10_001), "10,001 planes, more than 10,000"),
    "too many lines": (space(EMPTY_PLANE + field(3, b"") * 100_001), "100,001 lines, more than 100,000"),
    "no record": (space(EMPTY_PLANE, plane("")), "its planes: /host:CPU, one without a name"),
}  # fmt: skip


@pytest.mark.parametrize("what", DAMAGED)
def test_damage_is_said_with_its_place(what: str) -> None:
    content, words = DAMAGED[what]
    with pytest.raises(TraceError, match=words) as raised:
        read_space(content, "run.xplane.pb")
    assert raised.value.message.startswith("run.xplane.pb ")
    assert raised.value.hint


def test_every_cut_is_said() -> None:
    for n in range(1, len(SMALL)):
        if n != len(space(SMALL_GPU)):  # what ends with a plane is whole
            with pytest.raises(TraceError, match="not a complete xplane"):
                read_space(SMALL[:n], "run")


@pytest.mark.slow
@pytest.mark.parametrize("bits", [0x01, 0x04, 0x80, 0xFF])
def test_a_damaged_byte_gives_a_trace_or_an_error_in_words(bits: int) -> None:
    n_refused = 0
    for at in range(len(SMALL)):
        with suppress(TraceError):
            n_refused += 1
            read_space(SMALL[:at] + bytes([SMALL[at] ^ bits]) + SMALL[at + 1 :], "run")
            n_refused -= 1
    assert 0 < n_refused < len(SMALL)


def test_impossible_times_are_repaired_as_in_other_files() -> None:
    far = 2 * 86_400 * 10**9
    events = [Event("a", 0, 10), Event("b", 20, 15), Event("c", 30, far), Event("d", -far, 5), Event("e", 40, 50)]
    trace = read_space(space(plane("/host:CPU", Line("python", events, start_ns=100))), "run")
    assert names(trace, trace.host_ops) == ["a", "b", "c", "e"]
    assert (trace.host_ops.end_ns - trace.host_ops.start_ns).tolist() == [10, 0, 20, 10]
    assert {remark.kind for remark in trace.meta.repairs} == {"no_time", "negative_duration", "endless_duration"}


def test_gzip_is_unpacked_and_a_larger_file_than_allowed_is_refused() -> None:
    content = gzip.compress(space(gpu(), host()))
    assert len(read_space(content, "run").ops) == 4
    with pytest.raises(TraceError, match="more than the limit"):
        read_space(content, "run", 100)
    with pytest.raises(TraceError, match="is empty"):
        read_space(b"", "run")


def test_nothing_else_is_taken_for_one() -> None:
    assert sniff(space(BEGAN, host())[:64])
    for head in (b"", b"\n", b"\n\n{}", b'\n{"traceEvents": []}', b"\n\x03\x12\x01/", b"\x80\x04" + space(host())):
        assert not sniff(head)


# The folder that jax.profiler.trace() was given.


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for date in ("2026_11_26_10_00_00", "2026_11_27_10_00_00"):
        run = tmp_path / "logs" / "plugins" / "profile" / date
        run.mkdir(parents=True)
        (run / "vm.xplane.pb").write_bytes(space(gpu(), host()))
        for beside in ("vm.trace.json.gz", "perfetto_trace.json.gz"):
            (run / beside).write_bytes(gzip.compress(b'{"traceEvents": []}'))
    return tmp_path / "logs"


def test_several_recordings_are_named_and_one_opens_by_its_root(folder: Path) -> None:
    with pytest.raises(TraceError, match="2 recordings of JAX: 2026_11_26_10_00_00, 2026_11_27_10_00_00") as raised:
        perfmagic.open_trace(folder)
    last = folder / "plugins" / "profile" / "2026_11_27_10_00_00"
    assert str(last) in str(raised.value.hint)
    assert len(perfmagic.open_trace(last).trace.ops) == 4
    shutil.rmtree(last)
    assert len(perfmagic.open_trace(folder).trace.ops) == 4

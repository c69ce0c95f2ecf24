"""What only a real CUDA or ROCm device can show: its records, its clocks, its copies. Without IPython."""

import time

import pytest

torch = pytest.importorskip("torch", reason="a GPU is reached through torch")

import perfmagic  # noqa: E402 - after the skip
from perfmagic.analysis.timeline.activity import syncs  # noqa: E402
from perfmagic.capture.recording.recorder import Recorder  # noqa: E402
from perfmagic.trace.columns import NONE  # noqa: E402
from perfmagic.trace.model import Trace  # noqa: E402
from perfmagic.trace.names import is_pageable  # noqa: E402

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(120)]

N_MATMULS = 40


@pytest.fixture(scope="module")
def a() -> torch.Tensor:
    """A matrix on the device, its kernels loaded and its clocks up."""
    a = torch.randn(2048, 2048, device="cuda")
    for _ in range(20):
        a @ a
    torch.cuda.synchronize()
    return a


def record(body: object) -> Trace:
    recorder = Recorder(origin="block", device="cuda")
    recorder.start()
    try:
        body()  # type: ignore[operator]
    finally:
        trace = recorder.stop()
    return trace


def names_of(trace: Trace) -> list[str]:
    return [trace.names[n] for n in trace.ops.name]


@pytest.mark.parametrize("session", range(4))
def test_every_launch_has_its_kernel_in_each_session(a: torch.Tensor, session: int) -> None:
    trace = record(lambda: [a @ a for _ in range(N_MATMULS)])
    assert len(trace.ops) >= N_MATMULS
    assert (trace.ops.launch != NONE).sum() >= N_MATMULS
    assert (trace.ops.start_ns >= trace.launch_start_ns()).mean() > 0.95
    assert trace.meta.start_ns <= trace.ops.start_ns.min() <= trace.ops.end_ns.max() <= trace.meta.end_ns
    assert trace.device_info(int(trace.ops.device[0])).kind in ("cuda", "rocm")


def test_python_runs_ahead_of_the_device_and_item_waits_for_it(a: torch.Tensor) -> None:
    def body() -> None:
        b = a
        for _ in range(N_MATMULS):
            b = (b @ a).clamp(-1, 1)
        b.sum().item()

    trace = record(body)
    blocked = syncs(trace)
    longest = int(blocked.blocked_ns.argmax())
    assert not blocked.after_cell[longest]
    assert ".item()" in blocked.asker_name(longest)
    assert blocked.blocked_ns[longest] > 0.3 * trace.meta.end_ns


def test_two_streams_overlap_and_an_event_orders_them() -> None:
    first, second = torch.cuda.Stream(), torch.cuda.Stream()

    def at_once() -> None:
        for stream in (first, second):
            with torch.cuda.stream(stream):
                torch.cuda._sleep(20_000_000)

    def in_turn() -> None:
        with torch.cuda.stream(first):
            torch.cuda._sleep(20_000_000)
        second.wait_stream(first)
        with torch.cuda.stream(second):
            torch.cuda._sleep(20_000_000)

    both = record(at_once)
    assert len(set(both.ops.stream.tolist())) == 2
    assert both.ops.start_ns.max() < both.ops.end_ns.min()
    ordered = record(in_turn)
    assert ordered.ops.start_ns.max() >= ordered.ops.end_ns.min()
    assert len(ordered.waits) == 1


def test_copies_carry_their_direction_their_bytes_and_their_memory(a: torch.Tensor) -> None:
    pageable = torch.randn(4_000_000)
    pinned = pageable.pin_memory()
    trace = record(lambda: (pageable.to("cuda"), pinned.to("cuda", non_blocking=True)))
    copies = [
        (name, int(size)) for name, size in zip(names_of(trace), trace.ops.size_bytes, strict=True) if "HtoD" in name
    ]
    assert sum(size for _, size in copies) == 2 * pageable.nbytes
    assert {is_pageable(name) for name, _ in copies} == {True, False}


def test_returns_done_and_span_of_a_long_queue(a: torch.Tensor) -> None:
    result = perfmagic.syncbench(lambda: [a @ a for _ in range(N_MATMULS)], time=1.0)
    assert result.returns_s is not None
    assert result.done_s is not None
    assert result.span_s is not None
    assert result.returns_s < 0.5 * result.done_s
    assert 0.7 * result.done_s < result.span_s < 1.1 * result.done_s
    assert result.verdict.kind == "device-bound"


def test_small_kernels_between_python_are_host_bound() -> None:
    x = torch.zeros(10, device="cuda")

    def body() -> None:
        for _ in range(20):
            time.sleep(0.001)
            x.add_(1)

    result = perfmagic.syncbench(body, time=1.0)
    assert result.verdict.kind == "host-bound"


def test_a_cells_own_profiler_gets_its_records(a: torch.Tensor) -> None:
    def body() -> None:
        a @ a
        with torch.profiler.profile() as own:
            a @ a
        kernels.extend(e for e in own.events() if e.device_type == torch.autograd.DeviceType.CUDA)

    kernels: list[object] = []
    trace = record(body)
    assert len(trace.ops) == 1
    assert kernels
    assert any("profiler of its own" in note.words for note in trace.meta.notes)

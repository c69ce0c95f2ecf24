"""Known answers on a real GPU: each scene is recorded and must say what it was made to show."""

import time

import pytest

torch = pytest.importorskip("torch", reason="a GPU is reached through torch")

import numpy as np  # noqa: E402 - after the skip

import perfmagic  # noqa: E402
from perfmagic.analysis.findings.find import findings  # noqa: E402
from perfmagic.analysis.findings.verdict import verdict  # noqa: E402
from perfmagic.analysis.timeline.activity import memory_curve  # noqa: E402
from perfmagic.analysis.timeline.copies import copies  # noqa: E402
from perfmagic.analysis.timeline.overlap import breakdown  # noqa: E402
from perfmagic.analysis.timeline.queueing import launches  # noqa: E402
from perfmagic.analysis.timeline.trust import trust  # noqa: E402
from perfmagic.trace.columns import NONE, OpKind  # noqa: E402
from perfmagic.trace.model import Trace  # noqa: E402

from .cells import SCENES, names_for, play, record_cell  # noqa: E402

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(180)]


def sentences(trace: Trace, rule: str) -> list[str]:
    return [f.sentence for f in findings(trace) if f.rule == rule]


def test_a_kernel_lasts_as_long_as_its_cycles() -> None:
    lengths = []
    for cycles in (4_000_000, 8_000_000):
        trace = record_cell(f"torch.cuda._sleep({cycles})", names_for("cuda"), device="cuda")
        assert len(trace.ops) == 1
        lengths.append(int(trace.ops.end_ns[0] - trace.ops.start_ns[0]))
    assert 1.8 < lengths[1] / lengths[0] < 2.2


def test_streams_overlap_where_nothing_holds_them() -> None:
    parts = breakdown(play(SCENES["two_streams"], "cuda"), 0)
    assert set(parts.concurrency_ns) & {2}
    assert parts.n_ops >= 24


def test_copies_tell_their_bytes_and_a_bandwidth_a_bus_can_have() -> None:
    trace = play(SCENES["copies_overlap"], "cuda")
    by_name = {stat.name: stat for stat in copies(trace, 0)}
    sent = sum(stat.size_bytes for name, stat in by_name.items() if "HtoD" in name)
    assert sent == 2 * 6000 * 1024 * 4
    for stat in by_name.values():
        assert stat.bandwidth_bytes_per_s is None or 0.2e9 < stat.bandwidth_bytes_per_s < 8e12
    assert any("Pageable" in name for name in by_name)
    assert any("Pinned" in name for name in by_name)


def test_a_wait_is_recorded_and_held() -> None:
    trace = play(SCENES["waits"], "cuda")
    assert len(trace.waits) == 2
    side = int(trace.waits.stream[0])
    first_there = trace.ops.start_ns[trace.ops.stream == side].min()
    before = trace.ops.launch[:] >= 0
    other = (trace.ops.stream != side) & before & (trace.ops.line == 2)
    assert first_there >= trace.ops.end_ns[other].max() - 1000  # the clock's grain


def test_backward_and_optimiser_belong_to_their_lines() -> None:
    trace = play(SCENES["training_step"], "cuda")
    lines, counts = np.unique(trace.ops.line[trace.ops.launch != NONE], return_counts=True)
    by_line = dict(zip(lines.tolist(), counts.tolist(), strict=True))
    assert by_line.get(3, 0) >= 9  # forward of three steps: two linear layers, relu, loss
    assert by_line.get(4, 0) >= 12  # backward, launched by another thread
    assert by_line.get(5, 0) >= 3  # the optimiser


def test_short_ops_are_host_bound_and_long_ones_device_bound() -> None:
    assert verdict(play(SCENES["launch_bound"], "cuda")).kind == "host-bound"
    assert verdict(play(SCENES["deep_queue"], "cuda")).kind == "device-bound"


def test_item_in_a_loop_is_found_with_its_line() -> None:
    (sentence,) = sentences(play(SCENES["sync_bound"], "cuda"), "sync")
    assert ".item()" in sentence
    assert "×30" in sentence
    assert "line 2" in sentence


def test_a_full_queue_blocks_python_and_is_reported() -> None:
    trace = play(SCENES["deep_queue"], "cuda")
    assert launches(trace).deepest > 900
    assert sentences(trace, "queue_full")


def test_all_ops_of_a_graph_belong_to_its_launch() -> None:
    trace = play(SCENES["graph"], "cuda")
    of_graph = trace.ops.launch[trace.ops.kind == OpKind.KERNEL]
    assert (of_graph != NONE).all()
    _, counts = np.unique(of_graph, return_counts=True)
    assert len(counts) == 4
    assert counts.min() >= 12


def test_memory_follows_python_s_references() -> None:
    curve = memory_curve(play(SCENES["memory"], "cuda"), 0)
    assert curve.peak_bytes >= 20 * 1024 * 1024 * 4
    assert curve.peak_line == 1
    assert curve.allocated_bytes[-1] < curve.peak_bytes / 4


def test_a_recording_after_idle_time_loses_nothing() -> None:
    play(SCENES["launch_bound"], "cuda")
    time.sleep(3)
    trace = play(SCENES["launch_bound"], "cuda", warm=False)
    assert int((trace.ops.kind == OpKind.KERNEL).sum()) == 200
    lost = trust(trace)
    assert (lost.n_orphans, lost.n_without_launch, lost.n_launches_without_op) == (0, 0, 0)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_what_ends_a_cell_early_keeps_what_it_had_queued(error: type[BaseException]) -> None:
    names = names_for("cuda") | {"error": error}
    names["a"] = torch.randn(2048, 2048, device="cuda")
    with pytest.raises(error):
        record_cell("for _ in range(50):\n    b = a @ a\nraise error('stop')", names, device="cuda")
    trace = record_cell("for _ in range(50):\n    b = a @ a", names, device="cuda")
    assert int((trace.ops.kind == OpKind.KERNEL).sum()) >= 50


def test_the_device_span_is_the_sum_of_the_kernels() -> None:
    a = torch.randn(2048, 2048, device="cuda")

    def body() -> None:
        for _ in range(20):
            a @ a

    body()
    result = perfmagic.syncbench(body, time=1.0)
    trace = record_cell("body()", {"body": body}, device="cuda")
    kernels_s = float((trace.ops.end_ns - trace.ops.start_ns).sum()) / 1e9
    assert result.span_s is not None
    assert 0.85 < result.span_s / kernels_s < 1.2


def test_two_devices_work_at_once_and_copy_to_each_other() -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("one CUDA device only")
    names = names_for("cuda")
    names |= {"a": torch.randn(2048, 2048, device="cuda:0"), "b": torch.randn(2048, 2048, device="cuda:1")}
    trace = record_cell("for _ in range(20):\n    x = a @ a\n    y = b @ b\nz = x.to('cuda:1')", names, device="cuda")
    first, second = (trace.ops.select(trace.ops.device == device) for device in (0, 1))
    assert len(first)
    assert len(second)
    assert first.start_ns.min() < second.end_ns.max()
    assert second.start_ns.min() < first.end_ns.max()
    assert any("PtoP" in trace.names[n] or "DtoD" in trace.names[n] for n in trace.ops.name)

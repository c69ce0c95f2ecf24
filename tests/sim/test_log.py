"""What the log of the simulated device says, and that it makes a trace."""

import pytest

torch = pytest.importorskip("torch", reason="the simulated device needs torch")

from perfmagic import sim  # noqa: E402 - after the skip
from perfmagic.sim import SimRecords  # noqa: E402
from perfmagic.trace.columns import NONE, CallKind, OpKind  # noqa: E402
from perfmagic.trace.model import Trace, TraceMeta, make_trace  # noqa: E402


class Recorded:
    """Records what the block does; `.trace()` after it."""

    def __enter__(self) -> "Recorded":  # noqa: PYI034 - Self needs Python 3.11
        torch.sim.synchronize()
        sim.log().start()
        self.mark = sim.log().mark()
        return self

    def __exit__(self, *exc_info: object) -> None:
        torch.sim.synchronize()
        sim.log().stop()

    def records(self) -> SimRecords:
        return sim.log().since(self.mark)

    def trace(self) -> Trace:
        r = self.records()
        tables = {"ops": r.ops, "calls": r.calls, "host_ops": r.host_ops, "waits": r.waits, "counters": r.counters}
        return make_trace(r.names, TraceMeta("cell"), **tables)


def _names(trace: Trace, table: object) -> list[str]:
    return [trace.names[i] for i in table.name]  # type: ignore[attr-defined]


def test_every_kernel_has_its_launch_and_runs_after_it_began() -> None:
    a = torch.ones(4, 4, device="sim")
    with Recorded() as rec:
        (a @ a).add_(1).view(16)
    trace = rec.trace()
    assert _names(trace, trace.ops) == ["mm", "add"]
    assert set(trace.ops.kind.tolist()) == {OpKind.KERNEL}
    assert (trace.ops.launch != NONE).all()
    assert (trace.launch_start_ns() <= trace.ops.start_ns).all()
    assert "aten::mm" in _names(trace, trace.host_ops)
    assert "aten::add_" in _names(trace, trace.host_ops)


def test_item_is_a_copy_and_a_wait_inside_its_operator() -> None:
    a = torch.ones((), device="sim")
    with Recorded() as rec:
        sim.set_pace("sleep=20ms")
        torch.sim._sleep(0.02)
        a.item()
    trace = rec.trace()
    assert _names(trace, trace.calls)[:3] == ["simLaunchKernel", "simMemcpyAsync", "simStreamSynchronize"]
    assert _names(trace, trace.ops) == ["sleep", "Memcpy DtoH (Device -> Pageable)"]
    row = _names(trace, trace.host_ops).index("aten::_local_scalar_dense")
    wait = _names(trace, trace.calls).index("simStreamSynchronize")
    assert trace.host_ops.start_ns[row] <= trace.calls.start_ns[wait]
    assert trace.calls.end_ns[wait] <= trace.host_ops.end_ns[row]
    assert trace.calls.end_ns[wait] >= trace.ops.end_ns[1]


def test_the_least_time_of_an_op_is_kept() -> None:
    a = torch.ones(4, 4, device="sim")
    sim.set_pace(sim.Pace(by_name={"matmul": 0.01}))
    with Recorded() as rec:
        a @ a
    trace = rec.trace()
    assert trace.ops.end_ns[0] - trace.ops.start_ns[0] >= 10_000_000


def test_copies_say_their_direction_memory_and_size() -> None:
    host = torch.ones(1000)
    with Recorded() as rec:
        there = host.to("sim")
        host.pin_memory().to("sim", non_blocking=True)
        there.cpu()
        there.to("cpu", non_blocking=True)
    trace = rec.trace()
    assert _names(trace, trace.ops) == [
        "Memcpy HtoD (Pageable -> Device)",
        "Memcpy HtoD (Pinned -> Device)",
        "Memcpy DtoH (Device -> Pageable)",
        "Memcpy DtoH (Device -> Pinned)",
    ]
    assert trace.ops.size_bytes.tolist() == [4000] * 4
    assert set(trace.ops.kind.tolist()) == {OpKind.MEMCPY}


def test_a_pageable_copy_holds_the_host_and_a_pinned_one_does_not() -> None:
    sim.set_pace(sim.Pace(copy_bytes_per_s=1e6))
    pageable, pinned = torch.ones(5000), torch.ones(5000).pin_memory()
    with Recorded() as rec:
        pageable.to("sim", non_blocking=True)
        torch.sim.synchronize()
        pinned.to("sim", non_blocking=True)
    trace = rec.trace()
    launches = trace.calls.select(trace.calls.kind == CallKind.LAUNCH)
    held_ns = (launches.end_ns - launches.start_ns).tolist()
    device_ns = (trace.ops.end_ns - trace.ops.start_ns).tolist()
    assert held_ns[0] >= 40_000_000
    assert device_ns[0] >= 40_000_000
    assert device_ns[1] >= 20_000_000
    assert launches.end_ns[1] < trace.ops.end_ns[1]


def test_two_streams_overlap_and_a_wait_orders_them() -> None:
    sim.set_pace("matmul=15ms")
    a = torch.ones(4, 4, device="sim")
    side = torch.sim.Stream()
    with Recorded() as rec:
        a @ a
        with torch.sim.stream(side):
            a @ a
        side.wait_stream(torch.sim.current_stream())
        with torch.sim.stream(side):
            a @ a
    trace = rec.trace()
    rows = {s: trace.ops.select(trace.ops.stream == s) for s in (0, side.stream_id)}
    assert rows[0].start_ns[0] < rows[side.stream_id].end_ns[0]
    assert rows[side.stream_id].start_ns[0] < rows[0].end_ns[0]
    assert rows[side.stream_id].start_ns[1] >= rows[0].end_ns[0]
    wait = trace.waits
    assert (wait.stream.tolist(), wait.on_stream.tolist()) == ([side.stream_id], [0])
    kinds = trace.calls.kind[trace.calls.correlation == wait.correlation[0]]
    assert kinds.tolist() == [CallKind.WAIT]


def test_use_of_another_streams_data_without_a_wait_is_flagged() -> None:
    side = torch.sim.Stream()
    a = torch.ones(4, 4, device="sim")
    torch.sim.synchronize()
    with Recorded() as rec:
        b = a @ a
        with torch.sim.stream(side):
            b + 1
    trace, (race,) = rec.trace(), rec.records().races
    named = dict(zip(trace.ops.correlation.tolist(), (trace.names[n] for n in trace.ops.name), strict=True))
    assert [named[correlation] for correlation in race[:2]] == ["add", "mm"]  # the reader, and whose data it used
    with Recorded() as rec:
        b = a @ a
        side.wait_stream(torch.sim.current_stream())
        with torch.sim.stream(side):
            b + 1
    assert rec.records().races == []


def test_ops_that_start_together_are_in_the_order_of_their_launch() -> None:
    recorded = Recorded()
    with recorded:
        for correlation, name in ((2, "second"), (1, "first")):  # as two streams' threads may add them
            sim.log().add_op(5, 9, OpKind.KERNEL, 0, correlation, name, correlation, 0, raced=None)
    assert _names(recorded.trace(), recorded.trace().ops) == ["first", "second"]


def test_nothing_is_recorded_unless_asked() -> None:
    with Recorded() as rec:
        torch.ones(2, device="sim")
    before = len(rec.records().ops["start_ns"])
    torch.ones(2, device="sim").add_(1)
    torch.sim.synchronize()
    assert len(rec.records().ops["start_ns"]) == before == 1


def test_beyond_the_limit_ops_are_counted_and_not_kept() -> None:
    log = sim.log()
    limit, log.limit = log.limit, 5
    try:
        with Recorded() as rec:
            a = torch.empty(2, device="sim")
            for _ in range(8):
                a.add_(1)
        records = rec.records()
    finally:
        log.limit = limit
    assert len(records.ops["start_ns"]) == 5
    assert records.dropped >= 3
    # calls and host operators count, too: they may fill the log before the device begins
    assert records.full_ns >= min(table["start_ns"].min() for table in (records.ops, records.calls, records.host_ops))


def test_an_op_whose_arguments_do_not_fit_is_not_shown_as_executed() -> None:
    a, b = torch.ones(3, 4, device="sim"), torch.ones(3, 4, device="sim")
    with Recorded() as rec, pytest.raises(RuntimeError, match="3x4 and 3x4") as raised:
        a @ b
    trace = rec.trace()
    assert "mm" not in [trace.names[n] for n in trace.ops.name]
    assert raised.value.__cause__ is None
    assert raised.value.__context__ is None


def test_recordings_nest() -> None:
    log = sim.log()
    log.start()
    log.start()
    log.stop()
    assert log.recording
    log.stop()
    assert not log.recording

"""The simulated device on a virtual clock: times are computed, and the same on every run."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the simulated device needs torch")

import perfmagic  # noqa: E402 - after the skip
from perfmagic import sim  # noqa: E402
from perfmagic.analysis.timeline.paths import op_paths  # noqa: E402
from perfmagic.base.clock import HOST_NS, START_NS, now_ns, virtual_clock  # noqa: E402
from perfmagic.base.errors import CaptureError, DeviceError, OptionError  # noqa: E402
from perfmagic.capture.watch.events import LEAST_EVENTS  # noqa: E402
from perfmagic.changes import faster  # noqa: E402
from perfmagic.sim import virtual  # noqa: E402
from perfmagic.sim.queues import QUEUE_LAUNCHES  # noqa: E402
from perfmagic.sim.virtual import LATENCY_NS, OP_NS  # noqa: E402
from tests.sim_gate import in_flight  # noqa: E402

US = 1_000
OPERATOR_NS = HOST_NS["operator"] + HOST_NS["launch"]


@pytest.fixture(autouse=True)
def _virtual(_device: None) -> Iterator[None]:
    sim.load(clock="virtual")
    yield
    while sim.log().recording:
        sim.log().stop()
    with suppress(DeviceError):  # a failure the test provoked and did not collect
        sim.synchronize()
    sim.load(clock="real")


def recorded(code: Any) -> Any:
    """The trace of a function."""
    with perfmagic.timeline() as timeline:
        code()
    return timeline.result.trace


def ops_of(trace: Any) -> list[tuple[int, int]]:
    return list(zip(trace.ops.start_ns.tolist(), trace.ops.end_ns.tolist(), strict=True))


@pytest.mark.slow
def test_an_op_takes_what_the_pace_says_however_fast_that_is() -> None:
    sim.set_pace("matmul=400TFLOP/s")
    a = torch.empty(4000, 4000, device="sim")
    ((start_ns, end_ns),) = ops_of(recorded(lambda: a @ a))
    assert end_ns - start_ns == 2 * 4000**3 / 4e14 * 1e9 == 320 * US


def test_an_op_begins_after_its_launch_and_without_a_pace_takes_a_constant() -> None:
    a = torch.ones(8, device="sim")
    trace = recorded(lambda: a + 1)
    ((start_ns, end_ns),) = ops_of(trace)
    assert start_ns == trace.calls.end_ns[0] + LATENCY_NS == OPERATOR_NS + LATENCY_NS
    assert end_ns - start_ns == OP_NS


def test_launches_queue_up_behind_ops_that_take_longer() -> None:
    sim.set_pace("add=50us")
    a = torch.ones(8, device="sim")
    sim.synchronize()
    for n in range(1, 51):
        a + 1
        begun = max(0, n * OPERATOR_NS - OPERATOR_NS - LATENCY_NS) // (50 * US)
        assert in_flight() == n - begun, n
    sim.synchronize()
    assert in_flight() == 0


def test_a_full_queue_holds_the_host_until_an_op_is_done() -> None:
    sim.set_pace("fill=1ms")
    a = torch.empty(1, device="sim")
    begin_ns = now_ns()
    for _ in range(QUEUE_LAUNCHES + 1):
        a.fill_(1)
    assert now_ns() - begin_ns == (QUEUE_LAUNCHES + 1) * OPERATOR_NS
    for _ in range(15):  # by then 5 are done; the next launch waits for the sixth
        a.fill_(1)
    assert in_flight() == QUEUE_LAUNCHES + 1
    assert now_ns() - begin_ns == OPERATOR_NS + LATENCY_NS + 15_000 * US + HOST_NS["launch"]


def test_item_waits_for_what_it_reads() -> None:
    sim.set_pace("fill=5ms, copies=1GB/s")
    a = torch.empty(1, device="sim")
    begin_ns = now_ns()
    a.fill_(3)
    assert now_ns() - begin_ns == OPERATOR_NS
    assert a.item() == 3
    assert now_ns() - begin_ns == OPERATOR_NS + LATENCY_NS + 5_000 * US + OP_NS + HOST_NS["wait"]


def test_streams_overlap_and_events_order_them() -> None:
    sim.set_pace("fill=1ms")
    a, b, side = torch.empty(1, device="sim"), torch.empty(1, device="sim"), torch.sim.Stream()

    def run(*, ordered: bool) -> None:
        a.fill_(1)
        if ordered:
            side.wait_stream(torch.sim.current_stream())
        with torch.sim.stream(side):
            b.fill_(2)

    first, second = ops_of(recorded(lambda: run(ordered=False)))
    assert second[0] - first[0] == OPERATOR_NS
    first, second = ops_of(recorded(lambda: run(ordered=True)))
    assert second[0] == first[1]


def test_an_op_waits_for_memory_of_another_stream_and_the_race_is_noted() -> None:
    sim.set_pace("fill=1ms")
    a, side = torch.empty(1, device="sim"), torch.sim.Stream()

    def run() -> None:
        a.fill_(1)
        with torch.sim.stream(side):
            a.fill_(2)

    trace = recorded(run)
    (_, first_ns), (second_ns, _) = ops_of(trace)
    assert second_ns == first_ns
    assert len(trace.meta.races) == 1


def _span_ns(launches: Any) -> int:
    """From the beginning of the first op until the end of the last."""
    ops = ops_of(recorded(launches))
    return max(end for _, end in ops) - min(start for start, _ in ops)


@pytest.mark.parametrize(("pace", "turns"), [("matmul=1GFLOP/s", 8), ("kernels=1GB/s", 8), ("matmul=1ms", 1)])
def test_ops_timed_by_a_rate_take_turns_on_the_device_and_others_overlap(pace: str, turns: int) -> None:
    a = torch.ones(80, 80, device="sim")
    streams = [torch.sim.Stream() for _ in range(8)]

    def products(streams: list[Any]) -> None:
        for stream in streams:
            with torch.sim.stream(stream):
                a @ a

    sim.set_pace(pace)
    one_ns = _span_ns(lambda: products(streams[:1]))
    in_turn_ns = _span_ns(lambda: products(streams[:1] * 8))
    # of ops that overlap, the last begins seven launches after the first
    assert _span_ns(lambda: products(streams)) == (in_turn_ns if turns == 8 else one_ns + 7 * OPERATOR_NS)
    assert turns == 1 or in_turn_ns == 8 * one_ns


def test_copies_of_one_direction_take_turns_on_the_link() -> None:
    sim.set_pace("copies=1GB/s")
    host, back = (torch.ones(250_000).pin_memory() for _ in range(2))  # 1 ms each
    there = [torch.ones(250_000, device="sim") for _ in range(2)]

    def copies(ways: str) -> None:
        for i, way in enumerate(ways):
            with torch.sim.stream(torch.sim.Stream()):
                target, source = (there[i], host) if way == "h" else (back, there[i])
                target.copy_(source, non_blocking=True)

    sim.synchronize()
    assert _span_ns(lambda: copies("hh")) == 2_000 * US
    assert _span_ns(lambda: copies("hd")) == 1_000 * US + OPERATOR_NS


def test_a_rate_makes_no_op_shorter_than_the_smallest_kernel() -> None:
    sim.set_pace("kernels=2TB/s")
    a = torch.ones(200, device="sim")
    assert _span_ns(lambda: a + 1) == OP_NS


@pytest.mark.parametrize("pinned", [True, False])
def test_pinned_copies_leave_the_host_alone_and_pageable_ones_hold_it(pinned: bool) -> None:
    sim.set_pace("copies=10GB/s")
    host = torch.ones(250_000)  # 1 MB
    host = host.pin_memory() if pinned else host
    there = torch.empty(250_000, device="sim")
    begin_ns = now_ns()
    there.copy_(host, non_blocking=True)
    assert now_ns() - begin_ns == (OPERATOR_NS if pinned else 200 * US)
    back = torch.empty(250_000)
    back = back.pin_memory() if pinned else back
    begin_ns = now_ns()
    back.copy_(there, non_blocking=True)
    assert (now_ns() - begin_ns == OPERATOR_NS) is pinned
    sim.synchronize()
    assert back.sum() == 250_000


def test_two_devices_work_at_the_same_time() -> None:
    sim.set_pace("fill=1ms")
    both = [torch.empty(1, device=device) for device in perfmagic.devices(2, "sim")]
    begin_ns = now_ns()
    for a in both:
        a.fill_(1)
    sim.synchronize()
    first_ns = OPERATOR_NS + LATENCY_NS + 1_000 * US
    assert now_ns() - begin_ns == first_ns + OPERATOR_NS + HOST_NS["wait"]  # one wait for both


def test_events_measure_the_device_and_are_reached_when_time_has_passed() -> None:
    sim.set_pace("fill=100us")
    a = torch.empty(1, device="sim")
    first, last = (torch.sim.Event(enable_timing=True) for _ in range(2))
    a.fill_(1)
    first.record()
    for _ in range(3):
        a.fill_(1)
    last.record()
    assert not last.query()
    with pytest.raises(RuntimeError, match="not reached"):
        first.elapsed_time(last)
    asked = 0
    while not last.query():  # asking takes the host's time
        asked += 1
    assert 200 < asked < 400
    assert first.elapsed_time(last) == 0.3


def test_modules_views_and_allocations_take_the_host_time() -> None:
    a, identity = torch.ones(2, 3, device="sim"), torch.nn.Identity()
    for code, ns in (
        (a.t, HOST_NS["view"]),
        (lambda: torch.empty(3, device="sim"), HOST_NS["view"]),
        (lambda: identity(a), HOST_NS["module"]),
        (lambda: identity(torch.ones(2)) + 1, 0),
    ):
        begin_ns = now_ns()
        code()
        assert now_ns() - begin_ns == ns


def _trained() -> list[torch.Tensor]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 300), torch.nn.Tanh(), torch.nn.Dropout(0.5), torch.nn.Linear(300, 9)
    )
    model.to("sim")
    torch.manual_seed(1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    x, losses = torch.randn(500, 64, device="sim"), []
    for _ in range(4):
        optimizer.zero_grad()
        with torch.autocast("cpu"), torch.autocast("sim"):
            loss = torch.nn.functional.cross_entropy(model(x), torch.arange(500, device="sim") % 9)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().cpu())
    return [*losses, *(p.detach().cpu() for p in model.parameters())]


def test_a_training_loop_gives_the_same_bits_as_on_threads() -> None:
    torch.set_num_threads(2)
    computed = _trained()
    assert torch.get_num_threads() == 2
    sim.load(clock="real")
    torch.set_num_threads(1)
    assert all(torch.equal(a, b) for a, b in zip(computed, _trained(), strict=True))


def test_a_default_device_does_not_reach_what_runs_on_the_cpu() -> None:
    a = torch.ones(4, 3, device="sim", requires_grad=True)
    with torch.device("sim"):
        (a.t() @ torch.ones(4, 2)).sum().backward()
    assert a.grad is not None
    assert a.grad.cpu().tolist() == [[2.0] * 3] * 4


def test_what_fails_is_raised_where_the_host_waits() -> None:
    table = torch.nn.Embedding(10, 4).to("sim")
    lost = table(torch.tensor([99], device="sim")).sum()
    with pytest.raises(DeviceError, match="embedding failed on the simulated device: index out of range"):
        sim.synchronize()
    sim.synchronize()
    with pytest.raises(RuntimeError, match="never computed"):
        lost.item()
    with pytest.raises(RuntimeError, match="negative"):  # here the host waits, as the shape depends on values
        torch.ones(2, device="sim").repeat_interleave(torch.tensor([-1, 2], device="sim"))


def test_an_interrupt_strikes_the_line_that_launched() -> None:
    from perfmagic.sim.device import current_lane
    from perfmagic.sim.launch import queue_op
    from perfmagic.trace.columns import OpKind

    def body() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        queue_op(current_lane(), "held", OpKind.KERNEL, body, (), ())
    assert torch.ones(2, device="sim").sum().item() == 2


def test_threads_that_launch_together_lose_nothing() -> None:
    total, begin_ns = torch.zeros(1, device="sim"), now_ns()

    def add() -> None:
        for _ in range(200):
            total.add_(1)

    threads = [threading.Thread(target=add) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert now_ns() - begin_ns == 600 * OPERATOR_NS
    assert total.item() == 600


@pytest.mark.slow
def test_the_clock_changes_under_a_thread_that_launches() -> None:
    sim.set_pace("kernels=100us")
    x, sums, over = torch.ones(8, 8, device="sim"), [], threading.Event()

    def launch() -> None:
        while not over.is_set():
            sums.append((x @ x.T).sum().item())

    thread = threading.Thread(target=launch, daemon=True)
    thread.start()
    for _ in range(100):
        for clock in ("real", "virtual"):
            sim.load(clock=clock)
    over.set()
    thread.join(30)
    assert not thread.is_alive()
    assert set(sums) == {512.0}
    assert now_ns() < START_NS + 3_600 * 10**9  # virtual time took over nothing of real time


def test_an_interrupt_leaves_no_op_to_one_thread_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(2)
    a = torch.ones(4, device="sim")
    set_threads, given = torch.set_num_threads, []

    def interrupted(n: int) -> None:
        given.append(n)
        if len(given) == 2:  # the op is over, and the number is to be set back
            raise KeyboardInterrupt
        set_threads(n)

    monkeypatch.setattr(torch, "set_num_threads", interrupted)
    with pytest.raises(KeyboardInterrupt):
        a + 1
    assert torch.get_num_threads() == 1
    a + 1
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("struck", ["keep_virtual_time", "_set_threads_back"])
def test_a_change_of_the_clock_that_was_interrupted_is_made_by_the_next_call(
    struck: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity, a = torch.nn.Identity(), torch.ones(2, device="sim")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    for clock in ("real", "virtual"):
        with monkeypatch.context() as patched:
            patched.setattr(virtual, struck, interrupt)
            with pytest.raises(KeyboardInterrupt):
                sim.load(clock=clock)
        assert (a + 1).sum().item() == 4
        sim.load(clock=clock)
        assert (virtual_clock() is None) == (clock == "real")
    begin_ns = now_ns()
    identity(a)
    assert now_ns() - begin_ns == HOST_NS["module"]


def test_the_cpu_is_asked_for_on_the_real_clock() -> None:
    assert perfmagic.device("cpu", clock="real").type == "cpu"
    assert virtual_clock() is None


@pytest.mark.parametrize("n_cuda", [0, 1, 2])
def test_an_automatic_clock_is_virtual_where_the_device_is_simulated(
    monkeypatch: pytest.MonkeyPatch, n_cuda: int
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: n_cuda > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: n_cuda)
    sim.load(clock="virtual" if n_cuda else "real")
    assert perfmagic.device(clock="auto").type == ("cuda" if n_cuda else "sim")
    assert (virtual_clock() is None) == (n_cuda > 0)
    assert perfmagic.devices(2, clock="auto")[1].type == ("cuda" if n_cuda == 2 else "sim")
    assert (virtual_clock() is None) == (n_cuda == 2)


def test_events_of_two_clocks_have_no_time_between_them() -> None:
    first, last = (torch.sim.Event(enable_timing=True) for _ in range(2))
    first.record()
    sim.load(clock="real")
    last.record()
    last.synchronize()
    with pytest.raises(DeviceError, match="real clock, the other of the virtual"):
        first.elapsed_time(last)


def test_memory_runs_out_as_on_threads() -> None:
    torch.empty(2**24, device="sim")  # leaves an unused segment, larger than the limit
    sim.load(memory_bytes=2**20)
    try:
        with pytest.raises(torch.OutOfMemoryError, match="simulated device out of memory"):
            torch.empty(2**24, device="sim")
    finally:
        sim.load(memory_bytes=0)


def test_no_thread_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    monkeypatch.setattr("_thread.start_new_thread", refuse)
    side = torch.sim.Stream()
    model = torch.nn.Linear(8, 8).to("sim")

    def run() -> float:
        with torch.sim.stream(side), torch.no_grad():
            y = model(torch.ones(2, 8, device="sim"))
        torch.sim.current_stream().wait_stream(side)
        return float(y.sum())

    assert len(recorded(run).ops) == 4
    assert torch.sim.memory_allocated() > 0


_SCRIPT = """
import sys, torch, perfmagic
device = perfmagic.device(clock="virtual", pace="matmul=10TFLOP/s, kernels=500GB/s, copies=pcie4", memory="2GB")
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8)).to(device)
optimizer, side = torch.optim.SGD(model.parameters(), lr=0.1), torch.sim.Stream()
other = torch.ones(100, 100, device=perfmagic.devices(2, "sim")[1])
with perfmagic.timeline(memory=True) as timeline:
    for _ in range(3):
        x = torch.ones(32, 64).pin_memory(device).to(device, non_blocking=True)
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        with torch.sim.stream(side):
            other = other @ other
        loss.item()
timeline.result.save(sys.argv[1])
timeline.result.save(sys.argv[2])
"""


def _saved(folder: Path, name: str) -> list[bytes]:
    paths = [folder / f"{name}.npz", folder / f"{name}.json"]
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, *map(str, paths)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return [path.read_bytes() for path in paths]


@pytest.mark.slow
def test_two_runs_give_the_same_bytes_also_beside_a_burner(tmp_path: Path) -> None:
    first = _saved(tmp_path, "a")
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as burner:
        try:
            second = _saved(tmp_path, "b")
        finally:
            burner.kill()
    assert first == second
    trace = perfmagic.open_trace(tmp_path / "a.npz").trace
    assert len(trace.ops) > 50
    assert trace.blocks.size_bytes.sum() > 0


def test_a_trace_says_that_its_times_are_computed() -> None:
    sim.set_pace("matmul=400TFLOP/s, fill=1ms")
    a = torch.ones(8, 8, device="sim")
    with perfmagic.timeline() as timeline:
        a @ a
    (info,) = timeline.result.trace.meta.devices
    assert (info.virtual, info.label) == (True, "simulated device, virtual clock: fill 1\xa0ms, matmul 400\xa0TFLOP/s")
    text = timeline.result.text()
    assert "virtual clock" in text
    assert "computed by the pace, not measured" in text
    assert "virtual clock" in str(timeline.result.to_dict())


def test_a_prediction_of_a_faster_op_is_what_a_faster_pace_gives() -> None:
    a = torch.ones(8, 8, device="sim")

    def result_at(pace: str) -> Any:
        sim.set_pace(pace)
        with perfmagic.timeline() as timeline:
            for _ in range(10):
                a @ a
        return timeline.result

    before, after = result_at("matmul=20us"), result_at("matmul=10us")
    assert before.what_if(faster("mm", 2)).predicted_ns == after.trace.meta.end_ns


def test_a_benchmark_reads_the_clock_of_the_device() -> None:
    sim.set_pace("matmul=2ms")
    a = torch.ones(8, 8, device="sim")
    with perfmagic.Benchmark() as timed:
        a @ a
    assert timed.returned_s == OPERATOR_NS / 1e9
    assert timed.done_s == (OPERATOR_NS + LATENCY_NS + 2_000 * US + HOST_NS["wait"]) / 1e9
    result = perfmagic.syncbench(lambda: a @ a)
    assert result.done is not None
    assert result.done.median_s == pytest.approx(timed.done_s, rel=1e-12)
    assert result.span is not None
    assert result.span.median_s == pytest.approx(2e-3, rel=1e-12)
    assert "virtual clock" in result.text()
    with pytest.raises(CaptureError, match="only the simulated device's work takes time"):
        perfmagic.bench(lambda: sum(range(100)))


@pytest.mark.parametrize("measure", [perfmagic.bench, perfmagic.syncbench])
def test_the_clock_may_not_change_during_a_measurement(measure: Any) -> None:
    a = torch.ones(8, 8, device="sim")
    for clock, other in (("virtual", "real"), ("real", "virtual")):
        sim.load(clock=clock)
        with pytest.raises(CaptureError, match="the clock changed"):
            measure(lambda other=other: (perfmagic.device(clock=other), a @ a))
        sim.load(clock=clock)
        with pytest.raises(CaptureError, match="the clock changed"), perfmagic.Benchmark():
            perfmagic.device("cpu" if other == "real" else "sim", clock=other)


def test_what_has_no_virtual_time_is_refused() -> None:
    with pytest.raises(OptionError, match="clock 'fast' is not known"):
        perfmagic.device("sim", clock="fast")
    for kind in ("cuda", "cpu"):
        with pytest.raises(OptionError, match=f"{kind} has no virtual clock"):
            perfmagic.device(kind, clock="virtual")
    with pytest.raises(DeviceError, match="cpu has no virtual time"), perfmagic.timeline(device="cpu"):
        pass
    with perfmagic.timeline(), pytest.raises(DeviceError, match="while something is recorded"):
        perfmagic.device(clock="real")


def test_the_clock_changes_when_all_is_done_and_virtual_time_goes_on() -> None:
    sim.set_pace("fill=20ms")
    a = torch.empty(1, device="sim").fill_(4)
    perfmagic.device("sim", clock="real")
    assert virtual_clock() is None
    assert in_flight() == 0
    b = a.fill_(5) + 1
    assert not torch.sim.current_stream().query()
    perfmagic.device(clock="virtual")
    assert (b + a).item() == 11
    ((start_ns, end_ns),) = ops_of(recorded(lambda: a.fill_(6)))
    assert (start_ns, end_ns - start_ns) == (OPERATOR_NS + LATENCY_NS, 20_000 * US)


def test_lines_in_functions_are_followed_in_virtual_time_without_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    a = torch.ones(8, 8, device="sim")

    def steps() -> None:
        b = a + 1
        b.mul_(2)
        for _ in range(2 * LEAST_EVENTS):  # plain Python, and no virtual time passes
            pass

    monkeypatch.setattr(threading.Thread, "start", lambda _: pytest.fail("a thread began"))
    with perfmagic.timeline(lines=True) as timeline:
        steps()
    trace = timeline.result.trace
    first = steps.__code__.co_firstlineno
    assert trace.paths.line[op_paths(trace)].tolist() == [first, first]  # a hot loop's function is one line
    assert trace.paths.marks.at_ns.max() < 1_000_000
    with perfmagic.timeline(lines=True) as timeline:
        exec(compile("b = a + 1\nb.mul_(2)", __file__, "exec"), {"a": a})
    trace = timeline.result.trace
    assert trace.paths.line[op_paths(trace)].tolist() == [1, 2]
    with perfmagic.timeline() as timeline:
        a + 1
    assert timeline.result.trace.paths is None  # unasked, as timelines are the same on each Python


def turns_noted(code: Callable[[], object]) -> list[str]:
    with perfmagic.timeline() as timeline:
        code()
    return [str(note.words) for note in timeline.result.trace.meta.notes if note.kind == "threads_in_turn"]


def test_threads_whose_launches_took_turns_are_noted() -> None:
    x, turns = torch.ones(8, device="sim"), [threading.Semaphore(1), threading.Semaphore(0)]

    def launch(number: int) -> None:
        for _ in range(3):
            turns[number].acquire()
            _ = x + 1
            turns[1 - number].release()

    def in_threads() -> None:
        threads = [threading.Thread(target=launch, args=(number,)) for number in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert turns_noted(in_threads) == ["order of launches from 2 threads may differ between runs"]


def test_a_thread_that_is_waited_for_and_a_backward_pass_have_one_order() -> None:
    x = torch.ones(8, device="sim", requires_grad=True)

    def code() -> None:
        y = x + 1
        thread = threading.Thread(target=lambda: x.detach() * 2)
        thread.start()
        thread.join()
        (y * x).sum().backward()

    assert turns_noted(code) == []

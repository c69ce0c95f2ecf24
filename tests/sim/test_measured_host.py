"""A virtual clock whose host is measured: Python takes its own time, and the simulated device's work takes none."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the simulated device needs torch")

import perfmagic  # noqa: E402 - after the skip
from perfmagic import sim  # noqa: E402
from perfmagic.api.ranks.session import settings_for  # noqa: E402
from perfmagic.base.clock import HOST, HOST_NS, now_ns, virtual_clock  # noqa: E402
from perfmagic.base.errors import DeviceError, OptionError  # noqa: E402
from perfmagic.capture.bench.spec import BenchSpec  # noqa: E402
from perfmagic.sim import virtual  # noqa: E402
from perfmagic.sim.groups import group  # noqa: E402

MS = 1_000_000
SLOW_NS = 40 * MS
OPERATOR_NS = HOST_NS["operator"] + HOST_NS["launch"]


@pytest.fixture(autouse=True)
def _measured(_device: None) -> Iterator[None]:
    sim.load(clock="virtual", host="measured")
    yield
    sim.load(clock="real")


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulated device needs long to compute each op."""
    compute = virtual._compute

    def slowly(*job: Any) -> None:
        spin(SLOW_NS)
        compute(*job)

    monkeypatch.setattr(virtual, "_compute", slowly)


def recorded(code: Callable[[], object]) -> Any:
    with perfmagic.timeline() as timeline:
        code()
    return timeline.result


def both_ns(code: Callable[[], object]) -> tuple[int, int]:
    """What code takes by the virtual clock, and by this machine's."""
    real_ns, begin_ns = time.perf_counter_ns(), now_ns()
    code()
    return now_ns() - begin_ns, time.perf_counter_ns() - real_ns


def spin(ns: int) -> None:
    end_ns = time.perf_counter_ns() + ns
    while time.perf_counter_ns() < end_ns:
        pass


@pytest.mark.parametrize("python", [lambda: time.sleep(0.05), lambda: spin(50 * MS)])
def test_what_python_does_between_two_ops_is_in_the_record(python: Callable[[], None]) -> None:
    a = torch.ones(8, device="sim")
    trace = recorded(lambda: (a + 1, python(), a + 1)).trace
    first_ns, second_ns = trace.calls.start_ns[:2]
    assert second_ns - first_ns >= 50 * MS
    assert trace.ops.start_ns[1] - trace.ops.end_ns[0] >= 49 * MS


@pytest.mark.usefixtures("slow")
def test_what_the_device_computes_takes_what_is_counted() -> None:
    a = torch.ones(8, device="sim")
    trace = recorded(lambda: a + 1).trace
    (took_ns,) = trace.host_ops.end_ns - trace.host_ops.start_ns
    assert took_ns == OPERATOR_NS
    took_ns, real_ns = both_ns(lambda: a + 1)
    assert OPERATOR_NS <= took_ns <= real_ns - SLOW_NS + OPERATOR_NS


@pytest.mark.usefixtures("slow")
def test_work_of_a_backward_pass_on_its_own_thread_takes_what_is_counted() -> None:
    a = torch.ones(8, device="sim", requires_grad=True)
    loss = (a * a).sum()
    result = recorded(lambda: spin_after(loss.backward))
    n_ops = len(result.trace.ops)
    assert n_ops > 1
    loss = (a * a).sum()
    took_ns, real_ns = both_ns(loss.backward)
    assert took_ns <= real_ns - n_ops * SLOW_NS + 2 * n_ops * OPERATOR_NS


def spin_after(code: Callable[[], object]) -> None:
    code()
    spin(MS)


def test_a_call_of_a_module_takes_what_python_takes_for_it() -> None:
    a, identity = torch.ones(8, device="sim"), torch.nn.Identity()
    took_ns, real_ns = both_ns(lambda: identity(a))
    assert 0 < took_ns <= real_ns
    perfmagic.device("sim", host="counted")
    assert both_ns(lambda: identity(a))[0] == HOST_NS["module"]


def test_the_host_waits_for_the_device_in_virtual_time() -> None:
    sim.set_pace("fill=1000s")
    a = torch.ones(1, device="sim")
    a.fill_(1)
    took_ns, real_ns = both_ns(a.item)
    assert real_ns < 900_000 * MS < took_ns
    begin, end = (torch.sim.Event(enable_timing=True) for _ in range(2))
    begin.record()
    time.sleep(0.02)
    end.record()
    torch.sim.synchronize()
    assert begin.elapsed_time(end) >= 20


def test_time_goes_on_after_an_op_that_fails_and_in_other_threads() -> None:
    a, b = torch.ones(8, 2, device="sim"), torch.ones(8, 3, device="sim")
    with pytest.raises(RuntimeError):
        a @ b
    assert not HOST.stands
    other = threading.Thread(target=lambda: (a + 1, spin(20 * MS)))
    took_ns, _ = both_ns(lambda: (other.start(), other.join()))
    assert took_ns >= 20 * MS


def test_a_clock_that_an_interrupt_left_standing_goes_in_the_next_record(monkeypatch: pytest.MonkeyPatch) -> None:
    a = torch.ones(8, device="sim")

    def interrupt(_rest_ns: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(HOST, "end_work", interrupt)
        with pytest.raises(KeyboardInterrupt):
            a + 1
    assert both_ns(lambda: spin(MS))[0] == 0
    assert recorded(lambda: spin(20 * MS)).trace.meta.returned_ns >= 20 * MS


def test_every_face_says_whose_time_it_is(tmp_path: Path) -> None:
    for device, words in (("H100", "÷ × 1.4 · host measured here"), ("sim", "virtual clock, host measured here")):
        place = perfmagic.device(device, clock="virtual", host="measured", item=0.0 if device == "H100" else None)
        a = torch.ones(8, device=place)
        result = recorded(lambda a=a: a + 1)
        assert words in result.trace.meta.devices[0].label
        path = result.save(tmp_path / f"{device}.npz")
        for face in (result.text(), result.html(), str(result.to_dict()), perfmagic.open_trace(path).text()):
            assert "host measured here" in " ".join(face.split())
        notes = [note.words for note in result.trace.meta.notes]
        assert any("does not cover other machines" in words for words in notes)
        assert not any("and none for other Python" in words for words in notes)
        sim.set_pace(None)


def test_a_counted_host_says_nothing_of_this_machine() -> None:
    perfmagic.device("sim", host="counted")
    a = torch.ones(8, device="sim")
    result = recorded(lambda: (a + 1, spin(10 * MS)))
    assert "measured here" not in result.text(details=True)
    assert result.trace.meta.end_ns < MS


def test_each_predicted_gpu_has_the_host_of_the_run() -> None:
    with perfmagic.timeline(on="H100,T4") as timeline:
        a = torch.ones(8, device="cuda")
        time.sleep(0.02)
        a + 1
    result = timeline.result
    assert "does not cover other machines" in " ".join(result.text().split())
    for gpu in ("H100", "T4"):
        on = result.on(gpu)
        assert on.trace.meta.devices[0].host_measured
        assert any(f"a model of {gpu}" in note.words for note in on.trace.meta.notes)
        assert on.trace.meta.end_ns >= 20 * MS
    assert HOST.measured


def test_a_benchmark_takes_samples_as_of_any_machine() -> None:
    a = torch.ones(8, device="sim")
    result = perfmagic.syncbench(lambda: (a + 1, time.sleep(1e-3)), time=0.2, max_samples=40)
    assert result.done is not None
    assert result.done.median_s >= 1e-3
    assert "equal on a virtual clock" not in result.text()
    assert "same each run" not in result.text()
    assert "host measured here" in " ".join(result.text().split())
    assert perfmagic.bench(lambda: time.sleep(1e-3), time=0.05, max_samples=10).returns.median_s >= 1e-3


@pytest.mark.parametrize(("host", "finished"), [("counted", True), ("measured", False)])
def test_equal_samples_say_nothing_of_those_to_come_where_the_host_is_measured(host: str, finished: bool) -> None:
    perfmagic.device("sim", host=host)
    rule = BenchSpec().rule()
    for _ in range(5):
        rule.add((1e-3,), 0.0)
    assert rule.finished == finished


def test_the_host_is_the_process_s_until_its_clock_is_real() -> None:
    perfmagic.device("H100", item=0.0)
    assert HOST.measured
    back = sim.state()
    perfmagic.device("sim", host="counted")
    assert not HOST.measured
    back()
    assert HOST.measured
    sim.set_pace(None)
    sim.load(clock="real")
    sim.load(clock="virtual")
    assert not HOST.measured


def test_what_has_no_measured_host_is_refused() -> None:
    with pytest.raises(OptionError, match="host 'fast' is not known"):
        perfmagic.device("sim", host="fast")
    with perfmagic.timeline(), pytest.raises(DeviceError, match="the clock cannot change"):
        perfmagic.device("sim", host="counted")
    with pytest.raises(DeviceError, match="ranks share this machine's cores"):
        group.refuse_measured(2)
    with pytest.raises(OptionError, match="cannot be measured") as refused:
        settings_for(2, "sim", "")
    assert "--clock virtual" in refused.value.hint
    assert settings_for(2, "sim", "", "virtual").clock == "virtual"
    sim.load(clock="real")
    for kind in ("sim", "cpu"):
        with pytest.raises(DeviceError, match="host= needs a simulated device on a virtual clock"):
            perfmagic.device(kind, host="measured")
    assert virtual_clock() is None

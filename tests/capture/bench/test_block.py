"""with perfmagic.Benchmark(): two times, and no more said of devices than they report."""

import pytest

import perfmagic
from perfmagic.analysis.bench.queue_model import QueueModel
from perfmagic.capture.bench import block
from perfmagic.capture.bench.block import Benchmark
from tests.capture.bench.machine import MS, Machine


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    monkeypatch.setattr(block, "active_backends", machine.backends)
    monkeypatch.setattr(block, "reader", lambda: machine.clock_ns)
    return machine


def said(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out.strip().replace("\u00a0", " ")


def reports(machine: Machine) -> None:
    """The device reports what is queued: three launches a run of the body."""
    machine.started, machine.progress = True, lambda _index=None: 3 * machine.runs


def test_a_block_that_queues_work_gives_both_times(machine: Machine, capsys) -> None:
    reports(machine)
    with Benchmark("products") as timed:
        machine.body(2 * MS, 30 * MS)
    assert (timed.returned_s, timed.done_s) == (0.002, 0.032)
    assert said(capsys) == "products: Python returned after 2.00 ms, the device finished after 32.0 ms"


def test_both_times_are_said_in_the_language_in_force(machine: Machine, capsys, monkeypatch) -> None:
    monkeypatch.setenv("PERFMAGIC_LANGUAGE", "zh")
    reports(machine)
    with Benchmark("products"):
        machine.body(2 * MS, 30 * MS)
    assert said(capsys) == "products：Python 在 2.00 ms 后返回，设备在 32.0 ms 后完成"
    model = QueueModel(n=10, t1_s=5e-6, t2_s=1e-2, t3_s=8e-6, measured_s=0.1)
    assert str(model).startswith("10 个算子：启动 t1 = 5.00")
    assert model.sentence.startswith("10 ops: t1 = 5.00")


def test_a_block_that_leaves_the_device_alone_is_not_said_to_have_used_it(machine: Machine, capsys) -> None:
    reports(machine)
    machine.body(1 * MS, 50 * MS)
    with Benchmark("numpy") as timed:
        machine.work(19 * MS)
    assert timed.returned_s == pytest.approx(0.019)
    assert timed.done_s == pytest.approx(0.019)
    assert said(capsys) == "numpy: Python returned after 19.0 ms; nothing was queued on the device"


def test_without_a_device_there_is_none_to_name(machine: Machine, capsys) -> None:
    with Benchmark():
        machine.work(3 * MS)
    assert said(capsys) == "Python returned after 3.00 ms; no device was in use"


def test_of_a_device_that_does_not_report_only_that_it_was_idle_is_known(machine: Machine, capsys) -> None:
    machine.started = True
    with Benchmark():
        machine.body(2 * MS, 30 * MS)
    assert said(capsys) == "Python returned after 2.00 ms, the device was idle after 32.0 ms"


def test_a_device_that_the_block_started_worked_for_it(machine: Machine, capsys) -> None:
    with Benchmark():
        machine.body(2 * MS, 30 * MS)
    assert said(capsys) == "Python returned after 2.00 ms, the device finished after 32.0 ms"


def test_a_block_that_raises_prints_nothing(machine: Machine, capsys) -> None:
    with pytest.raises(ValueError, match="no"), Benchmark():
        raise ValueError("no")
    assert said(capsys) == ""


def test_of_several_devices_only_those_that_worked_are_counted(capsys) -> None:
    torch = pytest.importorskip("torch", reason="the simulated device needs torch")
    perfmagic.devices(2, "sim", pace="fill=1ms")
    for index in range(2):  # both are in use
        torch.ones(2, device=f"sim:{index}")
    with Benchmark():
        torch.ones(2, device="sim:1")
    assert ", the device (simulated) finished after" in said(capsys)
    with Benchmark():
        for index in range(2):
            torch.ones(2, device=f"sim:{index}")
    assert ", 2 devices (simulated) finished after" in said(capsys)
    perfmagic.device("sim", pace=perfmagic.Pace())

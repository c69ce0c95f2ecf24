"""NVML's clocks, with a driver of our own: no GPU is needed, and none is claimed."""

import os
import sys
import types

import pytest

from perfmagic.analysis.bench.compare import compare
from perfmagic.analysis.bench.result import summarise
from perfmagic.capture.bench.clocks import Clocks, clocks_of
from perfmagic.capture.bench.spec import BenchSpec
from tests.capture.bench.machine import MS, Machine


class NVMLError(Exception):
    pass


class Driver(types.ModuleType):
    """The part of pynvml that is used."""

    NVMLError, NVML_CLOCK_SM, NVML_TEMPERATURE_GPU = NVMLError, 1, 0

    def __init__(self, mhz: list[int], reasons: int = 0, *, partitioned: bool = False) -> None:
        super().__init__("pynvml")
        self._mhz, self._reasons, self._partitioned = iter(mhz), reasons, partitioned
        self.last = 0

    def nvmlInit(self) -> None:
        pass

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        if uuid != "GPU-abc":
            raise NVMLError("not found")
        return "handle"

    def nvmlDeviceGetClockInfo(self, handle: str, kind: int) -> int:
        if self._partitioned:
            raise NVMLError("not supported")
        self.last = next(self._mhz, self.last)
        return self.last

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: str) -> int:
        return self._reasons

    def nvmlSystemGetDriverVersion(self) -> str:
        return "595.1"

    def nvmlDeviceGetTemperature(self, handle: str, kind: int) -> int:
        return 61

    def nvmlDeviceGetPowerUsage(self, handle: str) -> int:
        return 312_500

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list:
        return [types.SimpleNamespace(pid=os.getpid()), types.SimpleNamespace(pid=-1)]


def torch_with(uuid: str | None = "abc", hip: str | None = None):
    properties = types.SimpleNamespace(uuid=uuid)
    return types.SimpleNamespace(
        version=types.SimpleNamespace(hip=hip),
        cuda=types.SimpleNamespace(get_device_properties=lambda index: properties),
    )


def test_clocks_are_read_before_during_and_after_the_samples() -> None:
    driver = Driver([1980, 1700, 1600, 1750], reasons=0x4 | 0x1)  # 0x1: idle, which is nobody's fault
    machine = Machine()
    engine = machine.engine(BenchSpec(samples=32, warmup=0), clocks=lambda used: Clocks(driver, [(0, "handle")]))
    for () in engine.calls():
        machine.body(1 * MS, 1 * MS)
    (record,) = engine.record().clocks
    assert record.sm_mhz == (1980, 1700, 1600, 1750)  # before, after 16 and 32 samples, at the end
    assert (record.temperature_c, record.power_w) == (61, 312.5)
    assert record.limited_by == ("software power cap",)
    assert record.other_processes == 1
    assert engine.record().environment["driver"] == "595.1"


def test_a_partition_that_does_not_tell_has_no_record() -> None:
    clocks = Clocks(Driver([1980], partitioned=True), [(0, "handle")])
    clocks.read()
    assert clocks.records() == ()


def test_without_the_binding_or_for_another_maker_there_are_no_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert clocks_of(torch_with(), (0,)) is None
    monkeypatch.setitem(sys.modules, "pynvml", Driver([1980]))
    assert clocks_of(torch_with(), (0,)) is not None
    assert clocks_of(torch_with(hip="6.0"), (0,)) is None
    assert clocks_of(torch_with(uuid=None), (0,)) is None
    assert clocks_of(torch_with(uuid="of another machine"), (0,)) is None
    assert clocks_of(torch_with(), ()) is None


def test_no_verdict_across_different_clocks() -> None:
    def at(mhz: int, ms: float):
        machine = Machine()
        engine = machine.engine(
            BenchSpec(samples=30, warmup=0), clocks=lambda used: Clocks(Driver([mhz]), [(0, "handle")])
        )
        for () in engine.calls():
            machine.body(1 * MS, round(ms * MS))
        return summarise(engine.record())

    apart = compare(at(1980, 10), at(1500, 13))[0]
    assert apart.verdict == "unclear"
    assert "the GPU ran at 1980 and at 1500\u00a0MHz" in apart.why
    assert compare(at(1980, 10), at(1970, 13))[0].verdict == "slower"

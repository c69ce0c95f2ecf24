"""The clocks of NVIDIA GPUs while a benchmark runs, through NVML where its Python binding is installed.

The binding is `nvidia-ml-py` (module pynvml, an extra): reading takes some 10 to 100 µs and never changes a setting.
Source of names and bits: NVML API reference, "nvmlClocksEventReasons", "Device Queries".
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from typing import Any

from perfmagic.trace.samples import ClockRecord

# bits of nvmlDeviceGetCurrentClocksEventReasons that hold a clock down against the user's will
LIMITS = {
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}


class Clocks:
    """Readings of some GPUs; each is added to the ones before.  driver: its version, as NVML reports it."""

    def __init__(self, nvml: Any, handles: Sequence[tuple[int, Any]]) -> None:
        self._nvml, self._handles = nvml, handles
        self._mhz: dict[int, list[int]] = {index: [] for index, _ in handles}
        self.driver = str(_asked(nvml, nvml.nvmlSystemGetDriverVersion))
        self._reasons = dict.fromkeys(self._mhz, 0)

    def read(self) -> None:
        """Note the clock and what holds it down, of each."""
        nvml = self._nvml
        for index, handle in self._handles:
            # a partitioned GPU does not report its clock: then there is no record
            mhz = _asked(nvml, lambda handle=handle: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM))
            if mhz:
                self._mhz[index].append(int(mhz))
                self._reasons[index] |= int(_asked(nvml, lambda handle=handle: _reasons(nvml, handle)))

    def records(self) -> tuple[ClockRecord, ...]:
        """What was read so far; a GPU that never reported its clock is left out."""
        return tuple(self._record(index, handle) for index, handle in self._handles if self._mhz[index])

    def _record(self, index: int, handle: Any) -> ClockRecord:
        nvml = self._nvml
        return ClockRecord(
            device=index,
            sm_mhz=tuple(self._mhz[index]),
            temperature_c=_asked(nvml, lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)),
            power_w=_asked(nvml, lambda: nvml.nvmlDeviceGetPowerUsage(handle)) / 1000,  # reported in mW
            limited_by=tuple(limit for bit, limit in LIMITS.items() if self._reasons[index] & bit),
            other_processes=_others(nvml, handle),
        )


def clocks_of(torch: Any, indices: Sequence[int]) -> Clocks | None:
    """The clocks of these CUDA devices of torch; None without NVML or its binding, and for AMD's."""
    if not indices or getattr(torch.version, "hip", None):
        return None
    try:
        nvml = importlib.import_module("pynvml")
        nvml.nvmlInit()
    except Exception:  # noqa: BLE001 - absent, or no driver: its own errors are of a module that is not there
        return None
    handles = [(index, _handle(nvml, torch.cuda.get_device_properties(index))) for index in indices]
    readable = [(index, handle) for index, handle in handles if handle is not None]
    return Clocks(nvml, readable) if readable else None


def _handle(nvml: Any, properties: Any) -> Any:
    """NVML's handle, None for a partition of a GPU; by UUID, as NVML numbers by slot and torch by what is visible."""
    uuid = getattr(properties, "uuid", None)  # since torch 2.4
    return _asked(nvml, lambda: nvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")) or None if uuid else None


def _reasons(nvml: Any, handle: Any) -> int:
    """The bit mask, by its name since driver 535 or the one before."""
    now = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
    return int((now or nvml.nvmlDeviceGetCurrentClocksThrottleReasons)(handle))


def _asked(nvml: Any, ask: Any) -> Any:
    try:
        return ask()
    except nvml.NVMLError:
        return 0


def _others(nvml: Any, handle: Any) -> int:
    processes = _asked(nvml, lambda: nvml.nvmlDeviceGetComputeRunningProcesses(handle)) or []
    return sum(process.pid != os.getpid() for process in processes)

"""How fast pinned copies can be: as measured, else by the device's bus, else nobody knows."""

import pytest

from perfmagic.analysis.timeline.copies import Bus, pinned_bus
from perfmagic.trace.model import DeviceInfo, Trace
from tests.analysis.build import Builder

PAGEABLE, PINNED = "Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pinned -> Device)"


def copied(name: str, *, kind: str = "cuda", copy: str = PAGEABLE, size: int = 4_000_000) -> Trace:
    b = Builder()
    b.op(0, 1000, launch=0, name=copy, size=size)
    return b.trace(devices=(DeviceInfo(0, kind, name),))


@pytest.mark.parametrize(
    ("name", "gb_per_s", "generation"),
    [
        ("Tesla V100-SXM2-16GB", 12, 3),
        ("Quadro GP100", 12, 3),
        ("Tesla T4", 12, 3),
        ("NVIDIA A100-SXM4-80GB", 25, 4),
        ("NVIDIA A100-PG509-200", 25, 4),
        ("NVIDIA L40S", 25, 4),
        ("AMD Instinct MI250X", 25, 4),
        ("NVIDIA H100 80GB HBM3", 50, 5),
        ("NVIDIA B200", 50, 5),
        ("AMD Instinct MI300X", 50, 5),
    ],
)
def test_the_bus_of_a_device_is_assumed_by_its_name(name: str, gb_per_s: int, generation: int) -> None:
    assert pinned_bus(copied(name), 0) == Bus(gb_per_s * 1e9, f"assumed for PCIe {generation}.0 ×16", measured=False)


@pytest.mark.parametrize("name", ["NVIDIA GH200 480GB", "NVIDIA GB200", "device 2", "my chip"])
def test_of_an_unknown_bus_nothing_is_assumed(name: str) -> None:
    assert pinned_bus(copied(name), 0) is None


def test_large_pinned_copies_of_the_record_are_believed_first() -> None:
    assert pinned_bus(copied("Tesla V100", copy=PINNED), 0) == Bus(4e9, "as the pinned copies here")
    assert pinned_bus(copied("Tesla V100", copy=PINNED, size=1000), 0) == Bus(
        12e9, "assumed for PCIe 3.0 ×16", measured=False
    )


def test_a_simulated_device_copies_pinned_memory_twice_as_fast() -> None:
    found = pinned_bus(copied("sim", kind="sim"), 0)
    assert found.bytes_per_s == 8e9

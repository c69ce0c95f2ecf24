"""Links between devices and machines, by the names of their standards: what a pace says with link=nvlink4."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Link:
    """One link.

    bytes_per_s: the standard's rate in one direction; what programs reach is less.  latency_s: its order of magnitude
    for one operation between two processes, software included.
    """

    bytes_per_s: float
    latency_s: float


# Rates of one direction. PCI Express ×16: PCI-SIG, 8/16/32 GT/s and 128b/130b. NVLink: NVIDIA's data sheets of V100 (6
# links of 25 GB/s), A100 (12) and H100 (18). Ethernet and InfiniBand: bits of the name by eight (HDR 200, NDR 400).
LINKS = {
    "pcie3": Link(15.75e9, 10e-6),
    "pcie4": Link(31.5e9, 10e-6),
    "pcie5": Link(63e9, 10e-6),
    "nvlink2": Link(150e9, 5e-6),
    "nvlink3": Link(300e9, 5e-6),
    "nvlink4": Link(450e9, 5e-6),
    "ethernet1": Link(0.125e9, 50e-6),
    "ethernet10": Link(1.25e9, 30e-6),
    "ethernet25": Link(3.125e9, 30e-6),
    "ethernet100": Link(12.5e9, 20e-6),
    "hdr": Link(25e9, 5e-6),
    "ndr": Link(50e9, 5e-6),
}

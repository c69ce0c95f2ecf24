"""Links that people know by name: what passes each way in a second, and how long a message takes at least.

Bandwidths are what the wire carries in one direction, of all lanes or links that a device has; programs reach less.
Latencies are those with which NCCL plans a step of a ring (hwLat, ring, simple: NVLink, PCI, network).
"""

from __future__ import annotations

from dataclasses import dataclass

from perfmagic.errors import OptionError


@dataclass(frozen=True)
class Link:
    """A link between devices. bytes_per_s: each way.  latency_s: of a message of no size.  source: of both."""

    bytes_per_s: float
    latency_s: float
    source: str


_NCCL = "latency: NCCL, src/graph/tuning.cc"


def _pcie(giga_transfers: float) -> Link:
    # 16 lanes of one bit a transfer, of 130 bits 128 are data
    return Link(giga_transfers * 1e9 * 16 * 128 / 130 / 8, 5.7e-6, f"PCI-SIG, base specification; {_NCCL}")


def _nvlink(links: int) -> Link:
    return Link(links * 25e9, 3.4e-6, f"NVIDIA, white papers of V100, A100 and H100: 25 GB/s a link each way; {_NCCL}")


def _network(gigabits: float, source: str) -> Link:
    return Link(gigabits * 1e9 / 8, 9.6e-6, f"{source}; {_NCCL}")


BUSES = ("pcie", "nvlink")
LINKS = {
    "pcie3": _pcie(8),
    "pcie4": _pcie(16),
    "pcie5": _pcie(32),
    "nvlink2": _nvlink(6),
    "nvlink3": _nvlink(12),
    "nvlink4": _nvlink(18),
    "ethernet1": _network(1, "IEEE 802.3ab"),
    "ethernet10": _network(10, "IEEE 802.3ae"),
    "ethernet25": _network(25, "IEEE 802.3by"),
    "ethernet100": _network(100, "IEEE 802.3ba"),
    "hdr": _network(200, "InfiniBand Trade Association, roadmap, four lanes"),
    "ndr": _network(400, "InfiniBand Trade Association, roadmap, four lanes"),
}


def link_named(name: str) -> Link:
    """The link of a name. Raises OptionError for one that is not known."""
    found = LINKS.get(name.lower())
    if found is None:
        raise OptionError(f"pace: no link is named {name!r}", hint=f"a bandwidth such as 1GB/s, or {', '.join(LINKS)}")
    return found


def name_of(bytes_per_s: float | None, latency_s: float | None = None) -> str:
    """The link with this bandwidth and latency; "" for none.

    latency_s: None for copies to and from a device, which go over a bus and no network.
    """
    for name, link in LINKS.items():
        is_it = latency_s == link.latency_s if latency_s is not None else name.startswith(BUSES)
        if link.bytes_per_s == bytes_per_s and is_it:
            return name
    return ""

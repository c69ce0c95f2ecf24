"""The ranks of one job as a table of text cells, the same for every face."""

from __future__ import annotations

from perfmagic import units
from perfmagic.view.ranks.doc import RanksDoc

HEAD = (
    "", "device", "began", "extent", "compute", "copies", "idle", "exposed comm.", "waiting", "transfer",
    "last at", "bus bandwidth",
)  # fmt: skip
NOTE = (
    "Began: how long after the rank that began first. Waiting and transfer are parts of the exposed "
    "communication: before the last rank came, and with data moving"
)


def rank_cells(doc: RanksDoc) -> list[tuple[str, ...]]:
    """A row a rank under HEAD. Waiting and transfer are parts of the exposed communication."""
    rows = []
    for row in doc.rows:
        stat = row.stat
        times = (stat.extent_ns, stat.compute_ns, stat.copy_ns, stat.idle_ns, stat.exposed_communication_ns)
        extent, compute, *others = map(units.duration, times)
        waited = units.known_within(stat.exposed_waiting_ns, stat.waiting_bound_ns if stat.exposed_waiting_ns else 0)
        parts = (waited, units.duration(stat.exposed_transfer_ns))
        rate = f"{units.size(stat.bus_bytes_per_s)}/s" if stat.bus_bytes_per_s else ""
        last = f"{units.count(stat.n_last)} of {units.count(stat.n_matched)}" if stat.n_matched else ""
        rows.append(
            (
                row.label,
                str(stat.device),
                units.duration(stat.began_after_ns) if doc.clocks_known else "",
                *(extent, "" if doc.no_compute else compute, *others),
                *(parts if stat.waiting_ns + stat.transfer_ns else ("", "")),
                last,
                rate,
            )
        )
    return rows


def cost_words(cost_ns: int | None) -> str:
    """The left column of a finding on ranks."""
    return "" if cost_ns is None else units.duration(cost_ns)

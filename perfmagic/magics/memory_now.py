"""%perfmagic memory: what is on the devices now, and who holds it?"""

from __future__ import annotations

from typing import Any

from perfmagic import units
from perfmagic.analysis.memory.peak import BEFORE
from perfmagic.capture.devices.backends import active_backends, sim_loaded
from perfmagic.capture.recording.recorder import Recorder
from perfmagic.results import MemoryResult
from perfmagic.view.text import table

UNNAMED = "no name of the notebook leads to it"


def memory_now(shell: Any) -> str:
    """A table for each simulated device: bytes, blocks and holder, the largest first.

    An empty recording is what tells: its ledger begins with all blocks that are there.
    """
    if not sim_loaded():
        used = ", ".join(info.label for backend in active_backends() for info in backend.infos()) or "no device"
        return f"blocks are known of simulated devices only, and none is loaded; in use: {used}"
    recorder = Recorder(device="sim", memory=True, names=shell.user_ns, lines=False)
    try:
        recorder.start()
        trace = recorder.stop()
    finally:
        recorder.give_back()
    devices = sorted(set(trace.blocks.device.tolist()))
    found = [line for device in devices for line in _device(MemoryResult(trace, device=device))]
    return "\n".join(found) or "nothing is allocated on a simulated device"


def _device(memory: MemoryResult) -> list[str]:
    rows = [
        (row.reason.removeprefix(BEFORE).removeprefix(": ") or UNNAMED, row.size_bytes, row.n_blocks)
        for row in memory.after()
    ]
    label = memory.trace.device_info(memory.ledger.device).label
    title = f"{label}: {units.size(sum(size for _, size, _ in rows))} allocated"
    return [title, *table(("", "bytes", "blocks"), [(why, units.size(size), units.count(n)) for why, size, n in rows])]

"""%perfmagic memory: what is on the devices now, and who holds it?"""

from __future__ import annotations

import gc
from typing import Any

from perfmagic import units
from perfmagic.capture.recording.recorder import Recorder
from perfmagic.results import MemoryResult
from perfmagic.trace.columns import HOST_DEVICE
from perfmagic.view.text import table

UNNAMED = "no name of the notebook leads to it"


def memory_now(shell: Any) -> str:
    """A table for each device, or of the host where none is in use: bytes, blocks and holder, the largest first.

    An empty recording is what tells: its ledger begins with all blocks that are there. What no name leads to may be
    garbage in reference cycles: then Python's collector runs, and what it has freed is told.
    """
    devices = _devices(shell)
    before = {memory.ledger.device: _bytes(memory) for memory in devices}
    if any(": " not in row.reason for memory in devices for row in memory.after()):
        # an error and its frames often lead to each other, and stay until Python looks for such cycles
        gc.collect()
        devices = _devices(shell)
    freed = sum(before.values()) - sum(_bytes(memory) for memory in devices)
    told = [f"{units.size(freed)} were held by reference cycles alone; gc.collect() has freed them"] if freed else []
    found = [line for memory in devices for line in _table(memory)] or ["nothing is allocated on a device"]
    return "\n".join([*told, *found])


def _devices(shell: Any) -> list[MemoryResult]:
    recorder = Recorder(device="auto", memory=True, names=shell.user_ns, lines=False)
    try:
        recorder.start()
        trace = recorder.stop()
    finally:
        recorder.give_back()
    devices = sorted(set(trace.blocks.device.tolist()) - {HOST_DEVICE}) or [HOST_DEVICE] * bool(len(trace.blocks))
    return [MemoryResult(trace, device=device) for device in devices]


def _bytes(memory: MemoryResult) -> int:
    return sum(row.size_bytes for row in memory.after())


def _table(memory: MemoryResult) -> list[str]:
    rows = [(row.reason.partition(": ")[2] or UNNAMED, row.size_bytes, row.n_blocks) for row in memory.after()]
    info = memory.trace.device_info(memory.ledger.device)
    # only the simulated device tells of blocks that no name leads to
    title = f"{info.label}: {units.size(_bytes(memory))} " + ("allocated" if info.kind == "sim" else "of tensors")
    return [title, *table(("", "bytes", "blocks"), [(why, units.size(size), units.count(n)) for why, size, n in rows])]

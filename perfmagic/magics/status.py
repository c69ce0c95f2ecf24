"""%perfmagic: what is set, and what works here?   %perfmagic display MODE: how results are shown.

%perfmagic language NAME: in which language.   %perfmagic memory: what is on the devices now, and who holds it?
"""

from __future__ import annotations

import gc
from typing import Any

from perfmagic.api.show import in_notebook
from perfmagic.base import units
from perfmagic.base.display import FACES, MODES, TEXT, choose, display_mode
from perfmagic.base.errors import OptionError
from perfmagic.base.language import LANGUAGES, language, set_language
from perfmagic.base.options import did_you_mean
from perfmagic.base.tables import Table, text_lines
from perfmagic.capture.devices.backends import require_torch
from perfmagic.capture.devices.environment import diagnosis
from perfmagic.capture.recording.recorder import Recorder
from perfmagic.magics.running.options import Parser
from perfmagic.results import MemoryResult
from perfmagic.trace.columns import HOST_DEVICE


def parser() -> Parser:
    """The options of %perfmagic."""
    return Parser(
        "%perfmagic",
        "Versions, devices, and how results are displayed; what is on the devices now.",
        form=f"[memory | display {'|'.join(MODES)} | language {'|'.join(LANGUAGES)}]",
    )


def run(shell: Any, line: str) -> None:
    """Print versions, devices and what each of them can give; of a language that it sets only its name."""
    options, rest = parser().split(line)
    if options.help:
        print(parser().format_help())
        return
    arguments = rest.split()
    if arguments == ["memory"]:
        print(memory_now(shell))
        return
    if arguments[:1] == ["display"] and len(arguments) == 2:
        choose(arguments[1])
    elif arguments[:1] == ["language"] and len(arguments) == 2:
        set_language(arguments[1])
        print(f"{'language':12} {language()}")
        return
    elif arguments:
        raise OptionError(
            f"%perfmagic knows `memory`, `display MODE` and `language NAME`, got {rest!r}",
            hint=f"{did_you_mean(arguments[0], ('memory', 'display', 'language'))}%perfmagic display static",
        )
    mode = display_mode()
    display = f"{mode}: {FACES[mode]}" if in_notebook(shell) else TEXT
    print(
        "\n".join(
            f"{key:12} {value}" for key, value in {**diagnosis(), "display": display, "language": language()}.items()
        )
    )


# %perfmagic memory: what is on the devices now, and who holds it?

UNNAMED = "no name of the notebook leads to it"


def memory_now(shell: Any) -> str:
    """A table for each device, or of the host where none is in use: bytes, blocks and holder, the largest first.

    The ledger of an empty recording begins with all allocated blocks. Blocks that no name leads to may be garbage in
    reference cycles: then Python's collector runs, and the bytes that it freed are printed.
    """
    require_torch("%perfmagic memory")
    devices = _devices(shell)
    before = {memory.ledger.device: _size_bytes(memory) for memory in devices}
    if any(": " not in row.reason for memory in devices for row in memory.after()):
        # an error and its frames often lead to each other, and stay until Python looks for such cycles
        gc.collect()
        devices = _devices(shell)
    freed = sum(before.values()) - sum(_size_bytes(memory) for memory in devices)
    notes = [f"{units.size(freed)} were held by reference cycles alone; gc.collect() has freed them"] if freed else []
    tables = [line for memory in devices for line in _table(memory)] or ["nothing is allocated on a device"]
    return "\n".join([*notes, *tables])


def _devices(shell: Any) -> list[MemoryResult]:
    recorder = Recorder(device="auto", memory=True, names=shell.user_ns, lines=False)
    try:
        recorder.start()
        trace = recorder.stop()
    finally:
        recorder.give_back()
    devices = sorted(set(trace.blocks.device.tolist()) - {HOST_DEVICE}) or [HOST_DEVICE] * bool(len(trace.blocks))
    return [MemoryResult(trace, device=device) for device in devices]


def _size_bytes(memory: MemoryResult) -> int:
    return sum(row.size_bytes for row in memory.after())


def _table(memory: MemoryResult) -> list[str]:
    rows = [(row.reason.partition(": ")[2] or UNNAMED, row.size_bytes, row.n_blocks) for row in memory.after()]
    info = memory.trace.device_info(memory.ledger.device)
    # only the simulated device reports blocks that no name leads to
    title = f"{info.label}: {units.size(_size_bytes(memory))} " + ("allocated" if info.kind == "sim" else "of tensors")
    cells = [(why, units.size(size), units.count(n)) for why, size, n in rows]
    return [title, *text_lines(Table("", ("", "bytes", "blocks"), cells))]

"""The magics by name. A magic's module is imported when it is first used: loading the extension stays quick."""

from __future__ import annotations

import importlib
from types import ModuleType

from perfmagic.magics.running.run import CellMagic

CELL_MAGICS = {
    "timeline": "perfmagic.magics.timeline",
    "memory": "perfmagic.magics.memory",
    "graph": "perfmagic.magics.graph",
    "bench": "perfmagic.magics.bench",
    "syncbench": "perfmagic.magics.bench",
}
# cells that are not measured here: their text goes elsewhere
SENT_MAGICS = {"ranks": "perfmagic.magics.ranks"}
LINE_MAGICS = {
    "trace": "perfmagic.magics.trace",
    "compare": "perfmagic.magics.compare",
    "perfmagic": "perfmagic.magics.status",
    "ranks": "perfmagic.magics.ranks_line",
}


def enter_rank() -> None:
    """In a rank, %%ranks is what records the cell; there are no ranks of ranks."""
    SENT_MAGICS.pop("ranks", None)
    LINE_MAGICS.pop("ranks", None)
    CELL_MAGICS["ranks"] = "perfmagic.magics.in_rank.cell"


def cell_magic(name: str) -> CellMagic:
    """What a cell magic of that name does."""
    magic: CellMagic = importlib.import_module(CELL_MAGICS[name]).MAGICS[name]
    return magic


def sent_magic(name: str) -> ModuleType:
    """The module of a cell magic whose text goes elsewhere: its parser() and run(shell, line, source)."""
    return importlib.import_module(SENT_MAGICS[name])


def line_magic(name: str) -> ModuleType:
    """The module of a magic without a body: its parser() and run(shell, line)."""
    return importlib.import_module(LINE_MAGICS[name])

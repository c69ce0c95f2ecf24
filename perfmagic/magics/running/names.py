"""The magics by name. A magic's module is imported when it is first used: loading the extension stays quick."""

from __future__ import annotations

import importlib
from types import ModuleType

from perfmagic.magics.running.run import CellMagic

CELL_MAGICS = {
    "timeline": "perfmagic.magics.timeline",
    "bench": "perfmagic.magics.bench",
    "syncbench": "perfmagic.magics.bench",
}
LINE_MAGICS = {
    "trace": "perfmagic.magics.trace",
    "compare": "perfmagic.magics.compare",
    "perfmagic": "perfmagic.magics.status",
}


def cell_magic(name: str) -> CellMagic:
    """What a cell magic of that name does."""
    magic: CellMagic = importlib.import_module(CELL_MAGICS[name]).MAGICS[name]
    return magic


def line_magic(name: str) -> ModuleType:
    """The module of a magic without a body: its parser() and run(shell, line)."""
    return importlib.import_module(LINE_MAGICS[name])

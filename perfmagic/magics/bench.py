"""%%bench: when did Python come back?  %%syncbench: when was the device done, and what was the bottleneck?"""

from __future__ import annotations

import argparse
from typing import Any

from perfmagic.api.benchmarks import BenchOptions
from perfmagic.api.options import Option
from perfmagic.magics.running.bench_run import BenchRun
from perfmagic.magics.running.options import QUIET, Parser, parse_sweep
from perfmagic.trace.model import Cell

_SUMMARY = {
    "bench": "When Python came back from this cell, and when the device was done.",
    "syncbench": "When the device was done with this cell, and whether the host or the device was the bottleneck.",
}
_VARIANTS = Option("compare the variants that lines such as `# --- B` separate", default=False, name="vs")
_SWEEP = Option("measure with NAME set to each of the values", name="sweep", metavar="NAME=A,B,C", type=str)


class BenchMagic:
    """Runs the cell many times, for real."""

    repeated = True

    def __init__(self, name: str) -> None:
        self._name = name

    def parser(self) -> Parser:
        parser = Parser(f"%%{self._name}", _SUMMARY[self._name], form="[set-up code]")
        parser.add_name()
        parser.add_sampling()
        parser.add_keywords(BenchOptions, "runs")
        parser.add(_VARIANTS)
        parser.add(_SWEEP, type=parse_sweep)
        parser.add_keywords(BenchOptions, "flops", "bytes", "setup_each", "name", flops=str, bytes=str)
        parser.add(QUIET)
        return parser

    def begin(self, shell: Any, cell: Cell, options: argparse.Namespace, rest: str) -> BenchRun:
        return BenchRun(shell, cell, options, rest, name=self._name)


MAGICS = {name: BenchMagic(name) for name in _SUMMARY}

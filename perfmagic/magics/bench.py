"""%%bench: when did Python come back?  %%syncbench: when was the device done, and what was the bottleneck?"""

from __future__ import annotations

import argparse
from typing import Any

from perfmagic.magics.running.bench_run import BenchRun
from perfmagic.magics.running.options import Parser, add_name_option, add_sampling_options, sweep_of
from perfmagic.trace.model import Cell

_SUMMARY = {
    "bench": "When Python came back from this cell, and when the device was done.",
    "syncbench": "When the device was done with this cell, and whether the host or the device was the bottleneck.",
}


class BenchMagic:
    """Runs the cell many times, for real."""

    repeated = True

    def __init__(self, name: str) -> None:
        self._name = name

    def parser(self) -> Parser:
        parser = Parser(f"%%{self._name}", _SUMMARY[self._name], form="[set-up code]")
        add_name_option(parser)
        add_sampling_options(parser)
        parser.add_argument("--runs", type=int, metavar="N", help="whole runs, to see how far their medians differ")
        parser.add_argument(
            "--vs",
            action="store_true",
            help="compare variants, interleaved; a line such as  # --- B  begins the next one",
        )
        parser.add_argument(
            "--sweep", type=sweep_of, metavar="NAME=A,B,C", help="measure with NAME set to each of the values"
        )
        parser.add_argument(
            "--flops", metavar="EXPR", help="floating-point operations of one call, such as 2*n**3: shows FLOP/s"
        )
        parser.add_argument("--bytes", metavar="EXPR", help="bytes that one call moves: shows the bandwidth")
        parser.add_argument(
            "--setup-each", action="store_true", help="run the set-up code before each sample instead of once"
        )
        parser.add_argument("--name", dest="label", default="", metavar="TEXT", help="a name for the result")
        parser.add_argument(
            "-q", "--quiet", action="store_true", help="show nothing; -o and perfmagic.last() have the result"
        )
        return parser

    def begin(self, shell: Any, cell: Cell, options: argparse.Namespace, rest: str) -> BenchRun:
        return BenchRun(shell, cell, options, rest, name=self._name)


MAGICS = {name: BenchMagic(name) for name in _SUMMARY}

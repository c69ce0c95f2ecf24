"""%%bench: when did Python come back?  %%syncbench: when was the device done, and who was the bottleneck?"""

from __future__ import annotations

import argparse
import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any

from perfmagic.api import finish_bench, new_engine
from perfmagic.capture.timers import BenchSpec
from perfmagic.errors import OptionError
from perfmagic.magics.options import Parser, add_name_option
from perfmagic.magics.run import bind, compiled_setup
from perfmagic.show import remember, show
from perfmagic.trace.model import Cell

_SUMMARY = {
    "bench": "When Python came back from this cell, and when the device was done.",
    "syncbench": "When the device was done with this cell, how long it took, and who was the bottleneck.",
}


class BenchMagic:
    """Runs the cell many times, for real."""

    repeated = True

    def __init__(self, name: str) -> None:
        self._name = name

    def parser(self) -> Parser:
        parser = Parser(f"%%{self._name}", _SUMMARY[self._name], form="[set-up code]")
        add_name_option(parser)
        parser.add_argument("-n", type=int, metavar="N", help="take exactly N samples")
        parser.add_argument("--time", type=float, metavar="S", help="seconds to spend at most (default 2)")
        parser.add_argument(
            "--rel", type=float, metavar="P", help="stop at this half-width of the interval, in %% (default 1)"
        )
        parser.add_argument("--no-warmup", action="store_true", help="take samples right after the first call")
        parser.add_argument(
            "--setup-each", action="store_true", help="run the set-up code before every sample, not once"
        )
        parser.add_argument("--name", dest="label", default="", metavar="TEXT", help="a name for the result")
        parser.add_argument("-q", "--quiet", action="store_true", help="show nothing; the result goes to -o and last()")
        return parser

    def begin(self, shell: Any, cell: Cell, options: argparse.Namespace, rest: str) -> BenchRun:
        return BenchRun(shell, cell, options, rest, synced=self._name == "syncbench")


class BenchRun:
    """One measured cell."""

    def __init__(self, shell: Any, cell: Cell, options: argparse.Namespace, rest: str, *, synced: bool) -> None:
        self._shell, self._options, self._pid = shell, options, os.getpid()
        self._setup = compiled_setup(shell, rest)
        if options.setup_each and self._setup is None:
            raise OptionError(
                "--setup-each needs set-up code after the options", hint="%%bench --setup-each x = x0.clone()"
            )
        each = self._run_setup if options.setup_each else None
        self._engine = new_engine(_spec(cell, options, each), synced=synced)
        self._calls = self._engine.calls()

    def start(self) -> None:
        __tracebackhide__ = True
        if self._setup is not None and not self._options.setup_each:
            self._run_setup()

    def first(self) -> Iterator[tuple[()]]:
        return itertools.islice(self._calls, 1)

    def more(self) -> Iterator[tuple[()]]:
        return self._calls

    def mark(self, line: int) -> None:
        """A measured body carries no marks."""

    def inner(self, line: int, top_line: int) -> None:
        """A measured body carries no marks."""

    def finish(self, error: BaseException | None) -> None:
        if os.getpid() != self._pid:
            return
        if error is not None:
            self._engine.failed(error)
        result = finish_bench(self._engine)
        bind(self._shell, self._options.name, result)
        if self._options.quiet:
            remember(result)
        else:
            show(result)

    def _run_setup(self) -> None:
        __tracebackhide__ = True
        exec(self._setup, self._shell.user_ns)  # the user's own code, as typed


def _spec(cell: Cell, options: argparse.Namespace, setup_each: Callable[[], None] | None) -> BenchSpec:
    given = {
        "samples": options.n,
        "setup_each": setup_each,
        "warmup": not options.no_warmup,
        "time_s": options.time,
        "rel": options.rel / 100 if options.rel is not None else None,
        "name": options.label,
        "code": cell.source,
    }
    return BenchSpec(**{k: v for k, v in given.items() if v is not None})


MAGICS = {name: BenchMagic(name) for name in _SUMMARY}

"""%%ranks: this cell in several processes; when did each compute, and when did it wait for the others?"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from perfmagic.capture.ranks.session import CellEnd
from perfmagic.errors import OptionError, PerfmagicError
from perfmagic.files import file_path
from perfmagic.magics import ranks_sweep
from perfmagic.magics.ranks_hints import hinting
from perfmagic.magics.ranks_options import (
    chosen,
    parser,
    refuse_body,
    refuse_options_of_records,
    refuse_options_of_sweeps,
)
from perfmagic.magics.running.run import bind
from perfmagic.rank_ends import raise_failure
from perfmagic.rank_outputs import show_result
from perfmagic.rank_sessions import MOST_RANKS, Ranks, keep_as_setup, ranks
from perfmagic.results import RanksResult
from perfmagic.show import cell_of

__all__ = ["parser", "run"]


def run(shell: Any, line: str, source: str) -> None:
    """Run the cell in the ranks, show what they recorded, then raise what it failed with."""
    __tracebackhide__ = True
    options, rest = parser().split(line)
    if options.help:
        print(parser().format_help())
        return
    if rest and options.sweep is None:
        raise OptionError(f"%%ranks: {rest!r} is no option", hint="the code goes below; %%ranks -h lists the options")
    refuse_body(source)
    if options.sweep is not None:
        with hinting(shell.user_ns):
            ranks_sweep.run(shell, options, rest, source)
        return
    refuse_options_of_sweeps(options)
    refuse_options_of_records(options)
    if options.n is not None and not 1 <= options.n <= MOST_RANKS:
        raise OptionError(f"%%ranks -n {options.n}: 1 to {MOST_RANKS} processes", hint="%%ranks -n 4")
    on = chosen(options.on)
    if options.setup and on is not None:
        raise OptionError("%%ranks --setup --on: new ranks are set up alike", hint="leave --on out, and ask for rank")
    found = ranks(options.n, device=options.device, backend=options.backend, cluster=options.cluster)
    asked = {"memory": options.memory, "shapes": options.shapes, "lines": options.lines}
    record = None if options.plain or options.setup else asked
    end = found.end_of(source, on=on, record=record)
    _show(shell, options, found, end)
    with hinting(shell.user_ns):
        raise_failure(end)
    if options.setup:
        keep_as_setup(cell_of(shell) or source, source)


def _show(shell: Any, options: argparse.Namespace, found: Ranks, end: CellEnd) -> None:
    try:
        result = found.recorded(end)
        if result is None:
            return
        bind(shell, options.name, result)
        if not options.quiet:
            show_result(result)
        if options.save:
            _save(result, file_path(options.save))
    except PerfmagicError as problem:
        if not end.failures:
            raise
        print(f"perfmagic: {problem}")  # the cell's own failure is the one that must be seen


def _save(result: RanksResult, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for one in result.timelines:
        one.save(folder / f"rank{one.trace.meta.rank}.json.gz")

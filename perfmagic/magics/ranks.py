"""%%ranks: this cell in several processes; when did each compute, and when did it wait for the others?"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from perfmagic.capture.ranks.session import CellEnd
from perfmagic.errors import OptionError, PerfmagicError
from perfmagic.files import file_path
from perfmagic.magics.running.options import Parser, add_name_option
from perfmagic.magics.running.run import bind
from perfmagic.rank_outputs import show_result
from perfmagic.rank_sessions import DEVICES, MOST_RANKS, Ranks, raise_failure, ranks
from perfmagic.results import RanksResult, Traces


def parser() -> Parser:
    """The options of %%ranks."""
    made = Parser("%%ranks", "This cell in several processes, recorded, with one picture of all.", form="")
    made.usage = "%%%%ranks [options]"
    made.add_argument("-n", type=int, metavar="N", help="how many processes; they stay, with their variables")
    made.add_argument("--plain", action="store_true", help="run the cell, and record nothing")
    made.add_argument("--on", metavar="RANKS", help="run it in these ranks alone: 0,2 or 0-2")
    made.add_argument("--device", default="auto", choices=DEVICES, help="what each rank computes on")
    made.add_argument("--backend", default="", metavar="NAME", help="of torch.distributed (default: what fits)")
    made.add_argument("--cluster", default="", metavar="NAME|FILE", help="beside ipyparallel's engines; or: local")
    made.add_argument("--memory", action="store_true", help="also record what is allocated on the devices over time")
    made.add_argument("--shapes", action="store_true", help="also record shapes and types of operators' inputs")
    add_name_option(made)
    made.add_argument("-q", dest="quiet", action="store_true", help="show no picture; perfmagic.last() has the result")
    made.add_argument("--save", metavar="DIR", help="also save each rank's trace there, as rank0.json.gz …")
    return made


def run(shell: Any, line: str, source: str) -> None:
    """Run the cell in the ranks, show what they recorded, then raise what it failed with."""
    __tracebackhide__ = True
    options, rest = parser().split(line)
    if options.help:
        print(parser().format_help())
        return
    if rest:
        raise OptionError(f"%%ranks: {rest!r} is no option", hint="the code goes below; %%ranks -h lists the options")
    if not source.strip().partition("\n")[2].strip():
        raise OptionError("%%ranks: the cell is empty, there is nothing to run", hint="put code below the magic")
    if options.n is not None and not 1 <= options.n <= MOST_RANKS:
        raise OptionError(f"%%ranks -n {options.n}: 1 to {MOST_RANKS} processes", hint="%%ranks -n 4")
    found = ranks(options.n, device=options.device, backend=options.backend, cluster=options.cluster)
    record = None if options.plain else {"memory": options.memory, "shapes": options.shapes}
    end = found.end_of(source, on=_chosen(options.on), record=record)
    _show(shell, options, found, end)
    raise_failure(end)


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


def _save(result: RanksResult | Traces, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for one in result.timelines if isinstance(result, RanksResult) else result:
        one.save(folder / f"rank{one.trace.meta.rank}.json.gz")


def _chosen(words: str | None) -> list[int] | None:
    """`0,2` and `0-2` as numbers. Raises OptionError for anything else."""
    if words is None:
        return None
    found: set[int] = set()
    for part in words.split(","):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise OptionError(f"%%ranks --on {words}: {part!r} names no rank", hint="%%ranks --on 0,2")
        found.update(range(int(first), int(last if dash else first) + 1))
    return sorted(found)

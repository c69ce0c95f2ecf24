"""%%ranks: this cell in several processes; when did each compute, and when did it wait for the others?"""

from __future__ import annotations

import argparse
import ast
import operator
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from perfmagic.api.options import CellOptions, Option, RanksOptions, RanksSweepOptions
from perfmagic.api.ranks.requests import Request
from perfmagic.api.ranks.session import Ranks, keep_as_setup, raise_failure
from perfmagic.api.show import cell_of, remember, show
from perfmagic.base.errors import OptionError, PerfmagicError, RanksError
from perfmagic.base.files import file_path, made_folder
from perfmagic.capture.ranks.failures import Failure
from perfmagic.capture.ranks.session import CellEnd
from perfmagic.magics import ranks_sweep
from perfmagic.magics.running.options import QUIET, Parser, parse_sweep, path_to_write
from perfmagic.magics.running.recording import bind

# The options of %%ranks.


_CELL_OPTIONS = (
    Option("run the cell, and record nothing", default=False, name="plain"),
    Option(
        "run the cell without recording it, so without `-o` and `--save`, and run it again first whenever ranks start "
        "anew",
        default=False,
        name="setup",
        more=": with another `-n`, after `%ranks restart`, for each number of a sweep",
    ),
    Option("run it in these ranks alone: `0,2` or `0-2`", unset="all", name="on", metavar="RANKS", type=str),
)
_N = Option(
    "how many processes, or the variable that holds the number; another number starts others in their place",
    unset="those that run, else 2",
    short="-n",
    metavar="N",
    type=str,
)
_SWEEP = Option(
    "run the cell on each number of ranks, in processes of their own; text behind the options is set-up code, which "
    "runs first and is not measured",
    name="sweep",
    metavar="n=A,B,C",
    type=str,
)
_SAVE = Option(
    "also save each rank's trace there as Chrome JSON, `rank0.json.gz` and so on",
    name="save",
    metavar="DIR",
    type=str,
    more="; of a sweep what `perfmagic.load(DIR)` opens",
)


def parser() -> Parser:
    """The options of %%ranks."""
    made = Parser("%%ranks", "This cell in several processes, recorded, with one picture of all.", form="")
    made.usage = "%%%%ranks [options]\n       %%%%ranks --sweep n=A,B,C [options] [set-up code]"
    made.add(_N, dest="n")
    for option in _CELL_OPTIONS:
        made.add(option)
    made.add_keywords(RanksOptions, "device", "backend", "cluster")
    made.add_keywords(CellOptions, "memory", "shapes", "lines")
    made.add(_SWEEP, type=parse_sweep)
    made.add_keywords(RanksSweepOptions, "strong", "runs", "warmup")
    made.set_defaults(runs=None, warmup=None)  # None where not given: they are for sweeps alone
    made.add_name("the result")
    made.add(QUIET)
    made.add(_SAVE, type=path_to_write)
    return made


def check_body(source: str) -> None:
    """Raises OptionError for a cell without code, and for one with another %%ranks below the first."""
    rows = [row for row in source.strip().splitlines()[1:] if row.strip() and not row.lstrip().startswith("#")]
    if not rows:
        raise OptionError("%%ranks: the cell is empty, there is nothing to run", hint="put code below the magic")
    if rows[0].split()[0] == "%%ranks":
        raise OptionError("%%ranks below %%ranks: one is enough", hint="put the options of both in the first line")


def check_ranks_exist(on: list[int] | None, world: int) -> None:
    """Raises OptionError where --on names a rank that there will not be."""
    absent = [rank for rank in on or () if rank >= world]
    if absent:
        raise OptionError(f"there is no rank {absent[0]}", hint=f"the ranks are 0 to {world - 1}")


def check_syntax(shell: Any, source: str) -> None:
    """Raises OptionError for a cell that is no Python: running ranks would end for a mistyped line."""
    body = source.lstrip().partition("\n")[2].lstrip("\n")  # the shell leaves out empty lines at the beginning
    above = source.count("\n") - body.count("\n")
    try:
        compile(shell.transform_cell(body), "the cell", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except SyntaxError as error:
        message = f"line {above + (error.lineno or 1)} of the cell is no Python: {error.msg}"
        raise OptionError(message, hint="the ranks that run stay as they are") from None


def check_no_sweep_options(options: argparse.Namespace) -> None:
    """Raises OptionError for options of sweeps where there is no sweep."""
    for_sweeps = {
        "--strong": options.strong,
        "--runs": options.runs is not None,
        "--warmup": options.warmup is not None,
    }
    if given := next((name for name, is_given in for_sweeps.items() if is_given), ""):
        raise OptionError(f"%%ranks {given}: for sweeps", hint=f"%%ranks --sweep n=1,2,4 {given}")


def check_no_record_options(options: argparse.Namespace) -> None:
    """Raises OptionError for options of records where the cell records nothing."""
    plain = "--setup" if options.setup else "--plain" if options.plain else ""
    for_records = {
        "-o": bool(options.variable),
        "--save": options.save is not None,
        "--memory": options.memory,
        "--shapes": options.shapes,
        "--lines": options.lines is not None,
    }
    given = next((name for name, is_given in for_records.items() if is_given), "")
    if plain and given:
        message = f"%%ranks {plain} {given}: such a cell records nothing, so there is no result"
        raise OptionError(message, hint=f"leave {given} out here, and put it on a cell without {plain}")


def parse_ranks(text: str | None) -> list[int] | None:
    """`0,2` and `0-2` as numbers. Raises OptionError for anything else."""
    if text is None:
        return None
    ranks: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise OptionError(f"%%ranks --on {text}: {part!r} names no rank", hint="%%ranks --on 0,2")
        ranks.update(range(int(first), int(last if dash else first) + 1))
    return sorted(ranks)


# Names that the notebook defines and ranks do not: the commonest surprise of a first cell in ranks.

_MISSING = re.compile(r"name '(\w+)' is not defined")


@contextmanager
def hint_at_missing_names(variables: Mapping[str, Any]) -> Iterator[None]:
    """Add a hint to a NameError of ranks where the notebook has that name.  variables: of the notebook."""
    try:
        yield
    except RanksError as error:
        missing = [
            match[1]
            for failure in error.failures
            if isinstance(failure, Failure) and failure.type == "NameError" and (match := _MISSING.match(failure.text))
        ]
        hints = [_hint(name, variables[name]) for name in dict.fromkeys(missing) if name in variables]
        if hints:
            error.message = "\n".join([error.message, *hints])
        raise


def _hint(name: str, value: object) -> str:
    where = f"the notebook has {name}, and ranks have variables of their own"
    if isinstance(value, ModuleType):
        return f"{where}: import it in a %%ranks --setup cell"
    if callable(value) and getattr(value, "__module__", "") == "__main__":  # pickled by name, which ranks lack
        return f"{where}: define it in a %%ranks --setup cell"
    return f"{where}: %ranks push {name}"


def parse_count(text: str | None, variables: Mapping[str, object]) -> int | None:
    """The number of ranks behind `-n`: a number, or the name of a variable that holds one. Nothing is evaluated."""
    if text is None:
        return None
    value = variables.get(text) if text.isidentifier() else text
    try:
        return int(text) if value is text else operator.index(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise OptionError(
            f"%%ranks -n {text}: neither a whole number nor a variable that holds one", hint="%%ranks -n 4, or n = 4"
        ) from None


def run(shell: Any, line: str, source: str) -> None:
    """Run the cell in the ranks, show what they recorded, then raise what it failed with."""
    __tracebackhide__ = True
    options, rest = parser().split(line)
    if options.help:
        print(parser().format_help())
        return
    if rest and options.sweep is None:
        raise OptionError(f"%%ranks: {rest!r} is no option", hint="the code goes below; %%ranks -h lists the options")
    check_body(source)
    if options.sweep is not None:
        with hint_at_missing_names(shell.user_ns):
            ranks_sweep.run(shell, options, rest, source)
        return
    check_no_sweep_options(options)
    check_no_record_options(options)
    on = parse_ranks(options.on)
    if options.setup and on is not None:
        raise OptionError("%%ranks --setup --on: new ranks are set up alike", hint="leave --on out, and ask for rank")
    request = Request.for_options(
        parse_count(options.n, shell.user_ns),
        {"device": options.device, "backend": options.backend, "cluster": options.cluster},
    )
    check_ranks_exist(on, request.world)
    if request.ends is not None:
        check_syntax(shell, source)
    folder = made_folder(file_path(options.save)) if options.save is not None else None
    ranks = request.start()
    record = {"memory": options.memory, "shapes": options.shapes, "lines": options.lines}
    end = ranks.run_cell(source, on=on, record=None if options.plain or options.setup else record)
    _show(shell, options, ranks, end, folder)
    with hint_at_missing_names(shell.user_ns):
        raise_failure(end)
    if options.setup:
        keep_as_setup(cell_of(shell) or source, source)


def _show(shell: Any, options: argparse.Namespace, ranks: Ranks, end: CellEnd, folder: Path | None) -> None:
    try:
        result = ranks.keep_result(end)
        if result is None:
            return
        bind(shell, options.variable, result)
        if not options.quiet and result.nothing:  # no rank executed anything: a line says so
            remember(result)
            print(f"perfmagic: {result.nothing}")
        elif not options.quiet:
            show(result)
        if folder is not None:
            for timeline in result.timelines:
                timeline.save(folder / f"rank{timeline.trace.meta.rank}.json.gz")
    except PerfmagicError as problem:
        if not end.failures:
            raise
        print(f"perfmagic: {problem}")  # the cell's own failure is raised, and must stay visible

"""%%ranks: this cell in several processes; when did each compute, and when did it wait for the others?

%%ranks --sweep n=1,2,4: how well do more of them pay off?
"""

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

from perfmagic.api.options import RUNS, WARMUP, CellOptions, Option, RanksOptions, RanksSweepOptions
from perfmagic.api.ranks.session import LOCAL, Ranks, Request, keep_as_setup, raise_failure
from perfmagic.api.ranks.sweeps import SweepPlan, run_sweep
from perfmagic.api.show import cell_of, keep_quiet, remember, show
from perfmagic.base.errors import OptionError, PerfmagicError, RanksError
from perfmagic.base.files import file_path, made_folder
from perfmagic.capture.ranks.failures import Failure
from perfmagic.capture.ranks.session import CellEnd
from perfmagic.magics.running.options import QUIET, Parser, parse_sweep, path_to_write
from perfmagic.magics.running.progress import Progress
from perfmagic.magics.running.recording import bind

_CELL_OPTIONS = (
    Option("run the cell without recording it", default=False, name="plain"),
    Option(
        "run the cell without recording it (no `-o`, no `--save`), and run it again first whenever new ranks start",
        default=False,
        name="setup",
        more=": with another `-n`, after `%ranks restart`, for each number of a sweep",
    ),
    Option("run it only on these ranks: `0,2` or `0-2`", unset="all", name="on", metavar="RANKS", type=str),
)
_N = Option(
    "how many processes, or a variable with that number; another number replaces the running ones",
    unset="as many as run, else 2", short="-n", metavar="N", type=str,
)  # fmt: skip
_SWEEP = Option(
    "run the cell on each number of ranks, in new processes; text after the options is set-up code, which "
    "runs first and is not measured", name="sweep", metavar="n=A,B,C", type=str,
)  # fmt: skip
_SAVE = Option(
    "also save each rank's trace there as Chrome JSON, `rank0.json.gz` and so on", name="save", metavar="DIR",
    type=str, more="; for a sweep, files that `perfmagic.load(DIR)` opens",
)  # fmt: skip


def parser() -> Parser:
    """The options of %%ranks."""
    ranks_parser = Parser("%%ranks", "This cell in several processes, recorded, with one picture of all.", form="")
    ranks_parser.usage = "%%%%ranks [options]\n       %%%%ranks --sweep n=A,B,C [options] [set-up code]"
    ranks_parser.add(_N, dest="n")
    for option in _CELL_OPTIONS:
        ranks_parser.add(option)
    ranks_parser.add_keywords(RanksOptions, "device", "backend", "clock", "cluster")
    ranks_parser.add_keywords(CellOptions, "memory", "shapes", "lines")
    ranks_parser.add(_SWEEP, type=parse_sweep)
    ranks_parser.add_keywords(RanksSweepOptions, "strong", "runs", "warmup")
    ranks_parser.set_defaults(runs=None, warmup=None)  # None if not given: only sweeps take them
    ranks_parser.add_name("the result")
    ranks_parser.add(QUIET)
    ranks_parser.add(_SAVE, type=path_to_write)
    return ranks_parser


def check_body(source: str) -> None:
    """Raise OptionError for a cell without code, and for a second %%ranks below the first."""
    rows = [row for row in source.strip().splitlines()[1:] if row.strip() and not row.lstrip().startswith("#")]
    if not rows:
        raise OptionError("%%ranks: the cell is empty", hint="put code below the magic")
    if rows[0].split()[0] == "%%ranks":
        raise OptionError("%%ranks below %%ranks: a cell takes only one", hint="put all options in the first line")


def check_ranks_exist(on: list[int] | None, world: int) -> None:
    """Raise OptionError if --on names a rank that will not exist."""
    absent = [rank for rank in on or () if rank >= world]
    if absent:
        raise OptionError(f"there is no rank {absent[0]}", hint=f"the ranks are 0 to {world - 1}")


def check_syntax(shell: Any, source: str) -> None:
    """Raise OptionError for a cell with a syntax error, before a typo ends the ranks that run."""
    body = source.lstrip().partition("\n")[2].lstrip("\n")  # the shell drops empty lines at the beginning
    above = source.count("\n") - body.count("\n")
    try:
        compile(shell.transform_cell(body), "the cell", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except SyntaxError as error:
        message = f"syntax error on line {above + (error.lineno or 1)} of the cell: {error.msg}"
        raise OptionError(message, hint="the ranks keep running") from None


def check_no_sweep_options(options: argparse.Namespace) -> None:
    """Raise OptionError for options of sweeps without --sweep."""
    for_sweeps = {
        "--strong": options.strong,
        "--runs": options.runs is not None,
        "--warmup": options.warmup is not None,
    }
    if given := next((name for name, is_given in for_sweeps.items() if is_given), ""):
        raise OptionError(f"%%ranks {given} needs --sweep", hint=f"%%ranks --sweep n=1,2,4 {given}")


def check_no_record_options(options: argparse.Namespace) -> None:
    """Raise OptionError for options of recordings if the cell is not recorded."""
    unrecorded = "--setup" if options.setup else "--plain" if options.plain else ""
    for_records = {
        "-o": bool(options.variable),
        "--save": options.save is not None,
        "--memory": options.memory,
        "--shapes": options.shapes,
        "--lines": options.lines is not None,
    }
    given = next((name for name, is_given in for_records.items() if is_given), "")
    if unrecorded and given:
        message = f"%%ranks {unrecorded} {given}: such a cell is not recorded, so it has no result"
        raise OptionError(message, hint=f"use {given} on a cell without {unrecorded}")


def parse_ranks(text: str | None) -> list[int] | None:
    """The numbers in `0,2` or `0-2`. Raises OptionError for anything else."""
    if text is None:
        return None
    ranks: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise OptionError(f"%%ranks --on {text}: {part!r} is not a rank", hint="%%ranks --on 0,2")
        ranks.update(range(int(first), int(last if dash else first) + 1))
    return sorted(ranks)


# Names that the notebook defines and ranks do not: the most common error in a first %%ranks cell.

_MISSING = re.compile(r"name '(\w+)' is not defined")


@contextmanager
def hint_at_missing_names(variables: Mapping[str, Any]) -> Iterator[None]:
    """Add a hint to a rank's NameError if the notebook defines that name.  variables: of the notebook."""
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
    where = f"{name} is defined in the notebook, but ranks have their own variables"
    if isinstance(value, ModuleType):
        return f"{where}: import it in a %%ranks --setup cell"
    if (
        callable(value) and getattr(value, "__module__", "") == "__main__"
    ):  # it is pickled by name, and ranks cannot import it
        return f"{where}: define it in a %%ranks --setup cell"
    return f"{where}: %ranks push {name}"


def parse_count(text: str | None, variables: Mapping[str, object]) -> int | None:
    """The number of ranks after `-n`: a number, or the name of a variable with one. Nothing is evaluated."""
    if text is None:
        return None
    value = variables.get(text) if text.isidentifier() else text
    try:
        return int(text) if value is text else operator.index(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        message = f"%%ranks -n {text}: neither a whole number nor a variable with one"
        raise OptionError(message, hint="%%ranks -n 4, or n = 4") from None


def run(shell: Any, line: str, source: str) -> None:
    """Run the cell in the ranks, show the recording, then raise the cell's error if it failed."""
    __tracebackhide__ = True
    options, rest = parser().split(line)
    if options.help:
        print(parser().format_help())
        return
    if rest and options.sweep is None:
        raise OptionError(f"%%ranks: unknown option {rest!r}", hint="the code goes below; %%ranks -h lists the options")
    check_body(source)
    if options.sweep is not None:
        with hint_at_missing_names(shell.user_ns):
            _run_sweep(shell, options, rest, source)
        return
    check_no_sweep_options(options)
    check_no_record_options(options)
    on = parse_ranks(options.on)
    if options.setup and on is not None:
        message = "%%ranks --setup --on: set-up code runs on all ranks"
        raise OptionError(message, hint="omit --on, and test the rank in the code")
    request = Request.for_options(
        parse_count(options.n, shell.user_ns),
        {name: getattr(options, name) for name in ("device", "backend", "clock", "cluster")},  # type: ignore[arg-type]
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
        if not options.quiet and result.nothing:  # no rank executed anything
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
        print(f"perfmagic: {problem}")  # the caller raises the cell's own error, which matters more


def _run_sweep(shell: Any, options: argparse.Namespace, setup: str, source: str) -> None:
    """Run the cell on each number of ranks, show the sweep, then raise the error that ended it early."""
    __tracebackhide__ = True
    others = {
        "-n": options.n is not None,
        "--plain": options.plain,
        "--setup": options.setup,
        "--on": options.on is not None,
        "--lines": options.lines is not None,
    }
    if wrong := next((name for name, given in others.items() if given), ""):
        reason = "is not measured with it" if wrong == "--lines" else "records all ranks"
        raise OptionError(f"%%ranks --sweep {wrong}: a sweep {reason}", hint=f"leave {wrong} out")
    if options.cluster not in ("", LOCAL):
        message = f"%%ranks --sweep --cluster {options.cluster}: a sweep starts processes of this machine"
        raise OptionError(message, hint="run the cell with -n and --cluster for each number of ranks")
    if options.sweep.name != "n":
        message = f"%%ranks --sweep {options.sweep.name}={options.sweep.text}: the number of ranks is called n"
        raise OptionError(message, hint="%%ranks --sweep n=1,2,4; set-up code behind it may use world_size")
    plan = SweepPlan(
        source=source,
        setup="\n" * (len(source) - len(source.lstrip("\n"))) + setup,  # on the magic's line, as the editor counts
        scaling="strong" if options.strong else "weak",
        device=options.device,
        backend=options.backend,
        clock=options.clock,
        runs=RUNS if options.runs is None else options.runs,
        warmup=WARMUP if options.warmup is None else options.warmup,
        record={"memory": options.memory, "shapes": options.shapes},
    )
    progress = Progress(shell, "%%ranks --sweep", quiet=options.quiet)
    result, error = run_sweep(plan, options.sweep.values(shell.user_ns), lambda line: progress(lambda: line))
    if result is not None:
        bind(shell, options.variable, result)
        if options.quiet:
            keep_quiet(result)
        else:
            show(result, replaces=progress.display_id)
        if options.save:
            result.save(file_path(options.save))
    if error is not None:
        raise error

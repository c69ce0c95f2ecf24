"""%trace FILE|FOLDER…: the timelines of saved traces, and how several ranks differ."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from perfmagic.api import open_each
from perfmagic.errors import OptionError, TraceError
from perfmagic.files import file_path
from perfmagic.magics.running.options import Parser, add_name_option
from perfmagic.magics.running.run import bind
from perfmagic.results import TimelineResult, Traces
from perfmagic.show import show


def parser() -> Parser:
    """The options of %trace."""
    made = Parser(
        "%trace",
        "The timelines of traces that torch.profiler saved (Chrome JSON, gzipped or not).",
        form="FILE|FOLDER…",
    )
    add_name_option(made)
    made.add_argument(
        "--comm-names",
        metavar="REGEX",
        help="kernels whose name matches count as communication, in place of the built-in rule",
    )
    made.add_argument("words", nargs="*", metavar="FILE|FOLDER")
    return made


def run(shell: Any, line: str) -> TimelineResult | Traces | None:
    """Open and show each file, the ranks of one job on one axis; return the result, or all of them.

    Where some cannot be read the others are shown and bound, and then the first error is raised.
    """
    options = parser().split_words(line)
    if options.help:
        print(parser().format_help())
        return None
    results: list[TimelineResult] = []
    refused: list[TraceError] = []
    for _, opened in open_each(_paths(options.words), comm_names=options.comm_names):
        if isinstance(opened, TraceError):
            refused.append(opened)
        else:
            results.append(opened)
    found = results[0] if len(results) == 1 else Traces(results)
    if results:
        bind(shell, options.name, found)
    _show(Traces(results))
    _complain(refused)
    return found


def _show(traces: Traces) -> None:
    """The ranks of each job on one axis, and the traces that stand alone one by one."""
    if traces.mixed:
        print(traces.mixed)
    for job in traces.jobs:
        show(job)
    for one in traces.alone:
        if len(traces) > 1:
            rank = one.trace.meta.rank
            print(one.title if rank is None else f"rank {rank}: {one.title}")
        show(one)


def _complain(refused: list[TraceError]) -> None:
    """Print all errors but the first, and raise that; a hint is given once, also for a folder of foreign files."""
    hints = {problem.hint for problem in refused[:1]}
    for problem in refused[1:]:
        print(problem.message if problem.hint in hints else problem)
        hints.add(problem.hint)
    if refused:
        raise refused[0]


def _paths(words: list[str]) -> list[Path | str]:
    """The paths and URLs of the words; one existing file's name may hold spaces."""
    if not words:
        raise OptionError("%trace: no file given", hint="%trace run.pt.trace.json.gz")
    whole = " ".join(words)
    named = [whole] if "://" not in whole and file_path(whole).exists() else words
    return [word if "://" in word else file_path(word) for word in named]

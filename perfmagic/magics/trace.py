"""%trace FILE|FOLDER…: the timelines of saved traces, and how several ranks differ."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from perfmagic.api.opening import open_dumps, open_each
from perfmagic.api.options import ReadOptions
from perfmagic.api.show import show
from perfmagic.base.errors import OptionError, TraceError
from perfmagic.base.files import file_path
from perfmagic.magics.running.options import Parser
from perfmagic.magics.running.recording import bind
from perfmagic.results import FlightResult, TimelineResult, Traces
from perfmagic.trace.formats.sources import without_dumps


def parser() -> Parser:
    """The options of %trace."""
    made = Parser(
        "%trace",
        "The timelines of saved traces: of torch.profiler, Nsight Systems and others.",
        form="FILE|FOLDER…",
    )
    made.add_name("the result, or a list of results,")
    made.add_keywords(ReadOptions, "comm_names")
    made.add_argument("paths", nargs="*", metavar="FILE|FOLDER")
    return made


def run(shell: Any, line: str) -> TimelineResult | FlightResult | Traces | None:
    """Open and show each file, the ranks of one job on one axis; return the result, or all of them.

    Where some cannot be read the others are shown and bound, and then the first error is raised.
    """
    options = parser().split_words(line)
    if options.help:
        print(parser().format_help())
        return None
    results: list[TimelineResult] = []
    others, dumps = without_dumps(_paths(options.paths))
    flight, errors = open_dumps(dumps)
    for _, opened in open_each(others, comm_names=options.comm_names):
        if isinstance(opened, TraceError):
            errors.append(opened)
        else:
            results.append(opened)
    traces = Traces(results).with_flight(flight)
    shown = results[0] if len(results) == 1 and not flight else traces if results or not flight else flight
    if results or flight:
        bind(shell, options.variable, shown)
    _show(traces)
    _report(errors)
    return shown


def _show(traces: Traces) -> None:
    """Show flight recorders, the ranks of each job on one axis, then each trace that belongs to no job."""
    if traces.flight:
        show(traces.flight)
    if traces.mixed:
        print(traces.mixed)
    for job in traces.jobs:
        show(job)
    for timeline in traces.alone:
        if len(traces) > 1:
            rank = timeline.trace.meta.rank
            print(timeline.title if rank is None else f"rank {rank}: {timeline.title}")
        show(timeline)


def _report(errors: list[TraceError]) -> None:
    """Print all errors but the first, and raise that. Each hint is given once."""
    hints = {error.hint for error in errors[:1]}
    for error in errors[1:]:
        print(error.message if error.hint in hints else error)
        hints.add(error.hint)
    if errors:
        raise errors[0]


def _paths(names: list[str]) -> list[Path | str]:
    """The paths and URLs that a line names; one existing file's name may hold spaces."""
    if not names:
        raise OptionError("%trace: no file given", hint="%trace run.pt.trace.json.gz")
    whole = " ".join(names)
    names = [whole] if "://" not in whole and file_path(whole).exists() else names
    return [name if "://" in name else file_path(name) for name in names]

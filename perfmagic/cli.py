"""python -m perfmagic: the trace half of perfmagic as a command line, which needs no torch and no IPython; and join."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

from perfmagic.api.options import CellOptions, DeviceOptions, RankDeviceOptions, ReadOptions, add_flag, described
from perfmagic.base.errors import OptionError, PerfmagicError, without_secrets
from perfmagic.base.files import file_path, write_text
from perfmagic.base.options import did_you_mean
from perfmagic.base.terminal import for_terminal

if TYPE_CHECKING:
    from perfmagic.results import FlightResult, RanksResult, TimelineResult


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; gives the exit status: 0, or 1 with a message on stderr for each thing that failed.

    A gate (compare --fail-if-slower) has its own: 1 means slower there, and 2 stands for what failed.
    """
    options = _parser().parse_args(arguments)
    if options.run not in (_join, _print_doctor) and "numpy" not in sys.modules:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # its threads spin for 0.05 s each, and none is needed
    failed = 1 if getattr(options, "fail_if_slower", None) is None else 2
    try:
        _keep_traces(options)
        return int(options.run(options))
    except PerfmagicError as error:
        _print_error(str(error))
        return failed
    except BrokenPipeError:  # the reader of the output has gone, as behind `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return failed
    except OSError as error:
        _print_error(without_secrets(f"{error.filename}: {error.strerror}"))
        return failed
    except Exception:  # Python's own exit status is 1, which a gate means otherwise
        if failed == 1:
            raise
        traceback.print_exc()
        return failed


class _Parser(argparse.ArgumentParser):
    """argparse that names the nearest command or option for one that is mistyped."""

    def error(self, message: str) -> NoReturn:
        known = [name for action in self._actions for name in (*action.option_strings, *(action.choices or ()))]
        wrong = message.partition("invalid choice: '")[2].partition("'")[0]
        wrong = wrong or message.partition("unrecognized arguments: ")[2].partition(" ")[0].partition("=")[0]
        if meant := did_you_mean(wrong, known).strip():
            message = f"{message}\nHint: {meant}"
        super().error(message)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse does, but the command's own parser reports unknown options: it knows its own."""
        options, unknown = self.parse_known_args(args, namespace)
        if unknown:
            options.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
        return options


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="perfmagic", description="Reports and pictures of saved traces: what was queued, and what was executed."
    )
    # by name: an import of the package from here would be a cycle
    version = sys.modules["perfmagic"].__version__
    parser.add_argument("--version", action="version", version=f"perfmagic {version}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    report = commands.add_parser("report", help="totals and findings of saved traces")
    _files(report)
    form = report.add_mutually_exclusive_group()
    form.add_argument("--details", action="store_const", dest="form", const="details", help="findings and tables, too")
    form.add_argument("--json", action="store_const", dest="form", const="json", help="all totals as JSON")
    _brief_flag(form)
    form.add_argument("--markdown", action="store_const", dest="form", const="markdown", help="tables for an issue")
    form.add_argument(
        "--html", action="store_const", dest="form", const="html", help="a self-contained page with the timelines"
    )
    report.add_argument(
        "--workers", type=int, default=1, metavar="N",
        help="processes that read the files of many ranks, for --html (default 1)",
    )  # fmt: skip
    report.add_argument("--out", metavar="FILE", help="write to a file instead of the terminal")
    report.set_defaults(run=_report)
    view = commands.add_parser("view", help="draw saved traces into one self-contained page, or one into a picture")
    _files(view)
    where = view.add_mutually_exclusive_group(required=True)
    where.add_argument("--html", metavar="OUT", help="the page to write")
    where.add_argument("--svg", metavar="OUT", help="the picture of one trace, or of the ranks of one job, to write")
    view.set_defaults(run=_view)
    compare = commands.add_parser("compare", help="what changed from one trace to another, and where")
    _comparing(compare)
    explain = commands.add_parser("explain", help="what each rule of findings says about a trace, or why it is silent")
    _explaining(explain)
    _print_flame(commands.add_parser("flame", help="where Python was: a flame graph of a trace, or of a part of it"))
    join = commands.add_parser("join", help="run a script under torchrun, srun or mpirun: watched, and recorded")
    join.add_argument("--save", metavar="DIR", help="write this rank's trace there, as rank0.npz …")
    for option in (described(DeviceOptions)["device"], *described(CellOptions).values()):
        add_flag(join, option)
    add_flag(join, replace(described(RankDeviceOptions)["clock"], unset="real"))
    join.add_argument("script", metavar="SCRIPT", help="what each rank runs")
    join.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGS", help="the script's own")
    join.set_defaults(run=_join)
    serve = commands.add_parser(
        "mcp", help="answer programs about traces below a folder: Model Context Protocol, on stdio"
    )
    serve.add_argument("root", metavar="ROOT", help="the folder; nothing outside it is read, and nothing is written")
    serve.set_defaults(run=_serve)
    sanitize = commands.add_parser("nbval-sanitize", help="print the patterns for nbval --nbval-sanitize-with")
    sanitize.add_argument("--virtual", action="store_true", help="compare numbers too: the clock is virtual")
    sanitize.set_defaults(run=_sanitize)
    doctor = commands.add_parser("doctor", help="show versions, devices, and what each of them can measure")
    doctor.set_defaults(run=_print_doctor)
    for command in commands.choices.values():
        command.set_defaults(parser=command)
    return parser


def _brief_flag(form: argparse._MutuallyExclusiveGroup) -> None:
    form.add_argument(
        "--brief",
        action="store_const",
        dest="form",
        const="brief",
        help="verdict and findings for programs: small JSON",
    )


def _files(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help="a trace file, or a folder with trace files")
    _reading(parser)


def _comparing(parser: argparse.ArgumentParser) -> None:
    a = "a trace file, a folder with a trace of each rank, or the file of a saved benchmark"
    parser.add_argument("first", metavar="A", help=a)
    parser.add_argument("second", metavar="B", help="what it is compared with: another of the same kind")
    _reading(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--text", action="store_const", dest="form", const=None, help="what changed most (default)")
    form.add_argument(
        "--details", action="store_const", dest="form", const="details", help="tables for a terminal, too"
    )
    form.add_argument("--json", action="store_const", dest="form", const="json", help="every number as JSON")
    _brief_flag(form)
    form.add_argument("--markdown", action="store_const", dest="form", const="markdown", help="tables for an issue")
    form.add_argument("--html", metavar="OUT", help="the self-contained page to write, with both timelines")
    parser.add_argument("--out", metavar="FILE", help="write to a file instead of the terminal")
    parser.add_argument(
        "--fail-if-slower", type=_limit, metavar="LIMIT",
        help="a gate for CI: exit status 1 if B takes longer than A by more than LIMIT, such as 5%%, for a whole step "
        "or a call; 2 if they cannot be read or compared (other program, GPU, precision, machine); else 0, also where "
        "it is unclear, as with too few steps. The first line is the verdict",
    )  # fmt: skip
    parser.set_defaults(run=_compare)


def _one_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a trace file, or a folder with one; of several ranks with --rank")
    parser.add_argument("--rank", type=int, metavar="N", help="one of the ranks in a file or a folder")


def _explaining(parser: argparse.ArgumentParser) -> None:
    _one_file(parser)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--rule", metavar="NAME", help="one rule alone, by its name in docs/findings.md")
    what.add_argument("--change", metavar="CODE", help="predict the run with changes, such as 'no_item(line=4), pin()'")
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--json", action="store_const", dest="form", const="json", help="the same as JSON, with the numbers compared"
    )
    _brief_flag(form)
    _reading(parser)
    parser.set_defaults(run=_explain)


def _print_flame(parser: argparse.ArgumentParser) -> None:
    _one_file(parser)
    parser.add_argument("--out", metavar="FILE", help="what to write: .svg, .html, .json or .folded (default: text)")
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--step", type=int, metavar="N", help="one training step alone")
    part.add_argument("--answer", type=int, metavar="N", help="the time of an answer of the report alone")
    parser.add_argument("--idle", action="store_true", help="only the time in which the device waited for Python")
    parser.add_argument("--by-thread", action="store_true", help="all threads side by side")
    _reading(parser)
    parser.set_defaults(run=_flame)


def _reading(parser: argparse.ArgumentParser) -> None:
    """How files are read."""
    add_flag(parser, described(ReadOptions)["comm_names"])
    parser.add_argument(
        "--max-gb", type=_gigabytes, default=4.3, metavar="GB",
        help="refuse files larger than this when unpacked (default 4.3)",
    )  # fmt: skip


def _gigabytes(text: str) -> float:
    try:
        gigabytes = float(text)
    except ValueError:
        gigabytes = math.nan
    if not 0 < gigabytes < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of gigabytes above 0")
    return gigabytes


def _limit(text: str) -> float:
    from perfmagic.api.gates import limit_of

    try:
        return limit_of(text)
    except OptionError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _keep_traces(options: argparse.Namespace) -> None:
    given = vars(options)
    outputs = {flag: file_path(given[flag]) for flag in ("out", "html", "svg") if given.get(flag)}
    if outputs:
        from perfmagic.api.opening import check_outputs

        check_outputs(outputs, [*given.get("files", ()), *filter(None, map(given.get, ("file", "first", "second")))])


def _limit_bytes(options: argparse.Namespace) -> int:
    return int(options.max_gb * 1e9)


def _opened(options: argparse.Namespace) -> tuple[list[TimelineResult], int]:
    """The timelines of the files that can be opened, and the exit status. Reports the others on stderr."""
    from perfmagic.api.opening import open_each
    from perfmagic.base.errors import TraceError

    results, status = [], 0
    for read, opened in open_each(
        options.files, comm_names=options.comm_names, max_unpacked_bytes=_limit_bytes(options)
    ):
        if isinstance(opened, TraceError):
            # each bad file of a folder is one line; the hint is for a file that was named
            _print_error(opened.message if read.in_folder else str(opened))
            status = 1
        else:
            results.append(opened)
    return results, status


def _flight(options: argparse.Namespace) -> tuple[FlightResult | None, int]:
    """What dumps of flight recorders among the files say, and the exit status. The list of files keeps the others.

    Raises OptionError for dumps and traces in a form that has one answer: JSON, and the elements of a picture.
    """
    from perfmagic.api.opening import open_dumps
    from perfmagic.trace.formats.sources import without_dumps

    options.files, dumps = without_dumps(options.files)
    flight, errors = open_dumps(dumps)
    for error in errors:
        _print_error(str(error))
    form = "svg" if getattr(options, "svg", None) else getattr(options, "form", "")
    if flight and options.files and form in ("svg", "json", "brief"):
        of_traces = " ".join(str(file) for file in options.files)
        hint = f"name the dumps ({dumps[0].parent / dumps[0].name.rstrip('0123456789')}*) or the traces ({of_traces})"
        raise OptionError(f"--{form}: dumps of flight recorders and traces were given", hint=hint)
    return flight, int(bool(errors))


def _report(options: argparse.Namespace) -> int:
    from perfmagic.api.reports import REPORTS, flight_report, html_report, ranks_page

    flight, status = _flight(options)
    if not options.files:
        if flight is not None:
            _write(flight.page() if options.form == "html" else flight_report(flight, options.form), options.out)
        return status
    first = [] if flight is None else [flight_report(flight, options.form)]
    if options.form == "html" and (ranks := _many_ranks(options)) is not None:
        _write(ranks_page(ranks, first), options.out)
        unread = [finding for finding in ranks.findings if finding.rule == "unread"]
        for finding in unread:
            _print_error(finding.sentence)
        return int(bool(unread)) or status
    results, of_traces = _opened(options)
    if options.form == "html" and results:
        _write(html_report(results, first), options.out)
    elif results or first:
        _write("\n\n".join([*first, *([REPORTS[options.form](results)] if results else [])]), options.out)
    return status or of_traces


def _many_ranks(options: argparse.Namespace) -> RanksResult | None:
    """The ranks of one job where the files are many or remote; None otherwise. No trace is kept."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    from perfmagic.api.ranks.files import FEW_RANKS, n_files, open_ranks

    if n_files(options.files) <= FEW_RANKS:
        return None
    reading = {"comm_names": options.comm_names, "max_unpacked_bytes": _limit_bytes(options)}
    with suppress(OptionError):  # they are not of one job: each is a timeline of its own
        if options.workers < 2:
            return open_ranks(options.files, **reading)
        with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as executor:
            return open_ranks(options.files, executor=executor, **reading)
    return None


def _view(options: argparse.Namespace) -> int:
    flight, status = _flight(options)
    if flight is not None and options.svg:
        raise OptionError("--svg draws traces, and flight recorders give a table", hint="use --html")
    results, of_traces = _opened(options) if options.files else ([], 0)
    status = status or of_traces
    if not results:
        if flight is not None:
            _write(flight.page(), options.html)
        return status
    if options.svg:
        _write(_drawn(results), options.svg)
    else:
        _write(_page_of(results, [flight.html()] if flight else []), options.html)
    return status


def _drawn(results: list[TimelineResult]) -> str:
    jobs, alone = _in_jobs(results)
    if len(jobs) + len(alone) > 1:
        given = f"--svg draws one trace or the ranks of one job, {len(results)} files of several were given"
        raise OptionError(given, hint="use --html for several")
    if jobs:
        from perfmagic.view.ranks.picture import ranks_svg

        return ranks_svg(jobs[0].doc)
    from perfmagic.view.timeline.picture.timeline import timeline_svg

    return timeline_svg(alone[0].doc)


def _page_of(results: list[TimelineResult], first: list[str]) -> str:
    """A page of live timelines.  first: sections above theirs."""
    from perfmagic.view.page import live_page
    from perfmagic.view.report.writers import heading, mixed_html, page_title
    from perfmagic.view.timeline.writers import live_section

    jobs, alone = _in_jobs(results)
    sections = [*first, mixed_html(results)]
    if jobs:
        from perfmagic.view.ranks.writers import ranks_section

        sections += [ranks_section(job.doc, job.wire) for job in jobs]
    sections += [heading(r.title, results) + live_section(r.doc, r.trace) for r in alone]
    return live_page(page_title([result.title for result in results]), [section for section in sections if section])


def _in_jobs(results: list[TimelineResult]) -> tuple[list[RanksResult], list[TimelineResult]]:
    """The jobs of which several ranks are given, and the traces that stand alone: one always does."""
    if len(results) < 2:
        return [], results
    from perfmagic.results.ranks import grouped

    return grouped(results)


def _compare(options: argparse.Namespace) -> int:
    from perfmagic.api.gates import compare_files, gate, page_of, text_of
    from perfmagic.base.language import translated

    given = {"comm_names": options.comm_names, "max_unpacked_bytes": _limit_bytes(options)}
    comparison, status = compare_files(options.first, options.second, **given), 0
    if options.fail_if_slower is not None:
        judged = gate(comparison, options.fail_if_slower)
        status, is_data = judged.status, options.form in ("json", "brief", "markdown") and not options.out
        print(for_terminal(translated(judged.sentence), sys.stdout), file=sys.stderr if is_data else sys.stdout)
    if options.html:
        _write(page_of(comparison), options.html)
    else:
        _write(text_of(comparison, options.form), options.out)
    return status


def _explain(options: argparse.Namespace) -> int:
    from perfmagic.analysis.findings.find import check_rule
    from perfmagic.api.reports import as_json
    from perfmagic.api.timelines import explain
    from perfmagic.changes import written_changes
    from perfmagic.results import Result
    from perfmagic.results.briefs.runs import brief_of_rules

    if options.rule is not None:
        check_rule(options.rule)  # before a large file is read
    changes = written_changes(options.change) if options.change is not None else ()
    timeline = _timeline(options)
    said = timeline.what_if(*changes) if changes else explain(timeline, options.rule)
    forms: dict[str | None, Callable[[], str]] = {
        None: said.text,
        "json": lambda: json.dumps(said.to_dict(), ensure_ascii=False, indent=1),
        "brief": lambda: as_json(said.brief() if isinstance(said, Result) else brief_of_rules(timeline.trace, said)),
    }
    _write(forms[options.form](), None)
    return 0


def _timeline(options: argparse.Namespace) -> TimelineResult:
    """The timeline of one file, or of one of the ranks in it."""
    from perfmagic.api.opening import open_trace
    from perfmagic.api.ranks.files import open_ranks

    reading = {"comm_names": options.comm_names, "max_unpacked_bytes": _limit_bytes(options)}
    if options.rank is None:
        return open_trace(options.file, **reading)
    return open_ranks(options.file, **reading).rank(options.rank)


def _flame(options: argparse.Namespace) -> int:
    timeline = _timeline(options)
    weight = "idle" if options.idle else "time"
    flame = timeline.flame(step=options.step, answer=options.answer, by_thread=options.by_thread, weight=weight)
    if options.out:
        print(flame.save(options.out))
    else:
        _write(flame.text(), None)
    return 0


def _write(text: str, out: str | None) -> None:
    if out is None:
        print(for_terminal(text, sys.stdout))
        return
    print(write_text(out, text + ("" if text.endswith("\n") else "\n")))


def _print_error(message: str) -> None:
    print(f"perfmagic: {message}", file=sys.stderr)


def _sanitize(options: argparse.Namespace) -> int:
    from perfmagic.view.nbval import sanitize_file

    print(sanitize_file(virtual=options.virtual), end="")
    return 0


def _serve(options: argparse.Namespace) -> int:
    from perfmagic.server.mcp import serve

    return serve(options.root)


def _join(options: argparse.Namespace) -> int:
    from perfmagic.api.ranks.scripts import join

    return join(
        options.script, options.arguments, save=options.save, device=options.device, memory=options.memory,
        shapes=options.shapes, lines=options.lines, clock=options.clock,
    )  # fmt: skip


def _print_doctor(_options: argparse.Namespace) -> int:
    from perfmagic.capture.devices.environment import diagnosis

    print("\n".join(f"{key:12} {value}" for key, value in diagnosis().items()))
    return 0

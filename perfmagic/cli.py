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
from typing import TYPE_CHECKING, Any, NoReturn

from perfmagic.api.options import DeviceOptions, MemoryOptions, ReadOptions, add_flag, described
from perfmagic.base.errors import OptionError, PerfmagicError, without_secrets
from perfmagic.base.files import write_text
from perfmagic.base.options import did_you_mean
from perfmagic.base.terminal import for_terminal

if TYPE_CHECKING:
    from perfmagic.results import FlightResult, RanksResult, TimelineResult


MANY_FILES = 4  # whose names a title does not list


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; gives the exit status: 0, or 1 with a message on stderr for each thing that failed.

    A gate (compare --fail-if-slower) has its own: 1 means slower there, and 2 stands for what failed.
    """
    options = _parser().parse_args(arguments)
    failed = 1 if getattr(options, "fail_if_slower", None) is None else 2
    try:
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
    for option in (described(DeviceOptions)["device"], *described(MemoryOptions).values()):
        add_flag(join, option)
    join.add_argument("script", metavar="SCRIPT", help="what each rank runs")
    join.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGS", help="the script's own")
    join.set_defaults(run=_join)
    sanitize = commands.add_parser("nbval-sanitize", help="print the patterns for nbval --nbval-sanitize-with")
    sanitize.add_argument("--virtual", action="store_true", help="compare numbers too: the clock is virtual")
    sanitize.set_defaults(run=_sanitize)
    doctor = commands.add_parser("doctor", help="show versions, devices, and what each of them can measure")
    doctor.set_defaults(run=_print_doctor)
    for command in commands.choices.values():
        command.set_defaults(parser=command)
    return parser


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


def _explaining(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a trace file, or a folder with one")
    parser.add_argument("--rule", metavar="NAME", help="one rule alone, by its name in docs/findings.md")
    parser.add_argument("--json", action="store_true", help="the same as JSON, with the numbers compared")
    _reading(parser)
    parser.set_defaults(run=_explain)


def _print_flame(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a trace file, or a folder with one")
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
        raise argparse.ArgumentTypeError(f"{text!r} is no number of gigabytes above 0")
    return gigabytes


def _limit(text: str) -> float:
    from perfmagic.api.gates import limit_of

    try:
        return limit_of(text)
    except OptionError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


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
    """What dumps of flight recorders among the files say, and the exit status. The list of files keeps the others."""
    from perfmagic.api.opening import open_dumps
    from perfmagic.trace.formats.sources import without_dumps

    options.files, dumps = without_dumps(options.files)
    flight, errors = open_dumps(dumps)
    for error in errors:
        _print_error(str(error))
    if flight and options.files:
        raise OptionError("dumps of flight recorders and traces were given", hint="name the files of one kind")
    return flight, int(bool(errors))


def _report(options: argparse.Namespace) -> int:
    flight, status = _flight(options)
    if flight is not None:
        forms = {None: flight.text, "json": flight.to_json, "markdown": flight.markdown, "html": flight.page}
        _write(flight.text(details=True) if options.form == "details" else forms[options.form](), options.out)
    if not options.files:
        return status
    if options.form == "html" and (ranks := _many_ranks(options)) is not None:
        _write(_ranks_page(ranks), options.out)
        unread = [finding for finding in ranks.findings if finding.rule == "unread"]
        for finding in unread:
            _print_error(finding.sentence)
        return int(bool(unread))
    results, status = _opened(options)
    if results:
        _write(_REPORTS[options.form](results), options.out)
    return status


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


def _ranks_page(ranks: RanksResult) -> str:
    """The page of many ranks: their rows, and the tables of those whose timelines were read for it."""
    from perfmagic.view.page import live_page
    from perfmagic.view.ranks.writers import ranks_section
    from perfmagic.view.report.writers import folded, html_tables

    tables = (
        folded(f"rank {number}: {result.title}", _rooflines(result) + html_tables(result.to_dict()))
        for number, result in ranks.read_again()
    )
    return live_page(ranks.title, [ranks_section(ranks.doc, ranks.wire) + "".join(tables)])


def _text_report(results: list[TimelineResult]) -> str:
    from perfmagic.results.ranks import grouped
    from perfmagic.view.ranks.text import ranks_answers_text
    from perfmagic.view.report.writers import describe_mix
    from perfmagic.view.timeline.text import answers_text

    jobs, alone = grouped(results)
    texts = [answers_text(result.doc, result.answers, "--details") for result in alone]
    if not jobs:
        return _of_files(results, texts)
    words = describe_mix(results)
    of_jobs = [ranks_answers_text(job.doc, "--details") for job in jobs]
    return "\n\n".join([*([words] if words else []), *of_jobs, *_titled(alone, texts)])


def _details_report(results: list[TimelineResult]) -> str:
    from perfmagic.results.ranks import grouped
    from perfmagic.view.ranks.text import ranks_text
    from perfmagic.view.report.writers import report_text

    texts = [report_text(r.doc, r.to_dict(), r.answers.text(r.doc.header.about)) for r in results]
    return _of_files(results, texts, [ranks_text(job.doc) for job in grouped(results)[0]])


def _of_files(results: list[TimelineResult], texts: list[str], of_jobs: Sequence[str] = ()) -> str:
    from perfmagic.view.report.writers import files_text

    if len(results) == 1:
        return texts[0]
    return "\n\n".join([files_text(results, of_jobs), *_titled(results, texts)])


def _titled(results: Sequence[TimelineResult], texts: Sequence[str]) -> list[str]:
    return [f"{result.title}\n{text}" for result, text in zip(results, texts, strict=True)]


def _json_report(results: list[TimelineResult]) -> str:
    reports = [result.to_dict() for result in results]
    if len(reports) > 1:  # a list of reports, each with the findings on all ranks
        from perfmagic.api.timelines import rank_findings
        from perfmagic.results.ranks import grouped

        together = [finding.to_dict() for finding in rank_findings(results)]
        jobs = grouped(results)[0]
        of_jobs = {
            "rank_findings": together,
            "rank_table": [row for job in jobs for row in job.table.to_dict()],
            "rank_answers": [job.answers.to_dict() for job in jobs],
            "rank_collectives": [row for job in jobs for row in job.collectives().to_dict()],
            "rank_pipelines": [row for job in jobs for row in job.pipelines().to_dict()],
        }
        reports = [report | of_jobs for report in reports]
    return json.dumps(reports[0] if len(reports) == 1 else reports, ensure_ascii=False, indent=1)


def _markdown_report(results: list[TimelineResult]) -> str:
    from perfmagic.results.ranks import grouped
    from perfmagic.view.report.writers import markdown, ranks_markdown

    return (
        ranks_markdown(results, [job.doc for job in grouped(results)[0]])
        + "\n".join(
            markdown(r.title, r.doc.header.parts, r.findings, r.doc.trust, r.to_dict()) for r in results
        ).rstrip()
    )


def _html_report(results: list[TimelineResult]) -> str:
    from perfmagic.results.ranks import grouped
    from perfmagic.view.page import live_page
    from perfmagic.view.ranks.writers import ranks_section
    from perfmagic.view.report.writers import folded, heading, html_tables, mixed_html
    from perfmagic.view.timeline.writers import live_section

    jobs, alone = grouped(results)
    sections = [mixed_html(results)]
    for job in jobs:
        tables = (
            folded(f"rank {rank}: {result.title}", _rooflines(result) + html_tables(result.to_dict()))
            for rank, result in zip(job.ranks.ranks, job.timelines, strict=True)
        )
        sections.append(ranks_section(job.doc, job.wire) + "".join(tables))
    sections += [
        heading(r.title, results) + live_section(r.doc, r.trace) + _rooflines(r) + html_tables(r.to_dict())
        for r in alone
    ]
    return live_page(page_title(results), [section for section in sections if section])


def page_title(results: Sequence[TimelineResult]) -> str:
    """The names of the files; of many the first and the last."""
    names = [result.title for result in results]
    return ", ".join(names) if len(names) < MANY_FILES else f"{names[0]} … {names[-1]}, {len(names)} files"


def _rooflines(result: TimelineResult) -> str:
    """The roofline of each device; nothing where the record has no shapes, as a note below the table says."""
    from perfmagic.base.errors import TraceError

    pictures = ""
    for device in result.trace.device_ids:
        with suppress(TraceError):
            pictures += result.roofline(device).html()
    return pictures


_REPORTS: dict[str | None, Callable[[list[TimelineResult]], str]] = {
    None: _text_report,
    "details": _details_report,
    "json": _json_report,
    "markdown": _markdown_report,
    "html": _html_report,
}


def _view(options: argparse.Namespace) -> int:
    from perfmagic.results.ranks import grouped
    from perfmagic.view.page import live_page
    from perfmagic.view.ranks.picture import ranks_svg
    from perfmagic.view.ranks.writers import ranks_section
    from perfmagic.view.report.writers import heading, mixed_html
    from perfmagic.view.timeline.picture.timeline import timeline_svg
    from perfmagic.view.timeline.writers import live_section

    flight, status = _flight(options)
    if flight is not None:
        if options.svg:
            raise OptionError("--svg draws traces, and flight recorders give a table", hint="use --html")
        _write(flight.page(), options.html)
    if not options.files:
        return status
    results, status = _opened(options)
    if not results:
        return status
    jobs, alone = grouped(results)
    if options.svg:
        if len(jobs) + len(alone) > 1:
            given = f"--svg draws one trace or the ranks of one job, {len(results)} files of several were given"
            raise OptionError(given, hint="use --html for several")
        _write(ranks_svg(jobs[0].doc) if jobs else timeline_svg(alone[0].doc), options.svg)
        return status
    sections = [mixed_html(results), *(ranks_section(job.doc, job.wire) for job in jobs)]
    sections += [heading(r.title, results) + live_section(r.doc, r.trace) for r in alone]
    _write(live_page(page_title(results), [section for section in sections if section]), options.html)
    return status


def _compare(options: argparse.Namespace) -> int:
    from perfmagic.api.gates import compare_files, gate, page_of, text_of
    from perfmagic.base.language import translated

    given = {"comm_names": options.comm_names, "max_unpacked_bytes": _limit_bytes(options)}
    comparison, status = compare_files(options.first, options.second, **given), 0
    if options.fail_if_slower is not None:
        judged = gate(comparison, options.fail_if_slower)
        status, is_data = judged.status, options.form in ("json", "markdown") and not options.out
        print(for_terminal(translated(judged.sentence), sys.stdout), file=sys.stderr if is_data else sys.stdout)
    if options.html:
        _write(page_of(comparison), options.html)
    else:
        _write(text_of(comparison, options.form), options.out)
    return status


def _explain(options: argparse.Namespace) -> int:
    from perfmagic.analysis.findings.find import check_rule
    from perfmagic.api.opening import open_trace
    from perfmagic.api.timelines import explain

    if options.rule is not None:
        check_rule(options.rule)  # before a large file is read
    timeline = open_trace(options.file, comm_names=options.comm_names, max_unpacked_bytes=_limit_bytes(options))
    explanation = explain(timeline, options.rule)
    _write(
        json.dumps(explanation.to_dict(), ensure_ascii=False, indent=1) if options.json else explanation.text(), None
    )
    return 0


def _flame(options: argparse.Namespace) -> int:
    from perfmagic.api.opening import open_trace

    timeline = open_trace(options.file, comm_names=options.comm_names, max_unpacked_bytes=_limit_bytes(options))
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


def _join(options: argparse.Namespace) -> int:
    from perfmagic.api.ranks.scripts import join

    return join(
        options.script, options.arguments, save=options.save, device=options.device, memory=options.memory,
        shapes=options.shapes,
    )  # fmt: skip


def _print_doctor(_options: argparse.Namespace) -> int:
    from perfmagic.capture.devices.environment import diagnosis

    print("\n".join(f"{key:12} {value}" for key, value in diagnosis().items()))
    return 0

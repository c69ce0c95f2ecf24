"""python -m perfmagic: the trace half of perfmagic as a command line, which needs no torch and no IPython; and join."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from perfmagic.errors import OptionError, PerfmagicError
from perfmagic.files import write_text
from perfmagic.terminal import for_terminal

if TYPE_CHECKING:
    from perfmagic.results import RanksResult, TimelineResult


MANY_FILES = 4  # whose names a title does not list


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; gives the exit status: 0, or 1 with a message on stderr for each thing that failed."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except PerfmagicError as error:
        _complain(str(error))
        return 1
    except BrokenPipeError:  # the reader of the output has gone, as behind `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        _complain(f"{error.filename}: {error.strerror}")
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="perfmagic", description="Reports and pictures of saved traces: what was queued, and what was executed."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    report = commands.add_parser("report", help="totals and findings of saved traces")
    _files(report)
    form = report.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_const", dest="form", const="json", help="all totals as JSON")
    form.add_argument("--markdown", action="store_const", dest="form", const="markdown", help="tables for an issue")
    form.add_argument(
        "--html", action="store_const", dest="form", const="html", help="a self-contained page with the timelines"
    )
    report.add_argument(
        "--workers",
        type=int,
        default=1,
        metavar="N",
        help="processes that read the files of many ranks, for --html (default 1)",
    )
    report.add_argument("--out", metavar="FILE", help="write to a file instead of the terminal")
    report.set_defaults(run=_report)
    view = commands.add_parser("view", help="draw saved traces into one self-contained page, or one into a picture")
    _files(view)
    where = view.add_mutually_exclusive_group(required=True)
    where.add_argument("--html", metavar="OUT", help="the page to write")
    where.add_argument("--svg", metavar="OUT", help="the picture of one trace, or of the ranks of one job, to write")
    view.set_defaults(run=_view)
    compare = commands.add_parser("compare", help="what changed from one trace to another, and where")
    compare.add_argument("first", metavar="A", help="a trace file, or a folder with a trace of each rank")
    compare.add_argument("second", metavar="B", help="what it is compared with: another of the same kind")
    _reading(compare)
    form = compare.add_mutually_exclusive_group()
    form.add_argument("--text", action="store_const", dest="form", const=None, help="tables for a terminal (default)")
    form.add_argument("--json", action="store_const", dest="form", const="json", help="every number as JSON")
    form.add_argument("--markdown", action="store_const", dest="form", const="markdown", help="tables for an issue")
    form.add_argument("--html", metavar="OUT", help="the self-contained page to write, with both timelines")
    compare.add_argument("--out", metavar="FILE", help="write to a file instead of the terminal")
    compare.set_defaults(run=_compare)
    join = commands.add_parser("join", help="run a script under torchrun, srun or mpirun: watched, and recorded")
    join.add_argument("--save", metavar="DIR", help="write this rank's trace there, as rank0.npz …")
    join.add_argument("--device", default="auto", choices=("auto", "cuda", "sim", "cpu"), help="what to record")
    join.add_argument("--memory", action="store_true", help="also record what is allocated on the devices over time")
    join.add_argument("--shapes", action="store_true", help="also record shapes and types of operators' inputs")
    join.add_argument("script", metavar="SCRIPT", help="what each rank runs")
    join.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGS", help="the script's own")
    join.set_defaults(run=_join)
    sanitize = commands.add_parser("nbval-sanitize", help="print the patterns for nbval --nbval-sanitize-with")
    sanitize.set_defaults(run=_sanitize)
    doctor = commands.add_parser("doctor", help="show versions, devices, and what each of them can measure")
    doctor.set_defaults(run=_doctor)
    return parser


def _files(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help="a trace file, or a folder with trace files")
    _reading(parser)


def _reading(parser: argparse.ArgumentParser) -> None:
    """How files are read."""
    parser.add_argument(
        "--comm-names",
        metavar="REGEX",
        help="kernels whose name matches count as communication, in place of the built-in rule",
    )
    parser.add_argument(
        "--max-gb",
        type=float,
        default=4.3,
        metavar="GB",
        help="refuse files larger than this when unpacked (default 4.3)",
    )


def _limit(options: argparse.Namespace) -> int:
    return int(options.max_gb * 1e9)


def _opened(options: argparse.Namespace) -> tuple[list[TimelineResult], int]:
    """What can be opened of the files named, and the exit status; what cannot be opened is reported on stderr."""
    from perfmagic.api import open_each
    from perfmagic.errors import TraceError

    results, status = [], 0
    for read, found in open_each(options.files, comm_names=options.comm_names, max_unpacked_bytes=_limit(options)):
        if isinstance(found, TraceError):
            # each bad file of a folder is one line; the hint is for a file that was named
            _complain(found.message if read.in_folder else str(found))
            status = 1
        else:
            results.append(found)
    return results, status


def _report(options: argparse.Namespace) -> int:
    if options.form == "html" and (ranks := _many_ranks(options)) is not None:
        _put(_ranks_page(ranks), options.out)
        unread = [finding for finding in ranks.findings if finding.rule == "unread"]
        for finding in unread:
            _complain(finding.sentence)
        return int(bool(unread))
    results, status = _opened(options)
    if results:
        _put(_REPORTS[options.form](results), options.out)
    return status


def _many_ranks(options: argparse.Namespace) -> RanksResult | None:
    """The ranks of one job, none of them kept, where the files are many or lie elsewhere; else None."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    from perfmagic.rank_files import FEW_RANKS, n_files, open_ranks

    if n_files(options.files) <= FEW_RANKS:
        return None
    reading = {"comm_names": options.comm_names, "max_unpacked_bytes": _limit(options)}
    with suppress(OptionError):  # they are not of one job: each is a timeline of its own
        if options.workers < 2:
            return open_ranks(options.files, **reading)
        with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as executor:
            return open_ranks(options.files, executor=executor, **reading)
    return None


def _ranks_page(ranks: RanksResult) -> str:
    """The page of many ranks: their rows, and the tables of those whose timelines were read for it."""
    from perfmagic.view.ranks.live import ranks_section
    from perfmagic.view.report.html import folded, html_tables
    from perfmagic.view.timeline.live import live_page

    tables = (
        folded(f"rank {number}: {one.title}", _rooflines(one) + html_tables(one.to_dict()))
        for number, one in ranks.read_again()
    )
    return live_page(ranks.title, [ranks_section(ranks.doc, ranks.wire) + "".join(tables)])


def _text_report(results: list[TimelineResult]) -> str:
    from perfmagic.results.traces import grouped
    from perfmagic.view.report.text import files_text, report_text

    texts = [report_text(result.doc, result.to_dict()) for result in results]
    if len(results) == 1:
        return texts[0]
    titled = (f"{result.title}\n{text}" for result, text in zip(results, texts, strict=True))
    return "\n\n".join([files_text(results, [job.doc for job in grouped(results)[0]]), *titled])


def _json_report(results: list[TimelineResult]) -> str:
    reports = [result.to_dict() for result in results]
    if len(reports) > 1:  # a list of reports, each with the findings on all ranks
        from perfmagic.api import rank_findings
        from perfmagic.results.traces import grouped

        together = [finding.to_dict() for finding in rank_findings(results)]
        table = [row for job in grouped(results)[0] for row in job.table.to_dict()]
        reports = [report | {"rank_findings": together, "rank_table": table} for report in reports]
    return json.dumps(reports[0] if len(reports) == 1 else reports, ensure_ascii=False, indent=1)


def _markdown_report(results: list[TimelineResult]) -> str:
    from perfmagic.results.traces import grouped
    from perfmagic.view.report.markdown import markdown, ranks_markdown

    return (
        ranks_markdown(results, [job.doc for job in grouped(results)[0]])
        + "\n".join(
            markdown(r.title, r.doc.header.sentence, r.findings, r.doc.trust, r.to_dict()) for r in results
        ).rstrip()
    )


def _html_report(results: list[TimelineResult]) -> str:
    from perfmagic.results.traces import grouped
    from perfmagic.view.ranks.live import ranks_section
    from perfmagic.view.report.html import folded, heading, html_tables, mixed_html
    from perfmagic.view.timeline.live import live_page, live_section

    jobs, alone = grouped(results)
    sections = [mixed_html(results)]
    for job in jobs:
        tables = (
            folded(f"rank {rank}: {one.title}", _rooflines(one) + html_tables(one.to_dict()))
            for rank, one in zip(job.ranks.ranks, job.timelines, strict=True)
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
    from perfmagic.errors import TraceError

    found = ""
    for device in result.trace.device_ids:
        with suppress(TraceError):
            found += result.roofline(device).html()
    return found


_REPORTS: dict[str | None, Callable[[list[TimelineResult]], str]] = {
    None: _text_report,
    "json": _json_report,
    "markdown": _markdown_report,
    "html": _html_report,
}


def _view(options: argparse.Namespace) -> int:
    from perfmagic.results.traces import grouped
    from perfmagic.view.ranks.live import ranks_section
    from perfmagic.view.ranks.picture import ranks_svg
    from perfmagic.view.report.html import heading, mixed_html
    from perfmagic.view.timeline.live import live_page, live_section
    from perfmagic.view.timeline.picture.timeline import timeline_svg

    results, status = _opened(options)
    if not results:
        return status
    jobs, alone = grouped(results)
    if options.svg:
        if len(jobs) + len(alone) > 1:
            given = f"--svg draws one trace or the ranks of one job, {len(results)} files of several were given"
            raise OptionError(given, hint="use --html for several")
        _put(ranks_svg(jobs[0].doc) if jobs else timeline_svg(alone[0].doc), options.svg)
        return status
    sections = [mixed_html(results), *(ranks_section(job.doc, job.wire) for job in jobs)]
    sections += [heading(r.title, results) + live_section(r.doc, r.trace) for r in alone]
    _put(live_page(page_title(results), [section for section in sections if section]), options.html)
    return status


def _compare(options: argparse.Namespace) -> int:
    from perfmagic.trace_comparisons import compare_timelines

    found = compare_timelines(
        options.first, options.second, comm_names=options.comm_names, max_unpacked_bytes=_limit(options)
    )
    if options.html:
        _put(found.page(), options.html)
    else:
        faces = {"json": found.to_json, "markdown": found.markdown, None: found.text}
        _put(faces[options.form](), options.out)
    return 0


def _put(text: str, out: str | None) -> None:
    if out is None:
        print(for_terminal(text, sys.stdout))
        return
    print(write_text(out, text + ("" if text.endswith("\n") else "\n")))


def _complain(message: str) -> None:
    print(f"perfmagic: {message}", file=sys.stderr)


def _sanitize(_options: argparse.Namespace) -> int:
    from perfmagic.view.nbval import sanitize_file

    print(sanitize_file(), end="")
    return 0


def _join(options: argparse.Namespace) -> int:
    from perfmagic.rank_scripts import join

    return join(
        options.script, options.arguments, save=options.save, device=options.device, memory=options.memory,
        shapes=options.shapes,
    )  # fmt: skip


def _doctor(_options: argparse.Namespace) -> int:
    from perfmagic.capture.devices.doctor import diagnosis

    print("\n".join(f"{key:12} {value}" for key, value in diagnosis().items()))
    return 0

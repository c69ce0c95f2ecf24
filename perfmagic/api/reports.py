"""What `python -m perfmagic report` writes about traces, in each of its forms."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perfmagic.results import FlightResult, RanksResult, TimelineResult


def _text_report(results: list[TimelineResult]) -> str:
    if len(results) == 1:
        return _text_of(results[0])
    from perfmagic.results.ranks import grouped
    from perfmagic.view.ranks.text import ranks_answers_text
    from perfmagic.view.report.writers import describe_mix

    jobs, alone = grouped(results)
    texts = [_text_of(result) for result in alone]
    if not jobs:
        return _of_files(results, texts)
    words = describe_mix(results)
    of_jobs = [ranks_answers_text(job.doc, "--details") for job in jobs]
    return "\n\n".join([*([words] if words else []), *of_jobs, *_titled(alone, texts)])


def _text_of(result: TimelineResult) -> str:
    from perfmagic.view.timeline.summary import answers_text, timeline_summary

    head = timeline_summary(result.trace, result.findings, comm_names=result.comm_names)
    return answers_text(head, result.answers, "--details")


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


def _brief_report(results: list[TimelineResult]) -> str:
    from perfmagic.results.ranks import grouped

    jobs, alone = grouped(results)
    briefs = [result.brief() for result in (*jobs, *alone)]
    return as_json(briefs[0] if len(briefs) == 1 else briefs)


def as_json(value: Any) -> str:
    """JSON on one line."""
    return json.dumps(value, ensure_ascii=False)


def _markdown_report(results: list[TimelineResult]) -> str:
    from perfmagic.results.ranks import grouped
    from perfmagic.view.report.writers import markdown, ranks_markdown

    return (
        ranks_markdown(results, [job.doc for job in grouped(results)[0]])
        + "\n".join(
            markdown(r.title, r.doc.header.parts, r.findings, r.doc.trust, r.to_dict()) for r in results
        ).rstrip()
    )


def html_report(results: list[TimelineResult], first: Sequence[str] = ()) -> str:
    """A page of traces.  first: sections above theirs."""
    from perfmagic.results.ranks import grouped
    from perfmagic.view.page import live_page
    from perfmagic.view.ranks.writers import ranks_section
    from perfmagic.view.report.writers import folded, heading, html_tables, mixed_html, page_title
    from perfmagic.view.timeline.writers import live_section

    jobs, alone = grouped(results)
    sections = [*first, mixed_html(results)]
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
    return live_page(page_title([result.title for result in results]), [section for section in sections if section])


def _rooflines(result: TimelineResult) -> str:
    """The roofline of each device; nothing where the record has no shapes, as a note below the table says."""
    from perfmagic.base.errors import TraceError

    pictures = ""
    for device in result.trace.device_ids:
        with suppress(TraceError):
            pictures += result.roofline(device).html()
    return pictures


REPORTS: dict[str | None, Callable[[list[TimelineResult]], str]] = {
    None: _text_report,
    "details": _details_report,
    "json": _json_report,
    "brief": _brief_report,
    "markdown": _markdown_report,
    "html": html_report,
}


def flight_report(flight: FlightResult, form: str | None) -> str:
    """What flight recorders say in a form; HTML as a section of a page."""
    forms: dict[str | None, Callable[[], str]] = {
        None: flight.text, "details": lambda: flight.text(details=True), "json": flight.to_json,
        "markdown": flight.markdown, "html": flight.html, "brief": lambda: as_json(flight.brief()),
    }  # fmt: skip
    return forms[form]()


def ranks_page(ranks: RanksResult, first: Sequence[str] = ()) -> str:
    """The page of many ranks: their rows, and the tables of those whose timelines were read for it."""
    from perfmagic.view.page import live_page
    from perfmagic.view.ranks.writers import ranks_section
    from perfmagic.view.report.writers import folded, html_tables

    tables = (
        folded(f"rank {number}: {result.title}", _rooflines(result) + html_tables(result.to_dict()))
        for number, result in ranks.read_again()
    )
    return live_page(ranks.title, [*first, ranks_section(ranks.doc, ranks.wire) + "".join(tables)])

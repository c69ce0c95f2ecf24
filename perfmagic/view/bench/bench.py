"""The faces of a benchmark: text, picture and HTML."""

from __future__ import annotations

from collections.abc import Sequence

from perfmagic import terminal, units
from perfmagic.view.bench.doc import BenchDoc, Row, bench_doc
from perfmagic.view.bench.fine_print import BETWEEN, one_line, unfolding
from perfmagic.view.bench.picture.bench import draw_bench
from perfmagic.view.html import framed, image, short
from perfmagic.view.svg.metrics import cut_to_columns
from perfmagic.view.text import table, wrapped

__all__ = ["BenchDoc", "bench_doc", "bench_html", "bench_svg", "bench_text"]

INTERVAL = "95 % confidence interval"


def bench_text(doc: BenchDoc) -> str:
    """The headline, a table of the quantities, one line of fine print and the warnings, as wide as the terminal."""
    head = ("", "median", INTERVAL, "min", "IQR", "outliers", "samples")
    rows = [(r.name, r.median, r.interval, r.least, r.spread, r.outliers, units.count(r.quantity.n)) for r in doc.rows]
    lines = wrapped(doc.sentence)
    lines += wrapped(doc.failure) if doc.failure else []
    lines += ["", *table(head, rows), ""] if rows else [""]
    lines.append(one_line(doc.fine_print))
    for warning in doc.warnings:
        lines += wrapped(f"! {warning}", indent=2)
    return "\n".join(cut_to_columns(line.rstrip(), terminal.width()) for line in lines)


def bench_svg(doc: BenchDoc, *, header: bool = True) -> str:
    """Python above, the device below, on one axis; then the quantities with their samples."""
    return draw_bench(doc, header=header)


def bench_html(doc: BenchDoc) -> str:
    """The headline, the picture as an image, one line that unfolds, and the warnings; survives sanitisers."""
    failure = f"<div><b>{short(doc.failure)}</b></div>" if doc.failure else ""
    line = f'<div style="margin:4px 0"><b>{short(doc.lead)}</b> {short(doc.rest)}</div>'
    alt = f"Benchmark: {doc.sentence} {_in_words(doc.rows)} {doc.device_label}"
    picture = image(bench_svg(doc, header=False), alt) if doc.rows else ""
    below = unfolding(BETWEEN.join(doc.fine_print), doc.details, [f"! {warning}" for warning in doc.warnings])
    return framed(line + failure + picture + below)


def _in_words(rows: Sequence[Row]) -> str:
    return " ".join(f"{row.name} {row.median} ({row.interval})." for row in rows)

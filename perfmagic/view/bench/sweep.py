"""The faces of a sweep: text, and HTML with its picture."""

from __future__ import annotations

from perfmagic.analysis.bench.conditions import QUEUED
from perfmagic.analysis.bench.sweep import SweepPoint, SweepResult
from perfmagic.units import duration_s, plural, rate, significant
from perfmagic.view.bench.picture.sweep import draw_sweep
from perfmagic.view.html import framed, image, paragraphs, short
from perfmagic.view.svg.metrics import columns, cut_to_columns
from perfmagic.view.text import WIDTH, table, wrapped

__all__ = ["sweep_html", "sweep_svg", "sweep_text"]

MOST_WARNINGS = 6


def sweep_text(sweep: SweepResult) -> str:
    """The sentence, a row a value (and variant), how it was taken; at most 100 columns wide."""
    head, rows = _cells(sweep)
    widths = [max(columns(row[i]) for row in (head, *rows)) + 2 for i in range(len(head))]
    lines = [*wrapped(sweep.sentence), "", *table(head, rows, widths), ""]
    for words in (_method(sweep), *_warnings_below(sweep)):
        lines += wrapped(words, indent=2)
    return "\n".join(cut_to_columns(line.rstrip(), WIDTH) for line in lines)


def sweep_html(sweep: SweepResult) -> str:
    """The sentence, the picture as an image, how it was taken; survives sanitisers."""
    line = f'<div style="margin:4px 0"><b>{short(sweep.sentence)}</b></div>'
    below = paragraphs([f"{_method(sweep)} · bars: 95 % interval of the median", *_warnings_below(sweep)])
    return framed(line + image(sweep_svg(sweep), f"Sweep: {sweep.sentence}") + below)


def sweep_svg(sweep: SweepResult) -> str:
    """Time against size, both axes logarithmic where the values are sizes, and the numbers below."""
    return draw_sweep(sweep)


def _cells(sweep: SweepResult) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """A table without its empty columns."""
    head = (sweep.name, "variant", "returns", "device span", "done", QUEUED, "rate", "verdict")
    rows = [
        (
            str(p.value),
            p.variant,
            *("" if s is None else duration_s(s) for s in (p.returns_s, p.span_s, p.done_s, p.queued_s)),
            _rate(p.flop_per_s, p.moved_bytes_per_s),
            (p.comparison and f"{p.comparison} {_times(p)}") or p.verdict,
        )
        for p in sweep.points
    ]
    kept = [i for i in range(len(head)) if i == 0 or any(row[i] for row in rows)]
    return tuple(head[i] for i in kept), [tuple(row[i] for i in kept) for row in rows]


def _times(point: SweepPoint) -> str:
    low, high = point.times_as_fast_low, point.times_as_fast_high
    interval = "" if low is None or high is None else f" [{significant(low)}, {significant(high)}]"
    return f"× {significant(point.times_as_fast or 0.0)}{interval}"


def _rate(flop_per_s: float | None, bytes_per_s: float | None) -> str:
    each = ((flop_per_s, "FLOP/s"), (bytes_per_s, "B/s"))
    return ", ".join(rate(value, unit) for value, unit in each if value is not None)


def _method(sweep: SweepResult) -> str:
    results = [one for row in sweep.results for one in row]
    counts = sorted({one.returns.n for one in results if one.returns is not None})
    each = f"{counts[0]}" if counts[0] == counts[-1] else f"{counts[0]} to {counts[-1]}"
    label = results[0].device_label or "on the CPU"
    comparisons = [one for row in sweep.comparisons for one in row]
    how = []
    if any(not one.interleaved for one in comparisons):
        how = ["taken one after the other: whole runs lie further apart than samples, --runs shows how far"]
    elif comparisons:
        how = ["× is the median of the ratios of what ran next to each other: the two medians may have another"]
    return " · ".join([f"{each} samples each", label, *how])


def _warnings_below(sweep: SweepResult) -> list[str]:
    ended = [f"ended early: {sweep.failed}"] if sweep.failed else []
    said = _warnings(sweep)
    more = [f"! {plural(len(said) - MOST_WARNINGS, 'more warning')} in .results"] if len(said) > MOST_WARNINGS else []
    return [*ended, *said[:MOST_WARNINGS], *more]


def _warnings(sweep: SweepResult) -> list[str]:
    """Each warning once, with the values and variants it belongs to."""
    places: dict[str, dict[int, list[str]]] = {}  # of a warning, by the number of a value: the variants
    for number, row in enumerate(sweep.results):
        for one in row:
            for warning in dict.fromkeys(one.warnings):
                places.setdefault(warning, {}).setdefault(number, []).append(one.name)
    return [f"! {_at(sweep, at)}{warning}" for warning, at in places.items()]


def _at(sweep: SweepResult, at: dict[int, list[str]]) -> str:
    """Which values and variants, "" for all."""
    of_variants: dict[str, list[str]] = {}
    for number, names in at.items():
        everyone = len(names) == len(sweep.results[0])
        of_variants.setdefault("" if everyone else ", ".join(names), []).append(str(sweep.values[number]))
    parts = []
    for variants, values in of_variants.items():
        which = "" if len(values) == len(sweep.values) else f"{sweep.name} = {', '.join(values)}"
        parts.append(" at ".join(part for part in (variants, which) if part))
    where = "; ".join(part for part in parts if part)
    return f"{where}: " if where else ""

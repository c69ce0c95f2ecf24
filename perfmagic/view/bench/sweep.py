"""The faces of a sweep: text, and HTML with its picture."""

from __future__ import annotations

from perfmagic import terminal
from perfmagic.analysis.bench.conditions import QUEUED
from perfmagic.analysis.bench.sweep import SweepPoint, SweepSummary
from perfmagic.flags import option
from perfmagic.units import duration_s, plural, rate, significant
from perfmagic.view.bench.fine_print import BETWEEN, one_line, unfolding
from perfmagic.view.bench.picture.sweep import draw_sweep
from perfmagic.view.html import framed, image, short
from perfmagic.view.svg.metrics import cut_to_columns
from perfmagic.view.text import table, wrapped

__all__ = ["sweep_html", "sweep_svg", "sweep_text"]

MOST_WARNINGS = 6


def sweep_text(sweep: SweepSummary) -> str:
    """The sentence, a row per value and variant, one line of fine print and the warnings, as wide as the terminal."""
    head, rows = _cells(sweep)
    lines = [*wrapped(sweep.sentence), "", *table(head, rows), ""]
    lines.append(one_line(_fine_print(sweep)))
    for words in (*_unclear(sweep), *_warnings_below(sweep)):
        lines += wrapped(words, indent=2)
    return "\n".join(cut_to_columns(line.rstrip(), terminal.width()) for line in lines)


def sweep_html(sweep: SweepSummary) -> str:
    """The sentence, the picture as an image, one line that unfolds, and the warnings; survives sanitisers."""
    line = f'<div style="margin:4px 0"><b>{short(sweep.sentence)}</b></div>'
    below = unfolding(BETWEEN.join(_fine_print(sweep)), _details(sweep), [*_unclear(sweep), *_warnings_below(sweep)])
    return framed(line + image(sweep_svg(sweep), f"Sweep: {sweep.sentence}") + below)


def sweep_svg(sweep: SweepSummary) -> str:
    """Time against size, both axes logarithmic where the values are sizes, and the numbers below."""
    return draw_sweep(sweep)


def _cells(sweep: SweepSummary) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
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


def _fine_print(sweep: SweepSummary) -> tuple[str, ...]:
    """How it was measured, the device last."""
    counts = sorted({one.returns.n for row in sweep.results for one in row if one.returns is not None})
    each = f"{counts[0]}" if counts[0] == counts[-1] else f"{counts[0]} to {counts[-1]}"
    comparisons = [one for row in sweep.comparisons for one in row]
    interleaved = all(one.interleaved for one in comparisons)
    how = ("interleaved" if interleaved else "from separate runs",) if comparisons else ()
    return f"{each} samples each", *how, sweep.results[0][0].device_label or "on the CPU"


def _details(sweep: SweepSummary) -> list[str]:
    """What bars and ratios are."""
    said = ["bars: 95 % confidence interval of the median"]
    comparisons = [one for row in sweep.comparisons for one in row]
    if any(not one.interleaved for one in comparisons):
        runs = option(sweep.results[0][0].magic, "runs")
        said.append(f"whole runs differ by more than samples do: {runs} shows by how much")
    elif comparisons:
        said.append("× is the median of the ratios of neighbouring samples: the ratio of the medians may differ")
    return said


def _unclear(sweep: SweepSummary) -> list[str]:
    """Each reason for an unclear comparison once, with the values and variants it belongs to."""
    places: dict[str, dict[int, list[str]]] = {}  # of a reason, by the number of a value: the variants
    for number, row in enumerate(sweep.comparisons):
        for one in row:
            if one.verdict == "unclear":
                places.setdefault(one.why, {}).setdefault(number, []).append(one.name)
    variants = len(sweep.results[0]) - 1
    return [f"unclear at {_at(sweep, at, variants) or f'every {sweep.name}: '}{why}" for why, at in places.items()]


def _warnings_below(sweep: SweepSummary) -> list[str]:
    ended = [f"ended early: {sweep.failed}"] if sweep.failed else []
    said = _warnings(sweep)
    more = [f"! {plural(len(said) - MOST_WARNINGS, 'more warning')} in .results"] if len(said) > MOST_WARNINGS else []
    return [*ended, *said[:MOST_WARNINGS], *more]


def _warnings(sweep: SweepSummary) -> list[str]:
    """Each warning once, with the values and variants it belongs to."""
    places: dict[str, dict[int, list[str]]] = {}  # of a warning, by the number of a value: the variants
    for number, row in enumerate(sweep.results):
        for one in row:
            for warning in dict.fromkeys(each.sentence for each in one.warnings):
                places.setdefault(warning, {}).setdefault(number, []).append(one.name)
    variants = len(sweep.results[0])
    return [f"! {_at(sweep, at, variants)}{warning}" for warning, at in places.items()]


def _at(sweep: SweepSummary, at: dict[int, list[str]], variants: int) -> str:
    """Which values and variants, "" for all.  at: the variants by the number of a value.  variants: their number."""
    of_variants: dict[str, list[str]] = {}
    for number, names in at.items():
        everyone = len(names) == variants
        of_variants.setdefault("" if everyone else ", ".join(names), []).append(str(sweep.values[number]))
    parts = []
    for who, values in of_variants.items():
        which = "" if len(values) == len(sweep.values) else f"{sweep.name} = {', '.join(values)}"
        parts.append(" at ".join(part for part in (who, which) if part))
    where = "; ".join(part for part in parts if part)
    return f"{where}: " if where else ""

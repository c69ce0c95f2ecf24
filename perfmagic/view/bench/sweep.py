"""The renderers of a sweep: text, and HTML with its picture."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from perfmagic.analysis.bench.result import Quantity
from perfmagic.analysis.bench.sweep import SweepPoint, SweepSummary, bottleneck_border
from perfmagic.analysis.bench.warnings import QUEUED
from perfmagic.base import terminal, units
from perfmagic.base.language import chained, counted, phrase, say, translate_term, translated
from perfmagic.base.options import option
from perfmagic.base.tables import Table, text_lines
from perfmagic.base.terminal import cut_to_columns, wrapped
from perfmagic.base.units import duration_s, rate, significant
from perfmagic.view.bench.bench import BETWEEN, one_line, unfolding
from perfmagic.view.bench.doc import variant_token
from perfmagic.view.html import framed, image, short
from perfmagic.view.svg.canvas import NARROW_PX, Canvas, labels_apart, number
from perfmagic.view.svg.layouts import Picture, alone, in_bytes
from perfmagic.view.svg.metrics import fitted, width_px
from perfmagic.view.svg.palette import tint

# A sweep as SVG: time against size on logarithmic axes, where the bottleneck changes, and the numbers below.

LEFT, TOP, PLOT_PX = 96, 12, 220
NAMES_PX = 128  # room for the names of the lines at their ends
NAME_LINE_PX = 14
INSET_PX = 24
CELL_PX = 44  # room of a number in the table; where there is less, it is left out
ROW_PX = 15
LEAST_S = 1e-9


@dataclass(frozen=True)
class _Line:
    """One curve: a quantity of one variant."""

    name: str
    token: str
    dashed: bool
    quantities: Sequence[Quantity]


@dataclass(frozen=True)
class _Plot:
    """Where the plot of a picture ends at the right and begins at the top.  listed: the names stand above it."""

    right: float
    top: float
    listed: bool

    @property
    def floor(self) -> float:
        return self.top + PLOT_PX

    @classmethod
    def of(cls, width_px: int, n_lines: int) -> _Plot:
        """The plot of n_lines lines."""
        if width_px >= NARROW_PX:
            return cls(width_px - NAMES_PX, TOP, listed=False)
        return cls(width_px - 8, TOP + NAME_LINE_PX * n_lines, listed=True)


def draw_sweep(canvas: Canvas, sweep: SweepSummary) -> float:
    """The picture of a sweep, as wide as the canvas; returns its height."""
    lines = _lines(sweep)
    plot = _Plot.of(canvas.width_px, len(lines))
    x = _x_places(sweep, plot)
    y = _y_axis(canvas, [q.median_s for line in lines for q in line.quantities], plot)
    _draw_grounds(canvas, sweep, x, plot)
    for line in lines:
        _draw_line(canvas, line, x, y)
    _draw_names(canvas, lines, y, plot)
    bottom = _draw_numbers(canvas, sweep, lines, x, plot.floor)
    label = fitted(translated(sweep.results[0][0].device_label) or say("on the CPU"), canvas.width_px, 10)
    canvas.text(canvas.width_px, bottom + 4, label, "ink2", anchor="end")
    return bottom + 12


def _lines(sweep: SweepSummary) -> list[_Line]:
    n_variants = len(sweep.results[0])
    if n_variants == 1:
        results = sweep.variant(0)
        known = (
            ("returns", "returns", "launch", False),
            ("span", "device span", "matrix", True),
            ("done", "done", "comp", False),
            ("queued", QUEUED, "dtod", False),
        )
        return [
            _Line(translate_term(words), token, dashed, [r.quantities[name] for r in results])
            for name, words, token, dashed in known
            if all(name in r.quantities for r in results)
        ]
    quantity = sweep.comparisons[0][0].quantity
    return [
        _Line(sweep.results[0][i].name, variant_token(i), False, [r.quantities[quantity] for r in sweep.variant(i)])
        for i in range(n_variants)
    ]


def _x_places(sweep: SweepSummary, plot: _Plot) -> list[float]:
    """A place for each value: by its logarithm where values are sizes, else side by side."""
    n = len(sweep.values)
    inner_px = plot.right - LEFT - 2 * INSET_PX
    if not sweep.numeric:
        return [LEFT + INSET_PX + inner_px * (i + 0.5) / n for i in range(n)]
    low, high = math.log(sweep.values[0]), math.log(sweep.values[-1])
    return [LEFT + INSET_PX + inner_px * (math.log(v) - low) / (high - low) for v in sweep.values]


def _y_axis(canvas: Canvas, times_s: Sequence[float], plot: _Plot) -> Callable[[float], float]:
    """Draws labels and grid; gives the function that places a time."""
    seen = [max(t, LEAST_S) for t in times_s]
    low, high = math.log10(min(seen)) - 0.12, math.log10(max(seen)) + 0.12
    if high - low < 0.5:
        low, high = (low + high) / 2 - 0.25, (low + high) / 2 + 0.25

    def y(seconds: float) -> float:
        share = (math.log10(max(seconds, LEAST_S)) - low) / (high - low)
        return plot.floor - max(0.0, min(1.0, share)) * PLOT_PX

    steps = (1, 2, 5) if high - low < 2.2 else (1,)
    for power in range(math.floor(low), math.ceil(high) + 1):
        for step in steps:
            seconds = step * 10.0**power
            if low < math.log10(seconds) < high:
                at = round(y(seconds), 1)
                canvas.boxes([(LEFT, at, plot.right - LEFT, 0.75)], "grid")
                text = units.duration_like(seconds * 1e9, seconds * 1e9)
                canvas.text(LEFT - 8, at + 3.5, text, "ink2", anchor="end")
    return y


def _draw_grounds(canvas: Canvas, sweep: SweepSummary, x: Sequence[float], plot: _Plot) -> None:
    """Where Python is the bottleneck and where the device is, as two grounds; none where neither is certain."""
    border = bottleneck_border(sweep.values, sweep.variant(0)) if len(sweep.results[0]) == 1 else None
    if border is None:
        return
    low, high = math.log(sweep.values[0]), math.log(sweep.values[-1])
    until, since = (
        round(x[0] + (x[-1] - x[0]) * (math.log(size) - low) / (high - low), 1) for size in (border.until, border.since)
    )
    mark = canvas.mark()
    canvas.boxes([(LEFT, plot.top, until - LEFT, PLOT_PX)], tint("host3", 0.55, 0.55))
    canvas.boxes([(since, plot.top, plot.right - since, PLOT_PX)], tint("comp", 0.07, 0.12))
    canvas.move_down(mark, 0)
    grounds = ((LEFT, until, translated(border.below)), (since, plot.right, translated(border.above)))
    for start, end, words in grounds:
        if width_px(words, 11, bold=True) + 16 <= end - start:
            canvas.text(start + 8, plot.top + 15, words, size=11, bold=True)


def _draw_line(canvas: Canvas, line: _Line, x: Sequence[float], y: Callable[[float], float]) -> None:
    points = [(number(round(a, 1)), number(round(y(q.median_s), 1))) for a, q in zip(x, line.quantities, strict=True)]
    path = "M" + "L".join(f"{a} {b}" for a, b in points)
    canvas.stroke(path, line.token, 1.5, dash=(3.0, 2.5) if line.dashed else ())
    bars = [
        f"M{a} {number(round(y(q.low_s), 1))}V{number(round(y(q.high_s), 1))}"
        for (a, _), q in zip(points, line.quantities, strict=True)
        if q.low_s is not None and q.high_s is not None
    ]
    canvas.stroke("".join(bars), line.token, 1.5)
    if not line.dashed:
        canvas.stroke("".join(f"M{a} {b}h0" for a, b in points), line.token, 5, cap="round")


def _draw_names(canvas: Canvas, lines: Sequence[_Line], y: Callable[[float], float], plot: _Plot) -> None:
    """At the ends of the lines, or above the plot."""
    if plot.listed:
        x, places = float(LEFT), [float(TOP + NAME_LINE_PX * i) for i in range(len(lines))]
    else:
        wanted = [y(line.quantities[-1].median_s) + 4 for line in lines]
        x, places = plot.right + 10, labels_apart(wanted, NAME_LINE_PX, plot.top + 4, plot.floor)
    for line, at in zip(lines, places, strict=True):
        canvas.stroke(f"M{number(x)} {number(round(at - 4, 1))}h{number(10)}", line.token, 2)
        canvas.text(x + 16, round(at, 1), fitted(line.name, canvas.width_px - x - 18, 11), size=11)


def _draw_numbers(
    canvas: Canvas, sweep: SweepSummary, lines: Sequence[_Line], x: Sequence[float], floor: float
) -> float:
    """The values and below each the medians of all lines; gives the lower edge."""
    shown = _that_fit(x)
    y = floor + 16
    canvas.text(LEFT - 8, y, fitted(sweep.name, LEFT - 10, 10), "ink2", anchor="end")
    for i in shown:
        canvas.boxes([(round(x[i], 1), floor, 0.75, 4)], "ink3")
        canvas.text(
            round(x[i], 1), y, fitted(str(sweep.values[i]), CELL_PX + 8, 10, bold=True), anchor="middle", bold=True
        )
    for line in lines:
        y += ROW_PX
        canvas.text(LEFT - 8, y, fitted(line.name, LEFT - 10, 10), "ink2", anchor="end")
        for i in shown:
            canvas.text(round(x[i], 1), y, units.duration_s(line.quantities[i].median_s), anchor="middle")
    for name, words in _rate_rows(sweep):
        y += ROW_PX
        canvas.text(LEFT - 8, y, fitted(name, LEFT - 10, 10), "ink2", anchor="end")
        for i in shown:
            canvas.text(round(x[i], 1), y, words[i], anchor="middle")
    for name, ratios in _ratio_rows(sweep):
        y += ROW_PX
        canvas.text(LEFT - 8, y, fitted(name, LEFT - 10, 10), "ink2", anchor="end")
        for i in shown:
            canvas.text(round(x[i], 1), y, ratios[i], anchor="middle", bold=True)
    return y + 12


def _rate_rows(sweep: SweepSummary) -> list[tuple[str, list[str]]]:
    """What each variant achieved, where the user said what a call does: FLOP/s, B/s."""
    rows = []
    for j, first in enumerate(sweep.results[0]):
        who = f"{first.name} " if len(sweep.results[0]) > 1 else ""
        each = sweep.variant(j)
        for unit, values in (("FLOP/s", [r.flop_per_s for r in each]), ("B/s", [r.moved_bytes_per_s for r in each])):
            if any(value is not None for value in values):
                words = ["" if value is None else units.rate(value, "").rstrip() for value in values]
                rows.append((f"{who}{unit}", words))
    return rows


def _ratio_rows(sweep: SweepSummary) -> list[tuple[str, list[str]]]:
    """For each variant but the first how many times as fast it is, in brackets where that is unclear."""
    rows = []
    for j in range(len(sweep.results[0]) - 1):
        each = [row[j] for row in sweep.comparisons]
        words = ["–" if c.not_comparable is not None else f"× {_ratio(c.ratio)}" for c in each]
        said = [f"({w})" if c.verdict == "unclear" else w for w, c in zip(words, each, strict=True)]
        rows.append((say("{name} is", name=each[0].name), said))
    return rows


def _that_fit(x: Sequence[float]) -> list[int]:
    """Which values have space for a number; the last always."""
    shown = [len(x) - 1]
    for i in range(len(x) - 2, -1, -1):
        if x[shown[-1]] - x[i] >= CELL_PX:
            shown.append(i)
    return shown[::-1]


__all__ = ["sweep_html", "sweep_svg", "sweep_text"]

MOST_WARNINGS = 6
FEW_WARNINGS = 2  # below the answer


def sweep_text(sweep: SweepSummary, *, details: bool = False) -> str:
    """The sentence, a row per value and variant, one line of fine print and the first warnings; details: more."""
    lines = [*wrapped(translated(sweep.sentence)), "", *text_lines(_table(sweep)), ""]
    lines.append(one_line(_fine_print(sweep)))
    below = _warnings_below(sweep) if details else _warnings_below(sweep, FEW_WARNINGS, ".text(details=True)")
    for words in (*_unclear(sweep), *below):
        lines += wrapped(words, indent=2)
    return "\n".join(cut_to_columns(line.rstrip(), terminal.width()) for line in lines)


def sweep_html(sweep: SweepSummary) -> str:
    """The sentence, the picture as an image, one line that unfolds, and the warnings; survives sanitisers."""
    line = f'<div style="margin:4px 0"><b>{short(translated(sweep.sentence))}</b></div>'
    below = unfolding(BETWEEN.join(_fine_print(sweep)), _details(sweep), [*_unclear(sweep), *_warnings_below(sweep)])
    return framed(line + image(sweep_picture(sweep), say("Sweep: {sentence}", sentence=sweep.sentence)) + below)


def sweep_svg(sweep: SweepSummary) -> str:
    """Time against size, both axes logarithmic where the values are sizes, and the numbers below.  1000 px wide."""
    return alone(partial(draw_sweep, sweep=sweep), _alt(sweep)).svg


def sweep_picture(sweep: SweepSummary) -> Picture:
    """The same laid out for several widths."""
    return in_bytes(partial(draw_sweep, sweep=sweep), _alt(sweep))


def _alt(sweep: SweepSummary) -> str:
    return say("Sweep over {name}: {sentence}", name=sweep.name, sentence=sweep.sentence)


def _table(sweep: SweepSummary) -> Table:
    """A row for each value and variant, without empty columns."""
    head = (phrase("{name}", name=sweep.name), "variant", "returns", "device span", "done", QUEUED, "rate", "verdict")
    rows = [
        (
            str(p.value),
            p.variant,
            *("" if s is None else duration_s(s) for s in (p.returns_s, p.span_s, p.done_s, p.queued_s)),
            _rate(p.flop_per_s, p.moved_bytes_per_s),
            (p.comparison and f"{translate_term(p.comparison)} {_times(p)}") or translate_term(p.verdict),
        )
        for p in sweep.points
    ]
    kept = [i for i in range(len(head)) if i == 0 or any(row[i] for row in rows)]
    return Table("", [head[i] for i in kept], [[row[i] for i in kept] for row in rows])


def _times(point: SweepPoint) -> str:
    low, high = point.times_as_fast_low, point.times_as_fast_high
    interval = "" if low is None or high is None else f" [{_ratio(low)}, {_ratio(high)}]"
    return f"× {_ratio(point.times_as_fast or 0.0)}{interval}"


def _ratio(value: float) -> str:
    return significant(value, 2 if units.are_rough() else 3)


def _rate(flop_per_s: float | None, bytes_per_s: float | None) -> str:
    each = ((flop_per_s, "FLOP/s"), (bytes_per_s, "B/s"))
    return ", ".join(rate(value, unit) for value, unit in each if value is not None)


def _fine_print(sweep: SweepSummary) -> tuple[str, ...]:
    """How it was measured, the device last."""
    counts = sorted({result.returns.n for row in sweep.results for result in row if result.returns is not None})
    each = f"{counts[0]}" if counts[0] == counts[-1] else phrase("{low} to {high}", low=counts[0], high=counts[-1])
    comparisons = [comparison for row in sweep.comparisons for comparison in row]
    interleaved = all(comparison.interleaved for comparison in comparisons)
    how = (say("interleaved") if interleaved else say("from separate runs"),) if comparisons else ()
    return say("{n} samples each", n=each), *how, translated(sweep.results[0][0].device_label) or say("on the CPU")


def _details(sweep: SweepSummary) -> list[str]:
    """What bars and ratios are."""
    said = [say("bars: 95 % confidence interval of the median")]
    comparisons = [comparison for row in sweep.comparisons for comparison in row]
    if any(not comparison.interleaved for comparison in comparisons):
        runs = option(sweep.results[0][0].magic, "runs")
        said.append(say("whole runs differ by more than samples do: {option} shows by how much", option=runs))
    elif comparisons:
        said.append(say("× is the median of the ratios of neighbouring samples: the ratio of the medians may differ"))
    return said


def _unclear(sweep: SweepSummary) -> list[str]:
    """Each reason for no verdict once, with the values and variants it belongs to."""
    places: dict[tuple[str, str], dict[int, list[str]]] = {}  # of a reason, by the number of a value: the variants
    for index, row in enumerate(sweep.comparisons):
        for comparison in row:
            if comparison.verdict in ("unclear", "not comparable"):
                reason = comparison.verdict, translated(comparison.why)
                places.setdefault(reason, {}).setdefault(index, []).append(comparison.name)
    variants = len(sweep.results[0]) - 1
    everywhere = say("every {name}", name=sweep.name)
    return [
        say(
            "{verdict} at {where}: {why}",
            verdict=phrase(verdict),
            where=_at(sweep, at, variants) or everywhere,
            why=why,
        )
        for (verdict, why), at in places.items()
    ]


def _warnings_below(sweep: SweepSummary, most: int = MOST_WARNINGS, more_in: str = ".results") -> list[str]:
    """What ended it, the first warnings, and where the others are."""
    ended = [say("ended early: {failed}", failed=sweep.failed)] if sweep.failed else []
    said = _warnings(sweep)
    n = len(said) - most
    more = [translated(counted(n, "! {n} more warning in {place}", "! {n} more warnings in {place}", place=more_in))]
    more = more if n > 0 else []
    return [*ended, *said[:most], *more]


def _warnings(sweep: SweepSummary) -> list[str]:
    """Each warning once, with the values and variants it belongs to."""
    places: dict[str, dict[int, list[str]]] = {}  # of a warning, by the number of a value: the variants
    for index, row in enumerate(sweep.results):
        for result in row:
            for warning in dict.fromkeys(translated(each.sentence) for each in result.warnings):
                places.setdefault(warning, {}).setdefault(index, []).append(result.name)
    variants = len(sweep.results[0])
    named = ((_at(sweep, at, variants), warning) for warning, at in places.items())
    return [f"! {where}{say(': ')}{warning}" if where else f"! {warning}" for where, warning in named]


def _at(sweep: SweepSummary, at: dict[int, list[str]], variants: int) -> str:
    """Which values and variants, "" for all.  at: the variants by the number of a value.  variants: their number."""
    of_variants: dict[str, list[str]] = {}
    for index, names in at.items():
        everyone = len(names) == variants
        of_variants.setdefault("" if everyone else ", ".join(names), []).append(str(sweep.values[index]))
    parts = []
    for who, values in of_variants.items():
        which = "" if len(values) == len(sweep.values) else f"{sweep.name} = {', '.join(values)}"
        parts.append(chained("{a} at {b}", (who, which)))
    return translated(chained("{a}; {b}", parts))

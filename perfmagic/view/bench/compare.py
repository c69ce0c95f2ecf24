"""The faces of a comparison: text, and HTML with its picture."""

from __future__ import annotations

from perfmagic.analysis.bench.compare import CompareSummary
from perfmagic.analysis.bench.method import warmth
from perfmagic.units import duration_s
from perfmagic.view.bench.fine_print import BETWEEN, one_line, unfolding
from perfmagic.view.bench.picture.compare import draw_compare
from perfmagic.view.html import framed, headline, image
from perfmagic.view.text import blocks, wrapped

__all__ = ["compare_html", "compare_svg", "compare_text"]


def compare_text(result: CompareSummary) -> str:
    """The verdicts, a table with the reasons of what is unclear, and one line of fine print, as wide as a terminal."""
    lines = [line for comparison in result.comparisons for line in wrapped(comparison.headline, indent=2)]
    lines += ["", *_table(result), "", one_line(_fine_print(result))]
    for words in _below(result):
        lines += wrapped(words, indent=2)
    return "\n".join(lines)


def compare_html(result: CompareSummary) -> str:
    """The verdicts as headlines, the picture, one line that unfolds, and the warnings; survives sanitisers."""
    words = "; ".join(comparison.sentence for comparison in result.comparisons)
    line = "".join(
        headline(c.words, f"{c.quantity} {duration_s(c.name_s)} against {duration_s(c.baseline_s)}")
        for c in result.comparisons
    )
    explained = [f"{c.name}: {c.explanation}" for c in result.comparisons if c.explanation]
    below = unfolding(BETWEEN.join(_fine_print(result)), _details(result), [*explained, *_below(result)])
    return framed(line + image(compare_svg(result), f"Comparison: {words}") + below)


def compare_svg(result: CompareSummary) -> str:
    """Every ratio with its interval on one logarithmic axis; beside it the samples in the order taken."""
    return draw_compare(result)


def _table(result: CompareSummary) -> list[str]:
    """A row per benchmark, and below those that are unclear the reason and what would help."""
    head = ("", "median", "times as fast", "verdict")
    first = result.comparisons[0]
    rows = [(first.baseline, duration_s(first.baseline_s), "× 1", "")]
    rows += [(c.name, duration_s(c.name_s), c.ratio_words, c.verdict) for c in result.comparisons]
    found = [[line.rstrip() for line in block] for block in blocks(head, rows)]
    explained = [*found[0], *found[1]]
    for comparison, block in zip(result.comparisons, found[2:], strict=True):
        explained += block
        explained += wrapped(f"  {comparison.explanation}", indent=2) if comparison.explanation else []
    return explained


def _fine_print(result: CompareSummary) -> tuple[str, ...]:
    """How it was measured, the device last."""
    first = result.comparisons[0]
    counts = sorted({one.quantities[first.quantity].n for one in result.results})
    samples = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    stops = {"" if one.failed else one.stopped_by for one in result.results}
    parts = (
        f"{samples} samples each, {'interleaved (ABBA)' if first.interleaved else 'from separate runs'}",
        " and ".join(dict.fromkeys(warmth(one) for one in result.results)),
        stops.pop() if len(stops) == 1 else "each stopped for a reason of its own",
        result.results[0].device_label or "on the CPU",
    )
    return tuple(part for part in parts if part)


def _details(result: CompareSummary) -> list[str]:
    """What the ratio is, and what clear verdicts rest on."""
    interleaved = result.comparisons[0].interleaved
    how = "the median of the ratios of neighbouring samples" if interleaved else "the ratio of the medians"
    clear = dict.fromkeys(f"{c.name}: {c.why}" for c in result.comparisons if c.verdict != "unclear")
    return [f"× is {how}, in brackets its 95 % confidence interval", *clear]


def _below(result: CompareSummary) -> list[str]:
    """What ended it early, and each warning once with whom it is about."""
    ended = [f"ended early: {words}" for words in dict.fromkeys(one.failed for one in result.results if one.failed)]
    warnings: dict[str, list[str]] = {}
    for one in result.results:
        for warning in one.warnings:
            warnings.setdefault(warning.sentence, []).append(one.name)
    everyone = len(result.results)
    said = [f"! {words}" if len(n) == everyone else f"! {', '.join(n)}: {words}" for words, n in warnings.items()]
    return [*ended, *said]

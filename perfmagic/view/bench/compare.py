"""The faces of a comparison: text, and HTML with its picture."""

from __future__ import annotations

from perfmagic.analysis.bench.compare import CompareResult
from perfmagic.analysis.bench.result import BenchResult
from perfmagic.units import duration_s
from perfmagic.view.bench.picture.compare import draw_compare
from perfmagic.view.html import framed, headline, image, paragraphs
from perfmagic.view.svg.metrics import columns
from perfmagic.view.text import table, wrapped

__all__ = ["compare_html", "compare_svg", "compare_text"]


def compare_text(result: CompareResult) -> str:
    """The verdicts in sentences and a table, at most 100 columns wide."""
    lines = [line for comparison in result.comparisons for line in wrapped(comparison.sentence, indent=2)]
    head = ("", "median", "times as fast", "verdict")
    first = result.comparisons[0]
    rows = [(first.baseline, duration_s(first.baseline_s), "× 1", "")]
    rows += [(c.name, duration_s(c.name_s), c.ratio_words, c.verdict) for c in result.comparisons]
    widths = [max(columns(row[i]) for row in (head, *rows)) + 2 for i in range(len(head))]
    lines += ["", *(line.rstrip() for line in table(head, rows, widths)), ""]
    for words in _below(result):
        lines += wrapped(words, indent=2)
    return "\n".join(lines)


def compare_html(result: CompareResult) -> str:
    """The first verdict as a headline, the picture as an image, what the verdicts rest on; survives sanitisers."""
    words = "; ".join(comparison.sentence for comparison in result.comparisons)
    why = dict.fromkeys(f"{c.name}: {c.why}" for c in result.comparisons)
    line = "".join(
        headline(c.words, f"{c.quantity} {duration_s(c.name_s)} against {duration_s(c.baseline_s)}")
        for c in result.comparisons
    )
    below = paragraphs([*why, *_below(result)])
    return framed(line + image(compare_svg(result), f"Comparison: {words}") + below)


def compare_svg(result: CompareResult) -> str:
    """Every ratio with its interval on one logarithmic axis; beside it the samples in the order taken."""
    return draw_compare(result)


def _warmth(one: BenchResult) -> str:
    return "cold caches" if one.cold_bytes else "not warmed up" if one.settings.get("warmup") == 0 else "warm"


def _below(result: CompareResult) -> list[str]:
    """How it was taken, and what is odd about it."""
    first = result.results[0]
    counts = sorted({one.quantities[result.comparisons[0].quantity].n for one in result.results})
    samples = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    order = "taken in turns, A B B A" if result.comparisons[0].interleaved else "taken one after the other"
    warmth = " and ".join(dict.fromkeys(_warmth(one) for one in result.results))
    stops = {"" if one.failed else one.stopped_by for one in result.results}
    method = [
        f"{samples} samples each, {order}",
        "median of the turns' ratios" if result.comparisons[0].interleaved else "ratio of medians",
        warmth,
        stops.pop() if len(stops) == 1 else "each stopped for a reason of its own",
    ]
    method.append(first.device_label or "on the CPU")
    ended = [f"ended early: {words}" for words in dict.fromkeys(one.failed for one in result.results if one.failed)]
    warnings: dict[str, list[str]] = {}
    for one in result.results:
        for warning in one.warnings:
            warnings.setdefault(warning, []).append(one.name)
    everyone = len(result.results)
    said = [f"! {words}" if len(n) == everyone else f"! {', '.join(n)}: {words}" for words, n in warnings.items()]
    return [" · ".join(part for part in method if part), *ended, *said]

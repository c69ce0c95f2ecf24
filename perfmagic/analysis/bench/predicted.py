"""The verdict on two benchmarks of which a GPU's model gave the times of one or of both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmagic.base.kinds import HOST_SPREAD
from perfmagic.base.language import phrase
from perfmagic.predict.ratio import describe_layouts, ratio_range, times_by_op

if TYPE_CHECKING:
    from perfmagic.analysis.bench.result import BenchSummary


def predicted_ratio(baseline: BenchSummary, other: BenchSummary, quantity: str) -> tuple[float, float] | None:
    """Between what the ratio of two times lies, above 1 where the other is faster; None if both were measured.

    On one GPU the model's error of an operator is the same in both, where both have a recorded run. Two GPUs: the
    error of a ratio of two predictions, as of a replay on another GPU. Beside a measurement the host's error counts,
    too, as it may be the host that takes the time.
    """
    models = [result.predicted_for for result in (baseline, other)]
    known = [model for model in models if model is not None]
    if not known:
        return None
    before_s, after_s = (result.quantities[quantity].median_s for result in (baseline, other))
    ratio = before_s / after_s if after_s else 0.0
    spread = max(model.spread for model in known)
    runs = [result.record.trace if result.record is not None else None for result in (baseline, other)]
    if models[0] == models[1] and runs[0] is not None and runs[1] is not None:
        low, high = ratio_range(times_by_op(runs[0]), times_by_op(runs[1]), spread)
        return min(low, ratio), max(high, ratio)
    off = spread if len(known) == 2 else max(spread, HOST_SPREAD)
    return ratio / off, ratio * off


def layouts_of_predicted(baseline: BenchSummary, other: BenchSummary) -> str:
    """That layouts differ, of which a model knows nothing; "" where they do not, and without recorded runs."""
    runs = [result.record.trace if result.record is not None else None for result in (baseline, other)]
    names = baseline.name or phrase("the baseline"), other.name or phrase("the other")
    return "" if runs[0] is None or runs[1] is None else describe_layouts(runs[0], runs[1], names)


def why_of_predicted(baseline: BenchSummary, other: BenchSummary, verdict: str) -> str:
    """What a verdict rests on where a model gave times, or why it is unclear."""
    if verdict == "unclear":
        return phrase("the difference lies within what the model leaves open: only recordings decide")
    if baseline.predicted_for is None or other.predicted_for is None:
        return phrase("a prediction beside a measurement: the ratio has the errors of GPU and host")
    if baseline.predicted_for != other.predicted_for:
        return phrase("predicted for two GPUs: the ratio has the model's error")
    return phrase("both predicted: the same operators have the same error in both")

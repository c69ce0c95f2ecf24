"""Briefs of benchmarks, sweeps and comparisons."""

from __future__ import annotations

from collections.abc import Sequence

from perfmagic.analysis.bench.compare import CompareSummary, Comparison
from perfmagic.analysis.bench.quantity import is_far
from perfmagic.analysis.bench.result import BenchSummary, describe_times
from perfmagic.analysis.bench.same_work import NOTED, OK, REFUSED
from perfmagic.analysis.bench.sweep import SweepSummary
from perfmagic.analysis.diff.diff import TraceDiff
from perfmagic.results.briefs.form import Brief, microseconds, rounded, table
from perfmagic.results.briefs.runs import numbered, of_answer

_CHANGED = ("name", "kind", "a_ns", "b_ns", "diff_ns")
_OF_RANK = ("rank", "a_ns", "b_ns", "diff_ns", "compute_diff_ns", "exposed_waiting_diff_ns", "idle_diff_ns")
_WEIGHT = (REFUSED, NOTED, OK)  # what matters most is dropped last
_NOT_COMPARABLE = "not comparable"


def bench_brief(bench: BenchSummary) -> Brief:
    """A benchmark's medians with their intervals, who decides, and what its recorded run asks for."""
    rough = bench.predicted
    answer = [] if bench.answer is None else [of_answer(bench.answer, rough=rough)]
    numbers: dict[str, float | int] = {"n_samples": len(bench.returns.samples_s) if bench.returns else 0}
    for name, quantity in bench.quantities.items():
        ends = {"": quantity.median_s, "_low": quantity.low_s, "_high": quantity.high_s}
        ends |= {"_mean": quantity.mean_s} if quantity.mean_is_far else {}
        numbers |= {f"{name}{end}_us": microseconds(s * 1e9, rough=rough) for end, s in ends.items() if s is not None}
    return Brief(
        kind="bench",
        times=_times([bench]),
        says=bench.bottleneck or describe_times(bench),
        title=bench.name,
        devices=_labels([bench]),
        verdict=bench.supported_verdict or ("unclear" if bench.verdict else ""),
        reason=bench.failed or "",
        findings=numbered(answer),
        numbers=numbers,
        warnings=(bench.method, *(warning.sentence for warning in bench.warnings)),
    )


def compare_brief(result: CompareSummary) -> Brief:
    """Which of some benchmarks is faster, by how much, and whether they did the same work."""
    first = result.comparisons[0]
    more = result.comparisons[1:]
    return Brief(
        kind="comparison",
        times=_times(result.results),
        says=first.headline,
        title=f"{first.name} against {first.baseline}",
        devices=_labels(result.results),
        verdict=result.verdict,
        reason=result.not_comparable or (first.why if first.verdict == "unclear" else ""),
        numbers=_ratio(first),
        rows={"more": tuple({"name": c.name, "verdict": c.verdict, **_ratio(c)} for c in more)} if more else None,
        checks=tuple(sorted(result.checks, key=lambda check: _WEIGHT.index(check.outcome))),
        warnings=tuple(filter(None, (first.note,))),
    )


def sweep_brief(sweep: SweepSummary) -> Brief:
    """How the time grows with a size, or which variant is faster where."""
    results = [result for row in sweep.results for result in row]
    rough = sweep.predicted
    columns = ("value", "variant", "returns_s", "done_s", "times_as_fast", "comparison", "verdict")
    return Brief(
        kind="sweep",
        times=_times(results),
        says=sweep.sentence,
        title=sweep.name,
        devices=_labels(results),
        reason=sweep.failed,
        rows={"points": table(sweep.points, columns, most=60, rough=rough)},
    )


def trace_diff_brief(diff: TraceDiff) -> Brief:
    """What changed from one trace to another; one run of each, so nothing is said of chance."""
    rough = bool(diff.parts.predicted)
    whole = diff.whole
    numbers = {
        "a_us": microseconds(whole.a_ns, rough=rough),
        "b_us": microseconds(whole.b_ns, rough=rough),
        "diff_us": microseconds(whole.diff_ns, rough=rough),
    }
    verdict = "same" if not whole.diff_ns else "shorter" if whole.diff_ns < 0 else "longer"
    rows = {"parts": table(diff.parts, _CHANGED, rough=rough), "ranks": table(diff.ranks, _OF_RANK, rough=rough)}
    simulated = diff.a.simulated or diff.b.simulated
    predicted = diff.a.predicted or diff.b.predicted
    return Brief(
        kind="trace_comparison",
        times="predicted" if predicted else "simulated" if simulated else "measured",
        says=diff.headline,
        title=" against ".join(side.title or side.name for side in (diff.b, diff.a)),
        devices=tuple(dict.fromkeys(side.device_label for side in (diff.a, diff.b) if side.device_label)),
        verdict=_NOT_COMPARABLE if diff.no_verdict else verdict,
        reason=diff.no_verdict,
        numbers=numbers,
        rows={name: some for name, some in rows.items() if some},
        warnings=diff.notes,
    )


def _ratio(comparison: Comparison) -> dict[str, float | int]:
    if comparison.not_comparable is not None:
        return _times_of(comparison)
    rough = comparison.predicted != "none"
    ends = {
        "ratio": comparison.ratio,
        "ratio_low": comparison.ratio_low,
        "ratio_high": comparison.ratio_high,
    }
    return _times_of(comparison) | {name: rounded(end, rough=rough) for name, end in ends.items() if end is not None}


def _times_of(comparison: Comparison) -> dict[str, float | int]:
    ends = {"baseline_us": comparison.baseline_s, "name_us": comparison.name_s}
    if is_far(comparison.baseline_mean_s, comparison.baseline_s) or is_far(comparison.name_mean_s, comparison.name_s):
        ends |= {"baseline_mean_us": comparison.baseline_mean_s, "name_mean_us": comparison.name_mean_s}
    rough = comparison.predicted != "none"
    return {name: microseconds(s * 1e9, rough=rough) for name, s in ends.items()}


def _times(results: Sequence[BenchSummary]) -> str:
    if any(result.predicted for result in results):
        return "predicted"
    return "simulated" if any(result.simulated for result in results) else "measured"


def _labels(results: Sequence[BenchSummary]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(result.device_label or "CPU" for result in results))

"""A benchmark as a document: the sentence, who waited for whom, and the numbers in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from perfmagic import units
from perfmagic.analysis.bench.result import BenchResult, Quantity
from perfmagic.analysis.verdict import Verdict
from perfmagic.numerics.stats import DEPENDENT_RHO

NO_INTERVAL = "needs 6 samples"  # the fewest that have one at 95 % (perfmagic.numerics.stats)
NOTICEABLE_FRAC = 0.02  # of done: a shorter wait is not worth hatching or saying


@dataclass(frozen=True)
class Row:
    """One quantity in words and in samples. Times in seconds; token: its colour.

    median, interval, least, spread: with as many decimals as the interval's half-width needs.
    """

    name: str
    token: str
    quantity: Quantity
    median: str
    interval: str
    least: str
    spread: str
    far_out: str


@dataclass(frozen=True)
class BenchDoc:
    """What a benchmark's picture shows.

    lead, rest: the sentence, its first part in bold.  returns_s, done_s, span_s: medians, None where not measured;
    span_s also where it leaves out streams.
    waits_s: how long Python waited for the device; starves_s: how long the device waited for Python.
    """

    lead: str
    rest: str
    rows: tuple[Row, ...]
    returns_s: float | None
    done_s: float | None
    span_s: float | None
    synced: bool
    device_label: str
    simulated: bool
    method: tuple[str, ...]
    warnings: tuple[str, ...]
    failure: str

    @property
    def waits_s(self) -> float:
        return _noticeable((self.done_s or 0.0) - (self.returns_s or 0.0), self.done_s)

    @property
    def starves_s(self) -> float:
        return _noticeable((self.done_s or 0.0) - (self.span_s or 0.0), self.done_s) if self.span_s is not None else 0.0

    @property
    def sentence(self) -> str:
        return f"{self.lead} {self.rest}".strip()

    def row(self, name: str) -> Row | None:
        return next((row for row in self.rows if row.name == name), None)


def bench_doc(result: BenchResult) -> BenchDoc:
    """What the picture, the table and the text of a benchmark say."""
    measured = (
        ("returns", "launch", result.returns),
        ("device span", "matrix", result.span),
        ("done", "comp", result.done),
        ("queued", "dtod", result.queued),
    )
    rows = tuple(_row(name, token, quantity) for name, token, quantity in measured if quantity is not None)
    lead, rest = _sentence(result, rows)
    return BenchDoc(
        lead=lead,
        rest=rest,
        rows=rows,
        returns_s=result.returns.median_s if result.returns else None,
        done_s=result.done.median_s if result.done else None,
        span_s=result.span.median_s if result.span and not result.span_partial else None,
        synced=result.synced,
        device_label=result.device_label,
        simulated=result.simulated,
        method=tuple(part for part in _method(result) if part),
        warnings=result.warnings,
        failure=f"ended early: {result.failed}" if result.failed else "",
    )


def _row(name: str, token: str, quantity: Quantity) -> Row:
    step_ns = _step_ns(quantity)
    unit_ns = quantity.median_s * 1e9

    def bare(seconds: float) -> str:
        return units.duration_like(seconds * 1e9, step_ns, unit_of_ns=unit_ns, unit=False)

    known = quantity.low_s is not None and quantity.high_s is not None
    return Row(
        name=name,
        token=token,
        quantity=quantity,
        median=units.duration_like(unit_ns, step_ns, unit_of_ns=unit_ns),
        interval=f"{bare(quantity.low_s or 0.0)} – {bare(quantity.high_s or 0.0)}" if known else NO_INTERVAL,
        least=bare(quantity.min_s),
        spread=bare(quantity.iqr_s),
        far_out=f"{units.count(quantity.far_out)} of {units.count(quantity.n)}" if quantity.far_out else "–",
    )


def _step_ns(quantity: Quantity) -> float:
    """The first digit of the interval's half-width; the third of the median where there is no interval."""
    three_digits = 10.0 ** (math.floor(math.log10(max(quantity.median_s * 1e9, 1.0))) - 2)
    if quantity.low_s is None or quantity.high_s is None or quantity.high_s <= quantity.low_s:
        return three_digits
    half_ns = (quantity.high_s - quantity.low_s) / 2 * 1e9
    return max(three_digits / 10, 10.0 ** math.floor(math.log10(max(half_ns, 1e-3))))


def _sentence(result: BenchResult, rows: Sequence[Row]) -> tuple[str, str]:
    words = {row.name: row.median for row in rows}
    if "returns" not in words:
        return "No sample was completed.", ""
    if result.verdict is not None:
        return _verdict_words(result.verdict, words)
    if "done" not in words:
        return f"Python is back after {words['returns']}.", "No device was in use."
    later = result.done is not None and result.returns is not None
    if later and _noticeable(result.done.median_s - result.returns.median_s, result.done.median_s):  # type: ignore[union-attr]
        return f"Python is back after {words['returns']}; the device works until {words['done']}.", _advice(result)
    return f"Python is back after {words['returns']}; the device is done by then.", _advice(result)


def _verdict_words(verdict: Verdict, words: dict[str, str]) -> tuple[str, str]:
    """The verdict's kind in bold, the rest of its sentence after it."""
    times = f"Python is back after {words['returns']}" + (
        f", the device after {words['done']}" if "done" in words else ""
    )
    rest = verdict.sentence.removeprefix(verdict.kind).lstrip(" :,;")
    return f"{verdict.kind}:", f"{times}; in the recorded run {rest}" if rest else times


def _advice(result: BenchResult) -> str:
    return "" if result.synced else "%%syncbench would say who was the bottleneck"


def _method(result: BenchResult) -> tuple[str, ...]:
    return (
        result.method,
        _queued(result),
        _first_call(result),
        _rates(result),
        _memory(result),
        _runs(result),
        _widened(result),
        result.device_label,
    )


def _queued(result: BenchResult) -> str:
    return f"queued: a call, {units.count(result.queued_calls)} back to back" if result.queued is not None else ""


def _rates(result: BenchResult) -> str:
    """What the device achieved, by what the author says a call does."""
    known = ((result.flop_per_s, "FLOP/s"), (result.moved_bytes_per_s, "B/s"))
    return " · ".join(units.rate(value, unit) for value, unit in known if value is not None)


def _memory(result: BenchResult) -> str:
    if result.peak_bytes is None or result.held_bytes is None or not result.peak_bytes:
        return ""
    own = result.peak_bytes - result.held_bytes
    return f"peak on the device {units.size(result.peak_bytes)}, {units.size(own)} of it the cell's"


def _runs(result: BenchResult) -> str:
    """How far the medians of whole runs lie apart."""
    quantity = result.done or result.returns
    if quantity is None or len(quantity.run_medians_s) < 2:
        return ""
    low, high = min(quantity.run_medians_s), max(quantity.run_medians_s)
    return f"medians of {len(quantity.run_medians_s)} runs {units.duration_s(low)} – {units.duration_s(high)}"


def _widened(result: BenchResult) -> str:
    """By how much the intervals are wider for samples that resemble the ones before them."""
    each = [
        f"{name} × {units.significant(q.widened, 2)}"
        for name, q in result.quantities.items()
        if q.low_s is not None and q.autocorrelation > DEPENDENT_RHO
    ]
    return f"interval widened for samples that resemble the ones before: {', '.join(each)}" if each else ""


def _first_call(result: BenchResult) -> str:
    return "" if result.first_call_s is None else f"first call {units.duration_s(result.first_call_s)}, shown apart"


def _noticeable(wait_s: float, of_s: float | None) -> float:
    return wait_s if of_s and wait_s > NOTICEABLE_FRAC * of_s else 0.0

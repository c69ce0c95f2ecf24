"""How a benchmark was measured: one line under every result, and the details behind it."""

from __future__ import annotations

from collections.abc import Mapping

from perfmagic.analysis.bench.quantity import Quantity
from perfmagic.analysis.bench.queue_model import QueueModel
from perfmagic.numerics.stats import DEPENDENT_RHO
from perfmagic.samples import BenchRecord, Taken
from perfmagic.units import count, duration_s, plural, significant, size


def method_of(record: BenchRecord) -> str:
    """Samples, caches, why sampling ended and how often the body ran, in one line."""
    each = f" of {count(record.calls_per_sample)} calls" if record.calls_per_sample > 1 else ""
    parts = [
        plural(len(record.returns_s), "sample") + each,
        f"in {len(record.run_starts)} runs" if record.run_starts else "",
        warmth(record),
        _stopped(record),
        f"body ran {plural(record.body_runs, 'time')}",
    ]
    return " · ".join(part for part in parts if part)


def warmth(taken: Taken) -> str:
    """The state of caches and code that the samples found; cold wins, because the caches decide the times."""
    if taken.cold_bytes:
        return "cold caches"
    return "warm" if taken.warmed_up else "not warmed up"


def _stopped(record: BenchRecord) -> str:
    if record.failed or not record.stopped_by:  # a failure has a line of its own
        return ""
    return record.stopped_by + (" in the last of them" if record.run_starts else "")


def details(
    taken: Taken, quantities: Mapping[str, Quantity], first_call_s: float | None, model: QueueModel | None
) -> tuple[str, ...]:
    """What the line leaves out.  quantities: by name.  model: the queue model of the recorded run."""
    each = (
        f"cold: {size(taken.cold_bytes)} written over {taken.cold_of} before each sample" if taken.cold_bytes else "",
        "" if first_call_s is None else f"the first call took {duration_s(first_call_s)} and is not a sample",
        _memory(taken),
        f"queued: one of {count(taken.queued_calls)} calls in a row" if "queued" in quantities else "",
        _runs(quantities.get("done") or quantities.get("returns")),
        _widened(quantities),
        "" if model is None else f"queue model: {model.sentence}",
    )
    return tuple(one for one in each if one)


def _memory(taken: Taken) -> str:
    if taken.peak_bytes is None or taken.held_bytes is None or not taken.peak_bytes:
        return ""
    own = taken.peak_bytes - taken.held_bytes
    return f"peak device memory {size(taken.peak_bytes)}, {size(own)} allocated by the cell"


def _runs(quantity: Quantity | None) -> str:
    """The range of the medians of whole runs."""
    if quantity is None or len(quantity.run_medians_s) < 2:
        return ""
    low, high = min(quantity.run_medians_s), max(quantity.run_medians_s)
    return f"medians of {len(quantity.run_medians_s)} runs {duration_s(low)} – {duration_s(high)}"


def _widened(quantities: Mapping[str, Quantity]) -> str:
    each = [
        f"{name} × {significant(q.widened, 2)}"
        for name, q in quantities.items()
        if q.low_s is not None and q.autocorrelation > DEPENDENT_RHO
    ]
    return f"interval widened for autocorrelation: {', '.join(each)}" if each else ""

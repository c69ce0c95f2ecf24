"""The result of a benchmark: named quantities with units, computed from the samples.

`summarise` makes it from a BenchRecord; JSON keeps all of it but the raw record. Statistics:
perfmagic.base.numerics.stats.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from perfmagic.analysis.bench.quantity import UNCLEAR, Quantity, Waits, supported_kind, unconfirmed
from perfmagic.analysis.bench.queue_model import QueueModel, queue_model_of
from perfmagic.analysis.bench.saved import Saved, damage_of, of_format, read_json, restored
from perfmagic.analysis.bench.warnings import (
    QUEUED,
    BenchWarning,
    conditions,
    describe_conditions,
    span_partial,
    span_waits,
)
from perfmagic.analysis.findings.answer import Answer
from perfmagic.analysis.verdict import Verdict
from perfmagic.base.kinds import PredictedFor
from perfmagic.base.language import chained, counted, phrase
from perfmagic.base.numerics.stats import DEPENDENT_RHO
from perfmagic.base.units import count, duration_s, significant, size
from perfmagic.trace.json_form import Count, Seconds, one_of
from perfmagic.trace.model import devices_label, in_its_digits
from perfmagic.trace.rows import pandas
from perfmagic.trace.samples import BenchRecord, Taken

if TYPE_CHECKING:
    import pandas as pd
    from typing_extensions import Self


# How a benchmark was measured: one line under every result, and the details behind it.


def method_of(record: BenchRecord) -> str:
    """Samples, caches, why sampling ended and how often the body ran, in one line."""
    parts = [
        _samples(len(record.returns_s), record.calls_per_sample),
        phrase("in {n} runs", n=len(record.run_starts)) if record.run_starts else "",
        warmth(record),
        _stopped(record),
        counted(record.body_runs, "body ran {n} time", "body ran {n} times"),
    ]
    return chained("{a} · {b}", parts)


def _samples(n: int, calls: int) -> str:
    if calls > 1:
        return counted(n, "{n} sample of {calls} calls", "{n} samples of {calls} calls", calls=count(calls))
    return counted(n, "{n} sample", "{n} samples")


def warmth(taken: Taken) -> str:
    """The state of caches and code that the samples found; cold wins, because the caches decide the times."""
    if taken.cold_bytes:
        return phrase("cold caches")
    return phrase("warm") if taken.warmed_up else phrase("not warmed up")


def _stopped(record: BenchRecord) -> str:
    if record.failed or not record.stopped_by:  # a failure has a line of its own
        return ""
    return phrase("{reason} in the last of them", reason=record.stopped_by) if record.run_starts else record.stopped_by


def details(
    taken: Taken, quantities: Mapping[str, Quantity], first_call_s: float | None, model: QueueModel | None
) -> tuple[str, ...]:
    """What the line leaves out.  quantities: by name.  model: the queue model of the recorded run."""
    each = (
        _cold(taken),
        "" if first_call_s is None else _first_call(first_call_s),
        _memory(taken),
        phrase("queued: one of {n} calls in a row", n=count(taken.queued_calls)) if "queued" in quantities else "",
        _runs(quantities.get("done") or quantities.get("returns")),
        _widened(quantities),
        "" if model is None else phrase("queue model: {sentence}", sentence=model.sentence),
    )
    return tuple(detail for detail in each if detail)


def _cold(taken: Taken) -> str:
    if not taken.cold_bytes:
        return ""
    return phrase(
        "cold: {size} written over {what} before each sample", size=size(taken.cold_bytes), what=taken.cold_of
    )


def _first_call(first_call_s: float) -> str:
    return phrase("the first call took {time} and is not a sample", time=duration_s(first_call_s))


def _memory(taken: Taken) -> str:
    if taken.peak_bytes is None or taken.held_bytes is None or not taken.peak_bytes:
        return ""
    own = taken.peak_bytes - taken.held_bytes
    return phrase("peak device memory {peak}, {own} allocated by the cell", peak=size(taken.peak_bytes), own=size(own))


def _runs(quantity: Quantity | None) -> str:
    """The range of the medians of whole runs."""
    if quantity is None or len(quantity.run_medians_s) < 2:
        return ""
    low, high = min(quantity.run_medians_s), max(quantity.run_medians_s)
    n = len(quantity.run_medians_s)
    return phrase("medians of {n} runs {low} – {high}", n=n, low=duration_s(low), high=duration_s(high))


def _widened(quantities: Mapping[str, Quantity]) -> str:
    each = [
        phrase("{quantity} × {factor}", quantity=phrase(name), factor=significant(q.widened, 2))
        for name, q in quantities.items()
        if q.low_s is not None and q.autocorrelation > DEPENDENT_RHO
    ]
    return phrase("interval widened for autocorrelation: {each}", each=chained("{a}, {b}", each)) if each else ""


__all__ = ["BenchSummary", "BenchWarning", "Quantity", "QueueModel", "summarise"]

_FORMAT = "perfmagic bench 4"
# what is missing in an older one has a default
_FORMATS = ("perfmagic bench 1", "perfmagic bench 2", "perfmagic bench 3", _FORMAT)


@dataclass(frozen=True)
class BenchSummary(Taken, Saved):
    """The result of a benchmark; the fields of Taken say how it was taken. Times are in seconds.

    format: what kind of file it is; the number is raised by what changes the meaning of a key.
    name: what it is called; may be empty.
    synced: whether it asked for the bottleneck.
    first_call_s: the first call; None where none was completed.
    device_label: the device in words; empty without one.
    simulated: whether it is a simulated device.
    n_calls: how often the body ran in all.
    stopped_by: why sampling ended.
    warnings: what may disturb it.
    method: how it was measured, in one line.
    span_partial: the cell used streams whose work the device span leaves out.
    span_waits: the cell waits for its own work, and the device span contains that.
    returns: until the last line gave control back; None without a sample.
    done: until every device was idle; None without a device.
    span: the device span; None where not measured.
    queued: one of several queued calls; None unless asked for.
    verdict: of the recorded run; None without one.
    queue_model: of the same run; None without one.
    answer: what the same run asks for first; None where the samples contradict its verdict.
    predicted_for: the GPU whose model gave its times; None for measured ones.
    record: the raw record; None after from_json.
    """

    leading = ("format",)
    left_out = ("record",)

    name: str
    synced: bool
    returns: Quantity | None
    done: Quantity | None
    span: Quantity | None
    first_call_s: Seconds | None
    verdict: Verdict | None
    queue_model: QueueModel | None
    device_label: str
    simulated: bool
    n_calls: Count
    stopped_by: str
    warnings: tuple[BenchWarning, ...]
    method: str
    span_partial: bool = False
    span_waits: bool = False
    queued: Quantity | None = None
    answer: Answer | None = None
    predicted_for: PredictedFor | None = None
    record: BenchRecord | None = field(default=None, compare=False)

    @property
    def returns_s(self) -> float | None:
        """The median of *returns*."""
        return _median(self.returns)

    @property
    def done_s(self) -> float | None:
        """The median of *done*."""
        return _median(self.done)

    @property
    def span_s(self) -> float | None:
        """The median of the device span."""
        return _median(self.span)

    @property
    def queued_s(self) -> float | None:
        """The median of one of several queued calls."""
        return _median(self.queued)

    @property
    def work_s(self) -> float | None:
        """The time that rates divide by: the device span where it is complete, else done, else returns."""
        return next((s for s in (_median(self.whole_span), self.done_s, self.returns_s) if s is not None), None)

    @property
    def whole_span(self) -> Quantity | None:
        """The device span, None where it leaves out streams, or contains the waits of a cell that synchronises."""
        return None if self.span_partial or self.span_waits else self.span

    @property
    def waits(self) -> Waits | None:
        """Who waited for whom in the samples; None without a device."""
        return Waits.of(self.returns, self.done, self.whole_span)

    @property
    def supported_verdict(self) -> str:
        """The kind of the verdict where the samples do not contradict it; "" where they do, and without a verdict."""
        return "" if self.verdict is None else supported_kind(self.verdict.kind, self.waits, self.whole_span)

    @property
    def predicted(self) -> bool:
        """Whether a GPU's model gave its times."""
        return self.predicted_for is not None

    @property
    def bottleneck(self) -> str:
        """The verdict in words, or that it is unclear because the samples contradict it; "" without a verdict."""
        if self.verdict is None or self.supported_verdict:
            return "" if self.verdict is None else self.verdict.sentence
        return phrase("{kind}: {detail}", kind=phrase(UNCLEAR), detail=unconfirmed(self.verdict.kind))

    @property
    def details(self) -> tuple[str, ...]:
        """What `method` leaves out: the first call, memory, calls in a row, runs, widened intervals."""
        return details(self, self.quantities, self.first_call_s, self.queue_model)

    @property
    def flop_per_s(self) -> float | None:
        """Floating-point operations per second; None where the user gave no --flops."""
        return self.flop / self.work_s if self.flop is not None and self.work_s else None

    @property
    def moved_bytes_per_s(self) -> float | None:
        """Bytes moved per second; None where the user gave no --bytes."""
        return self.moved_bytes / self.work_s if self.moved_bytes is not None and self.work_s else None

    @property
    def quantities(self) -> dict[str, Quantity]:
        """Those that were measured, by name: returns, span, done, queued."""
        named = {"returns": self.returns, "span": self.span, "done": self.done, "queued": self.queued}
        return {name: quantity for name, quantity in named.items() if quantity is not None}

    @property
    def format(self) -> Annotated[str, one_of(_FORMAT)]:
        return _FORMAT

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The result that save() wrote, if it has no name with the file's. Raises OptionError for other files."""
        return super().load(path).named(Path(path).stem)

    def named(self, name: str) -> Self:
        """The same with this name, if it has none."""
        return self if self.name else replace(self, name=name)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The result that to_json() wrote, without the raw record; also of older versions.

        Raises OptionError for other text.
        """
        return cls.from_plain(read_json(text))

    @classmethod
    def from_plain(cls, data: Any) -> Self:
        """The result whose to_dict() this is. Raises OptionError for anything else."""
        hint = "result.save() writes one; SweepResult and CompareResult read the other kinds"
        with damage_of("benchmark result"):
            found = restored(of_format(data, _FORMATS, "single benchmark", hint), cls)
            # an older file says it in words alone
            return replace(found, predicted_for=found.predicted_for or PredictedFor.read(found.device_label))

    def to_frame(self) -> pd.DataFrame:
        """One row per sample: quantity, run, sample (its place in the order taken), seconds. Needs pandas.

        run: the whole run it belongs to, from 0; span and queued are measured in the last.
        """
        starts = self.run_starts[1:]
        rows = [
            (name, bisect_right(starts, i) if name in ("returns", "done") else len(starts), i, s)
            for name, q in self.quantities.items()
            for i, s in enumerate(q.samples_s)
        ]
        frame: pd.DataFrame = pandas().DataFrame(rows, columns=["quantity", "run", "sample", "seconds"])
        return frame

    @in_its_digits
    def __repr__(self) -> str:
        ended = f"ended early: {self.failed}" if self.failed else ""
        parts = [describe_times(self), self.bottleneck, ended, self.method, self.device_label]
        paragraph = " · ".join(part for part in parts if part)
        return f"{self.name}: {paragraph}" if self.name else paragraph


def summarise(record: BenchRecord, verdict: Verdict | None = None) -> BenchSummary:
    """The result of a record.  verdict: of its recorded run, where there was one."""
    returns, done = (Quantity.of(samples, record.run_starts) for samples in (record.returns_s, record.done_s))
    span, queued = (Quantity.of(samples) for samples in (record.span_s, record.queued_s))
    named = {"returns": returns, "device span": span, "done": done, QUEUED: queued}
    measured = {name: quantity for name, quantity in named.items() if quantity is not None}
    return BenchSummary(
        name=record.name,
        synced=record.synced,
        returns=returns,
        done=done,
        span=span,
        first_call_s=float(record.first_calls_s[0]) if len(record.first_calls_s) else None,
        verdict=verdict,
        queue_model=queue_model_of(record, record.trace) if record.trace is not None else None,
        device_label=devices_label(record.devices),
        simulated=any(device.simulated for device in record.devices),
        n_calls=record.body_runs,
        stopped_by=record.stopped_by,
        warnings=describe_conditions(conditions(record, measured, verdict.kind if verdict is not None else ""), record),
        method=method_of(record),
        span_partial=span_partial(record, span),
        span_waits=span_waits(record),
        queued=queued,
        predicted_for=next((info.predicted for info in record.devices if info.predicted), None),
        record=record,
        **record.taken(),
    )


def _median(quantity: Quantity | None) -> float | None:
    return quantity.median_s if quantity is not None else None


def describe_times(result: BenchSummary) -> str:
    """Each quantity's median in words."""
    if result.returns is None:
        return "no sample was completed"
    times = [f"Python returned after {_describe_quantity(result.returns)}"]
    if result.done is not None:
        times.append(f"device finished after {_describe_quantity(result.done)}")
    if result.span is not None:
        times.append(f"device span {_describe_quantity(result.span)}")
    if result.queued is not None:
        times.append(f"{_describe_quantity(result.queued)} {QUEUED}")
    return " · ".join(times)


def _describe_quantity(quantity: Quantity) -> str:
    """The median, and the mean where it is far."""
    mean = f" (mean {duration_s(quantity.mean_s)})" if quantity.mean_is_far else ""
    return f"{duration_s(quantity.median_s)}{mean}"

"""The result of a benchmark: named quantities with units, stated from the samples.

`summarise` makes it from a BenchRecord; it goes to JSON and back without loss. Statistics: perfmagic.numerics.stats.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from perfmagic.analysis.course import CourseModel, course_model
from perfmagic.analysis.overlap import breakdown
from perfmagic.analysis.rows import pandas
from perfmagic.analysis.verdict import Verdict
from perfmagic.errors import OptionError
from perfmagic.numerics import stats
from perfmagic.trace.model import devices_label
from perfmagic.trace.samples import BenchRecord
from perfmagic.units import NBSP, count, duration_s, plural, significant

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["BenchResult", "CourseModel", "Quantity", "course_model", "summarise"]

_FORMAT = "perfmagic bench 1"
_SLOW_RECORDING = 2.0  # recording costs 5 to 10 µs a launch (KINETO); a run slower than this met something else
# a span that saw none of the work is microseconds long; one with the queue kept full may be half of the time that the
# ops of a starved device took one by one
_UNSEEN_FRAC = 0.1
_DRIFT_SAID_FRAC = 0.01  # the half-width a run aims at: a smaller drift does not show in the numbers


@dataclass(frozen=True)
class Quantity:
    """One measured time, in seconds: its samples in the order taken, and what they say.

    low_s, high_s: 95 % interval of the median within this run, None below 6 samples.  far_out: samples beyond three IQR
    (kept in all numbers).  autocorrelation: of a sample with the one before; above 0.2 the interval has been widened.
    """

    samples_s: tuple[float, ...]
    median_s: float
    low_s: float | None
    high_s: float | None
    min_s: float
    iqr_s: float
    far_out: int
    autocorrelation: float
    drift_frac: float

    @classmethod
    def of(cls, samples_s: Sequence[float] | stats.Samples) -> Quantity | None:
        """The quantity these samples measure, None without any."""
        samples = np.asarray(samples_s, np.float64)
        if not len(samples):
            return None
        low, high = stats.median_interval(samples) or (None, None)
        return cls(
            samples_s=tuple(samples.tolist()),
            median_s=float(np.median(samples)),
            low_s=None if low is None else max(0.0, low),  # a widened interval may leave what a time can be
            high_s=high,
            min_s=float(samples.min()),
            iqr_s=stats.iqr(samples),
            far_out=int(stats.beyond_fence(samples).sum()),
            autocorrelation=stats.autocorrelation(samples),
            drift_frac=stats.drift_frac(samples),
        )

    @property
    def n(self) -> int:
        return len(self.samples_s)

    @property
    def widened(self) -> float:
        """How many times wider the interval is for the autocorrelation; 1 for independent samples."""
        return stats.widening(self.autocorrelation)

    @cached_property
    def far_out_samples(self) -> tuple[bool, ...]:
        """For each sample whether it is far out: drawn hollow."""
        return tuple(stats.beyond_fence(np.array(self.samples_s)).tolist())


@dataclass(frozen=True)
class BenchResult:
    """What a benchmark found out.

    returns: until Python came back.  done: until every device was idle, None without a device.  span: the device span,
    None where it was not taken.  n_calls: how often the body ran in all.  method: how it was measured, in one line.
    span_partial: the cell used streams whose work the device span leaves out.
    session: of the process that took it.  round_id: shared by those taken in turns, empty for one taken alone.
    failed: what ended it early, in words; the samples before it are here.  record: raw, None after from_json.
    """

    name: str
    synced: bool
    returns: Quantity | None
    done: Quantity | None
    span: Quantity | None
    first_call_s: float | None
    verdict: Verdict | None
    course: CourseModel | None
    device_label: str
    simulated: bool
    n_calls: int
    stopped_by: str
    warnings: tuple[str, ...]
    method: str
    span_partial: bool = False
    failed: str = ""
    code: str = ""
    options: str = ""
    taken_unix_ns: int = 0
    session: str = ""
    round_id: str = ""
    record: BenchRecord | None = field(default=None, compare=False)

    @property
    def returns_s(self) -> float | None:
        return _median(self.returns)

    @property
    def done_s(self) -> float | None:
        return _median(self.done)

    @property
    def span_s(self) -> float | None:
        return _median(self.span)

    @property
    def quantities(self) -> dict[str, Quantity]:
        """Those that were measured, by name, in the order of the queue: returns, span, done."""
        named = {"returns": self.returns, "span": self.span, "done": self.done}
        return {name: quantity for name, quantity in named.items() if quantity is not None}

    def to_dict(self) -> dict[str, Any]:
        """All of it but the raw record, ready for JSON; times in seconds."""
        plain = {key: value for key, value in vars(self).items() if key not in ("record", *_NESTED)}
        nested = {key: None if getattr(self, key) is None else asdict(getattr(self, key)) for key in _NESTED}
        return {"format": _FORMAT, **plain, "warnings": list(self.warnings), **nested}

    def to_json(self) -> str:
        """to_dict() as JSON text; BenchResult.from_json reads it back."""
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> BenchResult:
        """The result that to_json() wrote, equal to it, without the raw record. Raises OptionError for other text."""
        try:
            data = json.loads(text)
        except ValueError as error:
            raise OptionError(f"this is no JSON: {error}") from None
        found = data.pop("format", None) if isinstance(data, dict) else None
        if found != _FORMAT:
            raise OptionError(
                f"this is no benchmark result of this version: format {found!r}, expected {_FORMAT!r}",
                hint="BenchResult.to_json() writes one",
            )
        try:
            return cls(**_restored(data))
        except (KeyError, TypeError) as error:
            raise OptionError(f"this benchmark result is damaged: {error}") from None

    def to_frame(self) -> pd.DataFrame:
        """One row a sample: quantity, sample (its place in the order taken), seconds. Needs pandas."""
        rows = [(name, i, s) for name, q in self.quantities.items() for i, s in enumerate(q.samples_s)]
        frame: pd.DataFrame = pandas().DataFrame(rows, columns=["quantity", "sample", "seconds"])
        return frame

    def __repr__(self) -> str:
        parts = [_times_in_words(self), self.verdict.sentence if self.verdict else "", self.method, self.device_label]
        paragraph = " · ".join(part for part in parts if part)
        return f"{self.name}: {paragraph}" if self.name else paragraph


_NESTED = ("returns", "done", "span", "verdict", "course")


def summarise(record: BenchRecord, verdict: Verdict | None = None) -> BenchResult:
    """State what a record says; verdict: of its recorded run, where there was one."""
    returns, done, span = (Quantity.of(samples) for samples in (record.returns_s, record.done_s, record.span_s))
    named = {"returns": returns, "device span": span, "done": done}
    measured = {name: quantity for name, quantity in named.items() if quantity is not None}
    return BenchResult(
        name=record.name,
        synced=record.synced,
        returns=returns,
        done=done,
        span=span,
        first_call_s=float(record.first_calls_s[0]) if len(record.first_calls_s) else None,
        verdict=verdict,
        course=course_model(record, record.trace) if record.trace is not None else None,
        device_label=devices_label(record.devices),
        simulated=any(device.simulated for device in record.devices),
        n_calls=record.body_runs,
        stopped_by=record.stopped_by,
        warnings=(
            *record.warnings,
            *_dependence(measured),
            *_drifts(measured),
            *_slow_recording(record, done),
            *_other_streams(record, span),
        ),
        method=_method(record),
        span_partial=_span_partial(record, span),
        failed=record.failed,
        code=record.code,
        options=record.options,
        taken_unix_ns=record.taken_unix_ns,
        session=record.session,
        round_id=record.round_id,
        record=record,
    )


def _restored(data: dict[str, Any]) -> dict[str, Any]:
    """What to_dict wrote, with its objects made again; statistics are computed anew from the samples."""
    quantities = {key: data[key] and Quantity.of(data[key]["samples_s"]) for key in ("returns", "done", "span")}
    return {
        **data,
        **quantities,
        "verdict": data["verdict"] and Verdict(**{**data["verdict"], "lines": tuple(data["verdict"]["lines"])}),
        "course": data["course"] and CourseModel(**data["course"]),
        "warnings": tuple(data["warnings"]),
    }


def _median(quantity: Quantity | None) -> float | None:
    return quantity.median_s if quantity is not None else None


def _times_in_words(result: BenchResult) -> str:
    if result.returns is None:
        return "no sample was completed"
    words = [f"Python returned after {duration_s(result.returns.median_s)}"]
    if result.done is not None:
        words.append(f"device finished after {duration_s(result.done.median_s)}")
    if result.span is not None:
        words.append(f"device span {duration_s(result.span.median_s)}")
    return " · ".join(words)


def _method(record: BenchRecord) -> str:
    warm = record.warmup_calls > 0 or len(record.first_calls_s) > 1
    parts = [
        plural(len(record.returns_s), "sample") + _calls_each(record.calls_per_sample),
        "warm" if warm else "not warmed up",
        record.stopped_by,
        f"body ran {plural(record.body_runs, 'time')}",
    ]
    return " · ".join(part for part in parts if part)


def _calls_each(n: int) -> str:
    return f" of {count(n)} calls" if n > 1 else ""


def _dependence(measured: dict[str, Quantity]) -> list[str]:
    """Says which intervals were widened because samples depend on those before."""
    widened = {name: q for name, q in measured.items() if q.low_s is not None and q.widened > 1}
    if not widened:
        return []
    each = ", ".join(
        f"{name} ρ = {q.autocorrelation:.2f}, × {significant(q.widened, 2)}" for name, q in widened.items()
    )
    return [f"samples are not independent: intervals widened ({each})"]


def _drifts(measured: dict[str, Quantity]) -> list[str]:
    moved = {name: q.drift_frac for name, q in measured.items() if abs(q.drift_frac) > _DRIFT_SAID_FRAC}
    return [
        f"{name} {'rose' if frac > 0 else 'fell'} by {significant(abs(frac) * 100, 2)}{NBSP}% during the run"
        for name, frac in moved.items()
    ]


def _n_streams(record: BenchRecord) -> int:
    """Streams on which the recorded run executed something, 0 without one."""
    ops = record.trace.ops if record.trace is not None else None
    return 0 if ops is None else len(np.unique(np.stack((ops.device, ops.stream)), axis=1).T)


def _other_streams(record: BenchRecord, span: Quantity | None) -> list[str]:
    """Says that events see the current stream only. Source: MEASURING, "Inner loop"."""
    if not _span_partial(record, span):
        return []
    n = _n_streams(record)
    where = f"{n} streams" if n > 1 else "a stream that is not the current one"
    return [f"the cell works on {where} and the device span sees the current one only: %%timeline shows all"]


def _span_partial(record: BenchRecord, span: Quantity | None) -> bool:
    """Whether the events of the span missed work: on several streams, or where it is far shorter than the busy time."""
    if span is None or record.trace is None or not len(record.trace.ops):
        return False
    busy_ns = max(breakdown(record.trace, device).busy_ns for device in record.trace.device_ids)
    return _n_streams(record) > 1 or span.median_s * 1e9 < busy_ns * _UNSEEN_FRAC


def _slow_recording(record: BenchRecord, done: Quantity | None) -> list[str]:
    """Says when the one recorded run is not like the samples, so that verdict and model may not hold for them."""
    if record.trace is None or done is None:
        return []
    recorded_s = (record.trace.meta.end_ns - record.trace.meta.start_ns) / 1e9
    if recorded_s <= _SLOW_RECORDING * done.median_s:
        return []
    return [f"the recorded run took {duration_s(recorded_s)}: the verdict rests on it and may not hold for the samples"]

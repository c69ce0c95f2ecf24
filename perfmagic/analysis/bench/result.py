"""The result of a benchmark: named quantities with units, stated from the samples.

`summarise` makes it from a BenchRecord; it goes to JSON and back without loss. Statistics: perfmagic.numerics.stats.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfmagic.analysis.bench.conditions import QUEUED, span_partial, warnings
from perfmagic.analysis.bench.quantity import Quantity
from perfmagic.analysis.bench.queue_model import CourseModel, course_model
from perfmagic.analysis.bench.saved import Saved, damaged, parsed
from perfmagic.analysis.rows import pandas
from perfmagic.analysis.verdict import Verdict
from perfmagic.samples import BenchRecord, ClockRecord, Taken
from perfmagic.trace.model import devices_label
from perfmagic.units import count, duration_s, plural, size

if TYPE_CHECKING:
    import pandas as pd
    from typing_extensions import Self

__all__ = ["BenchResult", "CourseModel", "Quantity", "course_model", "summarise"]

_FORMAT = "perfmagic bench 3"
_FORMATS = ("perfmagic bench 1", "perfmagic bench 2", _FORMAT)  # what is missing in an older one has a default


@dataclass(frozen=True)
class BenchResult(Taken, Saved):
    """What a benchmark found out; how it was taken stands in the fields of Taken.

    returns: until Python came back.  done: until every device was idle, None without a device.  span: the device span,
    None where it was not taken.  queued: per call, queued; None where not asked for.
    n_calls: how often the body ran in all.  method: how it was measured, in one line.
    span_partial: the cell used streams whose work the device span leaves out.
    record: raw, None after from_json.
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
    queued: Quantity | None = None
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
    def queued_s(self) -> float | None:
        return _median(self.queued)

    @property
    def work_s(self) -> float | None:
        """The time that rates are of: the device span where it was taken whole, else done, else returns."""
        span_s = None if self.span_partial else self.span_s
        return next((s for s in (span_s, self.done_s, self.returns_s) if s is not None), None)

    @property
    def flop_per_s(self) -> float | None:
        """Floating-point operations a second, where the author says how many a call has."""
        return self.flop / self.work_s if self.flop is not None and self.work_s else None

    @property
    def moved_bytes_per_s(self) -> float | None:
        """Bytes moved a second, where the author says how many a call moves."""
        return self.moved_bytes / self.work_s if self.moved_bytes is not None and self.work_s else None

    @property
    def quantities(self) -> dict[str, Quantity]:
        """Those that were measured, by name, in the order of the queue: returns, span, done; then queued."""
        named = {"returns": self.returns, "span": self.span, "done": self.done, "queued": self.queued}
        return {name: quantity for name, quantity in named.items() if quantity is not None}

    def to_dict(self) -> dict[str, Any]:
        """All of it but the raw record, ready for JSON; times in seconds."""
        plain = {key: value for key, value in vars(self).items() if key not in ("record", *_NESTED)}
        nested = {key: None if getattr(self, key) is None else asdict(getattr(self, key)) for key in _NESTED}
        given = {
            "warnings": list(self.warnings),
            "clocks": [asdict(one) for one in self.clocks],
            "settings": dict(self.settings),
            "environment": dict(self.environment),
        }
        return {"format": _FORMAT, **plain, **given, **nested}

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The result that save() wrote, called like the file where it has no name; OptionError for other files."""
        return super().load(path).named(Path(path).stem)

    def named(self, name: str) -> Self:
        """The same, called so if it has no name."""
        return self if self.name else replace(self, name=name)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The result that to_json() wrote, equal to it, without the raw record. Raises OptionError for other text."""
        data = parsed(
            text,
            _FORMATS,
            "single benchmark",
            hint="the save() of a result writes one; SweepResult and CompareResult read the other kinds",
        )
        try:
            return cls(**_restored(data))
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise damaged("benchmark result", error) from None

    def to_frame(self) -> pd.DataFrame:
        """One row a sample: quantity, run, sample (its place in the order taken), seconds. Needs pandas.

        run: which whole run it is of, from 0; what is taken after the runs (span, queued) is of the last.
        """
        starts = self.run_starts[1:]
        rows = [
            (name, bisect_right(starts, i) if name in ("returns", "done") else len(starts), i, s)
            for name, q in self.quantities.items()
            for i, s in enumerate(q.samples_s)
        ]
        frame: pd.DataFrame = pandas().DataFrame(rows, columns=["quantity", "run", "sample", "seconds"])
        return frame

    def __repr__(self) -> str:
        ended = f"ended early: {self.failed}" if self.failed else ""
        verdict = self.verdict.sentence if self.verdict else ""
        parts = [_times_in_words(self), verdict, ended, self.method, self.device_label]
        paragraph = " · ".join(part for part in parts if part)
        return f"{self.name}: {paragraph}" if self.name else paragraph


_NESTED = ("returns", "done", "span", "queued", "verdict", "course")


def summarise(record: BenchRecord, verdict: Verdict | None = None) -> BenchResult:
    """State what a record says; verdict: of its recorded run, where there was one."""
    returns, done = (Quantity.of(samples, record.run_starts) for samples in (record.returns_s, record.done_s))
    span, queued = (Quantity.of(samples) for samples in (record.span_s, record.queued_s))
    named = {"returns": returns, "device span": span, "done": done, QUEUED: queued}
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
        warnings=warnings(record, measured, verdict.kind if verdict is not None else ""),
        method=_method(record),
        span_partial=span_partial(record, span),
        queued=queued,
        record=record,
        **record.taken(),
    )


def _restored(data: dict[str, Any]) -> dict[str, Any]:
    """What to_dict wrote, with its objects made again; statistics are computed anew from the samples."""
    starts = tuple(data.get("run_starts", ()))

    def quantity(key: str, starts: tuple[int, ...] = ()) -> Quantity | None:
        return Quantity.of(data[key]["samples_s"], starts) if data.get(key) else None

    quantities = {
        "returns": quantity("returns", starts),
        "done": quantity("done", starts),
        "span": quantity("span"),
        "queued": quantity("queued"),
    }
    data.pop("options", None)  # an empty text of earlier files
    return {
        **data,
        **quantities,
        "verdict": data["verdict"] and Verdict(**{**data["verdict"], "lines": tuple(data["verdict"]["lines"])}),
        "course": data["course"] and CourseModel(**data["course"]),
        "warnings": tuple(data["warnings"]),
        "run_starts": starts,
        "reference_s": tuple(data.get("reference_s", ())),
        "clocks": tuple(
            ClockRecord(**{**one, "sm_mhz": tuple(one["sm_mhz"]), "limited_by": tuple(one["limited_by"])})
            for one in data.get("clocks", ())
        ),
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
    if result.queued is not None:
        words.append(f"{duration_s(result.queued.median_s)} per call, queued")
    return " · ".join(words)


def _method(record: BenchRecord) -> str:
    warm = record.warmup_calls > 0 or len(record.first_calls_s) > 1
    warmth = (
        f"cold: {size(record.cold_bytes)} written over {record.cold_of} before each sample"
        if record.cold_bytes
        else "warm"
    )
    parts = [
        plural(len(record.returns_s), "sample") + _calls_each(record.calls_per_sample),
        f"in {len(record.run_starts)} runs" if record.run_starts else "",
        warmth if warm or record.cold_bytes else "not warmed up",
        _stopped(record),
        f"body ran {plural(record.body_runs, 'time')}",
    ]
    return " · ".join(part for part in parts if part)


def _stopped(record: BenchRecord) -> str:
    if record.failed or not record.stopped_by:  # what failed is said by itself
        return ""
    return record.stopped_by + (" in the last of them" if record.run_starts else "")


def _calls_each(n: int) -> str:
    return f" of {count(n)} calls" if n > 1 else ""

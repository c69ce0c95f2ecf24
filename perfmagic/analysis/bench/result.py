"""The result of a benchmark: named quantities with units, computed from the samples.

`summarise` makes it from a BenchRecord; JSON keeps all of it but the raw record. Statistics: perfmagic.numerics.stats.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfmagic.analysis.bench.bottleneck import UNCLEAR, Waits, supported_kind, unconfirmed
from perfmagic.analysis.bench.conditions import QUEUED, conditions, span_partial, span_waits
from perfmagic.analysis.bench.method import details, method_of
from perfmagic.analysis.bench.quantity import Quantity
from perfmagic.analysis.bench.queue_model import QueueModel, queue_model_of
from perfmagic.analysis.bench.saved import Saved, damaged, parsed
from perfmagic.analysis.bench.warnings import BenchWarning, worded
from perfmagic.analysis.rows import pandas
from perfmagic.analysis.verdict import Verdict
from perfmagic.samples import BenchRecord, ClockRecord, Taken
from perfmagic.trace.model import devices_label
from perfmagic.units import duration_s

if TYPE_CHECKING:
    import pandas as pd
    from typing_extensions import Self

__all__ = ["BenchSummary", "BenchWarning", "Quantity", "QueueModel", "summarise"]

_FORMAT = "perfmagic bench 4"
# what is missing in an older one has a default
_FORMATS = ("perfmagic bench 1", "perfmagic bench 2", "perfmagic bench 3", _FORMAT)


@dataclass(frozen=True)
class BenchSummary(Taken, Saved):
    """The result of a benchmark; the fields of Taken say how it was taken. Times are in seconds.

    synced: whether it asked for the bottleneck (%%syncbench).
    returns: until the body's last line gave control back.  done: until every device was idle, None without a device.
    span: the device span, None where it was not measured.  queued: of one of several queued calls, None unless asked
    for.  first_call_s: the first call, which is in no other number.
    verdict: of the one recorded run, None without one.  queue_model: from the same run.
    n_calls: how often the body ran in all.  stopped_by: why sampling ended.
    warnings: what may disturb it, as data with words.  method: how it was measured, in one line; details has the rest.
    span_partial: the cell used streams whose work the device span leaves out.  span_waits: the cell waits for its own
    work, and the device span contains the time between.
    record: the raw record, None after from_json.
    """

    name: str
    synced: bool
    returns: Quantity | None
    done: Quantity | None
    span: Quantity | None
    first_call_s: float | None
    verdict: Verdict | None
    queue_model: QueueModel | None
    device_label: str
    simulated: bool
    n_calls: int
    stopped_by: str
    warnings: tuple[BenchWarning, ...]
    method: str
    span_partial: bool = False
    span_waits: bool = False
    queued: Quantity | None = None
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
    def bottleneck(self) -> str:
        """The verdict in words, or that it is unclear because the samples contradict it; "" without a verdict."""
        if self.verdict is None or self.supported_verdict:
            return "" if self.verdict is None else self.verdict.sentence
        return f"{UNCLEAR}: {unconfirmed(self.verdict.kind)}"

    @property
    def details(self) -> tuple[str, ...]:
        """What `method` leaves out: the first call, memory, calls in a row, runs, widened intervals."""
        return details(self, self.quantities, self.first_call_s, self.queue_model)

    @property
    def flop_per_s(self) -> float | None:
        """Floating-point operations per second; None where the user gave no --flop."""
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

    def to_dict(self) -> dict[str, Any]:
        """All of it but the raw record, ready for JSON; times in seconds."""
        plain = {key: value for key, value in vars(self).items() if key not in ("record", *_NESTED)}
        nested = {key: None if getattr(self, key) is None else asdict(getattr(self, key)) for key in _NESTED}
        given = {
            "warnings": [one.to_dict() for one in self.warnings],
            "clocks": [asdict(one) for one in self.clocks],
            "settings": dict(self.settings),
            "environment": dict(self.environment),
        }
        return {"format": _FORMAT, **plain, **given, **nested}

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

    def __repr__(self) -> str:
        ended = f"ended early: {self.failed}" if self.failed else ""
        parts = [_times_in_words(self), self.bottleneck, ended, self.method, self.device_label]
        paragraph = " · ".join(part for part in parts if part)
        return f"{self.name}: {paragraph}" if self.name else paragraph


_NESTED = ("returns", "done", "span", "queued", "verdict", "queue_model")


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
        warnings=worded(conditions(record, measured, verdict.kind if verdict is not None else ""), record),
        method=method_of(record),
        span_partial=span_partial(record, span),
        span_waits=span_waits(record),
        queued=queued,
        record=record,
        **record.taken(),
    )


def _restored(data: dict[str, Any]) -> dict[str, Any]:
    """The fields from what to_dict wrote; statistics are computed anew from the samples."""
    starts = tuple(data.get("run_starts", ()))
    model = data.pop("course") if "course" in data else data["queue_model"]  # its name up to format 3
    data.pop("options", None)  # an empty text in format 1
    return {
        **data,
        # earlier formats keep a magic's line in the code, and what was asked for in the settings
        "magic": data.get("magic", "%%bench" if data.get("code", "").lstrip().startswith("%") else ""),
        "warmed_up": data.get("warmed_up", (data.get("settings") or {}).get("warmup") != 0),
        "returns": Quantity.restored(data.get("returns"), starts),
        "done": Quantity.restored(data.get("done"), starts),
        "span": Quantity.restored(data.get("span")),
        "queued": Quantity.restored(data.get("queued")),
        "verdict": data["verdict"] and Verdict(**{**data["verdict"], "lines": tuple(data["verdict"]["lines"])}),
        "queue_model": model and QueueModel(**model),
        "warnings": tuple(BenchWarning.restored(one) for one in data["warnings"]),
        "run_starts": starts,
        "reference_s": tuple(data.get("reference_s", ())),
        "clocks": tuple(
            ClockRecord(**{**one, "sm_mhz": tuple(one["sm_mhz"]), "limited_by": tuple(one["limited_by"])})
            for one in data.get("clocks", ())
        ),
    }


def _median(quantity: Quantity | None) -> float | None:
    return quantity.median_s if quantity is not None else None


def _times_in_words(result: BenchSummary) -> str:
    if result.returns is None:
        return "no sample was completed"
    words = [f"Python returned after {duration_s(result.returns.median_s)}"]
    if result.done is not None:
        words.append(f"device finished after {duration_s(result.done.median_s)}")
    if result.span is not None:
        words.append(f"device span {duration_s(result.span.median_s)}")
    if result.queued is not None:
        words.append(f"{duration_s(result.queued.median_s)} {QUEUED}")
    return " · ".join(words)

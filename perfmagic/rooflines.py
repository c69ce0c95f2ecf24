"""Benchmarks below what a device can do at most: perfmagic.roofline()."""

from __future__ import annotations

from perfmagic.analysis.timeline.categories import Category
from perfmagic.analysis.timeline.device_operators import DeviceOperator
from perfmagic.analysis.timeline.origin import Source
from perfmagic.analysis.timeline.peaks import Peaks
from perfmagic.analysis.timeline.roofline import Roof, RooflineData
from perfmagic.errors import OptionError
from perfmagic.keywords import documented
from perfmagic.results import BenchResult, RooflineResult, SweepResult


@documented()
def roofline(*benchmarks: BenchResult | SweepResult, peaks: Peaks, dtype: str = "fp32") -> RooflineResult:
    """Benchmarks on a picture of FLOP per second over FLOP per byte, below roofs that you give.

    benchmarks: of bench() or %%bench, each with --flops and --bytes; of a sweep each value.  peaks: how fast the memory
    and the arithmetic are at most: of a data sheet, or measured.  dtype: of the numbers, one that peaks has.
    Raises OptionError where a benchmark does not say its operations or bytes.

    >>> import perfmagic
    >>> found = perfmagic.bench(lambda: sum(range(10_000)), samples=5, flop=1e4, moved_bytes=8e4, name="sum")
    >>> peaks = perfmagic.Peaks(flop_per_s={"fp32": 1e11}, bytes_per_s=1e10)
    >>> perfmagic.roofline(found, peaks=peaks).data.operators[0].name
    'sum'
    """
    each = [pair for one in benchmarks for pair in _named(one)]
    if not each:
        raise OptionError("roofline() needs a benchmark", hint="perfmagic.roofline(b, peaks=perfmagic.Peaks(…))")
    operators = sorted((_operator(name, one, peaks, dtype) for name, one in each), key=lambda row: -row.total_ns)
    peak = peaks.of(dtype)
    return RooflineResult(
        RooflineData(
            device=0,
            label=peaks.name,
            operators=tuple(operators),
            roofs=() if peak is None else (Roof(dtype, peak),),
            bytes_per_s=peaks.bytes_per_s,
            kind=peaks.kind,
            source=peaks.source,
            placed_ns=0,
            ops_ns=0,
        )
    )


def _named(one: BenchResult | SweepResult) -> list[tuple[str, BenchResult]]:
    if isinstance(one, BenchResult):
        return [(one.name, one)]
    found = []
    for value, row in zip(one.values, one.results, strict=False):
        found += [(" ".join(filter(None, (each.name, f"{one.name}={value}"))), each) for each in row]
    return found


def _operator(name: str, one: BenchResult, peaks: Peaks, dtype: str) -> DeviceOperator:
    if one.flop is None or not one.moved_bytes or not one.work_s:
        what = name or "a benchmark"
        raise OptionError(
            f"{what} does not say what it computes and moves", hint="%%bench --flops 2*n**3 --bytes 12*n*n"
        )
    return DeviceOperator(
        device=0,
        name=name or "benchmark",
        source=Source.OPERATOR,
        category=Category.OTHER,
        shapes="",
        dtypes="",
        module="",
        frame="",
        n_calls=1,
        n_ops=1,
        total_ns=max(1, round(one.work_s * 1e9)),
        share_frac=0.0,
        kernel="",
        flop=round(one.flop),
        flop_at_most=False,
        io_bytes=round(one.moved_bytes),
        compute=dtype,
        peak_flop_per_s=peaks.of(dtype),
        peak_bytes_per_s=peaks.bytes_per_s,
    )

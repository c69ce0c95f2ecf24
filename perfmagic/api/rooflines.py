"""Benchmarks below what a device can do at most: perfmagic.roofline()."""

from __future__ import annotations

from perfmagic.analysis.timeline.device_operators import DeviceOperator, Roof, RooflineData
from perfmagic.analysis.timeline.origin import Source
from perfmagic.base.errors import OptionError
from perfmagic.base.options import documented
from perfmagic.predict.gpus import Peaks
from perfmagic.results import BenchResult, RooflineResult, SweepResult
from perfmagic.trace.families import Category


@documented()
def roofline(*benchmarks: BenchResult | SweepResult, peaks: Peaks, dtype: str = "fp32") -> RooflineResult:
    """Benchmarks on a picture of FLOP per second over FLOP per byte, below roofs that you give.

    benchmarks: of bench() or %%bench, each with --flops and --bytes; of a sweep each value.  peaks: how fast the memory
    and the arithmetic are at most: of a data sheet, or measured.  dtype: of the numbers, one that peaks has.
    Raises OptionError where a benchmark does not say its operations or bytes.

    >>> import perfmagic
    >>> result = perfmagic.bench(lambda: sum(range(10_000)), samples=5, flops=1e4, bytes=8e4, name="sum")
    >>> peaks = perfmagic.Peaks(flop_per_s={"fp32": 1e11}, bytes_per_s=1e10)
    >>> perfmagic.roofline(result, peaks=peaks).data.operators[0].name
    'sum'
    """
    named = [pair for benchmark in benchmarks for pair in _named(benchmark)]
    if not named:
        raise OptionError("roofline() needs a benchmark", hint="perfmagic.roofline(b, peaks=perfmagic.Peaks(…))")
    operators = [_operator(name, result, peaks, dtype) for name, result in named]
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


def _named(benchmark: BenchResult | SweepResult) -> list[tuple[str, BenchResult]]:
    """A benchmark with its name; those of a sweep with their values, too."""
    if isinstance(benchmark, BenchResult):
        return [(benchmark.name, benchmark)]
    if not isinstance(benchmark, SweepResult):
        raise OptionError(
            f"roofline: the result of a benchmark is needed, not {benchmark!r} ({type(benchmark).__name__})",
            hint="perfmagic.bench(function, …) gives one",
        )
    return [
        (" ".join(filter(None, (result.name, f"{benchmark.name}={value}"))), result)
        for value, row in zip(benchmark.values, benchmark.results, strict=False)
        for result in row
    ]


def _operator(name: str, result: BenchResult, peaks: Peaks, dtype: str) -> DeviceOperator:
    if result.flop is None or not result.moved_bytes or not result.work_s:
        what = name or "a benchmark"
        message = f"{what} does not say what it computes and moves"
        raise OptionError(message, hint="%%bench --flops 2*n**3 --bytes 12*n*n")
    return DeviceOperator(
        device=0,
        name=(name or "benchmark") + (" (simulated)" if result.simulated else ""),
        source=Source.OPERATOR,
        category=Category.OTHER,
        shapes="",
        dtypes="",
        module="",
        frame="",
        n_calls=1,
        n_ops=1,
        total_ns=max(1, round(result.work_s * 1e9)),
        share_frac=0.0,
        kernel="",
        flop=round(result.flop),
        flop_at_most=False,
        io_bytes=round(result.moved_bytes),
        compute=dtype,
        peak_flop_per_s=peaks.of(dtype),
        peak_bytes_per_s=peaks.bytes_per_s,
    )

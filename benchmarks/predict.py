"""How well kernels are predicted on GPUs, and the parameters of that prediction.

    python benchmarks/predict.py                     left-out records of tests/data/kernel_rows.json.xz
    python benchmarks/predict.py --folder FOLDER     t.what_if(on(…)) for each trace with shapes beside its twin
    python benchmarks/predict.py --fit ROWS          write perfmagic/predict/parameters.json
    python benchmarks/predict.py --collect FOLDER --rows ROWS     rows from traces named DEVICE_MODEL.json.gz

A left-out record is predicted with parameters fitted without its model, or without GPUs of its generation. A transfer
scales the recorded time of each kernel by the ratio of two predictions, with neither the model nor the target fitted.
"""

import argparse
import json
import lzma
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cache
from pathlib import Path

import numpy as np

import perfmagic
from perfmagic.analysis.replay.changes.gpu import launched_by_operators, operator_inputs
from perfmagic.analysis.timeline.origin import origins
from perfmagic.base import units
from perfmagic.base.errors import TraceError
from perfmagic.base.work import Inputs
from perfmagic.changes import on
from perfmagic.predict import kernels
from perfmagic.predict.calls import Call, call_of
from perfmagic.predict.gpus import Gpu, gpu_named, gpu_of
from perfmagic.predict.kernels import Batch, Float64, data_sheet_ns
from perfmagic.results import TimelineResult
from perfmagic.trace.columns import Int64
from perfmagic.trace.model import DeviceInfo, Trace

ROOT = Path(__file__).resolve().parents[1]
ROWS = ROOT / "tests/data/kernel_rows.json.xz"
PARAMETERS = Path(kernels.__file__).with_name("parameters.json")
SOURCE = "26 public recordings: tests/data/traces/PROVENANCE.md, kernel_rows"
# The prior's strength in squared logarithms, of parameters and of a family's factors; above which logarithm of an error
# a call counts less; the power of its share of the record's time: chosen by the errors of left-out records
PRIOR, FAMILY_PRIOR, ROBUST, POWER = 0.03, 0.05, 0.3, 0.6
ROUNDS, STEP = 12, 0.02


@dataclass(frozen=True)
class Row:
    """Calls of one operator with one kind of inputs: how many, and the median of their device time in ns."""

    call: Call
    n: int
    ns: float


@dataclass(frozen=True)
class Record:
    """The rows of one recording that have a model."""

    gpu: Gpu
    model: str
    rows: tuple[Row, ...]

    def total_ns(self, times_ns: Sequence[float] | Float64) -> float:
        return float(sum(row.n * ns for row, ns in zip(self.rows, times_ns, strict=True)))

    @property
    def recorded_ns(self) -> float:
        return self.total_ns([row.ns for row in self.rows])

    @property
    def group(self) -> tuple[str, str]:
        return self.gpu.generation, self.model


def read(path: Path) -> list[Record]:
    """The records of a file of rows."""
    records = []
    for record in json.loads(lzma.decompress(path.read_bytes())):
        rows = []
        for operator, shapes, dtypes, values, kernel, n, ns in record["rows"]:
            call = call_of(operator, Inputs.read(shapes, dtypes, values), kernel)
            rows += [Row(call, n, ns)] if call else []
        records.append(Record(gpu_named(record["gpu"]), record["model"], tuple(rows)))
    return records


# The fit: squared logarithms of errors, robust, with a prior, by damped Gauss-Newton steps.


class Fit:
    """Parameters for some records."""

    def __init__(self, records: Sequence[Record]) -> None:
        of_group = Counter(record.group for record in records)
        rows = [(record, row) for record in records for row in record.rows]
        self.batch = Batch([(row.call, record.gpu) for record, row in rows])
        total = {id(record): record.recorded_ns for record in records}
        shares = [row.n * row.ns / total[id(record)] for record, row in rows]
        self.weight = np.power(shares, POWER) / [of_group[record.group] for record, _ in rows]
        self.real = np.log(np.maximum([row.ns for _, row in rows], 200.0))
        self.start = self.batch.logs({})
        self.prior = np.array([FAMILY_PRIOR if "@" in name else PRIOR for name in self.batch.role])
        floors = ("floor", "more floor", "step")  # all else is a share
        self.most = np.array([math.inf if "@" in n or r in floors else 0.0 for n, r in self.batch.role.items()])

    def errors(self, logs: Float64) -> Float64:
        return np.log(self.batch.times_ns(logs)) - self.real

    def cost(self, logs: Float64, errors: Float64) -> float:
        size = np.abs(errors)
        robust = np.where(size < ROBUST, size**2, 2 * ROBUST * size - ROBUST**2)
        return float(self.weight @ robust + self.prior @ (logs - self.start) ** 2)

    def factors(self) -> dict[str, float]:
        logs, damping = self.start, 0.01
        errors = self.errors(logs)
        for _ in range(ROUNDS):
            slopes = np.column_stack([(self.errors(logs + STEP * unit) - errors) / STEP for unit in np.eye(len(logs))])
            weight = self.weight * np.minimum(1, ROBUST / np.maximum(np.abs(errors), 1e-9))
            curve = slopes.T @ (weight[:, None] * slopes) + np.diag(self.prior)
            downhill = slopes.T @ (weight * errors) + self.prior * (logs - self.start)
            for _ in range(6):
                step = np.linalg.solve(curve + damping * np.diag(np.diag(curve)), downhill)
                tried = np.minimum(logs - step, self.most)
                tried_errors = self.errors(tried)
                if self.cost(tried, tried_errors) < self.cost(logs, errors):
                    break
                damping *= 4
            else:
                break
            logs, errors, damping = tried, tried_errors, max(damping / 4, 1e-3)
        return {name: float(np.exp(log)) for name, log in zip(self.batch.role, logs, strict=True)}


def predicted_ns(record: Record, factors: dict[str, float], gpu: Gpu | None = None) -> Float64:
    """The time of a call of each row, on the record's GPU or another one."""
    batch = Batch([(row.call, gpu or record.gpu) for row in record.rows])
    return batch.times_ns(batch.logs(factors))


def write_parameters(records: Sequence[Record]) -> None:
    """Fit all records, and keep the factors beside the code that reads them."""
    factors = {name: float(f"{value:.4g}") for name, value in sorted(Fit(records).factors().items())}
    gpus = sorted({record.gpu.name.partition(" ")[0] for record in records})
    found = {"source": SOURCE, "date": datetime.now(timezone.utc).date().isoformat(), "gpus": gpus, "factors": factors}
    PARAMETERS.write_text(json.dumps(found, indent=0) + "\n")


# What is said of them: errors of left-out records, and of a record taken to another GPU.


def left_out(records: Sequence[Record]) -> None:
    """Each record beside predictions that did not see its model, or its GPU's generation."""

    @cache
    def without(generation: str, model: str) -> dict[str, float]:
        return Fit([r for r in records if r.gpu.generation != generation and r.model != model]).factors()

    ways: dict[str, Callable[[Record], Float64 | list[float]]] = {
        "fitted": lambda r: predicted_ns(r, without("", "")),
        "model left out": lambda r: predicted_ns(r, without("", r.model)),
        "generation left out": lambda r: predicted_ns(r, without(r.gpu.generation, "")),
        "data sheet": lambda r: [data_sheet_ns(row.call, r.gpu) for row in r.rows],
    }
    print(f"| record | recorded | {' | '.join(ways)} |\n{'|---' * (2 + len(ways))}|")
    errors: dict[str, list[float]] = {way: [] for way in ways}
    for record in records:
        totals = {way: record.total_ns(times(record)) for way, times in ways.items()}
        for way, total in totals.items():
            errors[way].append(math.log(total / record.recorded_ns))
        cells = [units.duration(record.recorded_ns), *map(units.rough_duration, totals.values())]
        print(f"| {record.gpu.name}, {record.model} | {' | '.join(cells)} |", flush=True)
    print()
    for way, logs in errors.items():
        print(f"- {way}: {spread_words(logs)}")
    print()
    transfers(records, without)


def transfers(records: Sequence[Record], without: Callable[[str, str], dict[str, float]]) -> None:
    """A record of each pair taken to the other's GPU, by parameters that saw neither its model nor that generation."""
    print("| record | on | recorded | predicted | recorded there | interval |\n" + "|---" * 6 + "|")
    errors, same, right = [], [], 0
    for source, target in pairs(records):
        factors = without(target.gpu.generation, source.model)
        ratio = predicted_ns(source, factors, target.gpu) / predicted_ns(source, factors)
        before, there = source.recorded_ns, target.recorded_ns
        after = source.total_ns(ratio * [row.ns for row in source.rows])
        errors.append(math.log(after / there))
        same.append(math.log(before / there))
        right += (after > before) == (there > before)
        spread = kernels.SPREAD_UNSEEN
        ends = f"{units.rough_duration(after / spread)} to {units.rough_duration(after * spread)}"
        cells = [units.duration(before), units.rough_duration(after), units.duration(there), ends]
        print(f"| {source.gpu.name}, {source.model} | {target.gpu.name} | {' | '.join(cells)} |", flush=True)
    print(f"\n- transfer: {spread_words(errors)}; which is faster, right: {right} of {len(errors)}")
    print(f"- the recorded time itself: {spread_words(same)}")


def pairs(records: Sequence[Record]) -> Iterator[tuple[Record, Record]]:
    """Each way between two records of a model on two makers' GPUs."""
    for source in records:
        for target in records:
            if source.model == target.model and source.gpu.is_amd != target.gpu.is_amd:
                yield source, target


def spread_words(logs: Sequence[float]) -> str:
    """How far predictions are off, by the logarithms of predicted over recorded."""
    size = np.abs(logs)
    median, most, worst = (math.exp(float(np.quantile(size, q))) for q in (0.5, 0.8, 1))
    held = " and ".join(f"{np.mean(size <= math.log(width)):.0%} within ÷× {width}" for width in (1.4, 1.5))
    return f"median × {median:.2f}, 80 % × {most:.2f}, worst × {worst:.2f}, {held}"


# Traces themselves: rows from them, and whole runs by t.what_if(on(…)).


def opened(folder: Path) -> Iterator[tuple[str, TimelineResult]]:
    """The traces of a folder that have shapes and a GPU of the table, by file name."""
    for path in sorted(folder.rglob("*.json*")):
        try:
            result = perfmagic.open_trace(path)
        except (TraceError, OSError):
            continue
        trace = result.trace
        devices = [gpu_of(trace.device_info(device)) for device in trace.device_ids]
        if trace.input_shapes and devices and all(devices):
            yield path.name.partition(".")[0], result


def runs(folder: Path) -> None:
    """Recording, predicted, recorded there and interval of whole runs; of a trace without a twin what is said."""
    found = [(name, result, gpu_of(first_device(result))) for name, result in opened(folder)]
    print("| record | on | run | predicted | recorded there | interval | |\n" + "|---" * 7 + "|")
    for name, result, gpu in found:
        twins = [(r, g) for n, r, g in found if g and g != gpu and model_of(n) == model_of(name)]
        for twin, target in twins or [(None, gpu_named("H100"))]:
            there = result.what_if(on(target.name))
            if there.refused or twin is None:
                print(f"| {name} | {target.name} | {there.sentence} |")
                continue
            check = there.check(twin)
            low, high = map(units.rough_duration, there.interval_ns)
            cells = [units.duration(there.prediction.recorded_ns), units.rough_duration(there.predicted_ns)]
            cells += [units.duration(check.measured_ns), f"{low} to {high}", "inside" if check.within else "OUTSIDE"]
            print(f"| {name} | {target.name} | {' | '.join(cells)} |", flush=True)


def first_device(result: TimelineResult) -> DeviceInfo:
    """The device of a trace; the first of several."""
    return result.trace.device_info(result.trace.device_ids[0])


def collected(folder: Path) -> list[dict[str, object]]:
    """Rows of the traces of a folder, for --fit."""
    records = []
    for name, result in opened(folder):
        trace = result.trace
        for device in trace.device_ids:
            gpu, of_device = gpu_of(trace.device_info(device)), trace.ops.device == device
            rows = np.flatnonzero(of_device & launched_by_operators(trace))
            if gpu and len(rows):
                records.append({"gpu": gpu.name, "model": model_of(name), "rows": operator_rows(trace, rows)})
    return records


def operator_rows(trace: Trace, rows: Int64) -> list[list[object]]:
    """Operator, inputs as the record writes them, longest kernel, calls, and the median device time of a call in ns."""
    inputs, group = operator_inputs(trace, rows)
    calls, first, call = np.unique(origins(trace).host_op[rows], return_index=True, return_inverse=True)
    length_ns = np.bincount(call.reshape(-1), (trace.ops.end_ns - trace.ops.start_ns)[rows], len(calls))
    found: list[list[object]] = []
    for at, one in enumerate(inputs):
        each = length_ns[group[first] == at]
        if one.shapes:
            found.append([*one, len(each), float(np.median(each))])
    return found


def model_of(name: str) -> str:
    """The model of a recording, by its file's name DEVICE_MODEL."""
    return name.partition("_")[2].removesuffix("_orphans")


def main() -> None:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fit", type=Path, metavar="ROWS")
    parser.add_argument("--collect", type=Path, metavar="FOLDER")
    parser.add_argument("--rows", type=Path, default=ROWS)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    if given.collect:
        write_rows(given.rows, collected(given.collect))
    elif given.fit:
        write_parameters(read(given.fit))
    elif given.folder:
        runs(given.folder)
    else:
        left_out(read(given.rows))


def write_rows(path: Path, records: list[dict[str, object]]) -> None:
    """Write rows so that equal ones make an equal file."""
    path.write_bytes(lzma.compress(json.dumps(records, separators=(",", ":")).encode(), preset=9 | lzma.PRESET_EXTREME))


if __name__ == "__main__":
    main()

"""Finds what may disturb a benchmark; perfmagic.analysis.bench.warnings words it.

The engine notes facts while it measures (perfmagic.samples.Condition). The rest is found here: in the samples, in the
clocks, in the recorded run, and between that and the samples. Source of the thresholds: docs/measuring.md.
"""

from __future__ import annotations

import ast
import dis
import warnings as python_warnings
from collections.abc import Mapping

import numpy as np

from perfmagic.analysis.bench.bottleneck import LONGER_SPAN, Waits, contradiction, has_idle_device
from perfmagic.analysis.bench.quantity import Quantity
from perfmagic.analysis.bench.queue_model import busy_ns
from perfmagic.samples import BenchRecord, ClockRecord, Condition, Plain

QUEUED = "per call, queued"  # how the quantity `queued` is shown
DRIFT_SAID_FRAC = 0.01  # the half-width a run aims at: a smaller drift does not show in the numbers
# recording costs 5 to 10 µs a launch (docs/kineto.md); a run slower than this was disturbed by something else
SLOW_RECORDING = 2.0
# a span that saw none of the work is microseconds long; one with a full queue may be half of the time that the ops of a
# starved device took one by one
UNSEEN_FRAC = 0.1
SLOWED_CLOCK_FRAC = 0.9  # of the starting clock (docs/measuring.md, "Cache, clocks, noise")
KEPT_BUSY = 1.1  # a queued call that takes at most so many device spans leaves the device no time to wait
RUNS_DIFFER_FRAC = 0.03  # the band of comparisons between separate runs
_NO_WORK = {"RESUME", "NOP", "LOAD_CONST", "LOAD_SMALL_INT", "POP_TOP", "RETURN_VALUE", "RETURN_CONST"}


def conditions(record: BenchRecord, measured: Mapping[str, Quantity], verdict: str = "") -> list[Condition]:
    """All of them, in the order a reader needs them.

    measured: the quantities by the name they are shown under.  verdict: the kind that the recorded run gave.
    """
    found = [*_of_verdict(record, measured, verdict), *record.conditions]
    for clock in record.clocks:
        found += _of_clock(clock)
    for name, quantity in measured.items():
        found += _of_quantity(name, quantity)
    return [*found, *_of_body(record, measured), *_of_recording(record, measured), *_of_device(record)]


def span_partial(record: BenchRecord, span: Quantity | None) -> bool:
    """Whether the device span leaves out work: on several streams, or if it is far shorter than the busy time."""
    if span is None or record.trace is None or not len(record.trace.ops):
        return False
    most_ns = max(busy_ns(record.trace, device) for device in record.trace.device_ids)
    return _n_streams(record) > 1 or span.median_s * 1e9 < most_ns * UNSEEN_FRAC


def span_waits(record: BenchRecord) -> bool:
    """Whether the body waits for its own work, so that the device span contains the time Python takes in between."""
    return any(one.kind == "backlog outlasted" and one.values["why"] == "synchronises" for one in record.conditions)


def _of_verdict(record: BenchRecord, measured: Mapping[str, Quantity], verdict: str) -> list[Condition]:
    """Where the samples contradict the recorded run."""
    span, done = measured.get("device span"), measured.get("done")
    partial = span_partial(record, span) or span_waits(record)
    waits = Waits.of(measured.get("returns"), done, None if partial else span)
    if waits is None:
        return []
    found = []
    if span is not None and not partial and span.median_s > LONGER_SPAN * waits.done_s:
        found.append(Condition("longer span", {"span_s": span.median_s, "done_s": waits.done_s}))
    elif why := contradiction(verdict, waits):
        values: dict[str, Plain] = {"verdict": verdict, "why": why, "python_waits_s": waits.python_s}
        found.append(Condition("verdicts differ", {**values, "device_idle_s": waits.device_s, "done_s": waits.done_s}))
    queued = measured.get(QUEUED)
    kept_busy = queued is not None and span is not None and queued.median_s <= KEPT_BUSY * span.median_s
    if queued is not None and span is not None and kept_busy and not partial and has_idle_device(verdict):
        values = {"calls": record.queued_calls, "queued_s": queued.median_s, "span_s": span.median_s}
        found.append(Condition("busy in a row", values))
    return found


def _of_clock(clock: ClockRecord) -> list[Condition]:
    found = []
    lowest_mhz = min(clock.sm_mhz)
    if clock.limited_by or lowest_mhz < SLOWED_CLOCK_FRAC * clock.sm_mhz[0]:
        values: dict[str, Plain] = {
            "device": clock.device,
            "start_mhz": clock.sm_mhz[0],
            "lowest_mhz": lowest_mhz,
            "limited_by": ", ".join(clock.limited_by),
            "temperature_c": clock.temperature_c,
        }
        found.append(Condition("clock", values))
    if clock.other_processes:
        found.append(Condition("shared", {"device": clock.device, "processes": clock.other_processes}))
    return found


def _of_quantity(name: str, quantity: Quantity) -> list[Condition]:
    found = []
    if quantity.modes:
        low, high = quantity.modes
        values: dict[str, Plain] = {"quantity": name, "low_s": low.median_s, "high_s": high.median_s}
        values |= {"low_frac": low.frac, "median_s": quantity.median_s}
        found.append(Condition("bimodal", values))
    elif abs(quantity.drift_frac) > DRIFT_SAID_FRAC:
        third = len(quantity.samples_s) // 3
        first_s, last_s = (float(np.median(part)) for part in (quantity.samples_s[:third], quantity.samples_s[-third:]))
        found.append(Condition("drift", {"quantity": name, "first_s": first_s, "last_s": last_s}))
    if len(quantity.run_medians_s) > 1 and quantity.median_s > 0:
        spread = (max(quantity.run_medians_s) - min(quantity.run_medians_s)) / quantity.median_s
        if spread > RUNS_DIFFER_FRAC:
            values = {"quantity": name, "spread_frac": spread, "runs": len(quantity.run_medians_s)}
            found.append(Condition("runs differ", values))
    return found


def _of_body(record: BenchRecord, measured: Mapping[str, Quantity]) -> list[Condition]:
    """Whether the body does anything."""
    if _compiled_away(record.code):
        return [Condition("compiled away")]
    returns = measured.get("returns")
    return [Condition("takes no time")] if returns is not None and returns.median_s == 0 else []


def _of_device(record: BenchRecord) -> list[Condition]:
    """Whether variants are compared by what the CPU's kernels take, which a GPU may order the other way."""
    unused = any(one.kind in ("no device", "idle device") for one in record.conditions)
    unpaced = any(device.simulated and not device.pace for device in record.devices)
    return [Condition("unpaced")] if record.round_id and unpaced and not unused else []


def _compiled_away(code: str) -> bool:
    """Whether nothing is left of a cell of expressions: Python's compiler folds constants and drops them."""
    head, _, body = code.lstrip().partition("\n")
    try:
        with python_warnings.catch_warnings():
            python_warnings.simplefilter("ignore")  # the user has seen those of the cell
            tree = ast.parse(body)
            left = dis.get_instructions(compile(tree, "<cell>", "exec"))
    except (SyntaxError, ValueError):
        return False
    values = [statement.value for statement in tree.body if isinstance(statement, ast.Expr)]
    folded = len(values) == len(tree.body) and not all(isinstance(value, ast.Constant) for value in values)
    return head.startswith("%%") and folded and {instruction.opname for instruction in left} <= _NO_WORK


def _of_recording(record: BenchRecord, measured: Mapping[str, Quantity]) -> list[Condition]:
    """About the one recorded run, which verdict and queue model rest on."""
    found = []
    done = measured.get("done")
    if record.trace is not None and done is not None:
        recorded_s = (record.trace.meta.end_ns - record.trace.meta.start_ns) / 1e9
        if recorded_s > SLOW_RECORDING * done.median_s:
            found.append(Condition("slow recording", {"recorded_s": recorded_s, "done_s": done.median_s}))
    if span_partial(record, measured.get("device span")):
        found.append(Condition("other streams", {"streams": _n_streams(record)}))
    return found


def _n_streams(record: BenchRecord) -> int:
    """Streams on which the recorded run executed something, 0 without one."""
    ops = record.trace.ops if record.trace is not None else None
    return 0 if ops is None else len(np.unique(np.stack((ops.device, ops.stream)), axis=1).T)

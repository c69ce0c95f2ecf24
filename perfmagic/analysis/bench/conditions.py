"""Every warning of a benchmark, in one place: what is odd about how it was taken, and what to do about it.

What to do depends on what was done already: nobody who gave --time is told to give it. Conditions come from the engine
as facts (perfmagic.samples.Condition), or are found here in the samples. Source of the thresholds: docs/measuring.md.
"""

from __future__ import annotations

import ast
import dis
from collections.abc import Callable, Mapping
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np

from perfmagic.analysis.bench.quantity import Quantity
from perfmagic.analysis.bench.queue_model import busy_ns
from perfmagic.analysis.verdict import DEVICE_BOUND_FRAC, NOT_BUSY_KINDS
from perfmagic.samples import BenchRecord, Condition, Plain, Taken
from perfmagic.units import NBSP, duration_s, percent, plural, significant, size

DRIFT_SAID_FRAC = 0.01  # the half-width a run aims at: a smaller drift does not show in the numbers
# recording costs 5 to 10 µs a launch (docs/kineto.md); a run slower than this met something else
SLOW_RECORDING = 2.0
# a span that saw none of the work is microseconds long; one with the queue kept full may be half of the time that the
# ops of a starved device took one by one
UNSEEN_FRAC = 0.1
SLOWED_CLOCK_FRAC = 0.9  # of the starting clock (docs/measuring.md, "Cache, clocks, noise")
LONGER_SPAN = 1.05  # of done, which it is a part of
_NO_WORK = {"RESUME", "NOP", "LOAD_CONST", "LOAD_SMALL_INT", "POP_TOP", "RETURN_VALUE", "RETURN_CONST"}
QUEUED = "per call, queued"  # how the quantity `queued` is shown
KEPT_BUSY = 1.1  # a call in a row that takes no longer than so many device spans leaves the device no time to wait
RUNS_APART_FRAC = 0.03  # the band of comparisons across runs
FLAGS = {  # fields of perfmagic.capture.bench.spec.BenchSpec as the magics call them
    "samples": "-r",
    "calls": "-n",
    "time_s": "--time",
    "rel": "--rel",
    "warmup": "--warmup",
    "cold": "--cold",
    "cooldown_s": "--cooldown",
    "runs": "--runs",
    "setup_each": "--setup-each",
}


def warnings(record: BenchRecord, measured: Mapping[str, Quantity], verdict: str = "") -> tuple[str, ...]:
    """The sentences, in the order a reader needs them.

    measured: the quantities by the name they are shown under.  verdict: the kind that the recorded run gave.
    """
    found = [*_of_verdict(record, measured, verdict), *record.conditions, *_of_clocks(record)]
    found += _of_samples(record, measured)
    return tuple(_WORDS[one.kind](one.values, _Done(record)) for one in found)


def span_partial(record: BenchRecord, span: Quantity | None) -> bool:
    """Whether the events of the span missed work: on several streams, or where it is far shorter than the busy time."""
    if span is None or record.trace is None or not len(record.trace.ops):
        return False
    most_ns = max(busy_ns(record.trace, device) for device in record.trace.device_ids)
    return _n_streams(record) > 1 or span.median_s * 1e9 < most_ns * UNSEEN_FRAC


def samples_doubt(verdict: str, span_share: float) -> bool:
    """Whether the samples contradict the kind of verdict that a recorded run gave.  span_share: device span ÷ done."""
    return span_share > LONGER_SPAN or (verdict == "host-bound" and span_share >= DEVICE_BOUND_FRAC)


def option(taken: Taken, setting: str, value: str) -> str:
    """A setting as whoever took the benchmark writes it: `--runs 5` for a magic, `runs=5` for a function.

    setting: a field of perfmagic.capture.bench.spec.BenchSpec.
    """
    if not taken.code:
        return f"{setting}={value}" + (", a function of yours," if setting == "setup_each" else "")
    return FLAGS[setting] if setting in ("setup_each", "cold") else f"{FLAGS[setting]} {value}"


class _Done:
    """What the user did already."""

    def __init__(self, record: BenchRecord) -> None:
        self.taken = record
        self.in_turns = bool(record.round_id)
        self._lacks = ("runs",) if self.in_turns else ()  # benchmarks that take turns are one run
        if record.code.startswith("%compare"):
            self._lacks = (*self._lacks, "setup_each")  # functions are called as they are

    def unless(self, setting: str, value: str, advice: str) -> str:
        """`: option advice` where that setting was left alone."""
        default = {"runs": 1, "cooldown_s": 0.0}.get(setting)
        given = self.taken.settings.get(setting, default)
        if setting in self._lacks or (given != default and given is not False):
            return ""
        return f": {option(self.taken, setting, value)} {advice}"


def _of_samples(record: BenchRecord, measured: Mapping[str, Quantity]) -> list[Condition]:
    found = []
    for name, q in measured.items():
        if len(q.levels) == 2:
            (low_s, share), (high_s, _) = q.levels
            values: dict[str, Plain] = {"quantity": name, "low_s": low_s, "high_s": high_s, "low_share": share}
            found.append(Condition("two levels", values))
        elif abs(q.drift_frac) > DRIFT_SAID_FRAC:
            third = len(q.samples_s) // 3
            first_s, last_s = (float(np.median(part)) for part in (q.samples_s[:third], q.samples_s[-third:]))
            found.append(Condition("drift", {"quantity": name, "first_s": first_s, "last_s": last_s}))
        if len(q.run_medians_s) > 1 and q.median_s > 0:
            spread = (max(q.run_medians_s) - min(q.run_medians_s)) / q.median_s
            if spread > RUNS_APART_FRAC:
                found.append(Condition("runs apart", {"quantity": name, "frac": spread, "runs": len(q.run_medians_s)}))
    if _compiled_away(record.code):
        found.append(Condition("compiled away"))
    elif "returns" in measured and measured["returns"].median_s == 0:
        found.append(Condition("takes no time"))
    return [*found, *_of_recording(record, measured)]


def _compiled_away(code: str) -> bool:
    """Whether a cell of expressions has nothing left of them: Python's compiler folds constants, and drops them."""
    head, _, body = code.lstrip().partition("\n")
    try:
        with catch_warnings():
            simplefilter("ignore")  # the user has seen those of the cell
            tree = ast.parse(body)
            left = dis.get_instructions(compile(tree, "<cell>", "exec"))
    except (SyntaxError, ValueError):
        return False
    values = [statement.value for statement in tree.body if isinstance(statement, ast.Expr)]
    folded = len(values) == len(tree.body) and not all(isinstance(value, ast.Constant) for value in values)
    return head.startswith("%%") and folded and {instruction.opname for instruction in left} <= _NO_WORK


def _of_verdict(record: BenchRecord, measured: Mapping[str, Quantity], verdict: str) -> list[Condition]:
    """Where the samples say otherwise than the recorded run."""
    span, done = measured.get("device span"), measured.get("done")
    if span is None or done is None or not done.median_s or span_partial(record, span):
        return []
    share = span.median_s / done.median_s
    found = []
    if samples_doubt(verdict, share):
        found.append(Condition("longer span" if share > LONGER_SPAN else "verdicts differ", {"share": share}))
    queued = measured.get(QUEUED)
    if queued is not None and verdict in NOT_BUSY_KINDS and queued.median_s <= KEPT_BUSY * span.median_s:
        values: dict[str, Plain] = {"calls": record.queued_calls, "queued_s": queued.median_s, "span_s": span.median_s}
        found.append(Condition("busy in a row", values))
    return found


def _of_recording(record: BenchRecord, measured: Mapping[str, Quantity]) -> list[Condition]:
    """About the one recorded run, which verdict and model rest on."""
    found = []
    done = measured.get("done")
    if record.trace is not None and done is not None:
        recorded_s = (record.trace.meta.end_ns - record.trace.meta.start_ns) / 1e9
        if recorded_s > SLOW_RECORDING * done.median_s:
            found.append(Condition("slow recording", {"seconds": recorded_s}))
    if span_partial(record, measured.get("device span")):
        found.append(Condition("other streams", {"streams": _n_streams(record)}))
    return found


def _n_streams(record: BenchRecord) -> int:
    """Streams on which the recorded run executed something, 0 without one."""
    ops = record.trace.ops if record.trace is not None else None
    return 0 if ops is None else len(np.unique(np.stack((ops.device, ops.stream)), axis=1).T)


def _of_clocks(record: BenchRecord) -> list[Condition]:
    found = []
    for one in record.clocks:
        lowest = min(one.sm_mhz)
        if one.limited_by or lowest < SLOWED_CLOCK_FRAC * one.sm_mhz[0]:
            why = ", ".join(one.limited_by)
            values: dict[str, Plain] = {
                "device": one.device,
                "start": one.sm_mhz[0],
                "low": lowest,
                "why": why,
                "at": one.temperature_c,
            }
            found.append(Condition("clock", values))
        if one.other_processes:
            found.append(Condition("shared", {"device": one.device, "others": one.other_processes}))
    return found


def _did_not_settle(v: Mapping[str, Any], done: _Done) -> str:
    advice = done.unless("setup_each", "reset", "gives each call a fresh start")
    return f"did not settle within {duration_s(v['seconds'])} of warm-up, later calls may differ too{advice}"


def _outlasted(v: Mapping[str, Any], _: _Done) -> str:
    if v["why"] == "long":
        needs = f"Python needs {duration_s(v['host_s'])}, longer than a backlog may be"
        return f"{needs}: device span includes waiting for Python"
    if v["why"] == "synchronises":
        return "the cell synchronises: device span includes waiting"
    return "Python was slower than in the first pass: device span includes waiting for it"


def _load(v: Mapping[str, Any], done: _Done) -> str:
    cores = plural(v["cores"], "core")
    advice = "" if done.in_turns else "; what takes turns (--vs, perfmagic.compare) suffers less"
    return f"1-minute load {v['load']:.1f} on {cores}: something else was running{advice}"


def _drift(v: Mapping[str, Any], done: _Done) -> str:
    moved = "rose" if v["last_s"] > v["first_s"] else "fell"
    advice = done.unless("runs", "5", "shows whether it goes on")
    return (
        f"{v['quantity']} {moved} from {duration_s(v['first_s'])} to {duration_s(v['last_s'])} during the run{advice}"
    )


def _two_levels(v: Mapping[str, Any], done: _Done) -> str:
    low, high = duration_s(v["low_s"]), duration_s(v["high_s"])
    shares = f"{percent(v['low_share'])} near {low}, {percent(1 - v['low_share'])} near {high}"
    advice = done.unless("runs", "5", "shows whether whole runs keep to one")
    return f"{v['quantity']} has two levels, {shares}; its median is of both{advice}"


def _runs_apart(v: Mapping[str, Any], _: _Done) -> str:
    frac = f"{significant(v['frac'] * 100, 2)}{NBSP}%"
    return f"medians of the {v['runs']} runs of {v['quantity']} lie {frac} apart: trust no smaller difference"


def _clock(v: Mapping[str, Any], done: _Done) -> str:
    told = [v["why"]] if v["why"] else []
    told += [f"{v['at']}{NBSP}°C"] if v["at"] else []  # 0 where the GPU did not tell
    why = f" ({', '.join(told)})" if told else ""
    advice = done.unless("cooldown_s", "0.5", "rests before each sample")
    return f"the clock of GPU {v['device']} went from {v['start']} to {v['low']}{NBSP}MHz{why}{advice}"


def _changed(v: Mapping[str, Any], done: _Done) -> str:
    times = f", {significant(v['times'], 2)} times as long as those sampled" if v["times"] else ""
    advice = done.unless("setup_each", "reset", "gives each a fresh start")
    who = "later calls, also of those in turns with it," if done.in_turns else "later calls"
    return (
        f"the first call took {duration_s(v['seconds'])}{times}, and changed {v['names']}: "
        f"{who} may have had less to do{advice}"
    )


def _grew(v: Mapping[str, Any], done: _Done) -> str:
    advice = done.unless("setup_each", "reset", "gives each call a fresh start")
    return f"every call leaves {size(v['bytes_per_call'])} more on {v['where']}{advice}"


def _fits(v: Mapping[str, Any], done: _Done) -> str:
    cold = option(done.taken, "cold", "True")
    return (
        f"what a call moves ({size(v['bytes'])}) fits in {v['name']} ({size(v['cache_bytes'])}), so the rate may be "
        f"theirs and not the memory's: {cold} overwrites them before each sample"
    )


def _recompiled(v: Mapping[str, Any], done: _Done) -> str:
    advice = done.unless("warmup", "20", "may take that out of the samples")
    return f"torch.compile made {plural(v['times'], 'graph')} while samples were taken{advice}"


def _streams(v: Mapping[str, Any], _: _Done) -> str:
    n = v["streams"]
    where = f"{n} streams" if n > 1 else "a stream that is not the current one"
    return f"the cell works on {where} and the device span sees the current one only: %%timeline shows all"


_WORDS: dict[str, Callable[[Mapping[str, Any], _Done], str]] = {
    "load": _load,
    "long first call": lambda v, _: f"the first call took {duration_s(v['seconds'])}: no warm-up",
    "profiled before": lambda _v, _d: (
        "a profile was taken earlier in this process: launches may be 10 to 20 % slower until a restart"
    ),
    "did not settle": _did_not_settle,
    "idle device": lambda v, _: f"nothing was queued on the {v['device']}",
    "no device": lambda _v, _d: "no device was in use: done equals returns",
    "no events": lambda v, _: f"no device records on {v['device']}: no device span",
    "no backlog": lambda _v, _d: "nothing could keep the queue full: device span includes waiting for Python",
    "backlog outlasted": _outlasted,
    "no verdict": lambda v, _: f"no verdict: {v['why']}",
    "fewer queued": lambda v, _: (
        f"{v['calls']} calls are queued in a row, not {v['wanted']}, which may be more launches than a stream holds"
    ),
    "prints": lambda _v, _d: (
        "it prints: from the second call on that is dropped, so the time to show it is in none of the figures"
    ),
    "recompiled": _recompiled,
    "fits in caches": _fits,
    "memory grew": _grew,
    "changed inputs": _changed,
    "clock": _clock,
    "shared": lambda v, _: f"{plural(v['others'], 'other process', 'other processes')} used GPU {v['device']}",
    "longer span": lambda v, _: (
        f"device span is {percent(v['share'])} of done: the machine was slower when it was taken, so neither is sure"
    ),
    "verdicts differ": lambda v, _: (
        f"the verdict is of the recorded run; in the samples device span is {percent(v['share'])} of done, so the "
        "device was the bottleneck there"
    ),
    "busy in a row": lambda v, _: (
        f"the verdict is of one call; of {v['calls']} in a row each takes {duration_s(v['queued_s'])}, hardly more "
        f"than its device span ({duration_s(v['span_s'])}): there the device is the bottleneck"
    ),
    "not swept": lambda v, _: (
        f"neither the cell nor its set-up code names {v['name']}: only what they call can depend on it"
    ),
    "two levels": _two_levels,
    "drift": _drift,
    "runs apart": _runs_apart,
    "compiled away": lambda _v, _d: (
        "Python worked this out when it compiled the cell, and no call does anything: names in place of the literals "
        "leave it the work"
    ),
    "takes no time": lambda _v, _d: "takes no time that the clock can see: nothing is left after the empty loop",
    "slow recording": lambda v, _: (
        f"the recorded run took {duration_s(v['seconds'])}: the verdict rests on it and may not hold for the samples"
    ),
    "other streams": _streams,
}
KINDS = frozenset(_WORDS)

"""What may disturb a benchmark, in words: one sentence for each kind, and what to do about it."""

from __future__ import annotations

import ast
import dis
import warnings as python_warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from perfmagic.analysis.bench.quantity import LONGER_SPAN, Quantity, Waits, contradiction, has_idle_device
from perfmagic.analysis.bench.queue_model import busy_ns
from perfmagic.analysis.verdict import DEVICE_BOUND
from perfmagic.base.options import called, option
from perfmagic.base.units import NBSP, duration_s, percent, percent_known, plural, significant, size
from perfmagic.trace.host_limits import shared_cores_words
from perfmagic.trace.samples import BenchRecord, ClockRecord, Condition, Plain, Taken

# What a user could still do about a warning or an unclear comparison, in the words of whoever took the benchmark.

MORE = 4  # times as many samples: an interval half as wide
_DEFAULTS = {"runs": 1, "cooldown_s": 0.0}  # of the settings whose default is no None or False


class Advice:
    """What is left to do for one benchmark."""

    def __init__(self, taken: Taken) -> None:
        self.taken = taken
        self.interleaved = bool(taken.round_id)
        self._unavailable = ("runs",) if self.interleaved else ()  # interleaved benchmarks are one run
        if taken.magic == "%compare":
            self._unavailable = (*self._unavailable, "setup_each")  # functions are called as they are

    def unless(self, setting: str, value: str, effect: str) -> str:
        """`: option effect`; empty where the user set that option or cannot set it."""
        default = _DEFAULTS.get(setting)
        given = self.taken.settings.get(setting, default)
        if setting in self._unavailable or (given != default and given is not False):
            return ""
        function = ", a function of yours," if setting == "setup_each" and not self.taken.magic else ""
        return f": {self.option(setting, value)}{function} {effect}"

    def option(self, setting: str, value: object = "") -> str:
        """An option as whoever took the benchmark writes it.  setting: a field of BenchSpec."""
        return option(self.taken.magic, setting, value)

    def longer(self, n: int) -> str:
        """The option that takes more than n samples, and what else makes an interval narrower.

        No time is advised: a time that is given ends sampling for other reasons too, and may take fewer.
        """
        return f"a quieter machine or more samples help ({self.option('samples', _rounded_up(MORE * n))})"


def _rounded_up(n: int) -> int:
    """To two digits."""
    unit: int = 10 ** max(0, len(str(n)) - 2)
    return -(-n // unit) * unit


NEAR_MODE = 1.1  # a median so near to a mode, as a ratio, describes that mode


@dataclass(frozen=True)
class BenchWarning:
    """Something that may disturb a benchmark.

    kind: its kind; empty in a file from before warnings had kinds.
    values: its numbers by name.
    sentence: in words, with what to do.
    """

    kind: str
    values: Mapping[str, Plain] = field(default_factory=dict)
    sentence: str = ""

    def __str__(self) -> str:
        return self.sentence


def describe_conditions(conditions: Sequence[Condition], taken: Taken) -> tuple[BenchWarning, ...]:
    """Each condition with its sentence.  taken: what the user set already, which no sentence advises."""
    advice = Advice(taken)
    return tuple(BenchWarning(c.kind, dict(c.values), _SENTENCES[c.kind](c.values, advice)) for c in conditions)


def _did_not_settle(v: Mapping[str, Any], advice: Advice) -> str:
    tip = advice.unless("setup_each", "reset", "gives each call a fresh start")
    return f"did not settle within {duration_s(v['seconds'])} of warm-up; later calls may differ too{tip}"


def _outlasted(v: Mapping[str, Any], _: Advice) -> str:
    if v["why"] == "long":
        needs = f"Python needs {duration_s(v['host_s'])}, longer than a backlog may be"
        return f"{needs}: device span includes waiting for Python"
    if v["why"] == "synchronises":
        return "the cell synchronises: device span includes waiting"
    return "Python was slower than in the first pass: device span includes waiting for it"


def _load(v: Mapping[str, Any], advice: Advice) -> str:
    said = f"load average {v['load']:.1f} on {plural(v['cores'], 'core')}: other processes were running"
    if advice.interleaved:
        return said
    return f"{said}. Interleaved comparisons ({called(advice.taken.magic, 'bench --vs')}) are less affected"


def _drift(v: Mapping[str, Any], advice: Advice) -> str:
    moved = "rose" if v["last_s"] > v["first_s"] else "fell"
    tip = advice.unless("runs", "5", "shows whether it goes on")
    return f"{v['quantity']} {moved} from {duration_s(v['first_s'])} to {duration_s(v['last_s'])} during the run{tip}"


def _mean(v: Mapping[str, Any], _: Advice) -> str:
    mean, median, most = (duration_s(v[name]) for name in ("mean_s", "median_s", "max_s"))
    return (
        f"the mean of {v['quantity']}, {mean}, is far from its median, {median}: the longest sample took {most} a call"
    )


def _bimodal(v: Mapping[str, Any], advice: Advice) -> str:
    low_s, high_s = v["low_s"], v["high_s"]
    low, high = duration_s(low_s), duration_s(high_s)
    fractions = f"{percent(v['low_frac'])} near {low}, {percent(1 - v['low_frac'])} near {high}"
    tip = advice.unless("runs", "5", "shows whether whole runs keep to one mode")
    between = low_s * NEAR_MODE < v.get("median_s", low_s) < high_s / NEAR_MODE
    described = "neither mode" if between else "only one of them"
    return f"{v['quantity']} is bimodal: {fractions}; the median describes {described}{tip}"


def _runs_differ(v: Mapping[str, Any], _: Advice) -> str:
    spread = percent_known(v["spread_frac"])
    return f"the medians of {v['runs']} runs of {v['quantity']} differ by {spread}: trust no smaller difference"


def _clock(v: Mapping[str, Any], advice: Advice) -> str:
    reasons = [v["limited_by"]] if v["limited_by"] else []
    reasons += [f"{v['temperature_c']}{NBSP}°C"] if v["temperature_c"] else []  # 0 where the GPU did not say
    why = f" ({', '.join(reasons)})" if reasons else ""
    tip = advice.unless("cooldown_s", "0.5", "pauses before each sample")
    return f"the clock of GPU {v['device']} went from {v['start_mhz']} to {v['lowest_mhz']}{NBSP}MHz{why}{tip}"


def _changed(v: Mapping[str, Any], advice: Advice) -> str:
    times = f", {significant(v['times'], 2)} times as long as those sampled" if v["times"] else ""
    tip = advice.unless("setup_each", "reset", "gives each call a fresh start")
    who = "later calls, including the other variants'," if advice.interleaved else "later calls"
    return (
        f"the first call took {duration_s(v['seconds'])}{times}, and modified {v['names']}: {who} may do less work{tip}"
    )


def _grew(v: Mapping[str, Any], advice: Advice) -> str:
    tip = advice.unless("setup_each", "reset", "gives each call a fresh start")
    return f"every call leaves {size(v['bytes_per_call'])} more on {v['where']}{tip}"


def _fits(v: Mapping[str, Any], advice: Advice) -> str:
    cold = advice.option("cold", True)
    return (
        f"a call moves {size(v['bytes'])}, which fits in {v['name']} ({size(v['cache_bytes'])}): the rate may be that "
        f"of the cache, not of the memory; {cold} overwrites the cache before each sample"
    )


def _recompiled(v: Mapping[str, Any], advice: Advice) -> str:
    tip = advice.unless("warmup", "20", "may keep that out of the samples")
    return f"torch.compile made {plural(v['times'], 'graph')} while samples were taken{tip}"


def _streams(v: Mapping[str, Any], advice: Advice) -> str:
    n = v["streams"]
    where = f"{n} streams" if n > 1 else "a stream that is not the current one"
    shows = called(advice.taken.magic, "timeline")
    return f"the cell works on {where} and the device span sees the current one only: {shows} shows all"


def _verdicts_differ(v: Mapping[str, Any], _: Advice) -> str:
    done = duration_s(v["done_s"])
    said = f"the recorded run was {v['verdict']}; in the samples"
    if v["why"] == "python waits":
        return f"{said} Python waits for the device for {duration_s(v['python_waits_s'])} of {done}"
    idle = duration_s(v["device_idle_s"])
    often = "" if v["verdict"] == DEVICE_BOUND else "only "
    return f"{said} the device is idle for {often}{idle} of {done}"


_SENTENCES: dict[str, Callable[[Mapping[str, Any], Advice], str]] = {
    "load": _load,
    "long first call": lambda v, _: f"the first call took {duration_s(v['seconds'])}: no warm-up",
    "profiled before": lambda _v, _a: (
        "a profile was taken earlier in this process: launches may be 10 to 20 % slower until a restart"
    ),
    "did not settle": _did_not_settle,
    "idle device": lambda v, _: f"nothing was queued on the {v['device']}",
    "no device": lambda _v, _a: "no device was in use: done equals returns",
    "no events": lambda v, _: f"no device records on {v['device']}: no device span",
    "no backlog": lambda _v, _a: "nothing could keep the queue full: device span includes waiting for Python",
    "backlog outlasted": _outlasted,
    "no verdict": lambda v, _: f"no verdict: {v['why']}",
    "fewer queued": lambda v, _: (
        f"{v['calls']} calls are queued in a row, not {v['wanted']}: that may be more launches than a stream holds"
    ),
    "prints": lambda _v, _a: (
        "it prints: output is dropped from the second call on, so no figure contains the time to show it"
    ),
    "recompiled": _recompiled,
    "fits in caches": _fits,
    "memory grew": _grew,
    "changed inputs": _changed,
    "clock": _clock,
    "shared": lambda v, _: f"{plural(v['processes'], 'other process', 'other processes')} used GPU {v['device']}",
    "longer span": lambda v, _: (
        f"the device span ({duration_s(v['span_s'])}) is longer than done ({duration_s(v['done_s'])}): the machine was "
        "slower when the span was measured, so neither is certain"
    ),
    "verdicts differ": _verdicts_differ,
    "busy in a row": lambda v, _: (
        f"the verdict is for one call; of {v['calls']} in a row each takes {duration_s(v['queued_s'])}, hardly more "
        f"than its device span ({duration_s(v['span_s'])}): there the device is the bottleneck"
    ),
    "not swept": lambda v, _: (
        f"neither the cell nor its set-up code names {v['name']}: only what they call can depend on it"
    ),
    "bimodal": _bimodal,
    "mean": _mean,
    "drift": _drift,
    "runs differ": _runs_differ,
    "compiled away": lambda _v, _a: (
        "Python evaluated the cell when it compiled it, so no call does anything: use names instead of literals"
    ),
    "takes no time": lambda _v, _a: "takes less time than the clock can resolve: nothing is left after the empty loop",
    "slow recording": lambda v, _: (
        f"the recorded run took {duration_s(v['recorded_s'])}, the samples {duration_s(v['done_s'])}: the verdict "
        "rests on that run and may not hold for the samples"
    ),
    "other streams": _streams,
    "pace not reached": lambda v, _: str(v["words"]),
    "shared cores": lambda v, _: shared_cores_words(int(v["n_devices"])),
    "unpaced": lambda _v, _a: (
        "the simulated device has no pace: ops take what the CPU needs for them, and a GPU may order the variants the "
        'other way, half precision for one; a pace gives it rates: device(pace="matmul=50GFLOP/s")'
    ),
}
KINDS = frozenset(_SENTENCES)


# Finds what may disturb a benchmark; perfmagic.analysis.bench.warnings words it.

QUEUED = "per call, queued"  # how the quantity `queued` is shown
DRIFT_SAID_FRAC = 0.01  # the half-width a run aims at: a smaller drift does not show in the numbers
# recording costs 5 to 10 µs a launch (docs/kineto.md); a run slower than this was disturbed by something else
SLOW_RECORDING = 2.0
# a span that saw none of the work is microseconds long; one with a full queue may be half of the time that the ops of a
# starved device took one by one
UNSEEN_FRAC = 0.1
SLOWED_CLOCK_FRAC = 0.9  # of the starting clock (docs/measuring.md, "Cache, clocks, noise")
KEPT_BUSY = 1.1  # device spans: a queued call that takes no longer leaves the device no time to wait
RUNS_DIFFER_FRAC = 0.03  # the band of comparisons between separate runs
_NO_WORK = {"RESUME", "NOP", "LOAD_CONST", "LOAD_SMALL_INT", "POP_TOP", "RETURN_VALUE", "RETURN_CONST"}


def conditions(record: BenchRecord, measured: Mapping[str, Quantity], verdict: str = "") -> list[Condition]:
    """All of them, in the order a reader needs them.

    measured: the quantities by the name they are shown under.  verdict: the kind that the recorded run gave.
    """
    all_conditions = [*_of_verdict(record, measured, verdict), *record.conditions]
    for clock in record.clocks:
        all_conditions += _of_clock(clock)
    for name, quantity in measured.items():
        all_conditions += _of_quantity(name, quantity)
    return [*all_conditions, *_of_body(record, measured), *_of_recording(record, measured), *_of_device(record)]


def span_partial(record: BenchRecord, span: Quantity | None) -> bool:
    """Whether the device span leaves out work: on several streams, or if it is far shorter than the busy time."""
    if span is None or record.trace is None or not len(record.trace.ops):
        return False
    most_ns = max(busy_ns(record.trace, device) for device in record.trace.device_ids)
    return _n_streams(record) > 1 or span.median_s * 1e9 < most_ns * UNSEEN_FRAC


def span_waits(record: BenchRecord) -> bool:
    """Whether the body waits for its own work, so that the device span contains the time Python takes in between."""
    return any(c.kind == "backlog outlasted" and c.values["why"] == "synchronises" for c in record.conditions)


def _of_verdict(record: BenchRecord, measured: Mapping[str, Quantity], verdict: str) -> list[Condition]:
    """Where the samples contradict the recorded run."""
    span, done = measured.get("device span"), measured.get("done")
    partial = span_partial(record, span) or span_waits(record)
    waits = Waits.of(measured.get("returns"), done, None if partial else span)
    if waits is None:
        return []
    disturbances = []
    if span is not None and not partial and span.median_s > LONGER_SPAN * waits.done_s:
        disturbances.append(Condition("longer span", {"span_s": span.median_s, "done_s": waits.done_s}))
    elif why := contradiction(verdict, waits):
        values: dict[str, Plain] = {"verdict": verdict, "why": why, "python_waits_s": waits.python_s}
        disturbances.append(
            Condition("verdicts differ", {**values, "device_idle_s": waits.device_s, "done_s": waits.done_s})
        )
    queued = measured.get(QUEUED)
    kept_busy = queued is not None and span is not None and queued.median_s <= KEPT_BUSY * span.median_s
    if queued is not None and span is not None and kept_busy and not partial and has_idle_device(verdict):
        values = {"calls": record.queued_calls, "queued_s": queued.median_s, "span_s": span.median_s}
        disturbances.append(Condition("busy in a row", values))
    return disturbances


def _of_clock(clock: ClockRecord) -> list[Condition]:
    disturbances = []
    lowest_mhz = min(clock.sm_mhz)
    if clock.limited_by or lowest_mhz < SLOWED_CLOCK_FRAC * clock.sm_mhz[0]:
        values: dict[str, Plain] = {
            "device": clock.device,
            "start_mhz": clock.sm_mhz[0],
            "lowest_mhz": lowest_mhz,
            "limited_by": ", ".join(clock.limited_by),
            "temperature_c": clock.temperature_c,
        }
        disturbances.append(Condition("clock", values))
    if clock.other_processes:
        disturbances.append(Condition("shared", {"device": clock.device, "processes": clock.other_processes}))
    return disturbances


def _of_quantity(name: str, quantity: Quantity) -> list[Condition]:
    disturbances = []
    if quantity.modes:
        low, high = quantity.modes
        values: dict[str, Plain] = {"quantity": name, "low_s": low.median_s, "high_s": high.median_s}
        values |= {"low_frac": low.frac, "median_s": quantity.median_s}
        disturbances.append(Condition("bimodal", values))
    elif abs(quantity.drift_frac) > DRIFT_SAID_FRAC:
        third = len(quantity.samples_s) // 3
        first_s, last_s = (float(np.median(part)) for part in (quantity.samples_s[:third], quantity.samples_s[-third:]))
        disturbances.append(Condition("drift", {"quantity": name, "first_s": first_s, "last_s": last_s}))
    if quantity.mean_is_far and not quantity.modes:
        values = {"quantity": name, "median_s": quantity.median_s, "mean_s": quantity.mean_s, "max_s": quantity.max_s}
        disturbances.append(Condition("mean", values))
    if len(quantity.run_medians_s) > 1 and quantity.median_s > 0:
        spread = (max(quantity.run_medians_s) - min(quantity.run_medians_s)) / quantity.median_s
        if spread > RUNS_DIFFER_FRAC:
            values = {"quantity": name, "spread_frac": spread, "runs": len(quantity.run_medians_s)}
            disturbances.append(Condition("runs differ", values))
    return disturbances


def _of_body(record: BenchRecord, measured: Mapping[str, Quantity]) -> list[Condition]:
    """Whether the body does anything."""
    if _compiled_away(record.code):
        return [Condition("compiled away")]
    returns = measured.get("returns")
    return [Condition("takes no time")] if returns is not None and returns.median_s == 0 else []


def _of_device(record: BenchRecord) -> list[Condition]:
    """What simulated devices without a pace say less of: the order of variants, and what devices gain together."""
    unused = any(condition.kind in ("no device", "idle device") for condition in record.conditions)
    n_unpaced = sum(device.simulated and not device.pace for device in record.devices)
    if not n_unpaced or unused:
        return []
    disturbances = [Condition("unpaced")] if record.round_id else []
    return [*disturbances, Condition("shared cores", {"n_devices": n_unpaced})] if n_unpaced > 1 else disturbances


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
    disturbances: list[Condition] = []
    done = measured.get("done")
    if record.trace is not None and done is not None:
        recorded_s = (record.trace.meta.end_ns - record.trace.meta.start_ns) / 1e9
        if recorded_s > SLOW_RECORDING * done.median_s:
            disturbances.append(Condition("slow recording", {"recorded_s": recorded_s, "done_s": done.median_s}))
    notes = record.trace.meta.notes if record.trace is not None else ()
    disturbances += [
        Condition("pace not reached", {"words": note.words}) for note in notes if note.kind == "pace_not_reached"
    ]
    if span_partial(record, measured.get("device span")):
        disturbances.append(Condition("other streams", {"streams": _n_streams(record)}))
    return disturbances


def _n_streams(record: BenchRecord) -> int:
    """Streams on which the recorded run executed something, 0 without one."""
    ops = record.trace.ops if record.trace is not None else None
    return 0 if ops is None else len(np.unique(np.stack((ops.device, ops.stream)), axis=1).T)

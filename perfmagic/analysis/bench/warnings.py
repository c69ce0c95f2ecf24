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
from perfmagic.base.language import counted, phrase
from perfmagic.base.options import called, option
from perfmagic.base.units import NBSP, duration_s, percent, percent_known, significant, size
from perfmagic.trace.host_limits import describe_measured_host, describe_shared_cores, describe_virtual_clock
from perfmagic.trace.samples import BenchRecord, ClockRecord, Condition, Plain, Taken

# What a user could still do about a warning or an unclear comparison, as options of the interface in use.

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
        advised = self.option(setting, value)
        if setting == "setup_each" and not self.taken.magic:
            return phrase(": {option}, a function of yours, {effect}", option=advised, effect=effect)
        return phrase(": {option} {effect}", option=advised, effect=effect)

    def option(self, setting: str, value: object = "") -> str:
        """An option as the interface that took the benchmark spells it.  setting: a field of BenchSpec."""
        return option(self.taken.magic, setting, value)

    def longer(self, n: int) -> str:
        """The option that takes more than n samples, and what else makes an interval narrower.

        No time is advised: a time that is given ends sampling for other reasons too, and may take fewer.
        """
        more = self.option("samples", _rounded_up(MORE * n))
        return phrase("a quieter machine or more samples help ({option})", option=more)


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
    return phrase(
        "did not settle within {time} of warm-up; later calls may differ too{tip}",
        time=duration_s(v["seconds"]),
        tip=_fresh_start(advice),
    )


def _fresh_start(advice: Advice) -> str:
    return advice.unless("setup_each", "reset", phrase("gives each call a fresh start"))


def _outlasted(v: Mapping[str, Any], _: Advice) -> str:
    if v["why"] == "long":
        return phrase(
            "Python needs {time}, longer than the longest backlog: device span includes waiting for Python",
            time=duration_s(v["host_s"]),
        )
    if v["why"] == "synchronises":
        return phrase("the cell synchronises: device span includes waiting")
    return phrase("Python was slower than in the first pass: device span includes waiting for it")


def _load(v: Mapping[str, Any], advice: Advice) -> str:
    said = counted(
        v["cores"],
        "load average {load} on {n} core: other processes were running",
        "load average {load} on {n} cores: other processes were running",
        load=f"{v['load']:.1f}",
    )
    if advice.interleaved:
        return said
    magic = called(advice.taken.magic, "bench --vs")
    return phrase("{said}. Interleaved comparisons ({magic}) are less affected", said=said, magic=magic)


def _drift(v: Mapping[str, Any], advice: Advice) -> str:
    moved = phrase("rose") if v["last_s"] > v["first_s"] else phrase("fell")
    return phrase(
        "{quantity} {moved} from {first} to {last} during the run{tip}",
        quantity=phrase(v["quantity"]),
        moved=moved,
        first=duration_s(v["first_s"]),
        last=duration_s(v["last_s"]),
        tip=advice.unless("runs", "5", phrase("shows whether it goes on")),
    )


def _mean(v: Mapping[str, Any], _: Advice) -> str:
    return phrase(
        "the mean of {quantity}, {mean}, is far from its median, {median}: the longest sample took {most} a call",
        quantity=phrase(v["quantity"]),
        mean=duration_s(v["mean_s"]),
        median=duration_s(v["median_s"]),
        most=duration_s(v["max_s"]),
    )


def _bimodal(v: Mapping[str, Any], advice: Advice) -> str:
    low_s, high_s = v["low_s"], v["high_s"]
    between = low_s * NEAR_MODE < v.get("median_s", low_s) < high_s / NEAR_MODE
    return phrase(
        "{quantity} is bimodal: {few} near {low}, {rest} near {high}; the median describes {described}{tip}",
        quantity=phrase(v["quantity"]),
        few=percent(v["low_frac"]),
        low=duration_s(low_s),
        rest=percent(1 - v["low_frac"]),
        high=duration_s(high_s),
        described=phrase("neither mode") if between else phrase("only one of them"),
        tip=advice.unless("runs", "5", phrase("shows whether whole runs keep to one mode")),
    )


def _runs_differ(v: Mapping[str, Any], _: Advice) -> str:
    return phrase(
        "the medians of {n} runs of {quantity} differ by {spread}: trust no smaller difference",
        n=v["runs"],
        quantity=phrase(v["quantity"]),
        spread=percent_known(v["spread_frac"]),
    )


def _clock(v: Mapping[str, Any], advice: Advice) -> str:
    reasons = [v["limited_by"]] if v["limited_by"] else []
    reasons += [f"{v['temperature_c']}{NBSP}°C"] if v["temperature_c"] else []  # 0 where the GPU did not say
    why = f" ({', '.join(reasons)})" if reasons else ""
    return phrase(
        "the clock of GPU {device} went from {start} to {lowest}{why}{tip}",
        device=v["device"],
        start=v["start_mhz"],
        lowest=f"{v['lowest_mhz']}{NBSP}MHz",
        why=why,
        tip=advice.unless("cooldown_s", "0.5", phrase("pauses before each sample")),
    )


def _changed(v: Mapping[str, Any], advice: Advice) -> str:
    took = phrase("the first call took {time}", time=duration_s(v["seconds"]))
    if v["times"]:
        times = significant(v["times"], 2)
        took = phrase("{took}, {times} times as long as those sampled", took=took, times=times)
    later = phrase("later calls, including the other variants',") if advice.interleaved else phrase("later calls")
    return phrase(
        "{took}, and modified {names}: {later} may do less work{tip}",
        took=took,
        names=v["names"],
        later=later,
        tip=_fresh_start(advice),
    )


def _grew(v: Mapping[str, Any], advice: Advice) -> str:
    return phrase(
        "every call leaves {size} more on {where}{tip}",
        size=size(v["bytes_per_call"]),
        where=v["where"],
        tip=_fresh_start(advice),
    )


def _fits(v: Mapping[str, Any], advice: Advice) -> str:
    return phrase(
        "a call moves {moved}, which fits in {name} ({size}): the rate may be that of the cache, not of the memory;"
        " {cold} overwrites the cache before each sample",
        moved=size(v["bytes"]),
        name=v["name"],
        size=size(v["cache_bytes"]),
        cold=advice.option("cold", True),
    )


def _recompiled(v: Mapping[str, Any], advice: Advice) -> str:
    return counted(
        v["times"],
        "torch.compile made {n} graph while samples were taken{tip}",
        "torch.compile made {n} graphs while samples were taken{tip}",
        tip=advice.unless("warmup", "20", phrase("may keep that out of the samples")),
    )


def _streams(v: Mapping[str, Any], advice: Advice) -> str:
    n = v["streams"]
    where = phrase("{n} streams", n=n) if n > 1 else phrase("a stream that is not the current one")
    return phrase(
        "the cell works on {where} and the device span sees the current one only: {magic} shows all",
        where=where,
        magic=called(advice.taken.magic, "timeline"),
    )


def _verdicts_differ(v: Mapping[str, Any], _: Advice) -> str:
    kind, done = phrase(v["verdict"]), duration_s(v["done_s"])
    if v["why"] == "python waits":
        return phrase(
            "the recorded run was {kind}; in the samples Python waits for the device for {time} of {done}",
            kind=kind,
            time=duration_s(v["python_waits_s"]),
            done=done,
        )
    idle = duration_s(v["device_idle_s"])
    only = idle if v["verdict"] == DEVICE_BOUND else phrase("only {time}", time=idle)
    return phrase(
        "the recorded run was {kind}; in the samples the device is idle for {time} of {done}",
        kind=kind,
        time=only,
        done=done,
    )


_SENTENCES: dict[str, Callable[[Mapping[str, Any], Advice], str]] = {
    "load": _load,
    "long first call": lambda v, _: phrase("the first call took {time}: no warm-up", time=duration_s(v["seconds"])),
    "profiled before": lambda _v, _a: phrase(
        "a profile was taken earlier in this process: launches may be 10 to 20 % slower until a restart"
    ),
    "did not settle": _did_not_settle,
    "idle device": lambda v, _: phrase("nothing was queued on the {device}", device=v["device"]),
    "no device": lambda _v, _a: phrase("no device was in use: done equals returns"),
    "no events": lambda v, _: phrase("no device records on {device}: no device span", device=v["device"]),
    "no backlog": lambda _v, _a: phrase("nothing could keep the queue full: device span includes waiting for Python"),
    "backlog outlasted": _outlasted,
    "no verdict": lambda v, _: phrase("no verdict: {why}", why=v["why"]),
    "fewer queued": lambda v, _: phrase(
        "{n} calls are queued in a row, not {wanted}: that may be more launches than a stream holds",
        n=v["calls"],
        wanted=v["wanted"],
    ),
    "prints": lambda _v, _a: phrase(
        "it prints: output is dropped from the second call on, so no time includes showing it"
    ),
    "recompiled": _recompiled,
    "fits in caches": _fits,
    "memory grew": _grew,
    "changed inputs": _changed,
    "clock": _clock,
    "shared": lambda v, _: counted(
        v["processes"], "{n} other process used GPU {gpu}", "{n} other processes used GPU {gpu}", gpu=v["device"]
    ),
    "longer span": lambda v, _: phrase(
        "the device span ({span}) is longer than done ({done}): the machine was slower when the span was measured, so"
        " neither is certain",
        span=duration_s(v["span_s"]),
        done=duration_s(v["done_s"]),
    ),
    "verdicts differ": _verdicts_differ,
    "busy in a row": lambda v, _: phrase(
        "the verdict is for one call; of {n} in a row each takes {time}, hardly more than its device span ({span}):"
        " there the device is the bottleneck",
        n=v["calls"],
        time=duration_s(v["queued_s"]),
        span=duration_s(v["span_s"]),
    ),
    "not swept": lambda v, _: phrase(
        "neither the cell nor its set-up code names {name}: only what they call can depend on it", name=v["name"]
    ),
    "bimodal": _bimodal,
    "mean": _mean,
    "drift": _drift,
    "runs differ": _runs_differ,
    "compiled away": lambda _v, _a: phrase(
        "Python evaluated the cell when it compiled it, so no call does anything: use names instead of literals"
    ),
    "takes no time": lambda _v, _a: phrase(
        "takes less time than the clock can resolve: nothing is left after subtracting the empty loop"
    ),
    "slow recording": lambda v, _: phrase(
        "the recorded run took {recorded}, the samples {done}: the verdict rests on that run and may not hold for the"
        " samples",
        recorded=duration_s(v["recorded_s"]),
        done=duration_s(v["done_s"]),
    ),
    "other streams": _streams,
    "pace not reached": lambda v, _: v["words"],
    "virtual clock": lambda v, _: describe_virtual_clock(v.get("pace", "")),
    "measured host": lambda _v, _a: describe_measured_host(),
    "shared cores": lambda v, _: describe_shared_cores(int(v["n_devices"])),
    "unpaced": lambda _v, _a: phrase(
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

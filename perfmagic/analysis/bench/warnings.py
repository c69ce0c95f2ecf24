"""What may disturb a benchmark, in words: one sentence for each kind, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from perfmagic.analysis.bench.advice import Advice
from perfmagic.analysis.verdict import DEVICE_BOUND
from perfmagic.flags import called
from perfmagic.samples import Condition, Plain, Taken
from perfmagic.units import NBSP, duration_s, percent, percent_known, plural, significant, size

NEAR_MODE = 1.1  # a median so near to a mode, as a ratio, describes that mode


@dataclass(frozen=True)
class BenchWarning:
    """Something that may disturb a benchmark.

    kind: one of KINDS, "" in a file from before warnings had kinds.  values: its numbers by name, with their units.
    sentence: both in words, with what to do where something is left to do.
    """

    kind: str
    values: Mapping[str, Plain] = field(default_factory=dict)
    sentence: str = ""

    @classmethod
    def restored(cls, saved: Mapping[str, Any] | str) -> BenchWarning:
        """From JSON; earlier files have the sentence only."""
        return cls("", {}, saved) if isinstance(saved, str) else cls(**saved)

    def to_dict(self) -> dict[str, Any]:
        """All of it, ready for JSON."""
        return {"kind": self.kind, "values": dict(self.values), "sentence": self.sentence}

    def __str__(self) -> str:
        return self.sentence


def worded(found: Sequence[Condition], taken: Taken) -> tuple[BenchWarning, ...]:
    """Each condition with its sentence.  taken: what the user set already, which no sentence advises."""
    advice = Advice(taken)
    return tuple(BenchWarning(one.kind, dict(one.values), _WORDS[one.kind](one.values, advice)) for one in found)


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


_WORDS: dict[str, Callable[[Mapping[str, Any], Advice], str]] = {
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
    "unpaced": lambda _v, _a: (
        "the simulated device has no pace: ops take what the CPU needs for them, and a GPU may order the variants the "
        'other way, half precision for one; a pace gives it rates: device(pace="matmul=50GFLOP/s")'
    ),
}
KINDS = frozenset(_WORDS)

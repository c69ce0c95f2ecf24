"""What was taken of a body, as its raw record and as words for somebody who waits."""

from __future__ import annotations

import math

import numpy as np

from perfmagic.capture.bench.phases import Phases
from perfmagic.capture.devices.environment import environment
from perfmagic.numerics.stats import relative_half_width
from perfmagic.samples import SESSION, BenchRecord
from perfmagic.units import NBSP, duration_s, percent_known, plural


def bench_record(phases: Phases) -> BenchRecord:
    """What was measured so far: complete samples only, empty arrays where there are none."""
    plan, outcome, passes = phases.plan, phases.outcome, phases.passes
    sampling, warming, watchers = phases.sampling, phases.warming, phases.watchers
    works, caches, clocks = phases.use.works, phases.sampler.caches, watchers.clocks
    samples, starts = sampling.log.samples_s(), sampling.log.run_starts
    return BenchRecord(
        name=plan.spec.name,
        synced=plan.synced,
        returns_s=samples[:, 0],
        done_s=samples[:, 1] if works else np.empty(0, np.float64),
        span_s=np.array(passes.spans, np.float64),
        first_calls_s=np.array(warming.first_s, np.float64),
        warmup_calls=warming.calls + sampling.probe_calls,
        body_runs=phases.sampler.watch.runs,
        loop_overhead_s=sampling.log.loop_ns[0] / 1e9,
        span_calls_per_sample=passes.span_calls,
        stopped_by=f"ended early: {outcome.failed}" if outcome.failed else sampling.stopped_by,
        devices=phases.use.devices.infos if works else (),
        trace=passes.trace,
        failed=outcome.failed,
        conditions=tuple(phases.notes.conditions),
        code=plan.spec.code,
        magic=plan.spec.magic,
        warmed_up=warming.calls > 0 or len(warming.first_s) > 1,
        setup=plan.spec.setup,
        taken_unix_ns=outcome.taken_unix_ns,
        session=SESSION,
        calls_per_sample=sampling.size.calls,
        round_id=outcome.round_id,
        queued_s=np.array(passes.queued, np.float64),
        queued_calls=passes.queued_calls,
        run_starts=tuple(starts) if len(starts) > 1 else (),
        reference_s=tuple(ns / 1e9 for ns in sampling.reference.taken_ns),
        cold_bytes=caches.size_bytes if caches is not None else 0,
        cold_of=caches.name if caches is not None else "",
        flop=outcome.work.flop,
        moved_bytes=outcome.work.moved_bytes,
        held_bytes=watchers.peak.held_bytes,
        peak_bytes=watchers.peak.peak_bytes,
        clocks=clocks.records() if clocks is not None else (),
        settings=plan.spec.settings(),
        environment=environment() | ({"driver": clocks.driver} if clocks is not None else {}),
    )


def progress_words(phases: Phases) -> str:
    """How far the benchmark has come."""
    first_s, sampling = phases.warming.first_s, phases.sampling
    if not first_s:
        return "first call"
    if not sampling.log.of_this_run:
        return f"first call {duration_s(first_s[0])}, warming up"
    done = sampling.done_s()
    known = relative_half_width(done)
    interval = f" ±{NBSP}{percent_known(known)}" if math.isfinite(known) else ""
    return f"{plural(len(done), 'sample')}, median {duration_s(sampling.median_s())}{interval}"

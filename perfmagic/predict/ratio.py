"""How well the ratio of two predicted times is known: errors of the same kernels cancel in it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from perfmagic.base.kinds import HOST_SPREAD, PredictedFor
from perfmagic.base.language import phrase
from perfmagic.base.numerics.intervals import distinct
from perfmagic.trace.host_limits import CHANNELS_LAST
from perfmagic.trace.model import Trace

HOST = ""  # for the time in which no op ran; no op has this name


def times_by_op(trace: Trace) -> dict[str, float]:
    """The time of a predicted run in ns by the names of its ops, and what is left of it for the host."""
    ops = trace.ops
    sums = np.bincount(ops.name, weights=ops.end_ns - ops.start_ns, minlength=len(trace.names))
    times = {trace.names[name]: float(sums[name]) for name in distinct(ops.name).tolist()}
    times[HOST] = max(0.0, trace.meta.end_ns - trace.meta.start_ns - sum(times.values()))
    return times


def ratio_range(a: Mapping[str, float], b: Mapping[str, float], spread: float) -> tuple[float, float]:
    """The least and the largest ratio of the sum of a to that of b. A model's error of an op is the same in both.

    a, b: from times_by_op, of runs on one GPU.  spread: by which the times of ops may be off; of the host by its own.
    """
    kinds = sorted({*a, *b}, key=lambda kind: a.get(kind, 0.0) / b[kind] if b.get(kind) else float("inf"))
    ratios: list[float] = []
    for first in range(len(kinds) + 1):
        for up in (1, -1):  # what a has more of takes longer than predicted, and the rest shorter; then the reverse
            scales = [_off(kind, spread) ** (up if at >= first else -up) for at, kind in enumerate(kinds)]
            of_a, of_b = (sum(s * x.get(k, 0.0) for k, s in zip(kinds, scales, strict=True)) for x in (a, b))
            ratios += [of_a / of_b] if of_b else []
    return min(ratios, default=1.0), max(ratios, default=1.0)


def of_two_gpus(a_ns: float, b_ns: float, a: PredictedFor, b: PredictedFor) -> tuple[float, float]:
    """The least and the most that a run on one GPU takes of one on another.

    It is off by as much as a replay on another GPU, which is such a ratio.
    """
    spread = max(a.spread, b.spread)
    return a_ns / b_ns / spread, a_ns / b_ns * spread


def describe_layouts(a: Trace, b: Trace, names: tuple[str, str]) -> str:
    """That the layouts of two predicted runs differ, of which the model knows nothing; "" where they do not."""
    has = [any(note.kind == CHANNELS_LAST for note in trace.meta.notes) for trace in (a, b)]
    if has[0] == has[1] or not (a.predicted and b.predicted):
        return ""
    name = names[has.index(True)]
    return phrase(
        "only {name} has channels_last tensors: a GPU takes another time for them, the model does not", name=name
    )


def _off(kind: str, spread: float) -> float:
    return spread if kind != HOST else HOST_SPREAD

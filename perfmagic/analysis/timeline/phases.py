"""The phases of an LLM server: prefill and decode, by the annotation that it puts around each step."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np

from perfmagic.analysis.timeline.operators import annotation_launches
from perfmagic.base import units
from perfmagic.base.language import capitalised, chained, counted, listed, phrase, sentences
from perfmagic.base.numerics.intervals import covered_ns
from perfmagic.trace.columns import NONE, Bool, HostKind, Int64
from perfmagic.trace.hoststack import host_stack
from perfmagic.trace.json_form import one_of
from perfmagic.trace.model import Trace, busy_intervals, once_per_trace
from perfmagic.trace.rows import Rows

# The annotations, and what they say of a step.

# vLLM: gpu_worker.py, annotate_profile(). Brackets hold the tokens, in some builds with the sums of further lengths.
_TOKENS = r"(\d{1,9})\((?:sq)?(\d{1,9})(?!\d)[^)]*\)"
_VLLM = re.compile(rf"execute_(?:\d+_)?context_{_TOKENS}_generation_{_TOKENS}$")
_VLLM_BEFORE = re.compile(r"execute_new_(\d{1,9})_cached_(\d{1,9})$")  # of older versions
# SGLang: profile_utils.py, build_step_span_name(): step[EXTEND bs=15 toks=15360].
# ATOM: run_labels.py, build_run_label(): decode[bs=117/128 tok=117 p=2 d=115]; of two batch sizes the first is real.
_BRACKETS = re.compile(r"(step\[[A-Z0-9_]+ |(?:eager_)?decode\[|prefill\[)bs=(\d{1,9})(.*)\]$")
_FIELD = re.compile(r"\b(\w+)=(\d{1,9})")
_KINDS = {
    "step[EXTEND ": "prefill",
    "step[DECODE ": "decode",
    "step[MIXED ": "mixed",
    "prefill[": "prefill",
    "decode[": "decode",
    "eager_decode[": "decode",
}
_TOKEN_FIELDS = (("toks",), ("tok",), ("c_sq", "g_sq"), ("g_sq",))  # the first that an annotation has


class ServingStep(NamedTuple):
    """What an annotation says of a step; n_tokens: None where it does not say."""

    phase: str
    batch_size: int
    n_tokens: int | None


def serving_step(name: str) -> ServingStep | None:
    """Which step of vLLM, SGLang or ATOM does this annotation mark? None for any other annotation."""
    if match := _VLLM.match(name):
        prompts, prompt_tokens, decoding, decoded_tokens = map(int, match.groups())
        return _by_requests(prompts, decoding, prompt_tokens + decoded_tokens)
    if match := _VLLM_BEFORE.match(name):
        return _by_requests(int(match[1]), int(match[2]), None)
    if not (match := _BRACKETS.match(name)):
        return None
    batch_size, fields = int(match[2]), {key: int(n) for key, n in _FIELD.findall(match[3])}
    said = (sum(fields[key] for key in keys) for keys in _TOKEN_FIELDS if fields.keys() >= set(keys))
    phase = _KINDS.get(match[1], "other")
    one_each = batch_size if match[1] == "step[DECODE " else None
    return ServingStep("mixed" if phase == "decode" and fields.get("p") else phase, batch_size, next(said, one_each))


def _by_requests(prompts: int, decoding: int, n_tokens: int | None) -> ServingStep:
    phase = "mixed" if prompts and decoding else "prefill" if prompts else "decode" if decoding else "other"
    return ServingStep(phase, prompts + decoding, n_tokens)


# The time of each step, and of each phase.

CUT_FRAC = 0.1  # of an annotation outside the records: such a step is not timed


@dataclass(frozen=True)
class Phase:
    """All steps of an LLM server that do the same.

    phase: prefill, decode, mixed (both in one step), or other: idle steps, checks of speculative decoding.
    n_steps: steps that were annotated.
    step_ns: how long a step took, the median; None where no step is recorded whole.
    total_ns: the sum over the steps that are recorded whole.
    window_busy_frac: the share of total_ns in which a device was busy.
    batch_size: requests in a step, the median.
    n_tokens: tokens that all steps computed, of prompts and decoded; None where the annotations do not say. Drafts of
    speculative decoding count, accepted or not.
    tokens_per_s: those of the steps that are recorded whole, by total_ns; time between steps is left out.

    Source: docs/words.md, "phase".
    """

    phase: Annotated[str, one_of("prefill", "decode", "mixed", "other")]
    n_steps: int
    step_ns: float | None
    total_ns: int
    window_busy_frac: float | None
    batch_size: int
    n_tokens: int | None
    tokens_per_s: float | None


class _Timed(NamedTuple):
    """A step with its time, which is empty where it launched no op.  cut: whether the record holds it in part only."""

    said: ServingStep
    start_ns: int
    end_ns: int
    cut: bool

    @property
    def whole(self) -> bool:
        return self.end_ns > self.start_ns and not self.cut


@once_per_trace
def phases(trace: Trace) -> Rows[Phase]:
    """How long did an LLM server prefill and decode, and how many tokens per second? The longest phase first.

    The time of a step is the device's: from the first start to the last end of the ops launched inside its annotation,
    at the earliest from the end of the step before. torch.profiler's gpu_user_annotation is this span without the ops
    launched inside a further annotation. Where no annotation launched an op, it is the annotation's time on the host;
    that includes waiting for the step before. Of annotations inside each other the innermost counts.
    """
    host = trace.host_ops
    known = {code: step for code, name in enumerate(trace.names) if (step := serving_step(name))}
    marked: Bool = np.isin(host.name, list(known)) & (host.kind == HostKind.ANNOTATION)
    if not marked.any():
        return Rows((), Phase)
    around = host_stack(trace, marked).parents()
    marked[around[around != NONE]] = False
    timed, on_device = _timed(trace, np.flatnonzero(marked), known)
    names = dict.fromkeys(step.said.phase for step in timed)
    found = (_phase(trace, [step for step in timed if step.said.phase == name]) for name in names)
    rows = sorted(found, key=lambda row: -row.total_ns)
    return Rows(rows, Phase, note=_note(rows, timed, on_device))


def _timed(trace: Trace, rows: Int64, known: Mapping[int, ServingStep]) -> tuple[list[_Timed], bool]:
    """The steps of some annotations by start, rows of host_ops, and whether their times are the device's."""
    host, ops = trace.host_ops, trace.ops
    rows = rows[np.argsort(host.start_ns[rows], kind="stable")]
    mark, op = annotation_launches(trace, host_stack(trace, np.isin(np.arange(len(host)), rows)))
    first, last = np.full(len(host), np.iinfo(np.int64).max), np.full(len(host), np.iinfo(np.int64).min)
    np.minimum.at(first, mark, ops.start_ns[op])
    np.maximum.at(last, mark, ops.end_ns[op])
    starts, ends = (first, last) if len(mark) else (host.start_ns, host.end_ns)
    recorded = np.array([[trace.meta.start_ns, trace.meta.end_ns]], np.int64)
    length_ns = host.end_ns[rows] - host.start_ns[rows]
    outside_ns = length_ns - covered_ns(recorded, host.start_ns[rows], host.end_ns[rows])
    ended: dict[int, int] = {}  # when the last step of each thread did
    timed = []
    for row, cut in zip(rows.tolist(), (outside_ns > CUT_FRAC * length_ns).tolist(), strict=True):
        start, end, thread = int(starts[row]), int(ends[row]), int(host.thread[row])
        before = ended.get(thread, start)
        timed.append(_Timed(known[int(host.name[row])], max(start, before), end, cut))
        ended[thread] = max(end, before) if end > start else before
    return timed, len(mark) > 0


def _phase(trace: Trace, steps: Sequence[_Timed]) -> Phase:
    """The figures of the steps of one phase."""
    whole = [step for step in steps if step.whole]
    spans = np.array([(step.start_ns, step.end_ns) for step in whole], np.int64).reshape(-1, 2)
    total_ns = int((spans[:, 1] - spans[:, 0]).sum())
    n_tokens, in_whole = _n_tokens(steps), _n_tokens(whole)
    return Phase(
        phase=steps[0].said.phase,
        n_steps=len(steps),
        step_ns=float(np.median(spans[:, 1] - spans[:, 0])) if whole else None,
        total_ns=total_ns,
        window_busy_frac=int(covered_ns(busy_intervals(trace), *spans.T).sum()) / total_ns if whole else None,
        # as statistics.median_low, whose module is slow to import
        batch_size=sorted(step.said.batch_size for step in steps)[(len(steps) - 1) // 2],
        n_tokens=n_tokens,
        tokens_per_s=in_whole / total_ns * 1e9 if whole and in_whole else None,
    )


def _n_tokens(steps: Sequence[_Timed]) -> int | None:
    said = [step.said.n_tokens for step in steps]
    return None if None in said else sum(n for n in said if n is not None)


# In words.


def _note(rows: Sequence[Phase], timed: Sequence[_Timed], on_device: bool) -> str:
    """What the times are of where that is not the device, and why a figure is missing."""
    n_cut, n_empty = sum(step.cut for step in timed), sum(not step.whole and not step.cut for step in timed)
    silent = [row.phase for row in rows if row.n_tokens is None and row.phase != "other"]
    parts = [] if on_device else [phrase("Times are the host's: no op was launched inside the annotations")]
    cut = counted(
        n_cut, "Not timed: {n} step that the record holds in part", "Not timed: {n} steps that the record holds in part"
    )
    empty = counted(n_empty, "Not timed: {n} step that launched no op", "Not timed: {n} steps that launched no op")
    phases = listed([phrase(name) for name in silent])
    unknown = phrase("Not known from the annotations: the tokens of {phases} steps", phases=phases)
    parts += [*([cut] if n_cut else []), *([empty] if n_empty else []), *([unknown] if silent else [])]
    return sentences(*parts)


def phase_headline(rows: Sequence[Phase]) -> str:
    """The phases in one sentence, the longest first: "Decode: 12 steps of 8.31 ms, batch 64: 7,700 tokens/s"."""
    first, *others = [_describe_phase(row) for row in rows if row.phase != "other"] or [""]
    parts = chained("{a}; {b}", (capitalised(first), *others))
    return phrase("{sentence}.", sentence=parts) if parts else ""


def _describe_phase(row: Phase) -> str:
    steps = counted(row.n_steps, "{n} step", "{n} steps")
    if row.step_ns is not None:
        steps = phrase("{steps} of {time}", steps=steps, time=units.duration(row.step_ns))
    words = phrase(
        "{phase}: {steps}, batch {batch}", phase=phrase(row.phase), steps=steps, batch=units.count(row.batch_size)
    )
    rate = "" if row.tokens_per_s is None else units.tokens_per_s(row.tokens_per_s)
    return chained("{a}: {b}", (words, rate))

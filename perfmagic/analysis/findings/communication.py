"""The findings on communication beside compute, and that the rule for names may miss, and their sentences."""

from __future__ import annotations

import numpy as np

from perfmagic import units
from perfmagic.analysis.findings.communicated import moved_words, pieces_words
from perfmagic.analysis.findings.exposed import EXPOSED_FRAC
from perfmagic.analysis.findings.facts import Facts, listed, sentences
from perfmagic.analysis.findings.finding import Finding
from perfmagic.numerics.grouped import distinct
from perfmagic.trace.columns import Int64, OpKind
from perfmagic.trace.hoststack import COLLECTIVE_NOTE
from perfmagic.trace.names import OpClass, op_classes
from perfmagic.trace.signatures import function_name

FEW_NAMES = 8  # a library of collectives runs a handful of kernels; a model's side stream runs its operators
LONG_NS = 50_000  # in the mean; an all-to-all between GPUs takes more, most elementwise kernels less
NOTABLE_FRAC = 0.05  # of the extent, as of an exposed copy
NAMED = 3  # kernels that a sentence lists
_ASKED = (COLLECTIVE_NOTE, "c10d::", "nccl:")  # what torch.distributed records on the host


def communication(facts: Facts) -> list[Finding]:
    """Communication that compute hides; a job without any; or kernels that look like it and do not count.

    Such kernels are long, have a stream for themselves and names that run nowhere else. Nobody but the user knows:
    the sentence says which option decides.
    """
    trace = facts.trace
    if trace.simulated or not len(trace.ops) or trace.meta.world_size == 1:
        return []
    has_any = bool((op_classes(trace, facts.comm_names) == OpClass.COMMUNICATION).any())
    distributed = (trace.meta.world_size or 0) > 1 or _asked(facts)
    suspects = [found for stream in _streams(facts) if len(found := _suspects(facts, stream))]
    if suspects:
        return [_looks_like(facts, max(suspects, key=lambda rows: _length_ns(facts, rows)), distributed)]
    if facts.comm_names is not None and not has_any:
        said = f"no kernel matches comm_names={facts.comm_names!r}"
        return [_finding(facts, said, "", "Correct the expression, or leave it out")]
    if has_any:
        return _hidden(facts)
    return [_nothing(facts)] if distributed else []


def _hidden(facts: Facts) -> list[Finding]:
    """How long communication took and what it moved, where too little is exposed for the finding about that."""
    parts = facts.breakdown
    all_ns, exposed_ns = parts.communication_ns, parts.exposed_communication_ns
    if all_ns < NOTABLE_FRAC * parts.extent_ns or exposed_ns >= EXPOSED_FRAC * parts.extent_ns:
        return []
    beside = f"{units.duration(all_ns - exposed_ns)} of {units.duration(all_ns)}"
    took = f"{beside if exposed_ns else f'all {units.duration(all_ns)}'} ran beside compute"
    pieces, advice = pieces_words(facts)
    return [_finding(facts, "communication", f": {sentences(took, pieces, moved_words(facts))}", advice)]


def _asked(facts: Facts) -> bool:
    """Whether the host called torch.distributed."""
    names = (facts.trace.names[name] for name in distinct(facts.trace.host_ops.name).tolist())
    return any(name.startswith(_ASKED) for name in names)


def _streams(facts: Facts) -> list[int]:
    """The streams beside the busiest one that were busy for long enough."""
    least_ns = NOTABLE_FRAC * facts.breakdown.extent_ns
    return [one.stream for one in facts.streams[1:] if one.busy_ns >= least_ns]


def _suspects(facts: Facts, stream: int) -> Int64:
    """The kernels of a stream that look like communication, rows of trace.ops; none where they do not."""
    ops, classes = facts.trace.ops, op_classes(facts.trace, facts.comm_names)
    mine = (ops.device == facts.device) & (ops.kind == OpKind.KERNEL)
    rows = np.flatnonzero(mine & (ops.stream == stream) & (classes == OpClass.COMPUTE))
    matrix = mine & (ops.stream == stream) & (classes == OpClass.MATRIX)
    names = np.unique(ops.name[rows])
    elsewhere = np.isin(names, ops.name[mine & (ops.stream != stream)]).any()
    if not len(rows) or matrix.any() or len(names) > FEW_NAMES or elsewhere:
        return np.zeros(0, np.int64)
    length_ns = _length_ns(facts, rows)
    notable = length_ns >= NOTABLE_FRAC * facts.breakdown.extent_ns and length_ns >= LONG_NS * len(rows)
    return rows if notable else np.zeros(0, np.int64)


def _length_ns(facts: Facts, rows: Int64) -> int:
    return int((facts.trace.ops.end_ns - facts.trace.ops.start_ns)[rows].sum())


def _looks_like(facts: Facts, rows: Int64, distributed: bool) -> Finding:
    ops = facts.trace.ops
    names, n = np.unique(ops.name[rows], return_counts=True)
    short = list(dict.fromkeys(function_name(facts.trace.names[names[i]]) for i in np.argsort(-n, kind="stable")))
    which = listed(short[:NAMED]) + (f" and {len(short) - NAMED} more" if len(short) > NAMED else "")
    kernels = f"{units.plural(len(rows), 'kernel')} on stream {int(ops.stream[rows[0]])}"
    alone = (
        f"{kernels} ({units.duration(_length_ns(facts, rows))}: {which}) run on no other stream and count as compute"
    )
    job = f"the job has {units.plural(facts.trace.meta.world_size or 0, 'rank')}" if facts.trace.meta.world_size else ""
    job = job or ("the host calls torch.distributed" if distributed else "")
    return _finding(
        facts,
        "is this communication?",
        " " + sentences(alone[:1].upper() + alone[1:], job),
        f'If it is, say so: comm_names="{"|".join(dict.fromkeys(_word(name) for name in short[:NAMED]))}"',
        (int(ops.start_ns[rows[0]]), int(ops.end_ns[rows].max())),
    )


def _word(name: str) -> str:
    """A regular expression that finds a short name."""
    return name.rsplit("::", maxsplit=1)[-1]


def _nothing(facts: Facts) -> Finding:
    size = facts.trace.meta.world_size or 0
    why = f"the job has {units.plural(size, 'rank')}" if size > 1 else "the host calls torch.distributed"
    said = sentences(why, "no kernel counts as communication, so none is called exposed or overlapped")
    return _finding(facts, "no communication", ": " + said, 'If some kernels communicate, name them: comm_names="…"')


def _finding(facts: Facts, cause: str, detail: str, advice: str, shown_ns: tuple[int, int] | None = None) -> Finding:
    start_ns, end_ns = shown_ns or (facts.breakdown.extent_start_ns, facts.breakdown.extent_end_ns)
    return Finding(
        rule="communication",
        cost_ns=None,
        cause=cause,
        detail=detail,
        lines=(),
        start_ns=start_ns,
        end_ns=end_ns,
        device=facts.device,
        advice=advice,
    )

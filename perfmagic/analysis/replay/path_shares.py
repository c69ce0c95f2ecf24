"""What the critical path of a run consists of, in few words: one bar that holds each instant of the run once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.replay.build import graph_of
from perfmagic.analysis.replay.critical_path import CriticalPath, Held, critical_path
from perfmagic.analysis.replay.refusals import unreadable
from perfmagic.trace.model import Trace
from perfmagic.trace.names import OpClass, op_classes
from perfmagic.trace.once import once_per_trace

MOST_INSTANTS = 100_000  # of a graph: a larger one is built when somebody asks for its path, not for each picture
SMALL_FRAC = 0.005  # of the run: a kind of so little has no place of its own
OTHER = "other"
# kinds by their words; what is no op's class stands for its Held
_KINDS: tuple[tuple[str, tuple[Held, ...]], ...] = (
    ("Python", (Held.PYTHON,)),
    ("launches and calls", (Held.CALL, Held.LAUNCH, Held.ROOM)),
    ("communication", (Held.COMMUNICATION,)),
    ("memsets", (Held.MEMSET,)),
    ("between queued ops", (Held.STREAM,)),
    ("waits between streams", (Held.OTHER_STREAM,)),
    ("returns and hand-overs", (Held.SYNC, Held.OTHER_THREAD)),
    ("unexplained", (Held.UNEXPLAINED,)),
    ("before the record", (Held.BEFORE,)),
)
CLASS_WORDS = {
    OpClass.MATRIX: "matrix kernels",
    OpClass.COMPUTE: "other kernels",
    OpClass.HTOD: "HtoD copies",
    OpClass.DTOH: "DtoH copies",
    OpClass.DTOD: "DtoD copies",
    OpClass.PTOP: "PtoP copies",
}
OF_HOST = ("Python", "launches and calls")
OF_DEVICE = (*CLASS_WORDS.values(), "communication", "memsets", "between queued ops", "waits between streams")


@dataclass(frozen=True)
class PathShare:
    """A kind of what held the run, and how long it did."""

    name: str
    ns: int


def in_passing(trace: Trace) -> bool:
    """Whether the graph of a trace is small enough to be built for a picture of it."""
    return bool(len(trace.ops)) and 2 * len(trace.calls) + len(trace.ops) <= MOST_INSTANTS


@once_per_trace
def path_shares(trace: Trace, comm_names: str | None = None) -> tuple[PathShare, ...]:
    """What held the run, the longest first; kinds of little length together as "other".

    Empty where the record is too large, see in_passing, or leaves too much unexplained, and for a prediction, whose own
    path its replay knows. Their sum is the run.
    """
    if not in_passing(trace) or trace.meta.predicted:
        return ()
    graph = graph_of(trace)
    return () if unreadable(graph) else shares_of(critical_path(graph, comm_names=comm_names), comm_names)


def shares_of(path: CriticalPath, comm_names: str | None = None) -> tuple[PathShare, ...]:
    """The kinds of a path by length."""
    sums = {words: int(path.length_ns[np.isin(path.held, held)].sum()) for words, held in _KINDS}
    classes = op_classes(path.trace, comm_names)
    for held in (Held.COMPUTE, Held.COPY):
        mine = path.held == held
        of_op = classes[path.op[mine]]
        for op_class in np.unique(of_op).tolist():
            sums[CLASS_WORDS[OpClass(op_class)]] = int(path.length_ns[mine][of_op == op_class].sum())
    found = [PathShare(words, ns) for words, ns in sorted(sums.items(), key=lambda item: -item[1]) if ns]
    least_ns = SMALL_FRAC * path.run_ns
    small_ns = sum(share.ns for share in found if share.ns < least_ns)
    shown = [share for share in found if share.ns >= least_ns]
    return (*shown, PathShare(OTHER, small_ns)) if small_ns else tuple(shown)

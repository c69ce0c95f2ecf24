"""What the critical path of a run consists of, in few words: one bar that holds each instant of the run once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.replay.build import graph_of
from perfmagic.analysis.replay.critical_path import CriticalPath, Held, critical_path
from perfmagic.analysis.replay.refusals import unreadable
from perfmagic.trace.columns import Int64
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


@dataclass(frozen=True, eq=False)
class PathShares:
    """What held the run, by kind and part by part.

    shares: the longest first; kinds of little length together as "other".  Their sum is the run.
    path: the parts in order.  share: of each part of the path its row of shares.
    """

    shares: tuple[PathShare, ...]
    path: CriticalPath
    share: Int64


def path_shares(trace: Trace, comm_names: str | None = None) -> tuple[PathShare, ...]:
    """The kinds of what held the run; empty where shared_path gives None."""
    found = shared_path(trace, comm_names)
    return found.shares if found else ()


@once_per_trace
def shared_path(trace: Trace, comm_names: str | None = None) -> PathShares | None:
    """What held the run.

    None where the record is too large, see in_passing, or leaves too much unexplained, and for a prediction, whose own
    path its replay knows.
    """
    if not in_passing(trace) or trace.meta.predicted:
        return None
    graph = graph_of(trace)
    return None if unreadable(graph) else shares_of(critical_path(graph, comm_names=comm_names), comm_names)


def shares_of(path: CriticalPath, comm_names: str | None = None) -> PathShares:
    """The kinds of a path by length."""
    number, words = _numbered(path, comm_names)
    sums = np.zeros(len(words), np.int64)
    np.add.at(sums, number, path.length_ns)
    order = [i for i in np.argsort(-sums, kind="stable").tolist() if sums[i]]
    large = [i for i in order if sums[i] >= SMALL_FRAC * path.run_ns]
    shares = [PathShare(words[i], int(sums[i])) for i in large]
    row = np.full(len(words), len(large), np.int64)  # all others stand behind these, as one
    row[large] = np.arange(len(large))
    if len(order) > len(large):
        shares.append(PathShare(OTHER, int(sums.sum()) - sum(share.ns for share in shares)))
    return PathShares(tuple(shares), path, row[number])


def _numbered(path: CriticalPath, comm_names: str | None) -> tuple[Int64, list[str]]:
    """The kind of each part as a number, and the words of each number."""
    words = [kind for kind, _ in _KINDS] + list(CLASS_WORDS.values())
    number = np.zeros(len(path), np.int64)
    for i, (_, held) in enumerate(_KINDS):
        number[np.isin(path.held, held)] = i
    classes = op_classes(path.trace, comm_names)
    of_op = np.isin(path.held, (Held.COMPUTE, Held.COPY))
    for i, op_class in enumerate(CLASS_WORDS, len(_KINDS)):
        number[of_op] = np.where(classes[path.op[of_op]] == op_class, i, number[of_op])
    return number, words

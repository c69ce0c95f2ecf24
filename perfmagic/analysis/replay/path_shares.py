"""What the critical path of a run consists of, in few words: one bar that holds each instant of the run once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfmagic.analysis.replay.build import graph_of
from perfmagic.analysis.replay.critical_path import CriticalPath, Held, critical_path
from perfmagic.analysis.replay.refusals import refusal, unreadable
from perfmagic.trace.columns import Int64
from perfmagic.trace.model import Trace
from perfmagic.trace.names import OpClass, op_classes
from perfmagic.trace.once import once_per_trace

MOST_INSTANTS = 100_000  # of a graph: a larger one is built when somebody asks for its path, not for each picture
SMALL_FRAC = 0.005  # of the run: a kind of so little has no place of its own
OTHER, BEFORE = "other", "before the record"
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
    (BEFORE, (Held.BEFORE,)),
)
CLASS_WORDS = {
    OpClass.MATRIX: "matrix kernels",
    OpClass.COMPUTE: "other kernels",
    OpClass.HTOD: "HtoD copies",
    OpClass.DTOH: "DtoH copies",
    OpClass.DTOD: "DtoD copies",
    OpClass.PTOP: "PtoP copies",
}
KIND_WORDS = (*(kind for kind, _ in _KINDS), *CLASS_WORDS.values())
OF_HOST = ("Python", "launches and calls")
OF_DEVICE = (*CLASS_WORDS.values(), "communication", "memsets", "between queued ops", "waits between streams")


@dataclass(frozen=True)
class PathShare:
    """A kind of what held the run, and how long it did.  rank: where, in the path of a job."""

    name: str
    ns: int
    rank: int | None = None

    @property
    def words(self) -> str:
        """The kind, and where: "Python on rank 3"."""
        if self.rank is None:
            return self.name
        return f"{self.name} {'of' if self.name == BEFORE else 'on'} rank {self.rank}"


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


def shared_path(trace: Trace, comm_names: str | None = None) -> PathShares | None:
    """What held the run; None where _known says why not."""
    return _known(trace, comm_names)[0]


def why_not_told(trace: Trace, comm_names: str | None = None) -> str:
    """Why a trace with device ops has no critical path in its picture, or no gains, in a sentence; "" where it has."""
    return _known(trace, comm_names)[1]


@once_per_trace
def _known(trace: Trace, comm_names: str | None = None) -> tuple[PathShares | None, str]:
    """What held the run, and why that or what a change would gain is not told.

    Nothing is worked out where the record is too large, see in_passing, or leaves too much unexplained, and for a
    prediction, whose own path its replay knows.
    """
    if not len(trace.ops) or trace.meta.predicted:
        return None, ""
    if not in_passing(trace):
        return (
            None,
            "of so large a record t.critical_path() and t.what_if() give the critical path and gains when asked",
        )
    graph = graph_of(trace)
    if why := unreadable(graph):
        return None, f"the critical path and gains are not known: {why}"
    why = refusal(graph)
    return shares_of(
        critical_path(graph, comm_names=comm_names), comm_names
    ), f"gains are not known: {why}" if why else ""


def shares_of(path: CriticalPath, comm_names: str | None = None) -> PathShares:
    """The kinds of a path by length."""
    number = kinds_of(path, comm_names)
    shares, row = by_length(number, path.length_ns, [PathShare(words, 0) for words in KIND_WORDS], SMALL_FRAC)
    return PathShares(shares, path, row)


def by_length(
    number: Int64, length_ns: Int64, kinds: Sequence[PathShare], small_frac: float
) -> tuple[tuple[PathShare, ...], Int64]:
    """The kinds of some parts, the longest first, with their lengths, and of each part its row of these.

    number: of each part its kind.  small_frac: of the sum: kinds of less are together "other", behind the rest.
    """
    sums = np.zeros(len(kinds), np.int64)
    np.add.at(sums, number, length_ns)
    order = [i for i in np.argsort(-sums, kind="stable").tolist() if sums[i]]
    large = [i for i in order if sums[i] >= small_frac * sums.sum()]
    shares = [replace(kinds[i], ns=int(sums[i])) for i in large]
    row = np.full(len(kinds), len(large), np.int64)
    row[large] = np.arange(len(large))
    if len(order) > len(large):
        shares.append(PathShare(OTHER, int(sums.sum()) - sum(share.ns for share in shares)))
    return tuple(shares), row[number]


def kinds_of(path: CriticalPath, comm_names: str | None) -> Int64:
    """The kind of each part: its place in KIND_WORDS."""
    number = np.zeros(len(path), np.int64)
    for i, (_, held) in enumerate(_KINDS):
        number[np.isin(path.held, held)] = i
    classes = op_classes(path.trace, comm_names)
    of_op = np.isin(path.held, (Held.COMPUTE, Held.COPY))
    for i, op_class in enumerate(CLASS_WORDS, len(_KINDS)):
        number[of_op] = np.where(classes[path.op[of_op]] == op_class, i, number[of_op])
    return number

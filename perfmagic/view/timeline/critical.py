"""The critical path as every face shows it: one bar, and the same in words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perfmagic import units
from perfmagic.analysis.replay.path_shares import PathShare, path_shares, shared_path
from perfmagic.trace.columns import NONE
from perfmagic.trace.model import Trace
from perfmagic.view.timeline.lanes import PathLane, Share

TITLE = "critical path"
WORDS = 4  # kinds that a line of text names
# the colour of each kind; what is not here is neither Python's nor a device's: "rule"
_TOKENS = {
    "Python": "host1",
    "launches and calls": "launch",
    "matrix kernels": "matrix",
    "other kernels": "comp",
    "communication": "comm",
    "HtoD copies": "htod",
    "DtoH copies": "dtoh",
    "DtoD copies": "dtod",
    "PtoP copies": "dtod",
    "memsets": "memset",
    "unexplained": "wait",
}


def critical_path_shares(trace: Trace, comm_names: str | None = None) -> tuple[Share, ...]:
    """The kinds of the path by length, with their colours; empty where the record does not say."""
    return as_shares(path_shares(trace, comm_names))


def path_lane(trace: Trace, comm_names: str | None = None) -> PathLane | None:
    """The path in time, neighbours of one kind on one stream as one part; None where the record does not say."""
    found = shared_path(trace, comm_names)
    if found is None or not len(found.share):
        return None
    path = found.path
    # between ops of one stream a part may be another op's: to a reader it is the same part
    device = np.where(path.op == NONE, NONE, trace.ops.device[path.op])
    stream = np.where(path.op == NONE, NONE, trace.ops.stream[path.op])
    key = np.column_stack((found.share, device, stream))
    first = np.concatenate(([True], (key[1:] != key[:-1]).any(axis=1)))
    begins = np.flatnonzero(first)
    end_ns = path.end_ns[np.append(begins[1:], len(key)) - 1]
    return PathLane(path.start_ns[begins], end_ns, found.share[begins], path.op[begins])


def as_shares(path: Sequence[PathShare]) -> tuple[Share, ...]:
    """Parts of a path with their colours."""
    return tuple(Share(share.words, share.ns, _TOKENS.get(share.name, "rule")) for share in path)


def path_words(shares: Sequence[Share]) -> str:
    """The path in a line: "critical path: Python 57 %, other kernels 40 %"; "" without one."""
    run_ns = sum(share.ns for share in shares)
    if not run_ns:
        return ""
    named = [f"{share.name} {units.percent(share.ns / run_ns)}" for share in shares[:WORDS]]
    return f"{TITLE}: {', '.join(named)}"
